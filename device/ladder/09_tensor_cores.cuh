// Rung 9: tensor cores. One instruction of a warp multiplies 16 x 16 by 16 x 8; the operands are 16-bit and come into the
// registers by ldmatrix, which gives each lane the pairs that the instruction wants. B stands as every framework stores
// weights, B[N,K], so both operands are read along K. Copies are as in rung 3: load, store, barrier, multiply, barrier.
//
// A row of the tiles is 64 bytes and a pad of 16: the eight rows that one matrix of ldmatrix reads then start in
// different quarters of the banks. At a pitch of 64 bytes two and two would meet.
#pragma once
#include "foretile/device/ladder/half.h"

namespace foretile::ladder {

inline constexpr int kMmaTile = 128, kMmaDepth = 32, kMmaPitch = kMmaDepth + kChunk;  // elements
inline constexpr int kMmaThreads = 256, kMmaBytes = 2 * 2 * kMmaTile * kMmaPitch;
inline constexpr int kWarpRows = 64, kWarpColumns = 32;  // outputs of one warp: two warps down, four across

using WarpSum = float[kWarpRows / 16][kWarpColumns / 8][4];

// A warp's accumulators to D, two neighbours a store.
template <DType T> FORETILE_DEVICE void store_tile(const Arguments& x, Corner corner, int row, int column, const WarpSum& sum) {
  const int lane = int(lane_index());
  FORETILE_UNROLL
  for (int i = 0; i < kWarpRows / 16; ++i)
    FORETILE_UNROLL
    for (int j = 0; j < kWarpColumns / 8; ++j)
      FORETILE_UNROLL
      for (int half = 0; half < 2; ++half) {
        const Element e = mma_accumulator(lane, 2 * half);
        store_pair<T>(x, corner.row + row + 16 * i + e.row, corner.column + column + 8 * j + e.column, sum[i][j][2 * half], sum[i][j][2 * half + 1]);
      }
}

template <DType T> FORETILE_DEVICE void tensor_cores(const Arguments& x) {
  const SmemAddress tiles = shared_base();
  const auto a = [&](int row, int chunk) { return tiles + 2 * u32(row * kMmaPitch + chunk * kChunk); };
  const auto b = [&](int row, int chunk) { return tiles + 2 * u32((kMmaTile + row) * kMmaPitch + chunk * kChunk); };
  const Corner corner = block_corner(x, kMmaTile, kMmaTile);
  const int warp = int(warp_index()), row = warp / 4 * kWarpRows, column = warp % 4 * kWarpColumns;
  WarpSum sum = {};
  for (i32 step = 0; step < x.k; step += kMmaDepth) {
    constexpr int kPieces = kMmaTile * kMmaDepth / kChunk / kMmaThreads;  // chunks a thread, of either tile
    const auto row_of = [](int i) { return (i * kMmaThreads + int(thread_index())) / (kMmaDepth / kChunk); };
    const auto chunk_of = [](int) { return int(thread_index()) % (kMmaDepth / kChunk); };
    u32x4 of_a[kPieces], of_b[kPieces];
    FORETILE_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      of_a[i] = eight_elements<T>(x.a, x.m, x.k, corner.row + row_of(i), step + chunk_of(i) * kChunk);
      of_b[i] = eight_elements<T>(x.b, x.n, x.k, corner.column + row_of(i), step + chunk_of(i) * kChunk);
    }
    FORETILE_UNROLL
    for (int i = 0; i < kPieces; ++i) store_shared(a(row_of(i), chunk_of(i)), of_a[i]), store_shared(b(row_of(i), chunk_of(i)), of_b[i]);
    sync_block();
    FORETILE_UNROLL
    for (int k = 0; k < kMmaDepth; k += 16) {
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
    sync_block();
  }
  store_tile<T>(x, corner, row, column, sum);
}

}  // namespace foretile::ladder
