// bench_configurations(), on a pretended GPU: what is timed, what is left out and says so, wrong results found.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>

#include "bench/bench.h"
#include "foretile/device/catalogue.h"
#include "model/text.h"
#include "reference/convert.h"

namespace foretile::bench {
namespace {

const char* const kWrong = "decode:16x64x128:s5:k2";

// `options`: what differs from two shapes far from the power limit. `runs`: of each configuration, timed ones and others.
ConfigurationReport run(std::vector<std::string>* lines = nullptr, BenchOptions o = {}, std::map<std::string, int>* runs = nullptr) {
  setenv("FORETILE_LIBCUDA", FORETILE_FAKE_GPU, 1);
  setenv("FORETILE_NVRTC", FORETILE_FAKE_GPU, 1);
  if (o.shapes.empty()) o.shapes = {{"first", 8, 64, 256}, {"second", 16, 128, 64}};
  if (lines) o.progress = [=](const std::string& line) { lines->push_back(line); };
  const auto submit = reinterpret_cast<void (*)(const std::function<void()>&)>(dlsym(dlopen(FORETILE_FAKE_GPU, RTLD_NOW), "fake_submit"));
  const auto compute = [](const Matmul& call, const std::string& configuration) {
    if (configuration != kWrong && reference::load(call.d.dtype, call.d.data, 0) == reference::load(call.d.dtype, call.d.data, 0))
      return;  // not poisoned: it stands there
    const auto value = [&](const Matrix& x, i64 row, i64 k) { return reference::load(x.dtype, x.data, row * call.k + k); };
    for (i64 m = 0; m < call.m; ++m)
      for (i64 n = 0; n < call.n; ++n) {
        double sum = configuration == kWrong ? 1 : 0;
        for (i64 k = 0; k < call.k; ++k) sum += value(call.a, m, k) * value(call.b, n, k);
        reference::store(call.d.dtype, call.d.data, m * call.n + n, sum);
      }
  };
  o.product = [=](const Matmul& call) -> Status {
    submit([=, configuration = text_of(*call.configuration)] {
      if (runs) ++(*runs)[configuration];
      compute(call, configuration);
    });
    return {};
  };
  return bench_configurations(o, 0);
}

TEST(Configurations, EachOneWorthTimingIsTimedAndChecked) {
  std::vector<std::string> lines;
  const ConfigurationReport r = run(&lines);
  const Machine* h200 = machine_for_device("NVIDIA H200", 90, 1);
  const Operation o = catalogue::product(DType::bf16, DType::bf16);
  int timed = 0, legal = 0;
  for (const Shape& s : {Shape{"", 8, 64, 256}, Shape{"", 16, 128, 64}}) {
    const Problem p{s.m, s.n, s.k};
    const Conditions burst{.regime = Regime::burst};
    const double best = forecast(*h200, o, pick(*h200, o, p, burst), p, burst).seconds;
    for (const Configuration& c : catalogue::kConfigurations) {
      if (why_not_on(*h200, o, c, p)) continue;
      ++legal;
      const auto row = std::find_if(r.rows.begin(), r.rows.end(), [&](const ConfigurationRow& x) { return x.shape.m == s.m && x.configuration == text_of(c); });
      const double seconds = forecast(*h200, o, c, p, burst).seconds;
      if (row == r.rows.end()) {
        EXPECT_GT(seconds, 1.9 * best) << text_of(c);  // something that choose() never offers may be shorter than the pick
        continue;
      }
      ++timed;
      EXPECT_EQ(row->verified == "ok", text_of(c) != kWrong) << row->verified;
      EXPECT_GT(row->burst_microseconds, 0);
      EXPECT_NEAR(row->burst_mhz, 1500, 1);
      EXPECT_EQ(row->sustained_microseconds, 0) << "far from the power limit";
      EXPECT_NEAR(row->forecast_burst_microseconds, seconds * 1e6, 1e-9);
      const Choice choice = choose(*h200, o, p, burst);
      EXPECT_EQ(row->offered, std::any_of(choice.ranked.begin(), choice.ranked.end(), [&](const Candidate& x) { return x.configuration == c; })) << text_of(c);
    }
  }
  EXPECT_EQ(std::size_t(timed), r.rows.size());
  EXPECT_GT(timed, 20);
  EXPECT_GT(r.left_out, 0);
  EXPECT_EQ(r.left_out, legal - timed);
  const std::string summary = r.summary();
  for (const std::string& part : {std::string("NVIDIA H200"), "left out: " + std::to_string(r.left_out) + "\n", std::string("first M=8 N=64 K=256"), std::string("M <= 96, burst: "), std::string("over 2 shapes"),
                                  "1 of " + std::to_string(timed) + " results wrong"})
    EXPECT_NE(summary.find(part), std::string::npos) << part << "\n" << summary;
  EXPECT_NE(lines.front().find(std::to_string(timed) + " configurations of 2 shapes"), std::string::npos) << lines.front();
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(Configurations, TheTableSaysHowItWasMade) {
  const std::string path = ::testing::TempDir() + "configurations.csv";
  BenchOptions o;
  o.csv = path;
  const ConfigurationReport r = run(nullptr, o);
  const std::vector<std::string> lines = lines_of(path);
  std::remove(path.c_str());
  ASSERT_EQ(lines.size(), 2 + r.rows.size());
  EXPECT_EQ(lines[0], "# " + r.heading());
  EXPECT_EQ(lines[1], "layer,m,n,k,configuration,burst_us,burst_mhz,settled_us,mhz,watts,forecast_burst_us,forecast_sustained_us,verified");
  EXPECT_EQ(lines[2], r.rows[0].csv());
  EXPECT_EQ(lines[2].rfind("first,8,64,256,", 0), 0u) << lines[2];
}

// A run that is cut keeps the shapes that it has measured.
TEST(Configurations, TheTableGrows) {
  const std::string path = ::testing::TempDir() + "configurations_cut.csv";
  BenchOptions o;
  o.csv = path;
  std::size_t first = 0;
  struct Cut {};
  o.progress = [&](const std::string& line) {
    if (line.starts_with("first M=8 done")) first = std::size_t(std::atoi(line.c_str() + line.find(", ") + 2));
    if (first) throw Cut();
  };
  EXPECT_THROW(run(nullptr, o), Cut);
  EXPECT_GT(first, 10u);
  EXPECT_EQ(lines_of(path).size(), 2 + first);
  std::remove(path.c_str());

  o.csv = "/no/such/folder/rows.csv";
  try {
    run(nullptr, o);
    FAIL() << "written nowhere";
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(std::string(e.what()).find(o.csv), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("No such file or directory"), std::string::npos) << e.what();
  }
}

// Where power binds: each configuration runs for a tenth of a second that does not count, then for as much that does. On the
// pretended GPU the time between any two events is 1 ms.
TEST(Configurations, SustainedTimesAreTakenWhenPowerHasSettled) {
  BenchOptions o;
  o.shapes = {{"hot", 8, 64, 64}};
  o.power_binds_from = 1;
  std::map<std::string, int> runs;
  const ConfigurationReport r = run(nullptr, o, &runs);
  std::map<std::string, int> briefly;
  o.power_binds_from = 1e30;
  run(nullptr, o, &briefly);
  ASSERT_GT(r.rows.size(), 5u);
  const double launches = 1e3 / r.rows[0].burst_microseconds;  // in a graph
  for (const ConfigurationRow& row : r.rows) {
    EXPECT_NEAR(row.sustained_microseconds * 100, row.burst_microseconds, 1e-6) << row.configuration;
    EXPECT_NEAR(row.mhz, 1500, 1) << row.configuration;
    const double warm = row.configuration == r.rows[0].configuration ? 1 + 1000 : 0;
    EXPECT_NEAR((runs[row.configuration] - briefly[row.configuration]) / launches, 1 + 100 + 100 + warm, 1) << row.configuration;
  }
}

}  // namespace
}  // namespace foretile::bench
