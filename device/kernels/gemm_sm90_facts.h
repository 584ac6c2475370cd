// Facts of the Hopper kernel, each stated once: shared-memory map, bytes a stage, arrive counts, register split.
// Used alike by the kernel, the model, the emulator, the tuner and the messages.
#pragma once
#include "foretile/device/configuration.h"
#include "foretile/device/layout/swizzle.h"
#include "foretile/device/operation.h"

namespace foretile::sm90 {

constexpr int kWarpgroup = 128;           // threads
constexpr int kMmaRows = 64;              // rows of one wgmma
constexpr int kTileRowBytes = 128;        // of A and B along K in a slab: one 128-byte swizzle atom
constexpr int kSharedMemoryLimit = 227 * 1024;  // bytes a block, compute capability 9.0 (CUDA C++ Programming Guide, table "Technical Specifications")
constexpr int kRegistersPerSm = 65536;

// Cooperative: a warpgroup takes one or two 64-row bands of the tile. Ping-pong: two warpgroups, a tile each.
constexpr int consumer_warpgroups(const Configuration& c) {
  if (c.schedule == Schedule::pingpong) return 2;
  return c.tile_m == 64 ? 1 : c.tile_m == 192 ? 3 : 2;
}
// 64-row bands of the tile that one consumer warpgroup multiplies.
constexpr int bands_per_warpgroup(const Configuration& c) {
  return c.tile_m / kMmaRows / (c.schedule == Schedule::pingpong ? 1 : consumer_warpgroups(c));
}
constexpr int threads(const Configuration& c) { return kWarpgroup * (1 + consumer_warpgroups(c)); }
constexpr int accumulators_per_thread(const Configuration& c) { return bands_per_warpgroup(c) * c.tile_n / 2; }

// Registers a thread: at launch (all alike), then after the producer released and the consumers acquired theirs.
// The pool of a block is what it launched with; a split that needs more would wait for ever.
constexpr int launch_registers(const Configuration& c) {
  const int r = kRegistersPerSm / threads(c) / 8 * 8;
  return r > 248 ? 248 : r;
}
constexpr bool reallocates_registers(const Configuration& c) { return consumer_warpgroups(c) > 1; }
constexpr int producer_registers(const Configuration& c) { return consumer_warpgroups(c) == 3 ? 32 : accumulators_per_thread(c) > 128 ? 24 : 40; }
constexpr int consumer_registers(const Configuration& c) {
  return reallocates_registers(c)
             ? (launch_registers(c) * (1 + consumer_warpgroups(c)) - producer_registers(c)) / consumer_warpgroups(c) / 8 * 8
             : launch_registers(c);
}

// ---- shared memory: [ring of A tiles][ring of B tiles][staging of D][barriers] ---------------------------
// A stage of A is `slabs` slabs of tile_m rows by 128 bytes, one behind the other; B alike. Thin tiles take several slabs
// a stage, so that a barrier round covers enough bytes.
constexpr int slab_elements(const Operation& o) { return kTileRowBytes / size_of(o.a); }
constexpr int slabs(const Operation& o, const Configuration& c) { return c.tile_k / slab_elements(o); }
constexpr int a_slab_bytes(const Configuration& c) { return c.tile_m * kTileRowBytes; }
constexpr int b_slab_bytes(const Configuration& c) { return c.tile_n * kTileRowBytes; }
constexpr int a_stage_bytes(const Operation& o, const Configuration& c) { return slabs(o, c) * a_slab_bytes(c); }
constexpr int b_stage_bytes(const Operation& o, const Configuration& c) { return slabs(o, c) * b_slab_bytes(c); }
constexpr int stage_bytes(const Operation& o, const Configuration& c) { return a_stage_bytes(o, c) + b_stage_bytes(o, c); }

// Gate and up columns in halves of B's rows: the first half of a tile's columns are gates, the second their up columns, so
// that the two of a pair meet in the registers of one thread.
constexpr int tile_halves(const Operation& o) { return o.gating == Gating::halves ? 2 : 1; }
constexpr int tile_outputs(const Operation& o, const Configuration& c) { return c.tile_n / tile_halves(o); }  // columns of D

// D leaves by TMA where nothing but scaling, gating and rounding stands between the accumulators and it; else threads write
// it, out of accumulators staged as fp32.
constexpr bool stores_by_tma(const Operation& o) { return o.output == Alignment::tma && (is_plain(o) || o.gating != Gating::none); }
constexpr DType staged_type(const Operation& o) { return stores_by_tma(o) ? o.d : DType::fp32; }
// A chunk is 64 rows by as many columns as fill the widest swizzle span that divides the tile.
constexpr Swizzle d_swizzle(const Operation& o, const Configuration& c) { return swizzle_for_row(tile_outputs(o, c) * size_of(staged_type(o))); }
constexpr int d_chunk_columns(const Operation& o, const Configuration& c) { return span_of(d_swizzle(o, c)) / size_of(staged_type(o)); }
constexpr int d_chunk_bytes(const Operation& o, const Configuration& c) { return kMmaRows * span_of(d_swizzle(o, c)); }
constexpr int d_chunks_per_band(const Operation& o, const Configuration& c) { return tile_outputs(o, c) / d_chunk_columns(o, c); }
constexpr int d_staging_bytes(const Operation& o, const Configuration& c) { return consumer_warpgroups(c) * c.store_buffers * d_chunk_bytes(o, c); }

constexpr int a_offset(const Configuration&) { return 0; }
constexpr int b_offset(const Operation& o, const Configuration& c) { return c.stages * a_stage_bytes(o, c); }
constexpr int d_offset(const Operation& o, const Configuration& c) { return c.stages * stage_bytes(o, c); }
constexpr int barrier_offset(const Operation& o, const Configuration& c) { return d_offset(o, c) + d_staging_bytes(o, c); }
constexpr int full_barrier(int stage) { return 8 * stage; }                                  // within the barriers
constexpr int empty_barrier(const Configuration& c, int stage) { return 8 * (c.stages + stage); }
constexpr int turn_barrier(const Configuration& c, int warpgroup) { return 8 * (2 * c.stages + warpgroup); }
constexpr int barrier_bytes(const Configuration& c) { return 8 * (2 * c.stages + (c.schedule == Schedule::pingpong ? 2 : 0)); }
constexpr int shared_bytes(const Operation& o, const Configuration& c) { return barrier_offset(o, c) + barrier_bytes(c); }

// ---- arrivals ---------------------------------------------------------------------------------------------
// full: the producer's one arrive-and-expect; the bytes follow by TMA, from every block that multicasts here.
constexpr int full_arrivals() { return 1; }
// empty: one arrival for each consumer warp that read the stage, from every block this block's loads reach.
constexpr int blocks_reached(const Configuration& c) { return c.cluster_m + c.cluster_n - 1; }
constexpr int empty_arrivals(const Configuration& c) {
  const int readers = c.schedule == Schedule::pingpong ? 1 : consumer_warpgroups(c);
  return readers * (kWarpgroup / 32) * blocks_reached(c);
}
// turn: one arrival a warp of the other consumer warpgroup, after its multiply loop.
constexpr int turn_arrivals() { return kWarpgroup / 32; }

// Named barriers: 0 is the block's own, 1 + w that of consumer warpgroup w, this one that of all consumers.
constexpr int kConsumersBarrier = 8;

// ---- tensor-map boxes: (inner elements, rows); with multicast each block loads its share of the shared tile -----
// Rows beyond the tensor cost TMA as much as rows inside it, so a problem with few rows takes a lower box of A.
constexpr int a_box_rows(const Configuration& c, i64 m) {
  const int share = c.tile_m / c.cluster_n;
  return c.cluster_n == 1 && m < share ? int(round_up(m, 8)) : share;
}
// What the full barrier of a stage expects: all of B's tile, and of A's as many rows as its boxes have.
constexpr int expected_bytes(const Operation& o, const Configuration& c, int box_rows_of_a) {
  return b_stage_bytes(o, c) + box_rows_of_a * c.cluster_n * slabs(o, c) * kTileRowBytes;
}
// Of halves a box each, which two blocks of a cluster share out.
constexpr int b_box_rows(const Operation& o, const Configuration& c) { return c.tile_n / max_of(tile_halves(o), c.cluster_m); }

}  // namespace foretile::sm90
