// The exact layer against cases worked out by hand and against closed forms. Recorded counters: replay_test.cc.
#include "model/access.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

namespace foretile {
namespace {

struct Case {
  u32 pitch;
  int ways;
};

std::vector<u32> lanes(const std::function<u32(u32)>& address, u32 count = 32) {
  std::vector<u32> a;
  for (u32 lane = 0; lane < count; ++lane) a.push_back(address(lane));
  return a;
}
std::vector<u64> lanes64(const std::function<u64(u64)>& address) {
  std::vector<u64> a;
  for (u64 lane = 0; lane < 32; ++lane) a.push_back(address(lane));
  return a;
}

TEST(SharedWavefronts, UnitStrideIsIdealAtEveryWidth) {
  for (int bytes : {1, 2, 4, 8, 16}) {
    const auto a = lanes([&](u32 l) { return l * u32(bytes); });
    EXPECT_EQ(shared_wavefronts(a, bytes), bytes <= 4 ? 1 : bytes / 4) << bytes << " bytes a lane";
    EXPECT_EQ(ideal_wavefronts(a, bytes), bytes <= 4 ? 1 : bytes / 4) << bytes << " bytes a lane";
  }
}

TEST(SharedWavefronts, RowReadsAreConflictFreeAtAnyPitch) {
  for (u32 pitch : {24u, 31u, 32u, 33u, 1024u, 1025u})
    for (u32 row : {0u, 3u}) EXPECT_EQ(shared_wavefronts(lanes([&](u32 l) { return 4 * (row * pitch + l); }), 4), 1) << "pitch " << pitch;
}

// Column access at a pitch of P words: gcd(P, 32) lanes meet in each bank.
TEST(SharedWavefronts, ColumnAccessIsTheGreatestCommonDivisor) {
  for (u32 pitch = 1; pitch < 200; ++pitch)
    EXPECT_EQ(shared_wavefronts(lanes([&](u32 l) { return 4 * l * pitch; }), 4), int(std::gcd(pitch, 32u))) << "pitch " << pitch << " words";
}

// 16-bit elements down a column: two neighbours share a word, so the pitch counts halves of words.
TEST(SharedWavefronts, ColumnAccessOfHalves) {
  const Case cases[] = {{24, 4}, {28, 2}, {32, 16}, {33, 1}, {34, 1}, {36, 2}, {40, 4}, {48, 8}, {64, 32}, {66, 1}, {72, 4}};
  for (const Case& c : cases)
    EXPECT_EQ(shared_wavefronts(lanes([&](u32 l) { return 2 * l * c.pitch; }), 2), c.ways) << "pitch " << c.pitch << " halves";
}

TEST(SharedWavefronts, EqualWordsAreGivenOnce) {
  EXPECT_EQ(shared_wavefronts(lanes([](u32) { return 64u; }), 4), 1);
  EXPECT_EQ(shared_wavefronts(lanes([](u32 l) { return 4 * (l / 2); }), 4), 1);
  EXPECT_EQ(shared_wavefronts(lanes([](u32 l) { return 128 * (l % 2); }), 4), 2);  // two words of one bank
  EXPECT_EQ(shared_wavefronts(lanes([](u32 l) { return l; }), 1), 1);              // four lanes a word
}

TEST(SharedWavefronts, WideAccessesGoInGroups) {
  // A pitch of 136 floats turns rows by 8 banks: 8 lanes of 8 bytes in a row, 4 rows (a wgmma accumulator's store).
  const auto store = [](u32 pitch) { return lanes([&](u32 l) { return l / 4 * pitch * 4 + l % 4 * 8; }); };
  EXPECT_EQ(shared_wavefronts(store(128), 8), 8);
  EXPECT_EQ(shared_wavefronts(store(136), 8), 2);
  // 16 bytes a lane down a column: quarter warps of 8 lanes.
  EXPECT_EQ(shared_wavefronts(lanes([](u32 l) { return l * 128; }), 16), 32);
  EXPECT_EQ(shared_wavefronts(lanes([](u32 l) { return l * 144; }), 16), 4);
  EXPECT_EQ(shared_wavefronts(lanes([](u32 l) { return l * 132 / 16 * 16; }), 16), shared_wavefronts(lanes([](u32 l) { return l * 128 + l / 4 * 16; }), 16));
}

TEST(SharedWavefronts, UniformPairsHalveTheGroups) {
  const auto pairs = [](u32 bytes) { return lanes([=](u32 l) { return l / 2 * bytes; }); };
  const auto apart = [](u32 bytes) { return lanes([=](u32 l) { return (l / 4 * 2 + l % 2) * bytes; }); };
  EXPECT_EQ(shared_wavefronts(pairs(8), 8), 1);
  EXPECT_EQ(shared_wavefronts(apart(8), 8), 1);
  EXPECT_EQ(shared_wavefronts(pairs(16), 16), 2);
  EXPECT_EQ(shared_wavefronts(apart(16), 16), 2);
  EXPECT_EQ(shared_wavefronts(lanes([](u32) { return 0u; }), 8), 1);
  EXPECT_EQ(shared_wavefronts(lanes([](u32) { return 0u; }), 16), 2);
  // One pair that disagrees is enough to lose it.
  auto a = pairs(16);
  a[31] = 256;
  EXPECT_EQ(shared_wavefronts(a, 16), 4);
  // Lane l with l^4 does not count.
  EXPECT_EQ(shared_wavefronts(lanes([](u32 l) { return (l / 8 * 4 + l % 4) * 16; }), 16), 4);
}

// Stores go in plain groups, whoever agrees with whom; equal words of a group are still one.
TEST(SharedWavefronts, StoresKnowNoPairs) {
  for (int bytes : {8, 16}) {
    const auto pairs = lanes([&](u32 l) { return l / 2 * u32(bytes); });
    const auto broadcast = lanes([](u32) { return 64u; });
    EXPECT_EQ(shared_wavefronts(pairs, bytes, kEveryLane, Direction::store), bytes / 4);
    EXPECT_EQ(shared_wavefronts(broadcast, bytes, kEveryLane, Direction::store), bytes / 4);
    EXPECT_EQ(ideal_wavefronts(broadcast, bytes, kEveryLane, Direction::store), bytes / 4);
    // Sixteen pairs in one bank: 16 words either way, but no more of them conflicts than what the groups do not need.
    const auto column = lanes([](u32 l) { return l / 2 * 128; });
    EXPECT_EQ(shared_wavefronts(column, bytes, kEveryLane, Direction::store), 16);
    EXPECT_EQ(ideal_wavefronts(column, bytes, kEveryLane, Direction::load), bytes / 8);
  }
}

TEST(SharedWavefronts, LanesThatTakeNoPartCostNothing) {
  const auto unit = lanes([](u32 l) { return 16 * l; });
  EXPECT_EQ(shared_wavefronts(unit, 16, 0), 0);
  EXPECT_EQ(shared_wavefronts(unit, 16, 0x000000ff), 1);
  EXPECT_EQ(shared_wavefronts(unit, 16, 0x00ff00ff), 2);
  EXPECT_EQ(ideal_wavefronts(unit, 16, 0x00ff00ff), 2);
  const auto column = lanes([](u32 l) { return 128 * l; });
  EXPECT_EQ(shared_wavefronts(column, 4, 0x0000ffff), 16);
  EXPECT_EQ(shared_wavefronts(std::span(column).first(16), 4), 16);  // a short span: the other lanes are not there
}

// ldmatrix and stmatrix: a group a matrix, conflict-free where the eight row starts differ modulo 128 bytes.
TEST(SharedWavefronts, MatrixRows) {
  const Case cases[] = {{64, 4}, {80, 1}, {96, 2}, {128, 8}, {144, 1}, {192, 4}, {256, 8}, {272, 1}};
  for (const Case& c : cases) {
    EXPECT_EQ(matrix_wavefronts(lanes([&](u32 l) { return l * c.pitch; }, 8)), c.ways) << "pitch " << c.pitch << " bytes";
    EXPECT_EQ(matrix_wavefronts(lanes([&](u32 l) { return l * c.pitch; }, 32)), 4 * c.ways) << "pitch " << c.pitch << " bytes";
  }
  const auto swizzled = lanes([](u32 l) { const u32 a = l % 16 * 128 + l / 16 * 16; return a ^ ((a >> 3) & 0x70); });
  EXPECT_EQ(matrix_wavefronts(swizzled), 4);
}

TEST(GlobalSectors, ByHand) {
  for (int bytes : {1, 2, 4, 8, 16}) {
    EXPECT_EQ(global_sectors(lanes64([&](u64 l) { return l * u64(bytes); }), bytes), bytes) << bytes << " bytes a lane";
    EXPECT_EQ(global_sectors(lanes64([&](u64 l) { return (l + 1) * u64(bytes); }), bytes), bytes + 1) << "one element off";
    EXPECT_EQ(global_sectors(lanes64([&](u64) { return u64(256); }), bytes), 1) << "broadcast";
    EXPECT_EQ(ideal_sectors(32, bytes), bytes);
  }
  EXPECT_EQ(global_sectors(lanes64([](u64 l) { return 8 * l; }), 4), 8);        // stride 2
  EXPECT_EQ(global_sectors(lanes64([](u64 l) { return 4096 * l; }), 4), 32);    // down a column
  EXPECT_EQ(global_lines(lanes64([](u64 l) { return 4 * l; }), 4), 1);
  EXPECT_EQ(global_lines(lanes64([](u64 l) { return 4 * l + 64; }), 4), 2);
  EXPECT_EQ(global_lines(lanes64([](u64 l) { return 16 * l; }), 16), 4);
  EXPECT_EQ(global_sectors(lanes64([](u64 l) { return 32 * l; }), 4, 0x0f), 4);
  // A row of 32 halves at a pitch of 1025: 2050 bytes, so rows start anywhere in a sector.
  i64 sectors = 0;
  for (u64 row = 0; row < 32; ++row) sectors += row_sectors(row * 2050, 64);
  EXPECT_EQ(sectors, 94);  // 2.94 a row instead of 2
  EXPECT_EQ(row_sectors(100, 0), 0);
}

// The group rule, written down once more in the most literal way: only for accesses without uniform pairs.
int literal(const std::vector<u32>& a, int bytes, u32 active) {
  int total = 0;
  const u32 words = bytes < 4 ? 1 : u32(bytes) / 4, size = 32 / words;
  for (u32 group = 0; group < words; ++group) {
    std::size_t most = 0;
    for (u32 bank = 0; bank < 32; ++bank) {
      std::vector<bool> wanted(4096);
      for (u32 lane = group * size; lane < (group + 1) * size; ++lane)
        for (u32 w = 0; w < words; ++w)
          if ((active >> lane & 1) && (a[lane] / 4 + w) % 32 == bank) wanted[a[lane] / 4 + w] = true;
      most = std::max(most, std::size_t(std::count(wanted.begin(), wanted.end(), true)));
    }
    total += int(most);
  }
  return total;
}

TEST(SharedWavefronts, RandomAddressesAgreeWithTheLiteralRule) {
  std::mt19937 rng(1);
  for (int round = 0; round < 300; ++round)
    for (int bytes : {2, 4, 8, 16}) {
      const u32 span = 1u << (5 + rng() % 5), active = round % 3 ? kEveryLane : u32(rng() | 3);
      auto a = lanes([&](u32) { return u32(rng() % span) * u32(bytes); });
      a[0] = 0, a[1] = u32(bytes), a[2] = 2 * u32(bytes), a[3] = 3 * u32(bytes);  // no uniform pairs ...
      EXPECT_EQ(shared_wavefronts(a, bytes, active | 15), literal(a, bytes, active | 15)) << bytes << " bytes a lane";
    }
}

static_assert([] {
  u32 a[32] = {};
  for (u32 l = 0; l < 32; ++l) a[l] = 128 * l;
  return shared_wavefronts(a, 4) == 32 && ideal_wavefronts(a, 4) == 1;
}());

}  // namespace
}  // namespace foretile
