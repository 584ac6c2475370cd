// The fp32 kernel for few rows of A on Hopper: D = epilogue(A[M,K] x B[N,K]^T) on the FP32 cores, B, the weights, streamed once.
//
// Roles. A tile is tile_m rows of A (tokens) by tile_n rows of B (weights). Either a block is alone and walks tiles until none is
// left, its ring never running dry between them; or a cluster computes one tile, its blocks each a slice of K.
//   weights   one thread fills the ring's stages with lines of B by TMA. They pass L2 as evict_first: read once.
//   tokens    one or three warps, every third stage: 16-byte loads of A, which leave as rows of one depth (turned). They ask before they wait
//             for the stage to be free. In L2 tokens stay (evict_last): every block reads all of them.
//   multiply  groups of warps share out a stage's depths by chunks of four. A lane multiplies a register tile of thread_m x thread_n
//             out of 16-byte loads: four depths of a column at once, four rows of a depth.
//   finish    the groups' sums meet in shared memory. Each run of four columns is added up in the order of the groups and, where
//             K is split over a cluster, sent to the block that owns it, which adds in the order of the blocks.
//
// Barriers (arrive counts in gemm_rows_facts.h).
//   full[s]   2 arrivals: the weights' thread, expecting the stage's bytes, and lane 0 of the token warp behind all its stores.
//             Waited for by every consumer thread.
//   empty[s]  1 arrival a consumer warp, when its last load of the stage has come. Waited for by the weights' thread and by the
//             token warp whose stage it is.
//   partials  in a cluster only. 1 arrival: this block's own, expecting what all will send. Waited for by every consumer thread.
//   named barrier 1: the consumers, before a tile's sums overwrite those of the tile before, and when they are in place; and once
//             when the slots that no box fills are cleared.
//   cluster   once: peers' `partials` barriers are initialised. No block leaves before its peers' sums have landed.
// Dependent launch: weights are read before the grid wait only where the caller promised that they are ready.
//
// Multiplies go forth and back along the rows of the register tile, one column's element held: each reads one new register of A, of
// alternating banks, and a sum of the other bank, as many as an SM partition reads in a clock.
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

  const GemmRowsArguments& args;
  SmemAddress shared;
  u32 rank = 0;    // in its cluster: which slice of K
  i32 begin, end;  // its steps along K, the same in every tile

  FORETILE_DEVICE explicit GemmRows(const GemmRowsArguments& arguments) : args(arguments), shared(shared_base()) {
    if constexpr (C.cluster_k > 1) rank = cluster_rank();
    begin = rows::first_step(args.k, i32(rank), C), end = rows::first_step(args.k, i32(rank) + 1, C);
  }

  // Persistent where a block is alone. A cluster has one tile: its partial sums are exchanged once.
  FORETILE_DEVICE WorkIterator work() const {
    return {i32(block_index().x) / C.cluster_k, i32(grid_size().x) / C.cluster_k, i32(tile_count(args.grid))};
  }

  // The usual case without the divisions of the general one, which take as long as half a step.
  FORETILE_DEVICE TileCoordinate tile_of(i32 index) const {
    return args.grid.tiles_m == 1 && args.grid.batch == 1 ? TileCoordinate{0, index, 0} : tile_at(index, args.grid);
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
    sync_block();
    if constexpr (C.cluster_k > 1) cluster_arrive();

    if (warp < kWarps) {
      if constexpr (rows::reallocates_registers(C)) register_acquire<rows::consumer_registers(C)>();
      consume(warp);
    } else {
      if constexpr (rows::reallocates_registers(C)) register_release<rows::loader_registers()>();
      if (warp > kWarps) load_tokens(warp - kWarps - 1);
      else if (elect_one()) load_weights();
      sync_warp();
      if constexpr (C.cluster_k > 1) cluster_wait();
      grid_dependency_wait();  // every thread of every block, also those that load nothing
    }
  }

  // ---- weights --------------------------------------------------------------------------------------------
  FORETILE_DEVICE void load_weights() {
    const L2Policy once = args.grid.tiles_m == 1 ? evict_first() : evict_normal();
    const u32 bytes = u32(rows::expected_bytes(C, args.tile_columns));
    if (!args.weights_ready) grid_dependency_wait();
    Cursor ring;
    for (WorkIterator tiles = work(); !tiles.done(); tiles.advance()) {
      const TileCoordinate tile = tile_of(tiles.next);
      for (i32 step = begin; step < end; ++step, ring.advance()) {
        mbarrier_wait(empty(ring.stage), ring.parity ^ 1);
        mbarrier_arrive_expect(full(ring.stage), bytes);
        FORETILE_UNROLL
        for (int slab = 0; slab < kSlabs; ++slab) {
          const SmemAddress destination = weights_stage(ring.stage) + u32(slab * rows::weight_slab_bytes(C));
          tma_load(destination, args.b, {step * C.tile_k + slab * rows::kSlab, tile.n * args.tile_columns, args.b_batched ? tile.batch : 0}, full(ring.stage), once);
        }
      }
    }
  }

  // ---- tokens ---------------------------------------------------------------------------------------------
  // A warp takes rectangles of a few rows by a few chunks of four depths, a chunk a lane.
  static constexpr int kRowsAtOnce = C.tile_m < 8 ? C.tile_m : 8, kChunksAtOnce = 32 / kRowsAtOnce, kChunks = C.tile_k / rows::kChunk;
  static constexpr int kUnitsDown = C.tile_m / kRowsAtOnce, kUnitsAlong = (kChunks + kChunksAtOnce - 1) / kChunksAtOnce, kUnits = kUnitsDown * kUnitsAlong;

  FORETILE_DEVICE void load_tokens(u32 turn) {  // of the stages every token_warps-th, always the same: a warp misses no phase of theirs
    const L2Policy again = evict_last();
    const i32 row = i32(lane_index()) % kRowsAtOnce, chunk = i32(lane_index()) / kRowsAtOnce;
    grid_dependency_wait();
    Cursor ring;
    for (WorkIterator tiles = work(); !tiles.done(); tiles.advance()) {
      const TileCoordinate tile = tile_of(tiles.next);
      const float* from[kUnitsDown];
      FORETILE_UNROLL
      for (int i = 0; i < kUnitsDown; ++i) {  // rows beyond the edge repeat the last one: what they give is not stored
        const i32 wanted = tile.m * C.tile_m + i * kRowsAtOnce + row;
        from[i] = static_cast<const float*>(args.a.data) + tile.batch * args.a.batch_stride + i64(wanted < args.m ? wanted : args.m - 1) * args.a.ld + chunk * rows::kChunk;
      }
      for (i32 step = begin; step < end; ++step, ring.advance()) {
        if (ring.stage % rows::token_warps(C) != turn) continue;
        f32x4 values[kUnits];
        const i32 k = step * C.tile_k;
        if (kChunks % kChunksAtOnce == 0 && k + C.tile_k <= args.k) {  // no branch between these loads: they are under way together
          FORETILE_UNROLL
          for (int i = 0; i < kUnits; ++i) values[i] = load_global(reinterpret_cast<const f32x4*>(from[i % kUnitsDown] + k) + i / kUnitsDown * kChunksAtOnce, again);
        } else {
          FORETILE_UNROLL
          for (int i = 0; i < kUnits; ++i) {  // depths beyond K are zero
            const i32 first = i / kUnitsDown * kChunksAtOnce, left = chunk + first < kChunks ? args.k - k - (chunk + first) * rows::kChunk : 0;
            values[i] = four(from[i % kUnitsDown] + (k + first * rows::kChunk), left, again);
          }
        }
        mbarrier_wait(empty(ring.stage), ring.parity ^ 1);
        FORETILE_UNROLL
        for (int i = 0; i < kUnits; ++i) {
          const i32 at = chunk + i / kUnitsDown * kChunksAtOnce;
          const SmemAddress to = tokens_stage(ring.stage) + u32(at * rows::token_chunk_bytes(C) + 4 * (i % kUnitsDown * kRowsAtOnce + row));
          if (at >= kChunks) continue;
          const f32x4 v = counted<O.a>(values[i]);
          store_shared(to, v.x);
          store_shared(to + 4 * C.tile_m, v.y);
          store_shared(to + 8 * C.tile_m, v.z);
          store_shared(to + 12 * C.tile_m, v.w);
        }
        if (sync_warp(); lane_index() == 0) mbarrier_arrive(full(ring.stage));
      }
    }
  }
  // Four elements, zeros from `left` on.
  static FORETILE_DEVICE f32x4 four(const float* from, i32 left, L2Policy policy) {
    if (left >= 4) return load_global(reinterpret_cast<const f32x4*>(from), policy);
    return {left > 0 ? load_global(from) : 0, left > 1 ? load_global(from + 1) : 0, left > 2 ? load_global(from + 2) : 0, 0};
  }

  // ---- multiply -------------------------------------------------------------------------------------------
  FORETILE_DEVICE void consume(u32 warp) {
    if (args.tile_columns < C.tile_n) clear_unloaded_rows();
    const u32 group = warp % C.split_k, first_column = warp / C.split_k * u32(rows::warp_columns(C)) + rows::lane_across(C, lane_index());
    const u32 first_row = 4 * rows::lane_down(C, lane_index());
    const Share mine{shared, group, first_row, first_column};
    Cursor ring;
    bool first = true;
    for (WorkIterator tiles = work(); !tiles.done(); tiles.advance()) {
      Sums acc = {};
      Ahead ahead;
      if (begin < end) {
        mbarrier_wait(full(ring.stage), ring.parity);
        load_columns(ahead.b, mine.weights(ring.stage, 0));
        load_rows(ahead.a[0], mine.tokens(ring.stage, 0));
      }
      for (i32 step = begin; step < end; ++step) {
        Cursor next = ring;
        next.advance();
        multiply(acc, ahead, mine, ring.stage, next, step + 1 < end);
        if (sync_warp(); lane_index() == 0) mbarrier_arrive(empty(ring.stage));
        ring = next;
      }
      if (!first) named_barrier_sync(rows::kConsumersBarrier, kConsumers);  // the sums of the tile before have been read
      keep(acc, group, first_row, first_column);
      named_barrier_sync(rows::kConsumersBarrier, kConsumers);
      if constexpr (C.cluster_k > 1) exchange();
      if (first) grid_dependency_wait();
      finish(tile_of(tiles.next));
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

  // Rows and columns of a lane's register tile, from its first ones.
  static constexpr FORETILE_DEVICE u32 down(int i) { return u32(i / 4 * 4 * kDown + i % 4); }
  static constexpr FORETILE_DEVICE u32 across(int j) { return u32(j * kAcross); }

  // Where this lane finds its share of a stage: of chunk n of its group, counted from 0, the first row and the first column.
  struct Share {
    SmemAddress shared;
    u32 group, first_row, first_column;
    FORETILE_DEVICE SmemAddress tokens(u32 stage, int n) const {
      return shared + u32(rows::tokens_offset(C)) + stage * u32(rows::token_stage_bytes(C)) + 4 * first_row + (group + u32(n * C.split_k)) * u32(rows::token_chunk_bytes(C));
    }
    // Line l of a slab has its chunk c at place c ^ l % 8; the groups' chunks differ in bits of their own.
    FORETILE_DEVICE SmemAddress weights(u32 stage, int n) const {
      const u32 slab = group / 8 + u32(n * C.split_k / 8), place = (group ^ first_column) % 8 ^ u32(n * C.split_k % 8);
      return shared + stage * u32(rows::weight_stage_bytes(C)) + slab * u32(rows::weight_slab_bytes(C)) + first_column * rows::kTileRowBytes + place * 16;
    }
  };
  // What has been loaded of the chunk that is multiplied next: its columns, four depths each, and the rows of its first depth.
  struct Ahead {
    f32x4 b[C.thread_n];
    float a[2][C.thread_m];
  };

  // A stage, all loads a depth ahead of their multiplies: rows while the depth before is multiplied, a column as soon as it has been
  // for the last time. So are those of the next stage's first chunk; where there is none this stage is loaded again, for nothing.
  FORETILE_DEVICE void multiply(Sums& acc, Ahead& ahead, const Share& mine, u32 stage, const Cursor& next, bool more) const {
    constexpr int kMine = C.tile_k / rows::kChunk / C.split_k;  // chunks of this group
    FORETILE_UNROLL
    for (int n = 0; n < kMine; ++n) {
      const bool last = n + 1 == kMine;
      const u32 from = last && more ? next.stage : stage;
      const int then = last ? 0 : n + 1;
      if (last && more) mbarrier_wait(full(next.stage), next.parity);  // early: multiplies move before a wait, loads do not
      FORETILE_UNROLL
      for (int depth = 0; depth < rows::kChunk; ++depth) {
        const bool turns = depth + 1 == rows::kChunk;
        load_rows(ahead.a[(depth + 1) % 2], turns ? mine.tokens(from, then) : mine.tokens(stage, n) + u32((depth + 1) * 4 * C.tile_m));
        FORETILE_UNROLL
        for (int j = 0; j < C.thread_n; ++j) {
          const f32x4& column = ahead.b[j];
          const float right = counted<O.b>(depth == 0 ? column.x : depth == 1 ? column.y : depth == 2 ? column.z : column.w);
          FORETILE_UNROLL
          for (int m = 0; m < C.thread_m; ++m) {
            const int i = j % 2 ? C.thread_m - 1 - m : m;
            acc[i][j] = multiply_add(ahead.a[depth % 2][i], right, acc[i][j]);
          }
          if (turns) ahead.b[j] = load_shared<f32x4>(mine.weights(from, then) + across(j) * rows::kTileRowBytes);
        }
      }
    }
  }
  static FORETILE_DEVICE void load_columns(f32x4 (&b)[C.thread_n], SmemAddress from) {
    FORETILE_UNROLL
    for (int j = 0; j < C.thread_n; ++j) b[j] = load_shared<f32x4>(from + across(j) * rows::kTileRowBytes);
  }
  static FORETILE_DEVICE void load_rows(float (&a)[C.thread_m], SmemAddress from) {
    if constexpr (C.thread_m == 1) {
      a[0] = load_shared<float>(from);
    } else {
      FORETILE_UNROLL
      for (int i = 0; i < C.thread_m; i += 4) {
        const f32x4 v = load_shared<f32x4>(from + 4 * down(i));
        a[i] = v.x, a[i + 1] = v.y, a[i + 2] = v.z, a[i + 3] = v.w;
      }
    }
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
      FORETILE_UNROLL
      for (int e = 0; e < 4; ++e) x[e] = column + e < args.n ? epilogue(x[e], row, column + e) : 0;
      epilogue.store_run(x, args.n - column < 4 ? args.n - column : 4, row, column);
    }
  }
};

template <Operation O, Configuration C> FORETILE_DEVICE void gemm_rows(const GemmRowsArguments& arguments) {
  GemmRows<O, C>(arguments).run();
}

}  // namespace foretile
