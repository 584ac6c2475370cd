// Rung 3: a block copies a square tile of A and one of B to shared memory, and every thread multiplies out of them: what
// rung 2 asked global memory for, `tile` threads now share.
//
// Loads from the tile say that they stay single words: a compiler would make wide ones of neighbours, which is rung 6's idea.
//
// Two barriers a step: nobody multiplies before all have copied, nobody copies again before all have multiplied.
//
// Without any padding each access to shared memory is one wavefront: a warp reads one word of A's tile, given to all, and
// 32 neighbours of B's. Layout::padded adds the "+1" of the tutorials, which changes no counter; Layout::b_transposed
// stores B's tile (column, row), their other cure, and makes the conflicts it was meant to remove.
#pragma once
#include "foretile/device/ladder/ladder.h"

namespace foretile::ladder {

constexpr int shared_tile_pitch(const Tile& t) { return t.tile_k + (t.layout == Layout::padded); }
constexpr int shared_tile_bytes(const Tile& t) { return 2 * 4 * t.tile_k * shared_tile_pitch(t); }

template <Tile T> FORETILE_DEVICE void shared_tile(const Arguments& x) {
  constexpr int kTile = T.tile_k;
  static_assert(T.tile_m == kTile && T.tile_n == kTile && T.thread_m == 1 && T.thread_n == 1, "a square tile, one output a thread");
  constexpr int kPitch = shared_tile_pitch(T);
  const SharedTile<kPitch> a{shared_base()}, b{shared_base() + 4 * kTile * kPitch};
  const Corner corner = block_corner(x, kTile, kTile);
  const int tx = int(thread_index()) % kTile, ty = int(thread_index()) / kTile;
  float sum = 0;
  for (i32 step = 0; step < x.k; step += kTile) {
    store_shared(a(ty, tx), element(x.a, x.m, x.k, corner.row + ty, step + tx));
    const float of_b = element(x.b, x.k, x.n, step + ty, corner.column + tx);
    store_shared(T.layout == Layout::b_transposed ? b(tx, ty) : b(ty, tx), of_b);
    sync_block();
    FORETILE_UNROLL
    for (int k = 0; k < kTile; ++k) {
      const float left = load_shared_alone(a(ty, k));
      const float right = load_shared_alone(T.layout == Layout::b_transposed ? b(tx, k) : b(k, tx));
      sum = multiply_add(left, right, sum);
    }
    sync_block();
  }
  store_element(x, corner.row + ty, corner.column + tx, sum);
}

}  // namespace foretile::ladder
