#include "bench/nvml.h"

#include <dlfcn.h>

namespace foretile::bench {

namespace {
constexpr int kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;  // nvmlClockType_t, nvmlTemperatureSensors_t
template <class F> F symbol(void* library, const char* name) { return library ? reinterpret_cast<F>(dlsym(library, name)) : nullptr; }
}  // namespace

Nvml::Nvml(const std::string& pci_bus_id) {
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto init = symbol<int (*)()>(library_, "nvmlInit_v2");
  if (!init || init() != 0) return;
  if (!pci_bus_id.empty()) {
    if (const auto by_bus = symbol<int (*)(const char*, void**)>(library_, "nvmlDeviceGetHandleByPciBusId_v2"))
      if (by_bus(pci_bus_id.c_str(), &device_) != 0) device_ = nullptr;
  } else if (const auto by_index = symbol<int (*)(unsigned, void**)>(library_, "nvmlDeviceGetHandleByIndex_v2")) {
    if (by_index(0, &device_) != 0) device_ = nullptr;
  }
}

GpuState Nvml::read() const {
  GpuState s;
  if (!device_) return s;
  unsigned value = 0;
  const auto clock = symbol<int (*)(void*, int, unsigned*)>(library_, "nvmlDeviceGetClockInfo");
  if (clock && clock(device_, kClockSm, &value) == 0) s.sm_mhz = value;
  if (clock && clock(device_, kClockMemory, &value) == 0) s.memory_mhz = value;
  const auto power = symbol<int (*)(void*, unsigned*)>(library_, "nvmlDeviceGetPowerUsage");
  if (power && power(device_, &value) == 0) s.watts = value * 1e-3;
  const auto temperature = symbol<int (*)(void*, int, unsigned*)>(library_, "nvmlDeviceGetTemperature");
  if (temperature && temperature(device_, kTemperatureGpu, &value) == 0) s.celsius = value;
  unsigned long long millijoules = 0;
  const auto energy = symbol<int (*)(void*, unsigned long long*)>(library_, "nvmlDeviceGetTotalEnergyConsumption");
  if (energy && energy(device_, &millijoules) == 0) s.joules = double(millijoules) * 1e-3;
  return s;
}

double Nvml::power_limit_watts() const {
  unsigned milliwatts = 0;
  const auto limit = device_ ? symbol<int (*)(void*, unsigned*)>(library_, "nvmlDeviceGetEnforcedPowerLimit") : nullptr;
  return limit && limit(device_, &milliwatts) == 0 ? milliwatts * 1e-3 : 0;
}

std::string Nvml::driver_version() const {
  char text[96] = {};
  const auto version = device_ ? symbol<int (*)(char*, unsigned)>(library_, "nvmlSystemGetDriverVersion") : nullptr;
  return version && version(text, sizeof text) == 0 ? text : "";
}

}  // namespace foretile::bench
