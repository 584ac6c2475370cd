// Rung 4: a thread computes thread_m outputs below one another. It loads an element of B's tile once and uses it thread_m
// times, so an output costs about one load from shared memory instead of two.
#pragma once
#include "foretile/device/ladder/ladder.h"

namespace foretile::ladder {

constexpr int tiles_bytes(const Tile& t) { return 4 * t.tile_k * (t.tile_m + t.tile_n); }  // of rungs 4 and 5

// Copies a tile of rows x columns of a dense matrix, element by element, neighbouring threads on neighbouring columns.
template <int Threads, int Rows, int Columns>
FORETILE_DEVICE void copy_tile(SharedTile<Columns> tile, const void* matrix, i32 rows, i32 columns, i32 row, i32 column) {
  FORETILE_UNROLL
  for (int first = 0; first < Rows * Columns; first += Threads) {
    const int i = first + int(thread_index()), r = i / Columns, c = i % Columns;
    if (Rows * Columns % Threads == 0 || i < Rows * Columns) store_shared(tile(r, c), element(matrix, rows, columns, row + r, column + c));
  }
}

template <Tile T> FORETILE_DEVICE void column_of_outputs(const Arguments& x) {
  static_assert(T.thread_n == 1 && T.tile_m % T.thread_m == 0 && threads(T) <= 1024);
  const SharedTile<T.tile_k> a{shared_base()};
  const SharedTile<T.tile_n> b{shared_base() + 4 * T.tile_m * T.tile_k};
  const Corner corner = block_corner(x, T.tile_m, T.tile_n);
  const int row = int(thread_index()) / T.tile_n * T.thread_m, column = int(thread_index()) % T.tile_n;
  float sum[T.thread_m] = {};
  for (i32 step = 0; step < x.k; step += T.tile_k) {
    copy_tile<threads(T), T.tile_m, T.tile_k>(a, x.a, x.m, x.k, corner.row, step);
    copy_tile<threads(T), T.tile_k, T.tile_n>(b, x.b, x.k, x.n, step, corner.column);
    sync_block();
    FORETILE_UNROLL
    for (int k = 0; k < T.tile_k; ++k) {
      const float right = load_shared_alone(b(k, column));
      FORETILE_UNROLL
      for (int i = 0; i < T.thread_m; ++i) sum[i] = multiply_add(load_shared_alone(a(row + i, k)), right, sum[i]);
    }
    sync_block();
  }
  FORETILE_UNROLL
  for (int i = 0; i < T.thread_m; ++i) store_element(x, corner.row + row + i, corner.column + column, sum[i]);
}

}  // namespace foretile::ladder
