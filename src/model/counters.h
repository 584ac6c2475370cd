// What Nsight Compute would show for a launch, under its own names.
#pragma once
#include <string>
#include <vector>

#include "model/anatomy.h"
#include "model/described_kernel.h"

namespace foretile {

struct ExpectedCounter {
  std::string name;   // Nsight Compute's
  double value = 0;
  std::string unit;   // "wavefronts", "%", "B", "s"
  bool exact = false; // follows from the kernel and the sizes alone; else it is a forecast
  std::string how;    // in words
};

// What L2's counters of lookups see of the SMs' reads. Neighbouring SMs that want the same line meet before they look it up, unless
// a multicast has joined them already. Each partition keeps its own copy of a line: where SMs on both sides want it, whoever is
// first in the far partition misses, and so does the home partition if its own SMs were not there before: one lookup in two.
struct L2Lookups {
  double sectors = 0, misses = 0;  // of 32 bytes
  double hit_rate() const { return sectors > 0 ? 1 - misses / sectors : 0; }
};
L2Lookups l2_lookups(const Machine& machine, const Configuration& c, const Problem& p, const TileGrid& grid, i64 concurrent, const Traffic& t);

// Of one launch of our kernel on an otherwise idle GPU with cold caches, as Nsight Compute measures.
std::vector<ExpectedCounter> expected_counters(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Anatomy& x);
// Of a described kernel; `f` is its forecast.
std::vector<ExpectedCounter> expected_counters(const DescribedKernel& kernel, const DescribedForecast& f);

// How busy each unit is in the launch, as Nsight Compute's speed of light shows it: percent of the unit's peak, the busiest first.
// The part of a forecast that bounds it (Forecast::bound) may be no unit at all: a wait for barriers, memory or a last round.
struct UnitShare {
  Bound unit = Bound::latency;
  double percent = 0;
};
std::vector<UnitShare> speed_of_light(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Anatomy& x, const Traffic& t);
// The busiest unit where it is above 60 % of its peak, else latency: nothing is near its limit, the kernel waits.
Bound top_unit(const std::vector<UnitShare>& shares);

// "  =  1234  name" or "  ~ ...": a line for people.
std::string counter_line(const ExpectedCounter& c);

// The simt kernel as a description: its accesses to global and shared memory (gemm_simt.cuh), for exact counts.
DescribedKernel describe_simt(const Operation& o, const Configuration& c, const TileGrid& grid);

}  // namespace foretile
