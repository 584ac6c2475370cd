// Rung 1: one thread an output, threads of a warp down a column of D. Uncoalesced on purpose: at every step along K the 32
// lanes read 32 different rows of A, so each needs a sector of its own, of which it uses 4 of 32 bytes.
#pragma once
#include "foretile/device/ladder/ladder.h"

namespace foretile::ladder {

inline constexpr int kNaiveRows = 32, kNaiveColumns = 8;  // outputs of a block of 256 threads

FORETILE_DEVICE void naive(const Arguments& x) {
  const Corner corner = block_corner(x, kNaiveRows, kNaiveColumns);
  const i32 row = corner.row + i32(thread_index()) % kNaiveRows, column = corner.column + i32(thread_index()) / kNaiveRows;
  if (row >= x.m || column >= x.n) return;
  const float* a = static_cast<const float*>(x.a) + i64(row) * x.k;
  const float* b = static_cast<const float*>(x.b) + column;
  float sum = 0;
  for (i32 k = 0; k < x.k; ++k) sum = multiply_add(load_global(a + k), load_global(b + i64(k) * x.n), sum);
  store_element(x, row, column, sum);
}

}  // namespace foretile::ladder
