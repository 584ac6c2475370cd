// The times that constants are fitted to, and the rule that keeps half of them apart.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "foretile/device/catalogue.h"
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
  Operation operation = catalogue::product(DType::bf16, DType::bf16);
  double mhz = 0;               // of the SMs; 0: not recorded
  bool clock = false;           // `seconds` is the length of a clock: the fit of energies looks at both
  bool in_turn = false;         // from a recording of the whole catalogue: a shape's configurations in turn, their regime known
};

// The rule of the split: constants are fitted to shapes with an even hash, errors are reported on the odd ones.
bool held_out(const Problem& p);

// Our kernels' times under sustained load, bench/results/*.csv: plain chains, the raster that the plan takes, legal today.
std::vector<Time> our_times(const std::string& bench_results);
// Of the recordings of the whole catalogue those of some families: bursts, and sustained load where power binds.
std::vector<Time> times_in_turn(const std::string& bench_results, std::initializer_list<Family> families, bool dependent = false);
// The vendor library's, public times in the folder FORETILE_DATA: h200_bf16_trtllm (bursts) and h200_bf16_vllm_power
// (sustained). Throws std::runtime_error that names a missing file.
std::vector<Time> library_times(const std::string& folder);

}  // namespace foretile::fit
