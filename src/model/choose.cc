#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "foretile/device/catalogue.h"
#include "model/model.h"

namespace foretile {

namespace {

// What a call's conditions leave of the catalogue.
class Filter {
 public:
  Filter(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions) : machine_(machine), o_(o), p_(p) {
    constexpr Configuration any = catalogue::coop(128, 128, 6, 2);
    decode_alone_ = o.gating != Gating::none && why_not_on(machine, o, any, p);
    if (!conditions.batch_invariant) return;
    slices_ = slices_for(conditions);
    only_sm90_ = o.a == DType::tf32 && !why_not_on(machine, o, catalogue::tf32(any), p);
  }
  const char* why_not(const Configuration& c) const {
    if (const char* reason = why_not_on(machine_, o_, c, p_)) return reason;
    if (slices_ && (c.split_k != slices_ || c.cluster_k != 1)) return "cuts K otherwise than the batch-invariant mode does for this N and K";
    if (only_sm90_ && c.family != Family::sm90) return "adds in another order than the tensor cores, which the batch-invariant mode takes for tf32";
    const i64 rows_of_tiles = ceil_div(p_.m, i64(c.tile_m));
    if (c.family == Family::decode && rows_of_tiles > 1) {
      // The catalogue's decode tiles take up to 96 rows; two rows of tiles at most, which only more rows than that can need.
      if (p_.m <= 96) return "a decode tile with more rows reads the weights once";
      if (rows_of_tiles > 2 && !decode_alone_ && slices_ <= 1) return "more than two rows of decode tiles read the weights too often";
    }
    if (c.family == Family::rows && rows_of_tiles > 4) return "rows tiles are for few rows of A: more than four rows of them were never timed";
    return nullptr;
  }

 private:
  // Into how many slices K is cut, whatever M is: as is best for eight rows, among the cuts that every height of tile has.
  int slices_for(Conditions conditions) const {
    conditions.batch_invariant = conditions.dependent = false;
    const Problem eight{8, p_.n, p_.k, p_.batch};
    int best = 1;
    double best_seconds = 0;
    for (const Configuration& c : catalogue::kConfigurations) {
      if (c.family != Family::decode || c.split_k > 4 || c.tile_m != 8 || why_not_on(machine_, o_, c, eight)) continue;
      const double seconds = forecast(machine_, o_, c, eight, conditions).seconds;
      if (best_seconds == 0 || seconds < best_seconds) best = c.split_k, best_seconds = seconds;
    }
    return best;
  }

  const Machine& machine_;
  const Operation& o_;
  const Problem& p_;
  int slices_ = 0;  // 0: any
  bool only_sm90_ = false;
  bool decode_alone_ = false;  // gated, with operands or pairs side by side
};

}  // namespace

Choice choose(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions) {
  const Filter filter(machine, o, p, conditions);
  Choice choice;
  for (const Configuration& c : catalogue::kConfigurations) {
    if (const char* reason = filter.why_not(c)) choice.ruled_out.push_back({c, reason});
    else choice.ranked.push_back({c, forecast(machine, o, c, p, conditions)});
  }
  std::stable_sort(choice.ranked.begin(), choice.ranked.end(),
                   [](const Candidate& x, const Candidate& y) { return x.forecast.seconds < y.forecast.seconds; });
  return choice;
}

Configuration pick(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions) {
  const Filter filter(machine, o, p, conditions);
  const Configuration* best = nullptr;
  double best_seconds = 0;
  const char* reason = nullptr;
  for (const Configuration& c : catalogue::kConfigurations) {
    if (const char* r = filter.why_not(c)) {
      // The last configurations are simt: their reason is the one that counts, of gated products the decode family's.
      if (o.gating == Gating::none || c.family == Family::decode) reason = r;
      continue;
    }
    const double seconds = forecast(machine, o, c, p, conditions).seconds;
    if (!best || seconds < best_seconds) best = &c, best_seconds = seconds;
  }
  if (!best)
    throw std::invalid_argument(fmt::format("m {}, n {}, k {}, batch {}: {}{}", p.m, p.n, p.k, p.batch, o.gating == Gating::none ? "" : "gated products take the decode and sm90 families, and ", reason));
  return *best;
}

}  // namespace foretile
