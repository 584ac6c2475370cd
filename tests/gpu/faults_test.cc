// Known faults of other libraries, on the GPU: named by their number in the collection of cases. tests/faults has those
// that show on a CPU.
#include "gpu/placed.h"

namespace foretile::gpu_tests {
namespace {

bool enough_memory(const bench::Gpu& gpu, double gigabytes) {
  std::size_t free = 0, total = 0;
  gpu.check(gpu.driver().memory_info(&free, &total), "cuMemGetInfo");
  return double(free) >= gigabytes * 1e9;
}

std::vector<const Configuration*> families(const bench::Gpu& gpu) {
  return gpu.info().compute_capability == 90 ? std::vector<const Configuration*>{&kHopper, &kPortable, nullptr} : std::vector<const Configuration*>{&kPortable, nullptr};
}
bench::VerifyCase with(bench::VerifyCase v, const Configuration* c) {
  if (c) v.configuration = *c;
  return v;
}

// B01: offsets beyond 2^31 and 2^32 elements.
TEST(GpuFaults, B01_OffsetsBeyond32Bits) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  if (!enough_memory(gpu, 60)) GTEST_SKIP() << "needs 60 GB of device memory";
  for (const Configuration* c : families(gpu))
    for (const i64 ld : {i64(1) << 20, i64(1) << 21}) {  // the last of 2,049 rows starts at 2^31 and at 2^32
      const Layout wide{.padding = ld - 64};
      EXPECT_EQ(run(gpu, with(make_case(operation(DType::bf16, DType::bf16), {2049, 64, 64, 1}, {.a = wide}), c)), "");
      EXPECT_EQ(run(gpu, with(make_case(operation(DType::bf16, DType::bf16), {64, 2049, 64, 1}, {.b = wide}), c)), "");
      EXPECT_EQ(run(gpu, with(make_case(operation(DType::bf16, DType::bf16), {2049, 64, 64, 1}, {.d = wide}), c)), "");
      Operation full = operation(DType::bf16, DType::bf16);
      full.has_c = full.has_residual = true;
      EXPECT_EQ(run(gpu, with(make_case(full, {2049, 64, 64, 1}, {.c = wide, .residual = wide}), c)), "");
    }
}
TEST(GpuFaults, B01_MoreThan2To31Outputs) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  if (!enough_memory(gpu, 60)) GTEST_SKIP() << "needs 60 GB of device memory";
  EXPECT_EQ(run(gpu, make_case(operation(DType::bf16, DType::bf16), {524416, 4096, 64, 1})), "");
}

// B02: an empty sum writes every element.
TEST(GpuFaults, B02_KIsZero) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  for (const DType t : {DType::bf16, DType::fp16, DType::fp32})
    for (const i64 batch : {1, 3}) {
      EXPECT_EQ(run(gpu, make_case(operation(t, t), {3, 3, 0, batch})), "");
      Operation o = operation(t, t);
      o.has_bias = true, o.activation = Activation::gelu_erf;
      EXPECT_EQ(run(gpu, make_case(o, {3, 130, 0, batch})), "");
      o.has_c = true;
      EXPECT_EQ(run(gpu, make_case(o, {70, 5, 0, batch})), "");
    }
}

// B04: beta = 0 never reads C. PlacedCase fills C, and D where it is C, with NaN then.
TEST(GpuFaults, B04_BetaZeroDoesNotReadC) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  Operation o = operation(DType::bf16, DType::bf16);
  o.has_c = true;
  for (const Configuration* c : families(gpu))
    for (const bool on_device : {false, true})
      for (const bool alias : {false, true}) {
        bench::VerifyCase v = with(make_case(o, {64, 64, 64, 1}), c);
        v.beta = 0, v.beta_on_device = on_device, v.c_is_d = alias;
        EXPECT_EQ(run(gpu, v), "");
      }
  o.has_c = false, o.has_bias = true;  // C null, beta 0
  EXPECT_EQ(run(gpu, make_case(o, {64, 64, 64, 1})), "");
}

// B05: nothing is mapped to the grid's y or z.
TEST(GpuFaults, B05_LargeBatchesAndManyTiles) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  for (const Configuration* c : families(gpu))
    for (const i64 n : {16, 1}) {
      const bench::VerifyCase v = make_case(operation(DType::bf16, DType::bf16), {16, n, 8, 65536});
      if (c && n == 1 && c->family == Family::sm90) continue;  // D's rows of two bytes: direct stores, the model's choice covers it
      EXPECT_EQ(run(gpu, with(v, c)), "");
    }
  EXPECT_EQ(run(gpu, make_case(operation(DType::bf16, DType::bf16), {i64(65536) * 128 + 5, 8, 16, 1})), "");
}

// B18: strides that TMA cannot take.
TEST(GpuFaults, B18_UnalignedStrides) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  EXPECT_EQ(run(gpu, make_case(operation(DType::bf16, DType::bf16), {3, 132, 7168, 1})), "");
  for (const i64 extra : {1, 2, 4}) {
    EXPECT_EQ(run(gpu, make_case(operation(DType::bf16, DType::bf16), {130, 132, 256, 1}, {.a = {.padding = extra}})), "");
    EXPECT_EQ(run(gpu, make_case(operation(DType::bf16, DType::bf16), {130, 132, 256, 1}, {.b = {.padding = extra}})), "");
    EXPECT_EQ(run(gpu, make_case(operation(DType::bf16, DType::bf16), {130, 132, 256, 1}, {.d = {.padding = extra}})), "");
  }
  for (const i64 offset : {1, 2, 4, 7}) EXPECT_EQ(run(gpu, make_case(operation(DType::fp16, DType::fp32), {130, 132, 256, 1}, {.a = {.offset = offset}, .b = {.offset = offset}, .d = {.offset = offset}})), "");
  EXPECT_EQ(run(gpu, make_case(operation(DType::fp32, DType::fp32), {33, 5, 64, 1})), "");
}

// B22: tails of every dimension, NaN just past each row of A and B. The whole cube once, its diagonal planes elsewhere.
TEST(GpuFaults, B22_Tails) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  const std::vector<i64> sizes = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 127, 129, 255, 257};
  std::unique_ptr<bench::PlacedCase> reuse;
  const Layout past{.padding = 8};
  int failed = 0;
  const auto check = [&](const Operation& o, i64 m, i64 n, i64 k) {
    const std::string what = run(gpu, make_case(o, {m, n, k, 1}, {.a = past, .b = past}), &reuse);
    if (!what.empty() && failed++ < 5) ADD_FAILURE() << what;
  };
  for (const i64 m : sizes)
    for (const i64 n : sizes)
      for (const i64 k : sizes) check(operation(DType::bf16, DType::bf16), m, n, k);
  for (const DType t : {DType::fp16, DType::fp32})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (std::size_t i = 0; i < sizes.size(); ++i)
          for (std::size_t j = 0; j < sizes.size(); j += 3) check(operation(t, t, ta, tb), sizes[i], sizes[j], sizes[(i * 7 + j) % sizes.size()]);
  EXPECT_EQ(failed, 0);
}

// B26: the stride of a dimension of one is not looked at.
TEST(GpuFaults, B26_StridesOfSizeOne) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  for (const i64 told : {0, 1, 7, 1'000'000'000}) {
    EXPECT_EQ(run(gpu, make_case(operation(DType::bf16, DType::bf16), {1, 64, 64, 1}, {.a = {.told_ld = told}, .d = {.told_ld = told}})), "");
    EXPECT_EQ(run(gpu, make_case(operation(DType::bf16, DType::bf16), {64, 1, 64, 1}, {.b = {.told_ld = told}})), "");
  }
  EXPECT_EQ(run(gpu, make_case(operation(DType::bf16, DType::bf16), {64, 64, 1, 1}, {.a = {.padding = 6}})), "");
}

// B67: sizes that are no multiple of the tile, not square.
TEST(GpuFaults, B67_AnySizeInThePortableKernel) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  for (const Configuration& c : catalogue::kConfigurations) {
    if (c.family != Family::simt) continue;
    for (const Problem& p : {Problem{127, 127, 127, 1}, Problem{1, 1, 1, 1}, Problem{34, 34, 34, 1}, Problem{100, 70, 33, 1}}) EXPECT_EQ(run(gpu, with(make_case(operation(DType::fp32, DType::fp32), p), &c)), "");
  }
}

// B90: odd sizes neither fault nor are refused; only the contiguous dimension matters to alignment.
TEST(GpuFaults, B90_OddSizes) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  for (const Problem& p : {Problem{2, 4, 3, 1}, Problem{1471, 256, 512, 1}, Problem{1, 105, 107, 1}}) EXPECT_EQ(run(gpu, make_case(operation(DType::fp16, DType::fp16), p)), "");
  if (gpu.info().compute_capability == 90) {
    EXPECT_EQ(run(gpu, with(make_case(operation(DType::fp16, DType::fp16), {1471, 256, 512, 1}), &kHopper)), "") << "an odd M must not keep the Hopper kernel away";
  }
}

// B94: rectangular, every transpose, leading dimensions larger than needed.
TEST(GpuFaults, B94_TransposesAndLeadingDimensions) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  for (const DType t : {DType::fp32, DType::bf16})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const i64 padding : {0, 3}) EXPECT_EQ(run(gpu, make_case(operation(t, t, ta, tb), {2, 3, 4, 1}, {.a = {.padding = padding}, .b = {.padding = padding}, .d = {.padding = padding}})), "");
}

}  // namespace
}  // namespace foretile::gpu_tests
