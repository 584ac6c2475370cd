// Tensor memory accelerator: boxes, swizzles, bounds, multicast, stores, groups, illegal maps.
#include "kernels.h"

#include <stdexcept>

namespace foretile::emulator_tests {

using namespace emulator;
namespace {

void wait_for_copy(const TensorMap& map, BoxCorner corner, u32 bytes, u32 barrier = 32768) {
  init_barriers({{barrier, 1}});
  if (thread_index() == 0) {
    mbarrier_arrive_expect(barrier_at(barrier), bytes);
    tma_load(shared_base(), map, corner, barrier_at(barrier));
  }
  mbarrier_wait(barrier_at(barrier), 0);
}

class Swizzles : public testing::TestWithParam<Swizzle> {};

// Every element of the box, also those outside of the tensor (zero), in every swizzle.
TEST_P(Swizzles, LoadPermutesChunksAndFillsZeros) {
  const Swizzle swizzle = GetParam();
  const u32 columns = u32(span_of(swizzle)) / 2, rows = 24;
  Aligned<u16> source(40 * 30);
  for (std::size_t i = 0; i < source.count; ++i) source[i] = u16(i + 1);
  const TensorMap map = map_of(source.data, DType::bf16, 40, 30, columns, rows, swizzle);
  for (const BoxCorner corner : {BoxCorner{0, 0, 0}, BoxCorner{8, 3, 0}, BoxCorner{32, 20, 0}, BoxCorner{-8, -5, 0}, BoxCorner{0, 0, 1}, BoxCorner{104, 0, 0}}) {
    for (const Options& o : every_mode()) {
      const Report r = emulate(one_block(32, 33000), [&] {
        wait_for_copy(map, corner, rows * columns * 2);
        for (u32 i = thread_index(); i < rows * columns; i += 32) {
          const u32 address = swizzle_address(shared_base().value + 2 * i, swizzle);
          const i32 row = corner.row + i32(i / columns), column = corner.inner + i32(i % columns);
          const bool inside = row >= 0 && row < 30 && column >= 0 && column < 40 && corner.batch == 0;
          EXPECT_EQ(load_shared<u16>(SmemAddress{address}), inside ? source[std::size_t(row * 40 + column)] : 0) << row << ", " << column;
        }
      }, {source.region("source")}, o);
      EXPECT_EQ(r.text(), "no findings") << mode_name(o);
    }
  }
}

TEST_P(Swizzles, StoreUndoesTheSwizzleAndClips) {
  const Swizzle swizzle = GetParam();
  const u32 columns = u32(span_of(swizzle)) / 2, rows = 16;
  for (const BoxCorner corner : {BoxCorner{0, 0, 0}, BoxCorner{24, 9, 0}}) {
    for (const Options& o : every_mode()) {
      Aligned<u16> target(40 * 20, 0xABCD);
      const TensorMap map = map_of(target.data, DType::bf16, 40, 20, columns, rows, swizzle);
      const Report r = emulate(one_block(32, 8192), [&] {
        for (u32 i = thread_index(); i < rows * columns; i += 32) store_shared<u16>(SmemAddress{swizzle_address(shared_base().value + 2 * i, swizzle)}, u16(i));
        fence_proxy_async();
        sync_warp();
        if (thread_index() == 0) {
          tma_store(map, corner, shared_base());
          bulk_commit();
          bulk_wait<0>();
        }
      }, {target.region("target", true)}, o);
      EXPECT_EQ(r.text(), "no findings") << mode_name(o);
      for (i32 row = 0; row < 20; ++row)
        for (i32 column = 0; column < 40; ++column) {
          const i32 y = row - corner.row, x = column - corner.inner;
          const bool inside = y >= 0 && y < i32(rows) && x >= 0 && x < i32(columns);
          EXPECT_EQ(target[std::size_t(row * 40 + column)], inside ? u16(y * i32(columns) + x) : 0xABCD);
        }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Swizzles, testing::Values(Swizzle::none, Swizzle::bytes32, Swizzle::bytes64, Swizzle::bytes128));

TEST(Tma, MulticastLandsAtTheSameAddressOfEachBlock) {
  Aligned<float> source(256);
  std::iota(source.data, source.data + 256, 0.0f);
  const TensorMap map = map_of(source.data, DType::fp32, 32, 8, 32, 4);
  for (const Options& o : every_mode()) {
    LaunchShape shape = one_block(32);
    shape.blocks = shape.cluster = 2;
    int wrong = 0;
    const Report r = emulate(shape, [&] {
      const Mbarrier barrier = barrier_at(2048);
      if (thread_index() == 0) {
        mbarrier_init(barrier, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect(barrier, 1024);
      }
      cluster_arrive();
      cluster_wait();
      // Each block loads one half for both.
      if (thread_index() == 0) tma_load_multicast(shared_base() + 512 * cluster_rank(), map, {0, i32(4 * cluster_rank()), 0}, barrier, 3);
      mbarrier_wait(barrier, 0);
      for (u32 i = thread_index(); i < 256; i += 32) wrong += load_shared<float>(shared_base() + 4 * i) != float(i);
      cluster_arrive();
      cluster_wait();
    }, {source.region("source")}, o);
    EXPECT_EQ(r.text(), "no findings") << mode_name(o);
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(r.counters.tma_load_bytes, 2048u);
  }
}

// bulk_wait_read frees the source; only bulk_wait means that the write is done.
TEST(Tma, StoresCompleteInTwoSteps) {
  Aligned<float> target(32);
  const TensorMap map = map_of(target.data, DType::fp32, 32, 1, 32, 1);
  const auto kernel = [&](bool wait_for_write) {
    return [&, wait_for_write] {
      store_shared(shared_base() + 4 * lane_index(), 5.0f);
      fence_proxy_async();
      sync_warp();
      if (lane_index() == 0) {
        tma_store(map, {0, 0, 0}, shared_base());
        bulk_commit();
        bulk_wait_read<0>();
        store_shared(shared_base(), 6.0f);
        if (wait_for_write) bulk_wait<0>();
        load_global(target.data + 1);
      }
    };
  };
  for (const Options& o : every_mode()) {
    EXPECT_EQ(emulate(one_block(32), kernel(true), {target.region("D", true)}, o).text(), "no findings") << mode_name(o);
    EXPECT_EQ(target[0], 5);
    const Report r = emulate(one_block(32), kernel(false), {target.region("D", true)}, o);
    EXPECT_TRUE(r.has("race")) << mode_name(o) << r.text();
  }
}

TEST(Tma, GroupsRetireOldestFirst) {
  Aligned<float> target(64);
  const TensorMap map = map_of(target.data, DType::fp32, 32, 2, 32, 1);
  const auto kernel = [&](bool second) {
    return [&, second] {
      if (lane_index()) return;
      for (u32 i = 0; i < 64; ++i) store_shared(shared_base() + 4 * i, float(i));
      fence_proxy_async();
      for (i32 group = 0; group < 2; ++group) {
        tma_store(map, {0, group, 0}, shared_base() + 128 * u32(group));
        bulk_commit();
      }
      bulk_wait_read<1>();
      store_shared(shared_base() + (second ? 128 : 0), 0.0f);
      bulk_wait<0>();
    };
  };
  for (const Options& o : every_mode()) {
    EXPECT_EQ(emulate(one_block(32), kernel(false), {target.region("D", true)}, o).text(), "no findings") << mode_name(o);
    EXPECT_TRUE(emulate(one_block(32), kernel(true), {target.region("D", true)}, o).has("race")) << mode_name(o);
  }
}

TEST(Tma, AMapThatReachesBeyondItsOperandIsOutOfBounds) {
  Aligned<float> source(256);
  const TensorMap map = map_of(source.data, DType::fp32, 32, 9, 32, 8);
  const Report r = emulate(one_block(32, 33000), [&] { wait_for_copy(map, {0, 4, 0}, 1024); }, {source.region("A")});
  EXPECT_TRUE(r.has("out-of-bounds")) << r.text();
}

TEST(Tma, IllegalMapsAreRefusedByName) {
  Aligned<float> data(64);
  TensorMapSpec good;
  good.base = data.data;
  good.type = DType::bf16;
  good.extent[0] = 64, good.extent[1] = 2;
  good.stride_bytes[0] = good.stride_bytes[1] = 128;
  good.box[0] = 64, good.box[1] = 2;
  good.swizzle = Swizzle::bytes128;
  EXPECT_NO_THROW(encode_tensor_map(good));
  const auto refused = [&](auto change, const std::string& word) {
    TensorMapSpec bad = good;
    change(bad);
    try {
      encode_tensor_map(bad);
      return testing::AssertionFailure() << "accepted: " << word;
    } catch (const std::invalid_argument& e) {
      if (std::string(e.what()).find(word) == std::string::npos) return testing::AssertionFailure() << e.what();
    }
    return testing::AssertionSuccess();
  };
  EXPECT_TRUE(refused([&](TensorMapSpec& s) { s.base = reinterpret_cast<const char*>(data.data) + 8; }, "base"));
  EXPECT_TRUE(refused([](TensorMapSpec& s) { s.stride_bytes[0] = 130; }, "stride 0"));
  EXPECT_TRUE(refused([](TensorMapSpec& s) { s.stride_bytes[1] = u64(1) << 40; }, "stride 1"));
  EXPECT_TRUE(refused([](TensorMapSpec& s) { s.extent[1] = 0; }, "extent 1"));
  EXPECT_TRUE(refused([](TensorMapSpec& s) { s.box[1] = 257; }, "box 1"));
  EXPECT_TRUE(refused([](TensorMapSpec& s) { s.box[0] = 12; }, "multiple of 16"));
  EXPECT_TRUE(refused([](TensorMapSpec& s) { s.box[0] = 128; }, "swizzle"));
}

// What traps on the chip (tests/golden/tma.golden).
TEST(Tma, CornersThatTrap) {
  Aligned<float> data(256);
  const TensorMap map = map_of(data.data, DType::fp32, 32, 8, 32, 8);
  const auto load = [&](BoxCorner c) { return emulate(one_block(32, 33000), [&] { wait_for_copy(map, c, 1024); }, {data.region("A")}); };
  const auto store = [&](BoxCorner c) {
    return emulate(one_block(32), [&] {
      for (u32 i = thread_index(); i < 256; i += 32) store_shared(shared_base() + 4 * i, 1.0f);
      fence_proxy_async();
      sync_warp();
      if (thread_index()) return;
      tma_store(map, c, shared_base());
      bulk_commit();
      bulk_wait<0>();
    }, {data.region("D", true)});
  };
  EXPECT_TRUE(load({4, 0, 0}).clean());
  EXPECT_TRUE(load({2, 0, 0}).has("tensor-map"));
  EXPECT_TRUE(load({-4, -1, 0}).clean());
  EXPECT_TRUE(store({4, 1, 0}).clean());
  EXPECT_TRUE(store({2, 0, 0}).has("tensor-map"));
  EXPECT_TRUE(store({-4, 0, 0}).has("tensor-map"));
  EXPECT_TRUE(store({0, -1, 0}).has("tensor-map"));
}

TEST(Tma, AStoreWritesWholeUnitsOfSixteenBytes) {
  Aligned<float> data(64);
  TensorMapSpec spec;
  spec.base = data.data;
  spec.type = DType::fp32;
  spec.extent[0] = 6, spec.extent[1] = 2;
  spec.stride_bytes[0] = spec.stride_bytes[1] = 64;
  spec.box[0] = 8, spec.box[1] = 2;
  const TensorMap map = encode_tensor_map(spec);
  const Report r = emulate(one_block(32), [&] {
    if (thread_index() < 16) store_shared(shared_base() + 4 * thread_index(), 1.0f + float(thread_index()));
    fence_proxy_async();
    sync_warp();
    if (thread_index()) return;
    tma_store(map, {0, 0, 0}, shared_base());
    bulk_commit();
    bulk_wait<0>();
  }, {data.region("D", true)});
  EXPECT_EQ(r.text(), "no findings");
  EXPECT_EQ(data[7], 8.0f);  // beyond the extent of 6, inside the 16-byte unit
  EXPECT_EQ(data[8], 0.0f);
}

TEST(Tma, WhatIsNoTensorMapIsRefused) {
  const TensorMap nothing{};
  const Report r = emulate(one_block(32, 33000), [&] { wait_for_copy(nothing, {0, 0, 0}, 16); }, {});
  EXPECT_TRUE(r.has("tensor-map")) << r.text();
}

TEST(Tma, MisalignedDestination) {
  Aligned<float> source(256);
  const TensorMap map = map_of(source.data, DType::fp32, 32, 8, 32, 8);
  const Report r = emulate(one_block(32), [&] {
    init_barriers({{2048, 1}});
    if (thread_index() == 0) tma_load(shared_base() + 64, map, {0, 0, 0}, barrier_at(2048));
  }, {source.region("A")});
  EXPECT_TRUE(r.has("misaligned")) << r.text();
}

}  // namespace
}  // namespace foretile::emulator_tests
