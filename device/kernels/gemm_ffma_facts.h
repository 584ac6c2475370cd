// Facts of the fp32 kernel, each stated once.
#pragma once
#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"

namespace foretile::ffma {

// ---- who computes what ------------------------------------------------------------------------------------
// A warp's 32 lanes stand in a rectangle, four down where the tile has as many, and compute a rectangle of register tiles.
constexpr int lanes_down(const Configuration& c) { return c.tile_m / c.thread_m >= 4 ? 4 : c.tile_m / c.thread_m; }
constexpr int lanes_across(const Configuration& c) { return 32 / lanes_down(c); }
constexpr int warp_rows(const Configuration& c) { return lanes_down(c) * c.thread_m; }
constexpr int warp_columns(const Configuration& c) { return lanes_across(c) * c.thread_n; }
// cluster_k blocks of a cluster compute the same outputs, each out of a slice of K; in it split_k groups of warps, each out of
// every split_k-th k.
constexpr int warps(const Configuration& c) { return (c.tile_m / warp_rows(c)) * (c.tile_n / warp_columns(c)) * c.split_k; }
constexpr int threads(const Configuration& c) { return 32 * warps(c); }
constexpr int parts(const Configuration& c) { return c.split_k * c.cluster_k; }  // partial sums of an output

// Blocks an SM that the launch bounds promise: as many as leave a thread the registers that its tile needs not to spill.
constexpr int registers_wanted(const Configuration& c) { return c.thread_m * c.thread_n > 64 ? 255 : c.thread_m * c.thread_n > 32 ? 168 : 128; }
constexpr int resident_blocks(const Configuration& c) {
  const int blocks = 65536 / ((registers_wanted(c) + 7) / 8 * 8 * threads(c));
  return blocks < 1 ? 1 : blocks > 8 ? 8 : blocks;
}

// Clusters that run at once. A cluster stands in one GPC, and no two have the same SMs to give: on the H200 that was measured 66
// clusters of two blocks, 30 of four and 15 of eight, as six GPCs of 18 SMs, one of 16 and one of 8 have room for.
constexpr i64 clusters_at_once(const Configuration& c, int sms, int blocks_per_sm) {
  const int whole = sms > 24 ? sms - 24 : 0, rest = sms - whole;
  const i64 clusters = whole / 18 * i64(18 / c.cluster_k) + whole % 18 / c.cluster_k + (rest > 16 ? 16 / c.cluster_k + (rest - 16) / c.cluster_k : rest / c.cluster_k);
  return max_of(1, clusters * blocks_per_sm);
}

// Clocks that a multiply takes of its SM partition's register file, on average: larger register tiles leave the compiler more
// ways to keep an operand. Fitted, see model/ffma_clocks.cc.
constexpr double register_clocks(const Configuration& c) {
  const int values = c.thread_m * c.thread_n;
  return values > 112 ? 1.19 : values > 64 ? 1.22 : values > 32 ? 1.3 : 1.5;
}

// ---- copies -----------------------------------------------------------------------------------------------
// A warp copies a tile in units of four elements a lane. Along K: 16 rows by 8 deep, whole sectors of global memory;
// where the operand stands transposed, the largest power of two of rows that divides the tile's, up to 128, by what is left.
constexpr int unit_rows(bool transposed, int rows) {
  const int most = transposed ? 128 : 16, divides = rows & -rows;
  return divides < most ? divides : most;
}
constexpr int unit_depth(bool transposed, int rows) { return 128 / unit_rows(transposed, rows); }
constexpr int units(const Configuration& c, int rows) { return rows * c.tile_k / 128; }  // of one operand, a step
constexpr bool whole_units(const Configuration& c, bool transposed, int rows) {
  return rows % unit_rows(transposed, rows) == 0 && 128 % unit_rows(transposed, rows) == 0 && c.tile_k % unit_depth(transposed, rows) == 0;
}
constexpr int units_each(const Configuration& c, int rows) { return (units(c, rows) + warps(c) - 1) / warps(c); }  // a warp

// ---- shared memory: [two stages of A's and B's tile] and behind them, or where a block is alone in their place, [sums] ----
// Tiles stand as fp32, rows of M (or N): tile(k, row). The pad of four floats keeps 16-byte alignment and puts the rows that
// a transposing store touches into different banks.
constexpr int kStages = 2;
constexpr int kPad = 4;
constexpr int a_pitch(const Configuration& c) { return c.tile_m + kPad; }  // floats
constexpr int b_pitch(const Configuration& c) { return c.tile_n + kPad; }
constexpr int a_bytes(const Configuration& c) { return 4 * c.tile_k * a_pitch(c); }
constexpr int b_bytes(const Configuration& c) { return 4 * c.tile_k * b_pitch(c); }
constexpr int stage_bytes(const Configuration& c) { return a_bytes(c) + b_bytes(c); }
constexpr int ring_bytes(const Configuration& c) { return kStages * stage_bytes(c); }
// Sums go to D through shared memory where others are added to them, and where an epilogue has operands and a thread's
// multiplies take nearly all its registers: their addresses would make it spill.
constexpr bool finishes_shared(const Operation& o, const Configuration& c) {
  return parts(c) > 1 || (!is_plain(o) && c.thread_m * c.thread_n > 64);
}
// Each block of a cluster finishes its share of the tile's columns: it holds what every group of every block sent of it, in the
// order in which they are added. Peers may send while this block still multiplies: not where its stages are, then.
constexpr int share_columns(const Configuration& c) { return c.tile_n / c.cluster_k; }
constexpr int share_bytes(const Configuration& c) { return 4 * c.tile_m * share_columns(c); }  // from one group of one block
constexpr int partial_offset(const Configuration& c) { return c.cluster_k > 1 ? ring_bytes(c) : 0; }
constexpr int partial_bytes(const Configuration& c) { return parts(c) * share_bytes(c); }
constexpr int barrier_offset(const Configuration& c) { return partial_offset(c) + partial_bytes(c); }  // of `partials`, in a cluster
constexpr int shared_bytes(const Operation& o, const Configuration& c) {
  if (c.cluster_k > 1) return barrier_offset(c) + 8;
  return finishes_shared(o, c) && partial_bytes(c) > ring_bytes(c) ? partial_bytes(c) : ring_bytes(c);
}

// ---- arrivals ---------------------------------------------------------------------------------------------
constexpr int partials_arrivals() { return 1; }  // this block's own arrive-and-expect; the bytes come from it and its peers
constexpr int expected_bytes(const Configuration& c) { return partial_bytes(c); }

// Steps along K of the block with this rank in its cluster: [first_step(rank), first_step(rank + 1)).
constexpr i32 first_step(i32 k, i32 rank, const Configuration& c) {
  const i32 steps = (k + c.tile_k - 1) / c.tile_k;
  return i32(i64(steps) * rank / c.cluster_k);
}

}  // namespace foretile::ffma
