#include "bench/gated.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "api/check.h"
#include "api/launch_plan.h"
#include "bench/baseline.h"
#include "bench/statistics.h"
#include "bench/workload.h"
#include "foretile/device/legality.h"
#include "model/model.h"
#include "model/text.h"

namespace foretile::bench {

namespace {

void check_options(const GatedOptions& o) {
  if (o.shapes.empty()) throw std::invalid_argument("shapes: none given");
  if (!is_half_width(o.type)) throw std::invalid_argument(fmt::format("dtype is {}; allowed: bf16, fp16", name_of(o.type)));
  if (o.rounds < 1) throw std::invalid_argument(fmt::format("rounds is {}; at least 1", o.rounds));
  for (const Shape& s : o.shapes)
    if (s.n % 16) throw std::invalid_argument(fmt::format("n is {} ({}); allowed: a multiple of 16", s.n, s.name));
}

double copy_rate(const Gpu& gpu) {
  constexpr i64 kBytes = i64(512) << 20;
  const Buffer from(gpu, kBytes), to(gpu, kBytes);
  gpu.set_bytes(from.data(), 1, kBytes);
  double best = 0;
  for (const i64 blocks : {i64(gpu.info().sms) * 4, i64(gpu.info().sms) * 8, i64(gpu.info().sms) * 16, kBytes / 16 / 256 / 4}) {
    void *source = from.data(), *target = to.data();
    i64 count = kBytes / 16;
    const Arm arm = make_arm(gpu, 4, [&](i64) { gpu.launch("copy", int(blocks), 256, {&source, &target, &count}); });
    best = std::max(best, 2 * double(kBytes) / (time_arm(gpu, arm, 0.05, nullptr).microseconds * 1e-6));
  }
  return best;
}

// The gated product of a plain one's operands.
class Gated {
 public:
  // The library's choice without a configuration.
  Gated(const Gpu& gpu, const Workload& product, const Configuration* asked) : product_(product), asked_(asked) {
    CheckedCall checked;
    Status s = check_call(call(0), Pointers::real, checked);
    if (s) s = choose_configuration(gpu.info(), call(0), checked, configuration_);
    if (!s) throw std::runtime_error(product.shape().name + ": " + s.message());
    operation_ = checked.operation;
  }
  Matmul call(i64 copy) const {
    Matmul call = product_.call(copy, asked_);
    call.gating = Gating::halves, call.activation = Activation::silu;
    return call;
  }
  void run(i64 copy) const {
    if (const Status s = matmul(call(copy)); !s) throw std::runtime_error(product_.shape().name + ": " + s.message());
  }
  const Operation& operation() const { return operation_; }
  const Configuration& configuration() const { return configuration_; }

 private:
  const Workload& product_;
  const Configuration* asked_;
  Operation operation_;
  Configuration configuration_;
};

// Whether the pair's D is ours, up to the roundings that it has more: of gate and up column to the 16-bit type.
std::string compare_pair(const Arena& arena, const Shape& shape, DType type, const Buffer& pair_d) {
  float result[2] = {};
  arena.gpu.upload(arena.verdict.data(), result, sizeof result);
  void *x = arena.d.data(), *y = pair_d.data(), *out = arena.verdict.data();
  i64 count = shape.m * shape.n / 2;
  arena.gpu.launch("difference", arena.gpu.info().sms * 8, 256, {&type, &x, &y, &count, &out});
  arena.gpu.download(result, out, sizeof result);
  const double allowed = type == DType::bf16 ? 0x1p-5 : 0x1p-8;
  return result[0] <= allowed * result[1] ? std::string() : fmt::format("differs from the pair's result by up to {} where the largest value is {}. ", result[0], result[1]);
}

Operation gated_operation(const Workload& w) {
  Operation o = w.operation();
  o.gating = Gating::halves, o.activation = Activation::silu;
  return o;
}

GatedRow measure(const GatedOptions& options, Arena& arena, const Workload& w, const Configuration* asked, const CublasLt& lt, WinnersFile& winners, const Buffer& pair_d) {
  const Gpu& gpu = arena.gpu;
  const Shape& shape = w.shape();
  const Gated gated(gpu, w, asked);
  const CublasLtProduct product(lt, w.operation(), w.problem());
  const BaselineChoice baseline = choose_baseline(lt, product, arena, w, winners);

  const auto multiply = [&](i64 i) {
    if (!product.run(baseline.algorithm, arena.a.data(), w.weights(i), arena.baseline_d.data(), arena.workspace.data(), gpu.stream()))
      throw std::runtime_error(shape.name + ": the chosen cuBLASLt candidate does not run");
  };
  const auto gate = [&](bool dependent) { launch_gate(gpu, shape, options.type, arena.baseline_d.data(), pair_d.data(), dependent); };

  GatedRow row;
  row.shape = shape;
  row.configuration = text_of(gated.configuration());
  const bool hot = w.flop() >= kPowerBinds;
  if (const Machine* machine = machine_for_device(gpu.info().name, gpu.info().compute_capability, gpu.info().sms); machine && !why_not_on(*machine, gated.operation(), gated.configuration(), w.problem()))
    row.forecast_microseconds = forecast(*machine, gated.operation(), gated.configuration(), w.problem(), {.regime = hot ? Regime::sustained : Regime::burst, .dependent = options.mode.dependent}).seconds * 1e6;
  const double seconds = options.arm_seconds > 0 ? options.arm_seconds : hot ? 0.3 : 0.03;
  const Arm few = make_arm(gpu, std::min<i64>(w.copies(), 4), [&](i64 i) { gated.run(i); });
  const i64 launches = launches_for(w, time_arm(gpu, few, 0, nullptr).microseconds);
  const Arm ours = make_arm(gpu, launches, [&](i64 i) { gated.run(i); });
  const Arm pair = make_arm(gpu, launches, [&](i64 i) { multiply(i), gate(options.mode.dependent); });
  const Arm product_alone = make_arm(gpu, launches, multiply), gate_alone = make_arm(gpu, launches, [&](i64) { gate(false); });
  w.poison();
  gpu.set_bytes(pair_d.data(), 0xFF, std::size_t(shape.m * shape.n / 2 * size_of(options.type)));
  // One round ahead that does not count, as in bench().
  time_arm(gpu, ours, seconds / 2, nullptr);
  time_arm(gpu, pair, seconds / 2, nullptr);
  std::vector<double> our_times, pair_times, ratios;
  for (int round = 0; round < options.rounds; ++round) {
    pair_times.push_back(time_arm(gpu, pair, seconds, nullptr).microseconds);
    our_times.push_back(time_arm(gpu, ours, seconds, nullptr).microseconds);
    ratios.push_back(pair_times.back() / our_times.back());
  }
  row.microseconds = median(our_times), row.pair_microseconds = median(pair_times);
  const MedianInterval m = median_interval(ratios);
  row.ratio = {m.median, m.low, m.high};
  // The outputs stand as the last timed launches left them; both arms end on the same weights.
  row.verified = judge_sampled(arena, shape, gated.operation(), w.weights(launches - 1), launches - 1, row.bound_used) + compare_pair(arena, shape, options.type, pair_d);
  if (row.verified.empty()) row.verified = "ok";
  row.product_microseconds = time_arm(gpu, product_alone, seconds, nullptr).microseconds;
  row.gate_microseconds = time_arm(gpu, gate_alone, seconds, nullptr).microseconds;
  row.gate_bytes_per_second = double(shape.m * (shape.n + shape.n / 2) * size_of(options.type)) / (row.gate_microseconds * 1e-6);
  return row;
}

}  // namespace

void launch_gate(const Gpu& gpu, const Shape& shape, DType type, void* product, void* d, bool dependent) {
  GateArguments g{product, d, shape.m, shape.n / 2, type};
  const i64 pieces = g.rows * (g.columns / 8), one_wave = i64(gpu.info().sms) * 2048;
  const i64 each = pieces <= one_wave ? 1 : 2;  // a thread: few, so that all SMs have some, or two under way together
  gpu.launch("gate", int(std::min<i64>(ceil_div(pieces, 256 * each), 1 << 20)), 256, {&g}, dependent);
}

GatedReport bench_gated(const GatedOptions& options) {
  check_options(options);
  const Gpu gpu(options.device);
  const Nvml nvml(gpu.pci_bus_id());
  GatedReport report;
  std::string missing;
  const CublasLt* lt = CublasLt::load(&missing);
  if (!lt) throw std::runtime_error("bench --gated needs cuBLASLt for its other arm: " + missing);
  report.gpu = gpu.info().name, report.driver = driver_text(gpu, nvml), report.date = today();
  report.cublaslt = fmt::format("{} ({})", lt->version, lt->path);
  report.dtype = fmt::format("{}->{}", name_of(options.type), name_of(options.type));
  report.mode = options.mode.text();
  report.copy_bytes_per_second = copy_rate(gpu);
  WinnersFile winners(options.winners_path);
  CsvFile csv = report.open_csv(options.csv);
  Arena arena(gpu, options.shapes, options.type, options.type, true);
  const Buffer pair_d(gpu, arena.d.size());
  for (const Shape& shape : options.shapes) {
    const Workload w(arena, shape, options.type, options.type, options.mode);
    for (const Configuration* c : configurations_for(options.configurations, gated_operation(w), w)) {
      report.rows.push_back(measure(options, arena, w, c, *lt, winners, pair_d));
      const GatedRow& r = report.rows.back();
      csv.row(r.csv());
      if (options.progress) options.progress(fmt::format("{} M={} N={} K={} {}: {:.1f} us, the pair {:.1f} us, {:.3f}, {}", shape.name, shape.m, shape.n, shape.k, r.configuration, r.microseconds, r.pair_microseconds, r.ratio.median, r.verified));
    }
  }
  return report;
}

bool GatedReport::verified() const {
  return !rows.empty() && std::all_of(rows.begin(), rows.end(), [](const GatedRow& r) { return r.verified == "ok"; });
}
double GatedReport::geometric_mean() const {
  double sum = 0;
  for (const GatedRow& r : rows) sum += std::log(r.ratio.median);
  return rows.empty() ? 1 : std::exp(sum / double(rows.size()));
}
double GatedReport::worst() const {
  double least = rows.empty() ? 1 : rows.front().ratio.median;
  for (const GatedRow& r : rows) least = std::min(least, r.ratio.median);
  return least;
}

std::string GatedReport::table() const {
  std::string s = fmt::format("{}, {}, cuBLASLt {}, {}, ours {}\nD = silu(gate) * up in one kernel, beside cuBLASLt's best candidate and a gating kernel{}; N counts both halves\n", gpu, driver, cublaslt, dtype, mode, mode.starts_with("dependent") ? ", launched dependent on it" : "");
  s += fmt::format("{:<16} {:>5} {:>6} {:>6}  {:<24} {:>9} {:>9} {:>9} {:>8} {:>6} {:>16} {:>9} {:>11}  {}\n", "layer", "M", "N", "K", "configuration", "us", "pair us", "cuBLASLt", "gate us", "ratio", "95 %", "forecast", "gate / copy", "checked");
  for (const GatedRow& r : rows)
    s += fmt::format("{:<16} {:>5} {:>6} {:>6}  {:<24} {:>9.1f} {:>9.1f} {:>9.1f} {:>8.1f} {:>6.3f} [{:.3f}, {:.3f}] {:>9.1f} {:>11.2f}  {}\n", r.shape.name, r.shape.m, r.shape.n, r.shape.k, r.configuration, r.microseconds,
                     r.pair_microseconds, r.product_microseconds, r.gate_microseconds, r.ratio.median, r.ratio.low, r.ratio.high, r.forecast_microseconds, r.gate_bytes_per_second / copy_bytes_per_second, r.verified);
  s += fmt::format("geometric mean {:.3f}, worst {:.3f}, over {} rows (above 1 is faster than the pair)\n", geometric_mean(), worst(), rows.size());
  s += fmt::format("copy rate in this run: {:.0f} GB/s read and written; gate / copy: the gating kernel's bytes over that (above 1 where its operands stay in L2)\n", copy_bytes_per_second * 1e-9);
  return s;
}

CsvFile GatedReport::open_csv(const std::string& path) const {
  return {path,
          fmt::format("date {}, {}, driver {}, cuBLASLt {}, {}, ours {}; SwiGLU in one kernel beside cuBLASLt and a gating kernel; copy rate {:.0f} GB/s; random normal data, weights rotate through over 512 MB, CUDA graph replays, arms alternate", date,
                      gpu, driver, cublaslt, dtype, mode, copy_bytes_per_second * 1e-9),
          "layer,m,n,k,configuration,us,pair_us,cublaslt_us,gate_us,gate_gb_s,ratio,ratio_low,ratio_high,forecast_us,bound_used,verified"};
}
std::string GatedRow::csv() const {
  return fmt::format("{},{},{},{},{},{:.2f},{:.2f},{:.2f},{:.2f},{:.0f},{:.4f},{:.4f},{:.4f},{:.2f},{:.3f},{}", quoted(shape.name), shape.m, shape.n, shape.k, configuration, microseconds, pair_microseconds, product_microseconds, gate_microseconds,
                     gate_bytes_per_second * 1e-9, ratio.median, ratio.low, ratio.high, forecast_microseconds, bound_used, quoted(verified));
}

}  // namespace foretile::bench
