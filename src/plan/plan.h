// From (operation, configuration, problem, operands) to a launch: geometry, tensor maps, argument structs. Pure host
// arithmetic shared by the runtime and the emulator, so that both run a kernel the same way.
#pragma once
#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"
#include "foretile/launch.h"

namespace foretile {

// The matrices of one call, as pointers and strides in elements. A and B as stored: A[M,K] or, transposed, A[K,M].
struct Operands {
  MatrixArgument a, b;
  EpilogueArguments epilogue;
};

// Tiles of M walked together so that one wave of `blocks` tiles touches the fewest bytes of A and B.
i32 raster_group(const Configuration& c, const Problem& p, int blocks);
TileGrid tile_grid(const Configuration& c, const Problem& p, int blocks);               // sm90 and simt
TileGrid decode_grid(const Configuration& c, const Problem& p, int tile_columns);      // decode and rows; columns by their balance()
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

// Of decode and rows.
struct DecodeTensorMaps { TensorMapSpec a, b; };
DecodeTensorMaps decode_tensor_maps(const Operation& o, const Configuration& c, const Problem& p, const Operands& x, int tile_columns);
// The maps a and b of the result are encoded by `encode`. `sms` as for launch_shape.
GemmDecodeArguments decode_arguments(const Operation& o, const Configuration& c, const Problem& p, const Operands& x, int sms, const EncodeTensorMap& encode);

}  // namespace foretile
