// Whether two strided matrices share a byte: exactly, without walking their elements.
#pragma once
#include "foretile/device/types.h"

namespace foretile {

// `batches` matrices of `rows` rows of `row_bytes` contiguous bytes. Strides in bytes, not negative.
struct Extent {
  i64 row_bytes = 0;
  i64 rows = 0, row_stride = 0;
  i64 batches = 0, batch_stride = 0;

  // From the first byte to behind the last; 0 where there is no element.
  constexpr i64 span() const {
    return row_bytes <= 0 || rows <= 0 || batches <= 0 ? 0 : (rows - 1) * row_stride + (batches - 1) * batch_stride + row_bytes;
  }
};

enum class Overlap { none, some, undecided };

// `undecided`: the strides are so unrelated that the search was given up (about a million steps); treat it as some.
Overlap overlap(const void* x_base, const Extent& x, const void* y_base, const Extent& y);

// Whether two batches of one matrix share a byte.
Overlap batches_overlap(const Extent& x);

}  // namespace foretile
