#include "model/remedy.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "foretile/device/catalogue.h"
#include "foretile/device/kernels/gemm_sm90_facts.h"
#include "foretile/device/legality.h"
#include "model/page.h"
#include "model/text.h"

namespace foretile {

namespace {

// What differs most between two forecasts of one product, in words.
std::string difference(const Anatomy& now, const Anatomy& then) {
  const std::string before = waves(now.forecast.waves), after = waves(then.forecast.waves);
  std::string words;
  const auto say = [&](std::string text) { words += (words.empty() ? "" : ", ") + text; };
  if (before != after) say(fmt::format("{} instead of {}", after, number(now.forecast.waves)));
  if (std::abs(then.forecast.dram_bytes / std::max(1.0, now.forecast.dram_bytes) - 1) > 0.03) say(fmt::format("{} of DRAM instead of {}", megabytes(then.forecast.dram_bytes), number(now.forecast.dram_bytes / 1e6)));
  if (std::abs(then.flops_executed / std::max(1.0, now.flops_executed) - 1) > 0.03) say(fmt::format("{} GFLOP with padding instead of {}", number(then.flops_executed / 1e9), number(now.flops_executed / 1e9)));
  if (std::abs(then.forecast.clock_mhz - now.forecast.clock_mhz) > 20) say(fmt::format("{:.0f} MHz instead of {:.0f}", then.forecast.clock_mhz, now.forecast.clock_mhz));
  if (words.empty() && then.forecast.epilogue < 0.8 * now.forecast.epilogue) say(fmt::format("epilogues show {} instead of {}", microseconds(then.forecast.epilogue), number(now.forecast.epilogue * 1e6)));
  if (then.forecast.bound != now.forecast.bound) say(fmt::format("bound by {}", name_of(then.forecast.bound)));
  return words.empty() ? fmt::format("bound by {} like this one", name_of(then.forecast.bound)) : words;
}

// The best legal configuration of the sm90 family, in the catalogue or not: tiles in the steps that wgmma takes.
std::optional<Configuration> best_outside(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions, double than) {
  std::optional<Configuration> best;
  if (o.gating != Gating::none) return best;
  const bool plain = sm90::stores_by_tma(o);
  for (const Schedule schedule : {Schedule::cooperative, Schedule::pingpong})
    for (const int tile_m : {64, 128, 192, 256})
      for (int tile_n = 16; tile_n <= 256; tile_n += 16)
        for (const int tile_k : {64, 128})
          for (const int buffers : plain ? std::vector<int>{1, 2, 3, 4} : std::vector<int>{1, 2}) {
            Configuration c;
            c.family = Family::sm90, c.tile_m = tile_m, c.tile_n = tile_n, c.tile_k = tile_k, c.schedule = schedule, c.store_buffers = buffers;
            for (c.stages = 12; c.stages > 2 && why_not_on(machine, o, c, p); --c.stages) {
            }
            if (c.stages <= 2 || why_not_on(machine, o, c, p)) continue;
            const double seconds = forecast(machine, o, c, p, conditions).seconds;
            if (seconds < than) than = seconds, best = c;
          }
  return best;
}

}  // namespace

std::vector<Remedy> remedies(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions, const Anatomy& x) {
  std::vector<Remedy> list;
  const double now = x.forecast.seconds;
  if (!(now > 0)) return list;
  const auto offer = [&](std::string what, double seconds, std::string because) {
    if (now / seconds - 1 >= 0.005) list.push_back({std::move(what), seconds, std::move(because)});
  };

  const Choice choice = choose(machine, o, p, conditions);
  for (size_t i = 0; i < choice.ranked.size() && i < 3; ++i) {
    const Configuration& other = choice.ranked[i].configuration;
    if (!(other == c)) offer(text_of(other), choice.ranked[i].forecast.seconds, difference(x, anatomy(machine, o, other, p, conditions)));
  }
  const double best = choice.ranked.empty() ? now : std::min(now, choice.ranked.front().forecast.seconds);
  if (machine.compute_capability == 90)
    if (const auto outside = best_outside(machine, o, p, conditions, best * 0.99))
      offer(fmt::format("{}, not in the catalogue", text_of(*outside)), forecast(machine, o, *outside, p, conditions).seconds, difference(x, anatomy(machine, o, *outside, p, conditions)));

  // What the caller can change: alignment, sizes, calls.
  if (o.inputs == Alignment::any || o.output == Alignment::any) {
    Operation aligned = o;
    aligned.inputs = aligned.output = Alignment::tma;
    const Choice faster = choose(machine, aligned, p, conditions);
    if (!faster.ranked.empty() && needs_hopper(faster.ranked.front().configuration.family))
      offer("base addresses and rows on multiples of 16 bytes", faster.ranked.front().forecast.seconds, text_of(faster.ranked.front().configuration) + " can address it then");
  }
  // One tile row or column less, where the last round is short of work.
  if (x.rounds > 1 && x.full_share < 1) {
    const i64 rows = (x.grid.tiles_m - 1) * i64(c.tile_m) * c.cluster_m;
    Problem fewer = p;
    fewer.m = rows;
    if (rows > 0 && !why_not_on(machine, o, c, fewer)) {
      const Anatomy y = anatomy(machine, o, c, fewer, conditions);
      if (y.rounds < x.rounds) offer(fmt::format("M = {} instead of {}", rows, p.m), y.forecast.seconds * double(p.m) / double(rows), fmt::format("{} instead of {}; time for as many rows", waves(y.forecast.waves), number(x.forecast.waves)));
    }
  }
  if (x.busy_sms < x.sms || x.forecast.launch > 0.05 * now) {
    Problem several = p;
    several.batch = p.batch * 8;
    if (!why_not_on(machine, o, c, several)) offer("8 such products in one call", forecast(machine, o, c, several, conditions).seconds / 8, "one launch, and more blocks than one product has; time of each");
  }
  if (conditions.regime == Regime::sustained && x.watts > 0.999 * machine.power_limit) {
    Conditions burst = conditions;
    burst.regime = Regime::burst;
    const Forecast f = forecast(machine, o, c, p, burst);
    offer("short bursts, before the power limit bears", f.seconds, fmt::format("{:.0f} MHz instead of {:.0f}", f.clock_mhz, x.forecast.clock_mhz));
  }
  if (!is_plain(o)) {
    Operation plain = o;
    plain.has_c = plain.has_bias = plain.has_residual = false, plain.activation = Activation::none;
    if (!why_not_on(machine, plain, c, p)) offer("the same without its epilogue's operands and activation", forecast(machine, plain, c, p, conditions).seconds, "what the fused epilogue costs; a pass of its own costs more");
  }
  std::stable_sort(list.begin(), list.end(), [](const Remedy& a, const Remedy& b) { return a.seconds < b.seconds; });
  return list;
}

}  // namespace foretile
