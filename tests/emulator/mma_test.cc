// mma.sync, the transposing matrix load and the shuffle.
#include "kernels.h"

namespace foretile::emulator_tests {

using namespace emulator;
namespace {

// A lane's address for load_matrix_x4 over a 16 x 16 tile of 16-bit elements, rows of 32 bytes: matrices in the order
// (rows 0-7, k 0-7), (rows 8-15, k 0-7), (rows 0-7, k 8-15), (rows 8-15, k 8-15), which is that of mma_sync's A.
SmemAddress row_address(SmemAddress tile) {
  const u32 lane = lane_index(), row = lane % 16, chunk = lane / 16;
  return tile + 32 * row + 16 * chunk;
}

template <DType T> void product() {
  using E = Storage<T>;
  std::mt19937 rng(3);
  std::vector<float> a(256), b(128), d(128), want(128);
  for (float& x : a) x = float(int(rng() % 9) - 4);
  for (float& x : b) x = float(int(rng() % 9) - 4);
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n)
      for (int k = 0; k < 16; ++k) want[std::size_t(m * 8 + n)] += a[std::size_t(m * 16 + k)] * b[std::size_t(n * 16 + k)];
  const Report r = emulate(one_block(32), [&] {
    const u32 lane = lane_index();
    const SmemAddress a_tile = shared_base(), b_tile = shared_base() + 512;
    for (u32 i = lane; i < 256; i += 32) store_shared(a_tile + 2 * i, round_to<E>(a[i]));
    for (u32 i = lane; i < 128; i += 32) store_shared(b_tile + 2 * i, round_to<E>(b[i])), store_shared(b_tile + 256 + 2 * i, round_to<E>(0.0f));
    sync_warp();
    const u32x4 left = load_matrix_x4(row_address(a_tile));
    const u32x4 right = load_matrix_x4(row_address(b_tile));  // 16 rows of which the upper eight are zero
    float acc[4] = {1, 1, 1, 1};
    mma_sync<T>(acc, left, u32x2{right.x, right.z});
    for (int i = 0; i < 4; ++i) {
      const Element e = mma_accumulator(int(lane), i);
      d[std::size_t(e.row * 8 + e.column)] = acc[i];
    }
  }, {});
  EXPECT_EQ(r.text(), "no findings");
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(d[i], want[i] + 1) << i;
}
TEST(Mma, ProductOutOfMatrixLoads) {
  product<DType::bf16>();
  product<DType::fp16>();
}

TEST(Mma, HalfAWarpCannotCallIt) {
  const Report r = emulate(one_block(32), [] {
    float acc[4] = {};
    if (lane_index() < 16) mma_sync<DType::bf16>(acc, {}, {});
    else sync_warp();
  }, {});
  EXPECT_TRUE(r.has("divergence")) << r.text();
}

TEST(Mma, TransposingLoadGivesColumns) {
  std::vector<u32> got(32 * 4);
  const Report r = emulate(one_block(32), [&] {
    const u32 lane = lane_index();
    for (u32 i = lane; i < 256; i += 32) store_shared(shared_base() + 2 * i, u16(i));
    sync_warp();
    const u32x4 f = load_matrix_x4_transposed(shared_base() + 16 * lane);  // matrix i: rows 8i to 8i + 7 of eight elements
    got[4 * lane] = f.x, got[4 * lane + 1] = f.y, got[4 * lane + 2] = f.z, got[4 * lane + 3] = f.w;
  }, {});
  EXPECT_EQ(r.text(), "no findings");
  for (u32 lane = 0; lane < 32; ++lane)
    for (u32 i = 0; i < 4; ++i) {
      const Element e = matrix_fragment(int(lane));  // of the transpose: row and column change places
      const u32 first = 64 * i + 8 * u32(e.column) + u32(e.row);
      EXPECT_EQ(got[4 * lane + i], first | (first + 8) << 16) << lane << " " << i;
    }
}

TEST(Shuffle, ExchangesAndReduces) {
  for (const Options& o : every_mode()) {
    std::vector<float> sum(32), neighbour(32);
    const Report r = emulate(one_block(32), [&] {
      float x = float(lane_index());
      neighbour[lane_index()] = shuffle_xor(x, 1);
      for (u32 mask = 16; mask; mask /= 2) x += shuffle_xor(x, mask);
      sum[lane_index()] = x;
    }, {}, o);
    EXPECT_EQ(r.text(), "no findings");
    for (u32 lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(sum[lane], 496);
      EXPECT_EQ(neighbour[lane], float(lane ^ 1));
    }
  }
}

}  // namespace
}  // namespace foretile::emulator_tests
