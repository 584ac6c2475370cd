#include "reference/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

using namespace foretile;
using reference::load;
using reference::rounded;
using reference::store;

namespace {

// An independent judge: from zero upwards each half is its neighbour plus a step, 2^-24 for the first 2048 of them and
// twice as large for every 1024 after.
const std::vector<double>& positive_halves() {
  static const std::vector<double> values = [] {
    std::vector<double> list = {0};
    double step = 0x1p-24;
    for (int bits = 1; bits < 0x7c00; ++bits) {
      list.push_back(list.back() + step);
      if (bits >= 2048 && bits % 1024 == 0) step *= 2;
    }
    return list;
  }();
  return values;
}
double by_steps(u16 bits) {
  const u16 magnitude = bits & 0x7fff;
  const double value = magnitude < 0x7c00 ? positive_halves()[magnitude] : magnitude == 0x7c00 ? HUGE_VAL : NAN;
  return bits & 0x8000 ? -value : value;
}

TEST(Convert, EveryHalfValue) {
  for (u32 bits = 0; bits < 65536; ++bits) {
    const u16 stored = u16(bits);
    const double value = load(DType::fp16, &stored, 0), expected = by_steps(stored);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    ASSERT_EQ(value, expected) << bits;
    u16 back = 0;
    store(DType::fp16, &back, 0, value);
    ASSERT_EQ(back, stored);
    ASSERT_EQ(rounded(DType::fp16, value), value);
  }
}

TEST(Convert, EveryBfloatValueComesBack) {
  for (u32 bits = 0; bits < 65536; ++bits) {
    const u16 stored = u16(bits);
    const u32 wide = bits << 16;
    float expected;
    std::memcpy(&expected, &wide, 4);
    const double value = load(DType::bf16, &stored, 0);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    ASSERT_EQ(value, double(expected));
    u16 back = 0;
    store(DType::bf16, &back, 0, value);
    ASSERT_EQ(back, stored);
  }
}

TEST(Convert, RoundsHalfToNearestEven) {
  // Every midpoint between neighbouring finite halves goes to the even one, and a hair to either side to the nearer one.
  for (u32 bits = 0; bits < 0x7bff; ++bits) {
    const double low = by_steps(u16(bits)), high = by_steps(u16(bits + 1)), middle = (low + high) / 2;
    ASSERT_EQ(rounded(DType::fp16, middle), bits % 2 ? high : low) << bits;
    ASSERT_EQ(rounded(DType::fp16, std::nextafter(middle, HUGE_VAL)), high);
    ASSERT_EQ(rounded(DType::fp16, std::nextafter(middle, 0.0)), low);
    ASSERT_EQ(rounded(DType::fp16, -middle), bits % 2 ? -high : -low);
  }
  EXPECT_EQ(rounded(DType::fp16, 65519.999), 65504);
  EXPECT_EQ(rounded(DType::fp16, 65520), HUGE_VAL);
  EXPECT_EQ(rounded(DType::fp16, -65520), -HUGE_VAL);
}

TEST(Convert, RoundsBfloatAndSingle) {
  EXPECT_EQ(rounded(DType::bf16, 257), 256);  // a tie: 256 is even
  EXPECT_EQ(rounded(DType::bf16, 259), 260);
  EXPECT_EQ(rounded(DType::bf16, 257.0001), 258);
  EXPECT_EQ(rounded(DType::bf16, 0x1p-134), 0);  // a tie with the smallest subnormal
  EXPECT_EQ(rounded(DType::bf16, 0x1.8p-134), 0x1p-133);
  EXPECT_EQ(rounded(DType::bf16, 1e300), HUGE_VAL);
  for (double v : {1 + 0x1p-24, 1 + 0x1.8p-24, 3.14159, -2.71828e-40, 3.5e38, 0x1p-150}) EXPECT_EQ(rounded(DType::fp32, v), double(float(v))) << v;
}

TEST(Convert, NanStaysNan) {
  for (DType type : {DType::fp32, DType::fp16, DType::bf16}) {
    u32 bits = 0;
    store(type, &bits, 0, NAN);
    EXPECT_TRUE(std::isnan(load(type, &bits, 0)));
  }
}

TEST(Convert, Tf32IsStoredWholeAndReadWithoutItsLowBits) {
  u32 bits = 0;
  store(DType::tf32, &bits, 0, 1024.5);
  EXPECT_EQ(bits, 0x44801000u) << "as fp32";
  EXPECT_EQ(load(DType::tf32, &bits, 0), 1024);
  for (const auto& [stored, value] : {std::pair<u32, double>{0x3f801fff, 1}, {0xbf801fff, -1}, {0x3fffffff, 2 - 0x1p-10}, {0x3f802000, 1 + 0x1p-10}, {0x00001fff, 0}, {0x7f800000, HUGE_VAL}}) {
    bits = stored;
    EXPECT_EQ(load(DType::tf32, &bits, 0), value) << std::hex << stored;
  }
  bits = 0x7fc00000;
  EXPECT_TRUE(std::isnan(load(DType::tf32, &bits, 0)));
}

TEST(Convert, RefusesOtherTypes) {
  u32 bits = 0;
  EXPECT_THROW(load(DType::e4m3, &bits, 0), std::invalid_argument);
  EXPECT_THROW(store(DType::int8, &bits, 0, 1), std::invalid_argument);
}

}  // namespace
