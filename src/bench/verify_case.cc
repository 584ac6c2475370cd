#include "bench/verify_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "model/text.h"

namespace foretile::bench {

namespace {

constexpr u64 kMostAttempts = 20'000;    // to draw a product that a configuration can compute
constexpr i64 kMaxOutputs = 12'000'000;  // of all batches together: bounds the fp64 reference's memory

DType draw_type(Random& random) { return random.of<DType>({DType::fp32, DType::fp16, DType::bf16}); }

// What the compiled kernel depends on, alignment aside.
Operation draw_operation(u64 seed, int number, bool integers, const VerifyShape& shape) {
  Random random(seed * 1000003 + u64(number) * 7919 + 17);
  Operation o;
  const bool gated = shape.gating.value_or(Gating::none) != Gating::none;
  if (random.chance(0.7) || gated) {  // the Hopper kernels' ground
    o.a = o.b = random.of<DType>({DType::bf16, DType::bf16, DType::fp16});
    o.d = random.chance(0.7) ? o.a : draw_type(random);
  } else {
    o.a = draw_type(random), o.b = draw_type(random), o.d = draw_type(random);
    o.transpose_a = random.chance(0.5), o.transpose_b = random.chance(0.5);
  }
  o.has_c = random.chance(0.4), o.has_bias = random.chance(0.4), o.has_residual = random.chance(0.3);
  o.c = random.chance(0.7) ? o.d : draw_type(random);
  o.bias = random.chance(0.7) ? o.d : draw_type(random);
  o.residual = random.chance(0.7) ? o.d : draw_type(random);
  const bool may_be_gated = shape.hopper && shape.compute == Compute::exact && o.a == o.b && o.a != DType::fp32 && !o.transpose_a && !o.transpose_b;
  const double draw = double(random.within(0, 999)) / 1000;
  if (shape.gating) o.gating = *shape.gating;
  else if (may_be_gated && draw < 0.35) o.gating = draw < 0.18 ? Gating::halves : Gating::interleaved;
  if (random.chance(o.gating == Gating::none ? 0.5 : 0.85)) o.activation = integers ? Activation::relu : random.of<Activation>({Activation::relu, Activation::gelu_erf, Activation::gelu_tanh, Activation::silu});
  if (shape.compute == Compute::tf32 || (o.gating == Gating::none && random.chance(0.1))) {
    o.a = o.b = DType::tf32;
    if (random.chance(0.6)) o.d = DType::fp32;
  }
  return o;
}

i64 draw_size(Random& random, i64 largest) {
  const u64 kind = random.next() % 100;
  if (kind < 2) return 0;
  if (kind < 12) return random.within(1, std::min<i64>(largest, 16));
  if (kind < 30) return std::min(largest, std::max<i64>(1, 64 * random.within(0, largest / 64) + random.within(-1, 1)));  // tile edges
  if (kind < 45) return std::min(largest, std::max<i64>(1, 8 * random.within(1, std::max<i64>(1, largest / 8))));          // TMA's rule
  return random.within(1, largest);
}

OperandPlan plan_operand(Random& random, const char* name, DType type, i64 rows, i64 columns, i64 batches, bool may_broadcast, bool aligned) {
  OperandPlan x;
  x.name = name, x.type = type, x.rows = rows, x.columns = columns, x.batches = batches;
  const i64 unit = aligned ? 16 / size_of(type) : 1;
  x.ld = columns;
  if (random.chance(0.5)) x.ld += random.chance(0.8) ? random.within(0, 64) : random.within(0, columns + 1);
  x.ld = std::max<i64>(1, round_up(x.ld, unit));
  x.offset = random.chance(0.5) ? unit * random.within(0, aligned ? 15 : 127) : 0;
  x.batch_stride = round_up(x.ld * std::max<i64>(rows, 1) + (random.chance(0.5) ? random.within(0, 100) : 0), unit);
  if (batches > 1 && may_broadcast && random.chance(0.3)) x.batch_stride = 0;
  x.told_ld = x.ld == columns && random.chance(0.5) ? 0 : x.ld;
  if (rows == 1 && random.chance(0.3)) x.told_ld = random.of<i64>({0, 1, 7, 1'000'000'000});
  x.told_batch_stride = batches == 1 && random.chance(0.3) ? random.of<i64>({1, 12345}) : batches == 1 ? 0 : x.batch_stride;
  return x;
}

// The plan as an argument at a pretended address: what matters of it is its alignment.
MatrixArgument pretend(const OperandPlan& x) {
  return {reinterpret_cast<void*>(u64(1) << 40 | u64(x.offset * size_of(x.type))), x.told_ld ? x.ld : x.columns, x.batches > 1 ? x.batch_stride : 0};
}

}  // namespace

u64 Random::next() {
  u64 z = state_ += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

i64 OperandPlan::span() const {
  if (rows == 0 || columns == 0 || batches == 0) return 0;
  return (batch_stride ? (batches - 1) * batch_stride : 0) + (rows - 1) * ld + columns;
}

VerifyCase draw_case(u64 seed, int index, const VerifyShape& shape) {
  const char* reason = nullptr;
  for (u64 attempt = 0; attempt < kMostAttempts; ++attempt) {
    Random random((seed << 32) + u64(index) * 0x10001 + attempt * 0x5851f42d4c957f2dull);
    VerifyCase v;
    v.index = index;
    v.seed = random.next();
    v.integers = shape.integers || index % 4 == 3;
    // The kinds for integer data are other ones: only activations that keep integers.
    v.operation = draw_operation(seed, int(random.within(0, shape.operations - 1)) + (v.integers ? 1'000'000 : 0), v.integers, shape);
    Operation& o = v.operation;
    Problem& p = v.problem;

    const i64 largest = random.chance(0.15) ? std::min<i64>(shape.max_size, 64) : shape.max_size;
    p.m = draw_size(random, largest), p.n = draw_size(random, largest), p.k = draw_size(random, largest);
    const bool gated = o.gating != Gating::none;
    if (gated) p.n += p.n % 2, p.k = std::max<i64>(p.k, 1);  // no kernel takes a gated product without a sum
    p.batch = random.chance(0.8) ? 1 : random.chance(0.03) ? 0 : random.within(2, 9);
    while (p.m * p.n * p.batch > kMaxOutputs) p.batch = std::max<i64>(1, p.batch / 2), p.m = std::max<i64>(1, p.m - (p.batch == 1 ? p.m / 8 : 0));

    const bool aligned_inputs = random.chance(0.6) || gated, aligned_output = random.chance(0.6);
    v.a = plan_operand(random, "A", o.a, o.transpose_a ? p.k : p.m, o.transpose_a ? p.m : p.k, p.batch, true, aligned_inputs);
    v.b = plan_operand(random, "B", o.b, o.transpose_b ? p.k : p.n, o.transpose_b ? p.n : p.k, p.batch, true, aligned_inputs);
    v.c = plan_operand(random, "C", o.c, p.m, p.n, p.batch, true, random.chance(0.5));
    v.bias = plan_operand(random, "bias", o.bias, 1, p.n, p.batch, true, random.chance(0.5));
    v.residual = plan_operand(random, "residual", o.residual, p.m, output_columns(o, p.n), p.batch, true, random.chance(0.5));
    v.d = plan_operand(random, "D", o.d, p.m, output_columns(o, p.n), p.batch, false, aligned_output);
    v.c_is_d = o.has_c && o.c == o.d && random.chance(0.4) && !gated;
    if (v.c_is_d) v.c = v.d, v.c.name = "C";

    const std::vector<float> factors = v.integers ? std::vector<float>{1, -1, 2, 0.5f} : std::vector<float>{1, -1, 0.37f, 2.5f, 1e-3f};
    v.alpha = random.chance(0.5) ? 1.0f : random.chance(0.1) && !gated ? 0.0f : random.of(factors);
    v.beta = !o.has_c || random.chance(0.2) ? 0.0f : random.of(factors);  // without C only beta = 0 is accepted
    v.alpha_on_device = random.chance(0.2), v.beta_on_device = o.has_c && random.chance(0.2);
    v.sm_budget = random.chance(0.8) ? 0 : int(random.within(1, shape.sms));

    Operands x;
    x.a = pretend(v.a), x.b = pretend(v.b), x.epilogue.d = pretend(v.d);
    o.inputs = input_alignment(o, p, x), o.output = output_alignment(o, p, x);
    if (shape.configuration) {
      if (const char* r = why_not(o, *shape.configuration, p)) {
        if (!reason || !why_not(o, *shape.configuration)) reason = r;  // rather what is wrong with the size than with the operation
        continue;
      }
      v.configuration = shape.configuration;
    } else if (random.chance(0.5)) {
      std::vector<Configuration> legal;
      for (const Configuration& c : catalogue::kConfigurations)
        if (!why_not(o, c, p) && (shape.hopper || !needs_hopper(c.family))) legal.push_back(c);
      // The Hopper families first: the simt one is drawn often enough where nothing else is legal.
      std::vector<Configuration> hopper;
      std::copy_if(legal.begin(), legal.end(), std::back_inserter(hopper), [](const Configuration& c) { return needs_hopper(c.family); });
      if (!hopper.empty() && random.chance(0.9)) legal = hopper;
      if (!legal.empty()) v.configuration = random.of(legal);
    }
    v.batch_invariant = !v.configuration && random.chance(0.15);
    if (random.chance(0.2) && v.alpha != 0 && p.k > 0 && v.outputs() > 0) {
      v.chain = random.chance(0.5) ? Chain::fed : Chain::between;
      v.weights_ready = random.chance(0.6);
    }
    return v;
  }
  throw std::runtime_error(fmt::format("configuration {} could compute none of {} products drawn with M, N and K up to {} (one because: {}); allow larger ones (max_size)",
                                       text_of(*shape.configuration), kMostAttempts, shape.max_size, reason));
}

std::string VerifyCase::text() const {
  const auto operand = [](const OperandPlan& x) {
    return fmt::format("{}(ld {}, stride {}, +{})", x.name, x.told_ld, x.told_batch_stride, x.offset);
  };
  std::string s = fmt::format("case {}: M={} N={} K={} batch={} {} alpha={}{} beta={}{} {} {} {}", index, problem.m, problem.n, problem.k, problem.batch,
                              text_of(operation), alpha, alpha_on_device ? " on device" : "", beta, beta_on_device ? " on device" : "", operand(a), operand(b), operand(d));
  if (operation.has_c) s += c_is_d ? " C=D" : " " + operand(c);
  if (operation.has_bias) s += " " + operand(bias);
  if (operation.has_residual) s += " " + operand(residual);
  if (sm_budget) s += fmt::format(" sm_budget={}", sm_budget);
  if (integers) s += " integers";
  if (batch_invariant) s += " batch_invariant";
  if (chain != Chain::none) s += fmt::format(" dependent, {}{}", chain == Chain::fed ? "behind a product that writes A" : "between two products that write A", weights_ready ? ", weights ready" : "");
  s += configuration ? " " + text_of(*configuration) : " (configuration chosen by the model)";
  return s;
}

}  // namespace foretile::bench
