// Fits a machine file's constants to recorded times, from scratch and always to the same result.
//
//   foretile_fit sm90              [sm90] and what goes with it, to our kernels' times in bench/results
//   foretile_fit decode            [decode], decode_dependent: [decode_dependent] and sm90.dependent_saves; the times there
//   foretile_fit simt              [simt], but what the ffma and gemv families share, to the portable kernel's times there
//   foretile_fit library           [library], to public times of the vendor's library in the folder FORETILE_DATA
//   ... --check                    exit 1 where machines/h200.toml says something else
//   foretile_fit catalogue         fits nothing: the machine file's errors by regime on the recorded times of the whole catalogue, and
//                                  what its choices cost, over all shapes and over those that no constant was fitted to
//
// A coordinate descent: each constant in turn goes up and down by a share of itself, and what lowers the cost stays; the share
// shrinks when a sweep gains next to nothing; after each sweep all go once more the way they went (Hooke and Jeeves). It starts from round numbers, walks on values of three digits, and looks at shapes with an even
// hash only (data.h); the errors it prints are of the others. The cost is the mean of e / (1 + e / 0.2), e = |log(forecast / measured)|,
// over groups of times alike: a few rows and many, bursts and sustained load.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "data.h"
#include "foretile/device/catalogue.h"
#include "model/library.h"
#include "model/model.h"
#include "recorded_catalogue.h"

namespace foretile::fit {
namespace {

struct Constant {
  const char* key;
  double& (*member)(Machine&);
  double start, low, high;
};
#define FORETILE_MEMBER(name) [](Machine& m) -> double& { return m.name; }

const std::vector<Constant> kSm90 = {
    {"dram.efficiency", FORETILE_MEMBER(dram_efficiency), 0.9, 0.5, 1},
    {"latency.load", FORETILE_MEMBER(latency_load), 2, 1, 10},
    {"power.flop", FORETILE_MEMBER(flop_energy), 8e-13, 1e-13, 1e-11},
    {"power.clock", FORETILE_MEMBER(clock_energy), 3e-10, 1e-11, 1e-8},
    {"power.burst", FORETILE_MEMBER(burst_power), 1.2, 1, 4},
    {"sm90.step_clocks", FORETILE_MEMBER(sm90.step_clocks), 150, 1, 2000},
    {"sm90.slab_clocks", FORETILE_MEMBER(sm90.slab_clocks), 100, 1, 2000},
    {"sm90.cluster_step_clocks", FORETILE_MEMBER(sm90.cluster_step_clocks), 50, 1, 2000},
    {"sm90.cluster_tile_clocks", FORETILE_MEMBER(sm90.cluster_tile_clocks), 500, 1, 10000},
    {"sm90.tile_clocks", FORETILE_MEMBER(sm90.tile_clocks), 500, 1, 10000},
    {"sm90.l2_efficiency", FORETILE_MEMBER(sm90.l2_efficiency), 0.65, 0.1, 1},
    {"sm90.chunk_clocks", FORETILE_MEMBER(sm90.chunk_clocks), 300, 1, 5000},
    {"sm90.store_bytes_per_clock", FORETILE_MEMBER(sm90.store_bytes_per_clock), 32, 4, 256},
    {"sm90.fill_clocks", FORETILE_MEMBER(sm90.fill_clocks), 1500, 1, 20000},
    {"sm90.mma_efficiency", FORETILE_MEMBER(sm90.mma_efficiency), 0.9, 0.5, 1},
};
const std::vector<Constant> kSimt = {
    {"simt.issue_efficiency", FORETILE_MEMBER(simt.issue_efficiency), 0.6, 0.3, 1},
};
const std::vector<Constant> kLibrary = {
    {"library.launch", FORETILE_MEMBER(library.launch_seconds), 2e-6, 1e-8, 1e-4},
    {"library.fill_clocks", FORETILE_MEMBER(library.fill_clocks), 800, 1, 20000},
    {"library.efficiency", FORETILE_MEMBER(library.efficiency), 0.9, 0.3, 1},
    {"library.dram_efficiency", FORETILE_MEMBER(library.dram_efficiency), 0.85, 0.3, 1},
    {"library.dram_ramp", FORETILE_MEMBER(library.dram_ramp_seconds), 5e-7, 1e-9, 1e-5},
    {"library.step_clocks", FORETILE_MEMBER(library.step_clocks), 150, 1, 2000},
    {"library.tile_clocks", FORETILE_MEMBER(library.tile_clocks), 100, 1, 10000},
    {"library.epilogue_clocks", FORETILE_MEMBER(library.epilogue_clocks), 1000, 1, 20000},
    {"library.store_bytes_per_clock", FORETILE_MEMBER(library.store_bytes_per_clock), 32, 4, 256},
    {"library.epilogue_shown", FORETILE_MEMBER(library.epilogue_shown), 0.8, 0.01, 1},
    {"library.split", FORETILE_MEMBER(library.split_seconds), 2e-6, 1e-8, 1e-4},
    {"library.split_traffic", FORETILE_MEMBER(library.split_traffic), 1, 0.1, 10},
    {"library.coalescing", FORETILE_MEMBER(library.coalescing), 2, 0.5, 4},
    {"library.l2_share", FORETILE_MEMBER(library.l2_share), 0.9, 0.1, 1.5},
    {"library.warm_inputs", FORETILE_MEMBER(library.warm_inputs), 0.3, 0.01, 1},
    {"library.flop", FORETILE_MEMBER(library.flop_energy), 8e-13, 1e-13, 1e-11},
    {"library.burst_power", FORETILE_MEMBER(library.burst_power), 0.3, 0.01, 2},
    {"library.burst", FORETILE_MEMBER(library.burst_seconds), 3e-3, 1e-5, 1},
};
// Of two clusters that read the same weights every second finds them at L2's other partition: `missed_again` is 1, or little less, though
// other constants could take its part in most of the recorded times.
#define FORETILE_DECODE(section)                                                                           \
  {#section ".dram_efficiency", FORETILE_MEMBER(section.dram_efficiency), 0.9, 0.5, 0.96},                 \
  {#section ".l2_efficiency", FORETILE_MEMBER(section.l2_efficiency), 0.8, 0.1, 1},                        \
  {#section ".memory_power", FORETILE_MEMBER(section.memory_power), 8, 1, 16},                             \
  {#section ".power", FORETILE_MEMBER(section.power), 4, 1, 16},                                           \
  {#section ".launch", FORETILE_MEMBER(section.launch_seconds), 2e-6, 1e-8, 1e-4},                         \
  {#section ".latency_clocks", FORETILE_MEMBER(section.latency_clocks), 1500, 100, 20000},                 \
  {#section ".step_clocks", FORETILE_MEMBER(section.step_clocks), 400, 1, 2000},                           \
  {#section ".empty_line_bytes", FORETILE_MEMBER(section.empty_line_bytes), 400, 1, 10000},                \
  {#section ".empty_line_power", FORETILE_MEMBER(section.empty_line_power), 0.2, 0.01, 1},                 \
  {#section ".missed_again", FORETILE_MEMBER(section.missed_again), 1, 0.9, 2},                            \
  {#section ".round_clocks", FORETILE_MEMBER(section.round_clocks), 30, 1, 5000},                          \
  {#section ".tile_clocks", FORETILE_MEMBER(section.tile_clocks), 500, 1, 5000},                           \
  {#section ".exchange_clocks", FORETILE_MEMBER(section.exchange_clocks), 1000, 1, 10000},                 \
  {#section ".exchange_clocks_per_kib", FORETILE_MEMBER(section.exchange_clocks_per_kib), 100, 1, 5000},   \
  {#section ".wave", FORETILE_MEMBER(section.wave_seconds), 1.5e-6, 1e-8, 1e-4},                           \
  {#section ".uneven_waves", FORETILE_MEMBER(section.uneven_waves_seconds), 3e-6, 1e-8, 1e-4},             \
  {#section ".uneven_wave", FORETILE_MEMBER(section.uneven_wave_seconds), 7e-7, 1e-8, 1e-4}
const std::vector<Constant> kDecode = {FORETILE_DECODE(decode), {"decode.run_ahead", FORETILE_MEMBER(decode.run_ahead), 0.1, 0.001, 2}}, kDecodeDependent = {
    FORETILE_DECODE(decode_dependent),
    {"decode_dependent.crowding", FORETILE_MEMBER(decode_dependent.crowding), 0.5, 0.01, 2},
    {"decode_dependent.early_launch", FORETILE_MEMBER(decode_dependent.early_launch), 0.5, 0.01, 1},
    {"decode_dependent.paired", FORETILE_MEMBER(decode_dependent.paired), 1.2, 1, 2},
    {"sm90.dependent_saves", FORETILE_MEMBER(sm90.dependent_saves), 1e-6, 1e-8, 1e-5},
};
#undef FORETILE_MEMBER

// Three significant digits: what the machine file says, and what the search walks on.
double three_digits(double x) {
  if (x == 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(x))) - 2);
  return std::stod(fmt::format("{:.3g}", std::round(x / unit) * unit));
}

using Forecaster = std::function<double(const Machine&, const Time&)>;

struct Set {
  std::vector<std::vector<Time>> groups;  // alike in kind
  std::vector<double> weights;            // of the groups in the cost
  Forecaster forecast;
};

std::vector<double> errors(const Machine& machine, const std::vector<Time>& times, const Forecaster& forecast) {
  std::vector<double> all(times.size());
  const size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 8);
  std::vector<std::thread> running;
  for (size_t t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      for (size_t i = t; i < times.size(); i += threads) all[i] = std::abs(std::log(forecast(machine, times[i]) / times[i].seconds));
    });
  for (std::thread& thread : running) thread.join();
  return all;
}

// Errors count less the further they go beyond this: a few shapes that the model cannot follow shall not bend the rest.
constexpr double kFar = 0.2;

double cost(const Machine& machine, const Set& set) {
  double sum = 0, weights = 0;
  for (size_t i = 0; i < set.groups.size(); ++i) {
    double of_group = 0;
    for (const double e : errors(machine, set.groups[i], set.forecast)) of_group += e / (1 + e / kFar);
    sum += set.weights[i] * of_group / double(set.groups[i].size()), weights += set.weights[i];
  }
  return sum / weights;
}

void descend(Machine& machine, const std::vector<Constant>& constants, const Set& set, double enough) {
  for (const Constant& c : constants) c.member(machine) = c.start;
  // Long steps find their way on every fourth time of a large set.
  Set thin{.weights = set.weights, .forecast = set.forecast};
  for (const auto& group : set.groups) {
    thin.groups.emplace_back();
    for (size_t i = 0; i < group.size(); i += group.size() > 5000 ? 4 : 1) thin.groups.back().push_back(group[i]);
  }
  for (const double share : {0.3, 0.1, 0.03, 0.01, 0.004}) {
    const Set& on = share > 0.2 ? thin : set;
    double best = cost(machine, on);
    for (int sweep = 0; sweep < 30; ++sweep) {
      const double before = best;
      const Machine last = machine;
      for (const Constant& c : constants) {
        for (const double factor : {1 + share, 1 / (1 + share)}) {
          const double was = c.member(machine), now = three_digits(std::clamp(was * factor, c.low, c.high));
          if (now == was) continue;
          c.member(machine) = now;
          const double then = cost(machine, on);
          if (then < best) {
            best = then;
            break;
          }
          c.member(machine) = was;
        }
      }
      fmt::print(stderr, "\rsteps of {:.1f} %, sweep {}: cost {:.3f} %   ", 100 * share, sweep + 1, 100 * best);
      if (before - best < enough) break;
      // The same way again, all constants at once.
      const Machine here = machine;
      for (const Constant& c : constants) {
        const double from = c.member(const_cast<Machine&>(last)), to = c.member(machine);
        c.member(machine) = three_digits(std::clamp(to * to / from, c.low, c.high));
      }
      if (const double then = cost(machine, on); then < best) best = then;
      else machine = here;
    }
  }
  fmt::print(stderr, "\n");
}

void report(const Machine& machine, const std::string& name, const std::vector<Time>& times, const Forecaster& forecast) {
  std::vector<double> all;
  for (const Time& t : times) all.push_back(std::abs(forecast(machine, t) / t.seconds - 1));
  if (all.empty()) return;
  std::sort(all.begin(), all.end());
  double sum = 0;
  for (const double e : all) sum += e;
  fmt::print("# {}: {} held-out times, median error {:.1f} %, mean {:.1f} %, nine in ten within {:.1f} %\n", name, all.size(), 100 * all[all.size() / 2], 100 * sum / double(all.size()), 100 * all[all.size() * 9 / 10]);
}

struct Kind {
  const char* name;
  std::function<bool(const Time&)> is;
  double weight = 1;
};

int fit(const std::vector<Constant>& constants, const std::vector<Time>& times, const Forecaster& forecast, const std::vector<Kind>& kinds, bool check) {
  Machine machine = load_machine("h200");
  const Machine stated = machine;
  Set set{.forecast = forecast};
  for (const auto& [name, is, weight] : kinds) {
    std::vector<Time> group;
    for (const Time& t : times)
      if (is(t) && !held_out(t.problem)) group.push_back(t);
    if (group.empty()) continue;  // not recorded yet
    set.groups.push_back(std::move(group));
    set.weights.push_back(weight);
  }
  if (set.groups.empty()) throw std::runtime_error("no times to fit to");
  descend(machine, constants, set, times.size() > 10000 ? 2e-6 : 1e-8);
  bool equal = true;
  for (const Constant& c : constants) {
    const double found = c.member(machine), says = c.member(const_cast<Machine&>(stated));
    equal = equal && found == says;
    fmt::print("{} = {:.6g}{}\n", c.key, found, found == says ? "" : fmt::format("   # machines/h200.toml says {:.6g}", says));
  }
  for (const auto& [name, is, weight] : kinds) {
    std::vector<Time> apart;
    for (const Time& t : times)
      if (is(t) && held_out(t.problem)) apart.push_back(t);
    report(machine, name, apart, forecast);
    if (!equal) report(stated, fmt::format("{}, as the file says", name), apart, forecast);
  }
  return check && !equal ? 1 : 0;
}

std::string shape_text(const Problem& p) { return fmt::format("M={} N={} K={}", p.m, p.n, p.k); }

int report_catalogue() {
  const Machine machine = load_machine("h200");
  const std::vector<RecordedTime> times = recorded_catalogue(FORETILE_SOURCE_DIR "/bench/results", machine);
  if (times.empty()) throw std::runtime_error("bench/results has no catalogue_*_h200.csv: bench/gpu.sh configurations makes them");
  std::vector<std::string> kinds;
  for (const RecordedTime& t : times)
    if (std::find(kinds.begin(), kinds.end(), t.kind) == kinds.end()) kinds.push_back(t.kind);
  for (const std::string& kind : kinds) {
    for (const RowRange& rows : kRowRanges)
      for (const bool apart : {false, true}) {
        std::vector<Compared> burst, sustained, decisive;
        for (const RecordedTime& t : times) {
          if (t.kind != kind || !rows.holds(t.problem) || (apart && !held_out(t.problem))) continue;
          burst.push_back(compared(machine, t, Regime::burst));
          if (t.sustained > 0) sustained.push_back(compared(machine, t, Regime::sustained));
          decisive.push_back(t.sustained > 0 ? sustained.back() : burst.back());
        }
        if (burst.empty()) continue;
        fmt::print("{}, {}{}:", kind, rows.name, apart ? ", shapes kept apart" : "");
        for (const auto& [name, list] : {std::pair{"burst", &burst}, std::pair{"sustained", &sustained}})
          if (const Accuracy a = accuracy(*list); a.times) fmt::print(" {} {} times, median {:.1f} %, mean {:.1f} %, nine in ten {:.1f} %;", name, a.times, 100 * a.median, 100 * a.mean, 100 * a.ninth);
        const Accuracy a = accuracy(decisive);
        fmt::print(" the choice over {} shapes {:.3f}, worst {:.3f} at {}\n", a.shapes, a.choice, a.worst, shape_text(a.worst_shape));
      }
    // The choices that cost most.
    struct Pick {
      Compared chosen, fastest;
      const RecordedTime *what = nullptr, *better = nullptr;
      double share() const { return fastest.measured / chosen.measured; }
    };
    std::vector<Pick> picks;
    for (const RecordedTime& t : times) {
      if (t.kind != kind) continue;
      const Compared c = compared(machine, t);
      auto pick = std::find_if(picks.begin(), picks.end(), [&](const Pick& p) { return p.better->problem == t.problem; });
      if (pick == picks.end()) pick = picks.insert(picks.end(), Pick{.chosen = c, .fastest = c, .what = &t, .better = &t});
      if (c.measured < pick->fastest.measured) pick->fastest = c, pick->better = &t;
      if (c.offered && (!pick->chosen.offered || c.forecast < pick->chosen.forecast)) pick->chosen = c, pick->what = &t;
    }
    std::sort(picks.begin(), picks.end(), [](const Pick& x, const Pick& y) { return x.share() < y.share(); });
    for (size_t i = 0; i < std::min<size_t>(picks.size(), 8) && picks[i].share() < 0.99; ++i)
      fmt::print("  {:.3f} {}: {} {:.1f} us (forecast {:.1f}), fastest {} {:.1f} us (forecast {:.1f}{})\n", picks[i].share(), shape_text(picks[i].what->problem), text_of(picks[i].what->configuration), picks[i].chosen.measured * 1e6,
                 picks[i].chosen.forecast * 1e6, text_of(picks[i].better->configuration), picks[i].fastest.measured * 1e6, picks[i].fastest.forecast * 1e6, picks[i].fastest.offered ? "" : ", not offered");
  }
  return 0;
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "catalogue" && argc == 2) return report_catalogue();
  const bool check = argc > 2 && std::string(argv[2]) == "--check";
  if ((what != "sm90" && what != "decode" && what != "decode_dependent" && what != "simt" && what != "library") || argc > 3 || (argc == 3 && !check)) {
    fmt::print(stderr, "usage: foretile_fit sm90|decode|decode_dependent|simt|library [--check], or foretile_fit catalogue\n");
    return 2;
  }
  const std::string results = FORETILE_SOURCE_DIR "/bench/results";
  const auto ours = [](const Machine& m, const Time& t) { return forecast(m, t.operation, t.configuration, t.problem, {.regime = t.regime, .dependent = t.dependent}).seconds; };
  const auto with = [](std::vector<Time> times, const std::vector<Time>& more) {
    times.insert(times.end(), more.begin(), more.end());
    return times;
  };
  const auto in_turn = [](int range) { return [=](const Time& t) { return t.in_turn && !t.clock && t.regime == Regime::burst && kRowRanges[range].holds(t.problem); }; };
  if (what == "sm90") {
    // Clocks tell energies apart that times alone would trade: a clock's length stands in the place of a time.
    const std::vector<Time> bursts = times_in_turn(results, {Family::sm90});
    std::vector<Time> clocks = bursts;
    for (Time& t : clocks) t.seconds = 1e-6 / t.mhz, t.clock = true;
    const auto time_or_clock = [&](const Machine& m, const Time& t) {
      const Forecast f = forecast(m, t.operation, t.configuration, t.problem, {.regime = t.regime, .dependent = t.dependent});
      return t.clock ? 1e-6 / f.clock_mhz : f.seconds;
    };
    return fit(kSm90, with(with(our_times(results), bursts), clocks), time_or_clock,
               {{"sustained, M <= 96", [](const Time& t) { return !t.in_turn && kRowRanges[0].holds(t.problem); }, 0.1},  // of kernels that are no longer in the catalogue
                {"sustained, M > 96", [](const Time& t) { return !t.in_turn && !kRowRanges[0].holds(t.problem); }},
                {"bursts, M <= 96", in_turn(0)},
                {"bursts, M = 97 to 2047", in_turn(1)},
                {"bursts, M >= 2048", in_turn(2)},
                {"the clocks of bursts", [](const Time& t) { return t.clock; }}}, check);
  }
  if (what == "simt")
    return fit(kSimt, times_in_turn(results, {Family::simt}), ours,
               {{"16-bit", [](const Time& t) { return size_of(t.operation.a) == 2; }}, {"fp32", [](const Time& t) { return size_of(t.operation.a) == 4; }}}, check);
  if (what != "library") {
    const bool dependent = what == "decode_dependent";
    const auto decode = [](int range, auto&& is) { return [=](const Time& t) { return t.configuration.family == Family::decode && kRowRanges[range].holds(t.problem) && is(t); }; };
    const auto any = [](const Time&) { return true; };
    return fit(dependent ? kDecodeDependent : kDecode, dependent ? times_in_turn(results, {Family::decode, Family::sm90}, true) : times_in_turn(results, {Family::decode}), ours,
               {{"M <= 96, full tiles", decode(0, [](const Time& t) { return t.problem.m % t.configuration.tile_m == 0; })},
                {"M <= 96, tiles with rows to spare", decode(0, [](const Time& t) { return t.problem.m % t.configuration.tile_m != 0; })},
                {"M = 97 to 2047", decode(1, any)},
                {"M >= 2048", decode(2, any), 0.5},
                {"the sm90 kernels", [](const Time& t) { return t.configuration.family == Family::sm90; }, 0.5}}, check);
  }
  const char* folder = std::getenv("FORETILE_DATA");
  if (!folder || !*folder) throw std::runtime_error("FORETILE_DATA names no folder with library times");
  return fit(kLibrary, library_times(folder), [](const Machine& m, const Time& t) { return library_forecast(m, DType::bf16, t.problem, {.regime = t.regime}).seconds; },
             // Bursts twice: their collection repeats to 1 %, the other to 4 %.
             {{"TensorRT-LLM in bursts", [](const Time& t) { return t.regime == Regime::burst; }, 2}, {"vLLM sustained", [](const Time& t) { return t.regime == Regime::sustained; }}}, check);
}

}  // namespace
}  // namespace foretile::fit

int main(int argc, char** argv) {
  try {
    return foretile::fit::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "foretile_fit: %s\n", e.what());
    return 2;
  }
}
