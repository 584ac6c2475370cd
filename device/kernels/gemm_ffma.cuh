// The fp32 kernel: D = epilogue(op(A) x op(B)^T) for fp32 (or tf32) A and B of any transpose, leading dimension and alignment, on
// every GPU, at the rate of FFMA (rung 8 of the ladder).
//
// All threads do the same. A block walks output tiles until none is left. Tiles of A and B stand in shared memory as fp32,
// K-major rows tile(k, row), whichever way the operand stands in global memory; each thread multiplies a register tile of
// thread_m x thread_n outputs out of them. Three steps along K are under way: one is multiplied out of one stage, the
// next is in registers, loaded a step ago, and goes to the other stage when the multiply is done, and the one after it is
// asked for right before the barrier, since a compiler moves loads behind a multiply, to save registers.
//
// One block-wide barrier a step: it says that the new stage is there for all, and that all have left the stage that comes
// next. With split_k > 1 groups of warps take alternate k; their sums meet in shared memory at the end, added in the order
// of the groups. No thread leaves early, so every thread reaches every barrier.
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

  FORETILE_DEVICE void begin(const MatrixArgument& x, i64 batch, i32 tile_row, i32 rows, i32 depths) {
    warp = int(warp_index()), lane = int(lane_index());
    last_row = rows - 1, depth = depths, ld = x.ld, first_row = tile_row;
    FORETILE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const i64 r = first_row + row(i) < last_row ? first_row + row(i) : last_row;
      from[i] = static_cast<const float*>(x.data) + batch * x.batch_stride + (Transposed ? k(i) * ld + r : r * ld + k(i));
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
  using Accumulators = float[C.thread_m][C.thread_n];

  const GemmSimtArguments& args;
  SmemAddress shared;
  int group;        // of warps, along K
  int row, column;  // of this thread's first output in the tile

  FORETILE_DEVICE explicit GemmFfma(const GemmSimtArguments& arguments) : args(arguments), shared(shared_base()) {
    const int warp = int(warp_index()), lane = int(lane_index());
    const int place = warp / C.split_k, warps_down = C.tile_m / ffma::warp_rows(C);
    group = warp % C.split_k;
    row = place % warps_down * ffma::warp_rows(C) + 4 * lane_row(lane);
    column = place / warps_down * ffma::warp_columns(C) + 4 * lane_column(lane);
  }
  // Bit 0 of the lane is a column bit, bit 1 a row bit, then the other column bits, then the other row bit.
  static FORETILE_DEVICE int lane_column(int lane) { return kDown == 1 ? lane : lane % 2 + lane / 4 % (kAcross / 2) * 2; }
  static FORETILE_DEVICE int lane_row(int lane) { return kDown == 1 ? 0 : lane / 2 % 2 + lane / 4 / (kAcross / 2) * 2; }

  FORETILE_DEVICE void run() {
    grid_dependency_wait();
    WorkIterator iterator{i32(block_index().x), i32(grid_size().x), i32(tile_count(args.grid))};
    for (; !iterator.done(); iterator.advance()) {
      const TileCoordinate tile = tile_at(iterator.next, args.grid);
      compute(tile.m * C.tile_m, tile.n * C.tile_n, tile.batch);
    }
  }

  FORETILE_DEVICE SmemAddress a_tile(u32 stage) const { return shared + stage * u32(ffma::stage_bytes(C)); }
  FORETILE_DEVICE SmemAddress b_tile(u32 stage) const { return a_tile(stage) + u32(ffma::a_bytes(C)); }

  FORETILE_DEVICE void compute(i32 first_row, i32 first_column, i32 batch) {
    Accumulators acc = {};
    ffma::Share<O.a, O.transpose_a, C.tile_m, kWide, C> a;
    ffma::Share<O.b, O.transpose_b, C.tile_n, kWide, C> b;
    a.begin(args.a, batch, first_row, args.m, args.k);
    b.begin(args.b, batch, first_column, args.n, args.k);
    const i32 steps = (args.k + C.tile_k - 1) / C.tile_k;
    a.ask(0), b.ask(0);
    put(a, b, 0);
    a.ask(C.tile_k), b.ask(C.tile_k);
    sync_block();
    u32 stage = 0;
    for (i32 step = 0; step < steps; ++step) {
      multiply(acc, stage);
      stage ^= 1;
      put(a, b, stage);  // behind the last step zeros, that nobody reads
      a.ask((step + 2) * C.tile_k), b.ask((step + 2) * C.tile_k);
      sync_block();
    }
    if constexpr (C.split_k > 1) add_groups(acc, first_row, first_column, batch);
    else store(acc, first_row, first_column, batch);
  }
  template <class A, class B> FORETILE_DEVICE void put(const A& a, const B& b, u32 stage) {
    a.put(a_tile(stage), ffma::a_pitch(C));
    b.put(b_tile(stage), ffma::b_pitch(C));
  }

  // Rows and columns of a thread come in groups of four, a 16-byte load each; neighbouring lanes take neighbouring groups.
  FORETILE_DEVICE int row_of(int i) const { return row + i / 4 * 4 * kDown + i % 4; }
  FORETILE_DEVICE int column_of(int j) const { return column + j / 4 * 4 * kAcross + j % 4; }

  FORETILE_DEVICE void multiply(Accumulators& acc, u32 stage) {
    const SmemAddress a_from = a_tile(stage) + 4 * u32(row + group * ffma::a_pitch(C)), b_from = b_tile(stage) + 4 * u32(column + group * ffma::b_pitch(C));
    FORETILE_UNROLL
    for (int k = 0; k < C.tile_k; k += C.split_k) {
      float a[C.thread_m], b[C.thread_n];
      FORETILE_UNROLL
      for (int i = 0; i < C.thread_m; i += 4) load_four(&a[i], a_from + 4 * u32(k * ffma::a_pitch(C) + i * kDown));
      FORETILE_UNROLL
      for (int j = 0; j < C.thread_n; j += 4) load_four(&b[j], b_from + 4 * u32(k * ffma::b_pitch(C) + j * kAcross));
      FORETILE_UNROLL
      for (int i = 0; i < C.thread_m; ++i) {
        FORETILE_UNROLL
        for (int n = 0; n < C.thread_n; ++n) {
          const int j = i % 2 ? C.thread_n - 1 - n : n;
          acc[i][j] = multiply_add(a[i], b[j], acc[i][j]);
        }
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

  FORETILE_DEVICE void add_groups(const Accumulators& acc, i32 first_row, i32 first_column, i32 batch) {
    const Epilogue<O> epilogue(args.epilogue, batch);
    constexpr u32 kTile = u32(C.tile_m * C.tile_n);
    FORETILE_UNROLL
    for (int i = 0; i < C.thread_m; ++i) {
      FORETILE_UNROLL
      for (int j = 0; j < C.thread_n; j += 4) {
        // The addition makes new values. Stored as they are, four sums would have to stand in neighbouring registers, and a
        // sum then shares its register bank with its column's operand.
        const f32x4 v{acc[i][j] + 0.0f, acc[i][j + 1] + 0.0f, acc[i][j + 2] + 0.0f, acc[i][j + 3] + 0.0f};
        store_shared(shared + 4 * (u32(group) * kTile + u32(row_of(i) * C.tile_n + column_of(j))), v);
      }
    }
    sync_block();
    for (u32 at = 4 * thread_index(); at < kTile; at += u32(4 * kThreads)) {
      float sums[4];
      load_four(sums, shared + 4 * at);
      FORETILE_UNROLL
      for (u32 g = 1; g < u32(C.split_k); ++g) {
        float more[4];
        load_four(more, shared + 4 * (g * kTile + at));
        FORETILE_UNROLL
        for (int e = 0; e < 4; ++e) sums[e] += more[e];
      }
      const i32 r = first_row + i32(at) / C.tile_n, c = first_column + i32(at) % C.tile_n;
      if (r >= args.m || c >= args.n) continue;
      FORETILE_UNROLL
      for (int e = 0; e < 4; ++e) sums[e] = c + e < args.n ? epilogue(sums[e], r, c + e) : 0;
      epilogue.store_run(sums, args.n - c < 4 ? args.n - c : 4, r, c);
    }
    sync_block();  // before the next tile's first stage overwrites the sums
  }
};

template <Operation O, Configuration C> FORETILE_DEVICE void gemm_ffma(const GemmSimtArguments& arguments) {
  GemmFfma<O, C>(arguments).run();
}

}  // namespace foretile
