// A short run of what `foretile verify --count 2000` does at length.
#include "gpu/placed.h"

namespace foretile::gpu_tests {
namespace {

TEST(GpuVerify, RandomProducts) {
  GPU_OR_SKIP();
  bench::VerifyOptions o;
  o.count = 200, o.seed = 20;
  const bench::VerifyResult r = bench::verify(o);
  EXPECT_TRUE(r.passed()) << r.text();
  EXPECT_GT(r.checked_on_cpu, 5);
}

TEST(GpuVerify, IntegersAreExact) {
  GPU_OR_SKIP();
  bench::VerifyOptions o;
  o.count = 100, o.seed = 21, o.integers = true;
  const bench::VerifyResult r = bench::verify(o);
  EXPECT_TRUE(r.passed()) << r.text();
  EXPECT_EQ(r.exact, r.cases);
}

// Every catalogue configuration on sizes one below, at and above its tile.
TEST(GpuVerify, EveryConfigurationAtItsEdges) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  for (const Configuration& c : catalogue::kConfigurations) {
    if (needs_hopper(c.family) && gpu.info().compute_capability != 90) continue;
    for (const i64 dm : {-1, 0, 1})
      for (const i64 dn : {-8, 0, 8})
        for (const i64 k : {8, 64, 192, 520}) {
          Problem p{std::max<i64>(1, c.tile_m * 2 + dm), std::max<i64>(8, c.tile_n * 2 + dn), k + (c.split_k - 1) * decode::kSliceUnit, 1};
          for (const DType in : {DType::bf16, DType::fp32, DType::tf32}) {
            bench::VerifyCase v = make_case(operation(in, stored_type(in)), p);
            if (why_not(v.operation, c)) continue;
            v.configuration = c, v.integers = in != DType::tf32;  // of tf32 normal data: what is cut must show
            EXPECT_EQ(run(gpu, v), "");
          }
        }
  }
}

TEST(GpuVerify, RandomProductsInTf32) {
  GPU_OR_SKIP();
  bench::VerifyOptions o;
  o.count = 100, o.seed = 23, o.compute = Compute::tf32;
  const bench::VerifyResult r = bench::verify(o);
  EXPECT_TRUE(r.passed()) << r.text();
}

// Every decode configuration on gated products, and in a chain of dependent launches.
TEST(GpuVerify, EveryDecodeConfigurationGatedAndInChains) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  if (gpu.info().compute_capability != 90) GTEST_SKIP() << "gated products need Hopper";
  std::vector<bench::VerifyCase> cases;
  for (const Configuration& c : catalogue::kConfigurations)
    for (const Gating gating : {Gating::none, Gating::halves, Gating::interleaved}) {
      Operation o = operation(DType::bf16, DType::bf16);
      o.gating = gating;
      if (gating != Gating::none) o.activation = Activation::silu;
      if (c.family != Family::decode || why_not(o, c)) continue;
      for (const i64 n : {i64(c.tile_n) * 2, i64(c.tile_n) * 3 - 6, i64(2)})
        for (const i64 k : {i64(136), i64(1032)}) {
          bench::VerifyCase v = make_case(o, {std::max<i64>(1, c.tile_m - 3), n, k + (c.split_k - 1) * decode::kSliceUnit, 1});
          v.configuration = c;
          for (const bench::Chain chain : {bench::Chain::none, bench::Chain::fed, bench::Chain::between})
            for (const bool ready : {false, true}) {
              if (chain == bench::Chain::none && ready) continue;
              v.chain = chain, v.weights_ready = ready;
              cases.push_back(v);
            }
        }
    }
  prepare_all(gpu, cases);
  std::unique_ptr<bench::PlacedCase> reuse;
  for (const bench::VerifyCase& v : cases) EXPECT_EQ(run(gpu, v, &reuse), "");
}

// A planted fault must be found on the real GPU as well: here a product that was told one K too few.
TEST(GpuVerify, ADroppedProductIsFound) {
  GPU_OR_SKIP();
  bench::VerifyOptions o;
  o.count = 20, o.seed = 22, o.stop_after = 1000;
  o.product = [](Matmul call) {
    if (call.k > 0 && !call.a.transposed && !call.b.transposed) {
      if (call.a.ld == 0) call.a.ld = call.k;
      if (call.b.ld == 0) call.b.ld = call.k;
      --call.k;
      call.configuration = nullptr;
    }
    return matmul(call);
  };
  EXPECT_GT(bench::verify(o).failures.size(), 5u);
}

}  // namespace
}  // namespace foretile::gpu_tests
