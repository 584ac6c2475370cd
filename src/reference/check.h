// D against an fp64 reference, with an interval for every element that a correct kernel cannot leave.
//
// The interval. A product of two stored values is exact in fp64 (and in fp32 hardware for 16-bit types and tf32, of
// which the reference takes the same ten bits as the kernels). The kernels
// accumulate in fp32 along K; in each chunk of 16 steps, the depth of one wgmma, a running sum can lose at most 18 units in
// the last place of the largest magnitude it saw there: 16 additions that round or truncate, or 17 addends cut to one
// exponent as tensor cores do, and the final normalisation. Adding these up over K follows the sum's own size: data of
// mixed signs gets a bound growing as sqrt(K), so that a dropped slice of K is far outside. The epilogue's fp32 steps add
// their roundings. D must lie between the two ends, each rounded to D's type. Where inputs are integers and every sum
// stays below 2^24, no step rounds, the interval is a point, and the check is exact.
#pragma once
#include <string>

#include "foretile/device/operation.h"
#include "plan/plan.h"

namespace foretile::reference {

struct CheckOptions {
  i64 max_elements = 0;  // 0: every element; else a grid of about this many, spread over D and holding its corners
  u64 seed = 0;          // of that grid
  int threads = 0;       // 0: all cores
};

struct CheckResult {
  i64 elements = 0;          // of D
  i64 checked = 0;           // against the reference
  i64 exact = 0;             // of those checked: the interval was a point
  i64 wrong = 0;             // outside their interval, NaN where a number is due, or the reverse
  i64 unwritten = 0;         // NaN anywhere in D though no input is NaN, infinite or huge: shows what poison was left there
  double worst = 0;          // largest distance from the reference as a part of what is allowed; 1 is the edge
  std::string first_wrong;   // "D[row 3, column 5] is 7, should be 6 (at least 5.98, at most 6.02)"

  bool passed() const { return wrong == 0 && unwritten == 0 && (checked > 0 || elements == 0); }
  std::string text() const;  // one line
};

// `x` holds host pointers; alpha and beta pointers are read on the host too. epilogue.c is C as it was before the call: where
// the call overwrites C with D, pass a copy.
CheckResult check(const Operation& o, const Problem& p, const Operands& x, const CheckOptions& options = {});

// In words, for results that are right: "the largest error against fp64 is 40 % of what rounding ... may cause". `used`: CheckResult::worst.
std::string rounding_text(double used);

// The activation in fp64.
double activate(Activation activation, double x);

}  // namespace foretile::reference
