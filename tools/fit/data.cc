#include "data.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "csv_table.h"
#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "model/text.h"
#include "plan/plan.h"
#include "recorded_catalogue.h"

namespace foretile::fit {

namespace {

// A gzipped file of lines m,n,k,microseconds.
void add_library(const std::string& path, Regime regime, std::vector<Time>& times) {
  if (!std::ifstream(path)) throw std::runtime_error(path + " is missing");
  FILE* pipe = popen(("gzip -dc '" + path + "'").c_str(), "r");
  if (!pipe) throw std::runtime_error(path + " cannot be read");
  char line[256];
  while (std::fgets(line, sizeof line, pipe)) {
    long long m, n, k;
    double us;
    if (std::sscanf(line, "%lld,%lld,%lld,%lf", &m, &n, &k, &us) == 4 && us > 0) times.push_back({{m, n, k}, us * 1e-6, regime, {}});
  }
  pclose(pipe);
}

void add_ours(const std::string& path, std::vector<Time>& times) {
  const Operation o = catalogue::product(DType::bf16, DType::bf16);
  read_csv(path, [&](const auto& cell) {
    Time t;
    t.problem = {std::atoll(cell("m").c_str()), std::atoll(cell("n").c_str()), std::atoll(cell("k").c_str())};
    std::string error;
    const auto c = configuration_from(cell("configuration"), error);
    if (!c) throw std::runtime_error(path + ": " + error);
    t.configuration = *c;
    t.seconds = std::atof(cell("microseconds").c_str()) * 1e-6;
    if (c->family != Family::sm90 || !(t.seconds > 0) || why_not(o, *c, t.problem)) return;  // measured before a rule changed
    if (const std::string chain = cell("chain"); !chain.empty() && chain != "plain") return;
    if (const std::string group = cell("raster_group"); !group.empty()) {
      const LaunchShape shape = launch_shape(o, *c, t.problem, 132);
      if (raster_group(*c, t.problem, int(shape.blocks)) != std::atoi(group.c_str())) return;
    }
    times.push_back(t);
  });
}

}  // namespace

bool held_out(const Problem& p) {
  u64 z = u64(p.m) << 40 ^ u64(p.n) << 20 ^ u64(p.k);
  z *= 0x9E3779B97F4A7C15ull;
  z ^= z >> 29;
  z *= 0xBF58476D1CE4E5B9ull;
  z ^= z >> 32;
  return z % 2 == 1;
}

std::vector<Time> our_times(const std::string& bench_results) {
  std::vector<Time> times;
  for (const char* name : {"configurations_h200.csv", "few_rows_h200.csv"}) add_ours(bench_results + "/" + name, times);
  return times;
}

std::vector<Time> times_in_turn(const std::string& bench_results, std::initializer_list<Family> families, bool dependent) {
  std::vector<Time> times;
  for (const RecordedTime& t : recorded_catalogue(bench_results, load_machine("h200"))) {
    if (t.dependent != dependent || std::find(families.begin(), families.end(), t.configuration.family) == families.end()) continue;
    for (const auto& [seconds, regime] : {std::pair{t.burst, Regime::burst}, std::pair{t.sustained, Regime::sustained}})
      if (seconds > 0) times.push_back({t.problem, seconds, regime, t.configuration, dependent, t.operation, regime == Regime::burst ? t.burst_mhz : 0, false, true});
  }
  return times;
}

std::vector<Time> library_times(const std::string& folder) {
  std::vector<Time> times;
  add_library(folder + "/h200_bf16_trtllm.csv.gz", Regime::burst, times);
  add_library(folder + "/h200_bf16_vllm_power.csv.gz", Regime::sustained, times);
  return times;
}

}  // namespace foretile::fit
