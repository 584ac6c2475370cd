#include "model/speed_of_light.h"

#include <algorithm>

#include "foretile/device/kernels/family.h"
#include "model/access.h"

namespace foretile {

namespace {
constexpr double kBusy = 60;  // percent, from where Nsight Compute speaks of a unit as the bottleneck
}

void SpeedOfLight::add(Bound unit, double percent) {
  UnitShare* place = units_.data() + count_++;
  for (; place != units_.data() && place[-1].percent < percent; --place) *place = place[-1];
  *place = {unit, percent};
}

Bound SpeedOfLight::top() const { return count_ == 0 || units_[0].percent < kBusy ? Bound::latency : units_[0].unit; }

SpeedOfLight speed_of_light(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Anatomy& x, const Traffic& t) {
  SpeedOfLight list;
  if (x.tiles == 0) return list;
  const Forecast& f = x.forecast;
  // The kernel alone, with the traffic of the order of tiles that was asked about.
  const double dram = x.dram_seconds * t.dram_bytes() / std::max(1.0, x.traffic.dram_bytes());
  const double seconds = list.seconds_ = std::max(f.seconds - x.launch_seconds, dram), clocks = seconds * x.clock;
  list.add(Bound::dram, 100 * t.dram_bytes() / (machine.dram_bandwidth * seconds));
  list.add(Bound::l2, 100 * l2_lookups(machine, c, p, x.grid, x.concurrent, t).sectors * kSectorBytes / (machine.l2_bytes_per_clock * machine.boost_mhz * 1e6 * seconds));  // at its own clock
  // SMs without a tile do nothing. Issue in a forecast of simt is what it takes at the efficiency of its loop.
  const double busy = 100 * double(x.tiles) / (x.rounds_taken * double(x.concurrent)) * x.busy_sms / machine.sms;
  list.add(Bound::shared_memory, busy * f.shared_memory / seconds);
  if (uses_tensor_cores(c.family)) {
    // What tensor cores sustain: long products lower the clock within their bursts.
    const double rate = machine.tensor_rate(o.a) * (c.family == Family::sm90 ? machine.sm90.mma_efficiency : 1);
    list.add(Bound::tensor_cores, 100 * x.flops_executed / (rate * machine.sms * clocks));
  } else {
    list.add(Bound::fp32_cores, 100 * x.flops_executed / (machine.fp32_rate * machine.sms * clocks));
    list.add(Bound::issue, busy * f.issue / seconds * (c.family == Family::simt ? machine.simt.issue_efficiency : 1));
  }
  return list;
}

}  // namespace foretile
