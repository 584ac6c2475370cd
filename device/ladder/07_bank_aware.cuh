// Rung 7: rung 6 with the banks in mind. Shared memory gives 32 words a wavefront, one from each bank.
//
// Loads: a thread's columns come in groups of four, neighbouring threads take neighbouring groups. The 16-byte loads of
// eight lanes then cover 32 words side by side instead of every other 32 bytes.
//
// Stores that transpose A: lanes of one store differ in k by fours and in row by ones. Rows of tile_m words put all values
// of k into the same banks. Layout::padded moves each row by four banks, Layout::swizzled exchanges columns by a multiple
// of four that depends on k, which costs no memory and serves every tile_k; both keep 16-byte alignment.
#pragma once
#include "foretile/device/ladder/06_vector_loads.cuh"

namespace foretile::ladder {

constexpr int bank_aware_pitch(const Tile& t) { return t.tile_m + (t.layout == Layout::padded ? 4 : 0); }
constexpr int bank_aware_bytes(const Tile& t) { return 4 * t.tile_k * (bank_aware_pitch(t) + t.tile_n); }

// Where column `column` of row k of A's transposed tile stands: a store's 32 lanes have tile_k / 4 different values of k / 4.
template <Tile T> constexpr int exchanged(int k, int column) { return T.layout == Layout::swizzled ? column ^ k / 4 * (128 / T.tile_k) : column; }

template <Tile T> FORETILE_DEVICE void bank_aware(const Arguments& x) {
  static_assert(T.tile_k % 4 == 0 && 128 % T.tile_k == 0 && T.tile_m % 32 == 0 && T.thread_m % 4 == 0 && T.thread_n % 4 == 0 && threads(T) <= 1024);
  constexpr int kPitch = bank_aware_pitch(T), kAcross = T.tile_n / T.thread_n, kDown = T.tile_m / T.thread_m;
  const SharedTile<kPitch> a{shared_base()};
  const SharedTile<T.tile_n> b{shared_base() + 4 * kPitch * T.tile_k};
  const Corner corner = block_corner(x, T.tile_m, T.tile_n);
  const int row = int(thread_index()) / kAcross * 4, column = int(thread_index()) % kAcross * 4;
  float sum[T.thread_m][T.thread_n] = {};
  for (i32 step = 0; step < x.k; step += T.tile_k) {
    Fours<T> next;
    next.load(x, corner, step);
    FORETILE_UNROLL
    for (int i = 0; i < Fours<T>::kOfA; ++i)
      if (const int r = Fours<T>::a_row(i), k = Fours<T>::a_depth(i), at = exchanged<T>(k, r); r < T.tile_m) {
        const f32x4 v = next.a[i];
        store_shared(a(k, at), v.x), store_shared(a(k + 1, at), v.y), store_shared(a(k + 2, at), v.z), store_shared(a(k + 3, at), v.w);
      }
    FORETILE_UNROLL
    for (int i = 0; i < Fours<T>::kOfB; ++i)
      if (const int k = Fours<T>::b_depth(i), c = Fours<T>::b_column(i); k < T.tile_k) store_shared(b(k, c), next.b[i]);
    sync_block();
    FORETILE_UNROLL
    for (int k = 0; k < T.tile_k; ++k) {
      float left[T.thread_m], right[T.thread_n];
      FORETILE_UNROLL
      for (int i = 0; i < T.thread_m; i += 4) load_four(&left[i], a(k, exchanged<T>(k, i * kDown + row)));
      FORETILE_UNROLL
      for (int j = 0; j < T.thread_n; j += 4) load_four(&right[j], b(k, j * kAcross + column));
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
    for (int j = 0; j < T.thread_n; j += 4)
      store_four(x, corner.row + i / 4 * 4 * kDown + row + i % 4, corner.column + j * kAcross + column, {sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]});
}

}  // namespace foretile::ladder
