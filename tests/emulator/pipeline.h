// A small warp-specialised kernel, D[tiles][64 x 64] = A x B^T in bf16 with fp32 out, and the ways to break it: one producer
// warpgroup, one consumer warpgroup, a ring of stages, a store buffer that is used twice a tile. `Break::nothing` is correct.
#pragma once
#include "kernels.h"

namespace foretile::emulator_tests {

enum class Break {
  nothing,
  no_wait_full, no_wait_empty, one_warp_waits_full, wait_full_wrong_parity, wait_empty_wrong_parity,
  expect_too_many, expect_too_few, no_expect, full_count_two, empty_count_high, empty_count_low,
  release_before_wait, release_three_warps, release_twice, no_release,
  no_wgmma_fence, no_wgmma_commit, no_wgmma_wait, accumulator_read_early, accumulator_written_in_flight,
  no_init_fence, no_init_sync, no_proxy_fence, no_store_barrier, no_buffer_barrier, no_bulk_wait_read, no_bulk_commit, no_final_wait,
  load_one_too_many, registers_impossible, sync_block_in_role, store_wait_by_other_thread,
};

struct Pipeline {
  static constexpr u32 kTiles = 3, kSteps = 4, kStages = 2, kTileBytes = 64 * 128, kDepth = kSteps * 64;
  static constexpr u32 kStoreOffset = 2 * kStages * kTileBytes, kBarriers = kStoreOffset + 64 * 128, kShared = kBarriers + 64;
  static constexpr u32 kStageBytes = 2 * kTileBytes;

  Aligned<u16> a{kTiles * 64 * kDepth}, b{64 * kDepth};
  Aligned<float> d{kTiles * 64 * 64};
  TensorMap map_a, map_b, map_d;

  Pipeline() {
    std::mt19937 random(3);
    for (auto* x : {&a, &b})
      for (std::size_t i = 0; i < x->count; ++i) (*x)[i] = round_to<bf16>(float(int(random() % 9) - 4)).bits;
    map_a = map_of(a.data, DType::bf16, kDepth, kTiles * 64, 64, 64, Swizzle::bytes128);
    map_b = map_of(b.data, DType::bf16, kDepth, 64, 64, 64, Swizzle::bytes128);
    map_d = map_of(d.data, DType::fp32, 64, kTiles * 64, 32, 64);
  }

  static Mbarrier full(u32 s) { return barrier_at(kBarriers + 8 * s); }
  static Mbarrier empty(u32 s) { return barrier_at(kBarriers + 8 * (kStages + s)); }

  void kernel(Break broken) const {
    const auto is = [&](Break b) { return broken == b; };
    if (thread_index() == 0) {
      for (u32 s = 0; s < kStages; ++s) {
        mbarrier_init(full(s), is(Break::full_count_two) ? 2 : 1);
        mbarrier_init(empty(s), is(Break::empty_count_high) ? 5 : is(Break::empty_count_low) ? 3 : 4);
      }
      if (!is(Break::no_init_fence)) fence_mbarrier_init();
    }
    if (!is(Break::no_init_sync)) sync_block();
    if (warp_index() < 4) {
      if (is(Break::registers_impossible)) register_release<64>();
      else register_release<40>();
      if (thread_index() == 0) produce(broken);
    } else {
      register_acquire<216>();
      consume(broken);
    }
  }

  void produce(Break broken) const {
    const auto is = [&](Break b) { return broken == b; };
    const u32 total = kTiles * kSteps + is(Break::load_one_too_many);
    for (u32 i = 0; i < total; ++i) {
      const u32 s = i % kStages, parity = i / kStages & 1;
      if (!is(Break::no_wait_empty)) mbarrier_wait(empty(s), is(Break::wait_empty_wrong_parity) ? parity : parity ^ 1);
      if (!is(Break::no_expect)) mbarrier_arrive_expect(full(s), kStageBytes + (is(Break::expect_too_many) ? 16 : 0) - (is(Break::expect_too_few) ? 16 : 0));
      const i32 k = i32(i % kSteps * 64), tile = i32(i / kSteps % kTiles);
      tma_load(shared_base() + s * kStageBytes, map_a, {k, tile * 64, 0}, full(s));
      tma_load(shared_base() + s * kStageBytes + kTileBytes, map_b, {k, 0, 0}, full(s));
    }
  }

  void consume(Break broken) const {
    const auto is = [&](Break b) { return broken == b; };
    const bool issuer = thread_index() == 128;
    const u32 warp = warp_index() - 4;
    u32 i = 0;
    for (u32 tile = 0; tile < kTiles; ++tile) {
      float acc[32];
      for (u32 step = 0; step < kSteps; ++step, ++i) {
        const u32 s = i % kStages, parity = i / kStages & 1;
        const u32 at = (shared_base() + s * kStageBytes).value;
        const bool skip = is(Break::no_wait_full) || (is(Break::one_warp_waits_full) && warp != 0);
        if (!skip) mbarrier_wait(full(s), is(Break::wait_full_wrong_parity) ? parity ^ 1 : parity);
        if (is(Break::sync_block_in_role)) sync_block();
        if (!is(Break::no_wgmma_fence)) wgmma_fence();
        for (u32 k = 0; k < 4; ++k) wgmma<DType::bf16, 64>(acc, k_major_descriptor(at + 32 * k), k_major_descriptor(at + kTileBytes + 32 * k), step > 0 || k > 0);
        if (!is(Break::no_wgmma_commit)) wgmma_commit();
        if (is(Break::accumulator_written_in_flight)) acc[5] = 0;
        if (is(Break::release_before_wait) && lane_index() == 0) mbarrier_arrive(empty(s));
        if (is(Break::accumulator_read_early)) store_shared(shared_base() + kStoreOffset + 4 * (thread_index() - 128), acc[0]);
        if (!is(Break::no_wgmma_wait)) wgmma_wait<0>();
        const bool releases = !is(Break::release_before_wait) && !is(Break::no_release) && !(is(Break::release_three_warps) && warp == 3);
        if (lane_index() == 0 && releases) {
          mbarrier_arrive(empty(s));
          if ((is(Break::release_twice) && warp == 0) || (is(Break::release_three_warps) && warp == 0)) mbarrier_arrive(empty(s));
        }
      }
      for (u32 half = 0; half < 2; ++half) {
        if (!is(Break::no_bulk_wait_read) && thread_index() == (is(Break::store_wait_by_other_thread) ? 129u : 128u)) bulk_wait_read<0>();
        if (!is(Break::no_buffer_barrier)) named_barrier_sync(1, 128);
        for (int j = 0; j < 16; ++j) {
          const Element e = wgmma_accumulator(int(thread_index() - 128), int(half) * 16 + j);
          store_shared(shared_base() + kStoreOffset + u32(e.row) * 128 + u32(e.column % 32) * 4, acc[half * 16 + u32(j)]);
        }
        if (!is(Break::no_proxy_fence)) fence_proxy_async();
        if (!is(Break::no_store_barrier)) named_barrier_sync(1, 128);
        if (issuer) {
          tma_store(map_d, {i32(half * 32), i32(tile * 64), 0}, shared_base() + kStoreOffset);
          if (!is(Break::no_bulk_commit)) bulk_commit();
        }
      }
    }
    if (issuer && !is(Break::no_final_wait)) bulk_wait_read<0>();
  }

  Report run(Break broken, const Options& options) {
    std::fill_n(d.data, d.count, -1.0f);
    LaunchShape shape = one_block(256, kShared);
    shape.registers = 128;
    Launch launch{shape, [&] { kernel(broken); }, {a.region("A"), b.region("B"), d.region("D", true)}};
    launch.name_role = [](u32 warp) { return warp < 4 ? "producer" : "consumer"; };
    launch.name_shared = [](u32 offset) -> std::string {
      if (offset >= kBarriers) return (offset - kBarriers) / 8 < kStages ? "full" : "empty";
      return offset >= kStoreOffset ? "store buffer" : "stage " + std::to_string(offset / kStageBytes);
    };
    return emulate({launch}, options);
  }

  int wrong() {
    int count = 0;
    for (u32 m = 0; m < kTiles * 64; ++m)
      for (u32 n = 0; n < 64; ++n) {
        float sum = 0;
        for (u32 k = 0; k < kDepth; ++k) sum += to_float(bf16{a[m * kDepth + k]}) * to_float(bf16{b[n * kDepth + k]});
        count += !(d[m * 64 + n] == sum);
      }
    return count;
  }
};

}  // namespace foretile::emulator_tests
