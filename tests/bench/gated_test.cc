// The other arm of the gated benchmark: its gating kernel, on a pretended GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "bench/gated.h"
#include "bench/gpu.h"
#include "bench/kernels.h"
#include "bench/plain_compile.h"
#include "model/text.h"
#include "reference/check.h"
#include "reference/convert.h"
#include "runtime/nvrtc.h"

namespace foretile::bench {
namespace {

TEST(Gated, TheGatingKernelIsSiluTimesUp) {
  setenv("FORETILE_LIBCUDA", FORETILE_FAKE_GPU, 1);
  setenv("FORETILE_NVRTC", FORETILE_FAKE_GPU, 1);
  const Gpu gpu;
  for (const DType type : {DType::bf16, DType::fp16})
    for (const auto& [m, n] : {std::pair<i64, i64>{1, 16}, {3, 48}, {37, 4112}}) {
      const Buffer product(gpu, std::size_t(m * n * 2)), d(gpu, std::size_t(m * n));
      FillArguments f{};
      f.x = {product.data(), n, 0}, f.rows = m, f.columns = n, f.batch = 1, f.seed = 5, f.type = type;
      gpu.fill(f);
      gpu.set_bytes(d.data(), 0xFF, d.size());
      launch_gate(gpu, {"", m, n, 0}, type, product.data(), d.data(), true);
      gpu.synchronize();
      for (i64 row = 0; row < m; ++row)
        for (i64 column = 0; column < n / 2; ++column) {
          const double gate = reference::load(type, product.data(), row * n + column), up = reference::load(type, product.data(), row * n + n / 2 + column);
          const double wanted = reference::activate(Activation::silu, gate) * up, got = reference::load(type, d.data(), row * n / 2 + column);
          ASSERT_LE(std::fabs(got - wanted), std::fabs(wanted) * (type == DType::bf16 ? 0x1p-8 : 0x1p-11) + 1e-6) << name_of(type) << " " << row << " " << column;
        }
    }
}

// For GPUs without and with bf16 conversions and dependent launch.
TEST(HelperKernels, Compile) {
  if (std::getenv("FORETILE_NVRTC")) GTEST_SKIP() << "the pretended compiler is loaded in this process";
  const Nvrtc* nvrtc = nullptr;
  if (const Status s = load_nvrtc(nvrtc); !s) GTEST_SKIP() << s.message();
  for (const int capability : {75, 80, 90}) EXPECT_GT(compile_plain(helper_source(), capability, "helpers").size(), 10000u) << capability;
}

TEST(Gated, LayersWithGateAndUpColumns) {
  const std::vector<Shape> list = gated_layers({1, 32});
  ASSERT_EQ(list.size(), 6u);
  for (const Shape& s : list) EXPECT_TRUE(s.name.ends_with("gateup")) << s.name;
}

TEST(Gated, ImpossibleOptionsAreNamed) {
  GatedOptions o;
  EXPECT_THROW(bench_gated(o), std::invalid_argument);
  o.shapes = {{"odd", 1, 24, 64}};
  EXPECT_THROW(bench_gated(o), std::invalid_argument);
  o.shapes = {{"fine", 1, 32, 64}}, o.type = DType::fp32;
  EXPECT_THROW(bench_gated(o), std::invalid_argument);
}

}  // namespace
}  // namespace foretile::bench
