// The cache on disk: what it keeps, what it refuses to trust, many processes at once, folders that cannot be written.
#include "runtime/cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "foretile/device/catalogue.h"
#include "runtime/digest.h"
#include "runtime/kernel_store.h"
#include "runtime/source.h"
#include "support.h"

namespace foretile::test {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

const Operation kOperation = catalogue::product(DType::bf16, DType::bf16);
const Configuration kFirst = catalogue::coop(128, 256, 4, 2), kSecond = catalogue::coop(128, 256, 3, 2);

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}
void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

bool computes(const Configuration& c) { return c.family == Family::sm90 && !why_not(kOperation, c); }

// A process that starts anew: a store of its own over the folder.
struct Fresh {
  DiskCache disk;
  KernelStore store;
  explicit Fresh(const std::string& folder) : disk({folder, "FORETILE_CACHE"}), store(disk) {}
  Status get(const Configuration& c = kFirst) {
    std::shared_ptr<const CompiledKernel> kernel;
    Status s = store.compiled(kOperation, c, "sm_90a", kernel);
    if (s && kernel->cubin.rfind("fake sm_90a gemm_sm90", 0) != 0) return {Code::internal_error, "wrong code"};
    return s;
  }
  // Where the kernel came from.
  std::string source(const Configuration& c = kFirst) {
    const StoreCounts before = store.counts();
    if (Status s = get(c); !s) return s.message();
    const StoreCounts after = store.counts();
    return after.compiled > before.compiled ? "compiler" : after.from_disk > before.from_disk ? "disk" : "memory";
  }
};

class Cache : public FakeGpu {
 protected:
  std::string entry_path() const { return folder.path() + "/" + cache_key(kOperation, kFirst, "sm_90a") + ".kernel"; }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& item : fs::directory_iterator(folder.path())) names.push_back(item.path().filename());
    return names;
  }
  TemporaryFolder folder;
};

TEST_F(Cache, Digest) {  // FIPS 180-4, examples
  EXPECT_EQ(digest_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest_of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_F(Cache, ASecondProcessCompilesNothing) {
  EXPECT_EQ(Fresh(folder.path()).source(), "compiler");
  Fresh second(folder.path());
  const int compiles = fake_cuda().compiles;
  EXPECT_EQ(second.source(), "disk");
  EXPECT_EQ(second.source(), "memory");
  EXPECT_EQ(fake_cuda().compiles, compiles);
  EXPECT_EQ(Fresh(folder.path()).source(kSecond), "compiler");  // another configuration is another kernel
  // The generated source lies beside the code.
  const std::string key = cache_key(kOperation, kFirst, "sm_90a");
  EXPECT_EQ(read(folder.path() + "/" + key + ".cu"), translation_unit(kOperation, kFirst));
  EXPECT_EQ(files().size(), 4u);
}

TEST_F(Cache, ThreadsShareOneCompile) {
  fake_cuda().compile_milliseconds = 100;
  Fresh process(folder.path());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { EXPECT_TRUE(process.get()); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(process.store.counts().compiled, 1u);
}

TEST_F(Cache, KeysDifferInEveryField) {
  std::vector<std::string> keys{cache_key(kOperation, kFirst, "sm_90a"), cache_key(kOperation, kFirst, "sm_90")};
  for (const auto change : std::initializer_list<void (*)(Operation&)>{
           [](Operation& o) { o.a = DType::fp16; }, [](Operation& o) { o.b = DType::fp16; }, [](Operation& o) { o.d = DType::fp32; },
           [](Operation& o) { o.transpose_a = true; }, [](Operation& o) { o.transpose_b = true; }, [](Operation& o) { o.inputs = Alignment::any; },
           [](Operation& o) { o.output = Alignment::any; }, [](Operation& o) { o.has_c = true; }, [](Operation& o) { o.has_c = true, o.c = DType::fp32; },
           [](Operation& o) { o.has_bias = true; }, [](Operation& o) { o.has_bias = true, o.bias = DType::fp32; }, [](Operation& o) { o.has_residual = true; },
           [](Operation& o) { o.has_residual = true, o.residual = DType::fp32; }, [](Operation& o) { o.activation = Activation::silu; }}) {
    Operation o = kOperation;
    change(o);
    keys.push_back(cache_key(o, kFirst, "sm_90a"));
  }
  for (int Configuration::*field : {&Configuration::tile_m, &Configuration::tile_n, &Configuration::tile_k, &Configuration::stages, &Configuration::cluster_m,
                                    &Configuration::cluster_n, &Configuration::store_buffers, &Configuration::thread_m, &Configuration::thread_n}) {
    Configuration c = kFirst;
    c.*field += 8;
    keys.push_back(cache_key(kOperation, c, "sm_90a"));
  }
  Configuration c = kFirst;
  c.schedule = Schedule::pingpong;
  keys.push_back(cache_key(kOperation, c, "sm_90a"));
  c = catalogue::simt(32, 32, 16, 4, 4);
  keys.push_back(cache_key(kOperation, c, "sm_90a"));
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
  // What does not reach the code shares it.
  Operation absent = kOperation;
  absent.bias = DType::fp32;
  EXPECT_EQ(cache_key(absent, kFirst, "sm_90a"), cache_key(kOperation, kFirst, "sm_90a"));
}

TEST_F(Cache, EntriesComeBackAsTheyWere) {
  CacheEntry e{{std::string("\0\n\xff code", 8), 168, 0, "libnvrtc.so.13.0.88 (1 bytes)", "-a -b", 0.25}, std::string(32, 'a'), "op", "config", "sm_90a", "digest"};
  const std::optional<CacheEntry> back = deserialize(serialize(e));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kernel.cubin, e.kernel.cubin);
  EXPECT_EQ(back->kernel.registers, 168);
  EXPECT_EQ(back->kernel.compiler, e.kernel.compiler);
  EXPECT_EQ(back->kernel.seconds, 0.25);
  EXPECT_EQ(back->sources, "digest");
}

TEST_F(Cache, NoDamagedByteIsTrusted) {
  ASSERT_TRUE(Fresh(folder.path()).get());
  const std::string good = read(entry_path());
  ASSERT_TRUE(deserialize(good));
  for (std::size_t i = 0; i < good.size(); i += 1 + i / 200) {
    std::string bad = good;
    bad[i] = char(bad[i] ^ 0x20);
    EXPECT_FALSE(deserialize(bad)) << "byte " << i;
  }
  for (const std::size_t length : {std::size_t(0), std::size_t(10), good.size() / 2, good.size() - 1}) EXPECT_FALSE(deserialize(good.substr(0, length)));
  EXPECT_FALSE(deserialize(good + "x"));
}

TEST_F(Cache, DamagedAndForeignEntriesAreCompiledAnew) {
  ASSERT_TRUE(Fresh(folder.path()).get());
  ASSERT_TRUE(Fresh(folder.path()).get(kSecond));
  const std::string good = read(entry_path());
  const std::string other = read(folder.path() + "/" + cache_key(kOperation, kSecond, "sm_90a") + ".kernel");
  for (const std::string& bad : {std::string(), good.substr(0, good.size() / 2), good + "tail", std::string("#!/bin/sh\n"), other}) {
    write(entry_path(), bad);
    EXPECT_EQ(Fresh(folder.path()).source(), "compiler");
    EXPECT_EQ(Fresh(folder.path()).source(), "disk");  // and is whole again
    const std::optional<CacheEntry> whole = deserialize(read(entry_path()));
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->kernel.cubin, deserialize(good)->kernel.cubin);
  }
  fs::remove(entry_path());
  fs::create_directory(entry_path());  // not a file at all, nor can it be replaced: in a process of its own, as it warns
  EXPECT_EQ(in_child([&] {
              const int null = open("/dev/null", O_WRONLY);
              dup2(null, STDERR_FILENO);
              return Fresh(folder.path()).source() == "compiler" ? 0 : 1;
            }),
            0);
}

TEST_F(Cache, AnotherCompilerOrOtherFlagsCompileAnewWhereThereIsACompiler) {
  ASSERT_TRUE(Fresh(folder.path()).get());
  std::optional<CacheEntry> e = deserialize(read(entry_path()));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->kernel.flags, compile_flags());
  EXPECT_EQ(e->kernel.compiler, nvrtc_identity(FORETILE_FAKE_CUDA));
  for (std::string CompiledKernel::*field : {&CompiledKernel::flags, &CompiledKernel::compiler}) {
    CacheEntry old = *e;
    old.kernel.*field = "older";
    write(entry_path(), serialize(old));
    setenv("FORETILE_NVRTC", "/nonexistent/libnvrtc.so", 1);
    EXPECT_EQ(Fresh(folder.path()).source(), "disk");
    setenv("FORETILE_NVRTC", FORETILE_FAKE_CUDA, 1);
    EXPECT_EQ(Fresh(folder.path()).source(), "compiler");
    EXPECT_EQ(Fresh(folder.path()).source(), "disk");
  }
}

TEST_F(Cache, WithoutACompilerAMissIsAClearError) {
  setenv("FORETILE_NVRTC", "/nonexistent/libnvrtc.so", 1);
  const Status s = Fresh(folder.path()).get();
  setenv("FORETILE_NVRTC", FORETILE_FAKE_CUDA, 1);
  EXPECT_EQ(s.code(), Code::no_compiler);
  EXPECT_THAT(s.message(), HasSubstr("sm90:128x256x64"));
  EXPECT_THAT(s.message(), HasSubstr("not in the cache"));
  EXPECT_THAT(s.message(), HasSubstr("/nonexistent/libnvrtc.so"));
}

// B82: processes forked from one and the same state write at once; names never collide, nothing half-written is seen.
TEST_F(Cache, B82_EightForkedProcessesAtOnce) {
  fake_cuda().compile_milliseconds = 20;  // all of them start before any has finished
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  TemporaryFolder elsewhere;
  const std::string complaints = elsewhere.path() + "/stderr";
  const int log = open(complaints.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      close(go[1]);
      dup2(log, STDERR_FILENO);
      char byte;
      [[maybe_unused]] const auto n = ::read(go[0], &byte, 1);  // until the parent closes its end
      int faults = 0;
      for (const Configuration& c : catalogue::kConfigurations)
        if (computes(c)) faults += !Fresh(folder.path()).get(c).ok();
      _exit(faults);
    }
    children.push_back(child);
  }
  close(go[0]), close(go[1]), close(log);
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read(complaints), "");  // a name that collides shows as a write that fails
  int entries = 0;
  for (const std::string& name : files()) {
    EXPECT_THAT(name, ::testing::Not(HasSubstr(".tmp")));
    entries += name.ends_with(".kernel");
  }
  EXPECT_EQ(entries, std::count_if(std::begin(catalogue::kConfigurations), std::end(catalogue::kConfigurations), computes));
  for (const Configuration& c : catalogue::kConfigurations)
    if (computes(c)) { EXPECT_EQ(Fresh(folder.path()).source(c), "disk"); }
}

// In a process of its own, whose standard error comes back: three kernels in a folder that cannot be written.
std::string warnings_of(const std::function<void()>& set_up, const std::string& folder) {
  int ends[2];
  if (pipe(ends) != 0) return "pipe";
  const int code = in_child([&] {
    dup2(ends[1], STDERR_FILENO);
    set_up();
    Fresh one(folder), two(folder);
    if (one.source() != "compiler" || one.source() != "memory") return 1;  // works, from memory
    if (one.source(kSecond) != "compiler" || two.source() != "compiler") return 2;
    return 0;
  });
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, std::size_t(n));
  close(ends[0]);
  EXPECT_EQ(code, 0) << text;
  return text;
}
void expect_one_warning(const std::string& text, const std::string& reason) {
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_THAT(text, HasSubstr("kept in memory only"));
  EXPECT_THAT(text, HasSubstr(reason));
}
// File permissions do not hold root back.
void become_nobody() {
  if (geteuid() == 0 && (setegid(65534) != 0 || seteuid(65534) != 0)) _exit(99);
}

TEST_F(Cache, AReadOnlyFolderFallsBackToMemoryWithOneWarning) {
  chmod(folder.path().c_str(), 0555);
  expect_one_warning(warnings_of(become_nobody, folder.path()), "FORETILE_CACHE: cannot write to " + folder.path() + ": Permission denied");
  expect_one_warning(warnings_of(become_nobody, folder.path() + "/below"), "Permission denied");
  chmod(folder.path().c_str(), 0755);
  EXPECT_TRUE(files().empty());
}

TEST_F(Cache, AReadOnlyFolderStillServesHitsWithoutAWord) {
  ASSERT_TRUE(Fresh(folder.path()).get());
  chmod(folder.path().c_str(), 0555);
  EXPECT_EQ(in_child([&] {
              become_nobody();
              return Fresh(folder.path()).source() == "disk" ? 0 : 1;
            }),
            0);
  chmod(folder.path().c_str(), 0755);
}

TEST_F(Cache, AMissingHomeFallsBackToMemoryWithOneWarning) {
  const auto in_environment = [&](const char* cache, const char* xdg, const char* home) {
    const std::string keep = getenv("FORETILE_CACHE"), old_home = getenv("HOME") ? getenv("HOME") : "", old_xdg = getenv("XDG_CACHE_HOME") ? getenv("XDG_CACHE_HOME") : "";
    const auto set = [](const char* name, const char* value) { value ? setenv(name, value, 1) : unsetenv(name); };
    set("FORETILE_CACHE", cache), set("XDG_CACHE_HOME", xdg), set("HOME", home);
    const std::string found = cache_home().folder;
    set("FORETILE_CACHE", keep.c_str()), set("HOME", old_home.empty() ? nullptr : old_home.c_str()), set("XDG_CACHE_HOME", old_xdg.empty() ? nullptr : old_xdg.c_str());
    return found;
  };
  EXPECT_EQ(in_environment("/a", "/b", "/c"), "/a");
  EXPECT_EQ(in_environment(nullptr, "/b", "/c"), "/b/foretile");
  EXPECT_EQ(in_environment(nullptr, "relative", "/c"), "/c/.cache/foretile");
  EXPECT_EQ(in_environment(nullptr, nullptr, "/c"), "/c/.cache/foretile");
  EXPECT_EQ(in_environment(nullptr, nullptr, nullptr), "");
  expect_one_warning(warnings_of([] {}, ""), "none of FORETILE_CACHE, XDG_CACHE_HOME and HOME is set");
}

TEST_F(Cache, AFullDiskFallsBackToMemoryWithOneWarning) {
  // A file-size limit stops the write half way, on any machine.
  expect_one_warning(warnings_of(
                         [] {
                           signal(SIGXFSZ, SIG_IGN);
                           const rlimit limit{100, 100};
                           setrlimit(RLIMIT_FSIZE, &limit);
                         },
                         folder.path()),
                     "File too large");
  EXPECT_TRUE(files().empty());  // no half-written file stays
}

TEST_F(Cache, AFullFileSystemFallsBackToMemoryWithOneWarning) {
  const std::string at = folder.path() + "/small";
  fs::create_directory(at);
  if (mount("none", at.c_str(), "tmpfs", 0, "size=4k,nr_inodes=16") != 0) GTEST_SKIP() << "no small file system can be mounted here";
  write(at + "/filler", std::string(4096, 'x'));
  const std::string text = warnings_of([] {}, at);
  umount(at.c_str());
  expect_one_warning(text, "No space left");
}

TEST_F(Cache, ListAndClearTouchOnlyTheCachesOwnFiles) {
  Fresh process(folder.path());
  ASSERT_TRUE(process.get());
  ASSERT_TRUE(process.get(kSecond));
  write(folder.path() + "/notes.txt", "mine");
  const std::string damaged = folder.path() + "/" + std::string(32, '0') + ".kernel";
  write(damaged, "not an entry");
  std::vector<DiskCache::Listed> all = process.disk.list();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_FALSE(all[0].entry);
  ASSERT_TRUE(all[1].entry && all[2].entry);
  EXPECT_THAT(all[1].entry->configuration, HasSubstr("sm90:128x256x64"));
  EXPECT_EQ(all[1].entry->sources, device_sources_digest());
  EXPECT_EQ(process.disk.clear(true), 1);  // the damaged one
  EXPECT_EQ(process.disk.list().size(), 2u);
  EXPECT_EQ(process.disk.clear(), 2);
  EXPECT_EQ(files(), std::vector<std::string>{"notes.txt"});
}

}  // namespace
}  // namespace foretile::test
