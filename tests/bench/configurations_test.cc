// bench_configurations(), on a pretended GPU: what is timed, what is left out and says so, wrong results found.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "bench/bench.h"
#include "foretile/device/catalogue.h"
#include "model/text.h"
#include "reference/convert.h"

namespace foretile::bench {
namespace {

const char* const kWrong = "decode:16x64x128:s5:k2";

ConfigurationReport run(std::vector<std::string>* lines = nullptr) {
  setenv("FORETILE_LIBCUDA", FORETILE_FAKE_GPU, 1);
  setenv("FORETILE_NVRTC", FORETILE_FAKE_GPU, 1);
  BenchOptions o;
  o.shapes = {{"first", 8, 64, 256}, {"second", 16, 128, 64}};
  if (lines) o.progress = [=](const std::string& line) { lines->push_back(line); };
  const auto submit = reinterpret_cast<void (*)(const std::function<void()>&)>(dlsym(dlopen(FORETILE_FAKE_GPU, RTLD_NOW), "fake_submit"));
  const auto compute = [](const Matmul& call, const std::string& configuration) {
    const auto value = [&](const Matrix& x, i64 row, i64 k) { return reference::load(x.dtype, x.data, row * call.k + k); };
    for (i64 m = 0; m < call.m; ++m)
      for (i64 n = 0; n < call.n; ++n) {
        double sum = configuration == kWrong ? 1 : 0;
        for (i64 k = 0; k < call.k; ++k) sum += value(call.a, m, k) * value(call.b, n, k);
        reference::store(call.d.dtype, call.d.data, m * call.n + n, sum);
      }
  };
  o.product = [=](const Matmul& call) -> Status {
    submit([=, configuration = text_of(*call.configuration)] { compute(call, configuration); });
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
  for (const std::string& part : {std::string("NVIDIA H200"), "but " + std::to_string(r.left_out) + " that were forecast", std::string("first M=8 N=64 K=256"), std::string("M <= 96, burst: "), std::string("over 2 shapes"),
                                  "1 of " + std::to_string(timed) + " results wrong"})
    EXPECT_NE(summary.find(part), std::string::npos) << part << "\n" << summary;
  EXPECT_NE(lines.front().find(std::to_string(timed) + " configurations of 2 shapes"), std::string::npos) << lines.front();
}

TEST(Configurations, TheTableSaysHowItWasMade) {
  const ConfigurationReport r = run();
  const std::string path = ::testing::TempDir() + "configurations.csv";
  r.write_csv(path);
  std::ifstream file(path);
  std::string comment, head, row;
  std::getline(file, comment), std::getline(file, head), std::getline(file, row);
  std::remove(path.c_str());
  EXPECT_EQ(comment, "# " + r.heading());
  EXPECT_EQ(head, "layer,m,n,k,configuration,burst_us,burst_mhz,settled_us,mhz,watts,forecast_burst_us,forecast_sustained_us,verified");
  EXPECT_EQ(row.rfind("first,8,64,256,", 0), 0u) << row;
}

}  // namespace
}  // namespace foretile::bench
