// What a launch is made of besides the kernel: its geometry, and the tensor maps among its arguments.
#pragma once
#include <functional>

#include "foretile/device/arguments.h"
#include "foretile/device/layout/swizzle.h"

namespace foretile {

// A three-dimensional tiled tensor map (inner, row, batch), in the terms of cuTensorMapEncodeTiled.
struct TensorMapSpec {
  const void* base = nullptr;    // 16-byte aligned
  DType type = DType::bf16;
  u64 extent[3] = {1, 1, 1};     // elements
  u64 stride_bytes[2] = {0, 0};  // of row and batch: multiples of 16
  u32 box[3] = {1, 1, 1};        // elements
  Swizzle swizzle = Swizzle::none;
  int l2_promotion = 256;        // bytes that a miss brings into L2: 0 (what was asked for), 64, 128 or 256
};
using EncodeTensorMap = std::function<TensorMap(const TensorMapSpec&)>;

struct LaunchShape {
  u32 blocks = 0;         // one-dimensional grid, a multiple of the cluster size
  u32 cluster = 1;        // blocks a cluster, along x
  u32 threads = 0;
  u32 shared_bytes = 0;   // dynamic
  int registers = 0;      // a thread at launch, as the launch bounds give it; 0: the compiler decides
};

}  // namespace foretile
