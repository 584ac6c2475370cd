#include "emulator/chip/matrix.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "foretile/device/layout/fragment.h"
#include "foretile/device/vocabulary/vocabulary.h"

namespace foretile::emulator {

namespace {

// Eight columns at a time in the compilers' vector type.
template <class T> void add_products(const T* a, const T* b, T* d, int n, int depth) {
  constexpr int kM = 4, kN = 8;
  using Vector __attribute__((vector_size(kN * sizeof(T)), aligned(alignof(T)))) = T;
  thread_local std::vector<T> by_depth(256 * 32);  // b[k][n]
  for (int j = 0; j < n; ++j)
    for (int k = 0; k < depth; ++k) by_depth[std::size_t(k * n + j)] = b[j * depth + k];
  for (int m0 = 0; m0 < kMultiplyRows; m0 += kM)
    for (int n0 = 0; n0 < n; n0 += kN) {
      Vector sum[kM];
      for (int m = 0; m < kM; ++m) std::memcpy(&sum[m], d + (m0 + m) * n + n0, sizeof(Vector));
      for (int k = 0; k < depth; ++k) {
        Vector row;
        std::memcpy(&row, &by_depth[std::size_t(k * n + n0)], sizeof(Vector));
        for (int m = 0; m < kM; ++m) sum[m] += a[(m0 + m) * depth + k] * row;
      }
      for (int m = 0; m < kM; ++m) std::memcpy(d + (m0 + m) * n + n0, &sum[m], sizeof(Vector));
    }
}

}  // namespace

Descriptor::Descriptor(u64 d)
    : start(u32(d & 0x3FFF) << 4), leading(u32(d >> 16 & 0x3FFF) << 4), stride(u32(d >> 32 & 0x3FFF) << 4), base_offset(u32(d >> 49 & 7)) {
  constexpr Swizzle codes[] = {Swizzle::none, Swizzle::bytes128, Swizzle::bytes64, Swizzle::bytes32};
  swizzle = codes[d >> 62];
}

// Core matrices are 8 rows of 16 bytes; without a swizzle each is contiguous.
u32 Descriptor::k_major(u32 r, u32 chunk) const {
  const u32 pitch = swizzle == Swizzle::none ? 16 : u32(span_of(swizzle));
  return swizzle_address(start + r / 8 * stride + r % 8 * pitch + chunk * (swizzle == Swizzle::none ? leading : 16), swizzle);
}

// A swizzle atom is 8 values of K, one row of `span` bytes each; atoms follow along MN by `leading`, along K by `stride`.
// Without a swizzle the atom is one group wide and the two strides change places.
u32 Descriptor::mn_major(u32 group, u32 k) const {
  if (swizzle == Swizzle::none) return start + group * stride + k % 8 * 16 + k / 8 * leading;
  const u32 span = u32(span_of(swizzle)), groups = span / 16;
  return swizzle_address(start + group / groups * leading + group % groups * 16 + k % 8 * span + k / 8 * stride, swizzle);
}

void multiply(DType type, const float* a, const float* b, float* d, int n) {
  const int depth = depth_of(type);
  if (type != DType::int8) return add_products(a, b, d, n, depth);
  thread_local std::vector<i32> ia(kMultiplyRows * 32), ib(256 * 32), id(kMultiplyRows * 256);
  std::transform(a, a + kMultiplyRows * depth, ia.begin(), [](float x) { return i32(x); });
  std::transform(b, b + n * depth, ib.begin(), [](float x) { return i32(x); });
  std::memcpy(id.data(), d, sizeof(i32) * std::size_t(kMultiplyRows * n));
  add_products(ia.data(), ib.data(), id.data(), n, depth);
  std::memcpy(d, id.data(), sizeof(i32) * std::size_t(kMultiplyRows * n));
}

void multiply_in_warp(DType type, const ByLane<std::array<u32, 4>>& a, const ByLane<std::array<u32, 2>>& b, const ByLane<float*>& d) {
  float left[16][16], right[8][16];
  const auto unpack = [&](float* two, u32 word) {
    for (int half = 0; half < 2; ++half) {
      const u16 bits = u16(word >> 16 * half);
      two[half] = type == DType::bf16 ? to_float(bf16{bits}) : to_float(fp16{bits});
    }
  };
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < 4; ++r) unpack(&left[mma_a(lane, r).row][mma_a(lane, r).column], a[std::size_t(lane)][std::size_t(r)]);
    for (int r = 0; r < 2; ++r) unpack(&right[mma_b(lane, r).row][mma_b(lane, r).column], b[std::size_t(lane)][std::size_t(r)]);
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const Element e = mma_accumulator(lane, i);
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += left[e.row][k] * right[e.column][k];
      d[std::size_t(lane)][i] += sum;
    }
}

}  // namespace foretile::emulator
