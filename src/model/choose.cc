#include <algorithm>
#include <stdexcept>

#include "foretile/device/catalogue.h"
#include "model/model.h"

namespace foretile {

namespace {

const char* why_not_chosen(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p) {
  if (const char* reason = why_not_on(machine, o, c, p)) return reason;
  // The catalogue's decode tiles take up to 96 rows; two rows of tiles at most, which only more rows than that can need.
  const i64 rows_of_tiles = ceil_div(p.m, i64(c.tile_m));
  if (c.family == Family::decode && rows_of_tiles > 1) {
    if (p.m <= 96) return "a decode tile with more rows reads the weights once";
    if (rows_of_tiles > 2 && o.gating == Gating::none) return "more than two rows of decode tiles read the weights too often";
  }
  return nullptr;
}

}  // namespace

Choice choose(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions) {
  Choice choice;
  for (const Configuration& c : catalogue::kConfigurations) {
    if (const char* reason = why_not_chosen(machine, o, c, p)) choice.ruled_out.push_back({c, reason});
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
    if (const char* r = why_not_chosen(machine, o, c, p)) {
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
