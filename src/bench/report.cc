// Tables and CSV files of the benchmarks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/bench.h"
#include "model/accuracy.h"

namespace foretile::bench {

bool BenchReport::verified() const {
  return !rows.empty() && std::all_of(rows.begin(), rows.end(), [](const BenchRow& r) { return r.verified == "ok"; });
}

double BenchReport::geometric_mean() const {
  double sum = 0;
  int count = 0;
  for (const BenchRow& r : rows)
    if (r.ratio.median > 0) sum += std::log(r.ratio.median), ++count;
  return count ? std::exp(sum / count) : 1;
}

double BenchReport::worst() const {
  double least = 0;
  for (const BenchRow& r : rows)
    if (r.ratio.median > 0 && (least == 0 || r.ratio.median < least)) least = r.ratio.median;
  return least > 0 ? least : 1;
}

std::string BenchReport::table() const {
  const bool floor = std::any_of(rows.begin(), rows.end(), [](const BenchRow& r) { return r.floor_microseconds > 0; });
  std::string s = fmt::format("{}, {}, cuBLASLt {}, {}\n", gpu, driver, cublaslt.empty() ? "not found" : cublaslt, dtype + ", ours " + mode);
  s += fmt::format("{:<20} {:>5} {:>6} {:>6}  {:<30} {:>9} {:>7} {:>9} {:>6} {:>15} {:>9} {:>5} {:>5}  ", "layer", "M", "N", "K", "configuration", "us", "TFLOP/s", "cuBLASLt", "ratio", "95 %", "forecast", "MHz", "W");
  if (floor) s += fmt::format("{:>9} {:>5}  ", "floor", "share");
  s += "checked\n";
  for (const BenchRow& r : rows) {
    s += fmt::format("{:<20} {:>5} {:>6} {:>6}  {:<30} {:>9.1f} {:>7.0f} {:>9.1f} {:>6.3f} [{:.3f}, {:.3f}] {:>9.1f} {:>5.0f} {:>5.0f}  ", r.shape.name, r.shape.m, r.shape.n, r.shape.k, r.configuration, r.microseconds, r.teraflops,
                     r.baseline_microseconds, r.ratio.median, r.ratio.low, r.ratio.high, r.forecast_microseconds, r.mhz, r.watts);
    if (floor) s += fmt::format("{:>9.2f} {:>5.3f}  ", r.floor_microseconds, r.share_of_floor());
    s += r.verified + "\n";
  }
  if (!cublaslt.empty()) s += fmt::format("geometric mean {:.3f}, worst {:.3f}, over {} rows (above 1 is faster than cuBLASLt's best candidate)\n", geometric_mean(), worst(), rows.size());
  if (floor) s += "floor: the time in which a ring of bulk copies reads B's bytes and nothing is computed, launched as ours; share: that over our time\n";
  return s;
}

CsvFile BenchReport::open_csv(const std::string& path) const {
  return {path,
          fmt::format("date {}, {}, driver {}, cuBLASLt {}, {}, power limit {:.0f} W; random normal data, weights rotate through over 512 MB, CUDA graph replays, arms alternate", date, gpu, driver,
                      cublaslt.empty() ? "none" : cublaslt, dtype + ", ours " + mode, power_limit_watts),
          "layer,m,n,k,configuration,chosen,us,tflops,mhz,watts,joules,cublaslt_us,cublaslt_first_us,cublaslt_mhz,cublaslt_watts,cublaslt_joules,candidates,best_candidate,"
          "ratio,ratio_low,ratio_high,floor_us,share_of_floor,floor_ring,forecast_us,forecast_bound,bound_used,verified"};
}

std::string BenchRow::csv() const {
  return fmt::format("{},{},{},{},{},{},{:.2f},{:.1f},{:.0f},{:.0f},{:.4g},{:.2f},{:.2f},{:.0f},{:.0f},{:.4g},{},{},{:.4f},{:.4f},{:.4f},{:.2f},{:.4f},{},{:.2f},{},{:.3f},{}", quoted(shape.name), shape.m, shape.n, shape.k,
                     configuration, int(chosen), microseconds, teraflops, mhz, watts, joules, baseline_microseconds, baseline_first_microseconds, baseline_mhz, baseline_watts, baseline_joules, candidates,
                     best_candidate, ratio.median, ratio.low, ratio.high, floor_microseconds, share_of_floor(), floor_ring, forecast_microseconds, forecast_bound, bound_used, quoted(verified));
}

CsvFile ConfigurationReport::open_csv(const std::string& path) const {
  return {path, heading(), "layer,m,n,k,configuration,burst_us,burst_mhz,settled_us,mhz,watts,forecast_burst_us,forecast_sustained_us,verified"};
}

std::string ConfigurationRow::csv() const {
  return fmt::format("{},{},{},{},{},{:.2f},{:.0f},{:.2f},{:.0f},{:.0f},{:.2f},{:.2f},{}", quoted(shape.name), shape.m, shape.n, shape.k, configuration, burst_microseconds, burst_mhz, sustained_microseconds,
                     mhz, watts, forecast_burst_microseconds, forecast_sustained_microseconds, quoted(verified));
}

std::string ConfigurationReport::summary() const {
  std::string s = fmt::format("{}\nleft out: {}\n", heading(), left_out);
  // By shape: what is fastest, what the forecast picks, and what that pick costs. Sustained times where there are any.
  const auto time = [](const ConfigurationRow& r) { return r.sustained_microseconds > 0 ? r.sustained_microseconds : r.burst_microseconds; };
  const auto forecast_time = [](const ConfigurationRow& r) { return r.sustained_microseconds > 0 ? r.forecast_sustained_microseconds : r.forecast_burst_microseconds; };
  std::size_t wrong = 0;
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    const Shape& shape = rows[begin].shape;
    const ConfigurationRow *best = nullptr, *pick = nullptr;
    for (end = begin; end < rows.size() && rows[end].shape.name == shape.name && rows[end].shape.m == shape.m; ++end) {
      const ConfigurationRow& r = rows[end];
      if (!best || time(r) < time(*best)) best = &r;
      if (r.offered && (!pick || forecast_time(r) < forecast_time(*pick))) pick = &r;
      wrong += r.verified != "ok";
    }
    if (!pick) continue;
    s += fmt::format("{:<42} best {:<30} {:>8.1f} us; the pick {:<30} {:>8.1f} us ({:.2f}), forecast {:.1f} us\n", fmt::format("{} M={} N={} K={}", shape.name, shape.m, shape.n, shape.k), best->configuration, time(*best),
                     pick->configuration, time(*pick), time(*pick) / time(*best), forecast_time(*pick));
  }
  // The errors by regime.
  for (const RowRange& m : kRowRanges) {
    std::vector<Compared> burst, sustained, decisive;
    for (const ConfigurationRow& r : rows) {
      const Problem p{r.shape.m, r.shape.n, r.shape.k};
      if (!m.holds(p)) continue;
      burst.push_back({p, r.burst_microseconds, r.forecast_burst_microseconds, r.offered});
      if (r.sustained_microseconds > 0) sustained.push_back({p, r.sustained_microseconds, r.forecast_sustained_microseconds, r.offered});
      decisive.push_back({p, time(r), forecast_time(r), r.offered});
    }
    for (const auto& [name, list] : {std::pair{"burst", &burst}, std::pair{"sustained", &sustained}}) {
      const Accuracy a = accuracy(*list);
      if (a.times) s += fmt::format("{}, {}: {} times, median error {:.1f} %, nine in ten within {:.1f} %\n", m.name, name, a.times, 100 * a.median, 100 * a.ninth);
    }
    if (const Accuracy a = accuracy(decisive); a.shapes)
      s += fmt::format("{}: the forecast's picks reach {:.3f} of the fastest over {} shapes (geometric mean), worst {:.3f} at M={} N={} K={}\n", m.name, a.choice, a.shapes, a.worst, a.worst_shape.m, a.worst_shape.n, a.worst_shape.k);
  }
  s += fmt::format("{} of {} results wrong\n", wrong, rows.size());
  return s;
}

}  // namespace foretile::bench
