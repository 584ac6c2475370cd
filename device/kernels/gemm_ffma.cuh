// The fp32 kernel: D = epilogue(op(A) x op(B)^T) for fp32 (or tf32) A and B of any transpose, leading dimension and alignment, on
// every GPU, at the rate of FFMA (rung 8 of the ladder).
//
// All threads do the same. A block walks output tiles until none is left. Tiles of A and B stand in shared memory as fp32,
// K-major rows tile(k, row), whichever way the operand stands in global memory; each thread multiplies a register tile of
// thread_m x thread_n outputs out of them. Three steps along K are under way: one is multiplied out of one stage, the
// next is in registers, loaded a step ago, and goes to the other stage before the last depth is multiplied, and the one
// after it is asked for right before the barrier, since a compiler moves loads behind a multiply, to save registers.
// The operands of a depth are loaded while the depth before is multiplied, over steps too: neither the barrier nor the first
// loads behind it leave the multipliers idle.
//
// One block-wide barrier a step: it says that the new stage is there for all, and that all have loaded what they need of the
// stage that comes next. No thread leaves early, so every thread reaches every barrier.
//
// K may be split: cluster_k blocks of a cluster compute one tile, each out of a slice of K, and in a block split_k groups of
// warps take alternate k. Each block finishes a share of the tile's columns: the sums of all groups of all blocks meet in its
// shared memory, in a cluster by asynchronous stores, and are added in the order of blocks and groups. Some sums that are
// nobody's to add take that way too: see finishes_shared.
//   partials  mbarrier, in a cluster only. 1 arrival: this block's own, expecting what all will send. Waited for by all.
//   cluster   once: peers' `partials` are initialised. No block leaves before its peers' sums have landed in it.
//
// Rows beyond an operand's edge repeat its last row: what they give is not stored. Depths beyond K are zero.
//
// Lanes stand so that neighbours ask for the same words of A, and those two apart for the same of B: a 16-byte load of a
// warp then takes two wavefronts instead of four (model/access.h). Multiplies go forth and back along a row of the register
// tile: each reads at most two registers that the one before did not, as many as an SM partition reads in a clock.
#pragma once
#include "foretile/device/epilogue/epilogue.h"
#include "foretile/device/layout/tile_order.h"
#include "foretile/device/legality.h"
#include "foretile/device/vocabulary/vocabulary.h"

namespace foretile {

namespace ffma {

// One warp's share of an operand: where its units come from, and the values on their way.
template <DType T, bool Transposed, int Rows, bool Wide, Configuration C> struct Share {
  static constexpr int kRows = unit_rows(Transposed, Rows), kDepth = unit_depth(Transposed, Rows);
  static constexpr int kUnits = units(C, Rows), kEach = units_each(C, Rows), kAlong = C.tile_k / kDepth;
  const float* from[kEach];
  f32x4 values[kEach];
  i32 last_row, depth;  // of the operand
  i64 ld;
  i32 first_row;        // of the tile
  int warp, lane;

  // Row and depth of this lane's four elements of unit i, within the tile: along K the first of four depths, transposed
  // the first of four rows.
  FORETILE_DEVICE int unit(int i) const { return i * warps(C) + warp; }
  FORETILE_DEVICE int row(int i) const {
    const int across = Transposed ? kRows / 4 : kDepth / 4;
    return unit(i) / kAlong * kRows + (Transposed ? lane % across * 4 : lane / across);
  }
  FORETILE_DEVICE int k(int i) const {
    const int across = Transposed ? kRows / 4 : kDepth / 4;
    return unit(i) % kAlong * kDepth + (Transposed ? lane / across : lane % across * 4);
  }
  FORETILE_DEVICE bool mine(int i) const { return kUnits % warps(C) == 0 || unit(i) < kUnits; }

  FORETILE_DEVICE void begin(const MatrixArgument& x, i64 batch, i32 tile_row, i32 rows, i32 first_k, i32 depths) {
    warp = int(warp_index()), lane = int(lane_index());
    last_row = rows - 1, depth = depths, ld = x.ld, first_row = tile_row;
    FORETILE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const i64 r = first_row + row(i) < last_row ? first_row + row(i) : last_row;
      from[i] = static_cast<const float*>(x.data) + batch * x.batch_stride + (Transposed ? (first_k + k(i)) * ld + r : r * ld + first_k + k(i));
    }
  }

  // Asks for the step that begins at first_k. Called once a step, in order.
  FORETILE_DEVICE void ask(i32 first_k) {
    if (first_k + C.tile_k <= depth) {
      FORETILE_UNROLL
      for (int i = 0; i < kEach; ++i)
        if (mine(i)) values[i] = load(i, 4);
    } else {
      FORETILE_UNROLL
      for (int i = 0; i < kEach; ++i)
        if (mine(i)) values[i] = load(i, depth - first_k - k(i));
    }
    FORETILE_UNROLL
    for (int i = 0; i < kEach; ++i) from[i] += Transposed ? C.tile_k * ld : C.tile_k;
  }
  // `left`: how many depths there are from this unit's on, anything below 1 where none.
  FORETILE_DEVICE f32x4 load(int i, i32 left) const {
    float v[4] = {};
    if constexpr (Transposed) {
      if (left < 1) return {};
      const i32 rows_left = last_row - (first_row + row(i));
      if (Wide && rows_left >= 3) return load_global(reinterpret_cast<const f32x4*>(from[i]));
      FORETILE_UNROLL
      for (int e = 0; e < 4; ++e) v[e] = load_global(from[i] + (e < rows_left ? e : rows_left < 0 ? 0 : rows_left));
    } else {
      if (Wide && left >= 4) return load_global(reinterpret_cast<const f32x4*>(from[i]));
      FORETILE_UNROLL
      for (int e = 0; e < 4; ++e)
        if (e < left) v[e] = load_global(from[i] + e);
    }
    return {v[0], v[1], v[2], v[3]};
  }

  FORETILE_DEVICE void put(SmemAddress tile, int pitch) const {
    FORETILE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      if (!mine(i)) continue;
      const SmemAddress to = tile + 4 * u32(k(i) * pitch + row(i));
      const f32x4 v = counted<T>(values[i]);
      if constexpr (Transposed) {
        store_shared(to, v);
      } else {
        store_shared(to, v.x), store_shared(to + 4 * u32(pitch), v.y);
        store_shared(to + 8 * u32(pitch), v.z), store_shared(to + 12 * u32(pitch), v.w);
      }
    }
  }
};

}  // namespace ffma

template <Operation O, Configuration C> struct GemmFfma {
  static_assert(why_not(O, C) == nullptr);
  static constexpr int kThreads = ffma::threads(C);
  static constexpr int kDown = ffma::lanes_down(C), kAcross = ffma::lanes_across(C);
  static constexpr bool kWide = O.inputs == Alignment::tma;
  static constexpr int kDepths = C.tile_k / C.split_k;
  using Accumulators = float[C.thread_m][C.thread_n];

  const GemmSimtArguments& args;
  SmemAddress shared;
  u32 rank = 0;     // of this block in its cluster
  u32 stage = 0;    // that is multiplied, or that the next tile begins with
  int group;        // of warps, along K
  int row, column;  // of this thread's first output in the tile

  FORETILE_DEVICE explicit GemmFfma(const GemmSimtArguments& arguments) : args(arguments), shared(shared_base()) {
    const int warp = int(warp_index()), lane = int(lane_index());
    const int place = warp / C.split_k, warps_down = C.tile_m / ffma::warp_rows(C);
    group = warp % C.split_k;
    row = place % warps_down * ffma::warp_rows(C) + 4 * lane_row(lane);
    column = place / warps_down * ffma::warp_columns(C) + 4 * lane_column(lane);
    if constexpr (C.cluster_k > 1) rank = cluster_rank();
  }
  // Bit 0 of the lane is a column bit, bit 1 a row bit, then the other column bits, then the other row bit.
  static FORETILE_DEVICE int lane_column(int lane) { return kDown == 1 ? lane : lane % 2 + lane / 4 % (kAcross / 2) * 2; }
  static FORETILE_DEVICE int lane_row(int lane) { return kDown == 1 ? 0 : lane / 2 % 2 + lane / 4 / (kAcross / 2) * 2; }

  // Persistent where a block is alone. A cluster has one tile: its partial sums are exchanged once.
  FORETILE_DEVICE void run() {
    if constexpr (C.cluster_k > 1) {
      if (thread_index() == 0) {
        mbarrier_init(partials(), ffma::partials_arrivals());
        fence_mbarrier_init();
        mbarrier_arrive_expect(partials(), u32(ffma::expected_bytes(C)));
      }
      cluster_arrive_relaxed();
      grid_dependency_wait();
      compute(tile_at(i32(block_index().x) / C.cluster_k, args.grid));
    } else {
      grid_dependency_wait();
      WorkIterator iterator{i32(block_index().x), i32(grid_size().x), i32(tile_count(args.grid))};
      for (; !iterator.done(); iterator.advance()) compute(tile_at(iterator.next, args.grid));
    }
  }

  FORETILE_DEVICE SmemAddress a_tile(u32 stage) const { return shared + stage * u32(ffma::stage_bytes(C)); }
  FORETILE_DEVICE SmemAddress b_tile(u32 stage) const { return a_tile(stage) + u32(ffma::a_bytes(C)); }
  FORETILE_DEVICE Mbarrier partials() const { return {shared + u32(ffma::barrier_offset(C))}; }

  FORETILE_DEVICE void compute(const TileCoordinate& tile) {
    const i32 first_row = tile.m * C.tile_m, first_column = tile.n * C.tile_n, batch = tile.batch;
    Accumulators acc = {};
    ffma::Share<O.a, O.transpose_a, C.tile_m, kWide, C> a;
    ffma::Share<O.b, O.transpose_b, C.tile_n, kWide, C> b;
    const i32 begin = ffma::first_step(args.k, i32(rank), C), end = ffma::first_step(args.k, i32(rank) + 1, C);
    a.begin(args.a, batch, first_row, args.m, begin * C.tile_k, args.k);
    b.begin(args.b, batch, first_column, args.n, begin * C.tile_k, args.k);
    ask(a, b, begin);
    put(a, b);
    ask(a, b, begin + 1);
    sync_block();
    Depth depth[2];
    load(depth[0], 0);
    for (i32 step = begin; step < end; ++step) {
      FORETILE_UNROLL
      for (int i = 0; i < kDepths; ++i) {
        if (i + 1 < kDepths) {
          load(depth[(i + 1) % 2], i + 1);
        } else {
          stage ^= 1;
          put(a, b);  // behind the last step what nobody multiplies
          ask(a, b, step + 2);
          sync_block();
          load(depth[0], 0);
        }
        multiply(acc, depth[i % 2]);
      }
    }
    stage ^= 1;  // others may still load their first depth of this one
    if constexpr (ffma::finishes_shared(O, C)) add_parts(acc, first_row, first_column, batch);
    else store(acc, first_row, first_column, batch);
  }
  template <class A, class B> FORETILE_DEVICE static void ask(A& a, B& b, i32 step) {
    a.ask(step * C.tile_k), b.ask(step * C.tile_k);
  }
  template <class A, class B> FORETILE_DEVICE void put(const A& a, const B& b) const {
    a.put(a_tile(stage), ffma::a_pitch(C));
    b.put(b_tile(stage), ffma::b_pitch(C));
  }

  // Rows and columns of a thread come in groups of four, a 16-byte load each; neighbouring lanes take neighbouring groups.
  FORETILE_DEVICE int row_of(int i) const { return row + i / 4 * 4 * kDown + i % 4; }
  FORETILE_DEVICE int column_of(int j) const { return column + j / 4 * 4 * kAcross + j % 4; }

  // The operands of this thread's multiplies at one depth of a step; a group of warps has kDepths of them, every split_k-th.
  struct Depth {
    float a[C.thread_m], b[C.thread_n];
  };
  FORETILE_DEVICE void load(Depth& x, int i) const {
    const u32 k = u32(i * C.split_k + group);
    const SmemAddress a_from = a_tile(stage) + 4 * (u32(row) + k * u32(ffma::a_pitch(C))), b_from = b_tile(stage) + 4 * (u32(column) + k * u32(ffma::b_pitch(C)));
    FORETILE_UNROLL
    for (int r = 0; r < C.thread_m; r += 4) load_four(&x.a[r], a_from + 4 * u32(r * kDown));
    FORETILE_UNROLL
    for (int c = 0; c < C.thread_n; c += 4) load_four(&x.b[c], b_from + 4 * u32(c * kAcross));
  }
  static FORETILE_DEVICE void multiply(Accumulators& acc, const Depth& x) {
    FORETILE_UNROLL
    for (int i = 0; i < C.thread_m; ++i) {
      FORETILE_UNROLL
      for (int n = 0; n < C.thread_n; ++n) {
        const int j = i % 2 ? C.thread_n - 1 - n : n;
        acc[i][j] = multiply_add(x.a[i], x.b[j], acc[i][j]);
      }
    }
  }
  static FORETILE_DEVICE void load_four(float* to, SmemAddress from) {
    const f32x4 v = load_shared<f32x4>(from);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  }

  FORETILE_DEVICE void store(const Accumulators& acc, i32 first_row, i32 first_column, i32 batch) {
    const Epilogue<O> epilogue(args.epilogue, batch);
    FORETILE_UNROLL
    for (int i = 0; i < C.thread_m; ++i) {
      FORETILE_UNROLL
      for (int j = 0; j < C.thread_n; j += 4) {
        const i32 r = first_row + row_of(i), c = first_column + column_of(j);
        if (r >= args.m || c >= args.n) continue;
        float values[4];
        FORETILE_UNROLL
        for (int e = 0; e < 4; ++e) values[e] = c + e < args.n ? epilogue(acc[i][j + e], r, c + e) : 0;
        epilogue.store_run(values, args.n - c < 4 ? args.n - c : 4, r, c);
      }
    }
  }

  // Where the block that owns a share of the columns keeps what one group of one block sent of it.
  FORETILE_DEVICE SmemAddress part(u32 index) const { return shared + u32(ffma::partial_offset(C)) + index * u32(ffma::share_bytes(C)); }

  FORETILE_DEVICE void add_parts(const Accumulators& acc, i32 first_row, i32 first_column, i32 batch) {
    if constexpr (C.cluster_k > 1) {
      cluster_wait();
      send(acc);
      mbarrier_wait(partials(), 0);
      finish(first_row, first_column, batch);
    } else {
      sync_block();  // the sums overwrite the stages
      send(acc);
      sync_block();
      finish(first_row, first_column, batch);
      sync_block();  // before the next tile's first stage overwrites the sums
    }
  }

  FORETILE_DEVICE void send(const Accumulators& acc) const {
    constexpr u32 kShare = u32(ffma::share_columns(C));
    const SmemAddress mine = part(rank * C.split_k + u32(group));
    // A thread's columns come in groups of four: where each of them goes, in the row of its first sum.
    constexpr int kGroups = C.thread_n / 4;
    SmemAddress to[kGroups];
    ClusterAddress away[kGroups], barrier[kGroups];
    FORETILE_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      const u32 c = u32(column_of(4 * g));
      to[g] = mine + 4 * (u32(row) * kShare + c % kShare);
      if constexpr (C.cluster_k > 1) away[g] = cluster_address(to[g], c / kShare), barrier[g] = cluster_address(partials().address, c / kShare);
    }
    FORETILE_UNROLL
    for (int i = 0; i < C.thread_m; ++i) {
      FORETILE_UNROLL
      for (int g = 0; g < kGroups; ++g) {
        // The addition makes new values. Stored as they are, four sums would have to stand in neighbouring registers, and a
        // sum then shares its register bank with its column's operand.
        const float* const x = &acc[i][4 * g];
        const f32x4 v{x[0] + 0.0f, x[1] + 0.0f, x[2] + 0.0f, x[3] + 0.0f};
        const u32 offset = 4 * kShare * u32(row_of(i) - row);
        if constexpr (C.cluster_k > 1) store_cluster_async(away[g] + offset, v, barrier[g]);
        else store_shared(to[g] + offset, v);
      }
    }
  }

  // A thread finishes four neighbours of D at a time.
  FORETILE_DEVICE void finish(i32 first_row, i32 first_column, i32 batch) const {
    constexpr u32 kShare = u32(ffma::share_columns(C));
    const Epilogue<O> epilogue(args.epilogue, batch);
    for (u32 at = 4 * thread_index(); at < u32(C.tile_m) * kShare; at += u32(4 * kThreads)) {
      float sums[4];
      load_four(sums, part(0) + 4 * at);
      FORETILE_UNROLL
      for (u32 from = 1; from < u32(ffma::parts(C)); ++from) {
        float more[4];
        load_four(more, part(from) + 4 * at);
        FORETILE_UNROLL
        for (int e = 0; e < 4; ++e) sums[e] += more[e];
      }
      const i32 r = first_row + i32(at / kShare), c = first_column + i32(rank * kShare + at % kShare);
      if (r >= args.m || c >= args.n) continue;
      epilogue.finish_run(sums, args.n, r, c);
    }
  }
};

template <Operation O, Configuration C> FORETILE_DEVICE void gemm_ffma(const GemmSimtArguments& arguments) {
  GemmFfma<O, C>(arguments).run();
}

}  // namespace foretile
