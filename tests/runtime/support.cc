#include "support.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>

namespace {
thread_local unsigned long long allocation_count = 0;
}
// Counted so that a test can show that the hot path allocates nothing.
void* operator new(std::size_t bytes) {
  ++allocation_count;
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  ++allocation_count;
  const std::size_t a = std::size_t(alignment);
  if (void* p = std::aligned_alloc(a, (bytes + a - 1) / a * a)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace foretile::test {

namespace {

struct Library {
  void* handle;
  TemporaryFolder cache;
  Library() {
    handle = dlopen(FORETILE_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    if (!handle) std::fprintf(stderr, "%s\n", dlerror()), std::abort();
    if (std::getenv("FORETILE_TEST_KEEP_ENVIRONMENT")) return;  // a child of a test that set its own
    setenv("FORETILE_LIBCUDA", FORETILE_FAKE_CUDA, 1);
    setenv("FORETILE_NVRTC", FORETILE_FAKE_CUDA, 1);
    setenv("FORETILE_CACHE", cache.path().c_str(), 1);
  }
  template <class F> F* symbol(const char* name) const {
    void* p = dlsym(handle, name);
    if (!p) std::fprintf(stderr, "%s\n", dlerror()), std::abort();
    return reinterpret_cast<F*>(p);
  }
};
Library& library() {
  static Library l;
  return l;
}
const bool loaded_at_start = (library(), true);

}  // namespace

fake::Control& fake_cuda() { return *library().symbol<fake::Control*()>("fake_control")(); }
fake::Context* primary(int device) { return library().symbol<fake::Context*(int)>("fake_primary")(device); }
fake::Context* new_context(int device) { return library().symbol<fake::Context*(int)>("fake_new_context")(device); }
fake::Stream* new_stream(fake::Context* c) { return library().symbol<fake::Stream*(fake::Context*)>("fake_new_stream")(c); }
void set_current(fake::Context* c) { library().symbol<void(fake::Context*)>("fake_set_current")(c); }
fake::Context* current() { return library().symbol<fake::Context*()>("fake_current")(); }

void FakeGpu::SetUp() {
  fake::Control& c = fake_cuda();
  c.launches.clear();
  c.launch_count = c.encodes = c.replaces = c.modules = c.compiles = c.pushes = c.pops = 0;
  c.fail_times = 0, c.compile_fails = false, c.compile_milliseconds = 0, c.record = true;
  c.compile_log.clear();
  set_current(primary(0));
}

void* address(int i) { return reinterpret_cast<void*>((std::size_t(i) + 1) << 44); }

Matmul product(i64 m, i64 n, i64 k) {
  Matmul call;
  call.m = m, call.n = n, call.k = k;
  call.a = {address(0), DType::bf16};
  call.b = {address(1), DType::bf16};
  call.d = {address(2), DType::bf16};
  return call;
}

fake::Launch launch_of(const Matmul& call) {
  fake::Control& c = fake_cuda();
  c.launches.clear();
  const Status status = matmul(call);
  EXPECT_TRUE(status) << status.message();
  EXPECT_EQ(c.launches.size(), 1u);
  return c.launches.empty() ? fake::Launch{} : c.launches[0];
}
bool is_hopper(const fake::Launch& launch) { return launch.image.find("gemm_sm90") != std::string::npos || launch.image.find("gemm_decode") != std::string::npos; }
fake::EncodedMap map_of(const TensorMap& map) {
  fake::EncodedMap e;
  std::memcpy(&e, &map, sizeof e);
  return e;
}

TemporaryFolder::TemporaryFolder() {
  char name[] = "/tmp/foretile-test-XXXXXX";
  if (!mkdtemp(name)) std::perror("mkdtemp"), std::abort();
  path_ = name;
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
  std::filesystem::remove_all(path_, ignored);
}

int in_child(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

unsigned long long allocations() { return allocation_count; }

}  // namespace foretile::test
