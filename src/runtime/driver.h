// The CUDA driver (libcuda.so.1), loaded at run time: library, model, emulator and tool work where there is none.
//
// The declarations below are our own, of the few entry points that are needed, so that no CUDA header is included
// anywhere. Names, values and layouts follow the CUDA driver API; names of versioned functions carry their suffix.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "foretile/device/arguments.h"
#include "foretile/foretile.h"
#include "plan/plan.h"

namespace foretile {

namespace cuda {

using Result = int;  // CUresult
constexpr Result kSuccess = 0;
constexpr Result kNotInitialized = 3;
constexpr Result kInvalidImage = 200;
constexpr Result kInvalidContext = 201;
constexpr Result kNoBinaryForGpu = 209;
constexpr Result kUnsupportedPtxVersion = 222;
constexpr Result kInvalidHandle = 400;
constexpr Result kContextIsDestroyed = 709;

using Device = int;
using DevicePointer = u64;
using Context = struct ContextOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using Stream = struct StreamOpaque*;
using Event = struct EventOpaque*;
using Graph = struct GraphOpaque*;
using GraphExec = struct GraphExecOpaque*;

// Special stream handles (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD): not objects of a context.
inline bool is_special(Stream s) { return reinterpret_cast<std::size_t>(s) <= 2; }

enum DeviceAttribute : int { kMultiprocessors = 16, kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76 };
enum FunctionAttribute : int { kLocalBytes = 3, kRegisters = 4, kMaxDynamicSharedBytes = 8 };
enum CaptureStatus : int { kCaptureNone = 0, kCaptureActive = 1, kCaptureInvalidated = 2 };
enum CaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };

struct LaunchAttribute {  // CUlaunchAttribute
  int id;
  int pad;
  union {
    char bytes[64];
    struct { unsigned x, y, z; } cluster;
    int programmatic_stream_serialization;
  } value;
};
constexpr int kClusterDimension = 4;                   // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
constexpr int kProgrammaticStreamSerialization = 6;    // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
struct LaunchConfig {  // CUlaunchConfig
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56);

}  // namespace cuda

// Entry points: member, exported symbol, signature. Required ones exist in every driver of CUDA 12.0 (R525) or newer.
#define FORETILE_DRIVER_REQUIRED(X)                                                                                     \
  X(init, "cuInit", (unsigned flags))                                                                                   \
  X(driver_version, "cuDriverGetVersion", (int* version))                                                               \
  X(error_name, "cuGetErrorName", (cuda::Result, const char** text))                                                    \
  X(error_string, "cuGetErrorString", (cuda::Result, const char** text))                                                \
  X(device_count, "cuDeviceGetCount", (int* count))                                                                     \
  X(device_get, "cuDeviceGet", (cuda::Device*, int ordinal))                                                            \
  X(device_name, "cuDeviceGetName", (char* name, int length, cuda::Device))                                             \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, cuda::Device))                                \
  X(primary_context_retain, "cuDevicePrimaryCtxRetain", (cuda::Context*, cuda::Device))                                 \
  X(context_current, "cuCtxGetCurrent", (cuda::Context*))                                                               \
  X(context_device, "cuCtxGetDevice", (cuda::Device*))                                                                  \
  X(context_id, "cuCtxGetId", (cuda::Context, unsigned long long* id))                                                  \
  X(context_push, "cuCtxPushCurrent_v2", (cuda::Context))                                                               \
  X(context_pop, "cuCtxPopCurrent_v2", (cuda::Context*))                                                                \
  X(context_synchronize, "cuCtxSynchronize", ())                                                                        \
  X(module_load, "cuModuleLoadData", (cuda::Module*, const void* image))                                                \
  X(module_unload, "cuModuleUnload", (cuda::Module))                                                                    \
  X(module_function, "cuModuleGetFunction", (cuda::Function*, cuda::Module, const char* name))                          \
  X(function_set, "cuFuncSetAttribute", (cuda::Function, int attribute, int value))                                     \
  X(function_get, "cuFuncGetAttribute", (int* value, int attribute, cuda::Function))                                    \
  X(launch, "cuLaunchKernelEx", (const cuda::LaunchConfig*, cuda::Function, void** parameters, void** extra))           \
  X(tensor_map_encode, "cuTensorMapEncodeTiled",                                                                        \
    (TensorMap*, int type, u32 rank, void* address, const u64* extent, const u64* stride_bytes, const u32* box,         \
     const u32* element_stride, int interleave, int swizzle, int promotion, int fill))                                  \
  X(tensor_map_replace, "cuTensorMapReplaceAddress", (TensorMap*, void* address))                                       \
  X(stream_context, "cuStreamGetCtx", (cuda::Stream, cuda::Context*))                                                   \
  X(stream_capturing, "cuStreamIsCapturing", (cuda::Stream, int* status))                                               \
  X(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", (int* mode))                                            \
  /* For the tool, the benchmarks and the tests: memory, streams, events, graphs. */                                    \
  X(memory_allocate, "cuMemAlloc_v2", (cuda::DevicePointer*, std::size_t bytes))                                        \
  X(memory_free, "cuMemFree_v2", (cuda::DevicePointer))                                                                 \
  X(memory_info, "cuMemGetInfo_v2", (std::size_t* free, std::size_t* total))                                            \
  X(memory_set, "cuMemsetD8_v2", (cuda::DevicePointer, unsigned char value, std::size_t bytes))                         \
  X(copy_to_device, "cuMemcpyHtoD_v2", (cuda::DevicePointer, const void* from, std::size_t bytes))                      \
  X(copy_to_host, "cuMemcpyDtoH_v2", (void* to, cuda::DevicePointer, std::size_t bytes))                                \
  X(copy_on_device, "cuMemcpyDtoD_v2", (cuda::DevicePointer to, cuda::DevicePointer from, std::size_t bytes))           \
  X(stream_create, "cuStreamCreate", (cuda::Stream*, unsigned flags))                                                   \
  X(stream_destroy, "cuStreamDestroy_v2", (cuda::Stream))                                                               \
  X(stream_synchronize, "cuStreamSynchronize", (cuda::Stream))                                                          \
  X(event_create, "cuEventCreate", (cuda::Event*, unsigned flags))                                                      \
  X(event_destroy, "cuEventDestroy_v2", (cuda::Event))                                                                  \
  X(event_record, "cuEventRecord", (cuda::Event, cuda::Stream))                                                         \
  X(event_synchronize, "cuEventSynchronize", (cuda::Event))                                                             \
  X(event_elapsed, "cuEventElapsedTime", (float* milliseconds, cuda::Event from, cuda::Event to))                       \
  X(capture_begin, "cuStreamBeginCapture_v2", (cuda::Stream, int mode))                                                 \
  X(capture_end, "cuStreamEndCapture", (cuda::Stream, cuda::Graph*))                                                    \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (cuda::GraphExec*, cuda::Graph, unsigned long long flags))        \
  X(graph_launch, "cuGraphLaunch", (cuda::GraphExec, cuda::Stream))                                                     \
  X(graph_destroy, "cuGraphDestroy", (cuda::Graph))                                                                     \
  X(graph_exec_destroy, "cuGraphExecDestroy", (cuda::GraphExec))

struct DeviceInfo {
  int ordinal = 0;
  std::string name;            // as the driver prints it
  int compute_capability = 0;  // 90
  int sms = 0;
};

// The loaded driver, initialised. One a process, never unloaded: no destructor runs at exit, so nothing can be called
// after the driver has shut down.
struct Driver {
#define FORETILE_DECLARE(member, symbol, signature) cuda::Result(*member) signature = nullptr;
  FORETILE_DRIVER_REQUIRED(FORETILE_DECLARE)
#undef FORETILE_DECLARE
  int version = 0;   // 13000 for CUDA 13.0
  std::string path;  // the file that was loaded

  // "CUDA_ERROR_INVALID_VALUE (invalid argument)"
  std::string describe(cuda::Result result) const;
  // ok, or driver_error: "cuLaunchKernelEx: CUDA_ERROR_INVALID_VALUE (invalid argument)". `what` names the call.
  Status check(cuda::Result result, const char* what) const;

  // Facts of a device, asked for once. no_driver names the devices there are.
  Status device(int ordinal, const DeviceInfo*& info) const;
  // The device's primary context, retained at first use and kept for the process.
  Status primary_context(int ordinal, cuda::Context& context) const;
};

// Loads FORETILE_LIBCUDA if set, else libcuda.so.1, on first use; a failure (no_driver) is tried again by the next call.
Status load_driver(const Driver*& driver);
// The driver if load_driver() has succeeded before, else null. Never loads.
const Driver* loaded_driver();

// All devices of the process; an error where there is no driver.
Status list_devices(std::vector<DeviceInfo>& devices);

// cuTensorMapEncodeTiled with the constant part filled in: rank 3, unit element strides, zeros outside the
// tensor.
Status encode_tensor_map(const Driver& driver, const TensorMapSpec& spec, TensorMap& map);

// Makes a context current for a scope, and the caller's one again after it. Does nothing for a null context.
class ScopedContext {
 public:
  ScopedContext(const Driver& driver, cuda::Context context);
  ~ScopedContext();
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;
  const Status& status() const { return status_; }

 private:
  const Driver& driver_;
  bool pushed_ = false;
  Status status_;
};

// Lets this thread load modules while another thread captures a graph (CUDA driver API,
// cuThreadExchangeStreamCaptureMode): otherwise the load would break that capture.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) { active_ = driver_.exchange_capture_mode(&mode_) == cuda::kSuccess; }
  ~RelaxedCapture() {
    if (active_) driver_.exchange_capture_mode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  int mode_ = cuda::kCaptureRelaxed;
  bool active_ = false;
};

}  // namespace foretile
