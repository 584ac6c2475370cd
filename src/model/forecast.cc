// The time of one kernel: clocks of the busiest SM, DRAM beside them, and the clock that the power limit leaves.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "foretile/device/layout/tile_order.h"
#include "foretile/device/legality.h"
#include "model/anatomy.h"
#include "model/banks.h"
#include "model/speed_of_light.h"

namespace foretile {

namespace {

double sixteenth_power(double x) {
  x *= x, x *= x, x *= x;
  return x * x;
}

}  // namespace

// Instructions a value of D costs in the epilogue: conversion and store to staging, then what the operation adds.
// Counted in the code of device/epilogue/: multiply-adds and conversions, the special functions' expansions.
double epilogue_instructions(const Operation& o) {
  double count = 2;
  if (o.has_c) count += 3;
  if (o.has_bias) count += 2;
  if (o.has_residual) count += 3;
  if (o.gating != Gating::none) count += 2;  // the up column's scaling, and the product
  switch (o.activation) {
    case Activation::none: break;
    case Activation::relu: count += 1; break;
    case Activation::silu: count += 10; break;
    case Activation::gelu_tanh: count += 14; break;
    case Activation::gelu_erf: count += 24; break;
  }
  return count;
}

namespace {

// ---- sm90 ---------------------------------------------------------------------------------------------------
// wgmma m64nNk16 reads its A rows and its B columns of 32 bytes from shared memory; every consumer warpgroup reads the
// B tile for itself. TMA writes both tiles once, beside the reads: counters show reads alone in the data pipe, and tensor
// cores at 97 % where reads and writes together would have held them to 80 % (tests/counters).
struct SharedBytes {
  double read, written;
};
SharedBytes shared_bytes_a_step(const Operation& o, const Configuration& c, const Problem& p) {
  const double bands = c.tile_m / sm90::kMmaRows, line = sm90::slabs(o, c) * sm90::kTileRowBytes;
  return {bands * (sm90::kMmaRows + c.tile_n) * line, (double(sm90::a_box_rows(c, p.m)) * c.cluster_n + c.tile_n) * line};
}

void sm90_clocks(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions, Anatomy& x) {
  const auto& k = machine.sm90;
  const double rate = machine.tensor_rate(o.a) * k.mma_efficiency;
  x.steps = ceil_div(p.k, c.tile_k);
  x.step_math = 2.0 * c.tile_m * c.tile_n * c.tile_k / rate;
  const SharedBytes shared = shared_bytes_a_step(o, c, p);
  x.step_shared = std::max(shared.read, shared.written) / machine.shared_bytes_per_clock;
  // What the ring asks of L2: real rows only, a multicast tile once a cluster.
  const double rows = std::min<double>(c.tile_m, double(p.m)) / c.cluster_n, columns = std::min<double>(c.tile_n, double(p.n)) / c.cluster_m;
  const double bytes = (rows + columns) * c.tile_k * size_of(o.a);
  x.step_l2 = bytes / machine.l2_port_bytes_per_clock;
  // A stage is full when its slowest line has come, and that one comes from DRAM. A stage is busy while it is loaded and
  // while it is multiplied; the other stages cover the load.
  const double latency = (machine.dram_latency + machine.tma_latency) * machine.latency_load;
  x.step_latency = latency / (c.stages - 1);
  // The barrier round of a stage: the producer waits, announces and issues; consumers wait, issue and release.
  const bool cluster = c.cluster_m * c.cluster_n > 1;
  x.step_issue = k.step_clocks + sm90::slabs(o, c) * k.slab_clocks;
  const double meeting = cluster ? k.cluster_step_clocks : 0;
  x.step = norm(x.step_math, x.step_shared, x.step_l2, x.step_latency, x.step_issue) + meeting;
  const double fed = norm(x.step_math, x.step_shared, x.step_issue) + meeting;  // with its tiles already there

  // Epilogue of one tile by one block. Ping-pong: one warpgroup alone.
  const double warpgroups = c.schedule == Schedule::pingpong ? 1 : sm90::consumer_warpgroups(c);
  const double warps = 4 * warpgroups, values = sm90::accumulators_per_thread(c) / sm90::tile_halves(o), outputs = sm90::tile_outputs(o, c);
  const double tile_d = double(c.tile_m) * outputs * size_of(o.d);
  const double real_d = std::min<double>(c.tile_m, double(p.m)) * std::min<double>(outputs, double(output_columns(o, p.n))) * size_of(o.d);
  x.epilogue_issue = values * epilogue_instructions(o) * warps / machine.schedulers;
  if (sm90::stores_by_tma(o)) {
    x.epilogue_shared = 2 * tile_d / machine.shared_bytes_per_clock;
    const double chunks = double(sm90::bands_per_warpgroup(c)) * sm90::d_chunks_per_band(o, c);
    x.epilogue_fixed = chunks * k.chunk_clocks;
    x.epilogue_store = std::max(real_d / k.store_bytes_per_clock, real_d * x.busy_sms / machine.l2_bytes_per_clock);
  } else {
    x.epilogue_store = values * warps * k.direct_store_clocks;
    x.epilogue_fixed = (o.has_c || o.has_residual ? k.operand_clocks * sm90::bands_per_warpgroup(c) : 0);
  }
  x.epilogue = norm(x.epilogue_issue, x.epilogue_shared, x.epilogue_store) + x.epilogue_fixed;
  x.tile_clocks = k.tile_clocks + (cluster ? k.cluster_tile_clocks : 0);

  const double multiply = double(x.steps) * x.step;
  const double rounds = double(x.rounds);
  if (c.schedule == Schedule::cooperative) {
    // The ring fills up under the epilogue: where the loop waits for its tiles, that gains a ring of steps.
    x.epilogue_exposed = x.epilogue - std::min(x.epilogue, (x.step - fed) * double(min_of(c.stages, x.steps))) * (rounds - 1) / rounds;
    x.core_clocks = rounds * (multiply + x.tile_clocks + x.epilogue_exposed);
  } else {
    // Two warpgroups take turns at the tensor cores. A warpgroup's own round trip is multiply + epilogue, and in it the
    // other one multiplies too: a pair of tiles takes the longer of the two. The last tile's epilogue shows whole.
    const double a_tile = std::max(multiply + x.tile_clocks, (multiply + x.tile_clocks + x.epilogue) / 2);
    x.epilogue_exposed = a_tile - multiply - x.tile_clocks + x.epilogue / rounds;
    x.core_clocks = rounds * a_tile + x.epilogue;
  }
  x.fill = k.fill_clocks + machine.dram_latency + machine.tma_latency;
  x.saved_seconds = (conditions.dependent ? k.dependent_saves : 0) + x.warm * k.warm_saves;
  // L2 keeps its own clock: what all SMs together draw does not fall with theirs.
  x.l2_requested = x.traffic.l2_load_bytes / machine.l2_coalescing;
  x.l2_seconds = x.l2_requested / (machine.l2_bytes_per_clock * machine.boost_mhz * 1e6 * k.l2_efficiency);
  const double tiles = double(x.tiles) * c.cluster_m * c.cluster_n;
  x.flops_executed = tiles * 2.0 * c.tile_m * c.tile_n * double(x.steps) * c.tile_k;
  x.shared_traffic = tiles * (double(x.steps) * (shared.read + shared.written) + (sm90::stores_by_tma(o) ? 2 * tile_d : 0));
}

// ---- simt ---------------------------------------------------------------------------------------------------
}  // namespace

// Of a load: what a step takes of a row is found in L2 where the step before brought the rest of its 64 bytes from DRAM.
double simt_new_lines(const Operation& o, const Configuration& c) {
  if (o.transpose_a || o.transpose_b) return 1;
  return std::min(1.0, double(c.tile_k) * std::min(size_of(o.a), size_of(o.b)) / kDramFetch);
}
double simt_latency(const Machine& machine, const Operation& o, const Configuration& c) {
  const double share = simt_new_lines(o, c);
  return share * machine.dram_latency + (1 - share) * machine.l2_latency;
}

namespace {

void simt_clocks(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, Anatomy& x) {
  const auto& k = machine.simt;
  const double threads = simt::threads(c), warps = threads / 32, blocks = x.blocks_on_sm;
  x.steps = ceil_div(p.k, c.tile_k);
  const double multiply_adds = double(c.tile_m) * c.tile_n * c.tile_k;
  const double fetches = double(ceil_div(c.tile_m * c.tile_k, i64(threads)) + ceil_div(c.tile_n * c.tile_k, i64(threads)));  // a thread

  // Clocks of one block's step on each unit of its SM.
  const double math = 2 * multiply_adds / machine.fp32_rate / k.efficiency;
  const double wide_loads = double(c.tile_k) * (c.thread_m + c.thread_n) / 4;  // 16-byte shared loads a thread
  const double load_clocks = wide_loads * warps * 4 * 32 / machine.lsu_lanes;
  const double deposit_clocks =
      (simt_deposit_wavefronts(c, o.transpose_a, c.tile_m, simt::a_pitch(c)) * double(ceil_div(c.tile_m * c.tile_k, i64(threads))) +
       simt_deposit_wavefronts(c, o.transpose_b, c.tile_n, simt::b_pitch(c)) * double(ceil_div(c.tile_n * c.tile_k, i64(threads)))) *
      warps * 32 / machine.lsu_lanes;
  const double shared = load_clocks + deposit_clocks + fetches * warps * 32 / machine.lsu_lanes;
  const double multiply = double(c.thread_m) * c.thread_n * c.tile_k + wide_loads;  // instructions of a warp
  const double issue = (multiply + fetches * (k.load_instructions + 2)) * warps / machine.schedulers / k.issue_efficiency;
  const double rows = std::min<double>(c.tile_m, double(p.m)), columns = std::min<double>(c.tile_n, double(p.n));
  const double bytes = (rows * size_of(o.a) + columns * size_of(o.b)) * c.tile_k;
  const double l2 = std::max(bytes / machine.l2_port_bytes_per_clock, bytes * x.busy_sms / (machine.l2_bytes_per_clock * machine.l2_coalescing));

  x.step_math = blocks * math, x.step_shared = blocks * shared, x.step_issue = blocks * issue, x.step_l2 = blocks * l2;
  // A block alone: its warps ask for the next step's tiles, then multiply while those fly.
  const double on_a_scheduler = std::ceil(warps / machine.schedulers);
  x.step_latency = k.step_clocks + fetches * k.load_instructions * std::max(on_a_scheduler, kChainClocks) +
                   std::max({simt_latency(machine, o, c) * machine.latency_load, on_a_scheduler * multiply / k.issue_efficiency, load_clocks}) + deposit_clocks + machine.shared_latency;
  x.step = norm(x.step_math, x.step_shared, x.step_issue, x.step_l2, x.step_latency);

  const double values = double(c.thread_m) * c.thread_n;
  x.epilogue_issue = values * (epilogue_instructions(o) + 6) * warps / machine.schedulers * blocks;
  const double real_d = rows * columns * size_of(o.d) * blocks;
  // Scalar stores: a 32-byte sector a store of four neighbours at best.
  x.epilogue_store = std::max(values * warps * blocks * 4, real_d * x.busy_sms / machine.l2_bytes_per_clock);
  x.epilogue_fixed = o.has_c || o.has_residual ? machine.dram_latency : 0;
  x.epilogue = norm(x.epilogue_issue, x.epilogue_store) + x.epilogue_fixed;
  x.epilogue_exposed = x.epilogue;
  x.tile_clocks = machine.dram_latency;  // the first step's loads have nothing to hide under
  x.core_clocks = double(x.rounds) * (double(x.steps) * x.step + x.tile_clocks + x.epilogue);
  x.fill = k.fill_clocks + machine.dram_latency;
  x.flops_executed = double(x.tiles) * double(x.steps) * 2 * multiply_adds;
  x.shared_traffic = double(x.tiles) * double(x.steps) * (wide_loads * 16 * threads + 4 * double(c.tile_m + c.tile_n) * c.tile_k);
}

// ---- time and power ------------------------------------------------------------------------------------------
double eighth_power(double x) {
  x *= x, x *= x;
  return x * x;
}

// What the busiest SM and DRAM take, side by side, and L2 where its own time is known (Hopper's families): then the longest part or
// somewhat more, since rounds wait for each other over all of them; fp32 kernels are slow enough for norm()'s power.
double beside(double x, double y, double z) {
  const double top = std::max({x, y, z});
  if (z == 0) {
    const double rest = std::min(x, y);
    return rest < 0.5 * top ? top : top * std::sqrt(std::sqrt(std::sqrt(std::sqrt(1 + sixteenth_power(rest / top)))));
  }
  return top > 0 ? top * std::sqrt(std::sqrt(std::sqrt(eighth_power(x / top) + eighth_power(y / top) + eighth_power(z / top)))) : 0;
}

// Rounds that fill the machine share DRAM; the blocks of a last, partial round have it to themselves and are as slow as
// one block is.
double seconds_at(const Anatomy& x, double clock) {
  if (x.power > 0) return decode_seconds_at(x, clock);
  if (x.streams_rows) return rows_seconds_at(x, clock);
  const double core = x.core_clocks / clock, full = x.full_share, last = 1 - double(x.rounds - 1) / x.rounds_taken;
  const double around = x.launch_seconds + x.fill / clock - x.saved_seconds;
  if (x.full_share >= 1 || x.rounds == 1) return around + beside(core, x.dram_seconds, x.l2_seconds);
  return around + beside(core * (1 - last), x.dram_seconds * full, x.l2_seconds * full) + beside(core * last, x.dram_seconds * (1 - full), x.l2_seconds * (1 - full));
}

}  // namespace

// A FLOP in tf32 keeps the tensor cores busy for twice as long as one in 16 bits, and is taken to cost as much more: at the power
// limit of an H200 cuBLASLt does 0.48 to 0.54 as many of them on the largest layers.
double flop_energy_ratio(const Machine& machine, DType type) { return type == DType::tf32 ? machine.tensor_rate(DType::bf16) / machine.tensor_rate(type) : 1; }

Energy energy_of(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions, Family family, const Anatomy& x) {
  const double real = flop_count(p), padding = std::max(0.0, x.flops_executed - real);
  // FP32 cores take about as much a multiply-add as tensor cores take for several: never near the limit, left out.
  const double multiply = uses_tensor_cores(family) ? flop_energy_ratio(machine, o.a) * (real * (conditions.data == Data::zeros ? machine.zero_flop_energy : machine.flop_energy) + padding * machine.zero_flop_energy) : 0;
  return {multiply + x.shared_traffic * machine.shared_energy + x.traffic.l2_bytes() * machine.l2_energy + x.busy_clocks() * machine.clock_energy,
          x.traffic.dram_bytes() * machine.dram_energy};
}

namespace {

// Board power at clock `clock`: what is on the SMs' supply goes with the voltage squared.
double watts_at(const Machine& machine, const Energy& energy, const Anatomy& x, double clock) {
  const double voltage = 1 - machine.voltage_slope * (1 - clock / (machine.boost_mhz * 1e6));
  return machine.power_idle + (energy.on_chip * voltage * voltage + energy.off_chip) / seconds_at(x, clock);
}

// What the board may draw. In bursts the clock falls at once, within a single launch even (tests/golden/counters_gemms.csv), but
// not yet as far as the limit will bring it in a tenth of a second.
double power_allowed(const Machine& machine, const Conditions& conditions, Family family) {
  return machine.power_limit * (conditions.regime == Regime::burst && uses_tensor_cores(family) ? machine.burst_power : 1);
}

double clock_of(const Machine& machine, const Energy& energy, const Conditions& conditions, Family family, const Anatomy& x) {
  const double boost = machine.boost_mhz * 1e6;
  if (conditions.regime == Regime::fixed_clock) return conditions.mhz * 1e6;
  const double high = boost * (uses_tensor_cores(family) ? machine.tensor_clock : machine.burst_clock), low = boost * std::min(machine.sustained_clock, machine.burst_clock);
  if (conditions.regime == Regime::burst && !uses_tensor_cores(family)) return high;
  const double limit = power_allowed(machine, conditions, family), at_high = watts_at(machine, energy, x, high);
  if (at_high <= limit) return high;
  // Power above idle goes about with the cube of the clock: a first guess, then secants. Smooth and rising: they converge.
  double previous = high, previous_watts = at_high;
  double clock = std::max(low, high * std::cbrt((limit - machine.power_idle) / (at_high - machine.power_idle)));
  for (int i = 0; i < 5; ++i) {
    const double watts = watts_at(machine, energy, x, clock);
    if (std::abs(watts - limit) < 5e-4 * limit || !(std::abs(watts - previous_watts) > 1e-9 * limit)) break;
    const double next = std::clamp(clock - (watts - limit) * (clock - previous) / (watts - previous_watts), low, high);
    previous = clock, previous_watts = watts;
    clock = next;
  }
  return clock;
}

void check(const Machine& machine, const Conditions& conditions) {
  if (conditions.sm_budget < 0 || conditions.sm_budget > machine.sms)
    throw std::invalid_argument("sm_budget is " + std::to_string(conditions.sm_budget) + ", must be 0 (all) to " + std::to_string(machine.sms));
  if (conditions.regime == Regime::fixed_clock && !(conditions.mhz > 0 && conditions.mhz <= machine.boost_mhz))
    throw std::invalid_argument("mhz is " + std::to_string(conditions.mhz) + ", must be above 0 and at most " + std::to_string(int(machine.boost_mhz)) + " on " + machine.name);
}

void clocks(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions, Anatomy& x) {
  switch (c.family) {
    case Family::sm90: return sm90_clocks(machine, o, c, p, conditions, x);
    case Family::decode: return decode_clocks(machine, o, c, p, conditions, x);
    case Family::ffma: return ffma_clocks(machine, o, c, p, x);
    case Family::rows: return rows_clocks(machine, o, c, p, x);
    case Family::gemv: return gemv_clocks(machine, o, c, x, p);
    case Family::simt: return simt_clocks(machine, o, c, p, x);
  }
}

// A last round that leaves SMs with fewer blocks than the rounds before takes as long as those do. (The blocks of the sm90 family are
// alone on their SMs, those of decode and rows have rounds of their own.)
void last_round(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions, Anatomy& x) {
  const i64 rest = x.tiles % x.concurrent;
  if (needs_hopper(c.family) || x.rounds == 1 || rest == 0) return;
  const int blocks = int(ceil_div(rest * x.launch.cluster, i64(x.sms)));
  if (blocks >= x.blocks_on_sm) return;
  Anatomy y = x;
  y.rounds = 1, y.blocks_on_sm = blocks, y.busy_sms = int(min_of(x.sms, rest * x.launch.cluster));
  clocks(machine, o, c, p, conditions, y);
  const double full = x.core_clocks / double(x.rounds);
  x.last = {blocks, y.step_math, y.step_shared, y.step_issue, y.step_l2, y.step_latency, y.step, y.epilogue_exposed, y.core_clocks};
  x.rounds_taken = double(x.rounds - 1) + y.core_clocks / full;
  x.core_clocks = x.rounds_taken * full;
}

}  // namespace

const char* name_of(Bound bound) {
  switch (bound) {
    case Bound::dram: return "DRAM";
    case Bound::l2: return "L2";
    case Bound::shared_memory: return "shared memory";
    case Bound::tensor_cores: return "tensor cores";
    case Bound::fp32_cores: return "FP32 cores";
    case Bound::issue: return "issue";
    case Bound::latency: return "latency";
    case Bound::launch: return "launch";
  }
  return "?";
}

double norm(double x, double y, double z, double w, double v) {
  const double top = std::max({x, y, z, w, v});
  if (!(top > 0)) return 0;
  double sum = 0;
  for (const double part : {x, y, z, w, v})
    if (part > 0.5 * top) sum += sixteenth_power(part / top);  // the rest adds less than a hundred-thousandth
  return sum < 1 + 1e-6 ? top : top * std::sqrt(std::sqrt(std::sqrt(std::sqrt(sum))));
}

const char* why_not_on(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p) {
  if (needs_hopper(c.family) && machine.compute_capability != 90) return "the sm90, decode and rows families need TMA: compute capability 9.0";
  if (c.cluster_k > 1 && machine.compute_capability < 90) return "blocks of a cluster need compute capability 9.0";
  if (const char* reason = why_not(o, c, p)) return reason;
  if (block_facts(o, c).shared_bytes > machine.shared_bytes_per_block) return "the machine has less shared memory a block";
  return nullptr;
}

Anatomy anatomy(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions) {
  check(machine, conditions);
  if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch < 0) throw std::invalid_argument("m, n, k and batch must not be negative");
  Anatomy x;
  if (p.m == 0 || p.n == 0 || p.batch == 0) return x;
  if (const char* reason = why_not_on(machine, o, c, p)) throw std::invalid_argument(reason);

  x.sms = conditions.sm_budget ? conditions.sm_budget : machine.sms;
  x.launch = launch_shape(o, c, p, x.sms);
  const bool streams = c.family == Family::decode || c.family == Family::rows;
  x.tile_columns = c.family == Family::decode ? decode::balance(o, c, p, x.sms).columns : c.family == Family::rows ? rows::balance(c, p, x.sms).columns : c.tile_n;
  x.grid = streams ? decode_grid(c, p, x.tile_columns) : tile_grid(c, p, int(x.launch.blocks));
  x.registers = registers_of(o, c);
  x.registers.estimated = x.registers.estimated || machine.compute_capability != 90;  // the table was compiled for sm_90a
  x.occupancy = occupancy(machine, int(x.launch.threads), x.registers.count, int(x.launch.shared_bytes));
  if (x.occupancy.blocks_per_sm == 0) throw std::invalid_argument("not one block fits on an SM: " + std::string(name_of(x.occupancy.limiter)));

  x.tiles = tile_count(x.grid);
  x.launch_seconds = machine.launch_seconds;
  const i64 units = x.launch.blocks / x.launch.cluster;  // blocks, or clusters
  // More blocks than fit wait for the first ones to leave; they find the work done only in part.
  const i64 fits = c.cluster_k > 1 ? ffma::clusters_at_once(c, x.sms, x.occupancy.blocks_per_sm) : i64(x.sms) * x.occupancy.blocks_per_sm / x.launch.cluster;
  const i64 resident = min_of(units, fits);
  x.concurrent = min_of(max_of(resident, 1), x.tiles);
  x.rounds = ceil_div(x.tiles, x.concurrent);
  x.busy_sms = int(min_of(x.sms, x.concurrent * x.launch.cluster));
  x.blocks_on_sm = int(max_of(1, ceil_div(x.concurrent * x.launch.cluster, x.sms)));
  x.full_share = double(x.tiles / x.concurrent * x.concurrent) / double(x.tiles);
  x.traffic = traffic(machine, o, c, p, x.grid, x.concurrent);
  x.dram_seconds = x.traffic.dram_bytes() / (machine.dram_bandwidth * machine.dram_efficiency);
  x.warm = conditions.warm ? warm_share(machine, x.traffic) : 0;
  clocks(machine, o, c, p, conditions, x);
  x.rounds_taken = double(x.rounds);
  last_round(machine, o, c, p, conditions, x);
  const Energy energy = energy_of(machine, o, p, conditions, c.family, x);
  x.clock = clock_of(machine, energy, conditions, c.family, x);
  x.watts = std::min(power_allowed(machine, conditions, c.family), watts_at(machine, energy, x, x.clock));
  x.core_seconds = x.core_clocks / x.clock;
  x.fill_seconds = x.fill / x.clock;

  Forecast& f = x.forecast;
  f.seconds = seconds_at(x, x.clock);
  const double loop = x.rounds_taken * double(x.steps) / x.clock;
  f.dram = x.dram_seconds;
  f.l2 = std::max(loop * x.step_l2, x.l2_seconds);
  f.shared_memory = loop * x.step_shared;
  f.compute = loop * x.step_math;
  f.issue = loop * x.step_issue;
  f.launch = x.launch_seconds;
  f.epilogue = x.rounds_taken * x.epilogue_exposed / x.clock;
  f.latency = x.fill_seconds + f.epilogue + x.rounds_taken * (x.tile_clocks + x.exchange) / x.clock;
  if (x.step_latency > std::max({x.step_l2, x.step_shared, x.step_math, x.step_issue})) f.latency += loop * x.step_latency;
  if (c.family == Family::decode) decode_parts(x, f);
  if (c.family == Family::rows) rows_parts(x, f);
  f.waves = double(x.tiles) / double(x.concurrent);
  f.clock_mhz = x.clock / 1e6;
  f.watts = x.watts;
  f.dram_bytes = x.traffic.dram_bytes();
  f.l2_bytes = x.traffic.l2_bytes();
  f.l2_hit_rate = x.traffic.l2_hit_rate;
  f.blocks_per_sm = x.occupancy.blocks_per_sm;
  f.registers = x.registers.count;
  f.registers_estimated = x.registers.estimated;
  f.shared_bytes = int(x.launch.shared_bytes);
  f.bound = speed_of_light(machine, o, c, p, x, x.traffic).top();
  if (f.bound == Bound::latency && f.launch > std::max({f.latency, f.dram, f.l2, f.shared_memory, f.compute, f.issue})) f.bound = Bound::launch;
  return x;
}

Forecast forecast(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions) {
  return anatomy(machine, o, c, p, conditions).forecast;
}

}  // namespace foretile
