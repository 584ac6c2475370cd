// Facts of the decode kernel, each stated once: shared-memory map, bytes a stage, who sums what. Used alike by the
// kernel, the model, the emulator and the messages.
#pragma once
#include "foretile/device/configuration.h"
#include "foretile/device/kernels/gemm_sm90_facts.h"
#include "foretile/device/operation.h"

namespace foretile::decode {

using sm90::kMmaRows;
using sm90::kTileRowBytes;
using sm90::kWarpgroup;
using sm90::slab_elements;
using sm90::slabs;
using sm90::tile_halves;

// The weights stand on wgmma's 64-row side, the tokens on its N side: tile_n rows of B by tile_m rows of A.
constexpr int bands(const Configuration& c) { return c.tile_n / kMmaRows; }
constexpr int consumer_warpgroups(const Configuration& c) { return bands(c) == 4 ? 2 : 1; }
constexpr int bands_per_warpgroup(const Configuration& c) { return bands(c) / consumer_warpgroups(c); }
constexpr int consumer_threads(const Configuration& c) { return consumer_warpgroups(c) * kWarpgroup; }
constexpr int threads(const Configuration& c) { return consumer_threads(c) + 64; }  // and the producer's warp and that of the first tokens
constexpr int accumulators_per_thread(const Configuration& c) { return bands_per_warpgroup(c) * c.tile_m / 2; }

// ---- shared memory: [ring of weights][ring of tokens][partial sums][staged D][barriers] -----------------------------
constexpr int weight_slab_bytes(const Configuration& c) { return c.tile_n * kTileRowBytes; }
constexpr int token_slab_bytes(const Configuration& c) { return c.tile_m * kTileRowBytes; }
constexpr int weight_stage_bytes(const Configuration& c) { return c.tile_n * c.tile_k * 2; }  // of 16-bit elements
constexpr int token_stage_bytes(const Configuration& c) { return c.tile_m * c.tile_k * 2; }
constexpr int stage_bytes(const Configuration& c) { return weight_stage_bytes(c) + token_stage_bytes(c); }
constexpr int weights_offset(const Configuration&) { return 0; }
constexpr int tokens_offset(const Configuration& c) { return c.stages * weight_stage_bytes(c); }
constexpr int ring_bytes(const Configuration& c) { return c.stages * stage_bytes(c); }

// The bands of a tile go to its warpgroups by turns.
constexpr int band_row(const Configuration& c, int warpgroup, int band) { return (band * consumer_warpgroups(c) + warpgroup) * kMmaRows; }

// Where gate and up columns lie in halves of B's rows, a tile has some of both, one half behind the other: with two bands a
// warpgroup the two of a pair meet in the registers of one thread. (Runs of eight by turns would meet in any tile, but take
// boxes of eight rows: 10 to 30 % slower.)
constexpr int kRunColumns = 8;  // what a warp holds in the lower or upper rows of a band
constexpr int half_columns(const Operation& o, const Configuration& c) { return c.tile_n / tile_halves(o); }
constexpr bool pairs_in_registers(const Operation& o, const Configuration& c) { return o.gating == Gating::halves && bands_per_warpgroup(c) == 2; }
struct Run {
  int half;   // 0, or 1: up columns
  int place;  // of its first column in its half of the tile
};
constexpr Run run_at(const Operation& o, const Configuration& c, int row) {  // of the tile of weights
  return {row / half_columns(o, c), row % half_columns(o, c)};
}

// K is split over the blocks of a cluster. Each sums, in the order of their ranks, its share of the tile's columns: of
// each half, where there are halves, so that the two of a pair meet.
constexpr int share_of_half(const Operation& o, const Configuration& c) { return half_columns(o, c) / c.split_k; }
constexpr int share_columns(const Operation& o, const Configuration& c) { return share_of_half(o, c) * tile_halves(o); }
constexpr int share_outputs(const Operation& o, const Configuration& c) { return share_columns(o, c) / (o.gating == Gating::none ? 1 : 2); }

// Partial sums travel as they stand in registers: kRunColumns columns of tile_m values each are a run, sent in pieces of so
// many floats a lane that lie side by side.
constexpr int runs_of_share(const Operation& o, const Configuration& c) { return share_columns(o, c) / kRunColumns; }
constexpr int run_floats(const Configuration& c) { return c.tile_m * kRunColumns / 32; }  // a lane
constexpr int piece_floats(const Configuration& c) { return run_floats(c) % 4 ? 2 : 4; }
constexpr int run_bytes(const Configuration& c) { return c.tile_m * kRunColumns * 4; }
constexpr int share_bytes(const Operation& o, const Configuration& c) { return runs_of_share(o, c) * run_bytes(c); }  // from one peer
constexpr int exchange_bytes(const Operation& o, const Configuration& c) { return (c.split_k - 1) * share_bytes(o, c); }

// The finished share goes through shared memory, so that rows of D are written in long pieces: in the type of D, where the
// values are final in registers, others as floats; one row a token.
constexpr bool packs(const Operation& o, const Configuration& c) {
  return !has_operands(o) && size_of(o.d) == 2 && (o.gating == Gating::none || pairs_in_registers(o, c));
}
// A warp writes 16 of the tile's outputs; its share may begin in the middle of them.
constexpr int packed_first_output(const Operation& o, const Configuration& c, int slice) { return slice * share_outputs(o, c) / 16 * 16; }
constexpr int packed_row_bytes(const Operation& o, const Configuration& c) { return int(ceil_div(share_outputs(o, c), 16)) * 16 * 2; }
// Pieces of 16 bytes change places within a row, so that those of eight tokens lie in different banks.
constexpr u32 packed_offset(const Operation& o, const Configuration& c, u32 token, u32 output) {
  const u32 row = u32(packed_row_bytes(o, c)), rows_of_line = row < 128 ? 128 / row : 1, pieces = row < 128 ? row / 16 : 8;
  return token * row + (output * 2 ^ token / rows_of_line % pieces * 16);
}
// Eight neighbouring columns of four pairs of tokens are written at once (a wgmma fragment): a pitch of 4 modulo 16 puts
// them into 32 different banks, and keeps rows of four floats aligned.
constexpr int share_pitch(const Operation& o, const Configuration& c) {
  const int columns = share_columns(o, c);
  return columns % 16 == 8 ? columns + 4 : columns + 4 + (16 - columns % 16) % 16;
}
constexpr int staged_bytes(const Operation& o, const Configuration& c) { return c.tile_m * (packs(o, c) ? packed_row_bytes(o, c) : share_pitch(o, c) * 4); }

// Apart from the ring, which the producer goes on filling.
constexpr int exchange_offset(const Configuration& c) { return ring_bytes(c); }
constexpr int staged_offset(const Operation& o, const Configuration& c) { return exchange_offset(c) + exchange_bytes(o, c); }
constexpr int barrier_offset(const Operation& o, const Configuration& c) { return staged_offset(o, c) + staged_bytes(o, c); }
constexpr int full_barrier(int stage) { return 8 * stage; }  // within the barriers
constexpr int empty_barrier(const Configuration& c, int stage) { return 8 * (c.stages + stage); }
constexpr int landed_barrier(const Configuration& c, int stage) { return 8 * (2 * c.stages + stage); }
constexpr int partials_barrier(const Configuration& c) { return 8 * (3 * c.stages); }
constexpr int barrier_bytes(const Configuration& c) { return 8 * (3 * c.stages + (c.split_k > 1 ? 1 : 0)); }
constexpr int shared_bytes(const Operation& o, const Configuration& c) { return barrier_offset(o, c) + barrier_bytes(c); }

// ---- arrivals ---------------------------------------------------------------------------------------------
constexpr int full_arrivals() { return 2; }  // for the weights and for the tokens; the bytes follow by TMA
constexpr int landed_arrivals() { return 1; }  // the producer's arrive-and-expect
constexpr int empty_arrivals(const Configuration& c) { return consumer_threads(c) / 32; }  // one a consumer warp
constexpr int partials_arrivals() { return 1; }  // this block's own arrive-and-expect; the bytes come from its peers
constexpr int kConsumersBarrier = 1;             // named barrier of the consumers; 0 is the block's own

// A stage that is freed when it has been multiplied, rather than when the next one is under way: the stream then has one
// stage more, and the multiplies, few enough not to matter, do not overlap but in a block's last lap, whose stages are not freed.
constexpr bool frees_at_once(const Configuration& c) { return c.tile_m <= 16 || (c.tile_m <= 32 && c.stages <= 6); }

// How many stages are under way while one is multiplied.
constexpr int stages_in_flight(const Configuration& c) { return frees_at_once(c) ? c.stages : c.stages - 1; }

// ---- balance ------------------------------------------------------------------------------------------------
// Two blocks share an SM, of one kernel or of two that follow each other by dependent launch, where half its shared
// memory (228 KiB, less 1 KiB a block that the system takes) holds one.
constexpr int resident_blocks(const Operation& o, const Configuration& c) { return shared_bytes(o, c) <= (228 - 2) * 1024 / 2 ? 2 : 1; }

// Clusters of split_k blocks that run at once. A cluster stays within a GPC, and a GPC of Hopper has 16 or 18 SMs: larger
// clusters than pairs leave some of them over, and where two blocks fit on an SM only about half as many clusters more find
// their places (seen on an H200: 33 clusters of four and 20 of eight run at once, 64 of four do not).
constexpr int kSmsOfGpc = 16;
constexpr i64 clusters_at_once(const Configuration& c, int sms, int blocks_per_sm) {
  if (c.split_k <= 2 || sms < kSmsOfGpc) return max_of(1, i64(sms) / c.split_k * blocks_per_sm);
  return sms / kSmsOfGpc * (kSmsOfGpc / c.split_k) * (1 + blocks_per_sm) / 2;
}
// A tile may take fewer rows of B than its slots in shared memory hold. Every block shall read the same number of them:
// those that read on alone have too few bytes in flight to keep the memory busy.
struct Balance {
  int columns;  // rows of B a tile takes
  i64 tiles;
  i64 units;    // blocks, or clusters of split_k blocks, that the launch has
};
// Rows of D are written in pieces of eight outputs where they are packed, otherwise of four.
constexpr int columns_step(const Operation& o, const Configuration& c) { return o.gating != Gating::none && packs(o, c) ? 16 : 8; }
constexpr Balance balance(const Operation& o, const Configuration& c, const Problem& p, int sms) {
  const i64 others = ceil_div(p.m, i64(c.tile_m)) * p.batch;
  const i64 apart = clusters_at_once(c, sms, 1);  // with one block an SM; two, where there is enough to do
  const i64 at_once = ceil_div(p.n, i64(c.tile_n)) * others > apart ? clusters_at_once(c, sms, resident_blocks(o, c)) : apart;
  Balance best{};
  i64 fewest = -1;
  for (int columns = c.tile_n; columns >= c.tile_n * 3 / 4; columns -= columns_step(o, c)) {
    const i64 tiles = ceil_div(p.n, i64(columns)) * others, rounds = ceil_div(tiles, at_once);
    if (fewest >= 0 && rounds * columns >= fewest) continue;
    fewest = rounds * columns;
    best = {columns, tiles, c.split_k > 1 ? tiles : ceil_div(tiles, rounds)};
  }
  return best;
}
// Of a stage, what TMA brings of B: lines of slabs. (Of A it brings whole boxes.)
constexpr int weight_bytes(const Operation& o, const Configuration& c, int columns) { return columns * slabs(o, c) * kTileRowBytes; }

// Under weights_ready a ring's first lap of weights is asked for while kernels before this one still read. No more than so many
// stages of a block are under way then: the last blocks of those kernels, for which everyone waits, would otherwise get the smaller
// part of the memory. Where only one block fits on an SM all of them shall have as much under way as keeps the memory busy.
constexpr int paced_stages(const Operation& o, const Configuration& c, i64 blocks, int sms) {
  const i64 stage = weight_stage_bytes(c), share = resident_blocks(o, c) == 2 ? 32 * 1024 : (c.tile_m <= 32 ? 64 : 48) * 1024 * max_of(i64(sms), blocks) / blocks;
  return share < stage ? 1 : share < c.stages * stage ? int(share / stage) : c.stages;
}

// And so many stages behind them come to L2: where the ring is full and its tokens cannot be asked for yet, the memory works on.
constexpr int prefetched_stages(const Configuration& c) { return 32 * 1024 / weight_stage_bytes(c); }

// ---- tensor-map boxes: rows ---------------------------------------------------------------------------------
constexpr int weight_box_rows(const Operation& o, int columns) { return columns / tile_halves(o); }
constexpr int token_box_rows(const Configuration& c) { return c.tile_m; }

// Steps along K of this slice: [first_step(slice), first_step(slice + 1)). Slices are cut at multiples of 128
// elements, whatever the tile, and depend on K alone, never on M.
constexpr int kSliceUnit = 128;
constexpr i32 first_step(i32 k, i32 slice, const Configuration& c) {
  const i32 units = (k + kSliceUnit - 1) / kSliceUnit, steps = (k + c.tile_k - 1) / c.tile_k;
  const i32 first = i32(i64(units) * slice / c.split_k) * (kSliceUnit / c.tile_k);
  return first < steps ? first : steps;
}

}  // namespace foretile::decode
