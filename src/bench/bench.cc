#include "bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <stdexcept>

#include "bench/baseline.h"
#include "bench/statistics.h"
#include "bench/workload.h"
#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "model/text.h"

namespace foretile::bench {

namespace {

void check_options(const BenchOptions& o) {
  if (o.shapes.empty()) throw std::invalid_argument("shapes: none given");
  if (o.rounds < 1) throw std::invalid_argument(fmt::format("rounds is {}; at least 1", o.rounds));
  if (!(o.arm_seconds >= 0 && o.arm_seconds <= 60)) throw std::invalid_argument(fmt::format("arm_seconds is {}; allowed: 0 (by size) to 60", o.arm_seconds));
  for (const DType t : {o.in, o.out})
    if (!is_float(t)) throw std::invalid_argument(fmt::format("dtype is {}; allowed: fp32, fp16, bf16", name_of(t)));
}

double forecast_us(const Gpu& gpu, const Workload& w, const Configuration& c, Regime regime, std::string* bound) {
  const Machine* machine = machine_for_device(gpu.info().name, gpu.info().compute_capability, gpu.info().sms);
  if (!machine || why_not_on(*machine, w.operation(), c, w.problem())) return 0;
  const Forecast f = forecast(*machine, w.operation(), c, w.problem(), {.regime = regime, .dependent = w.mode().dependent});
  if (bound) *bound = name_of(f.bound);
  return f.seconds * 1e6;
}

double estimate_us(const Gpu& gpu, const Workload& w, const Configuration* c) {
  const Arm arm = make_arm(gpu, std::min<i64>(w.copies(), 4), [&](i64 i) { w.run(i, c); });
  return time_arm(gpu, arm, 0, nullptr).microseconds;
}

BenchRow measure(const BenchOptions& options, Arena& arena, const Workload& w, const Configuration* configuration, const CublasLt* lt, const CublasLtProduct* product,
                 const BaselineChoice* baseline, const Nvml& nvml) {
  const Gpu& gpu = arena.gpu;
  BenchRow row;
  row.shape = w.shape();
  row.chosen = configuration == nullptr;
  const Configuration used = configuration ? *configuration : w.chosen();
  row.configuration = text_of(used);
  const bool hot = power_binds(w);
  const double seconds = options.arm_seconds > 0 ? options.arm_seconds : hot ? 0.3 : 0.03;
  row.forecast_microseconds = forecast_us(gpu, w, used, hot ? Regime::sustained : Regime::burst, &row.forecast_bound);

  const i64 launches = launches_for(w, estimate_us(gpu, w, configuration));
  const Arm ours = make_arm(gpu, launches, [&](i64 i) { w.run(i, configuration); });
  Arm theirs;
  if (lt)
    theirs = make_arm(gpu, launches, [&](i64 i) {
      if (!product->run(baseline->algorithm, arena.a.data(), w.weights(i), arena.baseline_d.data(), arena.workspace.data(), gpu.stream()))
        throw std::runtime_error(w.shape().name + ": the chosen cuBLASLt candidate does not run");
    });
  w.poison();
  // One round ahead that does not count, so that the first counted arm meets the same temperature and clock as the others.
  time_arm(gpu, ours, seconds / 2, nullptr);
  if (lt) time_arm(gpu, theirs, seconds / 2, nullptr);
  std::vector<double> our_times, their_times, ratios, mhz, watts, their_mhz, their_watts;
  double joules = 0, their_joules = 0;
  for (int round = 0; round < options.rounds; ++round) {
    ArmTime base;
    if (lt) {
      base = time_arm(gpu, theirs, seconds, &nvml);
      their_times.push_back(base.microseconds), their_mhz.push_back(base.mhz), their_watts.push_back(base.watts);
      their_joules += base.joules / options.rounds;
    }
    const ArmTime t = time_arm(gpu, ours, seconds, &nvml);
    our_times.push_back(t.microseconds), mhz.push_back(t.mhz), watts.push_back(t.watts);
    joules += t.joules / options.rounds;
    if (lt) ratios.push_back(base.microseconds / t.microseconds);
  }
  row.microseconds = median(our_times);
  row.teraflops = w.flop() / row.microseconds * 1e-6;
  row.mhz = median(mhz), row.watts = median(watts), row.joules = joules;
  if (lt) {
    row.baseline_microseconds = median(their_times);
    row.baseline_first_microseconds = baseline->first_microseconds;
    row.baseline_mhz = median(their_mhz), row.baseline_watts = median(their_watts), row.baseline_joules = their_joules;
    row.candidates = baseline->candidates, row.best_candidate = baseline->index;
    const MedianInterval m = median_interval(ratios);
    row.ratio = {m.median, m.low, m.high};
  }
  // The outputs stand as the last timed launches left them; both arms end on the same weights.
  row.verified = w.judge(launches - 1, lt != nullptr, row.bound_used);
  if (row.verified.empty()) row.verified = "ok";
  return row;
}

std::vector<const Configuration*> configurations_for(const BenchOptions& options, const Workload& w) {
  if (options.configurations.empty()) return {nullptr};
  std::vector<const Configuration*> list;
  for (const Configuration& c : options.configurations)
    if (!why_not(w.operation(), c, w.problem())) list.push_back(&c);
  if (list.empty()) throw std::invalid_argument(fmt::format("{}: none of the configurations asked for can compute it; the first: {}", w.shape().name,
                                                            why_not(w.operation(), options.configurations.front(), w.problem())));
  return list;
}

}  // namespace

BenchReport bench(const BenchOptions& options) {
  check_options(options);
  const Gpu gpu(options.device);
  const Nvml nvml(gpu.pci_bus_id());
  BenchReport report;
  report.gpu = gpu.info().name, report.driver = driver_text(gpu, nvml), report.date = today();
  report.power_limit_watts = nvml.power_limit_watts();
  report.dtype = fmt::format("{}->{}", name_of(options.in), name_of(options.out));
  report.mode = options.mode.text();
  const CublasLt* lt = options.baseline ? CublasLt::load(&report.cublaslt_missing) : nullptr;
  if (lt) report.cublaslt = fmt::format("{} ({})", lt->version, lt->path);
  WinnersFile winners(options.winners_path);
  Arena arena(gpu, options.shapes, options.in, options.out, lt != nullptr);
  for (const Shape& shape : options.shapes) {
    const Workload w(arena, shape, options.in, options.out, options.mode);
    std::unique_ptr<CublasLtProduct> product;
    BaselineChoice baseline;
    if (lt) {
      product = std::make_unique<CublasLtProduct>(*lt, w.operation(), w.problem());
      baseline = choose_baseline(*lt, *product, arena, w, winners);
    }
    for (const Configuration* c : configurations_for(options, w)) {
      report.rows.push_back(measure(options, arena, w, c, lt, product.get(), &baseline, nvml));
      const BenchRow& r = report.rows.back();
      if (options.progress)
        options.progress(fmt::format("{} M={} N={} K={} {}: {:.1f} us, {:.0f} TFLOP/s{}, {}", shape.name, shape.m, shape.n, shape.k, r.configuration, r.microseconds, r.teraflops,
                                     lt ? fmt::format(", {:.3f} of cuBLASLt's best", r.ratio.median) : "", r.verified));
    }
  }
  return report;
}

ConfigurationReport bench_configurations(const BenchOptions& options, double seconds) {
  check_options(options);
  const Gpu gpu(options.device);
  const Nvml nvml(gpu.pci_bus_id());
  ConfigurationReport report;
  report.gpu = gpu.info().name, report.driver = driver_text(gpu, nvml), report.date = today();
  report.dtype = fmt::format("{}->{}", name_of(options.in), name_of(options.out));
  report.mode = options.mode.text();
  Arena arena(gpu, options.shapes, options.in, options.out, false);
  std::vector<Configuration> all = options.configurations;
  if (all.empty()) all.assign(std::begin(catalogue::kConfigurations), std::end(catalogue::kConfigurations));
  const std::time_t begin = std::time(nullptr);
  for (const Shape& shape : options.shapes) {
    if (seconds > 0 && std::difftime(std::time(nullptr), begin) > seconds) {
      if (options.progress) options.progress(fmt::format("stopped before {} M={}: {:.0f} s are over", shape.name, shape.m, seconds));
      break;
    }
    const Workload w(arena, shape, options.in, options.out, options.mode);
    for (const Configuration& c : all) {
      if (why_not(w.operation(), c, w.problem())) continue;
      // The simt family would take seconds where the tensor cores take milliseconds, and nobody would choose it there.
      if (c.family == Family::simt && w.operation().a != DType::fp32 && w.flop() > 2e11) continue;
      ConfigurationRow row;
      row.shape = shape, row.configuration = text_of(c);
      row.forecast_burst_microseconds = forecast_us(gpu, w, c, Regime::burst, nullptr);
      row.forecast_sustained_microseconds = forecast_us(gpu, w, c, Regime::sustained, nullptr);
      w.poison();
      const double estimate = estimate_us(gpu, w, &c);
      const i64 launches = std::clamp<i64>(i64(3e3 / estimate), 2, 128);
      const Arm arm = make_arm(gpu, launches, [&](i64 i) { w.run(i, &c); });
      std::vector<double> bursts;
      for (int i = 0; i < 3; ++i) {
        pause(0.02);
        bursts.push_back(time_arm(gpu, arm, 0, nullptr).microseconds);  // one replay to warm up, one timed
      }
      row.burst_microseconds = median(bursts);
      if (power_binds(w)) {
        time_arm(gpu, arm, 0.1, nullptr);
        const ArmTime t = time_arm(gpu, arm, 0.15, &nvml);
        row.sustained_microseconds = t.microseconds, row.mhz = t.mhz, row.watts = t.watts;
      }
      double bound_used = 0;
      row.verified = w.judge(launches - 1, false, bound_used);
      if (row.verified.empty()) row.verified = "ok";
      report.rows.push_back(row);
    }
    if (options.progress) options.progress(fmt::format("{} M={} done, {} rows", shape.name, shape.m, report.rows.size()));
  }
  return report;
}

}  // namespace foretile::bench
