// The time of the fp32 kernel for few rows: weights streamed from DRAM, as the decode kernel streams them, beside multiplies on the
// FP32 cores.
#include <algorithm>
#include <cmath>

#include "foretile/device/legality.h"
#include "model/anatomy.h"

namespace foretile {

// The constants (anatomy.h, kRows...) were fitted to 381 times of 31 configurations at M = 1, 8, 16 and 32 on one H200, 2026-11-30:
// bench/results/rows_fp32_h200.csv.

RowsWarp rows_warp(const Machine& machine, const Configuration& c) {
  RowsWarp w;
  const double chunks = double(c.tile_k) / rows::kChunk / c.split_k, depths = chunks * rows::kChunk;
  w.multiplies = depths * c.thread_m * c.thread_n;
  w.multiply_clocks = std::max(kRowsMultiplyClocks, 64.0 * machine.schedulers / machine.fp32_rate);
  w.row_loads = chunks * c.thread_m;
  w.column_loads = chunks * c.thread_n;
  // Lanes that agree in pairs take two wavefronts a 16-byte load, others four (model/access.h).
  w.wavefronts = w.row_loads * 2 + w.column_loads * (rows::lanes_down(c) == 1 ? 4 : 2);
  w.clocks = w.multiplies * w.multiply_clocks + (w.row_loads + w.column_loads) * kRowsLoadClocks + kRowsStepInstructions;
  return w;
}

// Fills in the steps of one SM and the way out, in SM clocks; see Anatomy. A step is one of all the blocks of an SM.
void rows_clocks(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, Anatomy& x) {
  const double blocks = x.blocks_on_sm, warps = blocks * rows::consumer_warps(c);
  const RowsWarp w = rows_warp(machine, c);
  if (c.cluster_k > 1) x.waves = x.rounds;  // of clusters: further ones start when places become free
  x.steps = ceil_div(ceil_div(p.k, i64(c.tile_k)), i64(c.cluster_k));  // of one block
  const double line = 4.0 * c.tile_k, height = double(p.m) / double(x.grid.tiles_m);
  x.step_math = warps * w.multiplies * 64 / machine.fp32_rate;
  x.step_issue = warps * w.clocks / machine.schedulers;
  // Besides what is read, what TMA writes.
  x.step_shared = warps * w.wavefronts * 32 / machine.lsu_lanes + blocks * (x.tile_columns + c.tile_m) * line / machine.shared_bytes_per_clock;
  x.step_l2 = blocks * (x.tile_columns + height) * line / machine.l2_port_bytes_per_clock;
  x.step_latency = kRowsLatencyClocks / c.stages;
  x.step = norm(x.step_math, x.step_shared, x.step_l2, x.step_latency, x.step_issue);

  // Sums to shared memory and back, of every group of warps; barriers. The way out of a block's last tile hides under nothing.
  const double values = double(c.tile_m) * c.tile_n * blocks / 32;
  x.epilogue_shared = 2 * values * c.split_k * kRowsSumClocks;
  x.epilogue_issue = values / c.cluster_k * epilogue_instructions(o) / machine.schedulers;
  x.epilogue_fixed = kRowsTileClocks + (o.has_c || o.has_bias || o.has_residual ? machine.dram_latency : 0);
  x.epilogue = x.epilogue_exposed = norm(x.epilogue_issue, x.epilogue_shared) + x.epilogue_fixed;
  if (c.cluster_k > 1) x.exchange = kRowsClusterClocks;
  x.more_waves = double(x.waves - 1) * kRowsWaveSeconds;
  x.streams_rows = true, x.launch_seconds = kRowsLaunchSeconds;
  x.dram_seconds = x.traffic.dram_bytes() / (machine.dram_bandwidth * kRowsDramEfficiency);
  x.l2_requested = x.traffic.b_bytes * x.grid.tiles_m + x.traffic.a_bytes * x.grid.tiles_n;
  x.l2_seconds = x.l2_requested / (machine.l2_bytes_per_clock * machine.boost_mhz * 1e6);
  x.core_clocks = rows_busiest(x) + x.epilogue + x.exchange;
  const double steps = double(x.tiles) * double(ceil_div(p.k, i64(c.tile_k)));  // of all blocks
  x.flops_executed = steps * 2 * c.tile_m * c.tile_n * c.tile_k;
  x.shared_traffic = steps * (rows::consumer_warps(c) * w.wavefronts * 128 + (c.tile_n + c.tile_m) * line);
}

double rows_busiest(const Anatomy& x) { return double(x.rounds) * double(x.steps) * x.step + double(x.rounds - 1) * x.epilogue; }

// The stream and the multiplies get in each other's way the more, the more alike they are.
double rows_seconds_at(const Anatomy& x, double clock) {
  double sum = 0;
  for (const double part : {x.dram_seconds, x.l2_seconds, rows_busiest(x) / clock}) sum += std::pow(part, kRowsPower);
  return x.launch_seconds + std::pow(sum, 1 / kRowsPower) + (x.epilogue + x.exchange) / clock + x.more_waves;
}

void rows_parts(const Anatomy& x, Forecast& f) {
  f.epilogue = double(x.rounds) * x.epilogue / x.clock;
  f.latency = f.epilogue + x.exchange / x.clock + x.more_waves;
  if (x.step_latency >= std::max({x.step_math, x.step_shared, x.step_l2, x.step_issue})) f.latency += double(x.steps) * double(x.rounds) * x.step_latency / x.clock;
}

}  // namespace foretile
