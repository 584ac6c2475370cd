// How long the vendor's library takes: the best of the tensor-core kernels it could plausibly run. No kernel of ours and
// no table of shapes; fitted to public times of library calls, with cold weights (docs/model.md has the errors).
#pragma once
#include "model/model.h"

namespace foretile {

struct LibraryForecast {
  double seconds = 0;
  int tile_m = 0, tile_n = 0, split = 1;  // of the kernel that the forecast belongs to
  bool swapped = false;                   // weights on the rows' side of the tile
  double clock_mhz = 0;
};

// 16-bit inputs and output with fp32 accumulation. Regime fixed_clock and a budget of SMs are honoured; zeros take the
// power of zeros. std::invalid_argument where the GPU has no tensor cores for the type, or for negative sizes.
LibraryForecast library_forecast(const Machine& machine, DType type, const Problem& p, const Conditions& conditions = {});

}  // namespace foretile
