// What would help: changes to a kernel, its configuration or its product, each with a forecast of its own.
#pragma once
#include <string>
#include <vector>

#include "model/anatomy.h"

namespace foretile {

struct Remedy {
  std::string what;      // "sm90:128x192x64:s4:coop:b3"
  double seconds = 0;    // with it
  std::string because;   // "4 waves instead of 4.7"
};

// Of one of our kernels, best first, only what gains half a percent or more: other configurations of the catalogue (the best
// three) and the best one outside it, rows on 16-byte boundaries, other sizes close by, a clock that no limit holds down,
// several calls in one. `x` is the anatomy of the configuration.
std::vector<Remedy> remedies(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions, const Anatomy& x);

}  // namespace foretile
