// Rung 6: every access moves four elements. Global loads and stores of 16 bytes; shared loads of 16 bytes, for which A's
// tile stands transposed, tile(k, row), so that a thread's rows are neighbours. A quarter of the load instructions is left.
//
// The widths are explicit. A compiler may merge neighbouring narrow loads by itself; then rung 5 would have had part of
// this already and the lesson would be the compiler's.
//
// What it does not mend: the store that transposes A puts neighbouring lanes a whole row apart, and the 16-byte loads of
// lanes 32 bytes apart meet in the banks. Rung 7 counts and mends that.
#pragma once
#include "foretile/device/ladder/ladder.h"

namespace foretile::ladder {

constexpr int vector_bytes(const Tile& t) { return 4 * t.tile_k * (t.tile_m + t.tile_n); }

FORETILE_DEVICE void load_four(float* to, SmemAddress from) {
  const f32x4 v = load_shared<f32x4>(from);
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}

// A thread's share of the next tiles, four elements a piece: all are asked for before the first is stored, so that their
// latencies overlap.
template <Tile T> struct Fours {
  static constexpr int kOfA = (T.tile_m * T.tile_k / 4 + threads(T) - 1) / threads(T), kOfB = (T.tile_k * T.tile_n / 4 + threads(T) - 1) / threads(T);
  f32x4 a[kOfA], b[kOfB];

  static FORETILE_DEVICE int piece(int i) { return i * threads(T) + int(thread_index()); }
  static FORETILE_DEVICE int a_row(int i) { return piece(i) / (T.tile_k / 4); }
  static FORETILE_DEVICE int a_depth(int i) { return piece(i) % (T.tile_k / 4) * 4; }
  static FORETILE_DEVICE int b_depth(int i) { return piece(i) / (T.tile_n / 4); }
  static FORETILE_DEVICE int b_column(int i) { return piece(i) % (T.tile_n / 4) * 4; }

  FORETILE_DEVICE void load(const Arguments& x, Corner corner, i32 step) {
    unset(a), unset(b);  // pieces beyond the tiles' ends are neither loaded nor stored
    FORETILE_UNROLL
    for (int i = 0; i < kOfA; ++i)
      if (a_row(i) < T.tile_m) a[i] = four_elements(x.a, x.m, x.k, corner.row + a_row(i), step + a_depth(i));
    FORETILE_UNROLL
    for (int i = 0; i < kOfB; ++i)
      if (b_depth(i) < T.tile_k) b[i] = four_elements(x.b, x.k, x.n, step + b_depth(i), corner.column + b_column(i));
  }
};

template <Tile T> FORETILE_DEVICE void vector_loads(const Arguments& x) {
  static_assert(T.tile_k % 4 == 0 && T.thread_m % 4 == 0 && T.thread_n % 4 == 0 && threads(T) <= 1024);
  const SharedTile<T.tile_m> a{shared_base()};
  const SharedTile<T.tile_n> b{shared_base() + 4 * T.tile_m * T.tile_k};
  const Corner corner = block_corner(x, T.tile_m, T.tile_n);
  constexpr int kAcross = T.tile_n / T.thread_n;
  const int row = int(thread_index()) / kAcross * T.thread_m, column = int(thread_index()) % kAcross * T.thread_n;
  float sum[T.thread_m][T.thread_n] = {};
  for (i32 step = 0; step < x.k; step += T.tile_k) {
    Fours<T> next;
    next.load(x, corner, step);
    FORETILE_UNROLL
    for (int i = 0; i < Fours<T>::kOfA; ++i)
      if (const int r = Fours<T>::a_row(i), k = Fours<T>::a_depth(i); r < T.tile_m) {
        const f32x4 v = next.a[i];
        store_shared(a(k, r), v.x), store_shared(a(k + 1, r), v.y), store_shared(a(k + 2, r), v.z), store_shared(a(k + 3, r), v.w);
      }
    FORETILE_UNROLL
    for (int i = 0; i < Fours<T>::kOfB; ++i)
      if (const int k = Fours<T>::b_depth(i), c = Fours<T>::b_column(i); k < T.tile_k) store_shared(b(k, c), next.b[i]);
    sync_block();
    FORETILE_UNROLL
    for (int k = 0; k < T.tile_k; ++k) {
      float left[T.thread_m], right[T.thread_n];
      FORETILE_UNROLL
      for (int i = 0; i < T.thread_m; i += 4) load_four(&left[i], a(k, row + i));
      FORETILE_UNROLL
      for (int j = 0; j < T.thread_n; j += 4) load_four(&right[j], b(k, column + j));
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
    for (int j = 0; j < T.thread_n; j += 4) store_four(x, corner.row + row + i, corner.column + column + j, {sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]});
}

}  // namespace foretile::ladder
