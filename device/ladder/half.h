// What the rungs for 16-bit types share: D[M,N] = A[M,K] x B[N,K]^T, accumulated in fp32, out of bf16 or fp16 into the same.
#pragma once
#include "foretile/device/ladder/ladder.h"
#include "foretile/device/layout/fragment.h"

namespace foretile::ladder {

inline constexpr int kChunk = 8;  // elements of 16 bytes

template <DType T> FORETILE_DEVICE Storage<T> half_element(const void* matrix, i32 rows, i32 columns, i32 row, i32 column) {
  return row < rows && column < columns ? load_global(static_cast<const Storage<T>*>(matrix) + i64(row) * columns + column) : round_to<Storage<T>>(0.0f);
}
FORETILE_DEVICE u32 pair_of(bf16 low, bf16 high) { return u32(low.bits) | u32(high.bits) << 16; }
FORETILE_DEVICE u32 pair_of(fp16 low, fp16 high) { return u32(low.bits) | u32(high.bits) << 16; }

// Eight neighbours of a row: one access of 16 bytes where rows stand on multiples of 16 bytes, else one an element.
template <DType T> FORETILE_DEVICE u32x4 eight_elements(const void* matrix, i32 rows, i32 columns, i32 row, i32 column) {
  if (columns % kChunk == 0) {
    if (row >= rows || column >= columns) return {};
    return load_global(reinterpret_cast<const u32x4*>(static_cast<const Storage<T>*>(matrix) + i64(row) * columns + column));
  }
  const auto pair = [&](int i) { return pair_of(half_element<T>(matrix, rows, columns, row, column + i), half_element<T>(matrix, rows, columns, row, column + i + 1)); };
  return {pair(0), pair(2), pair(4), pair(6)};
}

// Two neighbours of a row of D, rounded.
template <DType T> FORETILE_DEVICE void store_pair(const Arguments& x, i32 row, i32 column, float low, float high) {
  if (row >= x.m) return;
  Storage<T>* d = static_cast<Storage<T>*>(x.d) + i64(row) * x.n + column;
  if (x.n % 2 == 0 && column < x.n) return store_global(reinterpret_cast<u32*>(d), pack_pair<Storage<T>>(low, high));
  if (column < x.n) store_global(d, round_to<Storage<T>>(low));
  if (column + 1 < x.n) store_global(d + 1, round_to<Storage<T>>(high));
}

// A warp's fragments of 16 rows and 16 of K, as mma_sync takes them, out of a tile whose chunk of eight elements stands at
// chunk(row, k / 8). Of A they are one operand. Of B, {x, y} are its rows 0 to 7 and {z, w} rows 8 to 15: the two registers of
// an operand have to be neighbours, and are without a move.
template <class Chunk> FORETILE_DEVICE u32x4 fragments_of_a(const Chunk& chunk, int row, int k) {
  const int lane = int(lane_index());
  return load_matrix_x4(chunk(row + lane % 16, k / kChunk + lane / 16));
}
template <class Chunk> FORETILE_DEVICE u32x4 fragments_of_b(const Chunk& chunk, int row, int k) {
  const int lane = int(lane_index());
  return load_matrix_x4(chunk(row + lane / 16 * 8 + lane % 8, k / kChunk + lane / 8 % 2));
}

}  // namespace foretile::ladder
