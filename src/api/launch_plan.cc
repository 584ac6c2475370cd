#include "api/launch_plan.h"

#include <fmt/format.h>

#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "model/model.h"
#include "model/text.h"
#include "runtime/source.h"

namespace foretile {

CallContext::CallContext(const Driver& driver, int device) {
  cuda::Context current = nullptr;
  if (status_ = driver.check(driver.context_current(&current), "cuCtxGetCurrent"); !status_) return;
  if (current)
    if (status_ = driver.check(driver.context_device(&device_), "cuCtxGetDevice"); !status_) return;
  if (!current || (device >= 0 && device != device_)) {
    device_ = device < 0 ? 0 : device;
    const DeviceInfo* info = nullptr;
    if (status_ = driver.device(device_, info); !status_) return;
    cuda::Context primary = nullptr;
    if (status_ = driver.primary_context(device_, primary); !status_) return;
    pushed_.emplace(driver, primary);
    if (status_ = pushed_->status(); !status_) return;
    current = primary;
  }
  unsigned long long id = 0;
  status_ = driver.check(driver.context_id(current, &id), "cuCtxGetId");
  id_ = id;
}

namespace {

// A stream of another context than the call's: the driver refuses the launch; say why.
Status check_stream(const Driver& driver, const CallContext& context, cuda::Stream stream) {
  if (cuda::is_special(stream)) return {};
  cuda::Context owner = nullptr;
  if (Status s = driver.check(driver.stream_context(stream, &owner), "cuStreamGetCtx"); !s)
    return {Code::invalid_argument, fmt::format("stream is {}, which is not a stream of the driver: {}", static_cast<const void*>(stream), s.message())};
  unsigned long long id = 0;
  if (Status s = driver.check(driver.context_id(owner, &id), "cuCtxGetId"); !s) return s;
  if (id == context.id()) return {};
  int device = -1;
  const ScopedContext scope(driver, owner);
  if (scope.status()) driver.context_device(&device);
  return {Code::invalid_argument,
          fmt::format("stream belongs to {}, but the call runs on device {}; allowed: a stream of the call's context (set the call's device, or make the stream's current)",
                      device == context.device() ? fmt::format("another context of device {}", device) : fmt::format("device {}", device), context.device())};
}

Status check_capture(const Driver& driver, cuda::Stream stream, bool& capturing) {
  int status = cuda::kCaptureNone;
  const cuda::Result result = driver.stream_capturing(stream, &status);
  // The legacy stream cannot capture; asking it while another stream does is an error that the launch would report.
  if (result != cuda::kSuccess && cuda::is_special(stream)) status = cuda::kCaptureNone;
  else if (result != cuda::kSuccess) return driver.check(result, "cuStreamIsCapturing");
  capturing = status != cuda::kCaptureNone;
  return {};
}

}  // namespace

// Takes every operation on every GPU, gated products apart: what it cannot compute, no other configuration can.
constexpr Configuration kPortable = catalogue::simt(128, 128, 8, 8, 8);
// The same of gated products.
constexpr Configuration kGated = catalogue::decode(16, 64, 128, 5);

std::string why_not_gated(const DeviceInfo& device, const CheckedCall& x) {
  if (device.compute_capability != 90) return fmt::format("device {} ({}) has no kernel for gated products: they need compute capability 9.0 (Hopper)", device.ordinal, device.name);
  if (x.problem.k == 0) return "gated products need something to multiply: K above 0, and an alpha that is not 0 on the host";
  const char* reason = why_not(x.operation, kGated, x.problem);
  return reason ? fmt::format("gated products take the decode and sm90 families, and {}", reason) : std::string();
}

Status choose_configuration(const DeviceInfo& device, const Matmul& call, const CheckedCall& x, Configuration& configuration) {
  if (device.compute_capability < 70)
    return {Code::unsupported, fmt::format("device {} ({}) has compute capability {}.{}; 7.0 or newer is needed", device.ordinal, device.name,
                                           device.compute_capability / 10, device.compute_capability % 10)};
  if (call.sm_budget > device.sms)
    return {Code::invalid_argument, fmt::format("sm_budget is {}; allowed: 0 (all) to {}, the SMs of device {}", call.sm_budget, device.sms, device.ordinal)};
  if (x.operation.gating != Gating::none)
    if (const std::string reason = why_not_gated(device, x); !reason.empty()) return {Code::unsupported, reason};
  // With nothing to multiply (K = 0, alpha = 0) no configuration matters: the portable kernel finishes D.
  if (call.configuration && x.problem.k > 0) {
    configuration = *call.configuration;
  } else if (const char* reason = x.operation.gating == Gating::none ? why_not(x.operation, kPortable, x.problem) : nullptr) {  // too large for any
    return {Code::unsupported, fmt::format("m {}, n {}, k {}, batch {}: {}", x.problem.m, x.problem.n, x.problem.k, x.problem.batch, reason)};
  } else {
    const Machine* machine = machine_for_device(device.name, device.compute_capability, device.sms);
    if (!machine) return {Code::unsupported, fmt::format("no machine file is near device {} ({})", device.ordinal, device.name)};
    configuration = pick(*machine, x.operation, x.problem,
                         {.sm_budget = call.sm_budget, .dependent = call.dependent && call.weights_ready, .batch_invariant = call.batch_invariant});
  }
  const char* reason = why_not(x.operation, configuration, x.problem);
  if (!reason && needs_hopper(configuration.family) && device.compute_capability != 90) reason = "the sm90, decode and rows families need compute capability 9.0 (Hopper)";
  if (reason)
    return {Code::unsupported, fmt::format("configuration {} cannot compute {} on device {} ({}): {}", text_of(configuration), text_of(x.operation), device.ordinal,
                                           device.name, reason)};
  return {};
}

Status LaunchPlan::make(const Driver& driver, const CallContext& context, const Matmul& call, const CheckedCall& checked, std::shared_ptr<LaunchPlan>& plan) {
  const auto stream = static_cast<cuda::Stream>(call.stream);
  if (Status s = check_stream(driver, context, stream); !s) return s;
  bool capturing = false;
  if (Status s = check_capture(driver, stream, capturing); !s) return s;
  const DeviceInfo* device = nullptr;
  if (Status s = driver.device(context.device(), device); !s) return s;

  auto fresh = std::make_shared<LaunchPlan>();
  fresh->checked_ = checked;
  Configuration& c = fresh->configuration_;
  if (Status s = choose_configuration(*device, call, checked, c); !s) return s;
  const Operation o = canonical(checked.operation, c);

  KernelStore& store = KernelStore::process();
  if (capturing) {
    fresh->kernel_ = store.find(context.id(), o, c);
    if (!fresh->kernel_)
      return {Code::not_prepared, fmt::format("stream is capturing and kernel {} for {} is not loaded on device {}: call prepare() with this call before the capture begins",
                                              text_of(c), text_of(o), context.device())};
  } else if (Status s = store.loaded(driver, context.id(), device->compute_capability, o, c, fresh->kernel_); !s) {
    return s;
  }

  const int sms = call.sm_budget ? call.sm_budget : device->sms;
  const LaunchShape shape = launch_shape(o, c, checked.problem, sms);
  cuda::LaunchConfig& launch = fresh->config_;
  launch.grid_x = shape.blocks, launch.grid_y = launch.grid_z = 1;
  launch.block_x = shape.threads, launch.block_y = launch.block_z = 1;
  launch.shared_bytes = shape.shared_bytes;
  launch.attributes = fresh->attributes_;
  if (shape.cluster > 1) {
    cuda::LaunchAttribute& cluster = fresh->attributes_[launch.attribute_count++];
    cluster.id = cuda::kClusterDimension;
    cluster.value.cluster = {shape.cluster, 1, 1};
  }
  if (call.dependent && device->compute_capability >= 90) {  // before, there is none: the kernel starts when its predecessors are complete
    cuda::LaunchAttribute& serialization = fresh->attributes_[launch.attribute_count++];
    serialization.id = cuda::kProgrammaticStreamSerialization;
    serialization.value.programmatic_stream_serialization = 1;
  }
  Status status;
  const EncodeTensorMap encode = [&](const TensorMapSpec& spec) {
    TensorMap map{};
    if (status) status = encode_tensor_map(driver, spec, map);
    return map;
  };
  const bool weights_ready = call.dependent && call.weights_ready;
  if (c.family == Family::sm90) {
    GemmSm90Arguments arguments = sm90_arguments(o, c, checked.problem, checked.operands, shape, encode);
    arguments.weights_ready = weights_ready;
    fresh->arguments_ = arguments;
  } else if (c.family == Family::decode || c.family == Family::rows) {
    GemmDecodeArguments arguments = decode_arguments(o, c, checked.problem, checked.operands, sms, encode);
    arguments.weights_ready = weights_ready;
    fresh->arguments_ = arguments;
  } else {
    fresh->arguments_ = simt_arguments(c, checked.problem, checked.operands, shape);
  }
  if (!status) return status;
  fresh->latest_ = fresh->arguments_;
  fresh->first_addresses_ = fresh->latest_addresses_ = {call.a.data, call.b.data, call.d.data};
  plan = std::move(fresh);
  return {};
}

template <class Arguments> Status LaunchPlan::fill_maps(const Driver& driver, const Matmul& call, Arguments& arguments) {
  const auto update = [&](Arguments& maps, Addresses& known) {
    const auto move = [&](TensorMap& map, const void*& from, const void* to) {
      if (from == to) return cuda::kSuccess;
      const cuda::Result result = driver.tensor_map_replace(&map, const_cast<void*>(to));
      if (result == cuda::kSuccess) from = to;
      return result;
    };
    cuda::Result result = move(maps.b, known.b, call.b.data);
    if (result == cuda::kSuccess) result = move(maps.a, known.a, call.a.data);
    if constexpr (requires { maps.d; })
      if (result == cuda::kSuccess && sm90::stores_by_tma(checked_.operation)) result = move(maps.d, known.d, call.d.data);
    return result;
  };
  cuda::Result result;
  if (!latest_taken_.test_and_set(std::memory_order_acquire)) {
    Arguments& latest = std::get<Arguments>(latest_);
    result = update(latest, latest_addresses_);
    arguments = latest;
    latest_taken_.clear(std::memory_order_release);
  } else {
    arguments = std::get<Arguments>(arguments_);
    Addresses known = first_addresses_;
    result = update(arguments, known);
  }
  return driver.check(result, "cuTensorMapReplaceAddress");
}

Status LaunchPlan::launch(const Driver& driver, const Matmul& call) {
  if (Status s = check_overlap(call, checked_); !s) return s;
  const auto fill = [&](EpilogueArguments& e) {
    const Operation& o = checked_.operation;
    e.c.data = o.has_c ? call.c.data : nullptr;
    e.bias.data = o.has_bias ? call.bias.data : nullptr;
    e.residual.data = o.has_residual ? call.residual.data : nullptr;
    e.d.data = call.d.data;
    e.alpha = call.alpha.value, e.beta = call.beta.value;
    e.alpha_pointer = call.alpha.pointer, e.beta_pointer = call.beta.pointer;
  };
  cuda::LaunchConfig config = config_;
  config.stream = static_cast<cuda::Stream>(call.stream);
  cuda::Result result;
  const auto launch_by_tma = [&](auto arguments) -> Status {
    if (Status s = fill_maps(driver, call, arguments); !s) return s;
    fill(arguments.epilogue);
    void* parameters[] = {&arguments};
    result = driver.launch(&config, kernel_->function, parameters, nullptr);
    return {};
  };
  if (configuration_.family == Family::sm90) {
    if (Status s = launch_by_tma(GemmSm90Arguments{}); !s) return s;
  } else if (configuration_.family == Family::decode || configuration_.family == Family::rows) {
    if (Status s = launch_by_tma(GemmDecodeArguments{}); !s) return s;
  } else {
    GemmSimtArguments arguments = std::get<GemmSimtArguments>(arguments_);
    const bool reads_ab = checked_.problem.k > 0;
    arguments.a.data = reads_ab ? call.a.data : nullptr;
    arguments.b.data = reads_ab ? call.b.data : nullptr;
    fill(arguments.epilogue);
    void* parameters[] = {&arguments};
    result = driver.launch(&config, kernel_->function, parameters, nullptr);
  }
  if (result == cuda::kSuccess) [[likely]] return {};
  // Rare: find out what is wrong.
  const CallContext context(driver, call.device);
  if (context.status())
    if (Status s = check_stream(driver, context, config.stream); !s) return s;
  return {Code::driver_error, fmt::format("cuLaunchKernelEx of {} ({} blocks of {} threads, {} bytes of shared memory): {}", text_of(configuration_), config.grid_x,
                                          config.block_x, config.shared_bytes, driver.describe(result))};
}

}  // namespace foretile
