// Clocks, power and energy from NVML (libnvidia-ml.so.1), loaded at run time; everything is 0 where it is missing.
#pragma once
#include <string>

namespace foretile::bench {

struct GpuState {
  double sm_mhz = 0, memory_mhz = 0, watts = 0, celsius = 0;
  double joules = 0;  // since the driver was loaded
};

class Nvml {
 public:
  // `pci_bus_id` as the CUDA driver gives it, for the same GPU under CUDA_VISIBLE_DEVICES; empty: the first.
  explicit Nvml(const std::string& pci_bus_id = {});
  bool present() const { return device_ != nullptr; }
  GpuState read() const;
  double power_limit_watts() const;
  std::string driver_version() const;  // "580.159.03"; empty where unknown

 private:
  void* library_ = nullptr;
  void* device_ = nullptr;
};

}  // namespace foretile::bench
