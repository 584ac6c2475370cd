// Values of the storage types as doubles and back: the reference's own arithmetic, independent of the kernels'.
#pragma once
#include "foretile/device/types.h"

namespace foretile::reference {

// The value of element `index`. Types: fp32, fp16, bf16, and tf32 (what counts of an fp32 element); others throw std::invalid_argument.
double load(DType type, const void* data, i64 index);

// Stores `value` rounded to nearest even; tf32 stores fp32. Overflow gives infinity, NaN a quiet NaN.
void store(DType type, void* data, i64 index, double value);

// `value` rounded to nearest even in `type`, as a double.
double rounded(DType type, double value);

}  // namespace foretile::reference
