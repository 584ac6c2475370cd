// Compiles CUDA C++ text of the benchmarks and calibrations, which share nothing with the library's kernels but structs.
#pragma once
#include <string>

namespace foretile::bench {

// Machine code for the compute capability (90: sm_90a). device/'s headers can be included. Throws std::runtime_error with the
// compiler's log, or without NVRTC. `name` is for messages.
std::string compile_plain(const std::string& source, int compute_capability, const std::string& name);

}  // namespace foretile::bench
