#include "bench/floor.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <stdexcept>

namespace foretile::bench {

namespace {

// Deep rings are fastest in a plain chain, shallow ones beside the kernel before in a dependent one; small copies where there are
// few bytes.
constexpr Ring kRings[] = {{13, 16384, 1}, {6, 16384, 1}, {6, 16384, 2}, {4, 8192, 3}};
constexpr double kTrialSeconds = 0.01;
constexpr int kTrials = 3;

}  // namespace

std::string Ring::text() const { return fmt::format("{}x{}x{}", stages, copy_bytes, blocks_per_sm); }

void launch_read(const Gpu& gpu, const void* from, i64 bytes, const Ring& ring, int blocks, bool dependent) {
  const i64 pieces = ceil_div(bytes, i64(ReadArguments::kPiece));
  ReadArguments r{static_cast<const u8*>(from), bytes, pieces / blocks, pieces % blocks, ring.stages, ring.copy_bytes};
  gpu.launch("read_ring", blocks, 32, {&r}, dependent, ring.shared_bytes());
}

ReadFloor::ReadFloor(const Gpu& gpu, const Workload& w) : gpu_(gpu), workload_(w) {
  if (gpu.info().compute_capability < 90) throw std::invalid_argument(fmt::format("floor: {} has compute capability {}.{}; allowed: 9.0 and above, which have bulk copies", gpu.info().name, gpu.info().compute_capability / 10, gpu.info().compute_capability % 10));
  if (w.weight_bytes() % 16) throw std::invalid_argument(fmt::format("floor: the weights of {} are {} bytes; allowed: a multiple of 16", w.shape().name, w.weight_bytes()));
  std::vector<Arm> arms;
  std::vector<double> least(std::size(kRings), std::numeric_limits<double>::infinity());
  for (const Ring& ring : kRings) arms.push_back(make_arm(gpu, launches_for(w, double(w.weight_bytes()) / 4e6), [&](i64 i) { run(i, ring); }));
  for (int trial = 0; trial < kTrials; ++trial)
    for (std::size_t i = 0; i < arms.size(); ++i) least[i] = std::min(least[i], time_arm(gpu, arms[i], kTrialSeconds, nullptr).microseconds);
  ring_ = kRings[std::min_element(least.begin(), least.end()) - least.begin()];
}

void ReadFloor::run(i64 copy, const Ring& ring) const {
  launch_read(gpu_, workload_.weights(copy), workload_.weight_bytes(), ring, gpu_.info().sms * ring.blocks_per_sm, workload_.mode().dependent);
}

}  // namespace foretile::bench
