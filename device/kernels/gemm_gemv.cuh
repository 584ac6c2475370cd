// The kernel for a vector or a few rows of A: D = epilogue(A x B^T) in fp32 (or tf32), B streamed once at the speed of memory.
//
// A block takes tile_n rows of B and tile_m rows of A; its warps share out K in steps of 128 elements, so that even a
// narrow B keeps every SM busy. A lane loads 16 bytes of each row of B, which nobody else needs, and of each row of A, which
// L1 keeps for the blocks beside it. Nothing passes through shared memory but the sums: at the end every lane leaves its own
// there, and they are added over the warps in order, then over the lanes in a fixed tree. Same call, same bits.
//
// Two barriers of the block a tile, none while K is walked.
#pragma once
#include "foretile/device/epilogue/epilogue.h"
#include "foretile/device/layout/tile_order.h"
#include "foretile/device/legality.h"
#include "foretile/device/vocabulary/vocabulary.h"

namespace foretile {

template <Operation O, Configuration C> struct GemmGemv {
  static_assert(why_not(O, C) == nullptr);
  static constexpr int kSums = C.tile_m * C.tile_n;

  const GemmSimtArguments& args;

  FORETILE_DEVICE void run() {
    grid_dependency_wait();
    WorkIterator iterator{i32(block_index().x), i32(grid_size().x), i32(tile_count(args.grid))};
    for (; !iterator.done(); iterator.advance()) {
      const TileCoordinate tile = tile_at(iterator.next, args.grid);
      compute(tile.m * C.tile_m, tile.n * C.tile_n, tile.batch);
    }
  }

  // Rows beyond the edge repeat the last one: what they give is not stored.
  static FORETILE_DEVICE const float* row_of(const MatrixArgument& x, i32 batch, i32 row, i32 rows) {
    return static_cast<const float*>(x.data) + batch * x.batch_stride + i64(row < rows ? row : rows - 1) * x.ld;
  }
  // Four elements, zeros from `left` on.
  static FORETILE_DEVICE f32x4 four(const float* from, i32 left) {
    if (left >= 4) return load_global(reinterpret_cast<const f32x4*>(from));
    return {load_global(from), left > 1 ? load_global(from + 1) : 0, left > 2 ? load_global(from + 2) : 0, 0};
  }

  FORETILE_DEVICE void compute(i32 first_row, i32 first_column, i32 batch) {
    const int warp = int(warp_index()), lane = int(lane_index());
    const float *a[C.tile_m], *b[C.tile_n];
    FORETILE_UNROLL
    for (int i = 0; i < C.tile_m; ++i) a[i] = row_of(args.a, batch, first_row + i, args.m);
    FORETILE_UNROLL
    for (int j = 0; j < C.tile_n; ++j) b[j] = row_of(args.b, batch, first_column + j, args.n);
    float acc[C.tile_m][C.tile_n] = {};
    for (i32 k = warp * gemv::kStep + lane * 4; k < args.k; k += C.split_k * gemv::kStep) {
      f32x4 right[C.tile_n];
      FORETILE_UNROLL
      for (int j = 0; j < C.tile_n; ++j) right[j] = counted<O.b>(four(b[j] + k, args.k - k));
      FORETILE_UNROLL
      for (int i = 0; i < C.tile_m; ++i) {
        const f32x4 left = counted<O.a>(four(a[i] + k, args.k - k));
        FORETILE_UNROLL
        for (int j = 0; j < C.tile_n; ++j) {
          float& sum = acc[i][j];
          sum = multiply_add(left.x, right[j].x, sum), sum = multiply_add(left.y, right[j].y, sum);
          sum = multiply_add(left.z, right[j].z, sum), sum = multiply_add(left.w, right[j].w, sum);
        }
      }
    }
    const auto place = [](int w, int sum, int l) { return shared_base() + 4 * u32((w * kSums + sum) * gemv::kLanePitch + l); };
    FORETILE_UNROLL
    for (int i = 0; i < C.tile_m; ++i) {
      FORETILE_UNROLL
      for (int j = 0; j < C.tile_n; ++j) store_shared(place(warp, i * C.tile_n + j, lane), acc[i][j]);
    }
    sync_block();
    const Epilogue<O> epilogue(args.epilogue, batch);
    for (int at = warp; at < kSums; at += C.split_k) {
      float sum = load_shared<float>(place(0, at, lane));
      FORETILE_UNROLL
      for (int w = 1; w < C.split_k; ++w) sum += load_shared<float>(place(w, at, lane));
      FORETILE_UNROLL
      for (u32 mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
      const i32 row = first_row + at / C.tile_n, column = first_column + at % C.tile_n;
      if (lane == 0 && row < args.m && column < args.n) epilogue.store(epilogue(sum, row, column), row, column);
    }
    sync_block();  // before the next tile's sums overwrite these
  }
};

template <Operation O, Configuration C> FORETILE_DEVICE void gemm_gemv(const GemmSimtArguments& arguments) {
  GemmGemv<O, C>{arguments}.run();
}

}  // namespace foretile
