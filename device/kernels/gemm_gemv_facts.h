// Facts of the kernel for a vector or a few rows of A, each stated once.
#pragma once
#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"

namespace foretile::gemv {

// A tile is tile_m rows of A by tile_n rows of B; split_k warps of a block share out K, tile_k elements a step each.
constexpr int threads(const Configuration& c) { return 32 * c.split_k; }
constexpr int kStep = 128;  // elements of K that a warp takes at once, four a lane

// Sums, four elements of each row of B and of one row of A, and what addresses take.
constexpr int registers_wanted(const Configuration& c) { return (c.tile_m * c.tile_n + 6 * c.tile_n + 32 + 7) / 8 * 8; }
constexpr int resident_blocks(const Configuration& c) {
  const int blocks = 65536 / (registers_wanted(c) * threads(c)), most = 2048 / threads(c);
  return blocks < 1 ? 1 : blocks > most ? most : blocks;
}

// Partial sums: [warp][row of A, row of B][lane], the lanes 33 words apart so that a warp that reads one sum of all lanes,
// or stores its lane of one, meets no bank twice.
constexpr int kLanePitch = 33;
constexpr int shared_bytes(const Configuration& c) { return 4 * c.split_k * c.tile_m * c.tile_n * kLanePitch; }

}  // namespace foretile::gemv
