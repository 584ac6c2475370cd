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

// Of one launch of our kernel on an otherwise idle GPU with cold caches, as Nsight Compute measures.
std::vector<ExpectedCounter> expected_counters(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Anatomy& x);
// Of a described kernel; `f` is its forecast.
std::vector<ExpectedCounter> expected_counters(const DescribedKernel& kernel, const DescribedForecast& f);

// "  =  1234  name" or "  ~ ...": a line for people.
std::string counter_line(const ExpectedCounter& c);

// The simt kernel as a description: its accesses to global and shared memory (gemm_simt.cuh), for exact counts.
DescribedKernel describe_simt(const Operation& o, const Configuration& c, const TileGrid& grid);

}  // namespace foretile
