// foretile_ladder_tool: what the ladder's recorded numbers are made with.
//   compile FOLDER        every variant for sm_90a, FOLDER/NNN.cubin and FOLDER/list.txt (no GPU): tools/ladder_table.py reads them
//   verify                random products by every rung against fp64 (GPU)
//   sweep                 the model's pick beside the fastest tile of rungs 3 to 8, over sizes (GPU)
//   times                 every rung, or every variant, at some sizes, as CSV (GPU)
//   launch                every variant once, for a profiler (GPU): tools/ladder_counters.py
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <random>

#include "bench/suites.h"
#include "foretile/device/catalogue.h"
#include "ladder/climb.h"
#include "ladder/measure.h"
#include "model/machine.h"

namespace {

using namespace foretile;
using namespace foretile::ladder;

struct Each {
  const Rung* rung;
  const Variant* variant;
};
std::vector<Each> every_variant() {
  std::vector<Each> list;
  for (const Rung& r : rungs())
    for (const Variant& v : r.variants) list.push_back({&r, &v});
  for (const Variant& v : accuracy_rung().variants) list.push_back({&accuracy_rung(), &v});
  return list;
}

int compile_all(const std::string& folder) {
  std::ofstream list(folder + "/list.txt");
  int number = 0;
  for (const Each& e : every_variant()) {
    const Compilation made = compile(*e.rung, *e.variant, "sm_90a");
    if (!made.status) return std::fprintf(stderr, "%s: %s\n", e.variant->expression.c_str(), made.status.message().c_str()), 1;
    const std::string file = fmt::format("{:03}.cubin", number++);
    std::ofstream(folder + "/" + file, std::ios::binary).write(made.kernel.cubin.data(), std::streamsize(made.kernel.cubin.size()));
    list << file << '\t' << e.rung->number << '\t' << e.variant->text << '\t' << made.kernel.registers << '\t' << made.kernel.spill_bytes << '\t' << made.kernel.compiler << '\n';
  }
  // The production fp32 kernel, in the layout that weights have.
  Operation o{.a = DType::fp32, .b = DType::fp32, .d = DType::fp32, .inputs = Alignment::tma, .output = Alignment::tma, .c = DType::fp32, .bias = DType::fp32, .residual = DType::fp32};
  const Compilation made = compile_kernel(o, catalogue::ffma(128, 256, 8, 16, 8), "sm_90a");
  if (!made.status) return std::fprintf(stderr, "rung 8: %s\n", made.status.message().c_str()), 1;
  const std::string file = fmt::format("{:03}.cubin", number);
  std::ofstream(folder + "/" + file, std::ios::binary).write(made.kernel.cubin.data(), std::streamsize(made.kernel.cubin.size()));
  list << file << "\t8\t\t" << made.kernel.registers << '\t' << made.kernel.spill_bytes << '\t' << made.kernel.compiler << '\n';
  return list.good() ? 0 : 1;
}

// `only`: of one rung (the side rung is 0), or of all where negative.
int verify(int count, u64 seed, i64 most, int only) {
  Bench bench;
  int failures = 0;
  double worst = 0;
  for (const Each& e : every_variant()) {
    if (bench.gpu().info().compute_capability < e.rung->first_capability || (only >= 0 && e.rung->number != only)) continue;
    std::mt19937_64 rng(seed);
    double error = 0;
    for (int i = 0; i < count; ++i) {
      const auto size = [&](i64 from) { return from + i64(rng() % u64(rng() % 4 == 0 ? most : most / 8)); };
      Problem p{.m = size(1), .n = size(1), .k = size(1)};
      if (e.rung->number == 11) p.k = round_up(p.k, 8);
      const Measured m = bench.run(*e.rung, e.variant, p, 0, 0, seed + u64(i));
      error = std::max(error, m.error);
      if (!m.wrong.empty()) ++failures, fmt::print("rung {} {} at {}x{}x{}: {}\n", e.rung->number, e.variant->text, p.m, p.n, p.k, m.wrong);
    }
    worst = std::max(worst, error);
    fmt::print("rung {} {}: {} products, at most {:.2f} of the rounding bound\n", e.rung->number, e.variant->text, count, error);
    std::fflush(stdout);
  }
  fmt::print("{} failures, at most {:.2f} of the rounding bound\n", failures, worst);
  return failures != 0;
}

int times(const std::vector<i64>& sizes, bool all, int repeats, double arm, const std::string& csv) {
  Bench bench;
  std::string text = "rung,variant,m,n,k,microseconds,spread,registers,error,library_microseconds\n";
  int failures = 0;
  for (i64 size : sizes) {
    const Problem p{.m = size, .n = size, .k = size};
    const double fp32 = bench.library_seconds(DType::fp32, p, arm), half = bench.library_seconds(DType::bf16, p, arm);
    for (const Rung& r : rungs()) {
      if (bench.gpu().info().compute_capability < r.first_capability) continue;
      std::vector<const Variant*> list;
      for (const Variant& v : r.variants)
        if (all || list.empty()) list.push_back(&v);
      if (r.production) list.push_back(nullptr);
      for (const Variant* v : list) {
        const Measured m = bench.run(r, v, p, repeats, arm);
        if (!m.wrong.empty()) ++failures, fmt::print("WRONG: {}\n", m.wrong);
        const double library = r.type == DType::fp32 ? fp32 : half;
        const std::string line = fmt::format("{},{},{},{},{},{:.3f},{:.4f},{},{:.3f},{:.3f}\n", r.number, v ? v->text : "production", p.m, p.n, p.k, m.seconds * 1e6, m.spread, m.registers, m.error, library * 1e6);
        text += line;
        fmt::print("{}", line);
        std::fflush(stdout);
      }
    }
  }
  if (!csv.empty()) {
    std::ofstream out(csv);
    out << "# " << bench.gpu().info().name << ", driver " << bench.gpu().driver().version << "\n" << text;
    if (!out.good()) return 1;
  }
  return failures != 0;
}

// The model's pick beside the fastest tile of rungs 3 to 8, over sizes. No measurement goes into the pick.
int sweep(const std::vector<i64>& sizes, int repeats, double arm, const std::string& csv) {
  Bench bench;
  const DeviceInfo& info = bench.gpu().info();
  const Machine* const machine = machine_for_device(info.name, info.compute_capability, info.sms);
  if (!machine) throw std::runtime_error(info.name + " has no machine file: there is no forecast to compare");
  std::string text = "rung,tile,m,n,k,microseconds,forecast_microseconds,pick,fastest\n";
  double worst = 1, logarithms = 0;
  int picks = 0;
  for (i64 size : sizes) {
    const Problem p{.m = size, .n = size, .k = size};
    std::vector<Climbed> table = forecast_sweep(*machine, p, {});
    for (Climbed& c : table) {
      if (!c.why_not.empty()) continue;
      const Measured m = bench.run(*c.rung, c.variant, p, repeats, arm, 1, c.configuration);
      if (!m.wrong.empty()) throw std::runtime_error(fmt::format("rung {}: {}", c.rung->number, m.wrong));
      c.measured = m.seconds;
    }
    for (const Swept& s : picks_of(table)) {
      const auto name = [](const Climbed* c) { return c->variant ? c->variant->text : c->configuration; };
      for (const Climbed* c = s.first; c != s.last; ++c)
        text += fmt::format("{},{},{},{},{},{:.3f},{:.3f},{},{}\n", c->rung->number, name(c), p.m, p.n, p.k, c->measured * 1e6, c->forecast * 1e6, int(c == s.pick), int(c == s.fastest));
      fmt::print("{:5} rung {}: {:.3f} of the fastest, {:.1f} us; pick {}, fastest {}\n", size, s.first->rung->number, s.kept(), s.fastest->measured * 1e6, name(s.pick), name(s.fastest));
      std::fflush(stdout);
      worst = std::min(worst, s.kept()), logarithms += std::log(s.kept()), ++picks;
    }
  }
  fmt::print("the model's picks reach {:.3f} of the fastest (geometric mean of {}), {:.3f} at worst\n", std::exp(logarithms / picks), picks, worst);
  if (!csv.empty()) {
    std::ofstream out(csv);
    out << "# " << info.name << ", driver " << bench.gpu().driver().version << "\n" << text;
    if (!out.good()) return 1;
  }
  return 0;
}

// The sizes of the recorded counters: multiples of every tile, so that no lane is masked.
constexpr Problem kRecorded{.m = 384, .n = 384, .k = 192};

int launch_each() {
  Bench bench;
  for (const Each& e : every_variant()) {
    if (bench.gpu().info().compute_capability < e.rung->first_capability) continue;
    const Measured m = bench.run(*e.rung, e.variant, kRecorded, 0, 0);
    fmt::print("{},{},{}\n", e.rung->number, e.variant->text, m.wrong.empty() ? "ok" : m.wrong);
  }
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app{"The ladder's recorded numbers"};
  app.require_subcommand(1);
  std::string folder, sizes = "1024,4096,8192", csv;
  int count = 300, repeats = 5, only = -1;
  u64 seed = 1;
  i64 most = 1000;
  double arm = 0.03;
  bool all = false;
  CLI::App* compile = app.add_subcommand("compile", "every variant for sm_90a");
  compile->add_option("folder", folder)->required();
  CLI::App* check = app.add_subcommand("verify", "random products against fp64");
  check->add_option("--count", count), check->add_option("--seed", seed), check->add_option("--max-size", most), check->add_option("--rung", only, "one rung alone (0: the side rung); default: all");
  CLI::App* time = app.add_subcommand("times", "times, as CSV");
  time->add_option("--sizes", sizes), time->add_flag("--all", all, "every variant, not only the one shown"), time->add_option("--repeats", repeats), time->add_option("--arm-seconds", arm), time->add_option("--csv", csv);
  CLI::App* tiles = app.add_subcommand("sweep", "the model's pick beside the fastest tile of rungs 3 to 8");
  tiles->add_option("--sizes", sizes), tiles->add_option("--repeats", repeats), tiles->add_option("--arm-seconds", arm), tiles->add_option("--csv", csv);
  CLI::App* launches = app.add_subcommand("launch", "every variant once");
  CLI11_PARSE(app, argc, argv);
  if (*launches) return launch_each();
  if (*compile) return compile_all(folder);
  if (*check) return verify(count, seed, most, only);
  if (*tiles) return sweep(bench::parse_sizes(sizes), repeats, arm, csv);
  return times(bench::parse_sizes(sizes), all, repeats, arm, csv);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
}
