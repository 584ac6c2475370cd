// A driver and a compiler that run the benchmarks' helper kernels on the CPU: "device" memory is host memory, a "cubin" is
// CUDA source, loading one compiles it with the system's compiler. Kernels of the library itself are not run here (the
// emulator does that): verify() is given the product as a host function.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace {

const char* const kShim = R"SHIM(
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>
#include "foretile/device/types.h"
#define __device__
#define __global__
#define __launch_bounds__(...)
#define __shared__ static
// A block's threads are contexts that take turns. All threads of these kernels meet at every barrier and every shuffle, so a
// barrier is: let every other thread run up to it.
struct Dim { int x; };
static Dim threadIdx, blockIdx, blockDim, gridDim;
static std::vector<ucontext_t> contexts;
static void to_next() {
  const int me = threadIdx.x, next = (me + 1) % blockDim.x;
  threadIdx.x = next;
  swapcontext(&contexts[me], &contexts[next]);
}
static void __syncthreads() { to_next(); }
static unsigned long long slots[1024];
template <class T> static T __shfl_down_sync(unsigned, T v, int by) {
  std::memcpy(&slots[threadIdx.x], &v, sizeof v);
  to_next();
  if (threadIdx.x % 32 + by < 32) std::memcpy(&v, &slots[threadIdx.x + by], sizeof v);
  to_next();
  return v;
}
static void atomicAdd(unsigned long long* p, unsigned long long v) { *p += v; }
static void atomicMin(unsigned long long* p, unsigned long long v) { if (v < *p) *p = v; }
static void atomicMax(int* p, int v) { if (v > *p) *p = v; }
static float __uint_as_float(unsigned u) { float f; std::memcpy(&f, &u, 4); return f; }
static float __int_as_float(int u) { float f; std::memcpy(&f, &u, 4); return f; }
static unsigned __float_as_uint(float f) { unsigned u; std::memcpy(&u, &f, 4); return u; }
static int __float_as_int(float f) { int u; std::memcpy(&u, &f, 4); return u; }
static float __double2float_ru(double x) { float f = float(x); return double(f) < x ? std::nextafter(f, INFINITY) : f; }
static float cospif(float x) { return std::cos(3.14159265358979323846f * x); }
using std::isfinite;
static float fp16_to_float(unsigned short h) {
  const int e = h >> 10 & 31, m = h & 1023;
  const float v = e == 31 ? (m ? NAN : INFINITY) : e ? std::ldexp(float(1024 + m), e - 25) : std::ldexp(float(m), -24);
  return h & 0x8000 ? -v : v;
}
static unsigned short float_to_fp16(float f) {
  const unsigned short sign = std::signbit(f) ? 0x8000 : 0;
  const float a = std::fabs(f);
  if (a != a) return sign | 0x7e00;
  if (a >= 65520) return sign | 0x7c00;
  const int e = a < 0x1p-14f ? -14 : std::ilogb(a);
  const int q = int(std::nearbyint(std::ldexp(double(a), 10 - e)));  // 1024..2048, or below where subnormal
  return sign | (q + (e + 14) * 1024);
}
static float fast_exponential(float x) { return std::exp(x); }
static float fast_quotient(float x, float y) { return x / y; }
static void kernels_before_are_complete() {}
// Bulk copies are done at once, and every byte of their source counts how often it was read. Stops the program where a stage is filled
// again before it was waited for, or waited for by the wrong phase.
#define BULK_COPIES
static struct { unsigned parity; bool under_way; } stages_of_ring[64];
static unsigned first_barrier;
static void next_kernel_may_start() {}
static unsigned dynamic_shared() { return first_barrier = 0; }
static void require_of_ring(bool right, const char* what) {
  if (!right) std::fprintf(stderr, "a ring of bulk copies: %s\n", what), std::abort();
}
static void barrier_init(unsigned barrier) {
  if (!first_barrier) first_barrier = barrier;
  require_of_ring(barrier % 8 == 0 && (barrier - first_barrier) / 8 < 64, "a barrier's place");
  stages_of_ring[(barrier - first_barrier) / 8] = {0, false};
}
static void barriers_are_ready() {}
static void barrier_wait(unsigned barrier, unsigned parity) {
  auto& stage = stages_of_ring[(barrier - first_barrier) / 8];
  require_of_ring(stage.under_way && stage.parity == parity, "a wait for nothing, or for the wrong phase");
  stage.under_way = false, stage.parity ^= 1;
}
static void bulk_copy(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  auto& stage = stages_of_ring[(barrier - first_barrier) / 8];
  require_of_ring(!stage.under_way, "a stage filled again before it was waited for");
  require_of_ring(bytes && bytes % 16 == 0 && std::size_t(from) % 16 == 0 && to % 16 == 0 && to + bytes <= first_barrier, "a copy's size or place");
  stage.under_way = true;
  for (unsigned i = 0; i < bytes; ++i) ++static_cast<unsigned char*>(const_cast<void*>(from))[i];
}
static unsigned long long nanoseconds() { static unsigned long long t = 0; return t += 1000; }
static unsigned long long clocks() { return 1500 * nanoseconds() / 1000; }
static unsigned sm_number() { return 0; }
static void (*current_body)(void**);
static void** current_arguments;
static void thread_main() { current_body(current_arguments); }
extern "C" void run_kernel(void (*body)(void**), void** arguments, int grid, int block, int together) {
  gridDim.x = grid, blockDim.x = block;
  current_body = body, current_arguments = arguments;
  constexpr int stack_bytes = 64 * 1024;
  static std::vector<char> stacks(together ? 1024 * stack_bytes : 0);
  if (together && stacks.empty()) stacks.resize(1024 * stack_bytes);
  for (int b = 0; b < grid; ++b) {
    blockIdx.x = b;
    if (!together) {
      for (int t = 0; t < block; ++t) threadIdx.x = t, body(arguments);
      continue;
    }
    // Thread t ends only after its last meeting with the others, so the threads end in order: each one's end starts or
    // resumes the next, the last one's returns here.
    contexts.assign(block, {});
    static ucontext_t back;
    for (int t = 0; t < block; ++t) {
      getcontext(&contexts[t]);
      contexts[t].uc_stack.ss_sp = &stacks[t * stack_bytes];
      contexts[t].uc_stack.ss_size = stack_bytes;
      contexts[t].uc_link = nullptr;
    }
    static std::vector<ucontext_t>* all = &contexts;
    static const auto entry = +[] {
      thread_main();
      const int next = threadIdx.x + 1;
      if (next < blockDim.x) threadIdx.x = next, setcontext(&(*all)[next]);
      else setcontext(&back);
    };
    for (int t = 0; t < block; ++t) makecontext(&contexts[t], entry, 0);
    threadIdx.x = 0;
    swapcontext(&back, &contexts[0]);
  }
}
)SHIM";

const char* const kAdapters = R"SHIM(
#define ADAPT1(name, T0) extern "C" void run_##name(void** a) { name(*(T0*)a[0]); }
ADAPT1(fill, FillArguments) ADAPT1(guard_write, GuardArguments) ADAPT1(guard_check, GuardArguments)
ADAPT1(reference, ReferenceArguments) ADAPT1(expect, ExpectArguments)
ADAPT1(gate, GateArguments) ADAPT1(read_ring, ReadArguments)
extern "C" void run_copy(void** a) { copy(*(const Piece**)a[0], *(Piece**)a[1], *(i64*)a[2]); }
extern "C" void run_checksum(void** a) { checksum(*(const u8**)a[0], *(i64*)a[1], *(u64**)a[2]); }
extern "C" void run_read_clocks(void** a) { read_clocks(*(ClockReading**)a[0], *(i64*)a[1], *(int*)a[2]); }
extern "C" void run_compare(void** a) { compare(*(ExpectArguments*)a[0], *(Verdict**)a[1]); }
extern "C" void run_difference(void** a) { difference(*(DType*)a[0], *(const void**)a[1], *(const void**)a[2], *(i64*)a[3], *(float**)a[4]); }
)SHIM";

struct Function {
  void (*run)(void (*)(void**), void**, int, int, int);
  void (*body)(void**);
  int together;
};
struct LaunchConfig {
  unsigned grid[3], block[3];
};
std::string* program = nullptr;
// A graph holds what tests put on the stream while it is captured, with fake_submit(); helper kernels run at once and are in none.
using Graph = std::vector<std::function<void()>>;
Graph* capturing = nullptr;

}  // namespace

extern "C" {

void fake_submit(const std::function<void()>& work) {
  if (capturing) capturing->push_back(work);
  else work();
}

int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
const char* nvrtcGetErrorString(int) { return "?"; }
int nvrtcCreateProgram(void** p, const char* source, const char*, int, const char* const*, const char* const*) { return program = new std::string(source), *p = program, 0; }
int nvrtcDestroyProgram(void**) { return 0; }
int nvrtcCompileProgram(void*, int, const char* const*) { return 0; }
int nvrtcGetCUBINSize(void* p, std::size_t* n) { return *n = static_cast<std::string*>(p)->size() + 1, 0; }
int nvrtcGetCUBIN(void* p, char* to) { return std::strcpy(to, static_cast<std::string*>(p)->c_str()), 0; }
int nvrtcGetProgramLogSize(void*, std::size_t* n) { return *n = 1, 0; }
int nvrtcGetProgramLog(void*, char* to) { return *to = 0, 0; }

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* v) { return *v = 13000, 0; }
int cuGetErrorName(int, const char** t) { return *t = "FAKE_ERROR", 0; }
int cuGetErrorString(int, const char** t) { return *t = "?", 0; }
int cuDeviceGetCount(int* n) { return *n = 1, 0; }
int cuDeviceGet(int* d, int ordinal) { return *d = ordinal, ordinal != 0; }
int cuDeviceGetName(char* name, int length, int) { return std::snprintf(name, std::size_t(length), "NVIDIA H200"), 0; }
int cuDeviceGetAttribute(int* v, int attribute, int) { return *v = attribute == 16 ? 1 : attribute == 75 ? 9 : 0, 0; }
int cuDevicePrimaryCtxRetain(void** c, int) { return *c = reinterpret_cast<void*>(8), 0; }
int cuCtxGetCurrent(void** c) { return *c = reinterpret_cast<void*>(8), 0; }
int cuCtxGetDevice(int* d) { return *d = 0, 0; }
int cuCtxGetId(void*, unsigned long long* id) { return *id = 1, 0; }
int cuCtxPushCurrent_v2(void*) { return 0; }
int cuCtxPopCurrent_v2(void**) { return 0; }
int cuCtxSynchronize() { return 0; }
int cuModuleLoadData(void** module, const void* image) {
  const std::string source = static_cast<const char*>(image);
  const std::string::size_type prelude_begin = source.find("__device__ inline float fp16_to_float"), prelude_end = source.find("struct FillArguments");
  if (prelude_begin == std::string::npos || prelude_end == std::string::npos) return 209;
  static std::string known;  // one compile a process
  static void* kept = nullptr;
  if (kept && known == source) return *module = kept, 0;
  const std::string text = kShim + source.substr(0, prelude_begin) + source.substr(prelude_end) + kAdapters;
  char folder[] = "/tmp/foretile-fake-XXXXXX";
  if (!mkdtemp(folder)) return 1;
  const std::string base = std::string(folder) + "/kernels";
  std::ofstream(base + ".cc") << text;
  const std::string command = std::string(FORETILE_CXX) + " -std=c++20 -O2 -fPIC -shared -pthread -I" FORETILE_INCLUDE " -o " + base + ".so " + base + ".cc 1>&2";
  const bool compiled = std::system(command.c_str()) == 0;
  void* library = compiled ? dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  std::system(("rm -r " + std::string(folder)).c_str());
  known = source, kept = library;
  return *module = library, library ? 0 : 209;
}
int cuModuleUnload(void*) { return 0; }
int cuModuleGetFunction(void** f, void* module, const char* name) {
  auto* function = new Function;
  function->run = reinterpret_cast<decltype(function->run)>(dlsym(module, "run_kernel"));
  function->body = reinterpret_cast<void (*)(void**)>(dlsym(module, (std::string("run_") + name).c_str()));
  function->together = !std::strcmp(name, "reference") || !std::strcmp(name, "checksum") || !std::strcmp(name, "compare") || !std::strcmp(name, "difference");
  return *f = function, function->run && function->body ? 0 : 500;
}
int cuFuncSetAttribute(void*, int, int) { return 0; }
int cuFuncGetAttribute(int* v, int, void*) { return *v = 0, 0; }
int cuLaunchKernelEx(const LaunchConfig* c, Function* f, void** parameters, void**) {
  f->run(f->body, parameters, int(c->grid[0]), int(c->block[0]), f->together);
  delete f;
  return 0;
}
int cuTensorMapEncodeTiled(void*, int, unsigned, void*, const void*, const void*, const void*, const void*, int, int, int, int) { return 1; }
int cuTensorMapReplaceAddress(void*, void*) { return 1; }
int cuStreamGetCtx(void*, void** c) { return *c = reinterpret_cast<void*>(8), 0; }
int cuStreamIsCapturing(void*, int* s) { return *s = capturing != nullptr, 0; }
int cuThreadExchangeStreamCaptureMode(int*) { return 0; }
int cuMemAlloc_v2(unsigned long long* p, std::size_t bytes) { return *p = reinterpret_cast<std::size_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256)), 0; }
int cuMemFree_v2(unsigned long long p) { return std::free(reinterpret_cast<void*>(p)), 0; }
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) { return *free = *total = std::size_t(1) << 37, 0; }
int cuMemsetD8_v2(unsigned long long p, unsigned char v, std::size_t n) { return std::memset(reinterpret_cast<void*>(p), v, n), 0; }
int cuMemcpyHtoD_v2(unsigned long long to, const void* from, std::size_t n) { return std::memcpy(reinterpret_cast<void*>(to), from, n), 0; }
int cuMemcpyDtoH_v2(void* to, unsigned long long from, std::size_t n) { return std::memcpy(to, reinterpret_cast<void*>(from), n), 0; }
int cuMemcpyDtoD_v2(unsigned long long to, unsigned long long from, std::size_t n) { return std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n), 0; }
int cuStreamCreate(void** s, unsigned) { return *s = reinterpret_cast<void*>(64), 0; }
int cuStreamDestroy_v2(void*) { return 0; }
int cuStreamSynchronize(void*) { return 0; }
int cuEventCreate(void** e, unsigned) { return *e = std::malloc(1), 0; }
int cuEventDestroy_v2(void* e) { return std::free(e), 0; }
int cuEventRecord(void*, void*) { return 0; }
int cuEventSynchronize(void*) { return 0; }
int cuEventElapsedTime(float* ms, void*, void*) { return *ms = 1, 0; }
int cuStreamBeginCapture_v2(void*, int) { return capturing = new Graph, 0; }
int cuStreamEndCapture(void*, Graph** g) { return *g = capturing, capturing = nullptr, 0; }
int cuGraphInstantiateWithFlags(Graph** e, Graph* g, unsigned long long) { return *e = new Graph(*g), 0; }
int cuGraphLaunch(Graph* e, void*) {
  for (const auto& work : *e) work();
  return 0;
}
int cuGraphDestroy(Graph* g) { return delete g, 0; }
int cuGraphExecDestroy(Graph* g) { return delete g, 0; }

}  // extern "C"
