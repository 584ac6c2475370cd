// The time of the decode kernel: weights streamed from DRAM, and what the stream does not hide.
#include <algorithm>
#include <cmath>

#include "foretile/device/legality.h"
#include "model/anatomy.h"

namespace foretile {

// Up to so many rows of tiles, SMs that want the same lines of A stand side by side, and L2 answers them together (seen on an H200:
// with more rows all SMs together draw what L2 gives one by one).
constexpr i64 kRowsSideBySide = 8;
// Of the places for clusters of four, with a block an SM, an H200 has a sixteenth less: 64 clusters, two for each of 32 places, take as
// long as three one after the other. Not every GPC has all its SMs. Where two blocks fit on an SM the 46 seen running at once all fit.
constexpr i64 places_of(const Configuration& c, i64 clusters, i64 resident) { return c.split_k == 4 && resident == 1 ? max_of(1, clusters * 15 / 16) : clusters; }

// Fills in the steps of one SM and the epilogue, in SM clocks; see Anatomy. A step is one of all the blocks of an SM.
void decode_clocks(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions, Anatomy& x) {
  const auto& k = conditions.dependent ? machine.decode_dependent : machine.decode;
  const i64 units = x.launch.blocks / x.launch.cluster;
  const i64 resident = x.occupancy.blocks_per_sm;
  if (c.split_k > 1) {  // a cluster a tile: more clusters than fit wait for the first to leave
    x.concurrent = min_of(units, places_of(c, decode::clusters_at_once(c, x.sms, int(min_of(resident, 2))), resident));
    x.rounds = x.waves = ceil_div(units, x.concurrent);
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
  // Lines of 128 bytes that a block's stage takes, and those of its box that lie beyond the last row of A: they are filled with
  // zeros, but take longer than lines that exist.
  const double rows = double(p.m) / double(x.grid.tiles_m), slabs = decode::slabs(o, c);
  x.stage_lines = (x.tile_columns + rows) * slabs, x.empty_lines = (decode::token_box_rows(c) - rows) * slabs;
  const double port = decode::kTileRowBytes / machine.l2_port_bytes_per_clock;
  x.step_latency = (k.latency_clocks + x.stage_lines * port) / decode::stages_in_flight(c);
  x.step_math = x.blocks_on_sm * 2.0 * c.tile_m * c.tile_n * c.tile_k / machine.tensor_rate(o.a);
  x.step_l2 = x.blocks_on_sm * x.stage_lines * port;
  x.step_issue = k.step_clocks * decode::bands_per_warpgroup(c) * c.tile_k / decode::kSliceUnit;  // a warpgroup alone: its multiplies, one after the other
  x.step_shared = x.blocks_on_sm * double(c.tile_n + decode::bands(c) * c.tile_m) * c.tile_k * size_of(o.a) / machine.shared_bytes_per_clock;
  x.step = norm(x.step_math, x.step_shared, x.step_l2, x.step_latency, x.step_issue);
  if (conditions.dependent) {
    if (resident == 1 && 2 * blocks > x.sms && blocks < x.sms) x.crowded = std::pow(double(x.sms) / double(blocks), k.crowding);
    if (resident > 1 && blocks <= x.sms) x.paired = k.paired;
  }

  // As many rows of the tile as the consumers finish at once are a round; operands of the epilogue come from L2 or DRAM.
  const int runs = decode::share_columns(o, c) / (o.gating == Gating::none ? 4 : 8);
  const double rounds = std::ceil(std::min<double>(double(p.m), c.tile_m) / std::max(1, decode::consumer_threads(c) / runs));
  x.epilogue_fixed = o.has_c || o.has_bias || o.has_residual ? machine.dram_latency : 0;
  x.epilogue_issue = k.round_clocks * rounds;
  x.between_tiles = k.tile_clocks + x.epilogue_issue;
  x.epilogue = x.epilogue_exposed = x.epilogue_fixed + x.epilogue_issue;
  if (c.split_k > 1) {
    const double sent = std::min<double>(double(p.m), c.tile_m) * c.tile_n * 4 * (c.split_k - 1) / c.split_k / 1024;  // KiB a block
    x.exchange = k.exchange_clocks + k.exchange_clocks_per_kib * sent;
  }
  // Waves of clusters. Where GPCs have no room for as many as there are SMs, some SMs hold two blocks and some one: clusters then end
  // at different times, and others stream while the next ones start.
  x.uneven = c.split_k > 2 && x.blocks_on_sm > 1;
  x.ways_out = x.uneven ? 1 : double(x.waves);
  if (x.waves > 1) x.more_waves = double(x.waves - 1) * (x.uneven ? k.uneven_wave_seconds : k.wave_seconds) + (x.uneven ? k.uneven_waves_seconds : 0);
  x.early = conditions.dependent && c.split_k == 1 && resident > 1 && x.rounds * x.steps <= c.stages + decode::prefetched_stages(c);
  x.launch_seconds = k.launch_seconds * (x.early ? k.early_launch : 1);
  // Blocks that walk tiles read the same weights side by side, and L2 answers them together. Clusters do not: of two that want the same
  // lines every second stands at L2's other partition and misses them once more, of many all but one.
  if (c.split_k > 1) x.missed_again = k.missed_again * (1 - std::exp2(1 - double(x.grid.tiles_m)));
  x.dram_seconds = x.traffic.dram_bytes() / (machine.dram_bandwidth * k.dram_efficiency) * (1 + x.missed_again);
  // The deeper its ring, the further an SM to which L2 is near runs ahead of others, which read on alone in the end. Several rows of tiles
  // hold the same weights, but no more than there are count.
  const double held = double(blocks) * c.stages * decode::weight_bytes(o, c, x.tile_columns);
  x.held_seconds = std::min(held, x.traffic.b_bytes) / machine.dram_bandwidth;
  x.behind_seconds = k.run_ahead * x.held_seconds;
  x.side_by_side = x.grid.tiles_m <= kRowsSideBySide;
  x.empty_share = std::pow(kSlabsUnderWay / (double(blocks) * decode::stages_in_flight(c) * slabs), k.empty_line_power);
  const double empty = double(x.tiles) * c.split_k * double(x.steps) * x.empty_lines * k.empty_line_bytes * x.empty_share;
  x.l2_requested = x.traffic.b_bytes * x.grid.tiles_m + x.traffic.a_bytes * x.grid.tiles_n / (x.side_by_side ? machine.l2_coalescing : 1) + empty;
  x.l2_seconds = x.l2_requested / (machine.l2_bytes_per_clock * machine.boost_mhz * 1e6 * k.l2_efficiency) * x.crowded;
  x.power = k.power, x.memory_power = k.memory_power;
  x.core_clocks = decode_busiest(x) + x.epilogue + x.exchange;
  x.flops_executed = double(x.tiles) * c.split_k * 2.0 * c.tile_m * c.tile_n * double(x.steps) * c.tile_k;
  x.shared_traffic = double(x.tiles) * c.split_k * double(x.steps) * (c.tile_n + c.tile_m) * c.tile_k * size_of(o.a) * 2;
}

double decode_busiest(const Anatomy& x) {
  return double(x.rounds) * double(x.steps) * x.step * x.paired + double(x.rounds / x.waves - 1) * x.between_tiles;
}

double decode_seconds_at(const Anatomy& x, double clock) {
  const double memory = std::pow(x.dram_seconds, x.memory_power) + std::pow(x.l2_seconds, x.memory_power);
  const double sum = std::pow(memory, x.power / x.memory_power) + std::pow(decode_busiest(x) / clock, x.power);
  return x.launch_seconds + std::pow(sum, 1 / x.power) + (x.epilogue + x.exchange) / clock * x.ways_out + x.more_waves + x.behind_seconds;
}

void decode_parts(const Anatomy& x, Forecast& f) {
  f.epilogue = x.epilogue / x.clock;
  f.latency = (x.epilogue + x.exchange) / x.clock * x.ways_out + x.more_waves + x.behind_seconds;
  if (x.step_latency >= std::max({x.step_math, x.step_shared, x.step_l2, x.step_issue})) f.latency += double(x.steps) * double(x.rounds) * x.step_latency / x.clock;
}

}  // namespace foretile
