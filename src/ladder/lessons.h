// What is said about the rungs: the counter that each step moves, and the lesson in words.
#pragma once
#include <string>

#include "ladder/rungs.h"
#include "model/described_kernel.h"

namespace foretile::ladder {

// The counter that the step from the rung below is meant to move.
struct Step {
  std::string counter;  // in words: "sectors a global request"
  std::string measured_as;  // by Nsight Compute
  double before = 0, after = 0;
  bool exact = true;  // follows from the kernels alone; else a forecast
};
// For rungs 2 to 12, with the variants shown (the first of each) or another one of `rung`. Sizes are multiples of every
// tile, so edges count nothing.
Step step_of(const Rung& rung, const Variant* v, const Machine& machine);

// What is counted about a described kernel's inner loop.
struct LoopCounters {
  double sectors_per_request = 0;      // global loads
  double global_loads = 0;             // warp instructions a warp-wide multiply, copies included
  double shared_loads = 0;             // the same, out of shared memory
  double wavefronts = 0;               // of shared memory, a thousand multiplies
  double conflicts = 0;                // of them beyond the ideal
  double multiplies_per_instruction = 0;  // multiply-adds of a warp over its instructions
  double accesses = 0;                 // instructions of one warp, a step
  int stages = 1;
  double barriers = 0;                 // of the whole block, a step
};
LoopCounters count_loop(const DescribedKernel& k, const DescribedForecast& f);

struct Lesson {
  const char* wrong;   // with the rung below
  const char* shows;   // which counter shows it
  const char* mends;   // why this change mends it
  const char* costs;   // what it costs
  const char* next;    // what to try next
};
const Lesson& lesson(int rung);  // 1 to 12; 0 for the side rung

}  // namespace foretile::ladder
