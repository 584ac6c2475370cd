#include "model/library.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "model/anatomy.h"
#include "model/text.h"

namespace foretile {

namespace {

constexpr int kRows[] = {64, 128, 256};
constexpr int kColumns[] = {8, 16, 32, 64, 96, 128, 160, 192, 256};
constexpr int kSplits[] = {1, 2, 4, 8, 16, 32};
constexpr double kLine = 128;    // bytes of a step along K
constexpr double kElement = 2;   // bytes

// Straight from 1 at 0.7 of the capacity to 0 at 1.5: traffic.h.
double survival(double bytes, double capacity) { return std::clamp((1.5 * capacity - bytes) / (0.8 * capacity), 0.0, 1.0); }

struct Kernel {
  int rows, columns, split;
  double m, n, k;  // as the kernel sees them
  double activations;  // bytes of the operand that is not weights
};

struct Costs {
  double core = 0;                 // clocks of the busiest SM, epilogues that show included
  double loop = 0, epilogues = 0;  // the same apart, where a kernel is not persistent
  double rounds = 0, full = 1;
  double reads = 0, writes = 0, l2 = 0, partial = 0;  // bytes; partial: of split sums
  double flops = 0;                                   // padding included
};

bool plausible(const Machine& machine, const Kernel& x) {
  if (x.rows * x.columns > 128 * 256) return false;
  if ((x.rows > 64 && x.rows >= 2 * x.m) || (x.columns > 8 && x.columns >= 2 * x.n)) return false;
  // mma.sync kernels come in powers of two from 32 columns on.
  return machine.compute_capability >= 90 || (x.columns >= 32 && (x.columns & (x.columns - 1)) == 0);
}

// False where the split makes no sense.
bool cost(const Machine& machine, DType type, const Kernel& x, double sms, Costs& c) {
  const Machine::Library& k = machine.library;
  const bool hopper = machine.compute_capability >= 90;
  const double down = std::ceil(x.m / x.rows), across = std::ceil(x.n / x.columns), output_tiles = down * across;
  const double steps_whole = std::ceil(x.k * kElement / kLine);
  if (x.split > 1 && (output_tiles * x.split > 2 * sms || steps_whole / x.split < 4)) return false;
  // The ring takes what the accumulators' staging leaves of shared memory; mma.sync kernels have up to four stages.
  const double ring = machine.shared_bytes_per_block - (hopper ? 27 : 23) * 1024;
  const double stages = std::min(std::floor(ring / ((x.rows + x.columns) * kLine)), hopper ? 12.0 : 4.0);
  if (stages < 2) return false;

  const double tiles = output_tiles * x.split, steps = std::ceil(steps_whole / x.split), concurrent = std::min(tiles, sms);
  c.rounds = std::ceil(tiles / sms);
  c.full = tiles <= sms ? 1 : std::floor(tiles / sms) * sms / tiles;
  const double rows = std::min<double>(x.rows, x.m), columns = std::min<double>(x.columns, x.n);
  const double math = 2.0 * x.rows * x.columns * (kLine / kElement) / (machine.tensor_rate(type) * k.efficiency);
  // wgmma: each band of 64 rows reads its rows and all columns. mma.sync: four warps read two halves of each, twice.
  const double lines = hopper ? x.rows / 64.0 * (64 + x.columns) + rows + columns : 3.0 * (x.rows + x.columns);
  const double bytes = (rows + columns) * kLine;
  const double l2 = std::max(bytes / machine.l2_port_bytes_per_clock, bytes * concurrent / (machine.l2_bytes_per_clock * k.coalescing));
  const double latency = (machine.dram_latency + machine.tma_latency) * k.latency_load;
  const double step = norm(math, lines * kLine / machine.shared_bytes_per_clock, l2, latency / (stages - 1), k.step_clocks);
  const double epilogue = k.epilogue_clocks + rows * columns * (x.split > 1 ? 4 : kElement) / k.store_bytes_per_clock;
  c.core = c.rounds * (steps * step + k.tile_clocks) + epilogue + (c.rounds - 1) * k.epilogue_shown * epilogue;
  // Before Hopper a block computes one tile: each pays for its first load, and all blocks of a round write together.
  c.loop = c.rounds * (steps * step + k.tile_clocks + latency);
  c.epilogues = c.rounds * epilogue;

  const double a = x.m * x.k * kElement, b = x.n * x.k * kElement;
  const double capacity = machine.l2_bytes * k.l2_share;
  c.writes = x.m * x.n * kElement;
  c.reads = a + b;
  if (output_tiles > sms) {  // waves of about square rectangles
    const double high = std::min(down, std::max(1.0, std::round(std::sqrt(sms * x.columns / x.rows)))), wide = std::min(across, std::ceil(sms / high));
    const double wave = kElement * x.k * (high * x.rows + wide * x.columns), waves = std::ceil(output_tiles / (high * wide));
    const double whole = survival(a + b, capacity);
    c.reads = std::max(a + b, whole * (a + b) + (1 - whole) * waves * wave * (1 - 0.5 * survival(wave, capacity)));
  }
  c.reads -= x.activations * survival(a + b + c.writes, capacity) * k.warm_inputs;
  c.l2 = tiles * steps * bytes;
  c.partial = x.split > 1 ? x.split * x.m * x.n * 4 * 2 : 0;
  c.flops = output_tiles * x.rows * x.columns * steps_whole * (kLine / kElement) * 2;
  return true;
}

double seconds(const Machine& machine, const Costs& c, bool persistent, double clock) {
  const Machine::Library& k = machine.library;
  const double bandwidth = machine.dram_bandwidth * k.dram_efficiency;
  double t = k.launch_seconds + k.fill_clocks / clock;
  if (c.partial > 0) t += k.split_seconds + c.partial / (machine.l2_bytes_per_clock * k.split_traffic * clock);
  if (!persistent) return t + norm(c.loop / clock, c.reads / bandwidth + k.dram_ramp_seconds) + norm(c.epilogues / clock, c.writes / bandwidth);
  const double core = c.core / clock, dram = (c.reads + c.writes) / bandwidth + k.dram_ramp_seconds, last = 1 / c.rounds;
  if (c.full >= 1 || c.rounds == 1) return t + norm(core, dram);
  return t + norm(core * (1 - last), dram * c.full) + norm(core * last, dram * (1 - c.full));
}

double clock_of(const Machine& machine, const Costs& c, const Problem& p, const Conditions& conditions, bool persistent) {
  if (conditions.regime == Regime::fixed_clock) return conditions.mhz * 1e6;
  const Machine::Library& k = machine.library;
  const double boost = machine.boost_mhz * 1e6, real = flop_count(p);
  const double per_flop = conditions.data == Data::zeros ? k.flop_energy * machine.zero_flop_energy / machine.flop_energy : k.flop_energy;
  const double on_chip = real * per_flop + std::max(0.0, c.flops - real) * 0.3 * k.flop_energy;
  const double off_chip = (c.reads + c.writes) * machine.dram_energy + c.l2 * machine.l2_energy;
  const double fastest = seconds(machine, c, persistent, boost);
  const double limit = machine.power_limit * (conditions.regime == Regime::burst ? 1 + k.burst_power / (1 + fastest / k.burst_seconds) : 1);
  const auto watts = [&](double clock) {
    const double v = clock / boost;
    return machine.power_idle + (on_chip * v * v + off_chip) / seconds(machine, c, persistent, clock);
  };
  const double low = 0.4 * boost, at_boost = watts(boost);
  if (at_boost <= limit) return boost;
  double previous = boost, previous_watts = at_boost;
  double clock = std::max(low, boost * std::cbrt((limit - machine.power_idle) / (at_boost - machine.power_idle)));
  for (int i = 0; i < 3; ++i) {
    const double here = watts(clock);
    if (std::abs(here - limit) < 1e-3 * limit || here == previous_watts) break;
    const double next = std::clamp(clock - (here - limit) * (clock - previous) / (here - previous_watts), low, boost);
    previous = clock, previous_watts = here, clock = next;
  }
  return clock;
}

}  // namespace

LibraryForecast library_forecast(const Machine& machine, DType type, const Problem& p, const Conditions& conditions) {
  if (machine.tensor_rate(type) <= 0 || size_of(type) != 2)
    throw std::invalid_argument("the forecast of the vendor's library knows fp16 and bf16 on GPUs with tensor cores, not " + std::string(name_of(type)) + " on " + machine.name);
  if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch < 0) throw std::invalid_argument("m, n, k and batch must not be negative");
  if (conditions.regime == Regime::fixed_clock && !(conditions.mhz > 0 && conditions.mhz <= machine.boost_mhz))
    throw std::invalid_argument("mhz must be above 0 and at most the boost clock of " + machine.name);
  if (conditions.sm_budget < 0 || conditions.sm_budget > machine.sms) throw std::invalid_argument("sm_budget must be 0 (all) to the SMs of " + machine.name);
  LibraryForecast best;
  if (p.m == 0 || p.n == 0 || p.batch == 0) return best;

  const bool persistent = machine.compute_capability >= 90;
  const double sms = conditions.sm_budget ? conditions.sm_budget : machine.sms, k = double(max_of(p.k, 1));
  // A batch is as many rows of tiles again.
  const double m = double(p.m) * double(p.batch), n = double(p.n);
  for (const bool swapped : {false, true}) {
    for (const int rows : kRows) {
      for (const int columns : kColumns) {
        Kernel x{rows, columns, 1, swapped ? n : m, swapped ? m : n, k, m * k * kElement};
        if (!plausible(machine, x)) continue;
        for (const int split : kSplits) {
          x.split = split;
          Costs c;
          if (!cost(machine, type, x, sms, c)) break;
          const double clock = clock_of(machine, c, p, conditions, persistent), t = seconds(machine, c, persistent, clock);
          if (best.seconds == 0 || t < best.seconds) best = {t, rows, columns, split, swapped, clock / 1e6};
        }
      }
    }
  }
  return best;
}

}  // namespace foretile
