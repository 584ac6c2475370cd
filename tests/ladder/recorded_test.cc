// Forecasts of the rungs against their times on an H200, bench/results/ladder_h200.csv. The tests fail when it gets worse.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "csv_table.h"
#include "ladder/climb.h"

namespace foretile::ladder {
namespace {

struct Timed {
  const Rung* rung;
  const Variant* variant;  // null: a production rung, the model's pick
  Problem problem;
  double seconds;
  std::string who;
  bool shown;  // the variant of the table in docs/ladder.md
};

std::vector<Timed> recorded() {
  std::vector<Timed> rows;
  read_csv(FORETILE_SOURCE_DIR "/bench/results/ladder_h200.csv", [&](const auto& cell) {
    const Rung* rung = find_rung(std::atoi(cell("rung").c_str()));
    ASSERT_NE(rung, nullptr);
    const Variant* variant = rung->production ? nullptr : find_variant(*rung, cell("variant"));
    ASSERT_TRUE(rung->production || variant) << cell("variant");
    const Problem p{std::atoll(cell("m").c_str()), std::atoll(cell("n").c_str()), std::atoll(cell("k").c_str())};
    rows.push_back({rung, variant, p, std::atof(cell("microseconds").c_str()) * 1e-6, fmt::format("rung {} {} at {}", rung->number, cell("variant"), p.m),
                    rung->production || variant == &rung->variants.front()});
  });
  return rows;
}

double quantile(std::vector<double> x, double at) {
  std::sort(x.begin(), x.end());
  return x.at(std::size_t(at * double(x.size() - 1)));
}

TEST(LadderTimes, ForecastsAreNear) {
  const Machine machine = load_machine("h200");
  std::vector<double> shown, all;
  for (const Timed& t : recorded()) {
    const double error = std::abs(forecast_rung(machine, *t.rung, t.variant, t.problem, {}).forecast / t.seconds - 1);
    EXPECT_LT(error, 0.15) << t.who;
    all.push_back(error);
    if (t.shown) shown.push_back(error);
  }
  EXPECT_EQ(shown.size(), 36u);  // twelve rungs at 1,024, 4,096 and 8,192
  std::printf("every rung: median %.1f %%, at most %.1f %%; every tile, %zu times: median %.1f %%, nine in ten within %.1f %%\n", 100 * quantile(shown, 0.5), 100 * quantile(shown, 1), all.size(),
              100 * quantile(all, 0.5), 100 * quantile(all, 0.9));
  EXPECT_LT(quantile(shown, 0.5), 0.03);
  EXPECT_LT(quantile(all, 0.5), 0.025);
  EXPECT_LT(quantile(all, 0.9), 0.075);
}

}  // namespace
}  // namespace foretile::ladder
