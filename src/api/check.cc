#include "api/check.h"

#include <fmt/format.h>

#include <cstdint>

#include "foretile/device/legality.h"
#include "model/text.h"

namespace foretile {

namespace {

template <class... Args> Status invalid(fmt::format_string<Args...> text, Args&&... args) {
  return {Code::invalid_argument, fmt::format(text, std::forward<Args>(args)...)};
}

constexpr i64 kLargestSpan = i64(1) << 46;  // elements: keeps every byte offset far from 2^63; no GPU addresses as much

// A matrix of the call, as it is stored.
struct Operand {
  const char* name;
  const Matrix& matrix;
  i64 rows, columns;
  const char* column_name;  // what the caller calls the number of columns
};

Status check_type(const Operand& x) {
  const auto value = int(x.matrix.dtype);
  if (value < 0 || value > int(DType::int32)) return invalid("dtype of {} is {}, which is no type; allowed: fp32, fp16, bf16", x.name, value);
  if (x.matrix.dtype == DType::tf32) return {Code::unsupported, fmt::format("dtype of {} is tf32, which is no way to store a matrix; allowed: fp32, fp16, bf16; to multiply fp32 in tf32: compute", x.name)};
  if (!is_float(x.matrix.dtype)) return {Code::unsupported, fmt::format("dtype of {} is {}; allowed: fp32, fp16, bf16", x.name, name_of(x.matrix.dtype))};
  return {};
}

// Fills in the leading dimension and the batch stride.
Status check_strides(const Operand& x, i64 batch, bool is_output, MatrixArgument& argument, Extent& extent) {
  argument.data = x.matrix.data;
  i64 ld = x.matrix.ld;
  if (x.rows <= 1 || ld == 0) {
    ld = x.columns;  // of a single row nothing is looked at
  } else if (ld < x.columns) {
    return invalid("ld of {} is {}; allowed: 0 (dense) or at least {} ({}, the elements of a row)", x.name, ld, x.columns, x.column_name);
  }
  i64 stride = x.matrix.batch_stride;
  if (batch <= 1) {
    stride = 0;
  } else if (stride < 0) {
    return invalid("batch_stride of {} is {}; allowed: 0 (every batch reads the same matrix) or more", x.name, stride);
  } else if (is_output && stride == 0 && x.rows > 0 && x.columns > 0) {
    return invalid("batch_stride of D is 0 with batch {}: every batch would write the same matrix; allowed: any that keeps the batches apart, such as M * ld", batch);
  }
  const __int128 span = x.rows > 0 && x.columns > 0 ? __int128(x.rows - 1) * ld + __int128(batch > 0 ? batch - 1 : 0) * stride + x.columns : 0;
  if (span > kLargestSpan) return invalid("{} spans more than 2^46 elements (ld {}, batch_stride {}): no device memory is as large", x.name, ld, stride);
  argument.ld = ld, argument.batch_stride = stride;
  const i64 size = size_of(x.matrix.dtype);
  extent = {x.columns * size, x.rows, ld * size, stride == 0 ? 1 : batch, stride * size};
  return {};
}

Status check_pointer(const char* name, const void* data, int element_bytes) {
  if (!data) return invalid("{} is null; a device pointer is needed", name);
  if (reinterpret_cast<std::uintptr_t>(data) % std::uintptr_t(element_bytes))
    return invalid("{} is at {}; allowed: a multiple of its element size, {} bytes", name, data, element_bytes);
  return {};
}

}  // namespace

Status check_call(const Matmul& call, Pointers pointers, CheckedCall& out) {
  out = {};
  for (const auto& [name, value] : {std::pair{"m", call.m}, {"n", call.n}, {"k", call.k}, {"batch", call.batch}})
    if (value < 0) return invalid("{} is {}; allowed: 0 or more", name, value);
  if (int(call.activation) > int(Activation::silu))
    return invalid("activation is {}; allowed: none (0), relu (1), gelu_erf (2), gelu_tanh (3), silu (4)", int(call.activation));
  if (int(call.compute) > int(Compute::tf32)) return invalid("compute is {}; allowed: exact (0), tf32 (1)", int(call.compute));
  if (call.compute == Compute::tf32)
    for (const auto& [name, matrix] : {std::pair{"A", &call.a}, {"B", &call.b}})
      if (matrix->dtype != DType::fp32) return invalid("compute is tf32 and dtype of {} {}; allowed: tf32 with A and B both fp32", name, name_of(matrix->dtype));
  if (int(call.gating) > int(Gating::interleaved)) return invalid("gating is {}; allowed: none (0), halves (1), interleaved (2)", int(call.gating));
  if (call.gating != Gating::none && call.n % 2) return invalid("n is {} with gating {}; allowed: an even number, gates and up columns together", call.n, name_of(call.gating));
  if (call.sm_budget < 0) return invalid("sm_budget is {}; allowed: 0 (all SMs) or more", call.sm_budget);
  if (call.device < -1) return invalid("device is {}; allowed: -1 (the current one) or 0 and more", call.device);

  const bool reads_c = call.beta.pointer || call.beta.value != 0;
  const bool reads_ab = call.k > 0 && (call.alpha.pointer || call.alpha.value != 0);
  out.empty = call.m == 0 || call.n == 0 || call.batch == 0;
  out.problem = {.m = call.m, .n = call.n, .k = reads_ab ? call.k : 0, .batch = call.batch};

  const Operand a = call.a.transposed ? Operand{"A", call.a, call.k, call.m, "M"} : Operand{"A", call.a, call.m, call.k, "K"};
  const Operand b = call.b.transposed ? Operand{"B", call.b, call.k, call.n, "N"} : Operand{"B", call.b, call.n, call.k, "K"};
  const i64 columns = call.gating == Gating::none ? call.n : call.n / 2;  // of D
  const char* const columns_name = call.gating == Gating::none ? "N" : "N/2";
  const Operand d{"D", call.d, call.m, columns, columns_name}, c{"C", call.c, call.m, call.n, "N"};
  const Operand residual{"residual", call.residual, call.m, columns, columns_name}, bias{"bias", call.bias, 1, call.n, "N"};
  const bool has_bias = call.bias.data, has_residual = call.residual.data;

  if (!out.empty && reads_c && !call.c.data)
    return call.beta.pointer ? invalid("C is null, but beta is a device value; pass C, or a host beta of 0")
                             : invalid("C is null, but beta is {}; pass C, or beta = 0", call.beta.value);

  Operation& o = out.operation;
  EpilogueArguments& e = out.operands.epilogue;
  struct Check {
    const Operand& operand;
    bool read;           // false: the pointer is not looked at
    bool may_transpose;
    MatrixArgument& argument;
    Extent& extent;
  };
  const Check checks[] = {{a, reads_ab, true, out.operands.a, out.a}, {b, reads_ab, true, out.operands.b, out.b}, {d, true, false, e.d, out.d},
                          {c, reads_c, false, e.c, out.c},            {bias, has_bias, false, e.bias, out.bias},  {residual, has_residual, false, e.residual, out.residual}};
  for (const Check& x : checks) {
    const bool optional = &x.operand == &c || &x.operand == &bias || &x.operand == &residual;
    if (optional && !x.read) continue;  // an operand that is not there, or a C that beta = 0 drops
    if (Status s = check_type(x.operand); !s) return s;
    if (x.operand.matrix.transposed && !x.may_transpose) return invalid("{} is transposed; allowed: A and B alone", x.operand.name);
    if (Status s = check_strides(x.operand, call.batch, &x.operand == &d, x.argument, x.extent); !s) return s;
    if (!x.read) {
      x.argument = {}, x.extent = {};
      continue;
    }
    if (!out.empty)
      if (Status s = check_pointer(x.operand.name, x.operand.matrix.data, size_of(x.operand.matrix.dtype)); !s) return s;
  }
  for (const auto& [name, scalar] : {std::pair{"alpha", &call.alpha}, {"beta", &call.beta}})
    if (scalar->pointer)
      if (Status s = check_pointer(name, scalar->pointer, 4); !s) return s;
  if (out.empty) return {};

  if (const Overlap o2 = batches_overlap(out.d); o2 != Overlap::none)
    return invalid("batches of D overlap (ld {}, batch_stride {}, batch {}); allowed: strides that give every element of D an address of its own", e.d.ld,
                   e.d.batch_stride, call.batch);

  o.a = input_type(call.a.dtype, call.compute), o.b = input_type(call.b.dtype, call.compute), o.d = call.d.dtype;
  o.transpose_a = call.a.transposed, o.transpose_b = call.b.transposed;
  o.has_c = reads_c, o.has_bias = has_bias, o.has_residual = has_residual;
  if (reads_c) o.c = call.c.dtype;
  if (has_bias) o.bias = call.bias.dtype;
  if (has_residual) o.residual = call.residual.dtype;
  o.activation = call.activation, o.gating = call.gating;
  o.inputs = reads_ab ? input_alignment(o, out.problem, out.operands) : Alignment::any;
  o.output = output_alignment(o, out.problem, out.operands);
  e.alpha = call.alpha.value, e.beta = call.beta.value;
  e.alpha_pointer = call.alpha.pointer, e.beta_pointer = call.beta.pointer;
  out.c_like_d = reads_c && call.gating == Gating::none && call.c.dtype == call.d.dtype && (call.m == 1 || e.c.ld == e.d.ld) && e.c.batch_stride == e.d.batch_stride;
  return pointers == Pointers::real ? check_overlap(call, out) : Status{};
}

Status check_overlap(const Matmul& call, const CheckedCall& x) {
  struct Input {
    const char* name;
    const void* data;
    const Extent* extent;
  };
  constexpr Extent scalar{4, 1, 0, 1, 0}, nothing{};
  const Input inputs[] = {{"A", call.a.data, &x.a},
                          {"B", call.b.data, &x.b},
                          {"C", call.c.data, &x.c},
                          {"bias", call.bias.data, &x.bias},
                          {"residual", call.residual.data, &x.residual},
                          {"alpha", call.alpha.pointer, call.alpha.pointer ? &scalar : &nothing},
                          {"beta", call.beta.pointer, call.beta.pointer ? &scalar : &nothing}};
  for (const Input& input : inputs) {
    const bool is_c = input.extent == &x.c;
    if (is_c && x.c_like_d && call.c.data == call.d.data) continue;
    const Overlap o = overlap(call.d.data, x.d, input.data, *input.extent);
    if (o == Overlap::none) continue;
    return invalid("D (at {}, ld {}) and {} (at {}) {}; allowed: no element in common{}", call.d.data, x.operands.epilogue.d.ld, input.name, input.data,
                   o == Overlap::some ? "share elements" : "interleave with strides too unrelated to rule out a shared element",
                   is_c ? ", or C = D with equal dtype, ld and batch_stride" : "");
  }
  return {};
}

}  // namespace foretile
