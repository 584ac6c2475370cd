// Rung 2: the same product, lanes along a row of D. Now the 32 lanes read one element of A, which a single sector gives to
// all of them, and 32 neighbours of B, four full sectors. Two lines are different from rung 1.
#pragma once
#include "foretile/device/ladder/ladder.h"

namespace foretile::ladder {

inline constexpr int kCoalescedRows = 8, kCoalescedColumns = 32;

FORETILE_DEVICE void coalesced(const Arguments& x) {
  const Corner corner = block_corner(x, kCoalescedRows, kCoalescedColumns);
  const i32 row = corner.row + i32(thread_index()) / kCoalescedColumns, column = corner.column + i32(thread_index()) % kCoalescedColumns;
  if (row >= x.m || column >= x.n) return;
  const float* a = static_cast<const float*>(x.a) + i64(row) * x.k;
  const float* b = static_cast<const float*>(x.b) + column;
  float sum = 0;
  for (i32 k = 0; k < x.k; ++k) sum = multiply_add(load_global(a + k), load_global(b + i64(k) * x.n), sum);
  store_element(x, row, column, sum);
}

}  // namespace foretile::ladder
