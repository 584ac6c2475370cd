// What the rungs of the ladder share: their arguments, the tile sizes they are instantiated with, and how a shared tile
// reads. Rungs 1 to 7 compute D[M,N] = A[M,K] x B[K,N] in fp32, rungs 9 to 11 D[M,N] = A[M,K] x B[N,K]^T out of 16-bit
// types; every matrix is dense and row-major. One file a rung, each one idea away from the last; docs/ladder.md tells the story.
#pragma once
#include "foretile/device/vocabulary/vocabulary.h"

namespace foretile::ladder {

struct Arguments {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  i32 m = 0, n = 0, k = 0;
  TensorMap a_map{}, b_map{};  // rung 11 alone
};

// How the tiles stand in shared memory.
enum class Layout : u8 {
  plain = 0,         // rows side by side
  padded = 1,        // a few unused words behind each row
  swizzled = 2,      // the columns of a row exchanged by its number
  b_transposed = 3,  // rung 3's counter-example: B stored tile(column, row), an often given cure for conflicts that are not there
};

struct Tile {
  int tile_m = 0, tile_n = 0, tile_k = 0;  // of one block
  int thread_m = 1, thread_n = 1;          // outputs of one thread
  Layout layout = Layout::plain;
  friend constexpr bool operator==(const Tile&, const Tile&) = default;
};

constexpr int threads(const Tile& t) { return (t.tile_m / t.thread_m) * (t.tile_n / t.thread_n); }

// A tile in shared memory of fp32 rows `Pitch` words apart: tile(row, column) is where that element stands.
template <int Pitch> struct SharedTile {
  SmemAddress base;
  FORETILE_DEVICE SmemAddress operator()(int row, int column) const { return base + 4 * u32(row * Pitch + column); }
};

// The output tile of this block: rows fastest down a band of eight, so that neighbours in time share what is in L2.
struct Corner { i32 row, column; };
FORETILE_DEVICE Corner block_corner(const Arguments& x, int tile_m, int tile_n) {
  const i32 down = (x.m + tile_m - 1) / tile_m, across = (x.n + tile_n - 1) / tile_n;
  const i32 index = i32(block_index().x), band = index / (8 * across), first = 8 * band;
  const i32 height = down - first < 8 ? down - first : 8, within = index - band * 8 * across;
  return {(first + within % height) * tile_m, within / height * tile_n};
}

// An element of a dense matrix of rows x columns, zero beyond its edges.
FORETILE_DEVICE float element(const void* matrix, i32 rows, i32 columns, i32 row, i32 column) {
  return row < rows && column < columns ? load_global(static_cast<const float*>(matrix) + i64(row) * columns + column) : 0;
}

// Four neighbours of a row. One access of 16 bytes where all four are inside and stand on a multiple of 16 bytes, which
// `columns` decides for all threads alike; else four of one element.
FORETILE_DEVICE f32x4 four_elements(const void* matrix, i32 rows, i32 columns, i32 row, i32 column) {
  if (columns % 4 == 0 && row < rows && column < columns) return load_global(reinterpret_cast<const f32x4*>(static_cast<const float*>(matrix) + i64(row) * columns + column));
  return {element(matrix, rows, columns, row, column), element(matrix, rows, columns, row, column + 1),
          element(matrix, rows, columns, row, column + 2), element(matrix, rows, columns, row, column + 3)};
}

FORETILE_DEVICE void store_element(const Arguments& x, i32 row, i32 column, float value) {
  if (row < x.m && column < x.n) store_global(static_cast<float*>(x.d) + i64(row) * x.n + column, value);
}
FORETILE_DEVICE void store_four(const Arguments& x, i32 row, i32 column, f32x4 v) {
  if (x.n % 4 == 0 && row < x.m && column < x.n) return store_global(reinterpret_cast<f32x4*>(static_cast<float*>(x.d) + i64(row) * x.n + column), v);
  store_element(x, row, column, v.x), store_element(x, row, column + 1, v.y);
  store_element(x, row, column + 2, v.z), store_element(x, row, column + 3, v.w);
}

}  // namespace foretile::ladder
