// The products that tutorials begin with: D = A x B, fp32, square, one output a thread.
//
// What their counters teach: the naive kernel's requests are one broadcast sector of A and a row of B; in the tiled
// kernel every access to shared memory is one wavefront without any padding, because neighbouring threads differ in
// their column. Storing B's tile transposed, an often given "fix", is what creates conflicts.
#pragma once
#include "foretile/device/probes/shared.cuh"

namespace foretile {

// 256 threads: 32 columns by 8 rows of the output. width == height, a multiple of 32.
FORETILE_DEVICE void probe_naive_product(const ProbeArguments& x) {
  const i32 n = x.width;
  const u32 across = u32(n) / 32;
  const i64 column = block_index().x % across * 32 + thread_index() % 32, row = block_index().x / across * 8 + thread_index() / 32;
  const auto* a = static_cast<const float*>(x.input);
  const auto* b = a + i64(n) * n;
  float sum = 0;
  for (i32 k = 0; k < n; ++k) sum = multiply_add(load_global(a + row * n + k), load_global(b + i64(k) * n + column), sum);
  store_global(static_cast<float*>(x.output) + row * n + column, sum);
}

// Tile x Tile threads; A's tile as it comes, B's as it comes or transposed, rows at a pitch of `Pitch` words.
// width == height, a multiple of Tile.
template <int Tile, int Pitch, bool TransposedB> FORETILE_DEVICE void probe_tiled_product(const ProbeArguments& x) {
  const i32 n = x.width;
  const u32 across = u32(n) / Tile, tx = thread_index() % Tile, ty = thread_index() / Tile;
  const i64 row = block_index().x / across * Tile + ty, column = block_index().x % across * Tile + tx;
  const auto* a = static_cast<const float*>(x.input);
  const auto* b = a + i64(n) * n;
  const SmemAddress a_tile = shared_base(), b_tile = a_tile + 4 * Tile * Pitch;
  const auto at = [](u32 r, u32 c) { return 4 * (r * Pitch + c); };
  float sum = 0;
  for (i32 step = 0; step < n; step += Tile) {
    store_shared(a_tile + at(ty, tx), load_global(a + row * n + step + tx));
    store_shared(b_tile + (TransposedB ? at(tx, ty) : at(ty, tx)), load_global(b + i64(step + ty) * n + column));
    sync_block();
    FORETILE_UNROLL
    for (u32 k = 0; k < Tile; ++k) {
      const float left = load_shared<float>(a_tile + at(ty, k));
      const float right = load_shared<float>(b_tile + (TransposedB ? at(tx, k) : at(k, tx)));
      sum = multiply_add(left, right, sum);
    }
    sync_block();
  }
  store_global(static_cast<float*>(x.output) + row * n + column, sum);
}

}  // namespace foretile
