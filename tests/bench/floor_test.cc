// The arm that only reads weights: on a pretended GPU whose memory counts how often each byte was read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "bench/bench.h"
#include "bench/floor.h"

namespace foretile::bench {
namespace {

void pretend_gpu() {
  setenv("FORETILE_LIBCUDA", FORETILE_FAKE_GPU, 1);
  setenv("FORETILE_NVRTC", FORETILE_FAKE_GPU, 1);
}

TEST(Floor, EveryByteIsReadOnce) {
  pretend_gpu();
  const Gpu gpu;
  for (const Ring& ring : {Ring{13, 16384, 1}, Ring{4, 8192, 3}, Ring{1, 1024, 1}, Ring{3, 4096, 2}})
    for (const int blocks : {1, 3, 132})
      for (const i64 bytes : {i64(16), i64(1024), i64(1040), i64(132 * 1024), i64(4096 * 33 + 48), i64(1 << 20) - 16, i64(3 << 20)}) {
        const Buffer memory(gpu, std::size_t(bytes + 64));
        gpu.set_bytes(memory.data(), 0, memory.size());
        launch_read(gpu, memory.data(), bytes, ring, blocks, true);
        std::vector<u8> counts(memory.size());
        gpu.download(counts.data(), memory.data(), counts.size());
        EXPECT_EQ(std::count(counts.begin(), counts.begin() + bytes, 1), bytes) << ring.text() << ", " << blocks << " blocks";
        EXPECT_EQ(std::count(counts.begin() + bytes, counts.end(), 0), 64) << ring.text() << ", " << blocks << " blocks, " << bytes << " bytes";
      }
}

// The largest share is at most a piece longer than the smallest, so that no block is alone at the end.
TEST(Floor, SharesAreEven) {
  const i64 pieces = ceil_div(i64(28672) * 4096 * 2, i64(ReadArguments::kPiece));
  EXPECT_LT(double(ceil_div(pieces, 132)) / (double(pieces) / 132), 1.001);
}

TEST(Floor, WeightsThatDoNotDivideAreRefused) {
  pretend_gpu();
  BenchOptions o;
  o.shapes = {{"odd", 1, 3, 5}}, o.baseline = false, o.floor = true;
  try {
    bench(o);
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "floor: the weights of odd are 30 bytes; allowed: a multiple of 16");
  }
}

}  // namespace
}  // namespace foretile::bench
