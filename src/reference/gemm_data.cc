#include "reference/gemm_data.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>

#include "reference/convert.h"

namespace foretile::reference {

namespace {

constexpr std::size_t kGuard = 1024;  // bytes before and after: more than a row of any tile that could run over
constexpr std::byte kPoison{0xff};    // a NaN in fp32, fp16 and bf16
constexpr std::size_t kAlignment = 256;

struct Random {
  u64 state;
  u64 next() {
    u64 z = state += 0x9e3779b97f4a7c15ull;  // SplitMix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double uniform() { return double((next() >> 11) + 1) * 0x1p-53; }  // (0, 1]
  double value(Values kind) {
    if (kind == Values::integers) return double(i64(next() % 7)) - 3;
    return std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform());
  }
};

std::shared_ptr<std::byte[]> allocate(std::size_t bytes) {
  auto* p = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{kAlignment}));
  return {p, [](std::byte* q) { ::operator delete(q, std::align_val_t{kAlignment}); }};
}

struct Maker {
  const GemmDataOptions& options;
  i64 batch;
  u64 count = 0;

  HostOperand operand(std::string name, DType type, i64 rows, i64 columns, const Placement& place, bool poison) {
    HostOperand x;
    x.name = std::move(name), x.type = type, x.rows = rows, x.columns = columns;
    x.ld = columns + place.ld_padding;
    x.batches = place.broadcast ? std::min<i64>(batch, 1) : batch;
    x.batch_stride = place.broadcast || batch <= 1 ? 0 : std::max<i64>(rows * x.ld, 1);
    const std::size_t element = std::size_t(size_of(type));
    x.data_offset = kGuard + std::size_t(place.pointer_offset) * element;
    const std::size_t body = std::size_t(rows * x.ld * x.batches) * element;
    x.size = x.data_offset + body + kGuard;
    x.base = allocate(x.size);
    std::memset(x.base.get(), int(kPoison), x.size);
    Random random{options.seed * 1000003 + ++count};
    if (!poison)
      for (i64 b = 0; b < x.batches; ++b)
        for (i64 row = 0; row < rows; ++row)
          for (i64 column = 0; column < columns; ++column) store(type, x.data(), b * x.batch_stride + row * x.ld + column, random.value(options.values));
    x.before.assign(x.base.get(), x.base.get() + x.size);
    return x;
  }
};

}  // namespace

std::size_t HostOperand::data_bytes() const {
  if (rows == 0 || columns == 0 || batches == 0) return 0;
  return std::size_t((batches - 1) * batch_stride + (rows - 1) * ld + columns) * std::size_t(size_of(type));
}

GemmData make_gemm_data(Operation o, const Problem& p, const GemmDataOptions& options) {
  if (o.gating != Gating::none && p.n % 2) throw std::invalid_argument("a gated product needs an even N");
  if (options.c_is_d && o.gating != Gating::none) throw std::invalid_argument("C cannot stand in D's place where the product is gated");
  if (options.c_is_d && (!o.has_c || o.c != o.d)) throw std::invalid_argument("C can stand in D's place only if there is a C and it has D's type");
  GemmData g;
  g.problem = p;
  Maker maker{options, p.batch};
  auto& table = g.operands.epilogue;
  const auto add = [&](HostOperand x) { return g.list.emplace_back(std::move(x)).argument(); };
  g.operands.a = add(maker.operand("A", o.a, o.transpose_a ? p.k : p.m, o.transpose_a ? p.m : p.k, options.a, false));
  g.operands.b = add(maker.operand("B", o.b, o.transpose_b ? p.k : p.n, o.transpose_b ? p.n : p.k, options.b, false));
  if (o.has_c && !options.c_is_d) table.c = add(maker.operand("C", o.c, p.m, p.n, options.c, false));
  if (o.has_bias) table.bias = add(maker.operand("bias", o.bias, 1, p.n, options.bias, false));
  if (o.has_residual) table.residual = add(maker.operand("residual", o.residual, p.m, output_columns(o, p.n), options.residual, false));
  Placement place = options.d;
  place.broadcast = false;
  table.d = add(maker.operand("D", o.d, p.m, output_columns(o, p.n), place, !options.c_is_d));
  if (options.c_is_d) table.c = table.d, g.c_before = g.list.back().before;
  table.alpha = options.alpha, table.beta = options.beta;
  o.inputs = input_alignment(o, p, g.operands);
  o.output = output_alignment(o, p, g.operands);
  g.operation = o;
  return g;
}

const HostOperand* GemmData::find(const std::string& name) const {
  for (const HostOperand& x : list)
    if (x.name == name) return &x;
  return nullptr;
}

CheckResult GemmData::check(const CheckOptions& options) const {
  Operands x = operands;
  if (!c_before.empty()) x.epilogue.c.data = const_cast<std::byte*>(c_before.data() + list.back().data_offset);
  return reference::check(operation, problem, x, options);
}

std::string GemmData::damage() const {
  std::string text;
  for (const HostOperand& x : list) {
    std::vector<std::byte> expected = x.before;
    if (x.name == "D") {
      const std::size_t element = std::size_t(size_of(x.type));
      for (i64 batch = 0; batch < x.batches; ++batch)
        for (i64 row = 0; row < x.rows; ++row) {
          const std::size_t at = x.data_offset + std::size_t(batch * x.batch_stride + row * x.ld) * element;
          std::memcpy(expected.data() + at, x.base.get() + at, std::size_t(x.columns) * element);
        }
    }
    i64 changed = 0, first = 0;
    for (std::size_t i = 0; i < x.size; ++i)
      if (x.base[std::ptrdiff_t(i)] != expected[i] && changed++ == 0) first = i64(i) - i64(x.data_offset);
    if (changed)
      text += (text.empty() ? "" : "; ") + std::to_string(changed) + " bytes of " + (x.name == "D" ? "the gaps and guards of D" : x.name) + " overwritten, the first at byte " + std::to_string(first) + " from its start";
  }
  return text;
}

}  // namespace foretile::reference
