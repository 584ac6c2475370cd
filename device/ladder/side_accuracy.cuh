// Beside the ladder: how sums are kept. Rung 3's kernel with three kinds of accumulator.
//
// Plain fp32 loses up to half a last place at every addition, more as K grows. Compensated: the rounding error of each
// addition, which fp32 can hold exactly, is carried to the next one (Kahan), four operations instead of one. fp64: the
// product of two fp32 values is exact in it, and sums of any length that fits in memory round to the right fp32.
#pragma once
#include "foretile/device/ladder/03_shared_tile.cuh"

namespace foretile::ladder {

enum class Accumulation : u8 { fp32 = 0, compensated = 1, fp64 = 2 };

template <Accumulation> struct Sum;
template <> struct Sum<Accumulation::fp32> {
  float value = 0;
  FORETILE_DEVICE void add(float a, float b) { value = multiply_add(a, b, value); }
  FORETILE_DEVICE float result() const { return value; }
};
template <> struct Sum<Accumulation::compensated> {
  float value = 0, lost = 0;  // value - lost is the sum
  FORETILE_DEVICE void add(float a, float b) {
    const float term = multiply_add(a, b, -lost), next = value + term;
    lost = (next - value) - term;
    value = next;
  }
  FORETILE_DEVICE float result() const { return value; }
};
template <> struct Sum<Accumulation::fp64> {
  double value = 0;
  FORETILE_DEVICE void add(float a, float b) { value += double(a) * double(b); }
  FORETILE_DEVICE float result() const { return float(value); }
};

template <Tile T, Accumulation S> FORETILE_DEVICE void accuracy(const Arguments& x) {
  constexpr int kTile = T.tile_k;
  const SharedTile<kTile> a{shared_base()}, b{shared_base() + 4 * kTile * kTile};
  const Corner corner = block_corner(x, kTile, kTile);
  const int tx = int(thread_index()) % kTile, ty = int(thread_index()) / kTile;
  Sum<S> sum;
  for (i32 step = 0; step < x.k; step += kTile) {
    store_shared(a(ty, tx), element(x.a, x.m, x.k, corner.row + ty, step + tx));
    store_shared(b(ty, tx), element(x.b, x.k, x.n, step + ty, corner.column + tx));
    sync_block();
    FORETILE_UNROLL
    for (int k = 0; k < kTile; ++k) sum.add(load_shared_alone(a(ty, k)), load_shared_alone(b(k, tx)));
    sync_block();
  }
  store_element(x, corner.row + ty, corner.column + tx, sum.result());
}

}  // namespace foretile::ladder
