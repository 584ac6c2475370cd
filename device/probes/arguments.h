// Arguments of the probes: small kernels whose memory accesses are known one by one, so that what they cost can be read
// off a counter. tools/counters launches them, tests/counters replays what was recorded.
#pragma once
#include "foretile/device/arguments.h"

namespace foretile {

struct ProbeArguments {
  TensorMap from, to;           // probe_tma_copy
  const void* input = nullptr;
  void* output = nullptr;
  // One entry a lane: the byte offset of its access, negative where the lane takes no part.
  const i32* offsets = nullptr;
  i32 shared_words = 0;         // of the block's shared memory that the probe fills first
  i32 span = 0;                 // bytes between two accesses of a warp to global memory
  i32 width = 0, height = 0;    // of a matrix
};

// How often a warp repeats the access that a probe is about.
inline constexpr int kProbeRepeats = 4;

}  // namespace foretile
