// Kernel arguments: one plain struct a kernel family, the same bytes on the GPU and in the emulator.
#pragma once
#include "foretile/device/types.h"

namespace foretile {

// 128 opaque bytes in the layout of CUtensorMap on the GPU; the emulator stores its own description in them.
struct alignas(64) TensorMap { u64 opaque[16]; };

// A matrix in global memory: element (row, column) of batch i stands at data + i * batch_stride + row * ld + column.
// Strides count elements. Offsets are 64-bit everywhere.
struct MatrixArgument {
  void* data = nullptr;
  i64 ld = 0;
  i64 batch_stride = 0;
};

// The epilogue's operand table. Operands the Operation does not have are null.
struct EpilogueArguments {
  MatrixArgument c, residual, d;
  MatrixArgument bias;                   // ld unused: one contiguous vector of N values a batch
  float alpha = 1, beta = 0;             // used where the pointers below are null
  const float* alpha_pointer = nullptr;  // in device memory
  const float* beta_pointer = nullptr;
};

// The grid of output tiles and the order it is walked in: see device/layout/tile_order.h.
struct TileGrid {
  i32 tiles_m = 0, tiles_n = 0;
  i32 batch = 1;
  i32 group = 1;  // tiles of M walked together before N advances, so that a wave re-reads little
};

// Also of the ffma and gemv families.
struct GemmSimtArguments {
  i32 m = 0, n = 0, k = 0;
  TileGrid grid;
  MatrixArgument a, b;
  EpilogueArguments epilogue;
};

// Also of the rows family.
struct GemmDecodeArguments {
  TensorMap a, b;
  i32 m = 0, n = 0, k = 0;
  i32 a_batched = 0, b_batched = 0;  // 0: every batch reads the same matrix
  i32 weights_ready = 0;             // B was complete before any kernel of the chain was launched
  i32 paced_stages = 0;              // how many stages of early weights may be under way; not of rows
  i32 tile_columns = 0;              // rows of B that a tile takes: at most the configuration's, so that SMs share B evenly
  TileGrid grid;
  EpilogueArguments epilogue;
};

struct GemmSm90Arguments {
  TensorMap a, b, d;  // d unused where D is not aligned for TMA
  i32 m = 0, n = 0, k = 0;
  i32 a_batched = 0, b_batched = 0;  // 0: every batch reads the same matrix
  i32 a_box_rows = 0;                // rows of A's box: fewer than the tile's where M itself is smaller
  i32 weights_ready = 0;             // B was complete before any kernel of the chain was launched
  TileGrid grid;                     // counts cluster tiles: cluster_m x cluster_n block tiles each
  EpilogueArguments epilogue;
};

}  // namespace foretile
