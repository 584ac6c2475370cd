// The order in which output tiles are walked. Kernel, model and emulator share it.
#pragma once
#include "foretile/device/arguments.h"

namespace foretile {

struct TileCoordinate { i32 m, n, batch; };

constexpr i64 tile_count(const TileGrid& grid) { return i64(grid.tiles_m) * grid.tiles_n * grid.batch; }

// Bands of `group` tiles of M; inside a band M runs fastest, then N, so the tiles of one wave form a compact
// rectangle and its rows and columns are found again in L2. The last band may be lower.
constexpr TileCoordinate tile_at(i32 index, const TileGrid& grid) {
  const i32 per_batch = grid.tiles_m * grid.tiles_n;
  const i32 batch = index / per_batch;
  const i32 rest = index - batch * per_batch;
  const i32 per_band = grid.group * grid.tiles_n;
  const i32 band = rest / per_band;
  const i32 first = band * grid.group;
  const i32 height = grid.tiles_m - first < grid.group ? grid.tiles_m - first : grid.group;
  const i32 within = rest - band * per_band;
  const i32 n = within / height;
  return {first + within - n * height, n, batch};
}

// The same; where there is one row of tiles, without the divisions, which take a tenth of a microsecond.
constexpr TileCoordinate tile_of(i32 index, const TileGrid& grid) {
  return grid.tiles_m == 1 && grid.batch == 1 ? TileCoordinate{0, index, 0} : tile_at(index, grid);
}

// What a persistent block asks for its next tile. Static round-robin today; a kernel never computes a tile from its
// grid position, so a dynamic or grouped scheduler can replace this without touching kernels.
struct WorkIterator {
  i32 next, step, count;
  constexpr bool done() const { return next >= count; }
  constexpr void advance() { next += step; }
};

}  // namespace foretile
