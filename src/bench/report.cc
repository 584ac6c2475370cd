// Tables and CSV files of the benchmarks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <stdexcept>

#include "bench/bench.h"

namespace foretile::bench {

namespace {

std::ofstream open(const std::string& path) {
  std::ofstream out(path);
  if (!out) throw std::runtime_error("cannot write " + path);
  return out;
}

std::string quoted(const std::string& text) { return text.find(',') == std::string::npos ? text : '"' + text + '"'; }

}  // namespace

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
  std::string s = fmt::format("{}, {}, cuBLASLt {}, {}\n", gpu, driver, cublaslt.empty() ? "not found" : cublaslt, dtype + ", ours " + mode);
  s += fmt::format("{:<20} {:>5} {:>6} {:>6}  {:<30} {:>9} {:>7} {:>9} {:>6} {:>15} {:>9} {:>5} {:>5}  {}\n", "layer", "M", "N", "K", "configuration", "us", "TFLOP/s", "cuBLASLt", "ratio", "95 %",
                   "forecast", "MHz", "W", "checked");
  for (const BenchRow& r : rows)
    s += fmt::format("{:<20} {:>5} {:>6} {:>6}  {:<30} {:>9.1f} {:>7.0f} {:>9.1f} {:>6.3f} [{:.3f}, {:.3f}] {:>9.1f} {:>5.0f} {:>5.0f}  {}\n", r.shape.name, r.shape.m, r.shape.n, r.shape.k,
                     r.configuration, r.microseconds, r.teraflops, r.baseline_microseconds, r.ratio.median, r.ratio.low, r.ratio.high, r.forecast_microseconds, r.mhz, r.watts, r.verified);
  if (!cublaslt.empty()) s += fmt::format("geometric mean {:.3f}, worst {:.3f}, over {} rows (above 1 is faster than cuBLASLt's best candidate)\n", geometric_mean(), worst(), rows.size());
  return s;
}

void BenchReport::write_csv(const std::string& path) const {
  std::ofstream out = open(path);
  out << fmt::format("# date {}, {}, driver {}, cuBLASLt {}, {}, power limit {:.0f} W; random normal data, weights rotate through over 512 MB, CUDA graph replays, arms alternate\n", date, gpu, driver,
                     cublaslt.empty() ? "none" : cublaslt, dtype + ", ours " + mode, power_limit_watts);
  out << "layer,m,n,k,configuration,chosen,us,tflops,mhz,watts,joules,cublaslt_us,cublaslt_first_us,cublaslt_mhz,cublaslt_watts,cublaslt_joules,candidates,best_candidate,"
         "ratio,ratio_low,ratio_high,forecast_us,forecast_bound,bound_used,verified\n";
  for (const BenchRow& r : rows)
    out << fmt::format("{},{},{},{},{},{},{:.2f},{:.1f},{:.0f},{:.0f},{:.4g},{:.2f},{:.2f},{:.0f},{:.0f},{:.4g},{},{},{:.4f},{:.4f},{:.4f},{:.2f},{},{:.3f},{}\n", quoted(r.shape.name), r.shape.m,
                       r.shape.n, r.shape.k, r.configuration, int(r.chosen), r.microseconds, r.teraflops, r.mhz, r.watts, r.joules, r.baseline_microseconds, r.baseline_first_microseconds,
                       r.baseline_mhz, r.baseline_watts, r.baseline_joules, r.candidates, r.best_candidate, r.ratio.median, r.ratio.low, r.ratio.high, r.forecast_microseconds, r.forecast_bound,
                       r.bound_used, quoted(r.verified));
  if (!out.flush()) throw std::runtime_error("writing " + path + " failed");
}

void ConfigurationReport::write_csv(const std::string& path) const {
  std::ofstream out = open(path);
  out << fmt::format("# date {}, {}, driver {}, {}; random normal data, rotating weights; burst: a 3 ms graph after 20 ms of rest, median of 3; sustained: 0.15 s after 0.1 s\n", date, gpu, driver, dtype + ", " + mode);
  out << "layer,m,n,k,configuration,burst_us,sustained_us,mhz,watts,forecast_burst_us,forecast_sustained_us,verified\n";
  for (const ConfigurationRow& r : rows)
    out << fmt::format("{},{},{},{},{},{:.2f},{:.2f},{:.0f},{:.0f},{:.2f},{:.2f},{}\n", quoted(r.shape.name), r.shape.m, r.shape.n, r.shape.k, r.configuration, r.burst_microseconds,
                       r.sustained_microseconds, r.mhz, r.watts, r.forecast_burst_microseconds, r.forecast_sustained_microseconds, quoted(r.verified));
  if (!out.flush()) throw std::runtime_error("writing " + path + " failed");
}

std::string ConfigurationReport::summary() const {
  // By shape: what is fastest, what the forecast would pick, and what that pick costs. Sustained times where there are any.
  std::map<std::string, std::vector<const ConfigurationRow*>> by_shape;
  std::vector<std::string> order;
  for (const ConfigurationRow& r : rows) {
    const std::string key = fmt::format("{} M={} N={} K={}", r.shape.name, r.shape.m, r.shape.n, r.shape.k);
    if (by_shape[key].empty()) order.push_back(key);
    by_shape[key].push_back(&r);
  }
  std::string s;
  double log_cost = 0;
  int wrong = 0;
  for (const std::string& key : order) {
    const auto time = [](const ConfigurationRow* r) { return r->sustained_microseconds > 0 ? r->sustained_microseconds : r->burst_microseconds; };
    const auto forecast_time = [](const ConfigurationRow* r) { return r->sustained_microseconds > 0 ? r->forecast_sustained_microseconds : r->forecast_burst_microseconds; };
    const ConfigurationRow *best = nullptr, *pick = nullptr;
    for (const ConfigurationRow* r : by_shape[key]) {
      if (!best || time(r) < time(best)) best = r;
      if (forecast_time(r) > 0 && (!pick || forecast_time(r) < forecast_time(pick))) pick = r;
      wrong += r->verified != "ok";
    }
    if (!pick) continue;
    log_cost += std::log(time(pick) / time(best));
    s += fmt::format("{:<42} best {:<30} {:>8.1f} us; forecast picks {:<30} {:>8.1f} us ({:.2f}), forecast {:.1f} us\n", key, best->configuration, time(best), pick->configuration, time(pick),
                     time(pick) / time(best), forecast_time(pick));
  }
  if (!order.empty()) s += fmt::format("the forecast's picks cost {:.3f} of the best time (geometric mean over {} shapes); {} of {} results wrong\n", std::exp(log_cost / double(order.size())), order.size(), wrong, rows.size());
  return s;
}

}  // namespace foretile::bench
