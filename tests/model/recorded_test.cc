// Forecasts against times of our own kernels, recorded on an H200 and checked in under bench/results/.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "csv_table.h"
#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "model/model.h"
#include "model/text.h"
#include "model/trust.h"
#include "plan/plan.h"

namespace foretile {
namespace {

const Operation kBf16 = catalogue::product(DType::bf16, DType::bf16);

struct Timed {
  Problem problem;
  Configuration configuration;
  double seconds = 0;
};

// The table's columns by name; a plain chain, and the raster the library itself would take, where the table says which.
std::vector<Timed> read(const std::string& name, const Operation& o = kBf16, const char* microseconds = "microseconds") {
  std::vector<Timed> runs;
  read_csv(std::string(FORETILE_SOURCE_DIR) + "/bench/results/" + name, [&](const auto& cell) {
    Timed run;
    run.problem = {std::atoll(cell("m").c_str()), std::atoll(cell("n").c_str()), std::atoll(cell("k").c_str())};
    std::string error;
    const auto configuration = configuration_from(cell("configuration"), error);
    if (!configuration) {
      ADD_FAILURE() << error;
      return;
    }
    run.configuration = *configuration;
    run.seconds = std::atof(cell(microseconds).c_str()) * 1e-6;
    if (why_not(o, run.configuration, run.problem)) return;  // measured before a rule changed
    if (const std::string chain = cell("chain"); !chain.empty() && chain != "plain") return;
    if (const std::string group = cell("raster_group"); !group.empty()) {
      const LaunchShape shape = launch_shape(o, run.configuration, run.problem, 132);
      if (raster_group(run.configuration, run.problem, int(shape.blocks)) != std::atoi(group.c_str())) return;
    }
    runs.push_back(run);
  });
  return runs;
}

struct Errors {
  std::vector<double> all;
  double median() const { return at(0.5); }
  double at(double share) const {
    std::vector<double> sorted = all;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? NAN : sorted[size_t(share * double(sorted.size() - 1))];
  }
};

class Recorded : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const char* name : {"configurations_h200.csv", "few_rows_h200.csv"})
      for (const Timed& run : read(name)) runs_.push_back(run);
  }
  static std::vector<Timed> runs_;
  const Machine h200_ = load_machine("h200");
};
std::vector<Timed> Recorded::runs_;

TEST_F(Recorded, TimesOfOurKernels) {
  Errors few, many, listed;
  for (const Timed& run : runs_) {
    const double error = std::abs(forecast(h200_, kBf16, run.configuration, run.problem).seconds / run.seconds - 1);
    (run.problem.m <= 96 ? few : many).all.push_back(error);
    if (catalogue::contains(run.configuration)) listed.all.push_back(error);
  }
  ASSERT_GT(few.all.size(), 500u);
  ASSERT_GT(many.all.size(), 500u);
  std::printf("few rows:  %zu times, median error %.1f %%, nine in ten within %.1f %%\n", few.all.size(), 100 * few.median(), 100 * few.at(0.9));
  std::printf("many rows: %zu times, median error %.1f %%, nine in ten within %.1f %%\n", many.all.size(), 100 * many.median(), 100 * many.at(0.9));
  std::printf("catalogue: %zu times, median error %.1f %%, nine in ten within %.1f %%\n", listed.all.size(), 100 * listed.median(), 100 * listed.at(0.9));
  const HeldAgainst* stated = trust(h200_, kBf16, catalogue::coop(128, 256, 4, 2), {4096, 4096, 4096}, {}).alike;
  ASSERT_NE(stated, nullptr);
  EXPECT_EQ(size_t(stated->times), many.all.size());
  EXPECT_NEAR(stated->median, many.median(), 1e-3);
  EXPECT_NEAR(stated->ninth, many.at(0.9), 1e-3);
  EXPECT_LT(few.median(), 0.05);
  EXPECT_LT(many.median(), 0.05);
  EXPECT_LT(many.at(0.9), 0.12);
  EXPECT_LT(listed.median(), 0.05);
  EXPECT_LT(listed.at(0.9), 0.12);
}

// fp32 tiles and splits of K, most of them beyond the catalogue, among them small ones with six blocks an SM and a last round of fewer.
TEST_F(Recorded, TimesOfFp32Tiles) {
  const Operation o = catalogue::product(DType::fp32, DType::fp32);
  Errors all, clusters, listed;
  for (const Timed& t : read("ffma_fp32_h200.csv", o, "burst_us")) {
    const double error = std::abs(forecast(h200_, o, t.configuration, t.problem).seconds / t.seconds - 1);
    all.all.push_back(error);
    if (t.configuration.cluster_k > 1) clusters.all.push_back(error);
    if (catalogue::contains(t.configuration)) listed.all.push_back(error);
  }
  ASSERT_GE(all.all.size(), 300u);
  ASSERT_GE(listed.all.size(), 30u);
  std::printf("fp32: %zu times, median error %.1f %%, nine in ten within %.1f %%\n", all.all.size(), 100 * all.median(), 100 * all.at(0.9));
  std::printf("fp32, split over clusters: %zu times, median error %.1f %%, nine in ten within %.1f %%\n", clusters.all.size(), 100 * clusters.median(), 100 * clusters.at(0.9));
  std::printf("fp32, catalogue: %zu times, median error %.1f %%, nine in ten within %.1f %%\n", listed.all.size(), 100 * listed.median(), 100 * listed.at(0.9));
  EXPECT_LT(all.median(), 0.03);
  EXPECT_LT(all.at(0.9), 0.08);
  EXPECT_LT(all.at(1), 0.25);
  EXPECT_LT(clusters.median(), 0.03);
  EXPECT_LT(clusters.at(0.9), 0.08);
  EXPECT_LT(listed.median(), 0.025);
  EXPECT_LT(listed.at(0.9), 0.05);
}

// A later run of other tiles, to which no constant was fitted: and what the forecast picks among the catalogue's.
TEST_F(Recorded, ChoosesFp32Tiles) {
  const Operation o = catalogue::product(DType::fp32, DType::fp32);
  struct Shape {
    double picked = 1e9, of_pick = 0, fastest = 1e9;
  };
  Errors all;
  std::map<std::vector<i64>, Shape> shapes;
  for (const Timed& t : read("ffma_later_fp32_h200.csv", o, "burst_us")) {
    const double seconds = forecast(h200_, o, t.configuration, t.problem).seconds;
    all.all.push_back(std::abs(seconds / t.seconds - 1));
    if (!catalogue::contains(t.configuration)) continue;
    Shape& s = shapes[{t.problem.m, t.problem.n, t.problem.k}];
    if (seconds < s.picked) s.picked = seconds, s.of_pick = t.seconds;
    s.fastest = std::min(s.fastest, t.seconds);
  }
  ASSERT_GE(all.all.size(), 300u);
  ASSERT_GE(shapes.size(), 20u);
  double logarithms = 0;
  for (const auto& [sizes, s] : shapes) logarithms += std::log(s.fastest / s.of_pick);
  const double kept = std::exp(logarithms / double(shapes.size()));
  std::printf("fp32, later: %zu times, median error %.1f %%; the pick among the catalogue keeps %.3f of the fastest over %zu shapes\n", all.all.size(), 100 * all.median(), kept, shapes.size());
  EXPECT_LT(all.median(), 0.05);
  EXPECT_GT(kept, 0.98);
}

// fp32 at few rows: the rows family, to whose times its constants were fitted, what the forecast picks among all families of the
// catalogue that were timed, and the others where they stand beside it.
TEST_F(Recorded, TimesOfRows) {
  const Operation o = catalogue::product(DType::fp32, DType::fp32);
  struct Shape {
    double picked = 1e9, of_pick = 0, fastest = 1e9;
  };
  Errors rows, listed, clusters;
  std::map<std::vector<i64>, Shape> shapes;
  for (const Timed& t : read("rows_fp32_h200.csv", o, "burst_us")) {
    const double seconds = forecast(h200_, o, t.configuration, t.problem).seconds, error = std::abs(seconds / t.seconds - 1);
    if (t.configuration.family == Family::rows) {
      rows.all.push_back(error);
      if (t.configuration.cluster_k > 1) clusters.all.push_back(error);
    }
    if (!catalogue::contains(t.configuration)) continue;
    if (t.configuration.family == Family::rows) listed.all.push_back(error);
    Shape& s = shapes[{t.problem.m, t.problem.n, t.problem.k}];
    if (seconds < s.picked) s.picked = seconds, s.of_pick = t.seconds;
    s.fastest = std::min(s.fastest, t.seconds);
  }
  ASSERT_GE(rows.all.size(), 350u);
  ASSERT_GE(listed.all.size(), 200u);
  ASSERT_EQ(shapes.size(), 60u);
  double logarithms = 0;
  for (const auto& [sizes, s] : shapes) logarithms += std::log(s.fastest / s.of_pick);
  const double kept = std::exp(logarithms / double(shapes.size()));
  const std::pair<const char*, const Errors*> lists[] = {{"rows", &rows}, {"rows, catalogue", &listed}, {"rows, split over clusters", &clusters}};
  for (const auto& [name, errors] : lists) std::printf("%s: %zu times, median error %.1f %%, nine in ten within %.1f %%\n", name, errors->all.size(), 100 * errors->median(), 100 * errors->at(0.9));
  std::printf("few rows in fp32: the pick among the catalogue keeps %.3f of the fastest over %zu shapes\n", kept, shapes.size());
  for (const auto& [name, errors] : lists) {
    EXPECT_LT(errors->median(), 0.03) << name;
    EXPECT_LT(errors->at(0.9), 0.07) << name;
  }
  EXPECT_GT(kept, 0.98);
}

// At few rows in fp32 forecasts are good for gemv with one row alone (docs/model.md).
TEST_F(Recorded, TimesOfFewRowsInFp32) {
  const Operation o = catalogue::product(DType::fp32, DType::fp32);
  Errors one, more, tiles;
  for (const Timed& t : read("picks_fp32_h200.csv", o, "us"))
    if (t.configuration.family == Family::gemv) (t.problem.m == 1 ? one : more).all.push_back(std::abs(forecast(h200_, o, t.configuration, t.problem).seconds / t.seconds - 1));
  for (const Timed& t : read("ffma_few_rows_fp32_h200.csv", o, "burst_us")) tiles.all.push_back(std::abs(forecast(h200_, o, t.configuration, t.problem).seconds / t.seconds - 1));
  ASSERT_GE(one.all.size(), 15u);
  ASSERT_GE(tiles.all.size(), 100u);
  const std::pair<const char*, const Errors*> lists[] = {{"gemv, M = 1", &one}, {"gemv, more rows", &more}, {"ffma, M = 32", &tiles}};
  for (const auto& [name, errors] : lists) std::printf("%s: %zu times, median error %.1f %%, nine in ten within %.1f %%\n", name, errors->all.size(), 100 * errors->median(), 100 * errors->at(0.9));
  EXPECT_LT(one.median(), 0.08);
  EXPECT_LT(more.median(), 0.25);
  EXPECT_LT(tiles.median(), 0.2);
}

// Later runs against the vendor's library, to which no constant was fitted.
TEST_F(Recorded, RunsThatNoConstantWasFittedTo) {
  const struct {
    const char* file;
    DType type;
    double median;
  } runs[] = {{"layers_bf16.csv", DType::bf16, 0.03}, {"layers_fp16.csv", DType::fp16, 0.035}, {"layers_few_rows_bf16.csv", DType::bf16, 0.05}, {"layers_tf32_h200.csv", DType::tf32, 0.03}};
  for (const auto& run : runs) {
    Errors errors;
    const Operation o = catalogue::product(run.type, run.type == DType::tf32 ? DType::fp32 : run.type);
    for (const Timed& t : read(run.file, o, "us")) errors.all.push_back(std::abs(forecast(h200_, o, t.configuration, t.problem).seconds / t.seconds - 1));
    ASSERT_GE(errors.all.size(), 30u) << run.file;
    std::printf("%s: %zu times, median error %.1f %%, nine in ten within %.1f %%\n", run.file, errors.all.size(), 100 * errors.median(), 100 * errors.at(0.9));
    EXPECT_LT(errors.median(), run.median) << run.file;
  }
}

// Large products in bursts on a later day, perhaps on another H200: to which no constant was fitted.
TEST_F(Recorded, BurstsOfALaterDay) {
  Errors errors;
  std::map<std::vector<i64>, std::vector<std::pair<double, double>>> shapes;
  for (const Timed& t : read("catalogue_bf16_large_later_h200.csv", kBf16, "burst_us")) {
    const double seconds = forecast(h200_, kBf16, t.configuration, t.problem, {.regime = Regime::burst}).seconds;
    errors.all.push_back(std::abs(seconds / t.seconds - 1));
    shapes[{t.problem.m, t.problem.n, t.problem.k}].emplace_back(seconds, t.seconds);
  }
  ASSERT_EQ(shapes.size(), 13u);
  double logarithms = 0;
  for (const auto& [sizes, times] : shapes) {
    double fastest = 1;
    for (const auto& [forecasted, measured] : times) fastest = std::min(fastest, measured);
    logarithms += std::log(fastest / std::min_element(times.begin(), times.end())->second);
  }
  const double kept = std::exp(logarithms / double(shapes.size()));
  std::printf("large, a later day: %zu times, median error %.1f %%, nine in ten within %.1f %%; the choice keeps %.3f of the fastest\n", errors.all.size(), 100 * errors.median(), 100 * errors.at(0.9), kept);
  EXPECT_LT(errors.median(), 0.05);
  EXPECT_LT(errors.at(0.9), 0.12);
  EXPECT_GT(kept, 0.98);
}

// Per shape, the configuration with the shortest forecast against the fastest measured, among the catalogue's.
TEST_F(Recorded, TheChoice) {
  std::map<std::tuple<i64, i64, i64>, std::vector<std::pair<double, double>>> shapes;
  for (const Timed& run : runs_)
    if (catalogue::contains(run.configuration))
      shapes[{run.problem.m, run.problem.n, run.problem.k}].emplace_back(forecast(h200_, kBf16, run.configuration, run.problem).seconds, run.seconds);
  double sum = 0, worst = 1;
  int count = 0;
  for (const auto& [shape, times] : shapes) {
    if (times.size() < 3) continue;
    double fastest = 1;
    for (const auto& [forecasted, measured] : times) fastest = std::min(fastest, measured);
    const double share = fastest / std::min_element(times.begin(), times.end())->second;
    sum += std::log(share), worst = std::min(worst, share), ++count;
  }
  ASSERT_GT(count, 30);
  std::printf("chosen against fastest over %d shapes: geometric mean %.3f, worst %.3f\n", count, std::exp(sum / count), worst);
  EXPECT_GT(std::exp(sum / count), 0.96);
  EXPECT_GT(worst, 0.85);
}

}  // namespace
}  // namespace foretile
