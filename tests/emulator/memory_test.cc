// Shared and global memory: addresses, bounds, alignment, widths, initial contents, matrix stores.
#include "kernels.h"

namespace foretile::emulator_tests {

using namespace emulator;
namespace {

TEST(Memory, SharedMemoryBeginsAfterTheReservedKilobyte) {
  emulate(one_block(32), [] { EXPECT_EQ(shared_base().value, 0x400u); }, {});
}

TEST(Memory, EveryWidthRoundTrips) {
  const Report r = emulate(one_block(32), [] {
    const SmemAddress at = shared_base() + 64 * lane_index();
    store_shared<u8>(at, u8(lane_index()));
    store_shared<u16>(at + 2, u16(3));
    store_shared<float>(at + 4, 1.5f);
    store_shared<f32x2>(at + 8, {2, 3});
    store_shared<f32x4>(at + 16, {4, 5, 6, 7});
    EXPECT_EQ(load_shared<u8>(at), lane_index());
    EXPECT_EQ(load_shared<u16>(at + 2), 3);
    EXPECT_EQ(load_shared<f32x4>(at + 16).w, 7);
    EXPECT_EQ(load_shared<f32x2>(at + 8).y, 3);
  }, {});
  EXPECT_EQ(r.text(), "no findings");
}

TEST(Memory, UnwrittenSharedMemoryIsANaNAndReported) {
  const Report r = emulate(one_block(32), [] {
    if (thread_index() == 0) {
      EXPECT_EQ(load_shared<u32>(shared_base() + 16), 0xFFFFFFFFu);
    }
  }, {});
  EXPECT_TRUE(r.has("uninitialised"));
}

TEST(Memory, PartlyWrittenWordIsUninitialised) {
  const Report r = emulate(one_block(32), [] {
    if (thread_index()) return;
    store_shared<u16>(shared_base(), u16(1));
    load_shared<u16>(shared_base());
    load_shared<u32>(shared_base());
  }, {});
  ASSERT_EQ(r.findings.size(), 1u) << r.text();
  EXPECT_EQ(r.findings[0].kind, "uninitialised");
}

TEST(Memory, OutOfBoundsAndMisalignedSharedAccesses) {
  const auto run = [](u32 offset, bool below) {
    return emulate(one_block(32, 1024), [=] {
      if (thread_index() == 0) store_shared<f32x4>(below ? SmemAddress{1008} : shared_base() + offset, {});
    }, {});
  };
  EXPECT_TRUE(run(1008, false).clean());
  EXPECT_TRUE(run(1024, false).has("out-of-bounds"));
  EXPECT_TRUE(run(1016, false).has("out-of-bounds"));
  EXPECT_TRUE(run(0, true).has("out-of-bounds"));
  EXPECT_TRUE(run(8, false).has("misaligned"));
}

TEST(Memory, GlobalAccessesStayInTheirRegions) {
  Aligned<float> a(16), d(16);
  const std::vector<Region> regions{a.region("A"), d.region("D", true)};
  const auto run = [&](auto body) { return emulate(one_block(32), [&] { if (thread_index() == 0) body(); }, regions); };
  EXPECT_TRUE(run([&] { store_global(d.data, load_global(a.data + 15)); }).clean());
  Report r = run([&] { load_global(a.data + 16); });
  ASSERT_TRUE(r.has("out-of-bounds"));
  EXPECT_NE(r.text().find("+64 bytes from the start of A"), std::string::npos) << r.text();
  r = run([&] { store_global(a.data, 1.0f); });
  ASSERT_TRUE(r.has("out-of-bounds"));
  EXPECT_NE(r.text().find("A, which this launch may only read"), std::string::npos) << r.text();
  EXPECT_TRUE(run([&] { load_global(reinterpret_cast<const f32x4*>(a.data + 1)); }).has("misaligned"));
}

TEST(Memory, StoreMatrixPutsFragmentsIntoRows) {
  std::vector<u16> got(4 * 64);
  const Report r = emulate(one_block(32), [&] {
    const u32 l = lane_index();
    u32x4 f{};
    u32* part[4] = {&f.x, &f.y, &f.z, &f.w};
    for (u32 i = 0; i < 4; ++i) {
      const Element e = matrix_fragment(int(l));
      const u32 first = i * 64 + u32(e.row * 8 + e.column);
      *part[i] = first | (first + 1) << 16;
    }
    store_matrix_x4(shared_base() + 32 * l, f);  // row l % 8 of matrix l / 8
    sync_warp();
    for (u32 k = 0; k < 8; ++k) got[l * 8 + k] = load_shared<u16>(shared_base() + 32 * l + 2 * k);
  }, {});
  EXPECT_EQ(r.text(), "no findings");
  for (u32 i = 0; i < 256; ++i) EXPECT_EQ(got[i], i);
}

TEST(Memory, StoreMatrixX2TakesAddressesOfSixteenLanes) {
  std::vector<u16> got(2 * 64);
  const Report r = emulate(one_block(32), [&] {
    const u32 l = lane_index();
    const Element e = matrix_fragment(int(l));
    const u32 first = u32(e.row * 8 + e.column);
    store_matrix_x2(l < 16 ? shared_base() + 16 * l : SmemAddress{0}, {first | (first + 1) << 16, (first + 64) | (first + 65) << 16});
    sync_warp();
    if (l < 16)
      for (u32 k = 0; k < 8; ++k) got[l * 8 + k] = load_shared<u16>(shared_base() + 16 * l + 2 * k);
  }, {});
  EXPECT_EQ(r.text(), "no findings");
  for (u32 i = 0; i < 128; ++i) EXPECT_EQ(got[i], i);
}

TEST(Memory, RegistersThatNothingSetAreNaN) {
  float got[4] = {};
  emulate(one_block(32), [&] {
    float registers[4] = {1, 2, 3, 4};
    unset(registers);
    registers[0] = 1, registers[1] = 2;
    std::copy_n(registers, 4, got);
  }, {});
  EXPECT_EQ(got[0], 1);
  EXPECT_EQ(got[1], 2);
  EXPECT_TRUE(std::isnan(got[2]) && std::isnan(got[3]));
}

TEST(Memory, Conversions) {
  for (u32 b = 0; b < 65536; ++b) {  // every value survives the way to fp32 and back
    const u16 bits = u16(b);
    const float h = to_float(fp16{bits}), f = to_float(bf16{bits});
    if (h == h) EXPECT_EQ(round_to<fp16>(h).bits, bits);
    else EXPECT_NE(to_float(round_to<fp16>(h)), to_float(round_to<fp16>(h)));
    if (f == f) EXPECT_EQ(round_to<bf16>(f).bits, bits);
    else EXPECT_NE(to_float(round_to<bf16>(f)), to_float(round_to<bf16>(f)));
  }
  EXPECT_EQ(round_to<fp16>(65519.9f).bits, 0x7BFF);
  EXPECT_EQ(round_to<fp16>(65520.0f).bits, 0x7C00);
  EXPECT_EQ(round_to<fp16>(1.0f + 0x1p-11f).bits, 0x3C00);  // a tie goes to even
  EXPECT_EQ(round_to<fp16>(1.0f + 3 * 0x1p-11f).bits, 0x3C02);
  EXPECT_EQ(round_to<fp16>(0x1p-25f).bits, 0);
  EXPECT_EQ(round_to<fp16>(0x1.8p-25f).bits, 1);
  EXPECT_EQ(round_to<bf16>(1.0f + 0x1p-8f).bits, 0x3F80);
  EXPECT_EQ(round_to<bf16>(1.0f + 3 * 0x1p-8f).bits, 0x3F82);
}

}  // namespace
}  // namespace foretile::emulator_tests
