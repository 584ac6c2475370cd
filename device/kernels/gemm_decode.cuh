// The decode kernel: D = epilogue(A[M,K] x B[N,K]^T) for few rows of A, in bf16 or fp16 with fp32 accumulation. It is a
// way of reading B, the weights, once, at the speed of memory; the arithmetic hides behind it.
//
// Roles. A tile is tile_m rows of A (tokens) by tile_n rows of B (weights). Either a block is alone and walks tiles until
// none is left, its ring never running dry between them; or a cluster computes one tile, its blocks each a slice of K. A
// block is one or two consumer warpgroups, one producer warp and one for the first tokens.
//   load      one thread fills a ring of stages, each a tile of weights and one of tokens, by TMA. Weights pass L2 as
//             evict_first (read once: 10 % of the bandwidth hang on it), tokens as evict_last. In dependent launches it asks for a
//             lap of weights early, a few stages at a time (decode::paced_stages), and brings the next ones to L2, so that the memory
//             works on until the kernel before is complete; another thread waits for that and asks for the lap's tokens.
//   multiply  the weights stand on wgmma's 64-row side, the tokens on its N side: the accumulators hold D transposed.
//   exchange  where K is split: each block owns a share of the tile's columns. Consumers send the other shares to their
//             owners, straight out of registers; the owner adds the partial sums, in registers, in the order of the ranks.
//   finish    the sums go through shared memory and leave in rows of D: in D's type where they are final in registers,
//             others as fp32, to which the epilogue's operands come there.
//
// Barriers (arrive counts in gemm_decode_facts.h).
//   full[s]   2 arrivals, for the weights and for the tokens, expecting their bytes or, of early weights, knowing that they have
//             landed. Waited for by every consumer thread.
//   landed[s] 1 arrival: the producer, expecting the stage's early weights. Waited for by the producer, once.
//   empty[s]  1 arrival a consumer warp, when its wgmma group on the stage has retired; of stages that are freed at once, not in the
//             last lap of a block's last tile. Waited for by the producer.
//   partials  1 arrival: this block's own, expecting what its peers will send. Waited for by every consumer thread.
//   named barrier 1: the consumers, before a tile's values overwrite those of the tile before, and when they are in place;
//             and once when the slots that no box fills are cleared.
//   cluster   once: peers' `partials` barriers are initialised. No block leaves before its peers' sums have landed.
// Dependent launch: weights are read before the grid wait only where the caller promised that they are ready. A ring of
// half an SM's shared memory lets the next kernel's weights stream in while this one finishes.
#pragma once
#include "foretile/device/epilogue/epilogue.h"
#include "foretile/device/layout/descriptor.h"
#include "foretile/device/layout/fragment.h"
#include "foretile/device/layout/ring.h"
#include "foretile/device/layout/tile_order.h"
#include "foretile/device/legality.h"
#include "foretile/device/vocabulary/vocabulary.h"

namespace foretile {

template <Operation O, Configuration C> struct GemmDecode {
  static_assert(why_not(O, C) == nullptr);
  static constexpr int kBands = decode::bands_per_warpgroup(C);
  static constexpr int kAccumulators = C.tile_m / 2;  // a thread and band
  static constexpr int kSlabs = decode::slabs(O, C);
  static constexpr u32 kConsumers = decode::consumer_threads(C);
  static constexpr int kShareOfHalf = decode::share_of_half(O, C), kPitch = decode::share_pitch(O, C);
  static constexpr u32 kOutputs = u32(decode::share_outputs(O, C));  // of D, in a block's share of a tile
  static constexpr bool kPacks = decode::packs(O, C), kPairs = decode::pairs_in_registers(O, C);
  using Cursor = RingCursor<C.stages>;

  const GemmDecodeArguments& args;
  SmemAddress shared;
  u32 slice = 0;    // of K, this block's: its rank in its cluster
  i32 begin, end;   // its steps along K, the same in every tile

  struct Tile {
    TileCoordinate at;
    i32 first_row;  // of A
    i32 tokens;     // rows of A that exist in it
  };

  FORETILE_DEVICE explicit GemmDecode(const GemmDecodeArguments& arguments) : args(arguments), shared(shared_base()) {
    if constexpr (C.split_k > 1) slice = cluster_rank();
    begin = decode::first_step(args.k, i32(slice), C), end = decode::first_step(args.k, i32(slice) + 1, C);
  }

  // Persistent where a block is alone. A cluster has one tile: its partial sums are exchanged once.
  FORETILE_DEVICE WorkIterator work() const {
    return {i32(block_index().x) / C.split_k, i32(grid_size().x) / C.split_k, i32(tile_count(args.grid))};
  }
  FORETILE_DEVICE Tile tile(i32 index) const {
    const TileCoordinate at = tile_of(index, args.grid);
    const i32 first_row = at.m * C.tile_m, left = args.m - first_row;
    return {at, first_row, left < C.tile_m ? left : C.tile_m};
  }

  FORETILE_DEVICE Mbarrier barrier(int offset) const { return {shared + u32(decode::barrier_offset(O, C) + offset)}; }
  FORETILE_DEVICE Mbarrier full(u32 stage) const { return barrier(decode::full_barrier(int(stage))); }
  FORETILE_DEVICE Mbarrier empty(u32 stage) const { return barrier(decode::empty_barrier(C, int(stage))); }
  FORETILE_DEVICE Mbarrier landed(u32 stage) const { return barrier(decode::landed_barrier(C, int(stage))); }
  FORETILE_DEVICE Mbarrier partials() const { return barrier(decode::partials_barrier(C)); }
  FORETILE_DEVICE SmemAddress weights_stage(u32 stage) const { return shared + u32(decode::weights_offset(C)) + stage * decode::weight_stage_bytes(C); }
  FORETILE_DEVICE SmemAddress tokens_stage(u32 stage) const { return shared + u32(decode::tokens_offset(C)) + stage * decode::token_stage_bytes(C); }

  FORETILE_DEVICE void run() {
    grid_dependency_launch();
    const u32 warp = warp_index();
    if (thread_index() == 0) {
      for (u32 s = 0; s < C.stages; ++s) {
        mbarrier_init(full(s), decode::full_arrivals());
        mbarrier_init(empty(s), decode::empty_arrivals(C));
        mbarrier_init(landed(s), decode::landed_arrivals());
      }
      if constexpr (C.split_k > 1) mbarrier_init(partials(), decode::partials_arrivals());
      fence_mbarrier_init();
      if constexpr (C.split_k > 1) mbarrier_arrive_expect(partials(), u32(decode::exchange_bytes(O, C)));
    }
    if (warp == kConsumers / 32 && lane_index() == 0) {
      prefetch_tensor_map(args.b);
      prefetch_tensor_map(args.a);
    }
    sync_block();
    if constexpr (C.split_k > 1) cluster_arrive_relaxed();

    if (warp < kConsumers / 32) {
      consume(warp / 4);
    } else {
      if (elect_one()) {
        if (warp == kConsumers / 32) load();
        else if (args.weights_ready) load_first_tokens();
      }
      sync_warp();
      if constexpr (C.split_k > 1) cluster_wait();
      grid_dependency_wait();  // every thread of every block, also those that load nothing
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
  FORETILE_DEVICE void advance(Step& at) const {
    at.ring.advance();
    if (++at.k_step < end) return;
    at.k_step = begin;
    at.tiles.advance();
    if (!at.tiles.done()) at.tile = tile_of(at.tiles.next, args.grid);
  }

  FORETILE_DEVICE Step first_step() const { return {work(), tile_of(work().next, args.grid), begin, {}}; }
  FORETILE_DEVICE i32 stages_of_first_lap() const {
    const WorkIterator tiles = work();
    if (tiles.done()) return 0;
    if (end - begin >= C.stages) return C.stages;
    const i32 steps = ((tiles.count - 1 - tiles.next) / tiles.step + 1) * (end - begin);
    return steps < C.stages ? steps : C.stages;
  }

  FORETILE_DEVICE void load() {
    const L2Policy once = args.grid.tiles_m == 1 ? evict_first() : evict_normal(), again = evict_last();
    const u32 weight_bytes = u32(decode::weight_bytes(O, C, args.tile_columns));
    Step at = first_step();
    if (args.weights_ready) {  // a lap of them may be on its way before the kernels before this one are complete
      const i32 stages = stages_of_first_lap(), paced = args.paced_stages;
      for (i32 i = 0; i < stages; ++i, advance(at)) {
        if (i >= paced) {
          mbarrier_wait(landed(u32(i - paced)), 0);
          mbarrier_arrive(full(u32(i - paced)));
        }
        const Mbarrier arrives = i < stages - paced ? landed(u32(i)) : full(u32(i));  // the last ones are not waited for here
        mbarrier_arrive_expect(arrives, weight_bytes);
        load_weights(at, arrives, once);
      }
      Step next = at;
      for (int i = 0; i < decode::prefetched_stages(C) && !next.tiles.done(); ++i, advance(next)) prefetch_weights(next, once);
    }
    grid_dependency_wait();
    for (; !at.tiles.done(); advance(at)) {
      mbarrier_wait(empty(at.ring.stage), at.ring.parity ^ 1);
      mbarrier_arrive_expect(full(at.ring.stage), weight_bytes);
      load_weights(at, full(at.ring.stage), once);
      mbarrier_arrive_expect(full(at.ring.stage), u32(decode::token_stage_bytes(C)));
      load_tokens(at, again);
    }
  }
  FORETILE_DEVICE void load_first_tokens() {
    const L2Policy again = evict_last();
    const i32 stages = stages_of_first_lap();
    Step at = first_step();
    grid_dependency_wait();
    for (i32 i = 0; i < stages; ++i, advance(at)) {
      mbarrier_arrive_expect(full(u32(i)), u32(decode::token_stage_bytes(C)));
      load_tokens(at, again);
    }
  }

  FORETILE_DEVICE void load_weights(const Step& at, Mbarrier arrives, L2Policy policy) {
    each_weight_box(at, [&](SmemAddress destination, const BoxCorner& corner) { tma_load(destination, args.b, corner, arrives, policy); });
  }
  FORETILE_DEVICE void prefetch_weights(const Step& at, L2Policy policy) {
    each_weight_box(at, [&](SmemAddress, const BoxCorner& corner) { tma_prefetch(args.b, corner, policy); });
  }
  template <class Take> FORETILE_DEVICE void each_weight_box(const Step& at, const Take& take) const {
    constexpr int kHalves = decode::tile_halves(O), kHalf = decode::half_columns(O, C);
    const i32 rows = args.tile_columns / kHalves;
    FORETILE_UNROLL
    for (int slab = 0; slab < kSlabs; ++slab) {
      FORETILE_UNROLL
      for (int half = 0; half < kHalves; ++half) {
        const SmemAddress destination = weights_stage(at.ring.stage) + u32(slab * decode::weight_slab_bytes(C) + half * kHalf * decode::kTileRowBytes);
        const i32 row = at.tile.n * rows + half * (args.n / 2);
        take(destination, BoxCorner{at.k_step * C.tile_k + slab * decode::slab_elements(O), row, args.b_batched ? at.tile.batch : 0});
      }
    }
  }
  FORETILE_DEVICE void load_tokens(const Step& at, L2Policy policy) {
    FORETILE_UNROLL
    for (int slab = 0; slab < kSlabs; ++slab) {
      const SmemAddress destination = tokens_stage(at.ring.stage) + u32(slab * decode::token_slab_bytes(C));
      tma_load(destination, args.a, {at.k_step * C.tile_k + slab * decode::slab_elements(O), at.tile.m * C.tile_m, args.a_batched ? at.tile.batch : 0}, full(at.ring.stage), policy);
    }
  }

  // ---- multiply -------------------------------------------------------------------------------------------
  FORETILE_DEVICE void consume(u32 warpgroup) {
    if (args.tile_columns < C.tile_n) clear_unloaded_rows();
    Cursor ring;
    bool first = true;
    for (WorkIterator tiles = work(); !tiles.done(); tiles.advance()) {
      const Tile t = tile(tiles.next);
      Target target;
      if constexpr (kPacks) target = target_of(t);
      float acc[kBands][kAccumulators];
      multiply(acc, ring, warpgroup, tiles.next + tiles.step >= tiles.count);
      if (!first) named_barrier_sync(decode::kConsumersBarrier, kConsumers);  // the values of the tile before have been read
      if constexpr (C.split_k > 1) send(acc, warpgroup);
      if constexpr (kPacks) {
        pack(acc, t, warpgroup);
      } else {
        stage(acc, warpgroup);
      }
      named_barrier_sync(decode::kConsumersBarrier, kConsumers);
      if (first) grid_dependency_wait();
      if constexpr (kPacks) {
        store_packed(t, target);
      } else {
        finish(t);
      }
      first = false;
    }
    if (first) grid_dependency_wait();
  }

  // The slots that no box fills are cleared once, while the first loads are under way, so that wgmma reads nothing that was
  // never written.
  FORETILE_DEVICE void clear_unloaded_rows() {
    constexpr u32 kRegions = C.stages * kSlabs * decode::tile_halves(O);  // halves of slabs, one behind the other
    constexpr u32 kRegionBytes = decode::half_columns(O, C) * decode::kTileRowBytes;
    const u32 first = u32(args.tile_columns) / decode::tile_halves(O) * decode::kTileRowBytes;
    for (u32 region = 0; region < kRegions; ++region) {
      for (u32 byte = first + thread_index() * 16; byte < kRegionBytes; byte += kConsumers * 16)
        store_shared(shared + u32(decode::weights_offset(C)) + region * kRegionBytes + byte, u32x4{0, 0, 0, 0});
    }
    fence_proxy_async();
    named_barrier_sync(decode::kConsumersBarrier, kConsumers);
  }

  // Leaves the cursor behind the last stage read. Stages that are freed at once are not freed in the last lap of a block's last tile,
  // where nobody asks for them again: its multiplies follow each other without a wait.
  FORETILE_DEVICE void multiply(float (&acc)[kBands][kAccumulators], Cursor& ring, u32 warpgroup, bool last) {
    constexpr bool kAtOnce = decode::frees_at_once(C);
    const i32 last_lap = kAtOnce && last ? (end - begin > C.stages ? end - C.stages : begin) : end;
    u32 previous = 0;  // the stage that is freed late
    for (i32 step = begin; step < last_lap; ++step) {
      multiply_stage(acc, ring, warpgroup, step > begin);
      if constexpr (kAtOnce) {
        wgmma_wait<0>();
        release(ring.stage);
      } else if (step > begin) {
        wgmma_wait<1>();
        release(previous);
      }
      previous = ring.stage;
      ring.advance();
    }
    for (i32 step = last_lap; step < end; ++step) {
      multiply_stage(acc, ring, warpgroup, step > begin);
      ring.advance();
    }
    wgmma_wait<0>();
    if constexpr (!kAtOnce) release(previous);
  }

  FORETILE_DEVICE void multiply_stage(float (&acc)[kBands][kAccumulators], const Cursor& ring, u32 warpgroup, bool accumulate) {
    mbarrier_wait(full(ring.stage), ring.parity);
    const u32 weights = weights_stage(ring.stage).value;
    const u32 tokens = tokens_stage(ring.stage).value;
    wgmma_fence();
    FORETILE_UNROLL
    for (int part = 0; part < 4 * kSlabs; ++part) {  // 32 of a slab's 128 bytes along K an instruction
      const u64 b = k_major_descriptor(tokens + part / 4 * decode::token_slab_bytes(C) + part % 4 * 32);
      FORETILE_UNROLL
      for (int band = 0; band < kBands; ++band) {
        const u32 a = weights + part / 4 * decode::weight_slab_bytes(C) + part % 4 * 32 + u32(decode::band_row(C, int(warpgroup), band)) * decode::kTileRowBytes;
        wgmma<O.a, C.tile_m>(acc[band], k_major_descriptor(a), b, accumulate || part > 0);
      }
    }
    wgmma_commit();
  }

  FORETILE_DEVICE void release(u32 stage) {
    if (lane_index() == 0) mbarrier_arrive(empty(stage));
  }

  // ---- exchange -------------------------------------------------------------------------------------------
  // The eight columns that a warp holds in the lower or upper rows of a band.
  struct Owned {
    u32 owner;  // the slice whose block finishes them
    u32 place;  // of the first, among the columns of that share
  };
  static FORETILE_DEVICE Owned run_of(u32 warpgroup, int band, int upper) {
    const u32 row = u32(decode::band_row(C, int(warpgroup), band)) + u32(wgmma_accumulator(int(thread_index() % decode::kWarpgroup / 32 * 32), 2 * upper).row);
    const decode::Run run = decode::run_at(O, C, int(row));
    return {u32(run.place / kShareOfHalf), u32(run.half * kShareOfHalf + run.place % kShareOfHalf)};
  }
  // A lane's i-th value of a run, among its accumulators of a band.
  static constexpr FORETILE_DEVICE int in_band(int upper, int i) { return i / 2 * 4 + upper * 2 + i % 2; }
  static constexpr int kRunFloats = decode::run_floats(C), kPieceFloats = decode::piece_floats(C);

  // What `from` sends of a run to its owner, for this lane.
  static FORETILE_DEVICE u32 sent_offset(u32 from, const Owned& run, int piece) {
    const u32 peer = from - u32(from > run.owner), slot = peer * decode::runs_of_share(O, C) + run.place / decode::kRunColumns;
    return u32(decode::exchange_offset(C)) + slot * decode::run_bytes(C) + (u32(piece) * 32 + lane_index()) * (kPieceFloats * 4);
  }

  // Peers' shares to them; then theirs have come.
  FORETILE_DEVICE void send(const float (&acc)[kBands][kAccumulators], u32 warpgroup) {
    cluster_wait();
    FORETILE_UNROLL
    for (int band = 0; band < kBands; ++band) {
      FORETILE_UNROLL
      for (int upper = 0; upper < 2; ++upper) {
        const Owned run = run_of(warpgroup, band, upper);
        if (run.owner == slice) continue;
        const ClusterAddress counted = cluster_address(partials().address, run.owner);
        FORETILE_UNROLL
        for (int piece = 0; piece < kRunFloats / kPieceFloats; ++piece) {
          const ClusterAddress peer = cluster_address(shared + sent_offset(slice, run, piece), run.owner);
          const auto value = [&](int i) { return acc[band][in_band(upper, piece * kPieceFloats + i)]; };
          if constexpr (kPieceFloats == 4) {
            store_cluster_async(peer, f32x4{value(0), value(1), value(2), value(3)}, counted);
          } else {
            store_cluster_async(peer, f32x2{value(0), value(1)}, counted);
          }
        }
      }
    }
    mbarrier_wait(partials(), 0);
  }

  // A piece of a run of this block's share: where K is split, the sum over all slices.
  FORETILE_DEVICE void sum(const float (&acc)[kAccumulators], int upper, const Owned& run, int piece, float (&total)[kPieceFloats]) const {
    FORETILE_UNROLL
    for (u32 from = 0; from < C.split_k; ++from) {
      float part[kPieceFloats];
      if (C.split_k == 1 || from == slice) {
        FORETILE_UNROLL
        for (int i = 0; i < kPieceFloats; ++i) part[i] = acc[in_band(upper, piece * kPieceFloats + i)];
      } else if constexpr (kPieceFloats == 4) {
        const f32x4 sent = load_shared<f32x4>(shared + sent_offset(from, run, piece));
        part[0] = sent.x, part[1] = sent.y, part[2] = sent.z, part[3] = sent.w;
      } else {
        const f32x2 sent = load_shared<f32x2>(shared + sent_offset(from, run, piece));
        part[0] = sent.x, part[1] = sent.y;
      }
      FORETILE_UNROLL
      for (int i = 0; i < kPieceFloats; ++i) {
        if (from == 0) total[i] = part[i];
        else total[i] += part[i];
      }
    }
  }

  // Hands the pieces of a band that are this block's to finish to take(upper, run, piece).
  template <class Take> FORETILE_DEVICE void each_piece(u32 warpgroup, int band, const Take& take) const {
    FORETILE_UNROLL
    for (int upper = 0; upper < 2; ++upper) {
      const Owned run = run_of(warpgroup, band, upper);
      if (C.split_k > 1 && run.owner != slice) continue;
      FORETILE_UNROLL
      for (int piece = 0; piece < kRunFloats / kPieceFloats; ++piece) take(upper, run, piece);
    }
  }

  // ---- values that are final in registers: straight to the type of D --------------------------------------------
  // `output` counts from the first one that is packed.
  FORETILE_DEVICE SmemAddress packed(u32 token, u32 output) const {
    return shared + u32(decode::staged_offset(O, C)) + decode::packed_offset(O, C, token, output);
  }
  FORETILE_DEVICE u32 packed_first_output() const { return u32(decode::packed_first_output(O, C, int(slice))); }

  FORETILE_DEVICE void pack(const float (&acc)[kBands][kAccumulators], const Tile& t, u32 warpgroup) {
    constexpr int kUp = kBands / 2;  // bands from a gate to its up column
    const Epilogue<O> epilogue(args.epilogue, t.at.batch);
    FORETILE_UNROLL
    for (int band = 0; band < (kPairs ? kUp : kBands); ++band) {
      float values[kAccumulators] = {};  // beside the accumulators: the compiler would order writes to them before the next wgmma
      bool any = C.split_k == 1;
      each_piece(warpgroup, band, [&](int upper, const Owned& run, int piece) {
        any = true;
        float total[kPieceFloats] = {}, up[kPieceFloats] = {};
        sum(acc[band], upper, run, piece, total);
        if constexpr (kPairs) sum(acc[band + kUp], upper, {run.owner, run.place + kShareOfHalf}, piece, up);
        FORETILE_UNROLL
        for (int i = 0; i < kPieceFloats; ++i) {
          float& value = values[in_band(upper, piece * kPieceFloats + i)];
          if constexpr (kPairs) value = epilogue.gated(total[i], up[i], 0, 0, args.n);
          else value = epilogue(total[i], 0, 0);
        }
      });
      // Where only one half of a warp's columns is this block's share the other lands beside it and is never read.
      if (any) store_packed_band(values, u32(decode::band_row(C, int(warpgroup), band)));
    }
  }

  // A warp's values of a band are matrices of eight tokens by eight columns, the lower and the upper columns by turns.
  FORETILE_DEVICE void store_packed_band(const float (&values)[kAccumulators], u32 band_row) const {
    constexpr int kMatrices = C.tile_m / 8 * 2;
    const u32 matrix = lane_index() / 8, token = matrix / 2 * 8 + lane_index() % 8;
    const u32 output = band_row + thread_index() % decode::kWarpgroup / 32 * 16 + matrix % 2 * 8 - packed_first_output();
    const auto fragment = [&](int i) { return pack_pair<Storage<O.d>>(values[2 * i], values[2 * i + 1]); };  // two tokens of a column
    FORETILE_UNROLL
    for (int i = 0; i + 4 <= kMatrices; i += 4)
      store_matrix_x4_transposed(packed(u32(i) / 2 * 8 + token, output), {fragment(i), fragment(i + 1), fragment(i + 2), fragment(i + 3)});
    if constexpr (kMatrices % 4)
      store_matrix_x2_transposed(packed(u32(kMatrices) / 2 * 8 - 8 + token % 8, output), {fragment(kMatrices - 2), fragment(kMatrices - 1)});
  }

  // A thread writes eight neighbours of D in every kPackedTokens-th row of the tile. Where, it works out before the multiply, so that
  // nothing is left to do when the last weights have come.
  static constexpr u32 kPackedPieces = max_of(kOutputs / 8, 1);
  static constexpr i32 kPackedTokens = kConsumers / kPackedPieces, kPackedRounds = (C.tile_m + kPackedTokens - 1) / kPackedTokens;
  static_assert(!kPacks || kConsumers % kPackedPieces == 0);
  struct Target {
    Storage<O.d>* to;  // in the first of these rows
    i64 step;          // elements to the next one
    i32 columns;       // of D that are left from there, 0 or fewer: nothing to write
  };
  FORETILE_DEVICE u32 output_of_thread() const { return slice * kOutputs + thread_index() % kPackedPieces * 8; }  // in the tile
  static FORETILE_DEVICE i32 token_of_thread() { return i32(thread_index() / kPackedPieces); }  // the first
  FORETILE_DEVICE Target target_of(const Tile& t) const {
    const i32 outputs_of_tile = i32(output_columns(O, args.tile_columns)), in_tile = i32(output_of_thread());
    const i32 column = t.at.n * outputs_of_tile + in_tile, row = t.first_row + token_of_thread();
    const MatrixArgument& d = args.epilogue.d;
    Target target;
    target.to = static_cast<Storage<O.d>*>(d.data) + Epilogue<O>::offset(d, t.at.batch, row, column);
    target.step = kPackedTokens * d.ld;
    target.columns = in_tile < outputs_of_tile ? i32(output_columns(O, args.n)) - column : 0;
    compute_now(target.to), compute_now(target.step), compute_now(target.columns);
    return target;
  }
  FORETILE_DEVICE void store_packed(const Tile& t, const Target& target) {
    if (target.columns <= 0) return;
    const u32 place = output_of_thread() - packed_first_output();
    const i32 first = token_of_thread();
    if (O.output == Alignment::tma && target.columns >= 8) {
      u32x4 piece[kPackedRounds];  // no register is written again while a store may still read it
      FORETILE_UNROLL
      for (i32 i = 0; i < kPackedRounds; ++i)
        if (first + i * kPackedTokens < t.tokens) piece[i] = load_shared<u32x4>(packed(u32(first + i * kPackedTokens), place));
      FORETILE_UNROLL
      for (i32 i = 0; i < kPackedRounds; ++i)
        if (first + i * kPackedTokens < t.tokens) store_global(reinterpret_cast<u32x4*>(target.to + i * target.step), piece[i]);
    } else {
      for (i32 i = 0; i < kPackedRounds && first + i * kPackedTokens < t.tokens; ++i)
        for (i32 j = 0; j < 8 && j < target.columns; ++j)
          store_global(target.to + i * target.step + j, load_shared<Storage<O.d>>(packed(u32(first + i * kPackedTokens), place + u32(j))));
    }
  }

  // ---- epilogues with operands, D in fp32, pairs apart -------------------------------------------------------------------
  FORETILE_DEVICE SmemAddress staged(u32 token, u32 place) const { return shared + u32(decode::staged_offset(O, C)) + (token * kPitch + place) * 4; }

  FORETILE_DEVICE void stage(const float (&acc)[kBands][kAccumulators], u32 warpgroup) {
    FORETILE_UNROLL
    for (int band = 0; band < kBands; ++band) {
      each_piece(warpgroup, band, [&](int upper, const Owned& run, int piece) {
        float total[kPieceFloats] = {};
        sum(acc[band], upper, run, piece, total);
        FORETILE_UNROLL
        for (int i = 0; i < kPieceFloats; ++i) {
          const Element at = wgmma_accumulator(int(thread_index() % decode::kWarpgroup), in_band(upper, piece * kPieceFloats + i));
          store_shared(staged(u32(at.column), run.place + lane_index() / 4), total[i]);
        }
      });
    }
  }

  // A thread finishes four neighbouring columns of D in every kTokensAtOnce-th row of the tile, several rows at a time so
  // that their loads are under way together.
  FORETILE_DEVICE void finish(const Tile& t) {
    constexpr bool kGated = O.gating != Gating::none;
    constexpr u32 kRuns = kOutputs / 4;
    constexpr i32 kTokensAtOnce = kConsumers / kRuns, kRounds = (C.tile_m + kTokensAtOnce - 1) / kTokensAtOnce;
    constexpr i32 kBatch = kRounds < 4 ? kRounds : 4;
    static_assert(kConsumers % kRuns == 0);
    const u32 run = thread_index() % kRuns;
    const i32 outputs = i32(output_columns(O, args.n)), outputs_of_tile = i32(output_columns(O, args.tile_columns));
    const i32 place = i32(slice * kOutputs + run * 4), column = t.at.n * outputs_of_tile + place;
    if (place >= outputs_of_tile || column >= outputs) return;
    const i32 count = outputs - column < 4 ? outputs - column : 4;
    const Epilogue<O> epilogue(args.epilogue, t.at.batch);
    for (i32 first = i32(thread_index() / kRuns); first < t.tokens; first += kBatch * kTokensAtOnce) {
      float x[kBatch][4], up[kBatch][4];
      unset(x), unset(up);
      FORETILE_UNROLL
      for (i32 i = 0; i < kBatch; ++i) {
        const i32 token = first + i * kTokensAtOnce;
        if (token < t.tokens) gather(u32(token), run, x[i], up[i]);
      }
      FORETILE_UNROLL
      for (i32 i = 0; i < kBatch; ++i) {
        const i32 token = first + i * kTokensAtOnce, row = t.first_row + token;
        if (token >= t.tokens) continue;
        FORETILE_UNROLL
        for (int j = 0; j < 4; ++j) {
          if (j >= count) continue;
          if constexpr (kGated) {
            x[i][j] = epilogue.gated(x[i][j], up[i][j], row, column + j, args.n);
          } else {
            x[i][j] = epilogue(x[i][j], row, column + j);
          }
        }
        epilogue.store_run(x[i], count, row, column);
      }
    }
  }

  // Four neighbours of D: their gates and up columns, where the product is gated.
  FORETILE_DEVICE void gather(u32 token, u32 run, float (&x)[4], float (&up)[4]) const {
    if constexpr (O.gating == Gating::interleaved) {
      float low[4], high[4];
      load_staged(token, run * 8, low);
      load_staged(token, run * 8 + 4, high);
      x[0] = low[0], x[1] = low[2], x[2] = high[0], x[3] = high[2];
      up[0] = low[1], up[1] = low[3], up[2] = high[1], up[3] = high[3];
    } else {
      load_staged(token, run * 4, x);
      if constexpr (O.gating == Gating::halves) load_staged(token, kShareOfHalf + run * 4, up);
    }
  }

  FORETILE_DEVICE void load_staged(u32 token, u32 place, float (&x)[4]) const {
    const f32x4 four = load_shared<f32x4>(staged(token, place));
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
  }
};

template <Operation O, Configuration C> FORETILE_DEVICE void gemm_decode(const GemmDecodeArguments& arguments) {
  GemmDecode<O, C>(arguments).run();
}

}  // namespace foretile
