// The fp32 kernel for few rows of A on Hopper: D = epilogue(A[M,K] x B[N,K]^T) on the FP32 cores, B, the weights, streamed once.
//
// Roles. A tile is tile_m rows of A (tokens) by tile_n rows of B (weights). Either a block is alone and walks tiles until none is
// left, its ring never running dry between them; or a cluster computes one tile, its blocks each a slice of K.
//   weights   one thread fills the ring's stages with lines of B by TMA. They pass L2 as evict_first: read once.
//   tokens    one thread fills them with lines of A by TMA. In L2 these stay (evict_last): every block reads all of them.
//   multiply  groups of warps share out a stage's depths by chunks of four. A lane multiplies a register tile of thread_m x thread_n
//             out of 16-byte loads, four depths of a row or of a column each.
//   finish    the groups' sums meet in shared memory. Each run of four columns is added up in the order of the groups and, where
//             K is split over a cluster, sent to the block that owns it, which adds in the order of the blocks.
//
// Barriers (arrive counts in gemm_rows_facts.h).
//   full[s]   2 arrivals: the two loading threads, each expecting its bytes of the stage. Waited for by every consumer thread.
//   empty[s]  1 arrival a consumer warp, behind its last load of the stage. Waited for by the two loading threads.
//   partials  in a cluster only. 1 arrival: this block's own, expecting what all will send. Waited for by every consumer thread.
//   named barrier 1: the consumers, before a tile's sums overwrite those of the tile before, and when they are in place; and once
//             when the slots that no box fills are cleared.
//   cluster   once: peers' `partials` barriers are initialised. No block leaves before its peers' sums have landed.
// Dependent launch: weights are read before the grid wait only where the caller promised that they are ready.
//
// Registers. The file has two banks, of even and of odd numbers, and gives one register of each a clock. Four depths of a row stand in a
// quad of registers, so all operands of a depth stand in one bank. Multiplies go forth and back along the rows, one column's element held:
// each reads one new operand and a sum. Neither waits for the other where the sums stand in the other bank, that is, where they change
// banks from depth to depth. That is what ptxas makes of it if columns stay in order (keep_order) and it has twice as many registers as sums.
#pragma once
#include "foretile/device/epilogue/epilogue.h"
#include "foretile/device/layout/ring.h"
#include "foretile/device/layout/tile_order.h"
#include "foretile/device/legality.h"
#include "foretile/device/vocabulary/vocabulary.h"

namespace foretile {

template <Operation O, Configuration C> struct GemmRows {
  static_assert(why_not(O, C) == nullptr);
  static constexpr u32 kWarps = rows::consumer_warps(C), kConsumers = rows::consumer_threads(C);
  static constexpr int kDown = rows::lanes_down(C), kAcross = rows::lanes_across(C);
  static constexpr int kSlabs = C.tile_k / rows::kSlab;
  using Cursor = RingCursor<C.stages>;
  using Sums = float[C.thread_m][C.thread_n];

  const GemmDecodeArguments& args;
  SmemAddress shared;
  u32 rank = 0;    // in its cluster: which slice of K
  i32 begin, end;  // its steps along K, the same in every tile

  FORETILE_DEVICE explicit GemmRows(const GemmDecodeArguments& arguments) : args(arguments), shared(shared_base()) {
    if constexpr (C.cluster_k > 1) rank = cluster_rank();
    begin = rows::first_step(args.k, i32(rank), C), end = rows::first_step(args.k, i32(rank) + 1, C);
  }

  // Persistent where a block is alone. A cluster has one tile: its partial sums are exchanged once.
  FORETILE_DEVICE WorkIterator work() const {
    return {i32(block_index().x) / C.cluster_k, i32(grid_size().x) / C.cluster_k, i32(tile_count(args.grid))};
  }

  FORETILE_DEVICE Mbarrier barrier(int offset) const { return {shared + u32(rows::barrier_offset(C) + offset)}; }
  FORETILE_DEVICE Mbarrier full(u32 stage) const { return barrier(rows::full_barrier(int(stage))); }
  FORETILE_DEVICE Mbarrier empty(u32 stage) const { return barrier(rows::empty_barrier(C, int(stage))); }
  FORETILE_DEVICE Mbarrier partials() const { return barrier(rows::partials_barrier(C)); }
  FORETILE_DEVICE SmemAddress weights_stage(u32 stage) const { return shared + stage * u32(rows::weight_stage_bytes(C)); }
  FORETILE_DEVICE SmemAddress tokens_stage(u32 stage) const { return shared + u32(rows::tokens_offset(C)) + stage * u32(rows::token_stage_bytes(C)); }

  FORETILE_DEVICE void run() {
    grid_dependency_launch();
    const u32 warp = warp_index();
    if (thread_index() == 0) {
      for (u32 s = 0; s < C.stages; ++s) {
        mbarrier_init(full(s), rows::full_arrivals());
        mbarrier_init(empty(s), rows::empty_arrivals(C));
      }
      if constexpr (C.cluster_k > 1) mbarrier_init(partials(), rows::partials_arrivals());
      fence_mbarrier_init();
      if constexpr (C.cluster_k > 1) mbarrier_arrive_expect(partials(), u32(rows::partials_bytes(C, int(rank))));
    }
    if (warp == kWarps && lane_index() == 0) prefetch_tensor_map(args.b);
    if (warp == kWarps + 1 && lane_index() == 0) prefetch_tensor_map(args.a);
    sync_block();
    if constexpr (C.cluster_k > 1) cluster_arrive_relaxed();

    if (warp < kWarps) {
      if constexpr (rows::reallocates_registers(C)) register_acquire<rows::consumer_registers(C)>();
      consume(warp);
    } else {
      if constexpr (rows::reallocates_registers(C)) register_release<rows::loader_registers()>();
      if (warp == kWarps && elect_one()) load_weights();
      if (warp == kWarps + 1 && elect_one()) load_tokens();
      sync_warp();
      if constexpr (C.cluster_k > 1) cluster_wait();
      grid_dependency_wait();  // every thread of every block, also those that load nothing
    }
  }

  // ---- load -----------------------------------------------------------------------------------------------
  FORETILE_DEVICE void load_weights() {
    const L2Policy once = args.grid.tiles_m == 1 ? evict_first() : evict_normal();
    if (!args.weights_ready) grid_dependency_wait();
    Cursor ring;
    for (WorkIterator tiles = work(); !tiles.done(); tiles.advance()) {
      const TileCoordinate tile = tile_of(tiles.next, args.grid);
      for (i32 step = begin; step < end; ++step, ring.advance())
        load(args.b, weights_stage(ring.stage), rows::weight_slab_bytes(C), rows::weight_box_bytes(args.tile_columns), step, tile.n * args.tile_columns, args.b_batched ? tile.batch : 0, ring, once);
    }
  }
  FORETILE_DEVICE void load_tokens() {
    const L2Policy again = evict_last();
    grid_dependency_wait();
    Cursor ring;
    for (WorkIterator tiles = work(); !tiles.done(); tiles.advance()) {
      const TileCoordinate tile = tile_of(tiles.next, args.grid);
      for (i32 step = begin; step < end; ++step, ring.advance())
        load(args.a, tokens_stage(ring.stage), rows::token_slab_bytes(C), rows::token_box_bytes(C), step, tile.m * C.tile_m, args.a_batched ? tile.batch : 0, ring, again);
    }
  }
  // One operand's boxes of a stage, once it is free.
  FORETILE_DEVICE void load(const TensorMap& map, SmemAddress to, int slab_bytes, int box_bytes, i32 step, i32 first, i32 batch, const Cursor& ring, L2Policy policy) const {
    mbarrier_wait(empty(ring.stage), ring.parity ^ 1);
    mbarrier_arrive_expect(full(ring.stage), u32(box_bytes * kSlabs));
    FORETILE_UNROLL
    for (int slab = 0; slab < kSlabs; ++slab) tma_load(to + u32(slab * slab_bytes), map, {step * C.tile_k + slab * rows::kSlab, first, batch}, full(ring.stage), policy);
  }

  // ---- multiply -------------------------------------------------------------------------------------------
  static constexpr int kMine = C.tile_k / rows::kChunk / C.split_k;  // chunks of a stage that are a group's

  // Rows and columns of a lane's register tile, from its first ones.
  static constexpr FORETILE_DEVICE u32 down(int i) { return u32(i * kDown); }
  static constexpr FORETILE_DEVICE u32 across(int j) { return u32(j * kAcross); }

  // Where a lane finds its first row and its first column of its group's first chunk in a stage, from step to step: registers that
  // nothing computes anew.
  struct Place {
    Cursor ring;
    SmemAddress tokens, weights;
    FORETILE_DEVICE void follow() {  // the ring, one stage on
      const i32 stages = ring.stage == 0 ? 1 - C.stages : 1;
      tokens = tokens + u32(stages * rows::token_stage_bytes(C)), weights = weights + u32(stages * rows::weight_stage_bytes(C));
    }
  };
  // Line l of a slab has its chunk c at place c ^ l % 8. Chunks of a group and rows of a lane differ in bits of their own.
  FORETILE_DEVICE Place first_place(u32 group, u32 row, u32 column) const {
    const auto at = [&](u32 line) { return line * rows::kTileRowBytes + (group ^ line) % 8 * 16; };
    return {{}, tokens_stage(0) + group / 8 * u32(rows::token_slab_bytes(C)) + at(row), weights_stage(0) + group / 8 * u32(rows::weight_slab_bytes(C)) + at(column)};
  }
  // Four depths of chunk n of the group.
  static FORETILE_DEVICE f32x4 piece(SmemAddress from, int n, u32 line, int slab_bytes) {
    const SmemAddress permuted{from.value ^ (u32(n * C.split_k) ^ line) % 8 * 16};
    return load_shared<f32x4>(permuted + u32(n * C.split_k / 8 * slab_bytes) + line * rows::kTileRowBytes);
  }
  static FORETILE_DEVICE f32x4 row(const Place& at, int n, int i) { return piece(at.tokens, n, down(i), rows::token_slab_bytes(C)); }
  static FORETILE_DEVICE f32x4 column(const Place& at, int n, int j) { return piece(at.weights, n, across(j), rows::weight_slab_bytes(C)); }

  // Four depths of this lane's rows, of the chunk that is multiplied and of the next one, by turns, and of its columns.
  struct Operands {
    f32x4 a[2][C.thread_m], b[C.thread_n];
  };
  static FORETILE_DEVICE float of(const f32x4& v, int depth) { return depth == 0 ? v.x : depth == 1 ? v.y : depth == 2 ? v.z : v.w; }

  FORETILE_DEVICE void consume(u32 warp) {
    if (args.tile_columns < C.tile_n) clear_unloaded_rows();
    const u32 group = warp % C.split_k, first_row = rows::lane_down(C, lane_index());
    const u32 first_column = warp / C.split_k * u32(rows::warp_columns(C)) + rows::lane_across(C, lane_index());
    Place at = first_place(group, first_row, first_column);
    bool first = true;
    for (WorkIterator tiles = work(); !tiles.done(); tiles.advance()) {
      Sums acc = {};
      Operands x;
      if (begin < end) {
        mbarrier_wait(full(at.ring.stage), at.ring.parity);
        FORETILE_UNROLL
        for (int i = 0; i < C.thread_m; ++i) x.a[0][i] = row(at, 0, i);
        FORETILE_UNROLL
        for (int j = 0; j < C.thread_n; ++j) x.b[j] = column(at, 0, j);
      }
      for (i32 step = begin; step < end; ++step) multiply(acc, x, at, step + 1 < end);
      if (!first) named_barrier_sync(rows::kConsumersBarrier, kConsumers);  // the sums of the tile before have been read
      keep(acc, group, first_row, first_column);
      named_barrier_sync(rows::kConsumersBarrier, kConsumers);
      if constexpr (C.cluster_k > 1) exchange();
      if (first) grid_dependency_wait();
      finish(tile_of(tiles.next, args.grid));
      first = false;
    }
    if (first) grid_dependency_wait();
  }

  // The slots that no box fills are cleared once, so that nothing is multiplied that was never written.
  FORETILE_DEVICE void clear_unloaded_rows() {
    const u32 first = u32(args.tile_columns) * rows::kTileRowBytes;
    for (u32 slab = 0; slab < u32(C.stages * kSlabs); ++slab) {
      for (u32 byte = first + thread_index() * 16; byte < u32(rows::weight_slab_bytes(C)); byte += kConsumers * 16)
        store_shared(shared + slab * u32(rows::weight_slab_bytes(C)) + byte, f32x4{0, 0, 0, 0});
    }
    named_barrier_sync(rows::kConsumersBarrier, kConsumers);
  }

  // A stage. Rows are loaded a chunk ahead, a column as soon as it has been multiplied for the last time; behind the last chunk, for whose
  // multiplies nothing of the stage is left to load, come those of the next stage, or, where there is none, of this one again, for nothing.
  FORETILE_DEVICE void multiply(Sums& acc, Operands& x, Place& at, bool more) const {
    const u32 stage = at.ring.stage;
    FORETILE_UNROLL
    for (int n = 0; n < kMine; ++n) {
      const bool last = n + 1 == kMine;
      if (last && more) {
        mbarrier_wait(full(at.ring.stage), at.ring.parity);
        release(stage);
        at.follow();
      }
      FORETILE_UNROLL
      for (int depth = 0; depth < rows::kChunk; ++depth) {
        if (n + 2 == kMine && depth == 2) at.ring.advance();  // early: what it takes hides between multiplies
        FORETILE_UNROLL
        for (int i = depth * C.thread_m / rows::kChunk; i < (depth + 1) * C.thread_m / rows::kChunk; ++i)
          x.a[(n + 1) % 2][i] = row(at, last ? 0 : n + 1, i);
        float left[C.thread_m];
        FORETILE_UNROLL
        for (int i = 0; i < C.thread_m; ++i) left[i] = counted<O.a>(of(x.a[n % 2][i], depth));
        FORETILE_UNROLL
        for (int j = 0; j < C.thread_n; ++j) {
          keep_order(u32(args.m));
          const float right = counted<O.b>(of(x.b[j], depth));
          FORETILE_UNROLL
          for (int m = 0; m < C.thread_m; ++m) {
            const int i = j % 2 ? C.thread_m - 1 - m : m;
            acc[i][j] = multiply_add(left[i], right, acc[i][j]);
          }
          if (depth + 1 == rows::kChunk) x.b[j] = column(at, last ? 0 : n + 1, j);
        }
      }
    }
    if (!more) release(stage), at.follow();
  }
  FORETILE_DEVICE void release(u32 stage) const {
    sync_warp();
    if (elect_one()) mbarrier_arrive(empty(stage));
  }

  // ---- finish ---------------------------------------------------------------------------------------------
  FORETILE_DEVICE SmemAddress sum_at(u32 group, u32 row, u32 column) const {
    return shared + u32(rows::sums_offset(C)) + group * u32(rows::sum_bytes(C)) + 4 * rows::sum_place(C, row, column);
  }
  FORETILE_DEVICE void keep(const Sums& acc, u32 group, u32 first_row, u32 first_column) const {
    FORETILE_UNROLL
    for (int i = 0; i < C.thread_m; ++i) {
      FORETILE_UNROLL
      for (int j = 0; j < C.thread_n; ++j) store_shared(sum_at(group, first_row + down(i), first_column + across(j)), acc[i][j]);
    }
  }

  // A run of four columns of the tile, over all groups of this block.
  FORETILE_DEVICE f32x4 sum_of(u32 run) const {
    constexpr u32 kRunsOfRow = C.tile_n / rows::kRun;
    f32x4 total = load_shared<f32x4>(sum_at(0, run / kRunsOfRow, run % kRunsOfRow * rows::kRun));
    FORETILE_UNROLL
    for (u32 group = 1; group < C.split_k; ++group) add(total, load_shared<f32x4>(sum_at(group, run / kRunsOfRow, run % kRunsOfRow * rows::kRun)));
    return total;
  }
  static FORETILE_DEVICE void add(f32x4& to, const f32x4& v) { to.x += v.x, to.y += v.y, to.z += v.z, to.w += v.w; }

  // What block `from` has summed of a run of its owner's share.
  static FORETILE_DEVICE u32 exchange_at(u32 from, u32 run_of_share) { return u32(rows::exchange_offset(C)) + from * u32(rows::share_bytes(C)) + 16 * run_of_share; }

  // Every block's sums to their owners; then this one's share has come.
  FORETILE_DEVICE void exchange() {
    constexpr u32 kShare = u32(rows::share_runs(C));
    cluster_wait();
    for (u32 run = thread_index(); run < u32(rows::runs(C)); run += kConsumers) {
      const u32 owner = run / kShare;
      store_cluster_async(cluster_address(shared + exchange_at(rank, run % kShare), owner), sum_of(run), cluster_address(partials().address, owner));
    }
    mbarrier_wait(partials(), 0);
  }

  FORETILE_DEVICE void finish(const TileCoordinate& tile) const {
    constexpr u32 kRunsOfRow = C.tile_n / rows::kRun;
    const Epilogue<O> epilogue(args.epilogue, tile.batch);
    for (u32 at = thread_index(); at < u32(rows::share_runs(C, int(rank))); at += kConsumers) {
      const u32 run = rank * u32(rows::share_runs(C)) + at;
      const i32 in_tile = i32(run % kRunsOfRow * rows::kRun), row = tile.m * C.tile_m + i32(run / kRunsOfRow), column = tile.n * args.tile_columns + in_tile;
      if (row >= args.m || in_tile >= args.tile_columns || column >= args.n) continue;
      f32x4 total;
      if constexpr (C.cluster_k > 1) {
        total = load_shared<f32x4>(shared + exchange_at(0, at));
        FORETILE_UNROLL
        for (u32 from = 1; from < C.cluster_k; ++from) add(total, load_shared<f32x4>(shared + exchange_at(from, at)));
      } else {
        total = sum_of(run);
      }
      float x[4] = {total.x, total.y, total.z, total.w};
      epilogue.finish_run(x, args.n, row, column);
    }
  }
};

template <Operation O, Configuration C> FORETILE_DEVICE void gemm_rows(const GemmDecodeArguments& arguments) {
  GemmRows<O, C>(arguments).run();
}

}  // namespace foretile
