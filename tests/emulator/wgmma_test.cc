// The matrix unit: every type, width, swizzle and major-ness against a plain triple loop; groups, poison and fences.
#include <cmath>

#include "emulator/chip/formats.h"
#include "kernels.h"

namespace foretile::emulator_tests {

using namespace emulator;
namespace {

// Where element (row, k) of an operand stands, written down independently of the emulator's descriptors: K-major operands as
// 8-row groups of `span`-byte rows (16-byte core matrices without a swizzle), MN-major ones as atoms of 8 k by `span` bytes.
struct Operand {
  DType type;
  Swizzle swizzle;
  bool mn_major = false;
  u32 base;       // offset in shared memory
  u32 rows;       // 64, or N

  u32 element() const { return u32(size_of(type)); }
  u32 span() const { return u32(span_of(swizzle)); }
  u32 leading() const { return mn_major ? (swizzle == Swizzle::none ? rows * 16 : span() * 16) : rows * 16; }
  u32 stride() const { return mn_major ? (swizzle == Swizzle::none ? 128 : span() * 8) : swizzle == Swizzle::none ? 128 : span() * 8; }
  u64 descriptor() const { return matrix_descriptor(shared_base().value + base, leading(), stride(), swizzle); }
  SmemAddress address(u32 row, u32 k) const {
    u32 offset;
    if (!mn_major) {
      const u32 byte = k * element();
      if (swizzle == Swizzle::none) offset = byte / 16 * leading() + row / 8 * stride() + row % 8 * 16 + byte % 16;
      else offset = row / 8 * stride() + row % 8 * span() + byte;
    } else {
      const u32 byte = row * 2;
      if (swizzle == Swizzle::none) offset = byte / 16 * stride() + k / 8 * leading() + k % 8 * 16 + byte % 16;
      else offset = byte / span() * leading() + k / 8 * stride() + k % 8 * span() + byte % span();
    }
    return {swizzle_address(shared_base().value + base + offset, swizzle)};
  }
};

template <DType T> void put(SmemAddress at, int value) {
  if constexpr (T == DType::bf16) store_shared(at, round_to<bf16>(float(value)));
  else if constexpr (T == DType::fp16) store_shared(at, round_to<fp16>(float(value)));
  else if constexpr (T == DType::tf32) store_shared(at, float(value));
  else if constexpr (T == DType::int8) store_shared(at, i8(value));
  else {  // the byte whose fp8 value it is
    const int exponent_bits = T == DType::e4m3 ? 4 : 5;
    for (int b = 0; b < 256; ++b)
      if (fp8_to_float(u8(b), exponent_bits) == float(value)) return store_shared(at, u8(b));
    FAIL() << value << " is no fp8 value";
  }
}

int value_a(u32 m, u32 k) { return int((m * 7 + k * 3) % 7) - 3; }
int value_b(u32 n, u32 k) { return int((n * 5 + k * 11) % 9) - 4; }

template <DType T, int N, bool TransposeA = false, bool TransposeB = false> void check_multiply(Swizzle swizzle) {
  constexpr u32 kDepth = 32 / size_of(T);
  const Operand a{T, swizzle, TransposeA, 0, 64}, b{T, swizzle, TransposeB, 32768, N};
  for (const Options& o : every_mode()) {
    int wrong = 0;
    const Report r = emulate(one_block(128, 100000), [&] {
      const u32 t = thread_index();
      for (u32 i = t; i < 64 * kDepth; i += 128) put<T>(a.address(i / kDepth, i % kDepth), value_a(i / kDepth, i % kDepth));
      for (u32 i = t; i < N * kDepth; i += 128) put<T>(b.address(i / kDepth, i % kDepth), value_b(i / kDepth, i % kDepth));
      fence_proxy_async();
      sync_block();
      float acc[N / 2] = {};
      wgmma_fence();
      wgmma<T, N, TransposeA, TransposeB>(acc, a.descriptor(), b.descriptor(), false);
      wgmma<T, N, TransposeA, TransposeB>(acc, a.descriptor(), b.descriptor(), true);
      wgmma_commit();
      EXPECT_NE(acc[0], acc[0]) << "an accumulator in flight must not look finished";
      wgmma_wait<0>();
      for (int i = 0; i < N / 2; ++i) {
        const Element e = wgmma_accumulator(int(t), i);
        int sum = 0;
        for (u32 k = 0; k < kDepth; ++k) sum += value_a(u32(e.row), k) * value_b(u32(e.column), k);
        i32 bits;
        std::memcpy(&bits, &acc[i], 4);
        wrong += T == DType::int8 ? bits != 2 * sum : !(acc[i] == float(2 * sum));
      }
    }, {}, o);
    EXPECT_EQ(r.text(), "no findings") << mode_name(o);
    EXPECT_EQ(wrong, 0) << mode_name(o);
    EXPECT_EQ(r.counters.wgmmas, 2u);
  }
}

template <DType T, int N> void check_swizzles() {
  for (Swizzle s : {Swizzle::none, Swizzle::bytes32, Swizzle::bytes64, Swizzle::bytes128}) check_multiply<T, N>(s);
}

TEST(Wgmma, Bf16) { check_swizzles<DType::bf16, 128>(); }
TEST(Wgmma, Fp16) { check_swizzles<DType::fp16, 64>(); }
TEST(Wgmma, Tf32) { check_swizzles<DType::tf32, 32>(); }
TEST(Wgmma, E4m3) { check_swizzles<DType::e4m3, 96>(); }
TEST(Wgmma, E5m2) { check_swizzles<DType::e5m2, 48>(); }
TEST(Wgmma, Int8) { check_swizzles<DType::int8, 64>(); }
TEST(Wgmma, NarrowestAndWidest) {
  check_multiply<DType::bf16, 8>(Swizzle::bytes128);
  check_multiply<DType::bf16, 256>(Swizzle::bytes128);
  check_multiply<DType::fp16, 24>(Swizzle::bytes32);
}
TEST(Wgmma, MnMajor) {
  for (Swizzle s : {Swizzle::none, Swizzle::bytes32, Swizzle::bytes64, Swizzle::bytes128}) {
    check_multiply<DType::bf16, 64, false, true>(s);
    check_multiply<DType::fp16, 128, true, true>(s);
    check_multiply<DType::bf16, 128, true, false>(s);
  }
}

// The 32-byte steps along K inside a 128-byte row move the start address alone.
TEST(Wgmma, AdvancingInsideTheSwizzleAtom) {
  int wrong = 0;
  const Report r = emulate(one_block(128, 65536), [&] {
    const u32 t = thread_index(), base = shared_base().value;
    for (u32 i = t; i < 64 * 64; i += 128) {
      store_shared(SmemAddress{swizzle_address(base + i * 2, Swizzle::bytes128)}, round_to<bf16>(float(value_a(i / 64, i % 64))));
      store_shared(SmemAddress{swizzle_address(base + 16384 + i * 2, Swizzle::bytes128)}, round_to<bf16>(float(value_b(i / 64, i % 64))));
    }
    fence_proxy_async();
    sync_block();
    float acc[32];
    wgmma_fence();
    for (u32 k = 0; k < 4; ++k) wgmma<DType::bf16, 64>(acc, k_major_descriptor(base + 32 * k), k_major_descriptor(base + 16384 + 32 * k), k > 0);
    wgmma_commit();
    wgmma_wait<0>();
    for (int i = 0; i < 32; ++i) {
      const Element e = wgmma_accumulator(int(t), i);
      int sum = 0;
      for (u32 k = 0; k < 64; ++k) sum += value_a(u32(e.row), k) * value_b(u32(e.column), k);
      wrong += !(acc[i] == float(sum));
    }
  }, {});
  EXPECT_EQ(r.text(), "no findings");
  EXPECT_EQ(wrong, 0);
}

// Zeroed operands and `body` with two accumulators.
template <class Body> Report with_operands(Body body, const Options& o = {}, std::vector<Region> regions = {}) {
  return emulate(one_block(128, 65536), [&] {
    for (u32 i = thread_index(); i < 2048; i += 128) store_shared<f32x4>(shared_base() + 16 * i, {});
    fence_proxy_async();
    sync_block();
    const u64 d = k_major_descriptor(shared_base().value);
    float first[32] = {}, second[32] = {};
    body(d, first, second);
  }, regions, o);
}

TEST(Wgmma, WaitOneRetiresTheOlderGroupOnly) {
  for (const Options& o : every_mode()) {
    const Report r = with_operands([](u64 d, float(&first)[32], float(&second)[32]) {
      wgmma_fence();
      wgmma<DType::bf16, 64>(first, d, d, true);
      wgmma_commit();
      wgmma<DType::bf16, 64>(second, d, d, true);
      wgmma_commit();
      wgmma_wait<1>();
      EXPECT_EQ(first[7], 0);
      EXPECT_NE(second[7], second[7]);
      wgmma_wait<0>();
      EXPECT_EQ(second[7], 0);
    }, o);
    EXPECT_EQ(r.text(), "no findings") << mode_name(o);
  }
}

TEST(Wgmma, AChainedAccumulatorStaysPoisonedUntilItsLastGroup) {
  const Report r = with_operands([](u64 d, float(&first)[32], float(&)[32]) {
    wgmma_fence();
    for (int i = 0; i < 2; ++i) {
      wgmma<DType::bf16, 64>(first, d, d, i > 0);
      wgmma_commit();
    }
    wgmma_wait<1>();
    EXPECT_NE(first[0], first[0]);
    wgmma_wait<0>();
    EXPECT_EQ(first[0], 0);
  });
  EXPECT_EQ(r.text(), "no findings");
}

TEST(Wgmma, UntouchedAccumulatorsNeedNoSecondFence) {
  const Report r = with_operands([](u64 d, float(&first)[32], float(&)[32]) {
    wgmma_fence();
    for (int i = 0; i < 3; ++i) {
      wgmma<DType::bf16, 64>(first, d, d, i > 0);
      wgmma_commit();
      wgmma_wait<0>();
    }
  });
  EXPECT_EQ(r.text(), "no findings");
}

TEST(Wgmma, WrittenAccumulatorsDo) {
  const Report r = with_operands([](u64 d, float(&first)[32], float(&)[32]) {
    wgmma_fence();
    for (int i = 0; i < 2; ++i) {
      wgmma<DType::bf16, 64>(first, d, d, true);
      wgmma_commit();
      wgmma_wait<0>();
      first[3] += 1;
    }
  });
  ASSERT_EQ(r.findings.size(), 1u) << r.text();
  EXPECT_NE(r.text().find("without wgmma_fence()"), std::string::npos);
}

}  // namespace
}  // namespace foretile::emulator_tests
