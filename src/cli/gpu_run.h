// One product on the GPU, through the public call: checked against fp64 and timed.
#pragma once
#include <optional>
#include <string>

#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"
#include "model/model.h"

namespace foretile::cli {

struct GpuRun {
  std::string gpu;       // as the driver prints it
  int compute_capability = 0, sms = 0;
  std::string wrong;     // empty: D is right and no byte around the operands changed
  double bound_used = 0; // largest part of the rounding bound; up to 1 is right
  double first_seconds = 0;  // the first call: choosing, compiling or loading, launching
  double seconds = 0;        // a repeated call in a graph; operands stay in L2 where they fit
};

// Throws NotPossible without a GPU and std::runtime_error for what the driver objects to.
// `conditions`: its SM budget, and whether the launches are dependent and batch-invariant. Dependent ones are checked behind a
// product that writes A, which holds NaN until then.
GpuRun run_on_gpu(const Operation& o, const Problem& p, float alpha, float beta, const std::optional<Configuration>& configuration, const Conditions& conditions, u64 seed);

}  // namespace foretile::cli
