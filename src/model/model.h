// The forecast: how long a kernel takes on a machine, what bounds it, and which configuration to pick. Pure arithmetic:
// no I/O, no CUDA header, no allocation in forecast().
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"
#include "model/machine.h"

namespace foretile {

// burst: a few launches, the clock of short tensor work. sustained: the clock the power limit leaves. fixed_clock: mhz.
enum class Regime { burst, sustained, fixed_clock };
enum class Data { random, zeros };  // zeros take less power
struct Conditions {
  Regime regime = Regime::sustained;
  double mhz = 0;  // fixed_clock only
  Data data = Data::random;
  int sm_budget = 0;  // how many SMs the launch may fill; 0: all
  bool dependent = false;  // one of a chain of dependent launches whose weights are ready
  bool warm = false;       // the launch before was on the same operands: L2 has what fits (of our kernels sm90 and ffma look at it)
  bool batch_invariant = false;  // for the choice: bits may not depend on M, so K is cut as N and K alone say
};

// What bounds a kernel: the unit that is busiest over all SMs and the whole kernel, where it is above 60 % of its peak, as Nsight
// Compute's speed of light shows it; else nothing is near its limit and the kernel waits: for its launch, or for latency (memory,
// barriers, a last round that leaves SMs idle).
enum class Bound { dram, l2, shared_memory, tensor_cores, fp32_cores, issue, latency, launch };
const char* name_of(Bound bound);

struct Forecast {
  double seconds = 0;
  Bound bound = Bound::latency;
  // Parts, in seconds; they overlap, so they do not add up.
  double dram = 0, l2 = 0, shared_memory = 0, compute = 0, issue = 0, latency = 0, launch = 0, epilogue = 0;
  double waves = 0;       // tiles over what is resident at once
  double clock_mhz = 0;   // SM clock assumed
  double watts = 0;       // board power at that clock
  double dram_bytes = 0, l2_bytes = 0, l2_hit_rate = 0;
  int blocks_per_sm = 0, registers = 0, shared_bytes = 0;
  bool registers_estimated = false;
};

// device/legality.h's why_not, and whether the machine can run the family at all: the reason in words, or null.
const char* why_not_on(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p);

// The configuration must be legal (why_not_on is null); else std::invalid_argument with the reason. An empty problem
// (M, N or batch 0) launches nothing: 0 seconds.
Forecast forecast(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions = {});

struct Candidate {
  Configuration configuration;
  Forecast forecast;
};
struct RuledOut {
  Configuration configuration;
  std::string reason;
};
struct Choice {
  std::vector<Candidate> ranked;  // best first
  std::vector<RuledOut> ruled_out;
};
// Every configuration of the catalogue, ranked by forecast. Of the decode family, those that read the weights
// once or twice (or any, where no other family can compute it).
Choice choose(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions = {});
// The best one alone; no allocation, below a millisecond. The simt family always qualifies; std::invalid_argument with
// the reason where not even it does (a type no kernel computes).
Configuration pick(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions = {});

}  // namespace foretile
