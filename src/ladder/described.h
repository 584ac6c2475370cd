// The rungs as the model's kernels that nobody compiled (model/described_kernel.h): every access by its address.
#pragma once
#include "ladder/rungs.h"
#include "model/described_kernel.h"

namespace foretile::ladder {

// For this problem, whose row lengths decide how wide accesses can be. Not for production rungs, whose forecast is the library's own.
DescribedKernel describe(const Rung& rung, const Variant& v, const Problem& p);

}  // namespace foretile::ladder
