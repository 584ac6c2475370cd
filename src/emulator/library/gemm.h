// Products by the library's own kernels on host memory.
#pragma once
#include <vector>

#include "foretile/emulator.h"
#include "plan/plan.h"

namespace foretile::emulator {

// `operands` hold host pointers.
struct GemmRun {
  Operation operation;
  Configuration configuration;
  Problem problem;
  Operands operands;
  std::vector<Region> regions;
  int sms = 4;  // SMs of the machine that is pretended: bounds the blocks of a persistent launch
  bool weights_ready = false;  // B was complete before any kernel of the chain was launched
};

// Throws std::invalid_argument with the reason where the configuration cannot compute it, and std::runtime_error where
// the kernel is not built in and cannot be compiled either.
Report emulate_gemm(const GemmRun& run, const Options& options = {});

// One after the other, each a dependent launch of the one before it.
Report emulate_gemms(const std::vector<GemmRun>& chain, const Options& options = {});

}  // namespace foretile::emulator
