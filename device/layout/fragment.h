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

// mma.sync m16n8k16 of 16-bit types (PTX ISA, "Matrix Fragments for mma.m16n8k16"). Register r of lane l holds of A and B
// two neighbours along K: this element and the one after it. A[16 x 16] is row and k, B[8 x 16] likewise.
constexpr Element mma_a(int lane, int r) { return {lane / 4 + r % 2 * 8, lane % 4 * 2 + r / 2 * 8}; }
constexpr Element mma_b(int lane, int r) { return {lane / 4, lane % 4 * 2 + r * 8}; }
// The accumulator D[16 x 8], four fp32 a lane.
constexpr Element mma_accumulator(int lane, int i) { return {lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2}; }

}  // namespace foretile
