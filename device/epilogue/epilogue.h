// What happens to an accumulator: D = residual + activate(alpha * acc + beta * C + bias), or gated
// residual + activate(X_gate) * X_up, composed at compile time from the Operation over one operand table. In fp32 throughout; the caller rounds.
#pragma once
#include "foretile/device/operation.h"
#include "foretile/device/vocabulary/vocabulary.h"

namespace foretile {

// x * sigmoid(t). Without a branch, as a quotient would bring: values of an epilogue then do not wait for each other (a
// gated product of 64 rows by 28,672 columns took a fifth longer). Minus infinity gives -0.
FORETILE_DEVICE float times_sigmoid(float x, float t) {
  constexpr float kLowest = -3.4028235e38f;
  return maximum(x, kLowest) * reciprocal(1.0f + exponential(-t));  // a NaN comes through the other factor
}

template <Activation F> FORETILE_DEVICE float activate(float x) {
  if constexpr (F == Activation::relu) {
    return x < 0 ? 0 : x;  // keeps NaN, which a maximum would hide
  } else if constexpr (F == Activation::gelu_erf) {
    return 0.5f * x * (1.0f + error_function(x * 0.70710678118654752f));  // x * Phi(x)
  } else if constexpr (F == Activation::gelu_tanh) {
    const float cube = 0.044715f * x * x * x;  // Hendrycks and Gimpel, arXiv 1606.08415
    return times_sigmoid(x, 1.59576912160573071f * (x + cube));  // 0.5 (1 + tanh u) = sigmoid(2u)
  } else if constexpr (F == Activation::silu) {
    return times_sigmoid(x, x);
  } else {
    return x;
  }
}

// What counts of an element of A or B: of tf32 not its low bits, in every kernel as in the tensor cores.
template <DType T> FORETILE_DEVICE float counted(float element) {
  if constexpr (T == DType::tf32) return cut_to_tf32(element);
  else return element;
}
template <DType T> FORETILE_DEVICE f32x4 counted(const f32x4& v) { return {counted<T>(v.x), counted<T>(v.y), counted<T>(v.z), counted<T>(v.w)}; }

template <DType T> FORETILE_DEVICE float load_as_float(const MatrixArgument& x, i64 offset) {
  return counted<T>(to_float(load_global(static_cast<const Storage<T>*>(x.data) + offset)));
}

// alpha = 0 keeps NaN and infinity of A and B out.
FORETILE_DEVICE float scale(float alpha, float accumulator) { return alpha == 0 ? 0 : alpha * accumulator; }

// One output tile's view of the operand table.
template <Operation O> struct Epilogue {
  const EpilogueArguments& operands;
  i64 batch;
  float alpha, beta;

  FORETILE_DEVICE Epilogue(const EpilogueArguments& table, i32 batch_index) : operands(table), batch(batch_index) {
    alpha = table.alpha_pointer ? load_global(table.alpha_pointer) : table.alpha;
    beta = table.beta_pointer ? load_global(table.beta_pointer) : table.beta;
  }

  static FORETILE_DEVICE i64 offset(const MatrixArgument& x, i64 batch, i64 row, i64 column) {
    return batch * x.batch_stride + row * x.ld + column;
  }

  // X, before the activation. The element must lie inside the product.
  FORETILE_DEVICE float scaled(float accumulator, i32 row, i32 column) const {
    float x = scale(alpha, accumulator);
    if constexpr (O.has_c) {
      if (beta != 0) x = multiply_add(beta, load_as_float<O.c>(operands.c, offset(operands.c, batch, row, column)), x);
    }
    if constexpr (O.has_bias) x += load_as_float<O.bias>(operands.bias, batch * operands.bias.batch_stride + column);
    return x;
  }
  FORETILE_DEVICE float with_residual(float y, i32 row, i32 column) const {
    if constexpr (O.has_residual) y += load_as_float<O.residual>(operands.residual, offset(operands.residual, batch, row, column));
    return y;
  }

  // The element must lie inside the output.
  FORETILE_DEVICE float operator()(float accumulator, i32 row, i32 column) const {
    return with_residual(activate<O.activation>(scaled(accumulator, row, column)), row, column);
  }
  // `column` is one of the `product_columns` / 2 of D.
  FORETILE_DEVICE float gated(float gate, float up, i32 row, i32 column, i32 product_columns) const {
    const bool halves = O.gating == Gating::halves;
    const float x = scaled(gate, row, halves ? column : 2 * column);
    const float factor = scaled(up, row, halves ? product_columns / 2 + column : 2 * column + 1);
    return with_residual(activate<O.activation>(x) * factor, row, column);
  }

  FORETILE_DEVICE void store(float value, i32 row, i32 column) const {
    using D = Storage<O.d>;
    store_global(static_cast<D*>(operands.d.data) + offset(operands.d, batch, row, column), round_to<D>(value));
  }
  // Four accumulators of neighbours, those before `columns`, all the way to D.
  FORETILE_DEVICE void finish_run(float (&x)[4], i32 columns, i32 row, i32 column) const {
    FORETILE_UNROLL
    for (int i = 0; i < 4; ++i) x[i] = column + i < columns ? (*this)(x[i], row, column + i) : 0;
    store_run(x, columns - column < 4 ? columns - column : 4, row, column);
  }
  // The first `count` of four neighbours, `column` a multiple of 4: at once where D keeps TMA's alignment.
  FORETILE_DEVICE void store_run(const float (&values)[4], i32 count, i32 row, i32 column) const {
    using D = Storage<O.d>;
    if (O.output == Alignment::tma && count == 4) {
      D* const to = static_cast<D*>(operands.d.data) + offset(operands.d, batch, row, column);
      if constexpr (O.d == DType::fp32) {
        store_global(reinterpret_cast<f32x4*>(to), f32x4{values[0], values[1], values[2], values[3]});
      } else {
        store_global(reinterpret_cast<u32x2*>(to), u32x2{pack_pair<D>(values[0], values[1]), pack_pair<D>(values[2], values[3])});
      }
      return;
    }
    FORETILE_UNROLL
    for (int i = 0; i < 4; ++i)
      if (i < count) store(values[i], row, column + i);
  }
};

}  // namespace foretile
