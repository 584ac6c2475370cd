// All probes. FORETILE_PROBES(X) names each instantiation once: the recorder compiles them, the tests run them in the
// emulator.
#pragma once
#include "foretile/device/probes/copy.cuh"
#include "foretile/device/probes/global.cuh"
#include "foretile/device/probes/product.cuh"
#include "foretile/device/probes/shared.cuh"
#include "foretile/device/probes/transpose.cuh"

#define FORETILE_PROBES(X)           \
  X(probe_shared_load<u16>)          \
  X(probe_shared_load<u32>)          \
  X(probe_shared_load<u32x2>)        \
  X(probe_shared_load<u32x4>)        \
  X(probe_shared_store<u16>)         \
  X(probe_shared_store<u32>)         \
  X(probe_shared_store<u32x2>)       \
  X(probe_shared_store<u32x4>)       \
  X(probe_load_matrix)               \
  X(probe_store_matrix<2>)           \
  X(probe_store_matrix<4>)           \
  X(probe_global_load<u16>)          \
  X(probe_global_load<u32>)          \
  X(probe_global_load<u32x2>)        \
  X(probe_global_load<u32x4>)        \
  X(probe_global_store<u16>)         \
  X(probe_global_store<u32>)         \
  X(probe_global_store<u32x2>)       \
  X(probe_global_store<u32x4>)       \
  X(probe_transpose<32, false>)      \
  X(probe_transpose<33, false>)      \
  X(probe_transpose<32, true>)       \
  X(probe_naive_product)             \
  X(probe_tiled_product<16, 16, false>) \
  X(probe_tiled_product<16, 16, true>)  \
  X(probe_tiled_product<32, 33, false>) \
  X(probe_tiled_product<32, 32, true>)  \
  X(probe_tma_copy)
