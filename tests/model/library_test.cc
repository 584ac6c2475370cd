// The vendor's library: forecasts against public times in the folder named by FORETILE_DATA. Skips without it.
#include "model/library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace foretile {
namespace {

struct Time {
  Problem problem;
  double seconds = 0;
};

std::vector<Time> read(const std::string& path) {
  std::vector<Time> times;
  FILE* pipe = popen(("gzip -dc '" + path + "'").c_str(), "r");
  if (!pipe) return times;
  char line[256];
  while (std::fgets(line, sizeof line, pipe)) {
    long long m, n, k;
    double us;
    if (std::sscanf(line, "%lld,%lld,%lld,%lf", &m, &n, &k, &us) == 4 && us > 0) times.push_back({{m, n, k}, us * 1e-6});
  }
  pclose(pipe);
  return times;
}

// The rule of the split: the constants were fitted to shapes with an even hash, errors are reported on the odd ones.
bool held_out(const Problem& p) {
  u64 z = u64(p.m) << 40 ^ u64(p.n) << 20 ^ u64(p.k);
  z *= 0x9E3779B97F4A7C15ull;
  z ^= z >> 29;
  z *= 0xBF58476D1CE4E5B9ull;
  z ^= z >> 32;
  return z % 2 == 1;
}

struct Errors {
  double median = NAN, mean = NAN, ninth = NAN;
  size_t count = 0;
};

Errors errors(const char* machine_name, const char* file, Regime regime) {
  const char* folder = std::getenv("FORETILE_DATA");
  const Machine machine = load_machine(machine_name);
  std::vector<double> all;
  double sum = 0;
  for (const Time& time : read(std::string(folder) + "/" + file)) {
    if (!held_out(time.problem)) continue;
    const double error = std::abs(library_forecast(machine, DType::bf16, time.problem, {.regime = regime}).seconds / time.seconds - 1);
    all.push_back(error), sum += error;
  }
  if (all.empty()) return {};
  std::sort(all.begin(), all.end());
  const Errors e{all[all.size() / 2], sum / double(all.size()), all[all.size() * 9 / 10], all.size()};
  std::printf("%s %s: %zu held-out times, median error %.2f %%, mean %.2f %%, nine in ten within %.2f %%\n", machine_name, file, e.count, 100 * e.median, 100 * e.mean, 100 * e.ninth);
  return e;
}

#define NEEDS_DATA() \
  if (!std::getenv("FORETILE_DATA") || !*std::getenv("FORETILE_DATA")) GTEST_SKIP() << "FORETILE_DATA names no folder with library times"

TEST(Library, BurstsOnTheH200) {
  NEEDS_DATA();
  const Errors e = errors("h200", "h200_bf16_trtllm.csv.gz", Regime::burst);
  EXPECT_GT(e.count, 8000u);
  EXPECT_LE(e.median, 0.045);
  EXPECT_LE(e.mean, 0.065);
  EXPECT_LE(e.ninth, 0.14);
}

TEST(Library, SustainedOnTheH200) {
  NEEDS_DATA();
  const Errors e = errors("h200", "h200_bf16_vllm_power.csv.gz", Regime::sustained);
  EXPECT_GT(e.count, 8000u);
  EXPECT_LE(e.median, 0.06);
}

TEST(Library, TheA100WithoutATimeOfIts) {
  NEEDS_DATA();
  const Errors e = errors("a100", "a100_bf16_sglang.csv.gz", Regime::burst);
  EXPECT_GT(e.count, 4000u);
  EXPECT_LE(e.median, 0.10);
}

// Without any data: what must hold of every forecast.
TEST(Library, NeverBeatsTheHardware) {
  for (const char* name : {"h200", "h100", "a100", "rtx4090"}) {
    const Machine machine = load_machine(name);
    for (const Problem& p : {Problem{1, 4096, 4096}, Problem{4096, 4096, 4096}, Problem{8192, 28672, 8192}, Problem{17, 33, 100000}, Problem{65536, 16, 64}, Problem{64, 64, 64, 100}}) {
      for (Regime regime : {Regime::burst, Regime::sustained}) {
        const LibraryForecast f = library_forecast(machine, DType::fp16, p, {.regime = regime});
        EXPECT_GE(f.seconds, flop_count(p) / (machine.sms * machine.tensor_fp16 * f.clock_mhz * 1e6));
        EXPECT_GE(f.seconds, double(p.n * p.k * 2) / machine.dram_bandwidth);
        EXPECT_GT(f.tile_m * f.tile_n, 0);
        EXPECT_LE(f.clock_mhz, machine.boost_mhz);
      }
      EXPECT_GE(library_forecast(machine, DType::bf16, p, {.regime = Regime::sustained}).seconds, library_forecast(machine, DType::bf16, p, {.regime = Regime::burst}).seconds * 0.9999);
    }
  }
}

TEST(Library, FewTilesOfALongKAreSplit) {
  const Machine h200 = load_machine("h200");
  EXPECT_GT(library_forecast(h200, DType::bf16, {128, 128, 65536}).split, 1);
  EXPECT_EQ(library_forecast(h200, DType::bf16, {8192, 8192, 8192}).split, 1);
}

TEST(Library, NonsenseIsRefused) {
  const Machine h200 = load_machine("h200");
  EXPECT_THROW(library_forecast(h200, DType::fp32, {64, 64, 64}), std::invalid_argument);
  EXPECT_THROW(library_forecast(h200, DType::int8, {64, 64, 64}), std::invalid_argument);
  EXPECT_THROW(library_forecast(h200, DType::bf16, {64, -64, 64}), std::invalid_argument);
  EXPECT_THROW(library_forecast(h200, DType::bf16, {64, 64, 64}, {.regime = Regime::fixed_clock}), std::invalid_argument);
  EXPECT_THROW(library_forecast(h200, DType::bf16, {64, 64, 64}, {.sm_budget = 1000}), std::invalid_argument);
  EXPECT_EQ(library_forecast(h200, DType::bf16, {0, 64, 64}).seconds, 0);
}

}  // namespace
}  // namespace foretile
