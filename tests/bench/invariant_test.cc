// invariant(), on a pretended GPU: bits that depend on M are found, others are not.
#include <gtest/gtest.h>

#include <cstdlib>

#include "bench/invariant.h"
#include "reference/convert.h"

namespace foretile::bench {
namespace {

// In fp32, K in order; or in two halves from `split_from` rows on; `wrong` adds that to every element.
Status host_product(const Matmul& call, i64 split_from, float wrong) {
  const auto value = [](const Matrix& x, i64 row, i64 column, i64 columns) { return float(reference::load(x.dtype, x.data, row * columns + column)); };
  for (i64 m = 0; m < call.m; ++m)
    for (i64 n = 0; n < call.n; ++n) {
      float sums[2] = {};
      for (i64 k = 0; k < call.k; ++k) sums[call.m >= split_from && k >= call.k / 2] += value(call.a, m, k, call.k) * value(call.b, n, k, call.k);
      reference::store(call.d.dtype, call.d.data, m * call.n + n, double(sums[0] + sums[1] + wrong));
    }
  return {};
}

InvariantReport run(i64 split_from, float wrong = 0, bool batch_invariant = true) {
  setenv("FORETILE_LIBCUDA", FORETILE_FAKE_GPU, 1);
  setenv("FORETILE_NVRTC", FORETILE_FAKE_GPU, 1);
  InvariantOptions o;
  o.shapes = {{"first", 0, 24, 400}, {"second", 0, 9, 600}};
  o.out = DType::fp32, o.rows = 6, o.batch_invariant = batch_invariant;
  o.product = [&](const Matmul& call) {
    EXPECT_EQ(call.batch_invariant, batch_invariant);
    return host_product(call, split_from, wrong);
  };
  return invariant(o);
}

TEST(Invariant, BitsThatDoNotDependOnMPass) {
  const InvariantReport r = run(1000);
  EXPECT_TRUE(r.passed()) << r.text();
  EXPECT_EQ(r.layers.size(), 2u);
  EXPECT_EQ(r.layers[1].compared, 5);
  EXPECT_NE(r.text().find("2 of 2 layers equal at every M (10 of 10 products)"), std::string::npos) << r.text();
}

TEST(Invariant, AnotherOrderOfSumsFromSomeMOnIsFound) {
  const InvariantReport r = run(4);
  EXPECT_FALSE(r.passed());
  for (const InvariantRow& row : r.layers) EXPECT_EQ(row.different, (std::vector<i64>{1, 2, 3}));  // the reference is M = 6, split
  EXPECT_NE(r.text().find("first different at M = 1"), std::string::npos) << r.text();
  EXPECT_TRUE(run(4, 0, false).passed()) << "without the mode bits may differ";
}

TEST(Invariant, EqualButWrongIsFound) {
  const InvariantReport r = run(1000, 1);
  EXPECT_FALSE(r.passed());
  EXPECT_NE(r.text().find("WRONG"), std::string::npos);
}

TEST(Invariant, ImpossibleOptionsAreNamed) {
  InvariantOptions o;
  o.rows = 1;
  EXPECT_THROW(invariant(o), std::invalid_argument);
}

}  // namespace
}  // namespace foretile::bench
