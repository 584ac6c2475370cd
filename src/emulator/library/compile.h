// A kernel that is not built in, by the system's C++ compiler.
#pragma once
#include <string>

#include "emulator/library/built_in.h"

namespace foretile::emulator {

// Compiles, or takes from the cache, and loads. Safe for many threads and processes. Throws std::runtime_error with what
// is missing: a compiler, the device headers, a place to write, or symbols this program does not export.
//   FORETILE_CXX          the compiler (default: CXX, then c++, g++ or clang++ on the PATH)
//   FORETILE_INCLUDE_DIR  where foretile/device/ is found (default: include/ beside the program's folder, then where this library was
//                         built, then where it was to be installed)
//   XDG_CACHE_HOME        see store.h
KernelBody compile_kernel(const Operation& operation, const Configuration& configuration);

// The second half of the names under which compiled kernels are stored (store.h), as this machine would make them now; empty
// where it could make none.
std::string compile_environment();

// The generated source, for tests and messages.
std::string kernel_source(const Operation& operation, const Configuration& configuration);

}  // namespace foretile::emulator
