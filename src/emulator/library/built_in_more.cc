// Operations beyond the catalogue's named ones, with one configuration a family: every activation, every operand of the
// epilogue alone and with others, gated products, mixed types, transposes.
#include "emulator/library/built_in.h"

namespace foretile::emulator {

namespace {

constexpr Configuration kSm90 = catalogue::coop(128, 128, 6, 2), kSm90Pair = catalogue::pingpong(128, 160, 5, 2, 2);
constexpr Configuration kDecode = catalogue::decode(16, 64, 128, 5), kDecodeSplit = catalogue::decode(32, 64, 128, 4, 4);
constexpr Configuration kSimt = catalogue::simt(64, 64, 16, 4, 4), kFfma = catalogue::ffma(64, 64, 8, 8, 8);
constexpr Configuration kRows = catalogue::rows(8, 64, 128, 4, 4, 4, 8), kRowsSplit = catalogue::rows(32, 64, 64, 8, 8, 6, 8, 2);
constexpr Configuration kTf32 = catalogue::tf32(kSm90), kTf32Pair = catalogue::tf32(kSm90Pair);

struct Extra {
  DType in = DType::bf16, out = DType::bf16;
  bool c = false, bias = false, residual = false;
  DType side = DType::bf16;  // type of C, bias and residual
  Activation activation = Activation::none;
  Gating gating = Gating::none;
};

constexpr Operation aligned(Extra x) {
  return {.a = x.in, .b = x.in, .d = x.out, .inputs = Alignment::tma, .output = Alignment::tma, .has_c = x.c, .has_bias = x.bias,
          .has_residual = x.residual, .c = x.side, .bias = x.side, .residual = x.side, .activation = x.activation, .gating = x.gating};
}

constexpr Operation direct_store(Operation o) {
  o.output = Alignment::any;
  return o;
}

constexpr Operation transposed(Operation o, bool a, bool b) {
  o.transpose_a = a, o.transpose_b = b;
  return catalogue::unaligned(o);
}

constexpr Operation mixed(DType a, DType b, DType d) {
  return catalogue::unaligned({.a = a, .b = b, .d = d, .has_bias = true, .has_residual = true, .bias = DType::fp32, .residual = DType::fp16});
}

template <Operation O> void both(std::vector<BuiltIn>& to) {
  add_kernel<O, kSm90>(to);
  add_kernel<catalogue::unaligned(O), kSimt>(to);
}

}  // namespace

void add_more_operations(std::vector<BuiltIn>& to) {
  both<aligned({.bias = true, .activation = Activation::relu})>(to);
  both<aligned({.c = true, .side = DType::fp32})>(to);
  both<aligned({.residual = true, .activation = Activation::silu})>(to);
  both<aligned({.c = true, .bias = true, .activation = Activation::gelu_tanh})>(to);
  both<aligned({.in = DType::fp16, .out = DType::fp32, .bias = true, .side = DType::fp32, .activation = Activation::gelu_erf})>(to);
  both<aligned({.in = DType::fp16, .out = DType::bf16, .bias = true, .residual = true, .side = DType::fp16})>(to);
  both<aligned({.in = DType::bf16, .out = DType::fp16, .c = true, .residual = true, .side = DType::fp16, .activation = Activation::relu})>(to);
  add_kernel<direct_store(aligned({})), kSm90>(to);
  add_kernel<direct_store(aligned({.out = DType::fp32, .c = true, .bias = true, .residual = true, .side = DType::fp32})), kSm90>(to);
  add_kernel<direct_store(aligned({.in = DType::fp16, .out = DType::fp16, .bias = true, .side = DType::fp16, .activation = Activation::relu})), kSm90Pair>(to);
  add_kernel<aligned({.bias = true, .residual = true, .activation = Activation::relu}), kSm90Pair>(to);
  add_kernel<direct_store(aligned({})), kDecode>(to);
  add_kernel<direct_store(aligned({.c = true, .bias = true, .residual = true, .side = DType::fp32, .activation = Activation::relu})), kDecodeSplit>(to);
  add_kernel<direct_store(aligned({.activation = Activation::silu, .gating = Gating::halves})), kDecode>(to);
  add_kernel<aligned({.c = true, .bias = true, .residual = true, .activation = Activation::relu, .gating = Gating::halves}), kDecode>(to);
  add_kernel<aligned({.bias = true, .side = DType::fp32, .activation = Activation::gelu_erf, .gating = Gating::halves}), kDecodeSplit>(to);
  add_kernel<aligned({.activation = Activation::silu, .gating = Gating::interleaved}), kDecode>(to);
  add_kernel<aligned({.activation = Activation::silu, .gating = Gating::interleaved}), kDecodeSplit>(to);
  add_kernel<aligned({.in = DType::fp16, .out = DType::fp32, .c = true, .residual = true, .side = DType::fp32, .activation = Activation::gelu_tanh, .gating = Gating::interleaved}), kDecode>(to);
  add_kernel<direct_store(aligned({.out = DType::fp16, .c = true, .bias = true, .residual = true, .side = DType::fp16, .gating = Gating::interleaved})), kDecodeSplit>(to);
  add_kernel<aligned({.activation = Activation::silu, .gating = Gating::halves}), kSm90Pair>(to);
  add_kernel<aligned({.in = DType::fp16, .out = DType::fp32, .activation = Activation::gelu_tanh, .gating = Gating::halves}), kSm90>(to);
  add_kernel<transposed(catalogue::product(DType::bf16, DType::bf16), true, false), kSimt>(to);
  add_kernel<transposed(catalogue::product(DType::fp16, DType::fp32), false, true), kSimt>(to);
  add_kernel<transposed(catalogue::full(DType::fp32, DType::fp32, Activation::relu), true, true), kSimt>(to);
  add_kernel<transposed(catalogue::product(DType::tf32, DType::fp32), false, true), kSimt>(to);
  add_kernel<transposed(catalogue::product(DType::tf32, DType::fp32), true, false), kFfma>(to);
  add_kernel<catalogue::full(DType::tf32, DType::bf16, Activation::relu), kTf32>(to);
  add_kernel<catalogue::product(DType::tf32, DType::fp16), kTf32Pair>(to);
  add_kernel<catalogue::full(DType::fp32, DType::fp32, Activation::gelu_tanh), kRows>(to);
  add_kernel<direct_store(aligned({.in = DType::fp32, .out = DType::bf16, .bias = true, .residual = true, .side = DType::fp32, .activation = Activation::relu})), kRows>(to);
  add_kernel<direct_store(aligned({.in = DType::fp32, .out = DType::fp16, .c = true, .side = DType::fp16})), kRowsSplit>(to);
  add_kernel<mixed(DType::fp16, DType::bf16, DType::fp32), kSimt>(to);
  add_kernel<mixed(DType::fp32, DType::fp16, DType::bf16), kSimt>(to);
}

}  // namespace foretile::emulator
