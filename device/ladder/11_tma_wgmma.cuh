// Rung 11: Hopper's two engines. One thread asks the tensor memory accelerator (TMA) for a whole tile, which lands
// swizzled and counts its bytes on a barrier; two warpgroups multiply straight out of shared memory by wgmma, with no
// fragment in a register but the accumulators. All threads wait, multiply, and meet; then thread 0 asks for the stage again.
//
// full[stage]: one arrival (thread 0, when it asks) and the bytes of both boxes. A stage is free for the next box when
// every warpgroup has waited for its wgmma, which sync_block() tells thread 0.
//
// What the production kernel does beyond this (rung 12): a warp that does nothing but ask, so that nobody meets; tiles
// without end in one block, so that one tile's output hides under the next one's product; stores by TMA.
#pragma once
#include "foretile/device/ladder/half.h"
#include "foretile/device/layout/descriptor.h"

namespace foretile::ladder {

inline constexpr int kTmaRows = 128, kTmaColumns = 128, kTmaDepth = 64, kTmaStages = 3, kTmaThreads = 256;
inline constexpr int kTmaStageBytes = 2 * (kTmaRows + kTmaColumns) * kTmaDepth;
inline constexpr int kTmaBytes = kTmaStages * kTmaStageBytes + kTmaStages * 8;

// K a multiple of 8 and A, B on multiples of 16 bytes, as TMA wants it. a_map has boxes of kTmaDepth x kTmaRows, b_map of
// kTmaDepth x kTmaColumns, both with the 128-byte swizzle.
template <DType T> FORETILE_DEVICE void tma_wgmma(const Arguments& x) {
  const Corner corner = block_corner(x, kTmaRows, kTmaColumns);
  const bool first = thread_index() == 0;
  const auto a = [](i32 stage) { return shared_base() + u32(stage * kTmaStageBytes); };
  const auto b = [](i32 stage) { return shared_base() + u32(stage * kTmaStageBytes + 2 * kTmaRows * kTmaDepth); };
  const auto full = [](i32 stage) { return Mbarrier{shared_base() + u32(kTmaStages * kTmaStageBytes + 8 * stage)}; };
  const i32 steps = (x.k + kTmaDepth - 1) / kTmaDepth;
  const auto ask = [&](i32 step) {
    const i32 stage = step % kTmaStages;
    mbarrier_arrive_expect(full(stage), kTmaStageBytes);
    tma_load(a(stage), x.a_map, {step * kTmaDepth, corner.row, 0}, full(stage));
    tma_load(b(stage), x.b_map, {step * kTmaDepth, corner.column, 0}, full(stage));
  };
  if (first) {
    for (i32 stage = 0; stage < kTmaStages; ++stage) mbarrier_init(full(stage), 1);
    fence_mbarrier_init();
    for (i32 step = 0; step < kTmaStages && step < steps; ++step) ask(step);
  }
  sync_block();  // the barriers are initialised

  const int group = int(warp_index()) / 4;  // rows 64 * group on
  float sum[kTmaColumns / 2] = {};
  for (i32 step = 0; step < steps; ++step) {
    const i32 stage = step % kTmaStages;
    mbarrier_wait(full(stage), u32(step / kTmaStages) & 1);
    wgmma_fence();
    FORETILE_UNROLL
    for (u32 k = 0; k < kTmaDepth * 2; k += 32) {
      wgmma<T, kTmaColumns>(sum, k_major_descriptor((a(stage) + u32(64 * 128 * group) + k).value), k_major_descriptor((b(stage) + k).value), true);
    }
    wgmma_commit();
    wgmma_wait<0>();
    sync_block();
    if (first && step + kTmaStages < steps) ask(step + kTmaStages);
  }
  const int thread = int(thread_index()) % 128;
  FORETILE_UNROLL
  for (int i = 0; i < kTmaColumns / 2; i += 2) {
    const Element e = wgmma_accumulator(thread, i);
    store_pair<T>(x, corner.row + 64 * group + e.row, corner.column + e.column, sum[i], sum[i + 1]);
  }
}

}  // namespace foretile::ladder
