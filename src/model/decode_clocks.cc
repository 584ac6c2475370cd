// The time of the decode kernel: weights streamed from DRAM, and what the stream does not hide.
#include <algorithm>
#include <cmath>

#include "foretile/device/legality.h"
#include "model/anatomy.h"

namespace foretile {

// Fills in the steps of one SM and the epilogue, in SM clocks; see Anatomy. A step is one of all the blocks of an SM.
void decode_clocks(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions, Anatomy& x) {
  const auto& k = conditions.dependent ? machine.decode_dependent : machine.decode;
  const i64 units = x.launch.blocks / x.launch.cluster;
  const i64 resident = x.occupancy.blocks_per_sm;
  i64 waves = 1;
  if (c.split_k > 1) {  // a cluster a tile: more clusters than fit wait for the first to leave
    const i64 at_once = min_of(units, decode::clusters_at_once(c, x.sms, int(min_of(resident, 2))));
    waves = ceil_div(units, at_once);
    x.concurrent = at_once;
    x.rounds = waves;
  } else {
    x.concurrent = min_of(units, i64(x.sms) * resident);
    x.rounds = ceil_div(x.tiles, x.concurrent);
  }
  const i64 blocks = x.concurrent * c.split_k;
  x.busy_sms = int(min_of(x.sms, blocks));
  x.blocks_on_sm = int(ceil_div(blocks, x.sms));
  x.full_share = double(x.tiles / x.concurrent * x.concurrent) / double(x.tiles);

  const i64 slices = ceil_div(p.k, i64(decode::kSliceUnit));
  x.steps = ceil_div(slices, c.split_k) * (decode::kSliceUnit / c.tile_k);  // of the longest slice of K
  x.step_latency = k.latency_clocks / (c.stages - 1);
  x.step_math = x.blocks_on_sm * 2.0 * c.tile_m * c.tile_n * c.tile_k / machine.tensor_rate(o.a);
  const double bytes = x.blocks_on_sm * double(x.tile_columns + c.tile_m) * c.tile_k * size_of(o.a);
  x.step_l2 = std::max(bytes / machine.l2_port_bytes_per_clock, bytes * x.busy_sms / (machine.l2_bytes_per_clock * machine.l2_coalescing));
  x.step_shared = x.blocks_on_sm * double(c.tile_n + decode::bands(c) * c.tile_m) * c.tile_k * size_of(o.a) / machine.shared_bytes_per_clock;
  x.power = k.power;

  // As many rows of the tile as the consumers finish at once are a round; operands of the epilogue come from L2 or DRAM.
  const int runs = decode::share_columns(o, c) / (o.gating == Gating::none ? 4 : 8);
  const double rounds = std::ceil(std::min<double>(double(p.m), c.tile_m) / std::max(1, decode::consumer_threads(c) / runs));
  const double before = k.round_shown * double(x.rounds / waves - 1);
  // What a full ring has to multiply when its last line has come: the deeper, the more.
  const double left = k.stage_clocks * double(min_of(c.stages, x.steps)) * c.tile_k / decode::kSliceUnit;
  x.epilogue_fixed = k.epilogue_clocks + left + (o.has_c || o.has_bias || o.has_residual ? machine.dram_latency : 0);
  x.epilogue_issue = k.round_clocks * rounds * (1 + before);
  x.epilogue = x.epilogue_exposed = x.epilogue_fixed + x.epilogue_issue;
  if (c.split_k > 1) {
    const double sent = std::min<double>(double(p.m), c.tile_m) * c.tile_n * 4 * (c.split_k - 1) / c.split_k / 1024;  // KiB a block
    x.exchange = k.exchange_clocks + k.exchange_clocks_per_kib * sent;
  }
  x.more_waves = double(waves - 1) * k.wave_seconds;
  x.launch_seconds = k.launch_seconds;
  // Weights that several rows of tiles read cannot pass L2 as evict-first.
  const double efficiency = x.grid.tiles_m == 1 ? k.dram_efficiency : std::min(k.dram_efficiency, machine.dram_efficiency);
  x.dram_seconds = x.traffic.dram_bytes() / (machine.dram_bandwidth * efficiency);
  const double walked = double(x.steps) * double(x.rounds);
  x.step = std::max({x.step_latency, x.step_math, x.step_l2, x.step_shared});
  x.core_clocks = walked * x.step + x.epilogue + x.exchange;
  x.flops_executed = double(x.tiles) * c.split_k * 2.0 * c.tile_m * c.tile_n * double(x.steps) * c.tile_k;
  x.shared_traffic = double(x.tiles) * c.split_k * double(x.steps) * (c.tile_n + c.tile_m) * c.tile_k * size_of(o.a) * 2;
}

double decode_seconds_at(const Anatomy& x, double clock) {
  const double walked = double(x.steps) * double(x.rounds) / clock;
  double sum = 0;
  for (const double part : {x.dram_seconds, walked * x.step_latency, walked * x.step_math, walked * x.step_l2, walked * x.step_shared}) sum += std::pow(part, x.power);
  return x.launch_seconds + std::pow(sum, 1 / x.power) + (x.epilogue + x.exchange) / clock + x.more_waves;
}

void decode_parts(const Anatomy& x, Forecast& f) {
  f.epilogue = x.epilogue / x.clock;
  f.latency = (x.epilogue + x.exchange) / x.clock + x.more_waves;
  if (x.step_latency >= x.step) f.latency += double(x.steps) * double(x.rounds) * x.step_latency / x.clock;
}

}  // namespace foretile
