// The matrix unit: where a descriptor finds its operand, and the sums.
#pragma once
#include <array>

#include "foretile/device/layout/swizzle.h"
#include "foretile/device/types.h"

namespace foretile::emulator {

constexpr int kMultiplyRows = 64;                                       // of a wgmma
constexpr int depth_of(DType type) { return 32 / size_of(type); }  // of a wgmma: 32 bytes along K, for every type

struct Descriptor {
  u32 start, leading, stride, base_offset;
  Swizzle swizzle;

  explicit Descriptor(u64 bits);
  // Address of the 16 bytes that begin at row r and byte 16 * chunk along K, of a K-major operand.
  u32 k_major(u32 r, u32 chunk) const;
  // Address of eight 16-bit neighbours along M (or N), from 8 * group, at depth k, of an MN-major operand.
  u32 mn_major(u32 group, u32 k) const;
};

// d[64][n] += a[64][depth] * b[n][depth]^T, rows one behind the other; n a multiple of 8. int8: d holds int32.
void multiply(DType type, const float* a, const float* b, float* d, int n);

// One warp's mma_sync: fragments by lane.
template <class T> using ByLane = std::array<T, 32>;
void multiply_in_warp(DType type, const ByLane<std::array<u32, 4>>& a, const ByLane<std::array<u32, 2>>& b, const ByLane<float*>& d);

}  // namespace foretile::emulator
