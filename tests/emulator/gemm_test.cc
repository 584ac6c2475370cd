// The production kernels in the emulator: exact on random small problems of integer data, in every asynchronous mode and
// schedule, with nothing found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "emulator/library/built_in.h"
#include "emulator/library/compile.h"
#include "product.h"
#include "foretile/device/catalogue.h"
#include "model/text.h"

namespace foretile::emulator_tests {

using namespace emulator;
namespace {

constexpr Async kAsyncs[] = {Async::eager, Async::lazy, Async::random};
constexpr Scheduling kSchedules[] = {Scheduling::round_robin, Scheduling::random, Scheduling::priority};

#if defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
constexpr bool kInstrumented = true;
#else
constexpr bool kInstrumented = false;
#endif

struct Random {
  std::mt19937_64 bits;
  explicit Random(u64 seed) : bits(seed) {}
  i64 below(i64 n) { return i64(bits() % u64(n)); }
  i64 between(i64 low, i64 high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }
};

// Sizes that fit the tile, fall short of it, and stick out of it by one.
i64 random_size(Random& r, i64 tile, i64 most) {
  const i64 size = r.chance(30) ? tile + r.between(-1, 1) : r.chance(40) ? r.between(1, 16) : r.between(1, 2 * tile);
  return std::clamp<i64>(size, 1, most);
}

std::string name_of(const Operation& o, const Configuration& c, const Problem& p) {
  return fmt::format("{} {} m={} n={} k={} batch={}", text_of(o), text_of(c), p.m, p.n, p.k, p.batch);
}

void random_products(Family family, int count, u64 first_seed) {
  std::vector<BuiltIn> kernels;
  for (const BuiltIn& k : built_in_kernels())
    if (k.configuration.family == family) kernels.push_back(k);
  ASSERT_FALSE(kernels.empty());
  for (int i = 0; i < count; ++i) {
    const u64 seed = first_seed + u64(i);
    Random r(seed);
    const BuiltIn& k = kernels[std::size_t(r.below(i64(kernels.size())))];
    Operation o = k.operation;
    const Configuration& c = k.configuration;
    Problem p;
    p.batch = r.chance(25) ? r.between(2, 3) : 1;
    p.m = random_size(r, c.tile_m, 160), p.n = random_size(r, c.tile_n, 200);
    if (o.gating != Gating::none) p.n = round_up(p.n, i64(2));
    p.k = r.chance(5) && family == Family::simt ? 0 : r.between(1, family == Family::gemv ? 1500 : family == Family::rows ? 800 : needs_hopper(family) ? 320 : 48);
    if (family == Family::decode && c.split_k > 1) p.k += (c.split_k - 1) * decode::kSliceUnit;  // no block without a slice
    reference::GemmDataOptions d;
    d.seed = seed;
    d.alpha = float(r.between(-2, 2)), d.beta = float(r.between(-2, 2));
    // Rows of A and B on 16 bytes where TMA reads them, anywhere otherwise; the same for D.
    const auto place = [&](DType type, i64 dense, bool aligned) {
      reference::Placement x;
      const i64 unit = 16 / size_of(type);
      if (aligned) x.ld_padding = round_up(dense, unit) - dense + unit * r.below(3), x.pointer_offset = unit * r.below(3);
      else x.ld_padding = r.below(9), x.pointer_offset = r.below(5);
      return x;
    };
    d.a = place(o.a, o.transpose_a ? p.m : p.k, o.inputs == Alignment::tma);
    d.b = place(o.b, o.transpose_b ? p.n : p.k, o.inputs == Alignment::tma);
    d.d = place(o.d, output_columns(o, p.n), o.output == Alignment::tma);
    if (o.output == Alignment::any) d.d.pointer_offset |= 1;
    if (o.inputs == Alignment::any) d.a.pointer_offset |= 1;
    if (o.has_c) d.c = place(o.c, p.n, false);
    if (o.has_bias) d.bias = place(o.bias, p.n, false);
    if (o.has_residual) d.residual = place(o.residual, output_columns(o, p.n), false);
    d.a.broadcast = r.chance(20), d.b.broadcast = r.chance(30);
    Options options;
    options.seed = seed;
    options.async = kAsyncs[seed % 3];
    options.scheduling = kSchedules[seed / 3 % 3];
    const ProductResult result = run_product(o, c, p, d, options, int(r.between(1, 5)));
    ASSERT_EQ(result.failure(), "") << "seed " << seed << ": " << name_of(o, c, p);
    if (o.gating == Gating::none && (o.activation == Activation::none || o.activation == Activation::relu)) {
      ASSERT_EQ(result.check.exact, result.check.checked) << name_of(o, c, p);
    }
  }
}

TEST(Gemm, HopperExactOnRandomProblems) { random_products(Family::sm90, 110, 1000); }
TEST(Gemm, DecodeExactOnRandomProblems) { random_products(Family::decode, 150, 3000); }
TEST(Gemm, SimtExactOnRandomProblems) { random_products(Family::simt, 110, 2000); }
TEST(Gemm, FfmaExactOnRandomProblems) { random_products(Family::ffma, 60, 3000); }
TEST(Gemm, RowsExactOnRandomProblems) { random_products(Family::rows, 80, 6000); }
TEST(Gemm, GemvExactOnRandomProblems) { random_products(Family::gemv, 40, 4000); }

TEST(Gemm, SpeedOfTheHopperKernelWithAllChecks) {
  const Operation o = catalogue::kOperations[0].operation;
  const Configuration c = catalogue::coop(128, 128, 6, 2);
  const Problem p{.m = 128, .n = 128, .k = 256};
  double best = 1e9;  // processor time: other programs may share the machine
  for (int i = 0; i < 5; ++i) {
    const std::clock_t start = std::clock();
    const ProductResult r = run_product(o, c, p, {}, {});
    best = std::min(best, double(std::clock() - start) / CLOCKS_PER_SEC);
    ASSERT_EQ(r.failure(), "");
  }
  RecordProperty("milliseconds", std::to_string(best * 1e3));
  fmt::print("128x128x256 with all checks, reference included: {:.1f} ms\n", best * 1e3);
  if (kInstrumented) GTEST_SKIP() << "the bar is for a plain build";
  EXPECT_LE(best, 0.030);
}

}  // namespace
}  // namespace foretile::emulator_tests
