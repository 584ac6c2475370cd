#include "model/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace foretile {

Accuracy accuracy(const std::vector<Compared>& compared) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN(), kNever = std::numeric_limits<double>::infinity();
  struct Best {
    std::size_t times = 0;
    double fastest = kNever, forecast = kNever, chosen = kNever;
  };
  std::map<std::tuple<i64, i64, i64, i64>, Best> shapes;
  std::vector<double> errors;
  double sum = 0;
  for (const Compared& c : compared) {
    errors.push_back(std::abs(c.forecast / c.measured - 1));
    sum += errors.back();
    Best& best = shapes[{c.problem.m, c.problem.n, c.problem.k, c.problem.batch}];
    ++best.times;
    best.fastest = std::min(best.fastest, c.measured);
    if (c.offered && c.forecast < best.forecast) best.forecast = c.forecast, best.chosen = c.measured;
  }
  std::sort(errors.begin(), errors.end());
  Accuracy a;
  a.times = errors.size();
  a.median = errors.empty() ? kNone : errors[errors.size() / 2];
  a.ninth = errors.empty() ? kNone : errors[errors.size() * 9 / 10];
  a.mean = errors.empty() ? kNone : sum / double(errors.size());
  double logarithms = 0;
  a.worst = kNever;
  for (const auto& [shape, best] : shapes) {
    if (best.times < 2 || best.chosen == kNever) continue;
    const double share = best.fastest / best.chosen;
    logarithms += std::log(share);
    if (share < a.worst) a.worst = share, a.worst_shape = {std::get<0>(shape), std::get<1>(shape), std::get<2>(shape), std::get<3>(shape)};
    ++a.shapes;
  }
  a.choice = a.shapes ? std::exp(logarithms / double(a.shapes)) : kNone;
  if (!a.shapes) a.worst = kNone;
  return a;
}

}  // namespace foretile
