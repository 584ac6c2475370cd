// The generated few-line translation unit that instantiates one kernel.
#pragma once
#include <string>
#include <string_view>

#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"

namespace foretile {

inline constexpr std::string_view kKernelName = "foretile_kernel";

// The operation as kernels see it: what does not reach the generated code is set to its default, so that calls that
// differ in nothing else share one compiled kernel. Types of absent operands; for the simt family the alignment.
Operation canonical(const Operation& o, const Configuration& c);

// What the launch bounds promise. fewest_blocks: one block an SM, so that the compiler may use every register a thread can have.
enum class Residency { as_stated, fewest_blocks };

// CUDA C++ for `canonical(o, c)`. Every field of both structs is named in it, so its text identifies the kernel.
std::string translation_unit(const Operation& o, const Configuration& c, Residency residency = Residency::as_stated);

// "sm_90a" for 90: the real architecture, with its specific features on Hopper. "sm_80" for 80.
std::string architecture_for(int compute_capability);

}  // namespace foretile
