// The microbenchmarks' kernels as CUDA C++ text; calibrate.cc compiles and times them.
#pragma once

namespace foretile::bench {

// For any compute capability from 7.5 on (7.0 with an NVRTC that knows it); products of types that a GPU's tensor cores do not
// have are left out by __CUDA_ARCH__. Every kernel leaves in clocks[block] how many SM clocks it took.
extern const char* const kCalibrationSource;

}  // namespace foretile::bench
