// How well forecasts do against measured times: their errors, and what the choice they make costs.
#pragma once
#include <cstddef>
#include <vector>

#include "foretile/device/operation.h"

namespace foretile {

struct Compared {
  Problem problem;
  double measured = 0, forecast = 0;  // s; several of one problem: its configurations
  bool offered = true;                // choose() may pick it; what it never picks still counts as fastest
};

struct Accuracy {
  std::size_t times = 0;
  double median = 0, mean = 0, ninth = 0;  // of |forecast / measured - 1|, nine in ten stay within; NaN without times
  std::size_t shapes = 0;                  // with more than one time
  double choice = 0, worst = 0;            // the fastest measured time over that of the shortest forecast: geometric mean over shapes, least; NaN without shapes
  Problem worst_shape;
};

Accuracy accuracy(const std::vector<Compared>& compared);

// The rows of a product: what errors are stated by.
struct RowRange {
  const char* name;
  i64 first, last;
  bool holds(const Problem& p) const { return p.m >= first && p.m <= last; }
};
inline constexpr RowRange kRowRanges[] = {{"M <= 96", 1, 96}, {"M = 97 to 2047", 97, 2047}, {"M >= 2048", 2048, i64(1) << 62}};

}  // namespace foretile
