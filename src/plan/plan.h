// From (operation, configuration, problem, operands) to a launch: geometry, tensor maps, argument structs. Pure host
// arithmetic shared by the runtime and the emulator, so that both run a kernel the same way.
#pragma once
#include <functional>

#include "foretile/device/arguments.h"
#include "foretile/device/configuration.h"
#include "foretile/device/layout/swizzle.h"
#include "foretile/device/operation.h"

namespace foretile {

// A three-dimensional tiled tensor map (inner, row, batch), in the terms of cuTensorMapEncodeTiled.
struct TensorMapSpec {
  const void* base = nullptr;    // 16-byte aligned
  DType type = DType::bf16;
  u64 extent[3] = {1, 1, 1};     // elements
  u64 stride_bytes[2] = {0, 0};  // of row and batch: multiples of 16
  u32 box[3] = {1, 1, 1};        // elements
  Swizzle swizzle = Swizzle::none;
};
using EncodeTensorMap = std::function<TensorMap(const TensorMapSpec&)>;

struct LaunchShape {
  u32 blocks = 0;         // one-dimensional grid, a multiple of the cluster size
  u32 cluster = 1;        // blocks a cluster, along x
  u32 threads = 0;
  u32 shared_bytes = 0;   // dynamic
  int registers = 0;      // a thread at launch, as the launch bounds give it; 0: the compiler decides
};

// The matrices of one call, as pointers and strides in elements. A and B as stored: A[M,K] or, transposed, A[K,M].
struct Operands {
  MatrixArgument a, b;
  EpilogueArguments epilogue;
};

// Tiles of M walked together so that one wave of `blocks` tiles touches the fewest bytes of A and B.
i32 raster_group(const Configuration& c, const Problem& p, int blocks);
TileGrid tile_grid(const Configuration& c, const Problem& p, int blocks);
// `sms`: how many SMs the launch may fill.
LaunchShape launch_shape(const Operation& o, const Configuration& c, const Problem& p, int sms);

// Whether the operands obey TMA's rules: what Alignment to put into the Operation.
Alignment input_alignment(const Operation& o, const Problem& p, const Operands& x);
Alignment output_alignment(const Operation& o, const Problem& p, const Operands& x);

struct Sm90TensorMaps { TensorMapSpec a, b, d; };
Sm90TensorMaps sm90_tensor_maps(const Operation& o, const Configuration& c, const Problem& p, const Operands& x);

GemmSimtArguments simt_arguments(const Configuration& c, const Problem& p, const Operands& x, const LaunchShape& shape);
// The maps a, b (and d where the output is aligned) of the result are encoded by `encode`.
GemmSm90Arguments sm90_arguments(const Operation& o, const Configuration& c, const Problem& p, const Operands& x,
                                 const LaunchShape& shape, const EncodeTensorMap& encode);

}  // namespace foretile
