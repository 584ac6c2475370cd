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
// split_k groups of warps compute the same outputs, each out of every split_k-th k.
constexpr int warps(const Configuration& c) { return (c.tile_m / warp_rows(c)) * (c.tile_n / warp_columns(c)) * c.split_k; }
constexpr int threads(const Configuration& c) { return 32 * warps(c); }

// Blocks an SM that the launch bounds promise: as many as leave a thread the registers that its tile needs not to spill.
constexpr int registers_wanted(const Configuration& c) { return c.thread_m * c.thread_n > 64 ? 255 : c.thread_m * c.thread_n > 32 ? 168 : 128; }
constexpr int resident_blocks(const Configuration& c) {
  const int blocks = 65536 / ((registers_wanted(c) + 7) / 8 * 8 * threads(c));
  return blocks < 1 ? 1 : blocks > 8 ? 8 : blocks;
}

// Clocks that a multiply takes of its SM partition's register file, on average, as compiled for sm_90a and counted in the
// machine code (tools/ladder_table.py): larger register tiles leave the compiler more ways to keep an operand.
constexpr double register_clocks(const Configuration& c) { return c.thread_m * c.thread_n > 64 ? 1.22 : c.thread_m * c.thread_n > 32 ? 1.32 : 1.5; }

// ---- copies -----------------------------------------------------------------------------------------------
// A warp copies a tile in units of four elements a lane. Along K: 16 rows by 8 deep, whole sectors of global memory;
// where the operand stands transposed, as many rows as the tile has, up to 128, by what is left.
constexpr int unit_rows(bool transposed, int rows) { return transposed ? (rows < 128 ? rows : 128) : rows < 16 ? rows : 16; }
constexpr int unit_depth(bool transposed, int rows) { return 128 / unit_rows(transposed, rows); }
constexpr int units(const Configuration& c, int rows) { return rows * c.tile_k / 128; }  // of one operand, a step
constexpr bool whole_units(const Configuration& c, bool transposed, int rows) {
  return rows % unit_rows(transposed, rows) == 0 && 128 % unit_rows(transposed, rows) == 0 && c.tile_k % unit_depth(transposed, rows) == 0;
}
constexpr int units_each(const Configuration& c, int rows) { return (units(c, rows) + warps(c) - 1) / warps(c); }  // a warp

// ---- shared memory: [two stages of A's and B's tile] or, at the end, [split_k tiles of partial sums] --------------------
// Tiles stand as fp32, rows of M (or N): tile(k, row). The pad of four floats keeps 16-byte alignment and puts the rows that
// a transposing store touches into different banks.
constexpr int kStages = 2;
constexpr int kPad = 4;
constexpr int a_pitch(const Configuration& c) { return c.tile_m + kPad; }  // floats
constexpr int b_pitch(const Configuration& c) { return c.tile_n + kPad; }
constexpr int a_bytes(const Configuration& c) { return 4 * c.tile_k * a_pitch(c); }
constexpr int b_bytes(const Configuration& c) { return 4 * c.tile_k * b_pitch(c); }
constexpr int stage_bytes(const Configuration& c) { return a_bytes(c) + b_bytes(c); }
constexpr int partial_bytes(const Configuration& c) { return c.split_k > 1 ? 4 * c.split_k * c.tile_m * c.tile_n : 0; }
constexpr int shared_bytes(const Configuration& c) { return kStages * stage_bytes(c) > partial_bytes(c) ? kStages * stage_bytes(c) : partial_bytes(c); }

}  // namespace foretile::ffma
