#include "bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <stdexcept>

#include "bench/baseline.h"
#include "bench/floor.h"
#include "bench/parallel.h"
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
  if (!is_input(o.in)) throw std::invalid_argument(fmt::format("in is {}; allowed: fp32, tf32, fp16, bf16", name_of(o.in)));
  if (!is_float(o.out)) throw std::invalid_argument(fmt::format("out is {}; allowed: fp32, fp16, bf16", name_of(o.out)));
}

double forecast_us(const Gpu& gpu, const Workload& w, const Configuration& c, Regime regime, std::string* bound) {
  const Machine* machine = machine_for_device(gpu.info().name, gpu.info().compute_capability, gpu.info().sms);
  if (!machine || why_not_on(*machine, w.operation(), c, w.problem())) return 0;
  const Forecast f = forecast(*machine, w.operation(), c, w.problem(), {.regime = regime, .dependent = w.mode().dependent});
  if (bound) *bound = name_of(f.bound);
  return f.seconds * 1e6;
}

template <class F> double estimate_us(const Gpu& gpu, const Workload& w, F&& launch) {
  const Arm arm = make_arm(gpu, std::min<i64>(w.copies(), 4), launch);
  return time_arm(gpu, arm, 0, nullptr).microseconds;
}

BenchRow measure(const BenchOptions& options, Arena& arena, const Workload& w, const Configuration* configuration, const CublasLt* lt, const CublasLtProduct* product,
                 const BaselineChoice* baseline, const ReadFloor* floor, const Nvml& nvml) {
  const Gpu& gpu = arena.gpu;
  BenchRow row;
  row.shape = w.shape();
  row.chosen = configuration == nullptr;
  const Configuration used = configuration ? *configuration : w.chosen();
  row.configuration = text_of(used);
  const bool hot = w.flop() >= kPowerBinds;
  const double seconds = options.arm_seconds > 0 ? options.arm_seconds : hot ? 0.3 : 0.03;
  row.forecast_microseconds = forecast_us(gpu, w, used, hot ? Regime::sustained : Regime::burst, &row.forecast_bound);

  const auto launch = [&](i64 i) { w.run(i, configuration); };
  const i64 launches = launches_for(w, estimate_us(gpu, w, launch));
  const Arm ours = make_arm(gpu, launches, launch);
  Arm theirs;
  if (lt)
    theirs = make_arm(gpu, launches, [&](i64 i) {
      if (!product->run(baseline->algorithm, arena.a.data(), w.weights(i), arena.baseline_d.data(), arena.workspace.data(), gpu.stream()))
        throw std::runtime_error(w.shape().name + ": the chosen cuBLASLt candidate does not run");
    });
  Arm reading;
  if (floor) reading = make_arm(gpu, launches, [&](i64 i) { floor->run(i); });
  w.poison();
  // One round ahead that does not count, so that the first counted arm meets the same temperature and clock as the others.
  time_arm(gpu, ours, seconds / 2, nullptr);
  if (lt) time_arm(gpu, theirs, seconds / 2, nullptr);
  if (floor) time_arm(gpu, reading, seconds / 2, nullptr);
  std::vector<double> our_times, their_times, floor_times, ratios, mhz, watts, their_mhz, their_watts;
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
    if (floor) floor_times.push_back(time_arm(gpu, reading, seconds, nullptr).microseconds);
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
  if (floor) row.floor_microseconds = median(floor_times), row.floor_ring = floor->ring().text();
  // The outputs stand as the last timed launches left them; both arms end on the same weights.
  row.verified = w.judge(launches - 1, lt != nullptr, row.bound_used);
  if (row.verified.empty()) row.verified = "ok";
  return row;
}

// Of bench_configurations().
// The board's power control takes a second to settle: kernels alike to 1 % in bursts differed by 13 % within 40 ms, and after 0.3 s and 0.1 s
// each whichever came third ran at 0.9 of the others' clock.
constexpr double kBurstSeconds = 3e-3, kRestSeconds = 0.01, kWarmSeconds = 1, kSettleSeconds = 0.1, kSustainedSeconds = 0.1;
constexpr double kWorthSustaining = 1.25;  // of the shape's shortest burst
constexpr int kRounds = 3;

// Legal here, and by the model worth timing; `left_out` counts the others. `offered`: by choose().
struct Candidates {
  std::vector<const Configuration*> configurations;
  std::vector<bool> offered;
  int left_out = 0;
};
Candidates worth_timing(const Machine& machine, const std::vector<Configuration>& all, const Workload& w, double power_binds_from) {
  const Conditions conditions{.regime = w.flop() >= power_binds_from ? Regime::sustained : Regime::burst, .dependent = w.mode().dependent, .batch_invariant = w.mode().batch_invariant};
  std::vector<std::pair<const Configuration*, double>> legal;
  double shortest = std::numeric_limits<double>::infinity();
  for (const Configuration& c : all) {
    if (why_not_on(machine, w.operation(), c, w.problem())) continue;
    legal.emplace_back(&c, forecast(machine, w.operation(), c, w.problem(), conditions).seconds);
    shortest = std::min(shortest, legal.back().second);
  }
  const Choice choice = choose(machine, w.operation(), w.problem(), conditions);
  Candidates worth;
  for (const auto& [c, seconds] : legal) {
    if (seconds > kWorthTiming * shortest) {
      ++worth.left_out;
      continue;
    }
    worth.configurations.push_back(c);
    worth.offered.push_back(std::any_of(choice.ranked.begin(), choice.ranked.end(), [&, c = c](const Candidate& x) { return x.configuration == *c; }));
  }
  return worth;
}

struct Timed {
  Arm arm;
  ConfigurationRow row;
  std::vector<double> bursts, burst_mhz;
};

// Configurations take turns, so that all of a shape meet the same temperature.
std::vector<ConfigurationRow> measure_configurations(const BenchOptions& options, const Workload& w, const Candidates& candidates, const Gpu& gpu, const Nvml& nvml) {
  std::vector<Timed> timed;
  for (std::size_t i = 0; i < candidates.configurations.size(); ++i) {
    const Configuration* c = candidates.configurations[i];
    Timed t;
    t.row.shape = w.shape(), t.row.configuration = text_of(*c), t.row.offered = candidates.offered[i];
    t.row.forecast_burst_microseconds = forecast_us(gpu, w, *c, Regime::burst, nullptr);
    t.row.forecast_sustained_microseconds = forecast_us(gpu, w, *c, Regime::sustained, nullptr);
    const auto launch = [&](i64 i) {
      if (!options.product) w.run(i, c);
      else if (const Status s = options.product(w.call(i, c)); !s) throw std::runtime_error(s.message());
    };
    t.arm = make_arm(gpu, std::clamp<i64>(i64(kBurstSeconds * 1e6 / estimate_us(gpu, w, launch)), 2, 128), launch);
    timed.push_back(std::move(t));
  }
  const bool hot = w.flop() >= options.power_binds_from;
  for (int round = 0; round < kRounds; ++round)
    for (Timed& t : timed) {
      if (round == 0) w.poison();
      if (hot) pause(kRestSeconds);
      const ArmTime a = time_arm(gpu, t.arm, 0, nullptr);
      t.bursts.push_back(a.microseconds), t.burst_mhz.push_back(a.mhz);
      if (round > 0) continue;
      double bound_used = 0;
      t.row.verified = w.judge(t.arm.launches - 1, false, bound_used);
      if (t.row.verified.empty()) t.row.verified = "ok";
    }
  double shortest = std::numeric_limits<double>::infinity();
  for (Timed& t : timed) {
    t.row.burst_microseconds = median(t.bursts), t.row.burst_mhz = median(t.burst_mhz);
    shortest = std::min(shortest, t.row.burst_microseconds);
  }
  if (hot) {
    time_arm(gpu, timed.front().arm, kWarmSeconds, nullptr);
    for (Timed& t : timed) {
      if (t.row.burst_microseconds > kWorthSustaining * shortest) {
        t.row.offered = false;
        continue;
      }
      const ArmTime a = time_arm(gpu, t.arm, kSustainedSeconds, &nvml, kSettleSeconds);
      t.row.sustained_microseconds = a.microseconds, t.row.mhz = a.mhz, t.row.watts = a.watts;
    }
  }
  std::vector<ConfigurationRow> rows;
  for (Timed& t : timed) rows.push_back(std::move(t.row));
  return rows;
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
  CsvFile csv = report.open_csv(options.csv);
  Arena arena(gpu, options.shapes, options.in, options.out, lt != nullptr);
  for (const Shape& shape : options.shapes) {
    const Workload w(arena, shape, options.in, options.out, options.mode);
    std::unique_ptr<CublasLtProduct> product;
    BaselineChoice baseline;
    if (lt) {
      product = std::make_unique<CublasLtProduct>(*lt, w.operation(), w.problem());
      baseline = choose_baseline(*lt, *product, arena, w, winners);
    }
    std::unique_ptr<ReadFloor> floor;
    if (options.floor) floor = std::make_unique<ReadFloor>(gpu, w);
    for (const Configuration* c : configurations_for(options.configurations, w.operation(), w)) {
      report.rows.push_back(measure(options, arena, w, c, lt, product.get(), &baseline, floor.get(), nvml));
      const BenchRow& r = report.rows.back();
      csv.row(r.csv());
      if (options.progress)
        options.progress(fmt::format("{} M={} N={} K={} {}: {:.1f} us, {:.0f} TFLOP/s{}{}, {}", shape.name, shape.m, shape.n, shape.k, r.configuration, r.microseconds, r.teraflops,
                                     lt ? fmt::format(", {:.3f} of cuBLASLt's best", r.ratio.median) : "",
                                     floor ? fmt::format(", {:.3f} of the floor", r.share_of_floor()) : "", r.verified));
    }
  }
  return report;
}

std::string ConfigurationReport::heading() const {
  return fmt::format("{}, {}, driver {}, {}, power limit {:.0f} W; every result checked against fp64, random normal data, weights rotate through over 512 MB, CUDA graph replays, configurations of a shape in turn, "
                     "median of {}; every legal configuration of the catalogue but those that were forecast to take more than {} times the shape's shortest; burst: {:.0f} ms after as much "
                     "uncounted, before them {:.0f} ms of rest where power binds (from {:.0e} FLOP on); settled, there, of what takes no more than {} times the shortest burst: once {:.0f} ms after {:.0f} ms uncounted, no rest; clocks: mean of the SMs' own counters",
                     date, gpu, driver, dtype + ", " + mode, power_limit_watts, kRounds, kWorthTiming, kBurstSeconds * 1e3, kRestSeconds * 1e3, kPowerBinds, kWorthSustaining, kSustainedSeconds * 1e3, kSettleSeconds * 1e3);
}

ConfigurationReport bench_configurations(const BenchOptions& options, double seconds) {
  check_options(options);
  const Gpu gpu(options.device);
  const Nvml nvml(gpu.pci_bus_id());
  ConfigurationReport report;
  report.gpu = gpu.info().name, report.driver = driver_text(gpu, nvml), report.date = today(), report.power_limit_watts = nvml.power_limit_watts();
  report.dtype = fmt::format("{}->{}", name_of(options.in), name_of(options.out));
  report.mode = options.mode.text();
  CsvFile csv = report.open_csv(options.csv);
  Arena arena(gpu, options.shapes, options.in, options.out, false, !options.product);
  std::vector<Configuration> all = options.configurations;
  if (all.empty()) all.assign(std::begin(catalogue::kConfigurations), std::end(catalogue::kConfigurations));
  const auto say = [&](const std::string& line) {
    if (options.progress) options.progress(line);
  };

  const Machine* machine = machine_for_device(gpu.info().name, gpu.info().compute_capability, gpu.info().sms);
  if (!machine) throw std::runtime_error(fmt::format("{}: no machine file is near enough to forecast which configurations are worth timing", gpu.info().name));
  std::vector<std::pair<Workload, Candidates>> plan;
  std::vector<Matmul> calls;
  for (const Shape& shape : options.shapes) {
    const Workload w(arena, shape, options.in, options.out, options.mode);
    plan.emplace_back(w, worth_timing(*machine, all, w, options.power_binds_from));
    if (plan.back().second.configurations.empty()) throw std::invalid_argument(shape.name + ": none of the configurations can compute it");
    for (const Configuration* c : plan.back().second.configurations) calls.push_back(w.call(0, c));
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  say(fmt::format("{} configurations of {} shapes to time; compiling", calls.size(), plan.size()));
  std::mutex mutex;
  std::string trouble;
  in_parallel(options.product ? 0 : calls.size(), 0, [&](std::size_t i) {
    if (const Status s = prepare(calls[i]); !s) {
      const std::lock_guard lock(mutex);
      trouble = s.message();
    }
  });
  if (!trouble.empty()) throw std::runtime_error("prepare: " + trouble);
  say(fmt::format("compiled, {:.0f} s", elapsed()));
  for (const auto& [w, candidates] : plan) {
    const Shape& shape = w.shape();
    if (seconds > 0 && elapsed() > seconds) {
      say(fmt::format("stopped before {} M={}: {:.0f} s are over", shape.name, shape.m, seconds));
      break;
    }
    for (ConfigurationRow& row : measure_configurations(options, w, candidates, gpu, nvml)) {
      csv.row(row.csv());
      report.rows.push_back(std::move(row));
    }
    report.left_out += candidates.left_out;
    say(fmt::format("{} M={} done, {} rows, {:.0f} s", shape.name, shape.m, report.rows.size(), elapsed()));
  }
  return report;
}

}  // namespace foretile::bench
