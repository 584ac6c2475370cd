// Facts of the portable SIMT kernel, each stated once.
#pragma once
#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"

namespace foretile::simt {

constexpr int threads(const Configuration& c) { return (c.tile_m / c.thread_m) * (c.tile_n / c.thread_n); }
// Blocks an SM that the launch bounds promise: 512 threads leave each 128 registers, 384 leave it 168, which a register
// tile of 64 values needs not to spill.
constexpr int resident_blocks(const Configuration& c) {
  const int resident_threads = c.thread_m * c.thread_n >= 64 ? 384 : 512;
  return threads(c) >= resident_threads ? 1 : resident_threads / threads(c);
}
// Tiles stand in shared memory as fp32, K-major rows of M (or N): tile(k, row). The pad of four floats keeps 16-byte
// alignment and spreads the transposing stores over the banks.
constexpr int kPad = 4;
constexpr int a_pitch(const Configuration& c) { return c.tile_m + kPad; }  // floats
constexpr int b_pitch(const Configuration& c) { return c.tile_n + kPad; }
constexpr int a_bytes(const Configuration& c) { return 4 * c.tile_k * a_pitch(c); }
constexpr int b_bytes(const Configuration& c) { return 4 * c.tile_k * b_pitch(c); }
constexpr int shared_bytes(const Configuration& c) { return a_bytes(c) + b_bytes(c); }

}  // namespace foretile::simt
