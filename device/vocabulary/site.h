// Call-site identity. Every vocabulary call carries one, so that the emulator can name it in a finding, count
// accesses by it, and drop or weaken it at run time (mutation without recompiling). On the GPU it is empty.
#pragma once
#include "foretile/device/types.h"

namespace foretile {

#if FORETILE_GPU
struct Site {
  static FORETILE_DEVICE constexpr Site here() { return {}; }
};
#else
struct Site {
  const char* file;
  int line;
  friend constexpr bool operator==(const Site&, const Site&) = default;
  // As a default argument it names the place of the outermost call.
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};
#endif

}  // namespace foretile
