// Which element of a tile a thread's register holds. Recorded from an H200 in tests/golden/.
#pragma once
#include "foretile/device/types.h"

namespace foretile {

struct Element { int row, column; };

// wgmma accumulator D[64 x N], fp32 or int32: register i of thread t (0..127) of the warpgroup
// (PTX ISA, "Register Fragments", matrix D of wgmma).
constexpr Element wgmma_accumulator(int thread, int i) {
  const int warp = thread / 32, lane = thread % 32;
  return {warp * 16 + (i / 2 % 2) * 8 + lane / 4, (i / 4) * 8 + (lane % 4) * 2 + i % 2};
}

// stmatrix / ldmatrix: lane l holds of each 8x8 matrix of 16-bit elements the two neighbours at this row.
constexpr Element matrix_fragment(int lane) { return {lane / 4, (lane % 4) * 2}; }

}  // namespace foretile
