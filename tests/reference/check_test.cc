// The judge is judged: right results of several honest fp32 orders pass, and each kind of wrong result is found.
#include "reference/check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/convert.h"
#include "reference/gemm_data.h"

using namespace foretile;
using namespace foretile::reference;

namespace {

float at(DType type, const MatrixArgument& x, i64 batch, i64 row, i64 column) { return float(load(type, x.data, batch * x.batch_stride + row * x.ld + column)); }

enum class Order { forward, chunks_of_16, truncating };

float truncated(double v) {
  const float f = float(v);
  return std::fabs(double(f)) > std::fabs(v) ? std::nextafter(f, 0.0f) : f;
}

float product_sum(const GemmData& g, i64 batch, i64 row, i64 column, Order order, i64 first_k, i64 last_k) {
  const Operation& o = g.operation;
  const auto a = [&](i64 k) { return o.transpose_a ? at(o.a, g.operands.a, batch, k, row) : at(o.a, g.operands.a, batch, row, k); };
  const auto b = [&](i64 k) { return o.transpose_b ? at(o.b, g.operands.b, batch, k, column) : at(o.b, g.operands.b, batch, column, k); };
  float sum = 0;
  if (order == Order::forward) {
    for (i64 k = first_k; k < last_k; ++k) sum = std::fma(a(k), b(k), sum);
  } else {
    for (i64 k0 = first_k; k0 < last_k; k0 += 16) {
      double chunk = sum;
      for (i64 k = k0; k < std::min(last_k, k0 + 16); ++k) chunk += double(a(k)) * double(b(k));
      sum = order == Order::truncating ? truncated(chunk) : float(chunk);
    }
  }
  return sum;
}

// An honest kernel in fp32.
void run(GemmData& g, Order order = Order::forward, i64 drop_k = 0) {
  const Operation& o = g.operation;
  const Problem& p = g.problem;
  const auto& e = g.operands.epilogue;
  for (i64 batch = 0; batch < p.batch; ++batch)
    for (i64 row = 0; row < p.m; ++row)
      for (i64 column = 0; column < p.n; ++column) {
        float v = e.alpha == 0 ? 0 : e.alpha * product_sum(g, batch, row, column, order, drop_k, p.k);
        if (o.has_c && e.beta != 0) v = std::fma(e.beta, at(o.c, e.c, batch, row, column), v);
        if (o.has_bias) v += at(o.bias, e.bias, batch, 0, column);
        switch (o.activation) {
          case Activation::none: break;
          case Activation::relu: v = v < 0 ? 0 : v; break;
          case Activation::gelu_erf: v = 0.5f * v * (1 + std::erf(v * 0.70710678f)); break;
          case Activation::gelu_tanh: v = 0.5f * v * (1 + std::tanh(0.79788456f * (v + 0.044715f * v * v * v))); break;
          case Activation::silu: v = v / (1 + std::exp(-v)); break;
        }
        if (o.has_residual) v += at(o.residual, e.residual, batch, row, column);
        store(o.d, e.d.data, batch * e.d.batch_stride + row * e.d.ld + column, v);
      }
}

Operation operation(DType in, DType out) { return {.a = in, .b = in, .d = out, .c = out, .bias = out, .residual = out}; }

TEST(Check, HonestOrdersPass) {
  for (DType in : {DType::bf16, DType::fp16, DType::fp32})
    for (DType out : {DType::bf16, DType::fp16, DType::fp32})
      for (Order order : {Order::forward, Order::chunks_of_16, Order::truncating})
        for (i64 k : {1, 7, 300, 5000}) {
          GemmData g = make_gemm_data(operation(in, out), {9, 35, k}, {.values = Values::normal, .seed = u64(k)});
          run(g, order);
          const CheckResult r = g.check();
          EXPECT_TRUE(r.passed()) << r.text();
          EXPECT_EQ(r.checked, 9 * 35);
        }
}

TEST(Check, ActivationsAndOperandsPass) {
  for (Activation f : {Activation::none, Activation::relu, Activation::gelu_erf, Activation::gelu_tanh, Activation::silu})
    for (DType out : {DType::bf16, DType::fp32}) {
      Operation o = operation(DType::fp16, out);
      o.has_c = o.has_bias = o.has_residual = true;
      o.activation = f;
      o.transpose_a = out == DType::bf16;
      o.transpose_b = f == Activation::relu;
      GemmData g = make_gemm_data(o, {17, 40, 90, 3}, {.values = Values::normal, .alpha = 0.25f, .beta = -1.5f, .b = {.broadcast = true}, .d = {.ld_padding = 3}});
      run(g);
      EXPECT_TRUE(g.check().passed()) << g.check().text();
      EXPECT_EQ(g.damage(), "");
    }
}

TEST(Check, IntegersLeaveNoOtherValue) {
  GemmData g = make_gemm_data(operation(DType::bf16, DType::fp32), {8, 16, 512});
  run(g, Order::truncating);
  CheckResult r = g.check();
  EXPECT_TRUE(r.passed());
  EXPECT_EQ(r.exact, r.checked);
  // One unit in the last place is too much.
  float* d = static_cast<float*>(g.operands.epilogue.d.data);
  d[37] = std::nextafter(d[37], 1e9f);
  r = g.check();
  EXPECT_EQ(r.wrong, 1);
  EXPECT_NE(r.first_wrong.find("row 2, column 5"), std::string::npos) << r.first_wrong;
}

TEST(Check, FindsADroppedSliceOfK) {
  for (Values values : {Values::integers, Values::normal}) {
    GemmData g = make_gemm_data(operation(DType::bf16, DType::bf16), {16, 64, 4096}, {.values = values});
    run(g, Order::forward, 16);
    EXPECT_GT(g.check().wrong, 16 * 64 / 4);
  }
}

TEST(Check, FindsNanAndUnwritten) {
  GemmData g = make_gemm_data(operation(DType::bf16, DType::bf16), {40, 300, 32});
  EXPECT_EQ(g.check().unwritten, 40 * 300);  // D as it is handed out: all poison
  run(g);
  ASSERT_TRUE(g.check().passed());
  store(DType::bf16, g.operands.epilogue.d.data, 17 * 300 + 123, NAN);
  const CheckResult sampled = g.check({.max_elements = 16});
  EXPECT_LE(sampled.checked, 40);
  EXPECT_EQ(sampled.unwritten, 1);  // seen though the sample does not hold it
  EXPECT_FALSE(sampled.passed());
  EXPECT_EQ(g.check().wrong, 1);
}

TEST(Check, NanAndInfinityOfInputsMustShow) {
  GemmData g = make_gemm_data(operation(DType::fp32, DType::fp32), {4, 4, 8});
  static_cast<float*>(g.operands.a.data)[0] = NAN;
  static_cast<float*>(g.operands.a.data)[8] = INFINITY;
  static_cast<float*>(g.operands.b.data)[0] = 2;
  run(g);
  EXPECT_TRUE(g.check().passed()) << g.check().text();
  static_cast<float*>(g.operands.epilogue.d.data)[0] = 0;
  EXPECT_EQ(g.check().wrong, 1);
}

TEST(Check, ReluKeepsNan) {
  Operation o = operation(DType::fp32, DType::fp32);
  o.activation = Activation::relu;
  GemmData g = make_gemm_data(o, {2, 2, 4});
  static_cast<float*>(g.operands.a.data)[0] = NAN;
  run(g);
  EXPECT_TRUE(g.check().passed());
  static_cast<float*>(g.operands.epilogue.d.data)[0] = 0;  // what a maximum would give
  EXPECT_FALSE(g.check().passed());
}

TEST(Check, AlphaZeroAndEmptyK) {
  Operation o = operation(DType::bf16, DType::fp32);
  o.has_bias = true;
  GemmData g = make_gemm_data(o, {5, 6, 7}, {.alpha = 0});
  static_cast<u16*>(g.operands.a.data)[0] = 0x7fc0;  // NaN
  run(g);
  EXPECT_TRUE(g.check().passed()) << g.check().text();
  GemmData empty = make_gemm_data(o, {5, 6, 0});
  run(empty);
  EXPECT_TRUE(empty.check().passed());
  EXPECT_TRUE(make_gemm_data(o, {0, 6, 7}).check().passed());
}

TEST(Check, CInPlaceOfD) {
  Operation o = operation(DType::fp16, DType::fp16);
  o.has_c = true;
  GemmData g = make_gemm_data(o, {8, 24, 64}, {.beta = 2, .c_is_d = true});
  run(g);
  EXPECT_TRUE(g.check().passed()) << g.check().text();
  EXPECT_EQ(g.damage(), "");
  EXPECT_THROW(make_gemm_data(operation(DType::fp16, DType::fp16), {8, 24, 64}, {.c_is_d = true}), std::invalid_argument);
}

TEST(Check, SampleSpreadsOverD) {
  GemmData g = make_gemm_data(operation(DType::bf16, DType::fp32), {600, 700, 8});
  run(g);
  const CheckResult r = g.check({.max_elements = 4096, .seed = 5});
  EXPECT_TRUE(r.passed());
  EXPECT_GE(r.checked, 3500);
  EXPECT_LE(r.checked, 4500);
  // A whole tile of zeros cannot hide between the samples.
  float* d = static_cast<float*>(g.operands.epilogue.d.data);
  for (i64 row = 256; row < 320; ++row)
    for (i64 column = 128; column < 192; ++column) d[row * 700 + column] = 1000;
  EXPECT_GT(g.check({.max_elements = 4096, .seed = 5}).wrong, 0);
  // Nor the last element.
  run(g);
  d[600 * 700 - 1] += 1;
  EXPECT_GT(g.check({.max_elements = 64}).wrong, 0);
}

TEST(GemmData, PlacementsGiveTheAlignmentClass) {
  const Operation o = operation(DType::bf16, DType::bf16);
  EXPECT_EQ(make_gemm_data(o, {16, 64, 64}).operation.inputs, Alignment::tma);
  EXPECT_EQ(make_gemm_data(o, {16, 64, 64}, {.a = {.pointer_offset = 1}}).operation.inputs, Alignment::any);
  EXPECT_EQ(make_gemm_data(o, {16, 64, 64}, {.b = {.ld_padding = 1}}).operation.inputs, Alignment::any);
  EXPECT_EQ(make_gemm_data(o, {16, 64, 64}, {.d = {.ld_padding = 4}}).operation.output, Alignment::any);
}

TEST(GemmData, DamageIsSeen) {
  GemmData g = make_gemm_data(operation(DType::bf16, DType::bf16), {6, 10, 16}, {.d = {.ld_padding = 2}});
  run(g);
  ASSERT_EQ(g.damage(), "");
  u16* d = static_cast<u16*>(g.operands.epilogue.d.data);
  d[10] = 0;  // between two rows
  EXPECT_NE(g.damage().find("guards of D"), std::string::npos);
  d[10] = 0xffff;
  static_cast<u16*>(g.operands.b.data)[-1] = 0;
  EXPECT_NE(g.damage().find("2 bytes of B"), std::string::npos) << g.damage();
}

}  // namespace
