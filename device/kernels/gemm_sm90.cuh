// The Hopper kernel: D = epilogue(A[M,K] x B[N,K]^T) in bf16, fp16 or, of fp32 data, tf32, with fp32 accumulation.
//
// Roles. A block is one producer warpgroup and one to three consumer warpgroups, persistent: it walks output tiles in
// the order of device/layout/tile_order.h until none is left.
//   load      one thread of the producer warpgroup fills a ring of stages, each an A and a B tile, by TMA. In a cluster
//             every block loads its share of the tile that the pair has in common and multicasts it to both.
//   multiply  consumers keep one wgmma group in flight and free a stage one step after it was issued.
//             Cooperative: each holds a band of the tile's rows. Ping-pong: each holds every other tile whole, and they
//             take turns at the tensor cores, so that one's epilogue hides under the other's multiply.
//   store     each consumer rounds its accumulators into swizzled chunks of 64 rows and sends them by TMA; the stores run
//             on under the next tile. Where the epilogue has operands or an activation, or D breaks TMA's alignment
//             rules, the chunks are fp32 and its threads finish and write them. Gated products (halves, no operands) are
//             gated in registers and leave by TMA.
//
// Barriers (arrive counts in gemm_sm90_facts.h).
//   full[s]   1 arrival: the producer, expecting the bytes of both tiles, its own and those multicast to it. Completes
//             when they landed. Waited for by every consumer thread.
//   empty[s]  1 arrival a consumer warp that reads the stage, in every block that this block's loads write to. A warp
//             may arrive when its wgmma group on the stage has retired: the wait is warpgroup-wide, so the arrival of
//             one lane speaks for its warp. Waited for by the producer before it loads.
//   turn[w]   ping-pong only. 1 arrival a warp of the other consumer when it has issued its last wgmma.
//   named barrier 1+w: the 128 threads of consumer w, around its staging buffers. Barrier 8: all consumers, once, after
//             they cleared the rows of A that no box fills.
// Blocks of a cluster leave together: a peer may still multicast into this one or arrive at its barriers.
#pragma once
#include "foretile/device/epilogue/epilogue.h"
#include "foretile/device/layout/descriptor.h"
#include "foretile/device/layout/fragment.h"
#include "foretile/device/layout/ring.h"
#include "foretile/device/layout/tile_order.h"
#include "foretile/device/legality.h"
#include "foretile/device/vocabulary/vocabulary.h"

namespace foretile {

template <Operation O, Configuration C> struct GemmSm90 {
  static_assert(why_not(O, C) == nullptr);
  static constexpr int kBands = sm90::bands_per_warpgroup(C);
  static constexpr int kAccumulators = C.tile_n / 2;  // a thread and band
  static constexpr int kSlabs = sm90::slabs(O, C);
  static constexpr int kClusterSize = C.cluster_m * C.cluster_n;
  static constexpr bool kPingpong = C.schedule == Schedule::pingpong;
  using Cursor = RingCursor<C.stages>;

  const GemmSm90Arguments& args;
  SmemAddress shared;
  u32 rank_m, rank_n;  // of this block in its cluster
  i32 k_steps;

  FORETILE_DEVICE explicit GemmSm90(const GemmSm90Arguments& arguments) : args(arguments), shared(shared_base()) {
    const u32 rank = kClusterSize > 1 ? cluster_rank() : 0;
    rank_m = rank % C.cluster_m, rank_n = rank / C.cluster_m;
    k_steps = (args.k + C.tile_k - 1) / C.tile_k;
  }

  FORETILE_DEVICE Mbarrier barrier(int offset) const { return {shared + u32(sm90::barrier_offset(O, C) + offset)}; }
  FORETILE_DEVICE Mbarrier full(u32 stage) const { return barrier(sm90::full_barrier(int(stage))); }
  FORETILE_DEVICE Mbarrier empty(u32 stage) const { return barrier(sm90::empty_barrier(C, int(stage))); }
  FORETILE_DEVICE Mbarrier turn(u32 consumer) const { return barrier(sm90::turn_barrier(C, int(consumer))); }
  FORETILE_DEVICE SmemAddress a_stage(u32 stage) const { return shared + u32(sm90::a_offset(C)) + stage * sm90::a_stage_bytes(O, C); }
  FORETILE_DEVICE SmemAddress b_stage(u32 stage) const { return shared + u32(sm90::b_offset(O, C)) + stage * sm90::b_stage_bytes(O, C); }

  FORETILE_DEVICE WorkIterator work() const {
    return {i32(block_index().x) / kClusterSize, i32(grid_size().x) / kClusterSize, i32(tile_count(args.grid))};
  }
  // First row of this block's tile, and its first column of D.
  FORETILE_DEVICE i32 first_row(const TileCoordinate& tile) const { return (tile.m * C.cluster_m + i32(rank_m)) * C.tile_m; }
  FORETILE_DEVICE i32 first_column(const TileCoordinate& tile) const { return (tile.n * C.cluster_n + i32(rank_n)) * sm90::tile_outputs(O, C); }
  FORETILE_DEVICE i32 outputs() const { return i32(output_columns(O, args.n)); }

  FORETILE_DEVICE void run() {
    if (thread_index() == 0) {
      prefetch_tensor_map(args.a);
      prefetch_tensor_map(args.b);
      if constexpr (sm90::stores_by_tma(O)) prefetch_tensor_map(args.d);
      for (u32 s = 0; s < C.stages; ++s) {
        mbarrier_init(full(s), sm90::full_arrivals());
        mbarrier_init(empty(s), sm90::empty_arrivals(C));
      }
      if constexpr (kPingpong) {
        mbarrier_init(turn(0), sm90::turn_arrivals());
        mbarrier_init(turn(1), sm90::turn_arrivals());
      }
      fence_mbarrier_init();
    }
    if constexpr (kClusterSize > 1) {
      cluster_arrive();
      cluster_wait();
    } else {
      sync_block();
    }
    grid_dependency_launch();

    const u32 warpgroup = warp_index() / 4;
    if (warpgroup == 0) {
      if constexpr (sm90::reallocates_registers(C)) register_release<sm90::producer_registers(C)>();
      if (warp_index() == 0 && elect_one()) load();
      grid_dependency_wait();  // every thread of every block, also those that load nothing
    } else {
      grid_dependency_wait();
      if constexpr (sm90::reallocates_registers(C)) register_acquire<sm90::consumer_registers(C)>();
      consume(warpgroup - 1);
    }
    if constexpr (kClusterSize > 1) {
      cluster_arrive();
      cluster_wait();
    }
  }

  // ---- load -----------------------------------------------------------------------------------------------
  // Where the producer stands: a tile, a step along K in it, and the stage that this step fills.
  struct Step {
    WorkIterator tiles;
    TileCoordinate tile;
    i32 k_step;
    Cursor ring;
  };
  FORETILE_DEVICE Step first_step() const {
    const WorkIterator tiles = work();
    return {tiles, tile_at(tiles.done() ? 0 : tiles.next, args.grid), 0, {}};
  }
  FORETILE_DEVICE void advance(Step& at) const {
    at.ring.advance();
    if (++at.k_step < k_steps) return;
    at.k_step = 0;
    at.tiles.advance();
    if (!at.tiles.done()) at.tile = tile_at(at.tiles.next, args.grid);
  }

  FORETILE_DEVICE void load() {
    Step at = first_step();
    if (args.weights_ready) {  // a ring of B may be on its way before the kernels before this one are complete
      Step ahead = at;
      for (int i = 0; i < C.stages && !ahead.tiles.done(); ++i, advance(ahead)) {
        mbarrier_arrive_expect(full(ahead.ring.stage), expected_bytes());
        load_b(ahead);
      }
      grid_dependency_wait();
      for (int i = 0; i < C.stages && !at.tiles.done(); ++i, advance(at)) load_a(at);
    } else {
      grid_dependency_wait();
    }
    for (; !at.tiles.done(); advance(at)) {
      mbarrier_wait(empty(at.ring.stage), at.ring.parity ^ 1);
      mbarrier_arrive_expect(full(at.ring.stage), expected_bytes());
      load_a(at);
      load_b(at);
    }
  }

  FORETILE_DEVICE u32 expected_bytes() const { return u32(sm90::expected_bytes(O, C, args.a_box_rows)); }
  FORETILE_DEVICE void load_a(const Step& at) {
    const i32 row = first_row(at.tile) + i32(rank_n) * args.a_box_rows;
    load_share<C.cluster_n>(a_stage(at.ring.stage), sm90::a_slab_bytes(C), args.a, at, row, args.a_batched, args.a_box_rows, rank_n,
                            blocks_along_n());
  }
  FORETILE_DEVICE void load_b(const Step& at) {
    constexpr int kRows = sm90::b_box_rows(O, C), kBoxes = C.tile_n / kRows / C.cluster_m;  // of this block
    FORETILE_UNROLL
    for (int i = 0; i < kBoxes; ++i) {
      const i32 share = i32(rank_m) + i;
      const i32 row = first_column(at.tile) + share * (O.gating == Gating::none ? kRows : args.n / 2);
      load_share<C.cluster_m>(b_stage(at.ring.stage), sm90::b_slab_bytes(C), args.b, at, row, args.b_batched, kRows, u32(share), blocks_along_m());
    }
  }

  // This block's share of a tile that `Sharers` blocks have in common, slab by slab.
  template <int Sharers>
  FORETILE_DEVICE void load_share(SmemAddress tile, int slab_bytes, const TensorMap& map, const Step& at, i32 row, i32 batched, int rows,
                                  u32 share, u16 blocks) {
    FORETILE_UNROLL
    for (int slab = 0; slab < kSlabs; ++slab) {
      const SmemAddress destination = tile + u32(slab * slab_bytes) + share * u32(rows) * sm90::kTileRowBytes;
      const BoxCorner corner{at.k_step * C.tile_k + slab * sm90::slab_elements(O), row, batched ? at.tile.batch : 0};
      if constexpr (Sharers > 1) {
        tma_load_multicast(destination, map, corner, full(at.ring.stage), blocks);
      } else {
        tma_load(destination, map, corner, full(at.ring.stage));
      }
    }
  }
  // Cluster ranks run along M first.
  FORETILE_DEVICE u16 blocks_along_m() const { return u16(((1u << C.cluster_m) - 1) << (rank_n * C.cluster_m)); }
  FORETILE_DEVICE u16 blocks_along_n() const {
    u32 mask = 0;
    for (u32 n = 0; n < C.cluster_n; ++n) mask |= 1u << (n * C.cluster_m + rank_m);
    return u16(mask);
  }

  // ---- multiply -------------------------------------------------------------------------------------------
  FORETILE_DEVICE void consume(u32 consumer) {
    if (C.cluster_n == 1 && args.a_box_rows < C.tile_m) clear_unloaded_rows();
    Cursor ring;
    u32 turn_parity = consumer == 0;  // consumer 0 goes first: a fresh barrier lets it pass
    u32 buffer = 0;
    WorkIterator iterator = work();
    if (kPingpong && consumer == 1) iterator.advance(), ring.skip(u32(k_steps));
    while (!iterator.done()) {
      const TileCoordinate tile = tile_at(iterator.next, args.grid);
      float acc[kBands][kAccumulators];

      if constexpr (kPingpong) mbarrier_wait(turn(consumer), turn_parity), turn_parity ^= 1;
      multiply(acc, ring, kPingpong ? 0 : consumer * kBands);
      if constexpr (kPingpong) {
        if (lane_index() == 0) mbarrier_arrive(turn(consumer ^ 1));
      }
      wgmma_wait<0>();
      release(ring.stage);
      ring.advance();

      store(acc, tile, consumer, buffer);
      iterator.advance();
      if constexpr (kPingpong) iterator.advance(), ring.skip(u32(k_steps));
    }
    if constexpr (sm90::stores_by_tma(O)) {
      if (thread_index() % sm90::kWarpgroup == 0) bulk_wait<0>();
    }
  }

  // A problem of few rows loads lower boxes of A than the tile has rows. The rest of the ring is cleared once, while the
  // first loads are under way, so that wgmma reads nothing that was never written.
  FORETILE_DEVICE void clear_unloaded_rows() {
    constexpr u32 kTasks = C.stages * kSlabs;
    const u32 first = u32(args.a_box_rows) * sm90::kTileRowBytes;
    const u32 thread = thread_index() - sm90::kWarpgroup;  // among the consumers
    for (u32 slab = 0; slab < kTasks; ++slab) {
      for (u32 byte = first + thread * 16; byte < sm90::a_slab_bytes(C); byte += sm90::consumer_warpgroups(C) * sm90::kWarpgroup * 16)
        store_shared(shared + u32(sm90::a_offset(C)) + slab * sm90::a_slab_bytes(C) + byte, u32x4{0, 0, 0, 0});
    }
    fence_proxy_async();
    named_barrier_sync(sm90::kConsumersBarrier, sm90::consumer_warpgroups(C) * sm90::kWarpgroup);
  }

  // Leaves the last group in flight and the cursor on its stage.
  FORETILE_DEVICE void multiply(float (&acc)[kBands][kAccumulators], Cursor& ring, u32 first_band) {
    u32 previous = 0;
    for (i32 step = 0; step < k_steps; ++step) {
      if (step > 0) previous = ring.stage, ring.advance();
      mbarrier_wait(full(ring.stage), ring.parity);
      const u32 a = a_stage(ring.stage).value + first_band * (sm90::kMmaRows * sm90::kTileRowBytes), b = b_stage(ring.stage).value;
      wgmma_fence();
      FORETILE_UNROLL
      for (int slice = 0; slice < 4 * kSlabs; ++slice) {  // 32 of a slab's 128 bytes along K an instruction
        const u32 a_slice = a + slice / 4 * sm90::a_slab_bytes(C) + slice % 4 * 32, b_slice = b + slice / 4 * sm90::b_slab_bytes(C) + slice % 4 * 32;
        FORETILE_UNROLL
        for (int band = 0; band < kBands; ++band) {
          wgmma<O.a, C.tile_n>(acc[band], k_major_descriptor(a_slice + band * (sm90::kMmaRows * sm90::kTileRowBytes)), k_major_descriptor(b_slice),
                               step > 0 || slice > 0);
        }
      }
      wgmma_commit();
      if (step > 0) {
        wgmma_wait<1>();
        release(previous);
      }
    }
  }

  // Tells every block whose loads write to this stage that this warp has read it.
  FORETILE_DEVICE void release(u32 stage) {
    if constexpr (kClusterSize == 1) {
      if (lane_index() == 0) mbarrier_arrive(empty(stage));
    } else {
      static_assert(kClusterSize == sm90::blocks_reached(C), "a cluster in both directions would need a list of peers");
      if (lane_index() < kClusterSize) mbarrier_arrive_cluster(empty(stage), lane_index());
    }
  }

  // ---- store ----------------------------------------------------------------------------------------------
  // Where a band of 64 rows by the tile's columns stands in D, and what finishes its accumulators. The accumulators
  // themselves are never written: the compiler would have to order those writes before the next tile's wgmma.
  struct Band {
    const Epilogue<O>& epilogue;
    i32 row, column, batch;
  };

  FORETILE_DEVICE void store(const float (&acc)[kBands][kAccumulators], const TileCoordinate& tile, u32 consumer, u32& buffer) {
    const Epilogue<O> epilogue(args.epilogue, tile.batch);
    const i32 row = first_row(tile) + (kPingpong ? 0 : i32(consumer) * kBands * sm90::kMmaRows);
    FORETILE_UNROLL
    for (int i = 0; i < kBands; ++i) {
      const Band band{epilogue, row + i * sm90::kMmaRows, first_column(tile), tile.batch};
      if constexpr (sm90::stores_by_tma(O)) {
        store_by_tma(acc[i], band, consumer, buffer);
      } else {
        store_by_threads(acc[i], band, consumer, buffer);
      }
    }
  }

  FORETILE_DEVICE SmemAddress staging(u32 consumer, u32 buffer) const {
    return shared + u32(sm90::d_offset(O, C)) + (consumer * C.store_buffers + buffer) * sm90::d_chunk_bytes(O, C);
  }

  // The accumulators go through shared memory as fp32, so that one rolled loop, instead of an unrolled copy for every
  // register, reads the epilogue's operands and writes D, row by row: short to compile, few registers, coalesced.
  FORETILE_DEVICE void store_by_threads(const float (&acc)[kAccumulators], const Band& band, u32 consumer, u32& buffer) {
    const u32 barrier_id = 1 + consumer;
    FORETILE_UNROLL
    for (int chunk = 0; chunk < sm90::d_chunks_per_band(O, C); ++chunk) {
      const SmemAddress staged = staging(consumer, buffer);
      // With two buffers the barrier of the chunk between says that this one has been read.
      if constexpr (C.store_buffers == 1) named_barrier_sync(barrier_id, sm90::kWarpgroup);
      stage_as_float(chunk, staged, [&](int i) { return acc[i]; });
      named_barrier_sync(barrier_id, sm90::kWarpgroup);
      finish_chunk(band, band.column + chunk * sm90::d_chunk_columns(O, C), staged);
      buffer = buffer + 1 == C.store_buffers ? 0 : buffer + 1;
    }
  }

  FORETILE_DEVICE void finish_chunk(const Band& band, i32 column, SmemAddress staged) {
    constexpr Swizzle kSwizzle = sm90::d_swizzle(O, C);
    constexpr u32 kColumns = sm90::d_chunk_columns(O, C);
    FORETILE_ROLL
    for (u32 i = thread_index() % sm90::kWarpgroup * 2; i < sm90::kMmaRows * kColumns; i += sm90::kWarpgroup * 2) {
      const i32 row = band.row + i32(i / kColumns), first = column + i32(i % kColumns);
      if (row >= args.m || first >= args.n) continue;
      const u32 address = staged.value + i / kColumns * span_of(kSwizzle) + i % kColumns * 4;
      const f32x2 x = load_shared<f32x2>(SmemAddress{swizzle_address(address, kSwizzle)});
      band.epilogue.store(band.epilogue(x.x, row, first), row, first);
      if (first + 1 < args.n) band.epilogue.store(band.epilogue(x.y, row, first + 1), row, first + 1);
    }
  }

  FORETILE_DEVICE void store_by_tma(const float (&acc)[kAccumulators], const Band& band, u32 consumer, u32& buffer) {
    const bool issuer = thread_index() % sm90::kWarpgroup == 0;
    const u32 barrier_id = 1 + consumer;
    FORETILE_UNROLL
    for (int chunk = 0; chunk < sm90::d_chunks_per_band(O, C); ++chunk) {
      const SmemAddress staged = staging(consumer, buffer);
      if (issuer) bulk_wait_read<C.store_buffers - 1>();  // the store that last used this buffer has read it
      named_barrier_sync(barrier_id, sm90::kWarpgroup);
      write_chunk(acc, chunk, band, staged);
      fence_proxy_async();
      named_barrier_sync(barrier_id, sm90::kWarpgroup);
      const i32 column = band.column + chunk * sm90::d_chunk_columns(O, C);
      const bool ends_within = column < outputs() && column + sm90::d_chunk_columns(O, C) > outputs() && outputs() * size_of(O.d) % 16 != 0;
      if (ends_within) copy_chunk(band, column, staged);
      if (issuer) {
        if (!ends_within && band.row < args.m && column < outputs()) tma_store(args.d, {column, band.row, band.batch}, staged);
        bulk_commit();
      }
      buffer = buffer + 1 == C.store_buffers ? 0 : buffer + 1;
    }
  }

  static constexpr int kChunk = sm90::d_chunk_columns(O, C) / 2;  // accumulators a thread

  // value(i) stands in the place of this thread's i-th accumulator of the band.
  template <class Value> FORETILE_DEVICE void stage_as_float(int chunk, SmemAddress staged, const Value& value) {
    constexpr Swizzle kSwizzle = sm90::d_swizzle(O, C);
    FORETILE_UNROLL
    for (int i = 0; i < kChunk; i += 2) {
      const Element at = wgmma_accumulator(int(thread_index() % sm90::kWarpgroup), i);
      const u32 address = staged.value + u32(at.row) * span_of(kSwizzle) + u32(at.column) * 4;
      store_shared(SmemAddress{swizzle_address(address, kSwizzle)}, f32x2{value(chunk * kChunk + i), value(chunk * kChunk + i + 1)});
    }
  }

  // One chunk of 64 rows in the type of D and the swizzle of its tensor map: all that an epilogue without operands has to do.
  FORETILE_DEVICE void write_chunk(const float (&acc)[kAccumulators], int chunk, const Band& band, SmemAddress staged) {
    const auto value = [&](int i) {
      if constexpr (O.gating == Gating::none) return scale(band.epilogue.alpha, acc[i]);
      else return band.epilogue.gated(acc[i], acc[i + kAccumulators / 2], 0, 0, args.n);
    };
    if constexpr (O.d == DType::fp32) {
      stage_as_float(chunk, staged, value);
    } else {
      constexpr Swizzle kSwizzle = sm90::d_swizzle(O, C);
      const auto pair = [&](int i) { return pack_pair<Storage<O.d>>(value(i), value(i + 1)); };
      // Each lane gives the address of one row of one of the four 8x8 matrices: two down, two across.
      const u32 thread = thread_index() % sm90::kWarpgroup;
      const u32 row = staged.value + (thread / 32 * 16 + thread % 16) * span_of(kSwizzle) + thread % 32 / 16 * 16;
      FORETILE_UNROLL
      for (int i = 0; i < kChunk; i += 8) {
        const int first = chunk * kChunk + i;
        store_matrix_x4(SmemAddress{swizzle_address(row + u32(i) * 4, kSwizzle)},
                        {pair(first), pair(first + 2), pair(first + 4), pair(first + 6)});
      }
    }
  }

  // TMA stores whole units of 16 bytes, past the last column where a row of D ends inside one: such a chunk is copied
  // element by element.
  FORETILE_DEVICE void copy_chunk(const Band& band, i32 column, SmemAddress staged) {
    using D = Storage<O.d>;
    constexpr Swizzle kSwizzle = sm90::d_swizzle(O, C);
    constexpr u32 kColumns = sm90::d_chunk_columns(O, C);
    const MatrixArgument& d = args.epilogue.d;
    for (u32 i = thread_index() % sm90::kWarpgroup; i < sm90::kMmaRows * kColumns; i += sm90::kWarpgroup) {
      const i32 r = i32(i / kColumns), c = i32(i % kColumns);
      if (band.row + r >= args.m || column + c >= outputs()) continue;
      const u32 address = staged.value + u32(r) * span_of(kSwizzle) + u32(c) * sizeof(D);
      const D value = load_shared<D>(SmemAddress{swizzle_address(address, kSwizzle)});
      store_global(static_cast<D*>(d.data) + Epilogue<O>::offset(d, band.batch, band.row + r, column + c), value);
    }
  }
};

template <Operation O, Configuration C> FORETILE_DEVICE void gemm_sm90(const GemmSm90Arguments& arguments) {
  GemmSm90<O, C>(arguments).run();
}

}  // namespace foretile
