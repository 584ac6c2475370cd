// The C++ interface: matmul() and prepare(). docs/call.md follows a call through the layers.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "api/call_key.h"
#include "api/check.h"
#include "api/launch_plan.h"
#include "foretile/foretile.h"
#include "runtime/kernel_store.h"
#include "runtime/source.h"

namespace foretile {

namespace {

// Plans by call. Never destroyed: a call from another static's destructor still finds it.
class PlanTable {
 public:
  std::shared_ptr<LaunchPlan> find(const CallKey& key) {
    const std::shared_lock lock(mutex_);
    const auto it = plans_.find(key);
    return it == plans_.end() ? nullptr : it->second;
  }
  void insert(const CallKey& key, std::shared_ptr<LaunchPlan> plan) {
    const std::unique_lock lock(mutex_);
    // Serving sees thousands of values of M; a plan is about a kilobyte and made anew in microseconds.
    if (plans_.size() >= kLargest) plans_.clear();
    plans_.insert_or_assign(key, std::move(plan));
  }

 private:
  static constexpr std::size_t kLargest = 1 << 14;
  std::shared_mutex mutex_;
  std::unordered_map<CallKey, std::shared_ptr<LaunchPlan>, CallKeyHash> plans_;
};
PlanTable& plans() {
  static PlanTable& table = *new PlanTable;
  return table;
}

// A call seen before: no check but that of overlap, no allocation. False where it has to go the long way.
bool repeat(const Driver& driver, const Matmul& call, Status& status) {
  const CallContext context(driver, call.device);
  if (!context.status()) return false;  // the long way says what is wrong, arguments first
  const std::shared_ptr<LaunchPlan> plan = plans().find(make_key(context.id(), call));
  if (!plan) return false;
  status = plan->launch(driver, call);
  return true;
}

Status first(const Matmul& call, bool launch) {
  CheckedCall checked;
  if (Status s = check_call(call, launch ? Pointers::real : Pointers::placeholders, checked); !s) return s;
  if (checked.empty) return {};
  const Driver* driver = nullptr;
  if (Status s = load_driver(driver); !s) return s;
  const CallContext context(*driver, call.device);
  if (!context.status()) return context.status();
  const CallKey key = make_key(context.id(), call);
  std::shared_ptr<LaunchPlan> plan;
  if (!launch && plans().find(key)) return {};
  if (Status s = LaunchPlan::make(*driver, context, call, checked, plan); !s) return s;
  plans().insert(key, plan);
  return launch ? plan->launch(*driver, call) : Status{};
}

template <class Body> Status guarded(const char* who, const Body& body) {
  Status status;
  try {
    status = body();
  } catch (const std::bad_alloc&) {
    return {Code::internal_error, fmt::format("{}: out of host memory", who)};
  } catch (const std::exception& e) {
    return {Code::internal_error, fmt::format("{}: {}", who, e.what())};
  }
  if (status) return status;
  return {status.code(), fmt::format("{}: {}", who, status.message())};
}

// What the calls of a range of M run with, each once.
Status kernels_for_range(const Driver& driver, const CallContext& context, const Matmul& call, i64 m_first, i64 m_last,
                         std::vector<std::pair<Operation, Configuration>>& kernels) {
  const DeviceInfo* device = nullptr;
  if (Status s = driver.device(context.device(), device); !s) return s;
  Matmul at = call;
  for (at.m = m_first; at.m <= m_last; ++at.m) {
    CheckedCall checked;
    if (Status s = check_call(at, Pointers::placeholders, checked); !s) return s;
    if (checked.empty) continue;
    Configuration c;
    if (Status s = choose_configuration(*device, at, checked, c); !s) return s;
    const std::pair kernel{canonical(checked.operation, c), c};
    if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end()) kernels.push_back(kernel);
  }
  return {};
}

Status prepare_range(const Matmul& call, i64 m_first, i64 m_last) {
  constexpr i64 kWidest = 1 << 20;
  if (m_first < 0 || m_last < m_first || m_last - m_first >= kWidest)
    return {Code::invalid_argument, fmt::format("m_first is {} and m_last {}; allowed: 0 <= m_first <= m_last, at most {} values", m_first, m_last, kWidest)};
  Matmul largest = call;
  largest.m = m_last;
  CheckedCall checked;
  if (Status s = check_call(largest, Pointers::placeholders, checked); !s) return s;
  const Driver* driver = nullptr;
  if (Status s = load_driver(driver); !s) return s;
  const CallContext context(*driver, call.device);
  if (!context.status()) return context.status();
  std::vector<std::pair<Operation, Configuration>> kernels;
  if (Status s = kernels_for_range(*driver, context, call, m_first, m_last, kernels); !s) return s;

  // Compile in parallel; load on this thread, whose context is the right one. A kernel that fails here fails again, with its
  // message, when it is loaded.
  const DeviceInfo* device = nullptr;
  if (Status s = driver->device(context.device(), device); !s) return s;
  const auto stream = static_cast<cuda::Stream>(call.stream);
  KernelStore& store = KernelStore::process();
  int capturing = cuda::kCaptureNone;
  if (!cuda::is_special(stream))
    if (Status s = driver->check(driver->stream_capturing(stream, &capturing), "cuStreamIsCapturing"); !s) return s;
  if (capturing != cuda::kCaptureNone) {
    for (const auto& [o, c] : kernels)
      if (!store.find(context.id(), o, c)) return {Code::not_prepared, "stream is capturing: prepare before the capture begins"};
    return {};
  }
  const std::string architecture = architecture_for(device->compute_capability);
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  const std::size_t wanted = std::min<std::size_t>(kernels.size(), std::clamp(std::thread::hardware_concurrency(), 1u, 16u));
  const auto work = [&] {
    for (std::size_t i; (i = next++) < kernels.size();) {
      std::shared_ptr<const CompiledKernel> code;
      (void)store.compiled(kernels[i].first, kernels[i].second, architecture, code);
    }
  };
  for (std::size_t i = 1; i < wanted; ++i) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  for (const auto& [o, c] : kernels) {
    const LoadedKernel* kernel = nullptr;
    if (Status s = store.loaded(*driver, context.id(), device->compute_capability, o, c, kernel); !s) return s;
  }
  return {};
}

}  // namespace

Status matmul(const Matmul& call) {
  Status status;
  if (const Driver* driver = loaded_driver(); driver && call.m > 0 && call.n > 0 && call.batch > 0) {
    return guarded("matmul", [&] { return repeat(*driver, call, status) ? std::move(status) : first(call, true); });
  }
  return guarded("matmul", [&] { return first(call, true); });
}

Status prepare(const Matmul& call) {
  return guarded("prepare", [&] { return first(call, false); });
}

Status prepare(const Matmul& call, long long m_first, long long m_last) {
  return guarded("prepare", [&] { return prepare_range(call, m_first, m_last); });
}

#ifndef FORETILE_VERSION
#define FORETILE_VERSION "0.1.0"
#endif
const char* version() { return FORETILE_VERSION; }

}  // namespace foretile
