// verify() itself, on a pretended GPU: right products pass, every planted fault is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "bench/verify.h"
#include "foretile/device/catalogue.h"
#include "reference/check.h"
#include "reference/convert.h"

namespace foretile::bench {
namespace {

struct Faults {
  i64 drop_k = -1;           // this k never enters the sum
  i64 skip_element = -1;     // this element of D is not written
  i64 extra_write = 0;       // elements written behind the last of each row
  bool reads_c_at_beta_0 = false;
  bool no_bias = false;
  bool reads_past_k = false;
  bool writes_a = false;
  double relative_error = 0;
  bool swaps_gate_and_up = false;
  bool activates_the_product = false;  // activate(gate * up)
};

// D by plain loops in fp32, on host memory, straight from the call. Honours the documented meaning of every field.
Status host_product(const Matmul& call, const Faults& f) {
  const auto rows_ld = [](const Matrix& x, i64 columns) { return x.ld ? x.ld : columns; };
  const auto at = [](const Matrix& x, i64 ld, i64 rows, i64 batches, i64 batch, i64 row, i64 column) {
    return (batches > 1 ? batch * x.batch_stride : 0) + (rows > 1 ? row * ld : 0) + column;
  };
  const float alpha = call.alpha.pointer ? *call.alpha.pointer : call.alpha.value, beta = call.beta.pointer ? *call.beta.pointer : call.beta.value;
  if (f.writes_a && call.m && call.k) static_cast<u8*>(call.a.data)[0] ^= 1;
  const i64 columns = call.gating == Gating::none ? call.n : call.n / 2;
  // Before the activation, in column n of the product.
  const auto scaled = [&](i64 batch, i64 m, i64 n) {
    float sum = 0;
    for (i64 k = 0; k < call.k + (f.reads_past_k ? 1 : 0) && alpha != 0; ++k) {
      if (k == f.drop_k) continue;
      const i64 lda = rows_ld(call.a, call.a.transposed ? call.m : call.k), ldb = rows_ld(call.b, call.b.transposed ? call.n : call.k);
      const double a = reference::load(input_type(call.a.dtype, call.compute), call.a.data, call.a.transposed ? at(call.a, lda, call.k, call.batch, batch, k, m) : at(call.a, lda, call.m, call.batch, batch, m, k));
      const double b = reference::load(input_type(call.b.dtype, call.compute), call.b.data, call.b.transposed ? at(call.b, ldb, call.k, call.batch, batch, k, n) : at(call.b, ldb, call.n, call.batch, batch, n, k));
      sum = float(double(sum) + a * b);
    }
    float x = alpha == 0 ? 0 : alpha * sum;
    if (call.c.data && (beta != 0 || f.reads_c_at_beta_0)) x += beta * float(reference::load(call.c.dtype, call.c.data, at(call.c, rows_ld(call.c, call.n), call.m, call.batch, batch, m, n)));
    if (call.bias.data && !f.no_bias) x += float(reference::load(call.bias.dtype, call.bias.data, (call.batch > 1 ? batch * call.bias.batch_stride : 0) + n));
    return x;
  };
  const auto activated = [&](float x) { return float(reference::activate(call.activation, double(x))); };
  for (i64 batch = 0; batch < call.batch; ++batch)
    for (i64 m = 0; m < call.m; ++m)
      for (i64 n = 0; n < columns; ++n) {
        if (m * columns + n == f.skip_element) continue;
        float x;
        if (call.gating == Gating::none) {
          x = activated(scaled(batch, m, n));
        } else {
          const bool halves = call.gating == Gating::halves;
          float gate = scaled(batch, m, halves ? n : 2 * n), up = scaled(batch, m, halves ? columns + n : 2 * n + 1);
          if (f.swaps_gate_and_up) std::swap(gate, up);
          x = f.activates_the_product ? activated(gate * up) : activated(gate) * up;
        }
        if (call.residual.data) x += float(reference::load(call.residual.dtype, call.residual.data, at(call.residual, rows_ld(call.residual, columns), call.m, call.batch, batch, m, n)));
        x *= 1 + float(f.relative_error);
        const i64 d = at(call.d, rows_ld(call.d, columns), call.m, call.batch, batch, m, n);
        reference::store(call.d.dtype, call.d.data, d, double(x));
        if (n == columns - 1)
          for (i64 i = 1; i <= f.extra_write; ++i) reference::store(call.d.dtype, call.d.data, d + i, 1.0);
      }
  return {};
}

class VerifyTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("FORETILE_LIBCUDA", FORETILE_FAKE_GPU, 1);
    setenv("FORETILE_NVRTC", FORETILE_FAKE_GPU, 1);
  }
  static VerifyResult run(const Faults& faults, int count = 60, bool integers = false, bool exact_allocations = false, std::optional<Gating> gating = {}) {
    VerifyOptions o;
    o.count = count, o.max_size = 40, o.seed = 3, o.integers = integers, o.stop_after = 1000, o.exact_allocations = exact_allocations, o.gating = gating;
    o.product = [&](const Matmul& call) { return host_product(call, faults); };
    return verify(o);
  }
};

TEST_F(VerifyTest, RightProductsPass) {
  const VerifyResult r = run({}, 150);
  EXPECT_TRUE(r.passed()) << r.text();
  EXPECT_EQ(r.cases, 150);
  EXPECT_GT(r.checked_on_cpu, 100);
  EXPECT_GT(r.exact, 20);
  EXPECT_GT(r.gated, 10);
  EXPECT_GT(r.chained, 10);
  EXPECT_GT(r.worst, 0.0);
  EXPECT_LE(r.worst, 1.0);
}

TEST_F(VerifyTest, RightProductsPassInExactAllocations) {
  const VerifyResult r = run({}, 40, false, true);
  EXPECT_TRUE(r.passed()) << r.text();
}

// A fault that touches every case with a product must fail most of them; both checks, on the "GPU" and on the host, see it.
TEST_F(VerifyTest, DroppedProductIsFound) {
  const VerifyResult r = run({.drop_k = 0});
  EXPECT_GT(r.failures.size(), 30u);
  EXPECT_NE(r.text().find("should lie in"), std::string::npos);
  EXPECT_NE(r.text().find("by the host reference"), std::string::npos);
}
TEST_F(VerifyTest, UnwrittenElementIsFound) { EXPECT_GT(run({.skip_element = 0}).failures.size(), 40u); }
TEST_F(VerifyTest, WriteBehindARowIsFound) {
  const VerifyResult r = run({.extra_write = 1});
  EXPECT_GT(r.failures.size(), 20u);
  EXPECT_NE(r.text().find("bytes around D's elements were written"), std::string::npos);
}
TEST_F(VerifyTest, ReadOfCAtBeta0IsFound) { EXPECT_GT(run({.reads_c_at_beta_0 = true}, 150).failures.size(), 2u); }
TEST_F(VerifyTest, MissingBiasIsFound) { EXPECT_GT(run({.no_bias = true}).failures.size(), 10u); }
TEST_F(VerifyTest, ReadPastKIsFound) { EXPECT_GT(run({.reads_past_k = true}).failures.size(), 30u); }
TEST_F(VerifyTest, WrittenInputIsFound) {
  const VerifyResult r = run({.writes_a = true});
  EXPECT_GT(r.failures.size(), 30u);
  EXPECT_NE(r.text().find("A was written"), std::string::npos);
}
TEST_F(VerifyTest, IntegerModeFindsOneUlp) {
  EXPECT_TRUE(run({}, 60, true).passed());
  EXPECT_GT(run({.relative_error = 0x1p-22}, 60, true).failures.size(), 3u) << "fp32 outputs at least show a relative error of 2^-22";
}

TEST_F(VerifyTest, GatedProductsOfBothLayoutsPass) {
  for (const Gating gating : {Gating::halves, Gating::interleaved})
    for (const bool integers : {false, true}) {
      const VerifyResult r = run({}, 60, integers, false, gating);
      EXPECT_TRUE(r.passed()) << r.text();
      EXPECT_EQ(r.gated, r.cases);
      EXPECT_GT(r.checked_on_cpu, 40);
    }
}
TEST_F(VerifyTest, GateAndUpExchangedAreFound) {
  for (const Gating gating : {Gating::halves, Gating::interleaved}) {
    const VerifyResult r = run({.swaps_gate_and_up = true}, 60, false, false, gating);
    EXPECT_GT(r.failures.size(), 30u);
    EXPECT_NE(r.text().find("by the host reference"), std::string::npos);
    EXPECT_GT(run({.activates_the_product = true}, 60, false, false, gating).failures.size(), 30u);
  }
}
TEST_F(VerifyTest, ConfigurationsThatCannotGateAreNamed) {
  VerifyOptions o;
  o.count = 1, o.gating = Gating::halves, o.configuration = Configuration{.family = Family::simt, .tile_m = 64, .tile_n = 64, .tile_k = 16, .thread_m = 4, .thread_n = 4};
  try {
    verify(o);
    FAIL() << "accepted";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("simt:64x64x16:t4x4 with gated products (halves)"), std::string::npos) << e.what();
  }
}
// A call that does not wait for the product before it reads what A held before; one behind it that does not wait leaves NaN.
TEST_F(VerifyTest, ChainsOutOfOrderAreFound) {
  for (const bool early : {true, false}) {
    VerifyOptions o;
    o.count = 150, o.max_size = 40, o.seed = 3, o.stop_after = 1000;
    std::vector<Matmul> held;  // of a chain: feed, feed, the call, and for half of them feed, feed
    o.product = [&](const Matmul& call) {
      if (!call.dependent) return host_product(call, {});
      const bool feeds = call.k == 64 && call.residual.data && call.a.data == call.b.data;
      if (early && feeds) {  // the feeding product is late by one launch
        held.push_back(call);
        return Status();
      }
      if (early) {
        Status s;
        for (std::size_t i = 0; s && i + 1 < held.size(); ++i) s = host_product(held[i], {});
        if (s) s = host_product(call, {});
        if (s && !held.empty()) s = host_product(held.back(), {});
        held.clear();
        return s;
      }
      // The call is late by one launch: what comes behind it overtakes it.
      if (!feeds) {
        held.push_back(call);
        return Status();
      }
      Status s = host_product(call, {});
      for (const Matmul& late : held)
        if (s) s = host_product(late, {});
      held.clear();
      return s;
    };
    const VerifyResult r = verify(o);
    EXPECT_GT(r.chained, 15);
    EXPECT_GT(r.failures.size(), 8u) << (early ? "early" : "overtaken");
  }
}

TEST(VerifyCase, SameOnEveryRunAndIndependentOfOthers) {
  const VerifyShape shape;
  EXPECT_EQ(draw_case(7, 123, shape).text(), draw_case(7, 123, shape).text());
  EXPECT_NE(draw_case(7, 123, shape).text(), draw_case(8, 123, shape).text());
}

TEST(VerifyCase, AConfigurationThatNoProductOfTheSizeSuitsIsSaidSo) {
  VerifyShape shape;
  shape.max_size = 500;
  shape.configuration = catalogue::decode(16, 64, 128, 5, 8);  // K in eight: from 897 elements on
  try {
    draw_case(7, 0, shape);
    FAIL() << "a product of 500 elements along K was drawn for a split in eight";
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("decode:16x64x128:s5:k8"), testing::HasSubstr("up to 500 (one because: K has fewer slices"), testing::HasSubstr("max_size")));
  }
  shape.max_size = 2000;
  EXPECT_GE(draw_case(7, 0, shape).problem.k, 897);
}

TEST(VerifyCase, CoversWhatItClaims) {
  const VerifyShape shape;
  int odd = 0, padded = 0, misaligned = 0, batched = 0, broadcast = 0, transposed = 0, c_is_d = 0, on_device = 0, zero = 0, sm90 = 0, decode = 0, tf32 = 0, gated[3] = {}, chains[3] = {}, ready = 0, invariant = 0, activations[5] = {};
  std::vector<std::string> kinds;
  for (int i = 0; i < 2000; ++i) {
    const VerifyCase v = draw_case(1, i, shape);
    odd += v.problem.m % 2 && v.problem.n % 2 && v.problem.k % 2;
    padded += v.a.ld > v.a.columns && v.d.ld > v.d.columns;
    misaligned += v.d.offset * size_of(v.d.type) % 16 != 0;
    batched += v.problem.batch > 1;
    broadcast += v.problem.batch > 1 && v.b.batch_stride == 0;
    transposed += v.operation.transpose_a || v.operation.transpose_b;
    c_is_d += v.c_is_d;
    on_device += v.alpha_on_device || v.beta_on_device;
    zero += v.problem.m * v.problem.n * v.problem.k == 0;
    sm90 += v.configuration && v.configuration->family == Family::sm90;
    decode += v.configuration && v.configuration->family == Family::decode;
    tf32 += v.operation.a == DType::tf32;
    EXPECT_EQ(v.operation.a == DType::tf32, v.operation.b == DType::tf32);
    ++gated[int(v.operation.gating)], ++chains[int(v.chain)], ready += v.weights_ready, invariant += v.batch_invariant;
    ++activations[int(v.operation.activation)];
    if (v.operation.gating != Gating::none) {
      EXPECT_EQ(v.problem.n % 2, 0);
      EXPECT_EQ(v.d.columns, v.problem.n / 2);
      EXPECT_EQ(v.residual.columns, v.problem.n / 2);
      EXPECT_EQ(v.c.columns, v.problem.n);
      EXPECT_FALSE(v.c_is_d);
      EXPECT_EQ(v.operation.inputs, Alignment::tma) << v.text();
    }
    EXPECT_TRUE(!v.weights_ready || v.chain != Chain::none);
    EXPECT_LE(v.problem.m * v.problem.n * v.problem.batch, 12'000'000);
    for (const OperandPlan* x : {&v.a, &v.b, &v.c, &v.residual, &v.d}) EXPECT_GE(x->ld, x->columns);
  }
  for (const int count : {odd, padded, misaligned, batched, transposed, c_is_d, on_device, zero, sm90, decode, gated[1], gated[2], chains[1], chains[2], ready, invariant}) EXPECT_GT(count, 60);
  EXPECT_GT(broadcast, 30);
  EXPECT_GT(tf32, 10);
  for (const int count : activations) EXPECT_GT(count, 60);
}

}  // namespace
}  // namespace foretile::bench
