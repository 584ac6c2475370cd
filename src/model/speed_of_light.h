// How busy each unit of the GPU is while a kernel runs, and so what bounds it.
#pragma once
#include <array>

#include "model/anatomy.h"

namespace foretile {

struct UnitShare {
  Bound unit = Bound::latency;
  double percent = 0;  // of what all of the unit, on all SMs, could do in the kernel's time
};

// As Nsight Compute's speed of light shows it, the busiest first.
class SpeedOfLight {
 public:
  double seconds() const { return seconds_; }  // of the kernel alone, without its launch
  const UnitShare* begin() const { return units_.data(); }
  const UnitShare* end() const { return units_.data() + count_; }
  // The busiest unit where it is above 60 % of its peak, else latency: nothing is near its limit, the kernel waits.
  Bound top() const;

 private:
  friend SpeedOfLight speed_of_light(const Machine&, const Operation&, const Configuration&, const Problem&, const Anatomy&, const Traffic&);
  void add(Bound unit, double percent);
  std::array<UnitShare, 5> units_;
  int count_ = 0;
  double seconds_ = 0;
};

// `t`: x.traffic, or that of another order of tiles.
SpeedOfLight speed_of_light(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Anatomy& x, const Traffic& t);

}  // namespace foretile
