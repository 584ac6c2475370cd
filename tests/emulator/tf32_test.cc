// fp32 multiplied in tf32: what is cut from the inputs, the same in every kernel; and products of data that is cut, where
// integers would show nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "emulator/library/built_in.h"
#include "foretile/device/catalogue.h"
#include "model/text.h"
#include "product.h"

namespace foretile::emulator_tests {
namespace {

constexpr i64 kSize = 36;  // rows and columns: more than one line of 32 elements along K

u32 bits_of(float x) {
  u32 bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}

// Numbers of both signs and many sizes whose low bits are set; among them the largest and the smallest, and those that rounding to
// nearest would carry into the next power of two.
std::vector<float> telling_values() {
  std::mt19937 random(73);
  std::vector<float> values;
  for (i64 i = 0; i < kSize * kSize; ++i) {
    const u32 low = i % 3 == 0 ? 0x1fff : i % 3 == 1 ? 0x1000 : random() & 0x1fff, kept = i % 5 == 0 ? 0x7fe000 : random() & 0x7fe000;
    const u32 exponent = i == 0 ? 254 : i == 1 ? 1 : 64 + random() % 128;
    const u32 bits = (random() & 1) << 31 | exponent << 23 | kept | low;
    values.emplace_back();
    std::memcpy(&values.back(), &bits, 4);
  }
  return values;
}

// D = values x 1, or 1 x values^T: each element of D is one product, so it shows what counted of the value.
std::vector<float> times_one(const Operation& o, const Configuration& c, std::vector<float> values, bool values_are_b) {
  std::vector<float> one(kSize * kSize), d(kSize * kSize, -1);
  for (i64 i = 0; i < kSize; ++i) one[std::size_t(i * kSize + i)] = 1;
  std::vector<float>&a = values_are_b ? one : values, &b = values_are_b ? values : one;
  GemmRun run{o, c, {kSize, kSize, kSize, 1}, {}, {}, 2};
  run.operands.a = {a.data(), kSize, 0}, run.operands.b = {b.data(), kSize, 0}, run.operands.epilogue.d = {d.data(), kSize, 0};
  const std::size_t bytes = d.size() * sizeof(float);
  run.regions = {{a.data(), bytes, false, "A"}, {b.data(), bytes, false, "B"}, {d.data(), bytes, true, "D"}};
  const Report report = emulate_gemm(run);
  EXPECT_TRUE(report.clean()) << text_of(c) << ": " << report.text();
  return d;
}

std::vector<BuiltIn> plain_kernels(DType in) {
  std::vector<BuiltIn> list;
  for (const BuiltIn& k : built_in_kernels())
    if (k.operation.a == in && k.operation.d == DType::fp32 && is_plain(k.operation) && !k.operation.transpose_a && !k.operation.transpose_b) list.push_back(k);
  return list;
}

TEST(Tf32, ThirteenBitsOfEachInputAreCutTowardZero) {
  const std::vector<float> values = telling_values();
  int hopper = 0, others = 0;
  for (const BuiltIn& k : plain_kernels(DType::tf32)) {
    ++(uses_tensor_cores(k.configuration.family) ? hopper : others);
    const std::vector<float> a = times_one(k.operation, k.configuration, values, false), b = times_one(k.operation, k.configuration, values, true);
    for (i64 row = 0; row < kSize; ++row)
      for (i64 column = 0; column < kSize; ++column) {
        const u32 expected = bits_of(values[std::size_t(row * kSize + column)]) & ~0x1fffu;
        ASSERT_EQ(bits_of(a[std::size_t(row * kSize + column)]), expected) << text_of(k.configuration) << " A(" << row << ", " << column << ")";
        ASSERT_EQ(bits_of(b[std::size_t(column * kSize + row)]), expected) << text_of(k.configuration) << " B(" << row << ", " << column << ")";
      }
  }
  EXPECT_GE(hopper, 8);
  EXPECT_GE(others, 8);
}

TEST(Tf32, NothingIsCutUnlessAskedFor) {
  const std::vector<float> values = telling_values();
  for (const BuiltIn& k : plain_kernels(DType::fp32)) {
    EXPECT_FALSE(uses_tensor_cores(k.configuration.family)) << "true fp32 never runs on tensor cores: " << text_of(k.configuration);
    for (const bool b : {false, true}) {
      const std::vector<float> d = times_one(k.operation, k.configuration, values, b);
      for (i64 row = 0; row < kSize; ++row)
        for (i64 column = 0; column < kSize; ++column)
          ASSERT_EQ(bits_of(d[std::size_t(b ? column * kSize + row : row * kSize + column)]), bits_of(values[std::size_t(row * kSize + column)])) << text_of(k.configuration);
    }
  }
}

// Normal data through every kernel in tf32, against the reference that cuts its inputs alike.
TEST(Tf32, ProductsOfCutData) {
  u64 seed = 0;
  for (const BuiltIn& k : built_in_kernels()) {
    if (k.operation.a != DType::tf32) continue;
    const Configuration& c = k.configuration;
    const bool simt = !needs_hopper(c.family);
    for (const Problem& p : {Problem{i64(c.tile_m) * c.cluster_m + 5, i64(c.tile_n) + 12, simt ? 76 : c.tile_k * (c.stages + 2) + 12, 1}, Problem{3, 20, 44, 2}}) {
      ++seed;
      Options o{.async = Async(seed % 3), .scheduling = Scheduling(seed / 3 % 3), .seed = seed};
      o.dependent_launch = true;
      reference::GemmDataOptions d{.values = reference::Values::normal, .seed = seed, .beta = k.operation.has_c ? 0.5f : 0};
      if (k.operation.inputs == Alignment::any) d.a.pointer_offset = d.b.pointer_offset = 1;
      if (k.operation.output == Alignment::any) d.d.pointer_offset = 1;
      EXPECT_EQ(run_product(k.operation, c, p, d, o, 2).failure(), "") << text_of(k.operation) << " " << text_of(c) << " m=" << p.m << " n=" << p.n << " k=" << p.k;
    }
  }
  EXPECT_GT(seed, 40u);
}

// The check would notice a kernel that cuts where it must not, and one that does not where it must.
TEST(Tf32, TheReferenceTellsThemApart) {
  for (const auto& [kernel, judge] : {std::pair{DType::tf32, DType::fp32}, {DType::fp32, DType::tf32}}) {
    const Operation o = catalogue::product(kernel, DType::fp32);
    const Configuration c = catalogue::ffma(64, 64, 8, 8, 8);
    reference::GemmData data = reference::make_gemm_data(o, {33, 40, 64, 1}, {.values = reference::Values::normal});
    GemmRun run{data.operation, c, data.problem, data.operands, {}, 2};
    for (const reference::HostOperand& x : data.list) run.regions.push_back({x.data(), x.data_bytes(), x.name == "D", x.name});
    ASSERT_TRUE(emulate_gemm(run).clean());
    ASSERT_TRUE(data.check().passed()) << data.check().text();
    data.operation.a = data.operation.b = judge;
    EXPECT_GT(data.check().wrong, 1000) << name_of(kernel) << " judged as " << name_of(judge);
  }
}

}  // namespace
}  // namespace foretile::emulator_tests
