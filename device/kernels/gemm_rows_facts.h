// Facts of the kernel for few rows of A in fp32, each stated once: who computes what, shared-memory map, arrive counts, shares.
#pragma once
#include "foretile/device/configuration.h"
#include "foretile/device/kernels/gemm_ffma_facts.h"
#include "foretile/device/kernels/gemm_sm90_facts.h"
#include "foretile/device/operation.h"

namespace foretile::rows {

using sm90::kTileRowBytes;
constexpr int kSlab = kTileRowBytes / 4;  // depths that a line of a TMA box holds
constexpr int kChunk = 4;                 // depths of a 16-byte load; a group of warps takes every split_k-th chunk of a stage

// ---- who computes what ------------------------------------------------------------------------------------
// A warp's 32 lanes stand in a rectangle that is as high as the tile; each computes a register tile.
constexpr int lanes_down(const Configuration& c) { return c.tile_m / c.thread_m; }
constexpr int lanes_across(const Configuration& c) { return 32 / lanes_down(c); }
constexpr int warp_columns(const Configuration& c) { return lanes_across(c) * c.thread_n; }
constexpr int warps_across(const Configuration& c) { return c.tile_n / warp_columns(c); }
constexpr int consumer_warps(const Configuration& c) { return warps_across(c) * c.split_k; }
constexpr int consumer_threads(const Configuration& c) { return 32 * consumer_warps(c); }
constexpr int threads(const Configuration& c) { return consumer_threads(c) + 128; }  // and a warpgroup of loaders, two warps of which have work

// A lane's place in that rectangle. Neighbours in bit 1 ask for the same words of B, others for the same of A: a 16-byte load of
// a warp then takes two wavefronts instead of four (model/access.h).
constexpr u32 lane_down(const Configuration& c, u32 lane) {
  return lanes_down(c) == 1 ? 0 : lanes_down(c) == 2 ? lane / 2 % 2 : lane / 2 % 2 + lane / 16 * 2;
}
constexpr u32 lane_across(const Configuration& c, u32 lane) {
  return lanes_down(c) == 1 ? lane : lanes_down(c) == 2 ? lane % 2 + lane / 4 * 2 : lane % 2 + lane / 4 % 4 * 2;
}

// ---- shared memory: [ring of weights][ring of tokens][sums][partial sums of the cluster][barriers] ---------------------
// Both operands stand as TMA brings them: slabs of a line a row, its 16-byte pieces permuted.
constexpr int weight_slab_bytes(const Configuration& c) { return c.tile_n * kTileRowBytes; }
constexpr int weight_stage_bytes(const Configuration& c) { return weight_slab_bytes(c) * c.tile_k / kSlab; }
constexpr int token_slab_bytes(const Configuration& c) { return int(round_up(c.tile_m, 8)) * kTileRowBytes; }  // the pieces' order has a period of 8 lines
constexpr int token_stage_bytes(const Configuration& c) { return token_slab_bytes(c) * c.tile_k / kSlab; }
constexpr int stage_bytes(const Configuration& c) { return weight_stage_bytes(c) + token_stage_bytes(c); }
constexpr int tokens_offset(const Configuration& c) { return c.stages * weight_stage_bytes(c); }
constexpr int ring_bytes(const Configuration& c) { return c.stages * stage_bytes(c); }

// A tile's sums, one tile of them a group of warps: added in the order of the groups.
constexpr int sum_pitch(const Configuration& c) { return int(round_up(c.tile_n, 32)); }  // floats, a row
constexpr int sum_bytes(const Configuration& c) { return 4 * c.tile_m * sum_pitch(c); }
// Lanes that stand below each other store into different banks: a row's pieces of lanes_across columns are permuted.
constexpr u32 sum_place(const Configuration& c, u32 row, u32 column) {
  return row * u32(sum_pitch(c)) + (column ^ u32(lanes_across(c)) * (row % u32(lanes_down(c))));
}
constexpr int sums_offset(const Configuration& c) { return ring_bytes(c); }

// K split over the blocks of a cluster: each owns a share of the tile's runs of four neighbouring columns, row by row, the last block
// what is left, and gets of every block, itself included, what that has summed of it.
constexpr int kRun = 4;
constexpr int runs(const Configuration& c) { return c.tile_m * c.tile_n / kRun; }
constexpr int share_runs(const Configuration& c) { return int(ceil_div(runs(c), c.cluster_k)); }
constexpr int share_runs(const Configuration& c, int rank) { return int(min_of(share_runs(c), runs(c) - rank * share_runs(c))); }
constexpr int share_bytes(const Configuration& c) { return share_runs(c) * kRun * 4; }  // from one block
constexpr int exchange_offset(const Configuration& c) { return sums_offset(c) + c.split_k * sum_bytes(c); }
constexpr int exchange_bytes(const Configuration& c) { return c.cluster_k > 1 ? c.cluster_k * share_bytes(c) : 0; }

constexpr int barrier_offset(const Configuration& c) { return exchange_offset(c) + exchange_bytes(c); }
constexpr int full_barrier(int stage) { return 8 * stage; }  // within the barriers
constexpr int empty_barrier(const Configuration& c, int stage) { return 8 * (c.stages + stage); }
constexpr int partials_barrier(const Configuration& c) { return 8 * (2 * c.stages); }
constexpr int shared_bytes(const Configuration& c) { return barrier_offset(c) + 8 * (2 * c.stages + (c.cluster_k > 1 ? 1 : 0)); }

// ---- arrivals ---------------------------------------------------------------------------------------------
constexpr int full_arrivals() { return 2; }  // weights and tokens, an arrive-and-expect each, the bytes following by TMA
constexpr int empty_arrivals(const Configuration& c) { return consumer_warps(c); }
constexpr int partials_arrivals() { return 1; }  // this block's own arrive-and-expect; the bytes come from it and its peers
constexpr int partials_bytes(const Configuration& c, int rank) { return c.cluster_k * share_runs(c, rank) * kRun * 4; }
constexpr int kConsumersBarrier = 1;             // named barrier of the consumers; 0 is the block's own

// Blocks an SM, by shared memory (228 KiB, less 1 KiB a block that the system takes) and by the registers that a thread needs:
// sums, four depths of weights, twice four of tokens, and what addresses take. Each of four schedulers has 512 for a lane.
constexpr int registers_wanted(const Configuration& c) { return int(round_up(c.thread_m * c.thread_n + 4 * c.thread_n + 8 * c.thread_m + 32, 8)); }
constexpr int resident_blocks(const Configuration& c) {
  const int warps_of_scheduler = int(ceil_div(2 * threads(c) / 32, 4));
  return shared_bytes(c) <= (228 - 2) * 1024 / 2 && warps_of_scheduler * registers_wanted(c) <= 512 ? 2 : 1;
}

// A large block alone on its SM gives its multiplying warps all registers there are, a warpgroup as one: sums that change places from depth to depth
// (gemm_rows.cuh) want twice as many.
constexpr bool reallocates_registers(const Configuration& c) { return resident_blocks(c) == 1 && consumer_warps(c) > 4 && consumer_warps(c) % 4 == 0; }
constexpr int launch_registers(const Configuration& c) { return 65536 / threads(c) / 8 * 8; }
constexpr int loader_registers() { return 24; }
constexpr int consumer_registers(const Configuration& c) {
  const int warpgroups = consumer_warps(c) / 4;
  return int(min_of(240, (launch_registers(c) * (warpgroups + 1) - loader_registers()) / warpgroups / 8 * 8));
}

// ---- balance ------------------------------------------------------------------------------------------------
// A tile may take fewer rows of B than it has slots, half of them at least: every SM shall read the same number of them, in as many
// rounds as tiles of full width would take.
constexpr int kColumnsStep = 8;
struct Balance {
  int columns;  // rows of B a tile takes
  i64 tiles;
  i64 units;    // blocks, or clusters of cluster_k blocks, that the launch has
};
constexpr i64 at_once(const Configuration& c, int sms) {
  return c.cluster_k > 1 ? ffma::clusters_at_once(c, sms, resident_blocks(c)) : i64(sms) * resident_blocks(c);
}
constexpr Balance balance(const Configuration& c, const Problem& p, int sms) {
  const i64 others = ceil_div(p.m, i64(c.tile_m)) * p.batch, places = at_once(c, sms);
  const i64 rounds = ceil_div(ceil_div(p.n, i64(c.tile_n)) * others, places);
  const i64 across = max_of(rounds * places / others, 1);
  const i64 columns = min_of(max_of(round_up(ceil_div(p.n, across), kColumnsStep), c.tile_n / 2), c.tile_n);
  const i64 tiles = ceil_div(p.n, columns) * others;
  return {int(columns), tiles, c.cluster_k > 1 ? tiles : ceil_div(tiles, rounds)};
}

// ---- tensor-map boxes ---------------------------------------------------------------------------------------
constexpr int weight_box_bytes(int columns) { return columns * kTileRowBytes; }
constexpr int token_box_bytes(const Configuration& c) { return c.tile_m * kTileRowBytes; }

// Steps along K of the block with this rank in its cluster: [first_step(rank), first_step(rank + 1)).
constexpr i32 first_step(i32 k, i32 rank, const Configuration& c) { return ffma::first_step(k, rank, c); }

}  // namespace foretile::rows
