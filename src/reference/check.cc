#include "reference/check.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <limits>
#include <thread>
#include <vector>

#include "reference/convert.h"

namespace foretile::reference {

namespace {

constexpr int kChunk = 16;                 // steps of K over which the largest magnitude is taken
constexpr double kUlp = 0x1p-23;           // fp32: one unit in the last place of a number in [1, 2)
constexpr double kHalfUlp = 0x1p-24;
constexpr double kActivationError = 0x1p-20;  // relative to |x|: erff, tanhf and expf err by at most 2 ulp (CUDA C++
                                              // Programming Guide, "Mathematical Functions"), plus a few roundings
constexpr double kActivationSlope = 1.13;     // the steepest of GELU and SiLU
constexpr int kColumns = 32;               // columns of the product worked on together

double value_of(DType type, const MatrixArgument& x, i64 batch, i64 row, i64 column) {
  return load(type, x.data, batch * x.batch_stride + row * x.ld + column);
}

// A number as a kernel holds it in fp32: the fp64 value and how far off the kernel may be.
struct Approximate {
  double value = 0, error = 0;

  // An fp32 operation has produced `result` from inputs that were off by `inherited`.
  void becomes(double result, double inherited) {
    value = result;
    error = inherited;
    if (!std::isfinite(result) || (inherited == 0 && double(float(result)) == result)) return;
    error += kHalfUlp * (std::fabs(result) + inherited) + 0x1p-149;
  }
};

struct Selection {
  std::vector<i64> rows, columns;  // the same in every batch
};

u64 mix(u64 z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// `count` of `n` indices: the two ends, and one at random in each of equal strata between.
std::vector<i64> spread(i64 n, i64 count, u64 seed) {
  std::vector<i64> result;
  if (count >= n) {
    for (i64 i = 0; i < n; ++i) result.push_back(i);
    return result;
  }
  count = std::max<i64>(count, 2);
  for (i64 i = 0; i < count; ++i) {
    const i64 low = i * n / count, high = (i + 1) * n / count;
    result.push_back(i == 0 ? 0 : i == count - 1 ? n - 1 : low + i64(mix(seed + u64(i)) % u64(high - low)));
  }
  return result;
}

Selection select(const Operation& o, const Problem& p, const CheckOptions& options) {
  Selection s;
  const i64 n = output_columns(o, p.n);
  const double wanted = options.max_elements > 0 ? double(options.max_elements) / double(p.batch) : HUGE_VAL;
  if (wanted >= double(p.m) * double(n)) return {spread(p.m, p.m, 0), spread(n, n, 0)};
  const double side = std::sqrt(std::max(4.0, wanted));
  const i64 rows = std::min<i64>(p.m, i64(std::max(side, wanted / double(n))));
  s.rows = spread(p.m, rows, options.seed * 2);
  s.columns = spread(n, i64(wanted / double(s.rows.size())), options.seed * 2 + 1);
  return s;
}

struct Checker {
  const Operation& o;
  const Problem& p;
  const Operands& x;
  double alpha, beta;
  CheckResult result;

  double a_value(i64 batch, i64 row, i64 k) const { return o.transpose_a ? value_of(o.a, x.a, batch, k, row) : value_of(o.a, x.a, batch, row, k); }
  double b_value(i64 batch, i64 column, i64 k) const { return o.transpose_b ? value_of(o.b, x.b, batch, k, column) : value_of(o.b, x.b, batch, column, k); }

  // The epilogue's fp32 steps, one by one. A kernel may fuse a multiplication into an addition, which only rounds less.
  Approximate scaled(Approximate sum, i64 batch, i64 row, i64 column) const {
    Approximate v;
    if (alpha != 0) v.becomes(alpha * sum.value, std::fabs(alpha) * sum.error);
    if (o.has_c && beta != 0) {
      Approximate term;
      term.becomes(beta * value_of(o.c, x.epilogue.c, batch, row, column), 0);
      v.becomes(v.value + term.value, v.error + term.error);
    }
    if (o.has_bias) v.becomes(v.value + load(o.bias, x.epilogue.bias.data, batch * x.epilogue.bias.batch_stride + column), v.error);
    return v;
  }
  Approximate activated(Approximate v) const {
    if (o.activation == Activation::relu) {
      v.value = activate(o.activation, v.value);
    } else if (o.activation != Activation::none) {
      const double before = v.value;
      v.value = activate(o.activation, before);
      v.error = kActivationSlope * v.error + kActivationError * std::fabs(before) + 0x1p-149;
    }
    return v;
  }
  // `column` of D; `sums` of the product's column, or of gate and up column.
  Approximate finish(const Approximate* sums, i64 batch, i64 row, i64 column) const {
    i64 of[2];
    const int count = product_columns(column, of);
    Approximate v = activated(scaled(sums[0], batch, row, of[0]));
    if (count == 2) {
      const Approximate up = scaled(sums[1], batch, row, of[1]);
      v.becomes(v.value * up.value, v.error * std::fabs(up.value) + up.error * std::fabs(v.value) + v.error * up.error);
    }
    if (o.has_residual) v.becomes(v.value + value_of(o.residual, x.epilogue.residual, batch, row, column), v.error);
    return v;
  }

  // The columns of the product that a column of D is made from: itself, or gate and up.
  int product_columns(i64 column, i64 (&of)[2]) const {
    of[0] = o.gating == Gating::interleaved ? 2 * column : column;
    of[1] = o.gating == Gating::interleaved ? 2 * column + 1 : p.n / 2 + column;
    return o.gating == Gating::none ? 1 : 2;
  }

  void judge(Approximate z, bool may_overflow, i64 batch, i64 row, i64 column, CheckResult& r) const {
    const double got = value_of(o.d, x.epilogue.d, batch, row, column);
    const double low = rounded(o.d, z.value - z.error), high = rounded(o.d, z.value + z.error);
    ++r.checked;
    bool right;
    if (std::isnan(z.value)) {
      right = std::isnan(got);
    } else if (std::isinf(z.value)) {
      right = got == z.value;
    } else {
      right = (got >= low && got <= high) || (may_overflow && !std::isfinite(got));
      if (low == high) ++r.exact;
      const double distance = std::fabs(got - z.value), allowed = std::max(high - z.value, z.value - low);
      if (right && distance > 0 && allowed > 0 && std::isfinite(allowed)) r.worst = std::max(r.worst, distance / allowed);
    }
    if (right) return;
    r.worst = HUGE_VAL;
    if (r.wrong++ == 0) {
      char text[240];
      const std::string where = p.batch > 1 ? "batch " + std::to_string(batch) + ", " : "";
      std::snprintf(text, sizeof text, "D[%srow %lld, column %lld] is %.9g, should be %.9g (at least %.9g, at most %.9g)", where.c_str(), row, column, std::isnan(got) ? std::fabs(got) : got, z.value, low, high);
      r.first_wrong = text;
    }
  }

  // Rows [first, last) of the selection by columns of it, which are up to kColumns columns of the product.
  void block(i64 batch, const Selection& s, size_t first, size_t last, size_t column0, size_t count, CheckResult& r) const {
    const i64 depth = alpha == 0 ? 0 : p.k;  // alpha 0: A and B are not read
    std::vector<double> b(size_t(depth) * kColumns, 0.0), a(static_cast<size_t>(depth));
    bool integers_b = true;
    i64 of[kColumns + 1];
    size_t columns = 0;
    for (size_t c = 0; c < count; ++c) {
      i64 pair[2];
      const int made_from = product_columns(s.columns[column0 + c], pair);
      for (int i = 0; i < made_from; ++i) of[columns++] = pair[i];
    }
    const size_t each = columns / count;
    for (size_t c = 0; c < columns; ++c)
      for (i64 k = 0; k < depth; ++k) {
        const double v = b[size_t(k) * kColumns + c] = b_value(batch, of[c], k);
        integers_b = integers_b && v == std::nearbyint(v);
      }
    for (size_t i = first; i < last; ++i) {
      bool integers = integers_b;
      for (i64 k = 0; k < depth; ++k) {
        a[size_t(k)] = a_value(batch, s.rows[i], k);
        integers = integers && a[size_t(k)] == std::nearbyint(a[size_t(k)]);
      }
      double sum[kColumns] = {}, magnitudes[kColumns] = {}, error[kColumns] = {}, peak[kColumns] = {};
      for (i64 k0 = 0; k0 < depth; k0 += kChunk) {
        double largest[kColumns];
        for (int c = 0; c < kColumns; ++c) largest[c] = std::fabs(sum[c]);
        for (i64 k = k0; k < std::min(depth, k0 + kChunk); ++k) {
          const double left = a[size_t(k)];
          const double* right = &b[size_t(k) * kColumns];
          for (int c = 0; c < kColumns; ++c) {
            const double product = left * right[c], magnitude = std::fabs(product);
            sum[c] += product;
            magnitudes[c] += magnitude;
            largest[c] = largest[c] < magnitude ? magnitude : largest[c];
            const double size = std::fabs(sum[c]);
            largest[c] = largest[c] < size ? size : largest[c];
          }
        }
        for (int c = 0; c < kColumns; ++c) {
          error[c] += (kChunk + 2) * kUlp * largest[c];
          peak[c] = std::max(peak[c], largest[c]);
        }
      }
      for (size_t c = 0; c < count; ++c) {
        Approximate sums[2];
        bool may_overflow = false;
        for (size_t j = 0; j < each; ++j) {
          const size_t at = c * each + j;
          const bool exact = integers && magnitudes[at] <= 0x1p24;
          sums[j] = {sum[at], exact ? 0 : error[at]};
          may_overflow = may_overflow || peak[at] + error[at] > double(std::numeric_limits<float>::max());
        }
        judge(finish(sums, batch, s.rows[i], s.columns[column0 + c]), may_overflow, batch, s.rows[i], s.columns[column0 + c], r);
      }
    }
  }

  // Finite, and small enough that no sum of products can overflow into NaN.
  bool tame(DType type, const MatrixArgument& m, i64 rows, i64 columns) const {
    for (i64 batch = 0; batch < (m.batch_stride ? p.batch : 1); ++batch)
      for (i64 row = 0; row < rows; ++row)
        for (i64 column = 0; column < columns; ++column)
          if (!(std::fabs(value_of(type, m, batch, row, column)) < 1e12)) return false;
    return true;
  }

  // NaN left anywhere in D, also between the selected elements.
  void look_for_unwritten() {
    const bool reads_product = alpha != 0 && p.k > 0;
    const bool clean = std::fabs(alpha) < 1e6 && std::fabs(beta) < 1e6 &&
        (!reads_product || (tame(o.a, x.a, o.transpose_a ? p.k : p.m, o.transpose_a ? p.m : p.k) && tame(o.b, x.b, o.transpose_b ? p.k : p.n, o.transpose_b ? p.n : p.k))) &&
        (!o.has_c || beta == 0 || tame(o.c, x.epilogue.c, p.m, p.n)) && (!o.has_bias || tame(o.bias, x.epilogue.bias, 1, p.n)) &&
        (!o.has_residual || tame(o.residual, x.epilogue.residual, p.m, output_columns(o, p.n)));
    if (!clean) return;
    for (i64 batch = 0; batch < p.batch; ++batch)
      for (i64 row = 0; row < p.m; ++row)
        for (i64 column = 0; column < output_columns(o, p.n); ++column) result.unwritten += std::isnan(value_of(o.d, x.epilogue.d, batch, row, column));
  }
};

}  // namespace

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return x < 0 ? 0 : x;
    case Activation::gelu_erf: return x == -HUGE_VAL ? -0.0 : 0.5 * x * std::erfc(-x * 0.70710678118654752440);
    case Activation::gelu_tanh: {
      // 0.5 (1 + tanh u) = 1 / (1 + exp(-2u)), which keeps its precision where tanh comes close to -1.
      const double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
      return x == -HUGE_VAL ? -0.0 : x / (1 + std::exp(-2 * u));
    }
    case Activation::silu: return x == -HUGE_VAL ? -0.0 : x / (1 + std::exp(-x));
  }
  return x;
}

CheckResult check(const Operation& o, const Problem& p, const Operands& x, const CheckOptions& options) {
  const auto& e = x.epilogue;
  Checker checker{.o = o, .p = p, .x = x, .alpha = e.alpha_pointer ? *e.alpha_pointer : e.alpha, .beta = e.beta_pointer ? *e.beta_pointer : e.beta, .result = {}};
  checker.result.elements = p.m * output_columns(o, p.n) * p.batch;
  if (checker.result.elements == 0) return checker.result;

  const Selection s = select(o, p, options);
  const size_t at_once = o.gating == Gating::none ? kColumns : kColumns / 2;
  struct Task {
    i64 batch;
    size_t row, column;
  };
  constexpr size_t kRows = 64;
  std::vector<Task> tasks;
  for (i64 batch = 0; batch < p.batch; ++batch)
    for (size_t column = 0; column < s.columns.size(); column += at_once)
      for (size_t row = 0; row < s.rows.size(); row += kRows) tasks.push_back({batch, row, column});

  std::atomic<size_t> next{0};
  std::vector<CheckResult> results(tasks.size());  // joined in order, so that the first wrong element is always the same
  const auto work = [&] {
    for (size_t i; (i = next++) < tasks.size();) {
      const Task& t = tasks[i];
      checker.block(t.batch, s, t.row, std::min(s.rows.size(), t.row + kRows), t.column, std::min<size_t>(at_once, s.columns.size() - t.column), results[i]);
    }
  };
  const size_t wanted = options.threads > 0 ? size_t(options.threads) : std::max(1u, std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < std::min(wanted, tasks.size()); ++i) threads.emplace_back(work);
    work();
  }
  for (CheckResult& r : results) {
    checker.result.checked += r.checked;
    checker.result.exact += r.exact;
    if (checker.result.wrong == 0 && r.wrong) checker.result.first_wrong = r.first_wrong;
    checker.result.wrong += r.wrong;
    checker.result.worst = std::max(checker.result.worst, r.worst);
  }
  checker.look_for_unwritten();
  return checker.result;
}

std::string CheckResult::text() const {
  if (elements == 0) return "D is empty: nothing to check";
  std::string part = checked == elements ? "all " + std::to_string(elements) + " elements" : std::to_string(checked) + " of " + std::to_string(elements) + " elements";
  if (!passed()) {
    std::string s = std::to_string(wrong) + " wrong of " + part + " checked";
    if (unwritten) s += ", " + std::to_string(unwritten) + " NaN or never written";
    if (!first_wrong.empty()) s += "; first: " + first_wrong;
    return s;
  }
  if (exact == checked && worst <= 1) return part + " right, no other value possible";
  return part + " right, " + rounding_text(worst);
}

std::string rounding_text(double used) {
  char buffer[200];
  std::snprintf(buffer, sizeof buffer, "the largest error against fp64 is %.0f %% of what rounding (of sums to fp32, of D to its type) may cause", 100 * used);
  return buffer;
}

}  // namespace foretile::reference
