// Rung 5: a thread computes a rectangle of thread_m x thread_n outputs. Per step of K it loads thread_m + thread_n elements
// and multiplies thread_m * thread_n times: at 8 x 8 a quarter of a load for each multiply instead of one.
#pragma once
#include "foretile/device/ladder/04_column_of_outputs.cuh"

namespace foretile::ladder {

template <Tile T> FORETILE_DEVICE void register_tile(const Arguments& x) {
  static_assert(T.tile_m % T.thread_m == 0 && T.tile_n % T.thread_n == 0 && threads(T) <= 1024);
  const SharedTile<T.tile_k> a{shared_base()};
  const SharedTile<T.tile_n> b{shared_base() + 4 * T.tile_m * T.tile_k};
  const Corner corner = block_corner(x, T.tile_m, T.tile_n);
  constexpr int kAcross = T.tile_n / T.thread_n;
  const int row = int(thread_index()) / kAcross * T.thread_m, column = int(thread_index()) % kAcross * T.thread_n;
  float sum[T.thread_m][T.thread_n] = {};
  for (i32 step = 0; step < x.k; step += T.tile_k) {
    copy_tile<threads(T), T.tile_m, T.tile_k>(a, x.a, x.m, x.k, corner.row, step);
    copy_tile<threads(T), T.tile_k, T.tile_n>(b, x.b, x.k, x.n, step, corner.column);
    sync_block();
    FORETILE_UNROLL
    for (int k = 0; k < T.tile_k; ++k) {
      float left[T.thread_m], right[T.thread_n];
      FORETILE_UNROLL
      for (int i = 0; i < T.thread_m; ++i) left[i] = load_shared_alone(a(row + i, k));
      FORETILE_UNROLL
      for (int j = 0; j < T.thread_n; ++j) right[j] = load_shared_alone(b(k, column + j));
      FORETILE_UNROLL
      for (int i = 0; i < T.thread_m; ++i)
        FORETILE_UNROLL
        for (int j = 0; j < T.thread_n; ++j) sum[i][j] = multiply_add(left[i], right[j], sum[i][j]);
    }
    sync_block();
  }
  FORETILE_UNROLL
  for (int i = 0; i < T.thread_m; ++i)
    FORETILE_UNROLL
    for (int j = 0; j < T.thread_n; ++j) store_element(x, corner.row + row + i, corner.column + column + j, sum[i][j]);
}

}  // namespace foretile::ladder
