// The times that constants are fitted to, and the rule that keeps half of them apart.
#pragma once
#include <string>
#include <vector>

#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"
#include "model/model.h"

namespace foretile::fit {

struct Time {
  Problem problem;
  double seconds = 0;
  Regime regime = Regime::sustained;
  Configuration configuration;  // of our kernels; the library's is unknown
  bool dependent = false;       // decode: each launch dependent on the one before
};

// The rule of the split: constants are fitted to shapes with an even hash, errors are reported on the odd ones.
bool held_out(const Problem& p);

// Our kernels' times under sustained load, bench/results/*.csv: plain chains, the raster that the plan takes, legal today.
std::vector<Time> our_times(const std::string& bench_results);
// Our decode kernel's, in plain chains or in dependent ones: bench/results/decode_configurations_bf16_h200.csv.
std::vector<Time> decode_times(const std::string& bench_results, bool dependent);
// The vendor library's, public times in the folder FORETILE_DATA: h200_bf16_trtllm (bursts) and h200_bf16_vllm_power
// (sustained). Throws std::runtime_error that names a missing file.
std::vector<Time> library_times(const std::string& folder);

}  // namespace foretile::fit
