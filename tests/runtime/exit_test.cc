// B85: however a process ends after a product, its exit code is its own and standard error stays empty.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/kernel_store.h"
#include "support.h"

namespace foretile::test {
namespace {

struct Ended {
  int code;
  std::string errors;
  std::string output;
};

// This program again, running one disabled test below in a process of its own.
Ended run_self(const std::string& test, const std::string& mode, std::vector<std::pair<std::string, std::string>> environment = {}) {
  int out[2], err[2];
  if (pipe(out) || pipe(err)) return {-1, "pipe", ""};
  const pid_t child = fork();
  if (child == 0) {
    dup2(out[1], STDOUT_FILENO), dup2(err[1], STDERR_FILENO);
    for (const int fd : {out[0], out[1], err[0], err[1]}) close(fd);
    setenv("FORETILE_TEST_MODE", mode.c_str(), 1);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    const std::string filter = "--gtest_filter=Child.DISABLED_" + test;
    execl("/proc/self/exe", "foretile_test_runtime", filter.c_str(), "--gtest_also_run_disabled_tests", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(out[1]), close(err[1]);
  Ended ended{};
  char buffer[4096];
  for (ssize_t n; (n = read(out[0], buffer, sizeof buffer)) > 0;) ended.output.append(buffer, std::size_t(n));
  for (ssize_t n; (n = read(err[0], buffer, sizeof buffer)) > 0;) ended.errors.append(buffer, std::size_t(n));
  close(out[0]), close(err[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return ended;
}

class Child : public FakeGpu {};

TEST_F(Child, DISABLED_OneProduct) {
  const std::string mode = std::getenv("FORETILE_TEST_MODE") ? std::getenv("FORETILE_TEST_MODE") : "";
  if (!matmul(product(256, 256, 256))) std::exit(50);
  if (mode == "exit") std::exit(7);
  if (mode == "_exit") _exit(7);
  if (mode == "quick_exit") std::quick_exit(7);
  if (mode == "fork") std::exit(in_child([] { std::exit(7); return 0; }));
}

TEST(Exit, B85_CodeAndSilenceAreTheProcesssOwn) {
  for (const char* mode : {"exit", "_exit", "quick_exit", "fork"}) {
    const Ended ended = run_self("OneProduct", mode);
    EXPECT_EQ(ended.code, 7) << mode << "\n" << ended.output;
    EXPECT_EQ(ended.errors, "") << mode;
  }
  const Ended ended = run_self("OneProduct", "return");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(ended.errors, "");
}

TEST_F(Child, DISABLED_CountCompiles) {
  if (!matmul(product(256, 256, 256))) std::exit(50);
  const StoreCounts counts = KernelStore::process().counts();
  void* const compiler = dlopen(std::getenv("FORETILE_NVRTC"), RTLD_NOW | RTLD_NOLOAD);
  std::exit(counts.compiled == 1 && counts.from_disk == 0 ? 1 : counts.compiled == 0 && counts.from_disk == 1 ? (compiler ? 3 : 2) : 51);
}

TEST(Exit, ASecondProcessCompilesNothingAndLoadsNoCompiler) {
  TemporaryFolder cache, elsewhere;
  // The compiler as a file of its own, so that it shows whether it is loaded.
  const std::string compiler = elsewhere.path() + "/libnvrtc.so.13";
  ASSERT_EQ(std::system(("cp '" FORETILE_FAKE_CUDA "' " + compiler).c_str()), 0);
  const std::vector<std::pair<std::string, std::string>> environment{{"FORETILE_TEST_KEEP_ENVIRONMENT", "1"}, {"FORETILE_CACHE", cache.path()}, {"FORETILE_NVRTC", compiler}, {"FORETILE_LIBCUDA", FORETILE_FAKE_CUDA}};
  EXPECT_EQ(run_self("CountCompiles", "", environment).code, 1);
  EXPECT_EQ(run_self("CountCompiles", "", environment).code, 2);
}

TEST_F(Child, DISABLED_WithoutADriver) {
  const Status s = matmul(product(256, 256, 256));
  std::printf("%s\n", s.message().c_str());
  Matmul bad = product(256, 256, 256);
  bad.a.data = nullptr;
  const bool arguments_first = matmul(bad).code() == Code::invalid_argument, empty_is_fine = matmul(product(0, 8, 8)).ok();
  std::exit(s.code() == Code::no_driver && arguments_first && empty_is_fine ? 7 : 51);
}

TEST(Exit, WithoutADriverTheErrorSaysSo) {
  for (const char* file : {"/nonexistent/libcuda.so.1", "libdl.so.2"}) {
    const Ended ended = run_self("WithoutADriver", "", {{"FORETILE_TEST_KEEP_ENVIRONMENT", "1"}, {"FORETILE_LIBCUDA", file}});
    EXPECT_EQ(ended.code, 7) << ended.output << ended.errors;
    EXPECT_THAT(ended.output, ::testing::HasSubstr(std::string(file).substr(0, 5)));
  }
}

}  // namespace
}  // namespace foretile::test
