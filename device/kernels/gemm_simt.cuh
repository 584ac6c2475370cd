// The portable kernel: D = epilogue(op(A) x op(B)^T) for every float type, transpose, leading dimension and alignment,
// on every GPU. It is the reference slot and the path of whatever the fast kernels refuse.
//
// All threads do the same. A block walks output tiles until none is left. Per step along K it copies one tile of A
// and one of B to shared memory as fp32, K-major, zero beyond the edges of either operand; then each thread multiplies
// a register tile of thread_m x thread_n outputs out of it. The next step's global loads are issued before the
// multiply, so their latency hides under it; what they bring becomes fp32 behind it, since a conversion waits for its load.
//
// Two block-wide barriers a step: one between the copy and the multiply that reads it, one between the multiply and
// the next copy. No thread leaves early, so every thread reaches every barrier.
#pragma once
#include "foretile/device/epilogue/epilogue.h"
#include "foretile/device/layout/tile_order.h"
#include "foretile/device/legality.h"
#include "foretile/device/vocabulary/vocabulary.h"

namespace foretile {

template <Operation O, Configuration C> struct GemmSimt {
  static_assert(why_not(O, C) == nullptr);
  static constexpr int kThreads = simt::threads(C);
  static constexpr int kAcross = C.tile_n / C.thread_n;  // threads along N
  static constexpr int kLoadsA = (C.tile_m * C.tile_k + kThreads - 1) / kThreads;
  static constexpr int kLoadsB = (C.tile_n * C.tile_k + kThreads - 1) / kThreads;

  const GemmSimtArguments& args;
  SmemAddress a_tile, b_tile;

  FORETILE_DEVICE explicit GemmSimt(const GemmSimtArguments& arguments)
      : args(arguments), a_tile(shared_base()), b_tile(a_tile + u32(simt::a_bytes(C))) {}

  FORETILE_DEVICE void run() {
    grid_dependency_wait();
    WorkIterator iterator{i32(block_index().x), i32(grid_size().x), i32(tile_count(args.grid))};
    for (; !iterator.done(); iterator.advance()) {
      const TileCoordinate tile = tile_at(iterator.next, args.grid);
      compute(tile.m * C.tile_m, tile.n * C.tile_n, tile.batch);
    }
  }

  FORETILE_DEVICE void compute(i32 row, i32 column, i32 batch) {
    const i64 a_batch = batch * args.a.batch_stride, b_batch = batch * args.b.batch_stride;
    float acc[C.thread_m][C.thread_n] = {};
    Storage<O.a> a_next[kLoadsA];
    Storage<O.b> b_next[kLoadsB];
    const i32 steps = (args.k + C.tile_k - 1) / C.tile_k;
    if (steps > 0) {
      fetch<O.a, O.transpose_a, C.tile_m>(a_next, args.a, a_batch, row, args.m, 0);
      fetch<O.b, O.transpose_b, C.tile_n>(b_next, args.b, b_batch, column, args.n, 0);
    }
    for (i32 step = 0; step < steps; ++step) {
      deposit<O.a, O.transpose_a, C.tile_m>(a_next, a_tile, simt::a_pitch(C));
      deposit<O.b, O.transpose_b, C.tile_n>(b_next, b_tile, simt::b_pitch(C));
      sync_block();
      if (step + 1 < steps) {
        fetch<O.a, O.transpose_a, C.tile_m>(a_next, args.a, a_batch, row, args.m, (step + 1) * C.tile_k);
        fetch<O.b, O.transpose_b, C.tile_n>(b_next, args.b, b_batch, column, args.n, (step + 1) * C.tile_k);
      }
      multiply(acc);
      sync_block();
    }
    store(acc, row, column, batch);
  }

  // Element i of this thread's share of a tile of Rows x tile_k. Neighbouring threads take neighbours in memory:
  // along K where the operand is K-major, along its rows where it stands transposed.
  template <bool Transposed, int Rows> static FORETILE_DEVICE bool share(int i, int& r, int& k) {
    const int index = i * kThreads + int(thread_index());
    r = Transposed ? index % Rows : index / C.tile_k;
    k = Transposed ? index / Rows : index % C.tile_k;
    return index < Rows * C.tile_k;
  }

  template <DType T, bool Transposed, int Rows, int Count>
  FORETILE_DEVICE void fetch(Storage<T> (&values)[Count], const MatrixArgument& x, i64 batch, i32 first_row, i32 rows, i32 first_k) {
    FORETILE_UNROLL
    for (int i = 0; i < Count; ++i) {
      int r, k;
      const bool mine = share<Transposed, Rows>(i, r, k);
      const i64 row = first_row + r, depth = first_k + k;
      const i64 offset = batch + (Transposed ? depth * x.ld + row : row * x.ld + depth);
      values[i] = mine && row < rows && depth < args.k ? load_global(static_cast<const Storage<T>*>(x.data) + offset) : Storage<T>{};
    }
  }

  template <DType T, bool Transposed, int Rows, int Count>
  FORETILE_DEVICE void deposit(const Storage<T> (&values)[Count], SmemAddress tile, int pitch) {
    FORETILE_UNROLL
    for (int i = 0; i < Count; ++i) {
      int r, k;
      if (share<Transposed, Rows>(i, r, k)) store_shared(tile + 4 * u32(k * pitch + r), counted<T>(to_float(values[i])));
    }
  }

  // Rows and columns of a thread come in groups of four, a 16-byte load each; neighbouring threads take neighbouring groups.
  static FORETILE_DEVICE int row_of(int i) { return i / 4 * 4 * (C.tile_m / C.thread_m) + int(thread_index()) / kAcross * 4 + i % 4; }
  static FORETILE_DEVICE int column_of(int j) { return j / 4 * 4 * kAcross + int(thread_index()) % kAcross * 4 + j % 4; }

  FORETILE_DEVICE void multiply(float (&acc)[C.thread_m][C.thread_n]) {
    FORETILE_UNROLL
    for (int k = 0; k < C.tile_k; ++k) {
      float a[C.thread_m], b[C.thread_n];
      FORETILE_UNROLL
      for (int i = 0; i < C.thread_m; i += 4) load_four(&a[i], a_tile + 4 * u32(k * simt::a_pitch(C) + row_of(i)));
      FORETILE_UNROLL
      for (int j = 0; j < C.thread_n; j += 4) load_four(&b[j], b_tile + 4 * u32(k * simt::b_pitch(C) + column_of(j)));
      FORETILE_UNROLL
      for (int i = 0; i < C.thread_m; ++i)
        FORETILE_UNROLL
        for (int j = 0; j < C.thread_n; ++j) acc[i][j] = multiply_add(a[i], b[j], acc[i][j]);
    }
  }
  static FORETILE_DEVICE void load_four(float* to, SmemAddress from) {
    const f32x4 v = load_shared<f32x4>(from);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  }

  FORETILE_DEVICE void store(const float (&acc)[C.thread_m][C.thread_n], i32 row, i32 column, i32 batch) {
    const Epilogue<O> epilogue(args.epilogue, batch);
    FORETILE_UNROLL
    for (int i = 0; i < C.thread_m; ++i) {
      FORETILE_UNROLL
      for (int j = 0; j < C.thread_n; ++j) {
        const i32 r = row + row_of(i), c = column + column_of(j);
        if (r < args.m && c < args.n) epilogue.store(epilogue(acc[i][j], r, c), r, c);
      }
    }
  }
};

template <Operation O, Configuration C> FORETILE_DEVICE void gemm_simt(const GemmSimtArguments& arguments) {
  GemmSimt<O, C>(arguments).run();
}

}  // namespace foretile
