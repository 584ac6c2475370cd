// The interface: a machine, watched as the options say.
#include <optional>

#include "emulator/machine.h"
#include "emulator/record/picture.h"
#include "emulator/record/trace.h"

namespace foretile::emulator {

Report emulate(const std::vector<Launch>& chain, const Options& options) {
  Machine machine(chain, options);
  std::optional<Trace> trace;
  std::optional<Picture> picture;
  if (options.trace) machine.watch(trace.emplace(chain, options.l2_bytes));
  if (options.timeline) machine.watch(picture.emplace(*options.timeline, machine));
  Report report = machine.run();
  if (trace) trace->finish(report);
  return report;
}

Report emulate(const LaunchShape& shape, const std::function<void()>& body, const std::vector<Region>& regions, const Options& options) {
  return emulate({{shape, body, regions}}, options);
}

}  // namespace foretile::emulator
