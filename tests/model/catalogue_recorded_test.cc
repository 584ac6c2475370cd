// Forecasts and choices against the recorded times of the whole catalogue (bench/results/catalogue_*_h200.csv).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "model/trust.h"
#include "recorded_catalogue.h"

namespace foretile {
namespace {

class CatalogueRecorded : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    for (const RecordedTime& t : recorded_catalogue(FORETILE_SOURCE_DIR "/bench/results", h200_))
      if (t.kind == GetParam()) times_.push_back(t);
    if (times_.empty()) GTEST_SKIP() << "bench/results has no times of the whole catalogue, " << GetParam();
  }
  const Machine h200_ = load_machine("h200");
  std::vector<RecordedTime> times_;
};

TEST_P(CatalogueRecorded, Times) {
  for (const RowRange& rows : kRowRanges)
    for (const Regime regime : {Regime::burst, Regime::sustained}) {
      std::vector<Compared> list;
      for (const RecordedTime& t : times_)
        if (rows.holds(t.problem) && (regime == Regime::burst || t.sustained > 0)) list.push_back(compared(h200_, t, regime));
      const Accuracy a = accuracy(list);
      if (a.times == 0) continue;
      std::printf("%s, %s, %s: %zu times, median error %.1f %%, nine in ten within %.1f %%\n", GetParam(), rows.name, regime == Regime::burst ? "burst" : "sustained", a.times, 100 * a.median, 100 * a.ninth);
      EXPECT_LE(a.median, rows.last <= 96 ? 0.06 : 0.05);
      EXPECT_LE(a.ninth, 0.12);
    }
}

TEST_P(CatalogueRecorded, TheChoice) {
  for (const RowRange& rows : kRowRanges) {
    std::vector<Compared> list;
    for (const RecordedTime& t : times_)
      if (rows.holds(t.problem)) list.push_back(compared(h200_, t));
    const Accuracy a = accuracy(list);
    if (a.shapes == 0) continue;
    std::printf("%s, %s: the choice over %zu shapes %.3f of the fastest, worst %.3f\n", GetParam(), rows.name, a.shapes, a.choice, a.worst);
    EXPECT_GE(a.choice, rows.first >= 2048 ? 0.99 : 0.97);
    EXPECT_GE(a.worst, 0.9);
  }
}

std::string thousands(std::size_t n) { return n < 1000 ? std::to_string(n) : fmt::format("{},{:03}", n / 1000, n % 1000); }

// What docs/model.md and the H200's file say of these errors is what they are (foretile_fit catalogue prints them).
TEST_P(CatalogueRecorded, TheDocumentedErrors) {
  std::ifstream file(FORETILE_SOURCE_DIR "/docs/model.md");
  std::stringstream page;
  page << file.rdbuf();
  const bool dependent = times_[0].dependent;
  for (const RowRange& rows : kRowRanges) {
    std::vector<Compared> list;
    for (const RecordedTime& t : times_)
      if (rows.holds(t.problem)) list.push_back(compared(h200_, t, Regime::burst));
    const Accuracy a = accuracy(list);
    if (a.times == 0) continue;
    const std::string line = fmt::format("| {} times, {} shapes, ", thousands(a.times), a.shapes), errors = fmt::format("| median {:.1f} %, nine in ten within {:.1f} % |\n", 100 * a.median, 100 * a.ninth);
    const size_t at = page.str().find(line);
    ASSERT_NE(at, std::string::npos) << line;
    EXPECT_EQ(page.str().find(errors, at), page.str().find("|", at + line.size())) << line << "... " << errors;
    const std::string said = !dependent && rows.first == 1 ? fmt::format("{} times at {}, median error {:.1f} %, nine in ten within {:.1f} %", thousands(a.times), rows.name, 100 * a.median, 100 * a.ninth)
                                                           : fmt::format("{} {}at {}, {:.1f} % and {:.1f} %", thousands(a.times), dependent ? "times " : "", rows.name, 100 * a.median, 100 * a.ninth);
    EXPECT_NE(h200_.validation.find(said), std::string::npos) << said;
  }
}

// What forecasts say of their own error (model/trust.h): by kernels.
TEST_P(CatalogueRecorded, TheErrorsThatForecastsState) {
  for (const RowRange& rows : kRowRanges)
    for (const Family family : {Family::sm90, Family::decode}) {
      std::vector<Compared> list;
      const RecordedTime* one = nullptr;
      for (const RecordedTime& t : times_)
        if (rows.holds(t.problem) && t.configuration.family == family) list.push_back(compared(h200_, t, Regime::burst)), one = &t;
      if (!one) continue;
      const Trust stated = trust(h200_, one->operation, one->configuration, one->problem, {.regime = Regime::burst, .dependent = one->dependent});
      if (!stated.alike) continue;  // decode tiles at thousands of rows: never chosen, and not stated
      const Accuracy a = accuracy(list);
      EXPECT_EQ(size_t(stated.alike->times), a.times) << rows.name;
      EXPECT_NEAR(stated.alike->median, a.median, 6e-4) << rows.name;
      EXPECT_NEAR(stated.alike->ninth, a.ninth, 6e-4) << rows.name;
      EXPECT_TRUE(stated.beyond.empty()) << stated.text();
    }
}

// The portable kernel: its loads fly under its multiplies, of 16-bit values too.
TEST(PortableRecorded, TimesAndChoice) {
  const Machine h200 = load_machine("h200");
  std::vector<Compared> all;
  double worst = 1;
  for (const char* kind : {"simt, bf16", "simt, fp32"}) {
    std::vector<Compared> list;
    for (const RecordedTime& t : recorded_catalogue(FORETILE_SOURCE_DIR "/bench/results", h200))
      if (t.kind == kind) list.push_back({t.problem, t.burst, forecast(h200, t.operation, t.configuration, t.problem, {.regime = Regime::burst}).seconds}), all.push_back(list.back());
    worst = std::min(worst, accuracy(list).worst);
  }
  const Accuracy a = accuracy(all);
  ASSERT_EQ(a.times, 38u);
  std::printf("simt: %zu times, median error %.1f %%, nine in ten within %.1f %%; of the three the choice is %.3f of the fastest at worst\n", a.times, 100 * a.median, 100 * a.ninth, worst);
  EXPECT_LE(a.median, 0.03);
  EXPECT_LE(a.ninth, 0.16);
  EXPECT_GE(worst, 0.95);
}

INSTANTIATE_TEST_SUITE_P(Tables, CatalogueRecorded, ::testing::Values("bf16", "fp32", "bf16 in dependent launches"));

// accuracy() itself, by hand.
TEST(Accuracy, MediansNinthsAndTheChoice) {
  const Problem a{1, 2, 3}, b{4, 5, 6}, lonely{7, 8, 9};
  const Accuracy x = accuracy({{a, 10, 11}, {a, 8, 12}, {b, 5, 4, false}, {b, 6, 6}, {b, 7, 7.7}, {lonely, 1, 1}});
  EXPECT_EQ(x.times, 6u);
  EXPECT_NEAR(x.median, 0.1, 1e-12);   // 0 0 0.1 0.1 0.2 0.5
  EXPECT_NEAR(x.ninth, 0.5, 1e-12);
  EXPECT_NEAR(x.mean, 0.15, 1e-12);
  EXPECT_EQ(x.shapes, 2u);             // a shape with one time is no choice
  EXPECT_NEAR(x.choice, std::sqrt(0.8 * 5 / 6), 1e-12);  // a: the slower one is forecast shorter; b: the fastest is not offered
  EXPECT_NEAR(x.worst, 0.8, 1e-12);
  EXPECT_EQ(x.worst_shape.m, 1);
  EXPECT_TRUE(std::isnan(accuracy({}).median) && std::isnan(accuracy({}).choice));
}

}  // namespace
}  // namespace foretile
