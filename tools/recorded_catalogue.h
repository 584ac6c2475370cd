// The recorded times of the whole catalogue on an H200, bench/results/catalogue_*_h200.csv (bench/gpu.sh configurations and its
// kin make them), beside forecasts.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "csv_table.h"
#include "foretile/device/catalogue.h"
#include "model/accuracy.h"
#include "model/model.h"
#include "model/text.h"

namespace foretile {

struct RecordedTime {
  std::string kind;  // "bf16", "fp32", "bf16 in dependent launches", "simt, bf16"
  Operation operation;
  Problem problem;
  Configuration configuration;
  bool dependent = false;
  bool decisive = true;             // timed as others of its shape, that a choice may be compared
  double burst_mhz = 0;             // the SMs' clock in the burst
  double burst = 0, sustained = 0;  // s; sustained 0: power does not bind, or the table has no settled times
};

// Of the tables that are there; without configurations that the catalogue no longer has, or that are no longer legal.
inline std::vector<RecordedTime> recorded_catalogue(const std::string& bench_results, const Machine& machine) {
  const struct {
    const char *file, *kind;
    DType type;
    bool dependent = false;
  } tables[] = {{"bf16", "bf16", DType::bf16},
                {"fp32_layers", "fp32", DType::fp32},
                {"fp32_squares", "fp32", DType::fp32},
                {"bf16_dependent", "bf16 in dependent launches", DType::bf16, true},
                {"simt_bf16", "simt, bf16", DType::bf16},
                {"simt_fp32", "simt, fp32", DType::fp32}};
  std::vector<RecordedTime> times;
  for (const auto& table : tables) {
    const std::string path = bench_results + "/catalogue_" + table.file + "_h200.csv";
    if (!std::ifstream(path)) continue;
    read_csv(path, [&](const auto& cell) {
      std::string error;
      const auto c = configuration_from(cell("configuration"), error);
      if (!c) throw std::runtime_error(path + ": " + error);
      if (cell("verified") != "ok") throw std::runtime_error(path + ": a time of a wrong result: " + cell("configuration"));
      RecordedTime t{table.kind, catalogue::product(table.type, table.type), {std::atoll(cell("m").c_str()), std::atoll(cell("n").c_str()), std::atoll(cell("k").c_str())}, *c, table.dependent};
      t.burst_mhz = std::atof(cell("burst_mhz").c_str());
      t.burst = std::atof(cell("burst_us").c_str()) * 1e-6, t.sustained = std::atof(cell("settled_us").c_str()) * 1e-6;
      if (!catalogue::contains(*c)) return;
      if (!why_not_on(machine, t.operation, *c, t.problem)) times.push_back(t);
    });
  }
  for (RecordedTime& t : times)
    t.decisive = t.sustained > 0 || std::none_of(times.begin(), times.end(), [&](const RecordedTime& x) { return x.sustained > 0 && x.kind == t.kind && x.problem == t.problem; });
  return times;
}

inline Compared compared(const Machine& machine, const RecordedTime& t, Regime regime) {
  const Conditions conditions{.regime = regime, .dependent = t.dependent};
  const Choice choice = choose(machine, t.operation, t.problem, conditions);
  const bool offered = t.decisive && std::any_of(choice.ranked.begin(), choice.ranked.end(), [&](const Candidate& c) { return c.configuration == t.configuration; });
  return {t.problem, regime == Regime::sustained ? t.sustained : t.burst, forecast(machine, t.operation, t.configuration, t.problem, conditions).seconds, offered};
}
// In the regime that the library chooses for: sustained where power binds.
inline Compared compared(const Machine& machine, const RecordedTime& t) { return compared(machine, t, t.sustained > 0 ? Regime::sustained : Regime::burst); }

}  // namespace foretile
