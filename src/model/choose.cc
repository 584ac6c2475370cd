#include <algorithm>
#include <stdexcept>

#include "foretile/device/catalogue.h"
#include "model/model.h"

namespace foretile {

Choice choose(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions) {
  Choice choice;
  for (const Configuration& c : catalogue::kConfigurations) {
    if (const char* reason = why_not_on(machine, o, c, p)) choice.ruled_out.push_back({c, reason});
    else choice.ranked.push_back({c, forecast(machine, o, c, p, conditions)});
  }
  std::stable_sort(choice.ranked.begin(), choice.ranked.end(),
                   [](const Candidate& x, const Candidate& y) { return x.forecast.seconds < y.forecast.seconds; });
  return choice;
}

Configuration pick(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions) {
  const Configuration* best = nullptr;
  double best_seconds = 0;
  const char* reason = nullptr;
  for (const Configuration& c : catalogue::kConfigurations) {
    if (const char* r = why_not_on(machine, o, c, p)) {
      reason = r;  // the last configurations are simt: their reason is the one that counts
      continue;
    }
    const double seconds = forecast(machine, o, c, p, conditions).seconds;
    if (!best || seconds < best_seconds) best = &c, best_seconds = seconds;
  }
  if (!best) throw std::invalid_argument(reason);
  return *best;
}

}  // namespace foretile
