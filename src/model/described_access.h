// What a described kernel's accesses cost, one by one.
#pragma once
#include <vector>

#include "model/described_kernel.h"

namespace foretile {

// Of every access of the step, or of the epilogue: means over the blocks and steps of the problem (exact where sizes are
// multiples of the tile; else the blocks inside, the last row and column and the last step are weighed by their number).
// Throws std::invalid_argument that names the access and the thread for an address that is negative, no multiple of the
// access's bytes, or beyond the block's shared memory.
std::vector<AccessCost> access_costs(const Machine& machine, const DescribedKernel& kernel, const Problem& problem, bool epilogue);

}  // namespace foretile
