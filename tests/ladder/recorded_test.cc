// Forecasts of the rungs and the model's picks against times on an H200, bench/results/ladder_*.csv. The tests fail when it
// gets worse.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "csv_table.h"
#include "ladder/climb.h"
#include "model/text.h"

namespace foretile::ladder {
namespace {

struct Timed {
  const Rung* rung;
  std::string tile;  // or a production rung's configuration; "production": the model's pick
  Problem problem;
  double seconds, forecast;
  std::string who() const { return fmt::format("rung {} {} at {}x{}x{}", rung->number, tile, problem.m, problem.n, problem.k); }
  double error() const { return std::abs(forecast / seconds - 1); }
};

Climbed forecast_of(const Machine& machine, const Rung& rung, const std::string& tile, const Problem& p, const Conditions& conditions) {
  if (tile == "production") return forecast_rung(machine, rung, nullptr, p, conditions);
  if (!rung.production) return forecast_rung(machine, rung, find_variant(rung, tile), p, conditions);
  std::string wrong;
  return forecast_production(machine, rung, configuration_from(tile, wrong).value(), p, conditions);
}

std::vector<Timed> recorded(const char* name, const char* tile = "variant", const Conditions& conditions = {}) {
  const Machine machine = load_machine("h200");
  std::vector<Timed> rows;
  read_csv(std::string(FORETILE_SOURCE_DIR "/bench/results/") + name, [&](const auto& cell) {
    const Rung* rung = find_rung(std::atoi(cell("rung").c_str()));
    const Problem p{std::atoll(cell("m").c_str()), std::atoll(cell("n").c_str()), std::atoll(cell("k").c_str())};
    rows.push_back({rung, cell(tile), p, std::atof(cell("microseconds").c_str()) * 1e-6, forecast_of(machine, *rung, cell(tile), p, conditions).forecast});
  });
  return rows;
}

double quantile(std::vector<double> x, double at) {
  std::sort(x.begin(), x.end());
  return x.at(std::size_t(at * double(x.size() - 1)));
}

// Errors of some times: their median, and what nine in ten are within.
struct Spread {
  double median, nine_in_ten;
  Spread(const char* what, const std::vector<double>& errors) : median(quantile(errors, 0.5)), nine_in_ten(quantile(errors, 0.9)) {
    std::printf("%s, %zu times: median %.1f %%, nine in ten within %.1f %%, at most %.1f %%\n", what, errors.size(), 100 * median, 100 * nine_in_ten, 100 * quantile(errors, 1));
  }
};

TEST(LadderTimes, ForecastsAreNear) {
  std::vector<double> shown, all;
  for (const Timed& t : recorded("ladder_h200.csv")) {
    EXPECT_LT(t.error(), 0.15) << t.who();
    all.push_back(t.error());
    if (t.rung->production || t.tile == t.rung->variants.front().text) shown.push_back(t.error());
  }
  EXPECT_EQ(shown.size(), 36u);  // twelve rungs at 1,024, 4,096 and 8,192
  EXPECT_LT(Spread("every rung", shown).median, 0.03);
  const Spread tiles("every tile", all);
  EXPECT_LT(tiles.median, 0.025);
  EXPECT_LT(tiles.nine_in_ten, 0.075);
}

TEST(LadderTimes, ForecastsOfOtherShapesAreNear) {
  std::vector<double> own, production;
  // Arms of 10 ms, before the power limit bears.
  for (const Timed& t : recorded("ladder_shapes_h200.csv", "variant", {.regime = Regime::burst})) (t.rung->production ? production : own).push_back(t.error());
  const Spread rungs("the ladder's kernels", own);
  EXPECT_LT(rungs.median, 0.04);
  EXPECT_LT(rungs.nine_in_ten, 0.1);
  const Spread library("the library's", production);
  EXPECT_LT(library.median, 0.05);
  EXPECT_LT(library.nine_in_ten, 0.1);
}

// The pick against the best tile of each rung, no measurement used.
TEST(LadderSweep, PicksAreNearlyTheBest) {
  std::map<i64, std::map<int, std::vector<Timed>>> table;
  for (Timed& t : recorded("ladder_sweep_h200.csv", "tile")) table[t.problem.m][t.rung->number].push_back(std::move(t));
  EXPECT_EQ(table.size(), 5u);  // squares of 512 to 8,192
  for (const auto& [size, by_rung] : table) {
    EXPECT_EQ(by_rung.size(), 6u);
    double logarithms = 0, worst = 1;
    for (const auto& [number, tiles] : by_rung) {
      const Timed pick = *std::min_element(tiles.begin(), tiles.end(), [](const Timed& a, const Timed& b) { return a.forecast < b.forecast; });
      const Timed best = *std::min_element(tiles.begin(), tiles.end(), [](const Timed& a, const Timed& b) { return a.seconds < b.seconds; });
      const double kept = best.seconds / pick.seconds;
      EXPECT_GE(kept, 0.95) << pick.who() << ", best " << best.tile;
      logarithms += std::log(kept), worst = std::min(worst, kept);
    }
    std::printf("%lld: the picks of six rungs reach %.3f of the best, %.3f at worst\n", static_cast<long long>(size), std::exp(logarithms / 6), worst);
    EXPECT_GE(std::exp(logarithms / 6), 0.99) << size;
  }
}

}  // namespace
}  // namespace foretile::ladder
