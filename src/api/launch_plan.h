// All that a repeated call needs, worked out once: the loaded function, the launch, the arguments with their tensor maps.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <variant>

#include "api/check.h"
#include "runtime/kernel_store.h"

namespace foretile {

// Where a call runs: a device, and a context of it that is current while the object lives. The caller's context is current again
// afterwards.
class CallContext {
 public:
  // The current context where it belongs to the wanted device (-1: whichever), else the device's primary one (-1 without a
  // current context: device 0's, as the CUDA runtime does).
  CallContext(const Driver& driver, int device);
  const Status& status() const { return status_; }
  int device() const { return device_; }
  u64 id() const { return id_; }

 private:
  Status status_;
  int device_ = -1;
  u64 id_ = 0;
  std::optional<ScopedContext> pushed_;
};

class LaunchPlan {
 public:
  // May compile and load. Inside a stream capture that is not_prepared instead.
  static Status make(const Driver& driver, const CallContext& context, const Matmul& call, const CheckedCall& checked, std::shared_ptr<LaunchPlan>& plan);

  // The launch of a call with the plan's key. No allocation, no formatting unless it fails.
  Status launch(const Driver& driver, const Matmul& call);
  const Configuration& configuration() const { return configuration_; }

 private:
  template <class Arguments> Status fill_maps(const Driver& driver, const Matmul& call, Arguments& arguments);

  CheckedCall checked_;
  Configuration configuration_;
  const LoadedKernel* kernel_ = nullptr;
  cuda::LaunchConfig config_{};
  cuda::LaunchAttribute attributes_[2]{};
  using AnyArguments = std::variant<GemmSimtArguments, GemmSm90Arguments, GemmDecodeArguments>;
  AnyArguments arguments_;

  // The tensor maps of the latest call, and for which addresses they hold. Guarded by a flag that nobody waits for: who finds it
  // taken works on a copy of the first maps.
  struct Addresses { const void *a, *b, *d; };
  std::atomic_flag latest_taken_ = ATOMIC_FLAG_INIT;
  AnyArguments latest_;
  Addresses latest_addresses_{}, first_addresses_{};
};

// The configuration that a call runs with: its own, checked, or the model's pick.
Status choose_configuration(const DeviceInfo& device, const Matmul& call, const CheckedCall& checked, Configuration& configuration);

}  // namespace foretile
