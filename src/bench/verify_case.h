// One random problem of `foretile verify`: everything that is drawn, before any memory exists.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"
#include "plan/plan.h"

namespace foretile::bench {

// SplitMix64: the same cases on every machine and compiler, which std::uniform_int_distribution does not promise.
class Random {
 public:
  explicit Random(u64 seed) : state_(seed) {}
  u64 next();
  i64 within(i64 low, i64 high) { return low + i64(next() % u64(high - low + 1)); }  // both ends included
  bool chance(double p) { return double(next() >> 11) * 0x1p-53 < p; }
  template <class T> const T& of(const std::vector<T>& list) { return list[std::size_t(next() % list.size())]; }

 private:
  u64 state_;
};

// How an operand stands in memory, in elements. A rows x columns matrix a batch.
struct OperandPlan {
  std::string name;
  DType type = DType::bf16;
  i64 rows = 0, columns = 0, batches = 1;
  i64 ld = 0, batch_stride = 0;  // as the memory is laid out
  i64 offset = 0;                // of element 0 from a 256-byte boundary
  i64 told_ld = 0, told_batch_stride = 0;  // as the call says it: 0 for dense, anything where it must not be looked at

  i64 span() const;  // elements from the first to behind the last; 0 for an empty matrix
};

// What goes before and after the call on the stream, all of them as dependent launches.
enum class Chain {
  none,     // nothing: a launch like any other
  fed,      // a product before it writes its A, which holds NaN until then
  between,  // and one behind it writes NaN over its A
};

struct VerifyCase {
  int index = 0;
  u64 seed = 0;  // of the data
  Operation operation;  // with the alignment classes that the plans give
  Problem problem;
  OperandPlan a, b, c, bias, residual, d;
  bool c_is_d = false;
  float alpha = 1, beta = 0;
  bool alpha_on_device = false, beta_on_device = false;
  bool integers = false;  // exact
  int sm_budget = 0;
  std::optional<Configuration> configuration;  // none: the model chooses
  bool batch_invariant = false;
  Chain chain = Chain::none;
  bool weights_ready = false;  // only in a chain

  i64 outputs() const { return problem.m * output_columns(operation, problem.n) * problem.batch; }
  std::string text() const;  // in one line, enough to build the call by hand
};

struct VerifyShape {
  i64 max_size = 3000;  // of M, N and K
  bool integers = false;
  int sms = 132;
  int operations = 40;  // kinds of operation the cases share, so that the number of kernels to compile stays bounded
  std::optional<Configuration> configuration;  // only cases that it can compute
  bool hopper = true;   // draw configurations of the Hopper families, and gated products, too
  std::optional<Gating> gating;  // only products gated like this
  Compute compute = Compute::exact;  // tf32: only products of fp32 in tf32
};

// Case number `index` of `seed` is the same whatever was drawn before it. Throws std::runtime_error where the configuration can compute no
// product of that size.
VerifyCase draw_case(u64 seed, int index, const VerifyShape& shape);

}  // namespace foretile::bench
