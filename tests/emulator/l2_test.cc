// The replay through an L2 cache: the cache itself, and what it makes of the kernels' traffic beside the model's.
#include <algorithm>
#include <list>
#include <random>

#include "emulator/record/l2.h"
#include "foretile/device/catalogue.h"
#include "kernels.h"
#include "model/machine.h"
#include "model/traffic.h"
#include "product.h"

namespace foretile::emulator_tests {

using namespace emulator;

namespace {

constexpr u64 kMegabyte = 1 << 20;

TEST(L2, WhatFitsStaysAndWhatDoesNotGoes) {
  const auto second_pass_hits = [](u64 footprint) {
    L2Cache cache(kMegabyte);
    for (int pass = 0; pass < 2; ++pass)
      for (u64 sector = 0; sector < footprint / kSectorBytes; ++sector) cache.access(sector, false);
    return double(cache.traffic().load_hits) / double(footprint / kSectorBytes);
  };
  EXPECT_EQ(second_pass_hits(kMegabyte / 4), 1.0);
  EXPECT_GT(second_pass_hits(kMegabyte * 3 / 4), 0.8);  // some sets get more than their share
  EXPECT_LT(second_pass_hits(kMegabyte * 3 / 2), 0.2);
  EXPECT_EQ(second_pass_hits(kMegabyte * 4), 0.0);      // the line used longest ago is the one that comes next
}

TEST(L2, SectorsOfALineAreFilledOneByOneAndStoresLeaveTheirs) {
  L2Cache cache(kMegabyte);
  cache.access(8, false);
  cache.access(9, false);  // same line
  cache.access(8, false);
  cache.access(10, true);
  cache.access(10, false);
  const L2Traffic t = cache.traffic();
  EXPECT_EQ(t.load_sectors, 4u);
  EXPECT_EQ(t.load_hits, 2u);
  EXPECT_EQ(t.store_sectors, 1u);
  EXPECT_EQ(t.store_hits, 0u);
}

// One set of 16 lines against a list that is moved about.
TEST(L2, ASetKeepsTheSixteenLinesUsedLast) {
  L2Cache cache(16 * kLineBytes);
  std::list<u64> recent;
  u64 hits = 0;
  std::mt19937 bits(3);
  for (int i = 0; i < 10000; ++i) {
    const u64 line = bits() % 24;
    const auto it = std::find(recent.begin(), recent.end(), line);
    hits += it != recent.end();
    if (it != recent.end()) recent.erase(it);
    recent.push_front(line);
    if (recent.size() > 16) recent.pop_back();
    cache.access(line * 4, false);
  }
  EXPECT_EQ(cache.traffic().load_hits, hits);
}

struct Case {
  const char* name;
  Operation operation;
  Configuration configuration;
  Problem problem;
};

class OfKernels : public testing::TestWithParam<Case> {};

L2Traffic traffic_of(const Case& c, u64 bytes, u64 seed = 1) {
  Options o;
  o.trace = true;
  o.l2_bytes = bytes;
  o.seed = seed;
  if (seed != 1) o.scheduling = Scheduling::random;
  const ProductResult r = run_product(c.operation, c.configuration, c.problem, {}, o, 4);
  EXPECT_EQ(r.failure(), "");
  return r.report.l2;
}

// Sizes of whole tiles that fit in the cache: the model is exact there, and so is the replay, in whatever order.
TEST_P(OfKernels, ThatFitEqualTheModel) {
  const Case& c = GetParam();
  const Machine machine = load_machine("h200");
  const LaunchShape shape = launch_shape(c.operation, c.configuration, c.problem, 4);
  const Traffic model = traffic(machine, c.operation, c.configuration, c.problem, tile_grid(c.configuration, c.problem, int(shape.blocks)), shape.blocks / shape.cluster);
  for (const u64 seed : {1, 2, 3}) {
    const L2Traffic replay = traffic_of(c, u64(machine.l2_bytes / machine.l2_copies), seed);
    EXPECT_EQ(double(replay.load_sectors) * kSectorBytes, model.l2_load_bytes);
    EXPECT_EQ(double(replay.load_sectors - replay.load_hits) * kSectorBytes, model.dram_load_bytes);
    EXPECT_NEAR(double(replay.load_hits) / double(replay.load_sectors), model.l2_hit_rate, 1e-12);
    EXPECT_EQ(double(replay.store_sectors) * kSectorBytes, model.l2_store_bytes);
  }
}

TEST_P(OfKernels, ASmallerCacheHitsLess) {
  const L2Traffic large = traffic_of(GetParam(), 50 * kMegabyte), small = traffic_of(GetParam(), 32 * 1024);
  EXPECT_EQ(small.load_sectors, large.load_sectors);
  EXPECT_LT(small.load_hits, large.load_hits);
  EXPECT_EQ(traffic_of(GetParam(), 32 * 1024).load_hits, small.load_hits) << "a run repeats exactly, wherever its operands stand";
}

INSTANTIATE_TEST_SUITE_P(All, OfKernels, testing::Values(
  Case{"cooperative", catalogue::product(DType::bf16, DType::bf16), catalogue::coop(128, 128, 6, 2), {.m = 384, .n = 384, .k = 256}},
  Case{"multicast", catalogue::product(DType::bf16, DType::bf16), catalogue::coop(128, 256, 4, 2, 2), {.m = 512, .n = 512, .k = 128}}),
  [](const auto& info) { return std::string(info.param.name); });

TEST(L2, WithoutASizeNothingIsReplayed) {
  Options o;
  o.trace = true;
  const ProductResult r = run_product(catalogue::product(DType::bf16, DType::bf16), catalogue::coop(128, 128, 6, 2), {.m = 128, .n = 128, .k = 64}, {}, o);
  EXPECT_EQ(r.report.l2.load_sectors, 0u);
}

}  // namespace
}  // namespace foretile::emulator_tests
