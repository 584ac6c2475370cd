#include "runtime/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

namespace foretile {

namespace {

// Everything here outlives static destructors on purpose: at exit the driver may be gone before us.
struct State {
  std::mutex mutex;
  std::atomic<const Driver*> driver{nullptr};
  std::map<int, DeviceInfo> devices;
  std::map<int, cuda::Context> primary;
};
State& state() {
  static State& s = *new State;
  return s;
}

Status open_driver(Driver& d) {
  const char* named = std::getenv("FORETILE_LIBCUDA");
  const std::string file = named && *named ? named : "libcuda.so.1";
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    return {Code::no_driver, fmt::format("the CUDA driver could not be loaded ({}{}): an NVIDIA driver must be installed",
                                         named && *named ? "named by FORETILE_LIBCUDA: " : "", reason ? reason : file)};
  }
  std::string missing;
  const auto resolve = [&](auto& member, const char* symbol) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(handle, symbol));
    if (!member) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  };
#define FORETILE_RESOLVE(member, symbol, signature) resolve(d.member, symbol);
  FORETILE_DRIVER_REQUIRED(FORETILE_RESOLVE)
#undef FORETILE_RESOLVE
  if (!missing.empty())
    return {Code::no_driver, fmt::format("{} lacks {}: a driver of CUDA 12.0 (R525) or newer is needed", file, missing)};
  d.path = file;
  if (Status s = d.check(d.init(0), "cuInit"); !s) return {Code::no_driver, s.message()};
  return d.check(d.driver_version(&d.version), "cuDriverGetVersion");
}

int swizzle_code(Swizzle s) {  // CUtensorMapSwizzle
  return s == Swizzle::bytes128 ? 3 : s == Swizzle::bytes64 ? 2 : s == Swizzle::bytes32 ? 1 : 0;
}

int type_code(DType type) {  // CUtensorMapDataType
  switch (type) {
    case DType::fp32:
    case DType::tf32: return 7;  // as it stands: wgmma drops the low bits, and no load rounds them
    case DType::fp16: return 6;
    case DType::bf16: return 9;
    case DType::int32: return 3;
    case DType::e4m3:
    case DType::e5m2:
    case DType::int8: return 0;
  }
  return 0;
}

}  // namespace

std::string Driver::describe(cuda::Result result) const {
  const char *name = nullptr, *text = nullptr;
  error_name(result, &name);
  error_string(result, &text);
  if (!name) return fmt::format("error {}", result);
  return text ? fmt::format("{} ({})", name, text) : std::string(name);
}

Status Driver::check(cuda::Result result, const char* what) const {
  if (result == cuda::kSuccess) return {};
  return {Code::driver_error, fmt::format("{}: {}", what, describe(result))};
}

Status Driver::device(int ordinal, const DeviceInfo*& info) const {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (const auto known = s.devices.find(ordinal); known != s.devices.end()) {
    info = &known->second;
    return {};
  }
  int count = 0;
  if (Status status = check(device_count(&count), "cuDeviceGetCount"); !status) return status;
  if (ordinal < 0 || ordinal >= count)
    return {Code::invalid_argument, count == 0 ? fmt::format("device is {}; the driver shows no device", ordinal)
                                               : fmt::format("device is {}; allowed: -1 (the current one) or 0 to {}", ordinal, count - 1)};
  DeviceInfo d;
  d.ordinal = ordinal;
  cuda::Device handle = 0;
  char name[256] = {};
  int major = 0, minor = 0;
  for (const auto& [result, what] : {std::pair{device_get(&handle, ordinal), "cuDeviceGet"},
                                     std::pair{device_name(name, int(sizeof name) - 1, handle), "cuDeviceGetName"},
                                     std::pair{device_attribute(&major, cuda::kComputeCapabilityMajor, handle), "cuDeviceGetAttribute"},
                                     std::pair{device_attribute(&minor, cuda::kComputeCapabilityMinor, handle), "cuDeviceGetAttribute"},
                                     std::pair{device_attribute(&d.sms, cuda::kMultiprocessors, handle), "cuDeviceGetAttribute"}})
    if (Status status = check(result, what); !status) return status;
  d.name = name;
  d.compute_capability = 10 * major + minor;
  info = &(s.devices[ordinal] = std::move(d));
  return {};
}

Status Driver::primary_context(int ordinal, cuda::Context& context) const {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (const auto known = s.primary.find(ordinal); known != s.primary.end()) {
    context = known->second;
    return {};
  }
  cuda::Device handle = 0;
  if (Status status = check(device_get(&handle, ordinal), "cuDeviceGet"); !status) return status;
  if (Status status = check(primary_context_retain(&context, handle), "cuDevicePrimaryCtxRetain"); !status) return status;
  s.primary[ordinal] = context;
  return {};
}

Status load_driver(const Driver*& driver) {
  State& s = state();
  if ((driver = s.driver.load(std::memory_order_acquire))) return {};
  const std::lock_guard lock(s.mutex);
  if ((driver = s.driver.load(std::memory_order_acquire))) return {};
  auto* fresh = new Driver;
  if (Status status = open_driver(*fresh); !status) {
    delete fresh;
    return status;
  }
  s.driver.store(driver = fresh, std::memory_order_release);
  return {};
}

const Driver* loaded_driver() { return state().driver.load(std::memory_order_acquire); }

Status list_devices(std::vector<DeviceInfo>& devices) {
  devices.clear();
  const Driver* driver = nullptr;
  if (Status s = load_driver(driver); !s) return s;
  int count = 0;
  if (Status s = driver->check(driver->device_count(&count), "cuDeviceGetCount"); !s) return s;
  for (int i = 0; i < count; ++i) {
    const DeviceInfo* info = nullptr;
    if (Status s = driver->device(i, info); !s) return s;
    devices.push_back(*info);
  }
  return {};
}

Status encode_tensor_map(const Driver& driver, const TensorMapSpec& spec, TensorMap& map) {
  constexpr u32 unit[3] = {1, 1, 1};
  const int promotion = spec.l2_promotion == 256 ? 3 : spec.l2_promotion == 128 ? 2 : spec.l2_promotion == 64 ? 1 : 0;
  const cuda::Result result = driver.tensor_map_encode(&map, type_code(spec.type), 3, const_cast<void*>(spec.base), spec.extent, spec.stride_bytes,
                                                       spec.box, unit, 0, swizzle_code(spec.swizzle), promotion, 0);
  if (result == cuda::kSuccess) return {};
  return {Code::driver_error,
          fmt::format("cuTensorMapEncodeTiled: {}; base {}, extent {} x {} x {}, strides {} and {} bytes, box {} x {}", driver.describe(result),
                      spec.base, spec.extent[0], spec.extent[1], spec.extent[2], spec.stride_bytes[0], spec.stride_bytes[1], spec.box[0], spec.box[1])};
}

ScopedContext::ScopedContext(const Driver& driver, cuda::Context context) : driver_(driver) {
  if (!context) return;
  status_ = driver_.check(driver_.context_push(context), "cuCtxPushCurrent");
  pushed_ = status_.ok();
}

ScopedContext::~ScopedContext() {
  cuda::Context popped = nullptr;
  if (pushed_) driver_.context_pop(&popped);
}

}  // namespace foretile
