// How it is computed: the tile, the pipeline and the schedule of one kernel family.
#pragma once
#include "foretile/device/types.h"

namespace foretile {

enum class Family : u8 {
  simt = 0,  // device/kernels/gemm_simt.cuh: any type, any alignment, any GPU
  sm90 = 1,  // device/kernels/gemm_sm90.cuh: TMA and wgmma, Hopper only
  decode = 2,  // device/kernels/gemm_decode.cuh: few rows of A, weights streamed at the speed of memory, Hopper only
  ffma = 3,  // device/kernels/gemm_ffma.cuh: fp32 inputs at the rate of the fp32 cores, any alignment, any GPU
  gemv = 4,  // device/kernels/gemm_gemv.cuh: fp32, up to eight rows of A, B at the speed of memory, any GPU
  rows = 5,  // device/kernels/gemm_rows.cuh: fp32, few rows of A, B through a ring at the speed of memory, Hopper only
};

enum class Schedule : u8 {
  cooperative = 0,  // the consumer warpgroups share one tile, each a band of its rows
  pingpong = 1,     // two consumer warpgroups work on different tiles, one's epilogue under the other's multiply
};

struct Configuration {
  Family family = Family::simt;
  int tile_m = 64, tile_n = 64, tile_k = 16;

  // sm90, decode and rows
  int stages = 0;         // depth of the shared-memory ring of A and B tiles

  // sm90 only
  int cluster_m = 1;      // blocks of a cluster along M share their B tile by multicast
  int cluster_n = 1;      // blocks of a cluster along N share their A tile by multicast
  Schedule schedule = Schedule::cooperative;
  int store_buffers = 0;  // staging chunks of D a consumer warpgroup, for TMA stores that overlap

  // K is split over so many blocks of a cluster (decode) groups of warps (ffma, rows) or warps (gemv); their partial sums meet in a fixed order
  int split_k = 1;
  int cluster_k = 1;      // ffma and rows: and over so many blocks of a cluster

  // simt, ffma and rows
  int thread_m = 0, thread_n = 0;  // register tile of one thread

  friend constexpr bool operator==(const Configuration&, const Configuration&) = default;
};

}  // namespace foretile
