// Medians and their intervals, without assuming a distribution.
#pragma once
#include <vector>

namespace foretile::bench {

double median(std::vector<double> values);  // 0 of none

// The median and the narrowest pair of order statistics that holds the true median with at least 95 % (binomial; needs
// six values, fewer give the whole range and less than 95 %).
struct MedianInterval { double median = 0, low = 0, high = 0; };
MedianInterval median_interval(std::vector<double> values);

void pause(double seconds);  // of this thread

}  // namespace foretile::bench
