// wgmma shared-memory matrix descriptors (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout").
// Bits 0-13 start address >> 4; 16-29 leading byte offset >> 4; 32-45 stride byte offset >> 4; 49-51 base offset;
// 62-63 swizzle: 0 none, 1 = 128 B, 2 = 64 B, 3 = 32 B.
#pragma once
#include "foretile/device/layout/swizzle.h"

namespace foretile {

constexpr u64 descriptor_code(Swizzle s) {
  return s == Swizzle::bytes128 ? 1 : s == Swizzle::bytes64 ? 2 : s == Swizzle::bytes32 ? 3 : 0;
}

// leading_bytes: between core matrices along K without a swizzle (ignored for swizzled K-major operands); between
// swizzle atoms along M or N for MN-major ones. stride_bytes: between groups of eight rows.
constexpr u64 matrix_descriptor(u32 address, u32 leading_bytes, u32 stride_bytes, Swizzle s) {
  return u64((address & 0x3FFFF) >> 4) | u64((leading_bytes & 0x3FFFF) >> 4) << 16 |
         u64((stride_bytes & 0x3FFFF) >> 4) << 32 | descriptor_code(s) << 62;
}

// A K-major tile of rows of 128 bytes with the 128-byte swizzle, as one TMA box writes it. Advancing 32 bytes along K
// inside the row moves the start address alone; the pattern hangs on the absolute address.
constexpr u64 k_major_descriptor(u32 address) { return matrix_descriptor(address, 16, 1024, Swizzle::bytes128); }

}  // namespace foretile
