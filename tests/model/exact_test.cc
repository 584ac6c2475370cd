// What can be known exactly: occupancy, bank conflicts, sectors.
#include <gtest/gtest.h>

#include <numeric>

#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "model/banks.h"
#include "model/occupancy.h"
#include "model/registers.h"

namespace foretile {
namespace {

TEST(Occupancy, HandComputedCases) {
  const Machine a100 = load_machine("a100"), h200 = load_machine("h200"), rtx4090 = load_machine("rtx4090");
  // 32 registers: 1,024 a warp, 16 warps a partition, 64 warps: two blocks of 32 warps, every warp the SM can hold.
  Occupancy o = occupancy(a100, 1024, 32, 6144);
  EXPECT_EQ(o.blocks_per_sm, 2);
  EXPECT_EQ(o.warps_fraction, 1.0);
  // One register more rounds up to 1,280 a warp: 12 warps a partition, 48 warps, one block.
  o = occupancy(a100, 1024, 33, 6144);
  EXPECT_EQ(o.blocks_per_sm, 1);
  EXPECT_EQ(o.limiter, Limiter::registers);
  EXPECT_EQ(occupancy(a100, 128, 33, 0).by_registers, 12) << "48 warps in blocks of four";
  // 96 KiB + 1 KiB: one block in 164 KiB.
  o = occupancy(a100, 256, 128, 98304);
  EXPECT_EQ(o.by_shared_memory, 1);
  EXPECT_EQ(o.by_registers, 2);
  EXPECT_EQ(o.limiter, Limiter::shared_memory);
  // 168 registers x 12 warps: 5,376 a warp, 3 a partition, 12 warps: one block.
  o = occupancy(h200, 384, 168, 204800);
  EXPECT_EQ(o.by_registers, 1);
  EXPECT_EQ(o.by_shared_memory, 1);
  EXPECT_EQ(o.blocks_per_sm, 1);
  // Ada holds 48 warps.
  o = occupancy(rtx4090, 256, 32, 1024);
  EXPECT_EQ(o.blocks_per_sm, 6);
  EXPECT_EQ(o.limiter, Limiter::warps);
  // Small blocks run out of block slots.
  o = occupancy(h200, 32, 16, 0);
  EXPECT_EQ(o.blocks_per_sm, 32);
  EXPECT_EQ(o.limiter, Limiter::blocks);
}

TEST(Occupancy, WhatDoesNotFitHasNone) {
  const Machine h200 = load_machine("h200");
  EXPECT_EQ(occupancy(h200, 1056, 32, 0).blocks_per_sm, 0);
  EXPECT_EQ(occupancy(h200, 128, 256, 0).blocks_per_sm, 0);
  EXPECT_EQ(occupancy(h200, 128, 32, 227 * 1024 + 1).blocks_per_sm, 0);
  EXPECT_EQ(occupancy(h200, 128, 32, 227 * 1024).blocks_per_sm, 1);
  EXPECT_EQ(occupancy(h200, 1024, 128, 0).blocks_per_sm, 0) << "32 warps of 4,096 registers are 131,072";
}

TEST(Occupancy, EveryLegalCatalogueKernelFits) {
  const Machine h200 = load_machine("h200");
  for (const Configuration& c : catalogue::kConfigurations) {
    if (c.family != Family::sm90) continue;
    const Operation o = catalogue::plain_operation(c);
    ASSERT_EQ(why_not(o, c), nullptr);
    EXPECT_EQ(occupancy(h200, sm90::threads(c), sm90::launch_registers(c), sm90::shared_bytes(o, c)).blocks_per_sm, 1);
  }
}

TEST(Registers, ComeFromTheTableOfCompiledKernels) {
  for (const Configuration& c : catalogue::kConfigurations) {
    const Operation o = catalogue::plain_operation(c);
    const Registers r = registers_of(o, c);
    EXPECT_FALSE(r.estimated);
    EXPECT_EQ(r.spill_bytes, 0);
    if (c.family == Family::sm90) {
      EXPECT_LE(r.count, sm90::launch_registers(c));
    }
    EXPECT_GE(r.count, 28);
    // The portable kernel is the same code whatever the alignment.
    if (c.family == Family::simt) {
      EXPECT_EQ(registers_of(catalogue::unaligned(o), c).count, r.count);
    }
  }
}

TEST(Registers, WhatIsNotInTheTableIsEstimatedAndMarked) {
  Operation o = catalogue::product(DType::bf16, DType::bf16);
  EXPECT_TRUE(registers_of(o, catalogue::coop(128, 224, 3, 2)).estimated);
  EXPECT_EQ(registers_of(o, catalogue::coop(128, 224, 3, 2)).count, 168);
  for (const Configuration& c : catalogue::kConfigurations) {
    if (c.family != Family::simt) continue;
    o.transpose_a = true;  // nobody compiled it for the table
    const Registers estimate = registers_of(o, c);
    o.transpose_a = false;
    EXPECT_TRUE(estimate.estimated);
    EXPECT_NEAR(estimate.count, registers_of(o, c).count, 20);
  }
}

constexpr int kWarp = kWarpLanes;
constexpr i64 kInactive = -1;
using Lanes = i64[kWarp];

// The rules of model/access.h on addresses of which some lanes have none.
template <class Address> struct Access {
  Address address[kWarp] = {};
  u32 active = 0;
  explicit Access(const Lanes& lanes) {
    for (int t = 0; t < kWarp; ++t)
      if (lanes[t] != kInactive) address[t] = Address(lanes[t]), active |= 1u << t;
  }
};
int shared_wavefronts(const Lanes& lanes, int bytes) {
  const Access<u32> x(lanes);
  return foretile::shared_wavefronts(x.address, bytes, x.active);
}
int global_sectors(const Lanes& lanes, int bytes) {
  const Access<u64> x(lanes);
  return foretile::global_sectors(x.address, bytes, x.active);
}

int wavefronts(int bytes, i64 pitch, bool column) {
  Lanes a;
  for (int t = 0; t < kWarp; ++t) a[t] = column ? t * pitch * bytes : t * bytes;
  return shared_wavefronts(a, bytes);
}

TEST(Banks, ColumnAccessCostsTheGreatestCommonDivisor) {
  for (i64 pitch = 1; pitch < 200; ++pitch) EXPECT_EQ(wavefronts(4, pitch, true), std::gcd(pitch, i64(32))) << pitch;
}

TEST(Banks, RowAccessNeverConflicts) {
  for (i64 pitch : {32, 33, 1024, 1025}) EXPECT_EQ(wavefronts(4, pitch, false), 1);
  EXPECT_EQ(wavefronts(2, 32, false), 1);
}

TEST(Banks, HalvesShareAWord) {
  const std::pair<i64, int> columns[] = {{24, 4}, {28, 2}, {32, 16}, {33, 1}, {34, 1}, {36, 2}, {40, 4}, {48, 8}, {64, 32}, {66, 1}, {72, 4}};
  for (const auto& [pitch, expected] : columns) EXPECT_EQ(wavefronts(2, pitch, true), expected) << pitch;
}

TEST(Banks, WideAccessesRunInPhases) {
  Lanes unit8, unit16, same = {};
  for (int t = 0; t < kWarp; ++t) unit8[t] = 8 * t, unit16[t] = 16 * t;
  EXPECT_EQ(shared_wavefronts(unit8, 8), 2);
  EXPECT_EQ(shared_wavefronts(unit16, 16), 4);
  EXPECT_EQ(shared_wavefronts(same, 4), 1) << "a broadcast";
  Lanes one;
  for (i64& a : one) a = kInactive;
  EXPECT_EQ(shared_wavefronts(one, 4), 0);
  one[7] = 44;
  EXPECT_EQ(shared_wavefronts(one, 4), 1);
}

TEST(Banks, MatrixRowsByPitch) {
  const std::pair<i64, int> pitches[] = {{64, 4}, {80, 1}, {96, 2}, {128, 8}, {144, 1}, {192, 4}, {256, 8}, {272, 1}};
  for (const auto& [pitch, expected] : pitches) {
    u32 rows[8];
    for (int r = 0; r < 8; ++r) rows[r] = r * pitch;
    EXPECT_EQ(matrix_wavefronts(rows), expected) << pitch;
  }
}

TEST(Banks, TheStagingSwizzleIsConflictFree) {
  // stmatrix into a chunk of 64 rows of 128 bytes (gemm_sm90.cuh, write_chunk): lanes 0-7 give the rows of one matrix.
  for (int column = 0; column < 8; ++column) {
    u32 rows[8];
    for (int r = 0; r < 8; ++r) rows[r] = swizzle_address(u32(r * 128 + column * 16), Swizzle::bytes128);
    EXPECT_EQ(matrix_wavefronts(rows), 1);
  }
}

TEST(Sectors, OfOneAccess) {
  Lanes a;
  const auto fill = [&](i64 stride, i64 offset) {
    for (int t = 0; t < kWarp; ++t) a[t] = t * stride + offset;
  };
  fill(4, 0);
  EXPECT_EQ(global_sectors(a, 4), 4);
  fill(16, 0);
  EXPECT_EQ(global_sectors(a, 16), 16);
  fill(4, 4);
  EXPECT_EQ(global_sectors(a, 4), 5) << "misaligned by a word: one sector more";
  fill(2, 0);
  EXPECT_EQ(global_sectors(a, 2), 2);
  fill(4096, 0);
  EXPECT_EQ(global_sectors(a, 4), 32);
  fill(0, 0);
  EXPECT_EQ(global_sectors(a, 4), 1);
}

// The short form the forecast uses against the exact count, lane by lane.
TEST(Banks, SimtDepositsAgreeWithTheExactCount) {
  for (const Configuration& c : catalogue::kConfigurations) {
    if (c.family != Family::simt) continue;
    for (bool transposed : {false, true}) {
      const int rows = c.tile_m, pitch = simt::a_pitch(c);
      Lanes a;
      for (int lane = 0; lane < kWarp; ++lane) {
        const int r = transposed ? lane % rows : lane / c.tile_k, k = transposed ? lane / rows : lane % c.tile_k;
        a[lane] = 4 * (k * pitch + r);
      }
      EXPECT_EQ(simt_deposit_wavefronts(c, transposed, rows, pitch), shared_wavefronts(a, 4));
    }
  }
}

}  // namespace
}  // namespace foretile
