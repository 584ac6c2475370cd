// Tensor maps: what encode_tensor_map() leaves in the opaque bytes, and which bytes a box of one covers.
#pragma once
#include "foretile/device/layout/swizzle.h"
#include "foretile/device/vocabulary/vocabulary.h"

namespace foretile::emulator {

constexpr u64 kTensorMapMagic = 0x70616d726f736e65;
constexpr u32 kBoxAlignment = 128;  // of the box in shared memory (PTX ISA, "cp.async.bulk.tensor")

struct EncodedMap {
  u64 magic;
  const u8* base;
  u64 extent[3];
  u64 stride[2];
  u32 box[3];
  DType type;
  Swizzle swizzle;
};
static_assert(sizeof(EncodedMap) <= sizeof(TensorMap));

struct Box {
  EncodedMap map;
  BoxCorner corner;
  u64 element, row_bytes, bytes;

  Box(const EncodedMap& m, BoxCorner c) : map(m), corner(c) {
    element = u64(size_of(m.type));
    row_bytes = m.box[0] * element;
    bytes = row_bytes * rows();
  }
  u64 rows() const { return u64(map.box[1]) * map.box[2]; }

  // Calls each(offset in the box, global address, bytes) for the part of every row inside the tensor. A store writes whole
  // units of 16 bytes where a row of the tensor ends inside one (tests/golden/tma.golden).
  template <class Each> void inside(Each&& each, bool whole_units = false) const {
    const i64 unit = whole_units ? i64(16 / element) : 1;
    const i64 first = max_of(0, corner.inner), last = min_of(i64(corner.inner) + map.box[0], round_up(i64(map.extent[0]), unit));
    if (first >= last) return;
    for (u32 z = 0; z < map.box[2]; ++z)
      for (u32 y = 0; y < map.box[1]; ++y) {
        const i64 batch = i64(corner.batch) + z, row = i64(corner.row) + y;
        if (batch < 0 || batch >= i64(map.extent[2]) || row < 0 || row >= i64(map.extent[1])) continue;
        const u64 offset = (u64(z) * map.box[1] + y) * row_bytes + u64(first - corner.inner) * element;
        each(offset, map.base + u64(batch) * map.stride[1] + u64(row) * map.stride[0] + u64(first) * element, u64(last - first) * element);
      }
  }
};

}  // namespace foretile::emulator
