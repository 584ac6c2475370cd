#include "bench/statistics.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace foretile::bench {

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  const std::size_t half = v.size() / 2;
  return v.size() % 2 ? v[half] : 0.5 * (v[half - 1] + v[half]);
}

MedianInterval median_interval(std::vector<double> v) {
  if (v.empty()) return {};
  std::sort(v.begin(), v.end());
  // With n values, [v[k], v[n-1-k]] misses the median with probability 2 P(Binomial(n, 1/2) <= k).
  const std::size_t n = v.size();
  std::size_t best = 0;
  double term = std::pow(0.5, double(n)), tail = term;
  for (std::size_t k = 1; 2 * k < n; ++k) {
    term *= double(n - k + 1) / double(k);
    tail += term;
    if (2 * tail > 0.05) break;
    best = k;
  }
  return {median(v), v[best], v[n - 1 - best]};
}

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace foretile::bench
