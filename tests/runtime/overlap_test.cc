// Whether two strided matrices share a byte, against the walk over all of them.
#include "api/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace foretile {
namespace {

std::vector<i64> bytes_of(i64 base, const Extent& x) {
  std::vector<i64> all;
  for (i64 b = 0; b < x.batches; ++b)
    for (i64 r = 0; r < x.rows; ++r)
      for (i64 i = 0; i < x.row_bytes; ++i) all.push_back(base + b * x.batch_stride + r * x.row_stride + i);
  return all;
}
const void* at(i64 base) { return reinterpret_cast<const void*>(base + 100000); }

TEST(Overlap, EqualsTheWalkOverEveryByte) {
  std::mt19937 random(1);
  const auto up_to = [&](int n) { return i64(random() % unsigned(n)); };
  int some = 0, none_within_range = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    Extent x{1 + up_to(6), 1 + up_to(5), 1 + up_to(30), 1 + up_to(4), up_to(40)}, y{1 + up_to(6), 1 + up_to(5), 1 + up_to(30), 1 + up_to(4), up_to(40)};
    if (trial % 2) y.row_stride = x.row_stride, y.batch_stride = x.batch_stride;
    const i64 offset = up_to(120) - 60;
    const std::vector<i64> xs = bytes_of(0, x), ys = bytes_of(offset, y);
    const std::set<i64> in_x(xs.begin(), xs.end());
    bool shared = false;
    for (const i64 byte : ys) shared |= in_x.count(byte) > 0;
    ASSERT_EQ(overlap(at(0), x, at(offset), y), shared ? Overlap::some : Overlap::none) << "trial " << trial;
    some += shared;
    none_within_range += !shared && offset < x.span() && -offset < y.span();

    // Among the batches of x alone.
    bool twice = false;
    std::set<i64> earlier;
    for (i64 b = 0; b < x.batches; ++b) {
      const Extent one{x.row_bytes, x.rows, x.row_stride, 1, 0};
      const std::vector<i64> mine = bytes_of(b * x.batch_stride, one);
      for (const i64 byte : mine) twice |= earlier.count(byte) > 0;
      earlier.insert(mine.begin(), mine.end());
    }
    ASSERT_EQ(batches_overlap(x), twice ? Overlap::some : Overlap::none) << "trial " << trial;
  }
  EXPECT_GT(some, 1000);
  EXPECT_GT(none_within_range, 1000);  // the interesting case: ranges meet, elements do not
}

TEST(Overlap, NothingOverlapsNothing) {
  EXPECT_EQ(overlap(at(0), {4, 0, 8, 1, 0}, at(0), {4, 4, 8, 1, 0}), Overlap::none);
  EXPECT_EQ(overlap(at(0), {}, at(0), {4, 4, 8, 1, 0}), Overlap::none);
}

TEST(Overlap, LargeInterleavedViewsAreDecidedQuickly) {
  // Columns [0, 4096) and [4096, 8192) of one matrix of a million rows, in 64 batches.
  const Extent half{8192, 1 << 20, 16384, 64, i64(16384) << 20};
  EXPECT_EQ(overlap(at(0), half, at(8192), half), Overlap::none);
  EXPECT_EQ(overlap(at(0), half, at(8190), half), Overlap::some);
}

TEST(Overlap, GivesUpWhereStridesAreUnrelated) {
  const Extent x{1, 4000000, 6, 1000, 6000007}, y{1, 4000000, 10, 1000, 6000013};
  EXPECT_NE(overlap(at(0), x, at(1), y), Overlap::none);
}

}  // namespace
}  // namespace foretile
