// The layout headers against what the chip did: swizzles, descriptors, fragments. No emulator involved.
#include "golden_test.h"

#include "foretile/device/layout/descriptor.h"
#include "foretile/device/layout/fragment.h"
#include "foretile/device/layout/swizzle.h"
#include "plan/plan.h"

namespace {

using namespace foretile;

Swizzle swizzle_of_descriptor_code(long code) {
  for (const Swizzle s : {Swizzle::none, Swizzle::bytes32, Swizzle::bytes64, Swizzle::bytes128})
    if (descriptor_code(s) == u64(code)) return s;
  ADD_FAILURE() << "unknown descriptor swizzle code " << code;
  return Swizzle::none;
}
Swizzle swizzle_of_map_code(long code) {  // CU_TENSOR_MAP_SWIZZLE_{NONE,32B,64B,128B}
  return code == 3 ? Swizzle::bytes128 : code == 2 ? Swizzle::bytes64 : code == 1 ? Swizzle::bytes32 : Swizzle::none;
}

// Byte offset of element (row, k) of an operand, as the descriptor header documents its strides.
u32 operand_offset(bool mn_major, Swizzle s, u32 start, u32 leading, u32 stride, int size, u32 row, u32 k) {
  const u32 span = u32(span_of(s));
  if (!mn_major) {
    const u32 byte = k * u32(size);
    if (s == Swizzle::none) return start + row / 8 * stride + byte / 16 * leading + row % 8 * 16 + byte % 16;
    return swizzle_address(start + row / 8 * stride + row % 8 * span + byte, s);
  }
  const u32 byte = row * u32(size);
  if (s == Swizzle::none) return start + byte / 16 * stride + k / 8 * leading + k % 8 * 16 + byte % 16;
  return swizzle_address(start + byte / span * leading + k / 8 * stride + k % 8 * span + byte % span, s);
}

TEST(GoldenLayout, WgmmaOperandAddresses) {
  READ_GOLDEN_OR_SKIP(file, "layout.golden");
  int checked = 0;
  for (const golden::Record& r : file.records) {
    if (r.kind != "wgmma-map") continue;
    const int size = size_of(golden::dtype_of(r.word("type")));
    const auto map = r.as<u16>();
    const u32 k_step = 32 / u32(size), rows = r.word("operand") == "A" ? 64 : u32(r.number("n"));
    ASSERT_EQ(map.size(), rows * k_step) << golden::describe(r);
    const Swizzle s = swizzle_of_descriptor_code(r.number("swizzle"));
    int wrong = 0;
    for (u32 row = 0; row < rows; ++row)
      for (u32 k = 0; k < k_step; ++k) {
        const u32 expected = operand_offset(r.word("major") == "mn", s, u32(r.number("start")), u32(r.number("lbo")), u32(r.number("sbo")), size, row, k);
        const u32 got = map[row * k_step + k] * u32(size);
        if (expected != got && wrong++ == 0)
          ADD_FAILURE() << golden::describe(r) << ": element (" << row << ", " << k << ") stands at byte " << got << " on the chip, at " << expected << " by the headers";
      }
    ++checked;
  }
  EXPECT_GE(checked, 100) << "the dump holds too few address maps";
}

// The descriptor's fields stand where the dump tool, which packs its own, put them.
TEST(GoldenLayout, DescriptorFields) {
  READ_GOLDEN_OR_SKIP(file, "layout.golden");
  for (const golden::Record& r : file.records) {
    if (r.kind != "wgmma-map") continue;
    const u64 expected = u64(r.number("start") >> 4) | u64(r.number("lbo") >> 4) << 16 | u64(r.number("sbo") >> 4) << 32 | u64(r.number("swizzle")) << 62;
    EXPECT_EQ(matrix_descriptor(u32(r.number("start")), u32(r.number("lbo")), u32(r.number("sbo")), swizzle_of_descriptor_code(r.number("swizzle"))), expected) << golden::describe(r);
  }
}

TEST(GoldenLayout, AccumulatorFragments) {
  READ_GOLDEN_OR_SKIP(file, "layout.golden");
  int checked = 0;
  for (const golden::Record& r : file.records) {
    if (r.kind != "fragment") continue;
    const auto map = r.as<u16>();
    const int registers = int(r.number("n")) / 2, threads = int(r.number("threads"));
    ASSERT_EQ(map.size(), size_t(threads) * size_t(registers));
    for (int t = 0; t < threads; ++t)
      for (int i = 0; i < registers; ++i) {
        const Element e = wgmma_accumulator(t, i);
        ASSERT_EQ(map[size_t(t * registers + i)], r.word("of") == "row" ? e.row : e.column) << golden::describe(r) << " thread " << t << " register " << i;
      }
    ++checked;
  }
  EXPECT_EQ(checked, 8);
}

TEST(GoldenLayout, MatrixFragments) {
  READ_GOLDEN_OR_SKIP(file, "tma.golden");
  int checked = 0;
  for (const golden::Record& r : file.records) {
    if (r.kind != "stmatrix" && r.kind != "ldmatrix") continue;
    const int count = int(r.number("count"));
    const auto half = r.as<u16>();
    ASSERT_EQ(half.size(), 256u);
    for (int lane = 0; lane < 32; ++lane)
      for (int matrix = 0; matrix < 4; ++matrix)
        for (int h = 0; h < 2; ++h) {
          const Element e = matrix_fragment(lane);
          const size_t stands_at = size_t((8 * matrix + e.row) * 8 + e.column + h);  // row r of matrix i: 8i + r, eight halves each
          if (r.kind == "ldmatrix") {
            EXPECT_EQ(half[size_t((4 * lane + matrix) * 2 + h)], stands_at) << "lane " << lane << " matrix " << matrix;
          } else if (matrix < count) {
            EXPECT_EQ(half[stands_at], 2 * (8 * lane + matrix) + h) << "x" << count << " lane " << lane << " matrix " << matrix;
          } else {
            EXPECT_EQ(half[stands_at], 0xEEEE) << "x" << count << " wrote beyond its matrices";
          }
        }
    ++checked;
  }
  EXPECT_EQ(checked, 3);
}

// Shared memory after a load: code of the tensor element, 0 outside the tensor, 0xEEEE where the box does not reach.
TEST(GoldenLayout, TmaLoads) {
  READ_GOLDEN_OR_SKIP(file, "tma.golden");
  int checked = 0;
  for (const golden::Record& r : file.records) {
    if (r.kind != "tma-load") continue;
    const Swizzle s = swizzle_of_map_code(r.number("swizzle"));
    const auto got = r.as<u16>();
    std::vector<u16> expected(got.size(), 0xEEEE);
    const long box[3] = {r.number("box0"), r.number("box1"), r.number("box2")}, corner[3] = {r.number("x"), r.number("y"), r.number("z")};
    for (long z = 0; z < box[2]; ++z)
      for (long y = 0; y < box[1]; ++y)
        for (long x = 0; x < box[0]; ++x) {
          const long i = corner[0] + x, row = corner[1] + y, batch = corner[2] + z;
          const bool inside = i >= 0 && i < r.number("inner") && row >= 0 && row < r.number("rows") && batch >= 0 && batch < r.number("batches");
          const u32 address = swizzle_address(u32(r.number("destination") + 2 * (x + box[0] * (y + box[1] * z))), s);
          expected.at(address / 2) = u16(inside ? 1 + i + r.number("pitch") * (row + r.number("rows") * batch) : 0);
        }
    int wrong = 0;
    for (size_t i = 0; i < got.size(); ++i)
      if (got[i] != expected[i] && wrong++ == 0)
        ADD_FAILURE() << golden::describe(r) << ": byte " << 2 * i << " holds code " << got[i] << " on the chip, " << expected[i] << " by swizzle.h";
    EXPECT_EQ(r.number("base") % 1024, 0);
    // vocabulary.h: a load counts the bytes of the full box on its barrier, wherever the box lies. (A barrier that expects
    // fewer may complete as well: its count passes zero when just that many bytes have landed. See completes_clipped.)
    EXPECT_EQ(r.number("completes_full"), 1) << golden::describe(r);
    ++checked;
  }
  EXPECT_EQ(checked, 32);
}

TEST(GoldenLayout, TmaStores) {
  READ_GOLDEN_OR_SKIP(file, "tma.golden");
  // The rows of the tensor end in whole units of 16 bytes: what a store writes past the last element of one is the chip's.
  int checked = 0;
  for (const golden::Record& r : file.records) {
    if (r.kind != "tma-store") continue;
    const Swizzle s = swizzle_of_map_code(r.number("swizzle"));
    std::map<long, u16> expected, got;
    const long box[3] = {r.number("box0"), r.number("box1"), r.number("box2")}, corner[3] = {r.number("x"), r.number("y"), r.number("z")};
    for (long z = 0; z < box[2]; ++z)
      for (long y = 0; y < box[1]; ++y)
        for (long x = 0; x < box[0]; ++x) {
          const long i = corner[0] + x, row = corner[1] + y, batch = corner[2] + z;
          const bool inside = i >= 0 && i < round_up(r.number("inner"), 8) && row >= 0 && row < r.number("rows") && batch >= 0 && batch < r.number("batches");
          if (inside) expected[i + r.number("pitch") * (row + r.number("rows") * batch)] = u16(1 + swizzle_address(u32(2 * (x + box[0] * (y + box[1] * z))), s) / 2);
        }
    const auto pairs = r.as<u16>();
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) got[pairs[i]] = pairs[i + 1];
    EXPECT_EQ(got, expected) << golden::describe(r);
    ++checked;
  }
  EXPECT_EQ(checked, 16);
}

TEST(GoldenLayout, Multicast) {
  READ_GOLDEN_OR_SKIP(file, "tma.golden");
  for (const golden::Record& r : file.records) {
    if (r.kind != "tma-multicast") continue;
    EXPECT_EQ(r.number("completes0"), 1);
    EXPECT_EQ(r.number("completes1"), 1);
    const auto half = r.as<u16>();
    for (u32 block = 0; block < 2; ++block)
      for (u32 row = 0; row < 8; ++row)
        for (u32 x = 0; x < 64; ++x)
          ASSERT_EQ(half[block * 512 + swizzle_address(row * 128 + x * 2, Swizzle::bytes128) / 2], 1 + x + 80 * row);
    return;
  }
  FAIL() << "the dump holds no multicast";
}

}  // namespace
