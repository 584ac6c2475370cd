// The time of the fp32 kernels. For rectangles: how fast multiplies are issued and registers read, and what the barrier of a
// step adds. For few rows: what a warp loads at once and how long that takes to come.
#include <algorithm>
#include <cmath>

#include "foretile/device/legality.h"
#include "model/anatomy.h"

namespace foretile {

// Constants of this family (register_clocks(), kSumClocks, kClusterClocks, kFetchedClocks) follow from 324 times of 18 tiles and
// splits on one H200, 2026-11-30 (bench/results/ffma_fp32_h200.csv): clocks a step and clocks a tile of each, by least squares,
// alike from all shapes and from those with an even hash (tools/fit/data.h).
namespace {

constexpr double kStepInstructions = 30;     // of a warp: stages, edges, the loop
constexpr double kNarrowInstructions = 8;    // a unit of four elements that cannot be loaded at once, on top

// What a warp's multiply takes of its scheduler: one clock, or more where a scheduler has fewer than 32 lanes.
double multiply_clocks(const Machine& machine) { return 64.0 * machine.schedulers / machine.fp32_rate; }

}  // namespace

FfmaWarp ffma_warp(const Machine& machine, const Operation& o, const Configuration& c) {
  const double of_a = ffma::units_each(c, c.tile_m), of_b = ffma::units_each(c, c.tile_n);
  const bool wide = o.inputs == Alignment::tma;
  FfmaWarp w;
  w.multiplies = double(c.thread_m) * c.thread_n * c.tile_k / c.split_k;
  w.multiply_clocks = std::max(ffma::register_clocks(c), multiply_clocks(machine));
  w.loads = double(c.thread_m + c.thread_n) / 4 * c.tile_k / c.split_k;
  w.stores = of_a * (o.transpose_a ? 1.0 : 4.0) + of_b * (o.transpose_b ? 1.0 : 4.0);
  w.units = of_a + of_b;
  w.unit_clocks = 1 + kAddressInstructions + (wide ? 0 : kNarrowInstructions);
  w.loop_clocks = kStepInstructions;
  w.clocks = w.multiplies * w.multiply_clocks + w.loads + w.stores + w.units * w.unit_clocks + w.loop_clocks;
  // Nobody hides from a warp alone the barrier of a step and its first loads, or its instructions where they come from farther.
  w.kept = w.multiplies + w.loads + w.stores + w.units * w.unit_clocks + w.loop_clocks <= kKeptInstructions;
  w.alone = w.kept ? w.clocks + machine.simt.step_clocks + machine.shared_latency : kFetchedClocks * w.clocks;
  w.wavefronts = w.loads * 2 + w.units * 4;  // pairs of lanes share words of a 16-byte load: two wavefronts
  w.lines = w.units * (wide ? 16 : 64);      // each row of a unit is a line of its own
  return w;
}

// Fills in the steps of one SM and the epilogue, in SM clocks; see Anatomy. A step is one of all the blocks of an SM.
void ffma_clocks(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, Anatomy& x) {
  const double warps = ffma::warps(c), blocks = x.blocks_on_sm;
  x.steps = ceil_div(ceil_div(p.k, c.tile_k), c.cluster_k);  // of one block
  const FfmaWarp w = ffma_warp(machine, o, c);
  const double rows = std::min<double>(c.tile_m, double(p.m)), columns = std::min<double>(c.tile_n, double(p.n));
  const double bytes = (rows + columns) * 4 * c.tile_k;

  const double on_a_scheduler = std::ceil(blocks * warps / machine.schedulers);  // warps of the fullest one
  x.step_math = on_a_scheduler * w.multiplies * multiply_clocks(machine);
  x.step_issue = on_a_scheduler > 1 ? on_a_scheduler * w.clocks : w.alone;
  x.step_shared = blocks * warps * (w.wavefronts + w.lines) * 32 / machine.lsu_lanes;
  x.step_l2 = blocks * std::max(bytes / machine.l2_port_bytes_per_clock, bytes * x.busy_sms / (machine.l2_bytes_per_clock * machine.l2_coalescing));
  // What a step asks for is there when the next one ends.
  x.step_latency = x.warm * kBusyL2 * machine.l2_latency + (1 - x.warm) * fp32_latency_load(c) * machine.dram_latency + machine.simt.step_clocks / 2;
  x.step = norm(x.step_math, x.step_shared, x.step_issue, x.step_l2, x.step_latency);

  // A block of a cluster finishes its share of the tile, and gets as many sums of each group as a tile has in all.
  const double values = double(c.tile_m) * c.tile_n * blocks / 32, finished = values / c.cluster_k;
  x.epilogue_issue = finished * (epilogue_instructions(o) + kFfmaStoreInstructions) / machine.schedulers;
  const bool shared = ffma::finishes_shared(o, c);
  x.epilogue_shared = shared ? kSumClocks * values * c.split_k : 0;
  // All blocks store at once, at the end of a round: as fast as DRAM takes it.
  const double dram = machine.dram_bandwidth * machine.dram_efficiency / (machine.boost_mhz * 1e6);  // B/clk
  x.epilogue_store = std::max(finished * 2, rows * columns / c.cluster_k * size_of(o.d) * blocks * x.busy_sms / dram);
  x.epilogue_fixed = (o.has_c || o.has_residual ? machine.dram_latency : 0) + (shared ? machine.simt.step_clocks : 0);
  if (c.cluster_k > 1) x.exchange = kClusterClocks;
  x.epilogue = norm(x.epilogue_issue, x.epilogue_store) + x.epilogue_shared + x.epilogue_fixed;
  x.epilogue_exposed = x.epilogue_fixed + (x.epilogue - x.epilogue_fixed) / (blocks > 1 ? 2 : 1);  // another block multiplies meanwhile
  x.tile_clocks = 2 * machine.dram_latency;  // the first two steps' loads have nothing to hide under
  x.core_clocks = double(x.rounds) * (double(x.steps) * x.step + x.tile_clocks + x.exchange + x.epilogue_exposed);
  x.fill = machine.simt.fill_clocks + machine.dram_latency;
  const double steps = double(x.tiles) * double(ceil_div(p.k, c.tile_k));  // of all blocks
  x.flops_executed = steps * 2 * c.tile_m * c.tile_n * c.tile_k;
  x.shared_traffic = steps * warps * (w.loads + w.stores) * 512;
}

// A step is one of all the blocks of an SM: each warp loads what 128 elements of K take and multiplies them.
void gemv_clocks(const Machine& machine, const Operation& o, const Configuration& c, Anatomy& x, const Problem& p) {
  const double warps = c.split_k, blocks = x.blocks_on_sm, sums = c.tile_m * c.tile_n;
  x.steps = ceil_div(p.k, i64(gemv::kStep) * c.split_k);
  const double loads = c.tile_m + c.tile_n;
  x.step_math = blocks * warps * 4 * sums * multiply_clocks(machine) / machine.schedulers;
  x.step_issue = blocks * warps * (4 * sums * multiply_clocks(machine) + loads * (1 + kAddressInstructions) + kGemvLoopInstructions) / machine.schedulers;
  x.step_shared = blocks * warps * loads * 4 * 32 / machine.lsu_lanes;  // lines of L1
  const double bytes = (c.tile_m + c.tile_n) * 4.0 * gemv::kStep * warps;
  x.step_l2 = blocks * std::max(bytes / machine.l2_port_bytes_per_clock, c.tile_n * 4.0 * gemv::kStep * warps * x.busy_sms / (machine.l2_bytes_per_clock * machine.l2_coalescing));
  x.step_latency = machine.dram_latency * machine.latency_load + 4 * sums + (c.tile_m - 1) * kGemvRowClocks;
  x.step = norm(x.step_math, x.step_shared, x.step_issue, x.step_l2, x.step_latency);
  // Sums to shared memory and back, added over warps and lanes; two barriers.
  x.epilogue_shared = blocks * sums * (2 * warps + 5);
  x.epilogue_issue = blocks * sums * (2 * warps + 12 + epilogue_instructions(o)) / machine.schedulers;
  x.epilogue_fixed = machine.simt.step_clocks + (o.has_c || o.has_residual ? machine.dram_latency : 0);
  x.epilogue = norm(x.epilogue_issue, x.epilogue_shared) + x.epilogue_fixed;
  x.epilogue_exposed = x.epilogue_fixed + (x.epilogue - x.epilogue_fixed) / (blocks > 1 ? 2 : 1);  // other blocks load meanwhile
  x.core_clocks = double(x.rounds) * (double(x.steps) * x.step + x.epilogue_exposed);
  x.fill = machine.simt.fill_clocks + machine.dram_latency;
  x.flops_executed = double(x.tiles) * double(x.steps) * 2 * sums * gemv::kStep * warps;
  x.shared_traffic = double(x.tiles) * sums * 33 * 4 * 2 * warps;
}

}  // namespace foretile
