// The time of a described kernel: clocks of one SM's load-store units, cores, schedulers and waits, and DRAM beside them.
#include "model/described_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "model/anatomy.h"
#include "model/described_access.h"
#include "model/text.h"

namespace foretile {

namespace {

// Clocks from one multiply-add to the next that needs its sum: 4 for FFMA and HFMA2 from Volta on (Jia et al., arXiv
// 1804.06826); about 33 for a dependent m16n8k16 mma.sync (Luo et al., arXiv 2402.13499, on A100 and H100).
constexpr double kMultiplyAddLatency = 4, kMmaLatency = 33;
constexpr double kEpilogueInstructions = 6;  // a value of D: conversion, address, bounds

int threads_of(const DescribedKernel& k) { return k.threads_x * k.threads_y; }

// Multiply-adds of one mma.sync: m16n8 by 32 bytes along K (PTX ISA, "mma.sync").
double mma_multiply_adds(DType type) { return 16.0 * 8 * 32 / size_of(type); }

// wgmma: m64 by the tile's columns, 256 at most, by 32 bytes along K, an instruction of four warps ("wgmma.mma_async").
constexpr double kGroupWarps = 4, kGroupRows = 64;
double wgmma_columns(const DescribedKernel& k) { return std::min(k.tile_n, 256); }
double wgmma_multiply_adds(const DescribedKernel& k) { return kGroupRows * wgmma_columns(k) * 32 / size_of(k.input); }

double multiply_adds_of(const DescribedKernel& k) {
  return k.multiply_adds > 0 ? k.multiply_adds : double(k.tile_m) * k.tile_n * k.tile_k / threads_of(k);
}

// Multiply instructions a warp issues in a step.
double multiplies(const DescribedKernel& k) {
  const double each = multiply_adds_of(k);
  switch (k.multiplier) {
    case Multiplier::fp32:
    case Multiplier::half: return each;
    case Multiplier::half2: return each / 2;
    case Multiplier::mma: return each * kWarpLanes / mma_multiply_adds(k.input);
    case Multiplier::wgmma: return each * kWarpLanes * kGroupWarps / wgmma_multiply_adds(k);
  }
  return each;
}

// FLOP per SM and clock at which its multiplies can run; a lone half uses half of a half2's lanes.
double multiply_rate(const Machine& machine, const DescribedKernel& k) {
  switch (k.multiplier) {
    case Multiplier::fp32: return machine.fp32_rate * (k.register_clocks > 0 ? 1 / std::max(1.0, k.register_clocks) : machine.simt.efficiency);
    case Multiplier::half: return machine.fp16_rate / 2;
    case Multiplier::half2: return machine.fp16_rate;
    case Multiplier::mma: return machine.tensor_rate(k.input) * machine.mma_sync;
    case Multiplier::wgmma: return machine.tensor_rate(k.input) * machine.sm90.mma_efficiency;
  }
  return 0;
}

// What a warp takes for its own instructions, one after the other: a multiply as long as it takes of the register file, or as it
// waits for the sum before it. Two warps on each scheduler hide that from each other; blocks of fewer threads do not.
double alone(const DescribedKernel& k, double instructions) {
  const double warps = double(ceil_div(threads_of(k), kWarpLanes));
  const bool mma = k.multiplier == Multiplier::mma;
  const double sums = k.independent_sums > 0 ? k.independent_sums
                      : mma                  ? std::max(1.0, double(k.tile_m) * k.tile_n / warps / (16 * 8))
                                             : std::max(1.0, double(k.tile_m) * k.tile_n / threads_of(k));
  return multiplies(k) * std::max({1.0, k.register_clocks, (mma ? kMmaLatency : kMultiplyAddLatency) / sums}) + instructions - multiplies(k);
}

struct Block {  // clocks of one block's step on each unit of its SM
  double math = 0, loads = 0, deposits = 0, issue = 0, l2_bytes = 0, instructions = 0, memory = 0, busy = 0;
  double turns = 0;  // mma.sync: its fragments and its multiplies take turns, so both
};

// How long a load takes while the machine is busy: from L2, or from DRAM, since blocks walk K together and somebody asks first. Of
// what a wave of tiles touches, DRAM gives what waves before it drove out of L2 and what is new in this launch, but for what L2
// has of it from the launch before (Conditions::warm); a step waits for the slower of its two tiles. The
// factors over unloaded latencies, and the power in contended(), are fitted to every tile of rungs 1 to 7 of the ladder on an
// H200, 512 to 8,192 cubed.
double memory_latency(const Machine& machine, const Traffic& t, double waves, bool warm) {
  constexpr double kBusyDram = 1.54;
  const double operands = t.a_bytes + t.b_bytes;
  const double from_dram = operands * (warm ? 1 - warm_share(machine, t) : 1) + std::max(0.0, t.dram_load_bytes - operands);
  const double found = 1 - std::min(1.0, from_dram / (std::max(1.0, waves) * t.wave_bytes));
  return kBusyL2 * machine.l2_latency + (1 - found * found) * std::max(0.0, kBusyDram * machine.dram_latency - kBusyL2 * machine.l2_latency);
}

Block block_step(const Machine& machine, const DescribedKernel& k, double latency, const std::vector<AccessCost>& costs) {
  Block b;
  const double threads = threads_of(k), warps = double(ceil_div(threads_of(k), kWarpLanes));
  double fragments = 0;
  b.math = 2 * multiply_adds_of(k) * threads / multiply_rate(machine, k);
  b.instructions = multiplies(k) + k.other_instructions + k.barriers;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const DescribedAccess& a = k.step[i];
    const bool deposit = a.space == Space::shared && a.direction == Direction::store;
    (deposit ? b.deposits : b.loads) += costs[i].clocks;
    if (a.matrix && !deposit) fragments += costs[i].clocks;
    b.l2_bytes += costs[i].new_sectors * kSectorBytes;
    if (!(deposit && k.copy == Copy::async)) b.instructions += costs[i].instructions / warps;  // cp.async stores without one
  }
  if (k.copy == Copy::bulk) {
    const double bytes = double(k.tile_m + k.tile_n) * k.tile_k * size_of(k.input);
    b.deposits += bytes / machine.shared_bytes_per_clock, b.l2_bytes += bytes;
  }
  if (k.multiplier == Multiplier::wgmma) {
    // Each band of 64 rows reads its rows and all columns out of shared memory; TMA writes beside that, as in forecast.cc.
    const double read = double(k.tile_m) / kGroupRows * (kGroupRows + k.tile_n) * k.tile_k * size_of(k.input) / machine.shared_bytes_per_clock;
    b.loads = std::max(b.loads + read, b.deposits), b.deposits = 0;
  }
  b.issue = b.instructions * warps / machine.schedulers;
  // Fragments come by ldmatrix, wait for shared memory once a depth of the instruction, and are multiplied; all warps of a
  // block do the same at the same time. Copies by cp.async stand before them in the load-store units' queue.
  double busy = std::max({b.math, b.loads, b.issue, alone(k, b.instructions)});
  if (fragments > 0) {
    b.turns = b.math + fragments;
    const double depths = double(k.tile_k) * size_of(k.input) / 32;
    busy = std::max(b.issue, b.math + (k.copy == Copy::async ? b.loads : fragments) + depths * machine.shared_latency);
  }
  // wgmma starts when a stage is full and is waited for before the stage is asked for again, so that a stage's round, which the
  // production kernel's producer warp hides, comes on top.
  if (k.multiplier == Multiplier::wgmma) busy = std::max(b.math, b.loads) + machine.sm90.step_clocks + double(k.tile_k) * size_of(k.input) / 128 * machine.sm90.slab_clocks;
  b.memory = latency + (k.copy == Copy::bulk ? machine.tma_latency : 0), b.busy = busy;
  return b;
}

// A step of blocks that do the same at the same time, one thing after the other.
double in_step(const Machine& machine, const DescribedKernel& k, const Block& b, double blocks) {
  const double busy = std::max(b.busy, blocks * b.loads), barrier = machine.simt.step_clocks / 2;
  return (k.stages <= 1 ? b.memory + busy : std::max(b.memory / (k.stages - 1), busy)) + (b.deposits > 0 ? blocks * b.deposits + machine.shared_latency : 0) + k.barriers * barrier;
}

struct Times {
  double step = 0, math = 0, shared = 0, l2 = 0, issue = 0, latency = 0, epilogue = 0;
};

// (x^3.5 + y^3.5 + ...)^(1/3.5). Rung 11, to which nothing was fitted, has it too.
double contended(std::initializer_list<double> parts) {
  constexpr double kPower = 3.5;
  double sum = 0;
  for (const double x : parts) sum += std::pow(x, kPower);
  return std::pow(sum, 1 / kPower);
}

Times on_one_sm(const Machine& machine, const DescribedKernel& k, const Block& b, double epilogue_lsu, double epilogue_bytes, int blocks, int busy_sms) {
  Times t;
  t.math = blocks * b.math, t.shared = blocks * (b.loads + b.deposits), t.issue = blocks * b.issue;
  t.l2 = blocks * std::max(b.l2_bytes / machine.l2_port_bytes_per_clock, b.l2_bytes * busy_sms / (machine.l2_bytes_per_clock * machine.l2_coalescing));
  // A block alone waits for one thing after the other, which its latency has in it. So do a few blocks whose warps each have a
  // scheduler for themselves: nothing drives them apart, and what one loads from shared memory all of them wait for. More blocks
  // load, store and multiply at different times and get in each other's way; multiplies are among the instructions issued. Seen
  // with kernels whose instructions are counted in their machine code; where they are only told of, the longest is the bound.
  const double warps = double(ceil_div(threads_of(k), kWarpLanes)), values = double(k.tile_m) * k.tile_n / threads_of(k);
  const bool counted = k.register_clocks > 0, together = blocks == 1 || (counted && blocks * warps <= machine.schedulers);
  t.latency = in_step(machine, k, b, together ? blocks : 1);
  t.step = together || !counted ? norm(t.math, t.shared, t.issue, t.l2, t.latency) : contended({std::max({t.math, t.issue, blocks * b.turns}), t.shared, t.l2, t.latency});
  t.epilogue = norm(blocks * values * kEpilogueInstructions * warps / machine.schedulers, blocks * epilogue_lsu, blocks * epilogue_bytes * busy_sms / machine.l2_bytes_per_clock) +
               machine.l2_latency;
  return t;
}

// The clock that the power limit leaves, as in forecast.cc: energy on the SMs' supply goes with the voltage squared.
double clock_of(const Machine& machine, const DescribedKernel& k, const Conditions& conditions, const DescribedForecast& f, const Problem& p, double shared_bytes,
                const std::function<double(double)>& seconds_at) {
  const double boost = machine.boost_mhz * 1e6;
  if (conditions.regime == Regime::fixed_clock) return conditions.mhz * 1e6;
  const bool wgmma = k.multiplier == Multiplier::wgmma;
  const double high = boost * (wgmma ? machine.tensor_clock : machine.burst_clock), low = boost * std::min(machine.sustained_clock, machine.burst_clock);
  const double limit = machine.power_limit * (conditions.regime == Regime::burst && wgmma ? machine.burst_power : 1);
  if (conditions.regime == Regime::burst && !wgmma) return high;
  const double zeros = conditions.data == Data::zeros ? machine.zero_flop_energy / machine.flop_energy : 1;
  const double flops = 2 * f.multiply_adds * threads_of(k) * double(f.steps) * double(f.tiles);
  const double busy = f.core_clocks * double(min_of(machine.sms, f.concurrent));
  const double on_chip = flops * zeros * (on_tensor_cores(k.multiplier) ? machine.flop_energy : machine.fp32_flop_energy) + shared_bytes * machine.shared_energy +
                         (f.l2_request_bytes + double(p.m) * double(p.n) * double(p.batch) * size_of(k.output)) * machine.l2_energy + busy * machine.clock_energy;
  const double off_chip = f.traffic.dram_bytes() * machine.dram_energy;
  const auto watts = [&](double clock) {
    const double voltage = 1 - machine.voltage_slope * (1 - clock / boost);
    return machine.power_idle + (on_chip * voltage * voltage + off_chip) / seconds_at(clock);
  };
  if (watts(high) <= limit) return high;
  double below = low, above = high;
  for (int i = 0; i < 40; ++i) {
    const double middle = 0.5 * (below + above);
    (watts(middle) <= limit ? below : above) = middle;
  }
  return below;
}

void check(const Machine& machine, const Conditions& conditions) {
  if (conditions.sm_budget < 0 || conditions.sm_budget > machine.sms)
    throw std::invalid_argument(fmt::format("sm_budget is {}, must be 0 (all) to {}", conditions.sm_budget, machine.sms));
  if (conditions.regime == Regime::fixed_clock && !(conditions.mhz > 0 && conditions.mhz <= machine.boost_mhz))
    throw std::invalid_argument(fmt::format("mhz is {}, must be above 0 and at most {:.0f} on {}", conditions.mhz, machine.boost_mhz, machine.name));
}

// What can be said without looking at an access.
std::string senseless(const Machine& machine, const DescribedKernel& k, const Problem& p) {
  const auto within = [](const char* name, i64 value, i64 low, i64 high) {
    return value >= low && value <= high ? std::string() : fmt::format("{} is {}, must be {} to {}", name, value, low, high);
  };
  for (const auto& [name, value, low, high] : {std::tuple<const char*, i64, i64, i64>{"tile_m", k.tile_m, 1, 4096}, {"tile_n", k.tile_n, 1, 4096}, {"tile_k", k.tile_k, 1, 4096},
                                               {"threads_x", k.threads_x, 1, 1024}, {"threads_y", k.threads_y, 1, 1024}, {"threads a block", i64(k.threads_x) * k.threads_y, 1, i64(machine.threads_per_block)},
                                               {"registers", k.registers, 1, i64(machine.registers_per_thread)}, {"shared_bytes", k.shared_bytes, 0, i64(machine.shared_bytes_per_block)},
                                               {"stages", k.stages, 1, 64}, {"raster_group", k.raster_group, 1, 1 << 20}, {"m", p.m, 0, i64(1) << 31}, {"n", p.n, 0, i64(1) << 31}, {"k", p.k, 0, i64(1) << 31},
                                               {"batch", p.batch, 0, i64(1) << 31}})
    if (std::string reason = within(name, value, low, high); !reason.empty()) return reason;
  if (on_tensor_cores(k.multiplier) && machine.tensor_rate(k.input) <= 0) return fmt::format("{} has no tensor cores for {}", machine.name, name_of(k.input));
  if (k.multiplier == Multiplier::wgmma && machine.compute_capability != 90) return "wgmma needs compute capability 9.0";
  if (k.multiplier == Multiplier::wgmma && (k.tile_m % int(kGroupRows) || threads_of(k) % int(kGroupWarps * kWarpLanes)))
    return fmt::format("wgmma multiplies bands of 64 rows by 128 threads: tile_m is {}, threads are {}", k.tile_m, threads_of(k));
  if ((k.multiplier == Multiplier::half || k.multiplier == Multiplier::half2) && size_of(k.input) != 2) return fmt::format("half products need 16-bit operands, not {}", name_of(k.input));
  if (k.copy == Copy::async && machine.compute_capability < 80) return "cp.async needs compute capability 8.0";
  if (k.copy == Copy::bulk && machine.compute_capability < 90) return "bulk copies (TMA) need compute capability 9.0";
  for (const auto* list : {&k.step, &k.epilogue})
    for (const DescribedAccess& a : *list) {
      if (a.bytes != 1 && a.bytes != 2 && a.bytes != 4 && a.bytes != 8 && a.bytes != 16) return fmt::format("'{}': an access has 1, 2, 4, 8 or 16 bytes a thread, not {}", a.text, a.bytes);
      if (std::string reason = within("times", a.times, 1, 65536); !reason.empty()) return fmt::format("'{}': {}", a.text, reason);
      if (a.matrix && (a.space != Space::shared || a.bytes != 16)) return fmt::format("'{}': a matrix access is of shared memory, 16 bytes a row", a.text);
      if (!a.address) return fmt::format("'{}' has no address", a.text);
    }
  if (occupancy(machine, threads_of(k), k.registers, k.shared_bytes).blocks_per_sm == 0)
    return fmt::format("not one block fits on an SM: {} threads of {} registers and {} bytes of shared memory", threads_of(k), k.registers, k.shared_bytes);
  return {};
}

}  // namespace

std::string why_not(const Machine& machine, const DescribedKernel& k, const Problem& p) {
  if (std::string reason = senseless(machine, k, p); !reason.empty()) return reason;
  if (p.m == 0 || p.n == 0 || p.batch == 0) return {};
  try {
    access_costs(machine, k, p, false), access_costs(machine, k, p, true);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return {};
}

DescribedForecast forecast(const Machine& machine, const DescribedKernel& k, const Problem& p, const Conditions& conditions) {
  check(machine, conditions);
  if (const std::string reason = senseless(machine, k, p); !reason.empty()) throw std::invalid_argument(reason);
  if (p.m == 0 || p.n == 0 || p.batch == 0) return {};
  return forecast(machine, k, p, conditions, access_costs(machine, k, p, false), access_costs(machine, k, p, true));
}

DescribedForecast forecast(const Machine& machine, const DescribedKernel& k, const Problem& p, const Conditions& conditions, std::vector<AccessCost> step, std::vector<AccessCost> epilogue) {
  check(machine, conditions);
  if (const std::string reason = senseless(machine, k, p); !reason.empty()) throw std::invalid_argument(reason);
  if (step.size() != k.step.size() || epilogue.size() != k.epilogue.size()) throw std::invalid_argument("the costs must stand beside the kernel's accesses");
  DescribedForecast f;
  if (p.m == 0 || p.n == 0 || p.batch == 0) return f;
  f.step = std::move(step), f.epilogue_accesses = std::move(epilogue);

  const int sms = conditions.sm_budget ? conditions.sm_budget : machine.sms;
  f.occupancy = occupancy(machine, threads_of(k), k.registers, k.shared_bytes);
  const TileGrid grid{.tiles_m = i32(ceil_div(p.m, k.tile_m)), .tiles_n = i32(ceil_div(p.n, k.tile_n)), .batch = i32(p.batch),
                      .group = i32(min_of(k.raster_group, ceil_div(p.m, k.tile_m)))};
  f.tiles = i64(grid.tiles_m) * grid.tiles_n * p.batch, f.steps = ceil_div(p.k, k.tile_k);
  const i64 resident = i64(sms) * f.occupancy.blocks_per_sm;
  f.concurrent = min_of(f.tiles, resident);
  f.waves = double(f.tiles) / double(resident);
  f.multiply_adds = multiply_adds_of(k);

  Operation operation;
  operation.a = operation.b = k.input, operation.d = k.output;
  Configuration tile;
  tile.tile_m = k.tile_m, tile.tile_n = k.tile_n, tile.tile_k = k.tile_k;
  f.traffic = traffic(machine, operation, tile, p, grid, f.concurrent);

  // Where nothing was counted, a block's slowest load comes from DRAM unloaded.
  const Block b = block_step(machine, k, k.register_clocks > 0 ? memory_latency(machine, f.traffic, f.waves, conditions.warm) : machine.dram_latency, f.step);
  f.instructions = b.instructions;
  f.l2_request_bytes = b.l2_bytes * double(f.steps) * double(f.tiles);
  double epilogue_lsu = 0, epilogue_bytes = 0;
  for (const AccessCost& c : f.epilogue_accesses) epilogue_lsu += c.clocks, epilogue_bytes += c.new_sectors * kSectorBytes;

  // Full rounds, and a last one with fewer blocks an SM.
  const i64 full = f.tiles / resident, rest = f.tiles - full * resident;
  const int most = int(full ? f.occupancy.blocks_per_sm : ceil_div(rest, sms));
  const Times t = on_one_sm(machine, k, b, epilogue_lsu, epilogue_bytes, most, int(min_of(sms, f.tiles)));
  const Times last = on_one_sm(machine, k, b, epilogue_lsu, epilogue_bytes, int(ceil_div(rest, sms)), int(min_of(sms, rest)));
  const double steps = double(f.steps), start = k.stages > 1 ? machine.dram_latency : 0;  // the first tiles have nothing to hide under
  const double full_clocks = double(full) * (steps * t.step + t.epilogue + start), last_clocks = rest ? steps * last.step + last.epilogue + start : 0;
  f.blocks_on_sm = most;
  f.step_turns = most * b.turns, f.step_math = t.math, f.step_shared = t.shared, f.step_l2 = t.l2, f.step_issue = t.issue, f.step_latency = t.latency, f.step_clocks = t.step;
  f.alone_memory = b.memory, f.alone_busy = b.busy, f.alone_deposits = b.deposits;
  f.epilogue_clocks = t.epilogue;
  f.full_clocks = full_clocks;
  f.core_clocks = full_clocks + last_clocks;
  f.fill_clocks = machine.simt.fill_clocks + machine.dram_latency;

  f.dram = f.traffic.dram_bytes() / (machine.dram_bandwidth * machine.dram_efficiency);
  f.launch = machine.launch_seconds;
  const double full_share = f.full_share = double(full * resident) / double(f.tiles);
  const auto seconds_at = [&](double clock) {
    return f.launch + f.fill_clocks / clock + norm(full_clocks / clock, f.dram * full_share) + norm(last_clocks / clock, f.dram * (1 - full_share));
  };
  double wavefronts = 0;
  for (const AccessCost& c : f.step) wavefronts += c.wavefronts;
  const double clock = clock_of(machine, k, conditions, f, p, wavefronts * machine.shared_bytes_per_clock * steps * double(f.tiles), seconds_at);
  f.clock_mhz = clock / 1e6;
  f.seconds = seconds_at(clock);

  const double rounds = double(full), tail = rest ? 1 : 0;
  const auto loop = [&](double Times::*part) { return steps * (rounds * t.*part + tail * last.*part) / clock; };
  f.l2 = loop(&Times::l2), f.shared_memory = loop(&Times::shared), f.compute = loop(&Times::math), f.issue = loop(&Times::issue);
  f.epilogue = (rounds * t.epilogue + tail * last.epilogue) / clock;
  f.latency = (f.fill_clocks + (rounds + tail) * start) / clock + f.epilogue;
  if (const Times& x = full ? t : last; x.latency > std::max({x.l2, x.shared, x.math, x.issue})) f.latency += loop(&Times::latency);
  const std::pair<double, Bound> parts[] = {{f.dram, Bound::dram}, {f.l2, Bound::l2}, {f.shared_memory, Bound::shared_memory},
                                            {f.compute, on_tensor_cores(k.multiplier) ? Bound::tensor_cores : Bound::fp32_cores}, {f.issue, Bound::issue}, {f.latency, Bound::latency}, {f.launch, Bound::launch}};
  f.bound = std::max_element(std::begin(parts), std::end(parts), [](const auto& x, const auto& y) { return x.first < y.first; })->second;
  return f;
}

}  // namespace foretile
