// Shared-memory swizzles of the TMA and of wgmma operands. The pattern acts on absolute byte addresses: 16-byte
// chunks within a 128-byte line are permuted by the line's number. Recorded from an H200 in tests/golden/.
#pragma once
#include "foretile/device/types.h"

namespace foretile {

// Named by the bytes a row of the box spans. Values are our own; the two encodings (tensor map, wgmma descriptor)
// are derived where they are used.
enum class Swizzle : u8 { none = 0, bytes32 = 1, bytes64 = 2, bytes128 = 3 };

constexpr int span_of(Swizzle s) { return s == Swizzle::bytes128 ? 128 : s == Swizzle::bytes64 ? 64 : s == Swizzle::bytes32 ? 32 : 16; }

// The widest swizzle whose span divides a row of `bytes` bytes.
constexpr Swizzle swizzle_for_row(int bytes) {
  return bytes % 128 == 0 ? Swizzle::bytes128 : bytes % 64 == 0 ? Swizzle::bytes64 : bytes % 32 == 0 ? Swizzle::bytes32 : Swizzle::none;
}

// Where the byte of the unswizzled address stands. 128 B: bits 4-6 ^= bits 7-9; 64 B: bits 4-5 ^= bits 7-8;
// 32 B: bit 4 ^= bit 7.
constexpr u32 swizzle_address(u32 address, Swizzle s) {
  switch (s) {
    case Swizzle::bytes128: return address ^ ((address >> 3) & 0x70);
    case Swizzle::bytes64: return address ^ ((address >> 3) & 0x30);
    case Swizzle::bytes32: return address ^ ((address >> 3) & 0x10);
    case Swizzle::none: return address;
  }
  return address;
}

}  // namespace foretile
