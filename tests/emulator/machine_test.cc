// The machine around the kernels: repeatability, host threads, exceptions, limits, kernels compiled on demand.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <thread>

#include "emulator/library/compile.h"
#include "emulator/library/store.h"
#include "pipeline.h"
#include "product.h"

namespace foretile::emulator_tests {

using namespace emulator;

namespace {

TEST(Machine, ASeedRepeatsARunExactly) {
  for (const Options& o : every_mode(11)) {
    Pipeline p;
    const Report first = p.run(Break::one_warp_waits_full, o), second = p.run(Break::one_warp_waits_full, o);
    EXPECT_EQ(first.text(), second.text()) << mode_name(o);
    EXPECT_EQ(first.counters.switches, second.counters.switches) << mode_name(o);
    EXPECT_FALSE(first.clean());
  }
}

TEST(Machine, SeedsGiveDifferentSchedules) {
  std::vector<u64> switches;
  for (u64 seed = 0; seed < 4; ++seed) switches.push_back(Pipeline().run(Break::nothing, {.async = Async::random, .scheduling = Scheduling::random, .seed = seed}).counters.switches);
  EXPECT_FALSE(switches[0] == switches[1] && switches[1] == switches[2] && switches[2] == switches[3]);
}

TEST(Machine, SeveralHostThreadsAtOnce) {
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < results.size(); ++i)
    threads.emplace_back([&results, i] {
      for (u64 round = 0; round < 3; ++round) {
        Pipeline p;
        const Report r = p.run(Break::nothing, {.async = Async::random, .scheduling = Scheduling::random, .seed = i * 10 + round});
        results[i] += r.clean() && p.wrong() == 0 ? "ok " : r.text();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& r : results) EXPECT_EQ(r, "ok ok ok ");
}

struct Counted {
  static inline int alive = 0;
  Counted() { ++alive; }
  ~Counted() { --alive; }
};

// Whatever ends a run, every stack is unwound.
TEST(Machine, DeadlocksAndExceptionsUnwindEveryThread) {
  const Report r = emulate(one_block(64), [] {
    const Counted c;
    init_barriers({{0, 65}});
    mbarrier_wait(barrier_at(0), 0);
  }, {});
  EXPECT_TRUE(r.has("deadlock"));
  EXPECT_EQ(Counted::alive, 0);
  EXPECT_THROW(emulate(one_block(64), [] {
    const Counted c;
    sync_block();
    if (thread_index() == 40) throw std::runtime_error("a kernel's own");
    sync_block();
  }, {}), std::runtime_error);
  EXPECT_EQ(Counted::alive, 0);
  EXPECT_TRUE(emulate(one_block(64), [] { sync_block(); }, {}).clean());  // and the next run is not disturbed
}

TEST(Machine, VocabularyOutsideOfARunIsRefused) { EXPECT_THROW(thread_index(), std::logic_error); }

TEST(Machine, ImpossibleLaunchesAreRefused) {
  const auto refused = [](auto change) {
    LaunchShape s = one_block(64);
    change(s);
    EXPECT_THROW(emulate(s, [] {}, {}), std::invalid_argument);
  };
  refused([](LaunchShape& s) { s.threads = 0; });
  refused([](LaunchShape& s) { s.threads = 48; });
  refused([](LaunchShape& s) { s.threads = 2048; });
  refused([](LaunchShape& s) { s.blocks = 0; });
  refused([](LaunchShape& s) { s.blocks = 3, s.cluster = 2; });
  refused([](LaunchShape& s) { s.shared_bytes = 228 * 1024; });
  refused([](LaunchShape& s) { s.threads = 512, s.registers = 168; });
}

TEST(Machine, BlocksBeyondTheResidentOnesFollow) {
  LaunchShape shape = one_block(32);
  shape.blocks = 9;
  std::vector<int> ran(9);
  Options o;
  o.resident_blocks = 2;
  EXPECT_TRUE(emulate(shape, [&] { if (thread_index() == 0) ++ran[block_index().x]; }, {}, o).clean());
  EXPECT_EQ(ran, std::vector<int>(9, 1));
}

TEST(Machine, CallSitesAreListedForMutation) {
  const Report r = Pipeline().run(Break::nothing, {});
  int waits = 0;
  for (const CallSite& c : r.calls) {
    waits += c.call == "mbarrier_wait";
    EXPECT_GT(c.executions, 0u);
    const std::string file = c.site.file;
    EXPECT_EQ(file.substr(file.rfind('/') + 1), "pipeline.h") << c.call;
  }
  EXPECT_EQ(waits, 2);
}

TEST(Machine, TooManyFindingsStopTheRun) {
  const Report r = emulate(one_block(32), [] {
    for (u32 i = 0; i < 1000; ++i) {
      const std::string file(i + 1, 'x');  // as many call sites as there are names
      static std::deque<std::string> names;
      names.push_back(file);
      load_shared<u32>(shared_base() + 4 * (i % 1024), Site{names.back().c_str(), int(i)});
    }
  }, {});
  EXPECT_TRUE(r.has("stopped"));
  EXPECT_LE(r.findings.size(), 51u);
}

// ---- kernels outside of the catalogue --------------------------------------------------------------------

class OnDemand : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"XDG_CACHE_HOME", "FORETILE_CACHE", "FORETILE_CXX", "PATH", "TMPDIR"})
      if (const char* value = std::getenv(name)) before_[name] = value;
    cache_ = std::filesystem::temp_directory_path() / ("foretile-emulator-test-" + std::to_string(getpid()));
    setenv("XDG_CACHE_HOME", cache_.c_str(), 1);
    unsetenv("FORETILE_CACHE");
    temporary_ = cache_.string() + "-temporary";  // where kernels go that the cache does not take
    std::filesystem::create_directories(temporary_);
    setenv("TMPDIR", temporary_.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(cache_), std::filesystem::remove_all(temporary_);
    for (const char* name : {"XDG_CACHE_HOME", "FORETILE_CACHE", "FORETILE_CXX", "TMPDIR"}) unsetenv(name);
    for (const auto& [name, value] : before_) setenv(name, value.c_str(), 1);
  }
  // In a process of its own: one that has nothing loaded yet, and holds on to no file.
  static bool compiles(const Operation& o, const Configuration& c) {
    const pid_t child = fork();
    if (child == 0) _exit(compile_kernel(o, c) ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    return status == 0;
  }

  std::filesystem::path cache_, temporary_;
  std::map<const char*, std::string> before_;  // of the environment
};

TEST_F(OnDemand, AConfigurationOutsideOfTheCatalogueRuns) {
  const Configuration c{.family = Family::simt, .tile_m = 16, .tile_n = 64, .tile_k = 8, .thread_m = 4, .thread_n = 4};
  Operation o = {.a = DType::fp16, .b = DType::fp32, .d = DType::bf16, .has_bias = true, .bias = DType::fp16, .activation = Activation::silu};
  for (const BuiltIn& k : built_in_kernels()) ASSERT_FALSE(k.configuration == c);
  reference::GemmDataOptions d;
  d.a.pointer_offset = d.d.pointer_offset = 1;
  EXPECT_EQ(run_product(o, c, {.m = 21, .n = 70, .k = 13}, d, {}).failure(), "");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache_ / "foretile" / "emulator"), std::filesystem::directory_iterator{}), 1);
}

TEST_F(OnDemand, ADamagedFileIsCompiledAnew) {
  const Operation o = catalogue::unaligned(catalogue::product(DType::fp32, DType::fp32));
  const Configuration c{.family = Family::simt, .tile_m = 16, .tile_n = 96, .tile_k = 8, .thread_m = 4, .thread_n = 4};
  ASSERT_TRUE(compiles(o, c));
  const std::filesystem::path file = std::filesystem::directory_iterator(cache_ / "foretile" / "emulator")->path();
  const auto whole = std::filesystem::file_size(file);
  for (const auto size : {whole - 1, whole / 2, std::uintmax_t(5000), std::uintmax_t(0)}) {
    std::filesystem::resize_file(file, size);
    EXPECT_TRUE(compiles(o, c)) << size << " of " << whole << " bytes";
    EXPECT_EQ(std::filesystem::file_size(file), whole) << size;
  }
}

// Killed in the middle of a compilation: what it leaves is listed and cleared, but not while it lives.
TEST_F(OnDemand, WhatAKilledProcessLeavesIsListedAndCleared) {
  const std::filesystem::path compiler = cache_ / "compiler", started = cache_ / "started";
  std::filesystem::create_directories(cache_);
  std::ofstream(compiler) << "#!/bin/sh\ntouch " << started.string() << "\nsleep 60\n";
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  const Operation o = catalogue::unaligned(catalogue::product(DType::fp32, DType::fp32));
  const Configuration c{.family = Family::simt, .tile_m = 16, .tile_n = 32, .tile_k = 8, .thread_m = 4, .thread_n = 4};
  const pid_t child = fork();
  if (child == 0) {
    setenv("FORETILE_CXX", compiler.c_str(), 1);
    setpgid(0, 0);
    compile_kernel(o, c);
    _exit(0);
  }
  while (!std::filesystem::exists(started)) usleep(1000);
  EXPECT_TRUE(stored_kernels("").empty());  // under way
  kill(-child, SIGKILL);
  waitpid(child, nullptr, 0);
  const std::vector<StoredKernel> left = stored_kernels("");
  ASSERT_EQ(left.size(), 2u);  // its source and the compiler's messages
  for (const StoredKernel& k : left) EXPECT_EQ(k.state, StoredKernel::State::abandoned);
  EXPECT_EQ(clear_stored_kernels("", true), 2);
  EXPECT_TRUE(std::filesystem::is_empty(cache_ / "foretile" / "emulator"));
}

TEST_F(OnDemand, StoredKernelsAreCurrentStaleOrDamaged) {
  const Operation o = catalogue::unaligned(catalogue::product(DType::fp32, DType::fp32));
  const Configuration c{.family = Family::simt, .tile_m = 16, .tile_n = 64, .tile_k = 4, .thread_m = 4, .thread_n = 4};
  ASSERT_TRUE(compiles(o, c));
  const std::string environment = compile_environment();
  std::vector<StoredKernel> list = stored_kernels(environment);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].label, "fp32xfp32->fp32:nt:any:any | simt:16x64x4:t4x4");
  EXPECT_EQ(list[0].state, StoredKernel::State::current);
  EXPECT_EQ(stored_kernels("0123456789abcdef")[0].state, StoredKernel::State::stale);
  EXPECT_EQ(clear_stored_kernels(environment, true), 0);
  const std::filesystem::path folder = cache_ / "foretile" / "emulator";
  std::ofstream(folder / "somebody's.txt") << "not ours";
  std::filesystem::resize_file(folder / list[0].file, 100);
  EXPECT_EQ(stored_kernels(environment)[0].state, StoredKernel::State::damaged);
  EXPECT_EQ(clear_stored_kernels(environment, false), 1);
  EXPECT_TRUE(std::filesystem::exists(folder / "somebody's.txt"));
}

TEST_F(OnDemand, WithoutAHomeTheFolderMustBeThisUsersAlone) {
  const Operation o = catalogue::unaligned(catalogue::product(DType::fp32, DType::fp32));
  const Configuration c{.family = Family::simt, .tile_m = 16, .tile_n = 128, .tile_k = 8, .thread_m = 4, .thread_n = 4};
  const std::filesystem::path folder = cache_ / fmt::format("foretile-emulator-{}", getuid());
  std::filesystem::create_directories(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  const pid_t child = fork();
  if (child == 0) {
    unsetenv("HOME"), unsetenv("XDG_CACHE_HOME"), setenv("TMPDIR", cache_.c_str(), 1);
    try {
      compile_kernel(o, c);
    } catch (const std::runtime_error& e) {
      _exit(std::string(e.what()).find("this user alone") != std::string::npos ? 0 : 2);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(OnDemand, AnUnusableCacheIsSaidOnce) {
  std::filesystem::create_directories(cache_);
  std::ofstream(cache_ / "file") << "not a folder";
  setenv("FORETILE_CACHE", (cache_ / "file").c_str(), 1);
  const Operation o = catalogue::unaligned(catalogue::product(DType::fp32, DType::fp32));
  testing::internal::CaptureStderr();
  for (const int n : {32, 64}) EXPECT_TRUE(compile_kernel(o, {.family = Family::simt, .tile_m = 16, .tile_n = n, .tile_k = 16, .thread_m = 4, .thread_n = 4}));
  const std::string folder = temporary_ / fmt::format("foretile-emulator-{}", getuid());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), fmt::format("foretile: kernels compiled for the emulator are kept in {}: FORETILE_CACHE: cannot create {}/emulator: Not a directory\n", folder, (cache_ / "file").string()));
  std::vector<StoredKernel> list = stored_kernels("");
  ASSERT_EQ(list.size(), 2u);
  for (const StoredKernel& k : list) EXPECT_EQ(k.folder, folder);
  EXPECT_EQ(clear_stored_kernels("", false), 2);
}

// What compile_kernel() says when it cannot; empty when it can.
std::string refusal_of(const Configuration& c) {
  try {
    compile_kernel(catalogue::unaligned(catalogue::product(DType::fp32, DType::fp32)), c);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return {};
}

TEST_F(OnDemand, WithoutACompilerItIsRefusedByName) {
  const Configuration c{.family = Family::simt, .tile_m = 16, .tile_n = 32, .tile_k = 8, .thread_m = 4, .thread_n = 4};
  setenv("PATH", "/nowhere", 1);
  unsetenv("FORETILE_CXX");
  const std::string message = refusal_of(c);
  EXPECT_NE(message.find("FORETILE_CXX"), std::string::npos) << message;
}

TEST_F(OnDemand, ACompilerAskedForIsNotReplacedByAnother) {
  const Configuration c{.family = Family::simt, .tile_m = 16, .tile_n = 32, .tile_k = 4, .thread_m = 4, .thread_n = 4};
  setenv("FORETILE_CXX", "/nonexistent/compiler", 1);
  const std::string message = refusal_of(c);
  EXPECT_NE(message.find("FORETILE_CXX names /nonexistent/compiler"), std::string::npos) << message;
}

TEST_F(OnDemand, ACompilerThatFailsIsQuoted) {
  const Configuration c{.family = Family::simt, .tile_m = 16, .tile_n = 32, .tile_k = 4, .thread_m = 4, .thread_n = 4};
  setenv("FORETILE_CXX", "/bin/false", 1);
  const std::string message = refusal_of(c);
  EXPECT_NE(message.find("/bin/false"), std::string::npos) << message;
  EXPECT_TRUE(std::filesystem::is_empty(cache_ / "foretile" / "emulator"));
}

TEST(Products, BadRequestsAreRefusedByName) {
  const Operation o = catalogue::product(DType::bf16, DType::bf16);
  const Configuration c = catalogue::coop(128, 128, 6, 2);
  const auto refused = [&](const Operation& operation, const Configuration& configuration, const Problem& p, const char* words) {
    GemmRun run{operation, configuration, p, {}, {}, 4};
    alignas(16) static char memory[64];
    run.operands.a = run.operands.b = run.operands.epilogue.d = {memory, 64, 0};
    try {
      emulate_gemm(run);
    } catch (const std::invalid_argument& e) {
      return std::string(e.what()).find(words) != std::string::npos ? testing::AssertionSuccess() : testing::AssertionFailure() << e.what();
    }
    return testing::AssertionFailure() << "accepted";
  };
  EXPECT_TRUE(refused(o, c, {.m = -1, .n = 8, .k = 8}, "negative"));
  EXPECT_TRUE(refused(o, c, {.m = 8, .n = 8, .k = 0}, "K = 0"));
  EXPECT_TRUE(refused(catalogue::product(DType::fp32, DType::fp32), c, {.m = 8, .n = 8, .k = 8}, "sm90"));
  EXPECT_EQ(emulate_gemm({o, c, {.m = 0, .n = 8, .k = 8}, {}, {}, 4}).text(), "no findings");
}

}  // namespace
}  // namespace foretile::emulator_tests
