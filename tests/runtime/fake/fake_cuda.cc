// A driver without a GPU: keeps contexts, modules and streams apart as the real one does, refuses what it refuses, and records
// launches. And a compiler that makes "machine code" out of the name of the kernel family.
#include "fake_cuda.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

using fake::Context, fake::Control, fake::EncodedMap, fake::Function, fake::Launch, fake::Module, fake::Stream;

// Immortal, as the driver's own state outlives ours; what ends is marked by the guard below.
Control& control() {
  static Control& c = *[] {
    auto* fresh = new Control;
    fresh->devices = {{"NVIDIA H200", 9, 0, 132}, {"NVIDIA A100-SXM4-80GB", 8, 0, 108}, {"NVIDIA H200", 9, 0, 132}};
    return fresh;
  }();
  return c;
}
struct Guard {
  ~Guard() { control().shut_down = true; }
} guard;

thread_local std::vector<Context*> stack;
Context* current() { return stack.empty() ? nullptr : stack.back(); }
std::atomic<unsigned long long> next_id{1};
std::map<int, Context*>& primaries() {
  static auto& p = *new std::map<int, Context*>;
  return p;
}

constexpr int kInvalidValue = 1, kInvalidContext = 201, kInvalidHandle = 400, kInvalidDevice = 101, kNotFound = 500;

// 0, or the error that a test asked for.
int enter(const char* name) {
  Control& c = control();
  if (c.shut_down) {
    std::fprintf(stderr, "%s called after the driver shut down\n", name);
    std::abort();
  }
  if (c.fail_times == 0) return 0;
  const std::lock_guard lock(c.mutex);
  if (c.fail_times == 0 || c.fail_name != name) return 0;
  --c.fail_times;
  return c.fail_code;
}
#define ENTER \
  if (const int code = enter(__func__)) return code

struct LaunchAttribute {
  int id, pad;
  unsigned value[16];
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  Stream* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
bool special(const Stream* s) { return reinterpret_cast<std::size_t>(s) <= 2; }

}  // namespace

extern "C" {

Control* fake_control() { return &control(); }
Context* fake_new_context(int device) { return new Context{device, next_id++}; }
Stream* fake_new_stream(Context* context) {
  auto* s = new Stream;
  s->context = context;
  return s;
}
Context* fake_primary(int device) {
  const std::lock_guard lock(control().mutex);
  Context*& p = primaries()[device];
  if (!p) p = new Context{device, next_id++};
  return p;
}
void fake_set_current(Context* c) {
  stack.clear();
  if (c) stack.push_back(c);
}
Context* fake_current() { return current(); }

int cuInit(unsigned) { ENTER; return 0; }
int cuDriverGetVersion(int* v) { return *v = 13000, 0; }
int cuGetErrorName(int code, const char** text) {
  *text = code == 1 ? "CUDA_ERROR_INVALID_VALUE" : code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 201 ? "CUDA_ERROR_INVALID_CONTEXT" : code == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
          : code == 400 ? "CUDA_ERROR_INVALID_HANDLE" : code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : nullptr;
  return *text ? 0 : 1;
}
int cuGetErrorString(int, const char** text) { return *text = "as the test asked", 0; }
int cuDeviceGetCount(int* n) { ENTER; return *n = int(control().devices.size()), 0; }
int cuDeviceGet(int* d, int ordinal) { return ordinal < 0 || ordinal >= int(control().devices.size()) ? kInvalidDevice : (*d = ordinal, 0); }
int cuDeviceGetName(char* name, int length, int d) { return std::snprintf(name, std::size_t(length), "%s", control().devices.at(std::size_t(d)).name.c_str()), 0; }
int cuDeviceGetAttribute(int* value, int attribute, int d) {
  const fake::Device& x = control().devices.at(std::size_t(d));
  *value = attribute == 16 ? x.sms : attribute == 75 ? x.major : attribute == 76 ? x.minor : 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(Context** c, int d) { ENTER; return *c = fake_primary(d), 0; }
int cuCtxGetCurrent(Context** c) { ENTER; return *c = current(), 0; }
int cuCtxGetDevice(int* d) { return current() ? (*d = current()->device, 0) : kInvalidContext; }
int cuCtxGetId(Context* c, unsigned long long* id) { return *id = (c ? c : current())->id, 0; }
int cuCtxPushCurrent_v2(Context* c) { ENTER; ++control().pushes; stack.push_back(c); return 0; }
int cuCtxPopCurrent_v2(Context** c) {
  if (stack.empty()) return kInvalidContext;
  ++control().pops;
  *c = stack.back();
  stack.pop_back();
  return 0;
}
int cuCtxSynchronize() { return 0; }
int cuModuleLoadData(Module** m, const void* image) {
  ENTER;
  if (!current()) return kInvalidContext;
  ++control().modules;
  *m = new Module{current(), static_cast<const char*>(image)};
  return 0;
}
int cuModuleUnload(Module* m) { delete m; return 0; }
int cuModuleGetFunction(Function** f, Module* m, const char* name) {
  ENTER;
  if (std::strcmp(name, "foretile_kernel")) return kNotFound;
  *f = new Function{m};
  return 0;
}
int cuFuncSetAttribute(Function* f, int attribute, int value) {
  ENTER;
  const fake::Device& d = control().devices.at(std::size_t(f->module->context->device));
  if (attribute != 8 || value > (d.major == 9 ? 227 : 163) * 1024) return kInvalidValue;
  f->max_shared = value;
  return 0;
}
int cuFuncGetAttribute(int* value, int, Function*) { return *value = 0, 0; }

int cuLaunchKernelEx(const LaunchConfig* config, Function* f, void** parameters, void**) {
  Control& c = control();
  c.launched_at_ns = static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch().count());
  ENTER;
  Context* const here = current();
  if (!here) return kInvalidContext;
  if (f->module->context != here) return kInvalidHandle;
  if (!special(config->stream) && config->stream->context != here) return kInvalidHandle;
  if (config->grid[0] == 0 || config->grid[0] > 0x7fffffff || config->grid[1] > 65535 || config->grid[2] > 65535 || config->block[0] > 1024) return kInvalidValue;
  if (config->shared > unsigned(f->max_shared)) return kInvalidValue;
  unsigned cluster = 1;
  bool programmatic = false;  // refused on the A100, which does not know it
  for (unsigned i = 0; i < config->attribute_count; ++i)
    if (config->attributes[i].id == 4) cluster = config->attributes[i].value[0];
    else if (config->attributes[i].id == 6 && here->device != 1) programmatic = config->attributes[i].value[0] == 1;
    else return kInvalidValue;
  if (config->grid[0] % cluster) return kInvalidValue;
  ++c.launch_count;
  if (!c.record) return 0;
  Launch l{};
  std::memcpy(l.grid, config->grid, sizeof l.grid);
  std::memcpy(l.block, config->block, sizeof l.block);
  l.shared = config->shared, l.cluster = cluster, l.programmatic = programmatic, l.stream = config->stream, l.context = here, l.image = f->module->image;
  if (l.image.find("gemm_sm90") != std::string::npos) {
    l.sm90 = *static_cast<const foretile::GemmSm90Arguments*>(parameters[0]);
  } else if (l.image.find("gemm_decode") != std::string::npos || l.image.find("gemm_rows") != std::string::npos) {
    const auto& d = l.decode = *static_cast<const foretile::GemmDecodeArguments*>(parameters[0]);
    l.sm90.a = d.a, l.sm90.b = d.b, l.sm90.m = d.m, l.sm90.n = d.n, l.sm90.k = d.k, l.sm90.a_batched = d.a_batched, l.sm90.b_batched = d.b_batched;
    l.sm90.weights_ready = d.weights_ready, l.sm90.grid = d.grid, l.sm90.epilogue = d.epilogue;
  } else {
    l.simt = *static_cast<const foretile::GemmSimtArguments*>(parameters[0]);
  }
  const std::lock_guard lock(c.mutex);
  c.launches.push_back(l);
  return 0;
}

int cuTensorMapEncodeTiled(foretile::TensorMap* map, int type, unsigned rank, void* address, const unsigned long long* extent, const unsigned long long* stride,
                           const unsigned* box, const unsigned* element_stride, int interleave, int swizzle, int promotion, int fill) {
  ENTER;
  // The rules of the driver API's documentation of this function.
  constexpr int sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4}, spans[] = {1 << 20, 32, 64, 128};
  if (rank != 3 || interleave != 0 || reinterpret_cast<std::size_t>(address) % 16 || reinterpret_cast<std::size_t>(map) % 64) return kInvalidValue;
  for (int i = 0; i < 3; ++i)
    if (extent[i] == 0 || extent[i] > 1ull << 32 || box[i] == 0 || box[i] > 256 || element_stride[i] != 1) return kInvalidValue;
  for (int i = 0; i < 2; ++i)
    if (stride[i] % 16 || stride[i] == 0 || stride[i] >= 1ull << 40) return kInvalidValue;
  if (int(box[0]) * sizes[type] % 16 || int(box[0]) * sizes[type] > spans[swizzle]) return kInvalidValue;
  ++control().encodes;
  EncodedMap e{};
  e.address = reinterpret_cast<std::size_t>(address);
  std::memcpy(e.extent, extent, sizeof e.extent);
  std::memcpy(e.stride, stride, sizeof e.stride);
  std::memcpy(e.box, box, sizeof e.box);
  e.type = type, e.swizzle = swizzle, e.promotion = promotion, e.fill = fill;
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &e, sizeof e);
  return 0;
}
int cuTensorMapReplaceAddress(foretile::TensorMap* map, void* address) {
  ENTER;
  if (reinterpret_cast<std::size_t>(address) % 16) return kInvalidValue;
  ++control().replaces;
  if (control().hold_next_replace.exchange(false)) {
    control().replace_held = true;
    while (control().replace_held) std::this_thread::yield();
  }
  const unsigned long long value = reinterpret_cast<std::size_t>(address);
  std::memcpy(map, &value, sizeof value);
  return 0;
}
int cuStreamGetCtx(Stream* s, Context** c) { return *c = special(s) ? current() : s->context, 0; }
int cuStreamIsCapturing(Stream* s, int* status) { ENTER; return *status = special(s) ? 0 : s->capturing.load(), 0; }
int cuThreadExchangeStreamCaptureMode(int* mode) {
  thread_local int held = 0;
  std::swap(*mode, held);
  return 0;
}

int cuMemAlloc_v2(unsigned long long* p, std::size_t bytes) { ENTER; *p = reinterpret_cast<std::size_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256)); return 0; }
int cuMemFree_v2(unsigned long long p) { std::free(reinterpret_cast<void*>(p)); return 0; }
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) { return *free = *total = std::size_t(1) << 37, 0; }
int cuMemsetD8_v2(unsigned long long p, unsigned char v, std::size_t n) { std::memset(reinterpret_cast<void*>(p), v, n); return 0; }
int cuMemcpyHtoD_v2(unsigned long long to, const void* from, std::size_t n) { std::memcpy(reinterpret_cast<void*>(to), from, n); return 0; }
int cuMemcpyDtoH_v2(void* to, unsigned long long from, std::size_t n) { std::memcpy(to, reinterpret_cast<void*>(from), n); return 0; }
int cuMemcpyDtoD_v2(unsigned long long to, unsigned long long from, std::size_t n) { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n); return 0; }
int cuStreamCreate(Stream** s, unsigned) { return current() ? (*s = fake_new_stream(current()), 0) : kInvalidContext; }
int cuStreamDestroy_v2(Stream* s) { delete s; return 0; }
int cuStreamSynchronize(Stream*) { return 0; }
int cuEventCreate(void** e, unsigned) { return *e = std::malloc(1), 0; }
int cuEventDestroy_v2(void* e) { std::free(e); return 0; }
int cuEventRecord(void*, Stream*) { return 0; }
int cuEventSynchronize(void*) { return 0; }
int cuEventElapsedTime(float* ms, void*, void*) { return *ms = 1, 0; }
int cuStreamBeginCapture_v2(Stream* s, int) { s->capturing = 1; return 0; }
int cuStreamEndCapture(Stream* s, void** graph) { s->capturing = 0; return *graph = std::malloc(1), 0; }
int cuGraphInstantiateWithFlags(void** exec, void*, unsigned long long) { return *exec = std::malloc(1), 0; }
int cuGraphLaunch(void*, Stream*) { return 0; }
int cuGraphDestroy(void* g) { std::free(g); return 0; }
int cuGraphExecDestroy(void* g) { std::free(g); return 0; }

// ---- the compiler ----------------------------------------------------------------------------------------------
struct FakeProgram {
  std::string source, cubin, log;
};
int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR_COMPILATION"; }
int nvrtcCreateProgram(FakeProgram** p, const char* source, const char*, int, const char* const*, const char* const*) { return *p = new FakeProgram{source, "", ""}, 0; }
int nvrtcDestroyProgram(FakeProgram** p) { delete *p; *p = nullptr; return 0; }
int nvrtcCompileProgram(FakeProgram* p, int options, const char* const* texts) {
  Control& c = control();
  ++c.compiles;
  if (const int ms = c.compile_milliseconds) std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  std::string arch;
  for (int i = 0; i < options; ++i)
    if (!std::strncmp(texts[i], "--gpu-architecture=", 19)) arch = texts[i] + 19;
  const std::lock_guard lock(c.mutex);
  if (c.compile_fails) return p->log = "foretile_kernel.cu(1): error: as the test asked\n", 6;
  p->log = "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 90 registers, used 1 barriers\n" + c.compile_log;
  p->cubin = "fake " + arch + (p->source.find("gemm_sm90<") != std::string::npos ? " gemm_sm90\n" : p->source.find("gemm_decode<") != std::string::npos ? " gemm_decode\n" : p->source.find("gemm_rows<") != std::string::npos ? " gemm_rows\n" : " gemm_simt\n") + p->source;
  return 0;
}
int nvrtcGetCUBINSize(FakeProgram* p, std::size_t* n) { return *n = p->cubin.size() + 1, 0; }
int nvrtcGetCUBIN(FakeProgram* p, char* to) { std::memcpy(to, p->cubin.c_str(), p->cubin.size() + 1); return 0; }
int nvrtcGetProgramLogSize(FakeProgram* p, std::size_t* n) { return *n = p->log.size() + 1, 0; }
int nvrtcGetProgramLog(FakeProgram* p, char* to) { std::memcpy(to, p->log.c_str(), p->log.size() + 1); return 0; }

}  // extern "C"
