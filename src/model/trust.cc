#include "model/trust.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "foretile/device/catalogue.h"
#include "model/text.h"

namespace foretile {

namespace {

// Of the layers that were recorded.
constexpr i64 kColumns[] = {1280, 32768}, kDepth[] = {512, 16384};

}  // namespace

Trust trust(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions) {
  Trust t;
  const char* const regime = conditions.regime == Regime::burst ? "burst" : "sustained";
  for (const HeldAgainst& h : machine.held_against)
    if ((h.regime.empty() || h.regime == regime) && h.kernels == name_of(c.family) && h.dependent == conditions.dependent && p.m >= h.first_row && p.m <= h.last_row && std::find(h.types.begin(), h.types.end(), name_of(o.a)) != h.types.end()) t.alike = &h;
  if (machine.held_against.empty()) t.beyond.push_back(fmt::format("no time of our kernels on {}", machine.full_name));
  else if (!t.alike)
    t.beyond.push_back(fmt::format("no time of {} kernels in {} at M = {}{}", name_of(c.family), name_of(o.a), p.m, conditions.dependent ? " in dependent launches" : ""));
  if (conditions.dependent && !needs_hopper(c.family)) t.beyond.push_back("the forecast is that of a plain chain: what dependent launch saves this family is not known");
  const auto differs = [&](bool it, std::string_view what) {
    if (it) t.beyond.emplace_back(what);
  };
  differs(o.has_c || o.has_bias || o.has_residual || o.activation != Activation::none, o.gating == Gating::none ? "an epilogue with operands or an activation" : "a gated epilogue");
  differs(o.transpose_a || o.transpose_b, "transposed operands");
  differs(is_half_width(o.a) && o.d != o.a, "a D of another type than A and B");
  differs(p.batch > 1, "a batch");
  if (p.n < kColumns[0] || p.n > kColumns[1]) t.beyond.push_back(fmt::format("N beyond {} to {}", kColumns[0], kColumns[1]));
  if (p.k < kDepth[0] || p.k > kDepth[1]) t.beyond.push_back(fmt::format("K beyond {} to {}", kDepth[0], kDepth[1]));
  differs(conditions.sm_budget > 0 && conditions.sm_budget < machine.sms, "a part of the SMs");
  differs(conditions.data == Data::zeros, "all-zero data");
  differs(conditions.regime == Regime::fixed_clock, "a fixed clock");
  differs(!catalogue::contains(c), "a configuration beyond the catalogue");
  return t;
}

std::string Trust::text() const {
  std::string s;
  if (alike) {
    s = fmt::format("Of {} recorded times of {} kernels{}{} at M = {} to {} on this GPU half were within {:.1f} % of their forecast, nine in ten within {:.1f} %.", alike->times, alike->kernels, alike->dependent ? " in dependent launches" : "", alike->regime.empty() ? "" : alike->regime == "burst" ? " in bursts" : " under sustained load", alike->first_row, alike->last_row,
                    100 * alike->median, 100 * alike->ninth);
    if (!beyond.empty()) s += fmt::format(" None of them had what this product has, and its error may be larger: {}.", fmt::join(beyond, "; "));
  } else {
    s = fmt::format("Its error is not known: {}.", fmt::join(beyond, "; "));
  }
  return s;
}

}  // namespace foretile
