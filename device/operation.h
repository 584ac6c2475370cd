// What is computed: D = residual + activate(alpha * A x B^T + beta * C + bias), every operand with its own type; gated,
// D = residual + activate(X_gate) * X_up with X = alpha * A x B^T + beta * C + bias.
// An Operation is a template argument of a kernel (structural, named fields); a Problem adds the sizes.
#pragma once
#include "foretile/device/types.h"

namespace foretile {

// Gated: the product has columns of two kinds, gate and up, and D = activate(gate) * up (+ residual) has half as many.
enum class Gating : u8 {
  none = 0,
  halves = 1,       // columns 0 .. N/2-1 are gates, column N/2 + i is the up column of gate i
  interleaved = 2,  // column 2i is a gate, column 2i + 1 its up column
};

enum class Activation : u8 { none = 0, relu = 1, gelu_erf = 2, gelu_tanh = 3, silu = 4 };

// How A and B in fp32 are multiplied.
enum class Compute : u8 {
  exact = 0,  // as they are
  // Each element of A and B without the 13 low bits of its significand (cut toward zero, 10 remain: a relative error below
  // 2^-10), products exact, sums in fp32 as ever. The same in every kernel; on Hopper by tensor cores where neither is
  // transposed and both obey TMA's rules, elsewhere by the kernels for fp32.
  tf32 = 1,
};

// What an Operation calls the type of A or B.
constexpr DType input_type(DType stored, Compute compute) { return stored == DType::fp32 && compute == Compute::tf32 ? DType::tf32 : stored; }

// Whether an operand obeys the rules of the tensor memory accelerator (TMA): base address and every outer
// stride a multiple of 16 bytes, contiguous along the inner dimension (PTX ISA, "tensor map").
enum class Alignment : u8 { any = 0, tma = 1 };

struct Operation {
  DType a = DType::bf16;  // A[M,K], or A[K,M] when transpose_a
  DType b = DType::bf16;  // B[N,K] ("weights as every framework stores them"), or B[K,N] when transpose_b
  DType d = DType::bf16;
  bool transpose_a = false;
  bool transpose_b = false;
  Alignment inputs = Alignment::any;  // of A and B together: one of them unaligned makes both 'any'
  Alignment output = Alignment::any;  // of D

  // Epilogue operands. A type is looked at only where the operand is there.
  bool has_c = false;         // beta * C, C[M,N]
  bool has_bias = false;      // bias[N], one value a column
  bool has_residual = false;  // residual[M,N], added after the activation
  DType c = DType::bf16;
  DType bias = DType::bf16;
  DType residual = DType::bf16;
  Activation activation = Activation::none;
  Gating gating = Gating::none;  // bias and C have the N columns of the product, D and residual N/2

  friend constexpr bool operator==(const Operation&, const Operation&) = default;
};

// An epilogue that reads matrices or vectors beside the accumulators.
constexpr bool has_operands(const Operation& o) { return o.has_c || o.has_bias || o.has_residual; }
// An epilogue that only scales and rounds.
constexpr bool is_plain(const Operation& o) { return !has_operands(o) && o.activation == Activation::none && o.gating == Gating::none; }

// Columns of D and residual for N columns of the product.
constexpr i64 output_columns(const Operation& o, i64 n) { return o.gating == Gating::none ? n : n / 2; }

// Sizes of one call. Leading dimensions and pointers are arguments, not part of the problem: what matters of
// them to the choice of a kernel is the alignment class in the Operation.
struct Problem {
  i64 m = 0, n = 0, k = 0;
  i64 batch = 1;
  friend constexpr bool operator==(const Problem&, const Problem&) = default;
};

constexpr double flop_count(const Problem& p) { return 2.0 * double(p.m) * double(p.n) * double(p.k) * double(p.batch); }

}  // namespace foretile
