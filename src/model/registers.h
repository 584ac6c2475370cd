// Registers a thread of a compiled kernel, from the checked-in table of the catalogue; no compiler is asked.
#pragma once
#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"

namespace foretile {

struct Registers {
  int count = 0;           // a thread, at launch
  int spill_bytes = 0;     // a thread
  bool estimated = false;  // the table has no row for this operation and configuration
};

// The table's row (compiled for sm_90a); else, for sm90, what the launch bounds give (the compiler fills exactly that); else an estimate.
// Reads the table once; no allocation after the first call.
Registers registers_of(const Operation& o, const Configuration& c);

}  // namespace foretile
