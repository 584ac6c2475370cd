// Kernels of which the model knows a description only, against the chip's counters for the kernels themselves.
#include <gtest/gtest.h>

#include "model/counters.h"
#include "replay.h"

namespace foretile::counters {
namespace {

// device/probes/product.cuh: 32 x 8 threads, one output each, straight from global memory. K in steps of one sector.
DescribedKernel naive() {
  DescribedKernel k{.name = "naive", .tile_m = 8, .tile_n = 32, .tile_k = 8, .threads_x = 32, .threads_y = 8, .registers = 32, .barriers = 0};
  k.step = {{.text = "a[row * n + k]", .array = "a", .times = 8, .address = [](const AccessPoint& p) { return 4 * ((p.block_m * 8 + p.ty) * p.problem.k + p.step * 8 + p.repetition); }},
            {.text = "b[k * n + column]", .array = "b", .times = 8, .address = [](const AccessPoint& p) { return 4 * ((p.step * 8 + p.repetition) * p.problem.n + p.block_n * 32 + p.tx); }}};
  k.epilogue = {{.text = "d[row * n + column]", .direction = Direction::store, .array = "d", .address = [](const AccessPoint& p) { return 4 * ((p.block_m * 8 + p.ty) * p.problem.n + p.block_n * 32 + p.tx); }}};
  return k;
}

// Tile x Tile threads; B's tile transposed or not. The compiler makes 16-byte loads of four neighbours along K: of A's row
// always, where the pitch is a multiple of 16 bytes, and of B's row where it stands transposed.
template <int Tile, int Pitch, bool TransposedB> DescribedKernel tiled(int registers) {
  DescribedKernel k{.name = "tiled", .tile_m = Tile, .tile_n = Tile, .tile_k = Tile, .threads_x = Tile, .threads_y = Tile, .registers = registers, .shared_bytes = 2 * Tile * Pitch * 4};
  constexpr int kWide = Pitch % 4 == 0 ? 4 : 1, kWideB = TransposedB ? kWide : 1;
  constexpr i64 kB = 4 * Tile * Pitch;
  k.step = {{.text = "a[row * n + k]", .array = "a", .address = [](const AccessPoint& p) { return 4 * ((p.block_m * Tile + p.ty) * p.problem.k + p.step * Tile + p.tx); }},
            {.text = "b[k * n + column]", .array = "b", .address = [](const AccessPoint& p) { return 4 * ((p.step * Tile + p.ty) * p.problem.n + p.block_n * Tile + p.tx); }},
            {.text = "As[ty][tx] =", .space = Space::shared, .direction = Direction::store, .array = "As", .address = [](const AccessPoint& p) { return i64(4 * (p.ty * Pitch + p.tx)); }},
            {.text = "Bs[ty][tx] =", .space = Space::shared, .direction = Direction::store, .array = "Bs", .address = [](const AccessPoint& p) { return kB + 4 * (TransposedB ? p.tx * Pitch + p.ty : p.ty * Pitch + p.tx); }},
            {.text = "As[ty][k]", .space = Space::shared, .array = "As", .bytes = 4 * kWide, .times = Tile / kWide, .address = [](const AccessPoint& p) { return i64(4 * (p.ty * Pitch + p.repetition * kWide)); }},
            {.text = "Bs[k][tx]", .space = Space::shared, .array = "Bs", .bytes = 4 * kWideB, .times = Tile / kWideB,
             .address = [](const AccessPoint& p) { return kB + 4 * (TransposedB ? p.tx * Pitch + p.repetition * kWideB : p.repetition * Pitch + p.tx); }}};
  k.epilogue = {{.text = "d[row * n + column]", .direction = Direction::store, .array = "d", .address = [](const AccessPoint& p) { return 4 * ((p.block_m * Tile + p.ty) * p.problem.n + p.block_n * Tile + p.tx); }}};
  return k;
}

// Every counter that the description gives exactly, equal; L2's read bytes too where the kernel is its whole traffic.
TEST(Recorded, DescribedKernels) {
  RECORDED_OR_SKIP(rows, List::kernels);
  const std::pair<const char*, DescribedKernel> described[] = {{"product/naive", naive()},
                                                               {"product/tile-16", tiled<16, 16, false>(32)},
                                                               {"product/tile-16-transposed", tiled<16, 16, true>(40)},
                                                               {"product/tile-32-padded", tiled<32, 33, false>(30)},
                                                               {"product/tile-32-transposed", tiled<32, 32, true>(32)}};
  const Machine h200 = load_machine("h200");
  const Problem p{64, 64, 64};
  int kernels = 0, compared = 0;
  for (const Row& row : rows) {
    for (const auto& [name, kernel] : described) {
      if (row.at("case") != name) continue;
      ++kernels;
      const DescribedForecast f = forecast(h200, kernel, p, {.regime = Regime::burst});
      for (const ExpectedCounter& c : expected_counters(kernel, f)) {
        if (!row.count(c.name) || row.at(c.name).empty()) continue;
        const double measured = value_of(row, c.name);
        if (c.name == "l1tex__m_xbar2l1tex_read_bytes.sum") {
          EXPECT_EQ(c.value, measured) << name;
          ++compared;
        }
        // The pipe's own count of conflicts adds the turns that an access lost to others.
        const bool conflicts = c.name.starts_with("l1tex__data_bank_conflicts");
        if (!c.exact && !conflicts) continue;
        ++compared;
        const double slack = c.name.starts_with("launch__waves") ? 0.005 : conflicts ? 0.02 * measured : 0;  // waves come rounded to a hundredth
        EXPECT_NEAR(c.value, measured, slack) << name << ", " << c.name;
      }
    }
  }
  EXPECT_EQ(kernels, 5);
  EXPECT_GE(compared, 5 * 9);
}

}  // namespace
}  // namespace foretile::counters
