// A cursor into a ring of shared-memory stages guarded by mbarriers: which stage is next, and the parity of the phase
// that the reader waits for. The writer waits for the opposite parity, which a fresh barrier satisfies.
#pragma once
#include "foretile/device/types.h"

namespace foretile {

template <int Stages> struct RingCursor {
  u32 stage = 0, parity = 0;

  constexpr void advance() {
    if (++stage == Stages) stage = 0, parity ^= 1;
  }
  constexpr void skip(u32 steps) {
    const u32 target = stage + steps;
    parity ^= target / Stages & 1;
    stage = target % Stages;
  }
};

}  // namespace foretile
