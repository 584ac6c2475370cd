// Rung 10: copies in flight. A ring of three stages; cp_async moves a stage without passing through registers while two
// others wait or are multiplied, so a step waits for a copy that was issued two steps ago. One barrier a step is enough: it
// says that the new stage has landed for all and that all have left the stage that the next copy overwrites.
//
// A row of a stage is 128 bytes, all banks once. The chunks of 16 bytes in it are exchanged by the row's number modulo 8,
// so that ldmatrix, which reads one chunk of eight rows, meets eight different groups of banks, without a pad.
#pragma once
#include "foretile/device/ladder/09_tensor_cores.cuh"

namespace foretile::ladder {

inline constexpr int kRingStages = 3, kRingDepth = 64;
inline constexpr int kRingStageBytes = 2 * 2 * kMmaTile * kRingDepth, kRingBytes = kRingStages * kRingStageBytes;

template <DType T> FORETILE_DEVICE void asynchronous_stages(const Arguments& x) {
  const Corner corner = block_corner(x, kMmaTile, kMmaTile);
  const int warp = int(warp_index()), row = warp / 4 * kWarpRows, column = warp % 4 * kWarpColumns;
  // Rows of A's tile, then rows of B's.
  const auto chunk = [](u32 stage, int r, int c) { return shared_base() + stage * u32(kRingStageBytes) + u32(r * 128 + (c ^ r % 8) * 16); };
  const bool wide = x.k % kChunk == 0;  // rows stand on multiples of 16 bytes
  const auto copy = [&](u32 stage, const void* matrix, i32 rows, i32 first, i32 step, int tile_row) {
    constexpr int kAlong = kRingDepth / kChunk, kDown = kMmaThreads / kAlong;  // chunks of a row; rows that the threads take at once
    const int c = int(thread_index()) % kAlong;
    FORETILE_UNROLL
    for (int i = 0; i < kMmaTile / kDown; ++i) {
      const int r = i * kDown + int(thread_index()) / kAlong;
      const i32 from = first + r, k = step + c * kChunk;
      const bool inside = from < rows && k < x.k;
      if (wide) cp_async<16>(chunk(stage, tile_row + r, c), static_cast<const Storage<T>*>(matrix) + (inside ? i64(from) * x.k + k : 0), inside ? 16 : 0);
      else store_shared(chunk(stage, tile_row + r, c), eight_elements<T>(matrix, rows, x.k, from, k));
    }
  };
  const i32 steps = (x.k + kRingDepth - 1) / kRingDepth;
  const auto fetch = [&](i32 step) {
    const u32 stage = u32(step % kRingStages);
    if (step < steps) copy(stage, x.a, x.m, corner.row, step * kRingDepth, 0), copy(stage, x.b, x.n, corner.column, step * kRingDepth, kMmaTile);
    cp_async_commit();  // empty at the end, so that the wait below counts alike
  };
  WarpSum sum = {};
  fetch(0), fetch(1);
  for (i32 step = 0; step < steps; ++step) {
    cp_async_wait<kRingStages - 2>();
    sync_block();
    fetch(step + kRingStages - 1);
    const u32 stage = u32(step % kRingStages);
    const auto a = [&](int r, int c) { return chunk(stage, r, c); };
    const auto b = [&](int r, int c) { return chunk(stage, kMmaTile + r, c); };
    FORETILE_UNROLL
    for (int k = 0; k < kRingDepth; k += 16) {
      u32x4 left[kWarpRows / 16], right[kWarpColumns / 16];
      FORETILE_UNROLL
      for (int i = 0; i < kWarpRows / 16; ++i) left[i] = fragments_of_a(a, row + 16 * i, k);
      FORETILE_UNROLL
      for (int j = 0; j < kWarpColumns / 16; ++j) right[j] = fragments_of_b(b, column + 16 * j, k);
      FORETILE_UNROLL
      for (int i = 0; i < kWarpRows / 16; ++i)
        FORETILE_UNROLL
        for (int j = 0; j < kWarpColumns / 16; ++j) {
          mma_sync<T>(sum[i][2 * j], left[i], u32x2{right[j].x, right[j].y});
          mma_sync<T>(sum[i][2 * j + 1], left[i], u32x2{right[j].z, right[j].w});
        }
    }
  }
  cp_async_wait<0>();
  store_tile<T>(x, corner, row, column, sum);
}

}  // namespace foretile::ladder
