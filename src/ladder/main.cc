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

#include "bench/csv.h"
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
  const Variant* variant;  // null: a production rung
  const char* name() const { return variant ? variant->text.c_str() : "production"; }
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
  std::vector<Each> list = every_variant();
  for (const Rung& r : rungs())
    if (r.production) list.push_back({&r, nullptr});
  int failures = 0;
  double worst = 0;
  for (const Each& e : list) {
    if (bench.gpu().info().compute_capability < e.rung->first_capability || (only >= 0 && e.rung->number != only)) continue;
    std::mt19937_64 rng(seed);
    double error = 0;
    for (int i = 0; i < count; ++i) {
      const auto size = [&](i64 from) { return from + i64(rng() % u64(rng() % 4 == 0 ? most : most / 8)); };
      Problem p{.m = size(1), .n = size(1), .k = size(1)};
      if (e.rung->number == 11) p.k = round_up(p.k, 8);
      const Measured m = bench.run(*e.rung, e.variant, p, 0, 0, seed + u64(i));
      error = std::max(error, m.error);
      if (!m.wrong.empty()) ++failures, fmt::print("rung {} {} at {}x{}x{}: {}\n", e.rung->number, e.name(), p.m, p.n, p.k, m.wrong);
    }
    worst = std::max(worst, error);
    fmt::print("rung {} {}: {} products, at most {:.2f} of the rounding bound\n", e.rung->number, e.name(), count, error);
    std::fflush(stdout);
  }
  fmt::print("{} failures, at most {:.2f} of the rounding bound\n", failures, worst);
  return failures != 0;
}

bench::CsvFile table_at(const std::string& path, const Bench& bench, const char* columns) {
  return {path, fmt::format("{}, driver {}", bench.gpu().info().name, bench.gpu().driver().version), columns};
}

const Machine& machine_of(const Bench& bench) {
  const DeviceInfo& info = bench.gpu().info();
  const Machine* const machine = machine_for_device(info.name, info.compute_capability, info.sms);
  if (!machine) throw std::runtime_error(info.name + " has no machine file: there is no forecast to compare");
  return *machine;
}

// "1024,4096" (M = N = K) or "1024x1024x2048,1024x1024x4096" (M x N x K).
std::vector<bench::Shape> shapes_of(const std::string& text) {
  return text.find('x') == std::string::npos ? bench::suite_shapes("squares", bench::parse_sizes(text)) : bench::suite_shapes(text, {});
}

int times(const std::vector<bench::Shape>& shapes, bool all, bool library, int repeats, double arm, const std::string& csv) {
  Bench bench;
  const Machine& machine = machine_of(bench);
  bench::CsvFile table = table_at(csv, bench, "rung,variant,m,n,k,microseconds,spread,registers,error,library_microseconds");
  int failures = 0;
  for (const bench::Shape& shape : shapes) {
    const Problem p{.m = shape.m, .n = shape.n, .k = shape.k};
    const double fp32 = library ? bench.library_seconds(DType::fp32, p, arm) : 0, half = library ? bench.library_seconds(DType::bf16, p, arm) : 0;
    for (const Rung& r : rungs()) {
      if (bench.gpu().info().compute_capability < r.first_capability) continue;
      std::vector<const Variant*> list;
      for (const Variant& v : r.variants)
        if (all || list.empty()) list.push_back(&v);
      if (r.production) list.push_back(nullptr);
      for (const Variant* v : list) {
        const std::string name = v ? v->text : forecast_rung(machine, r, v, p, {}).configuration;  // of a production rung: the model's pick
        const Measured m = bench.run(r, v, p, repeats, arm, 1, v ? "" : name);
        if (!m.wrong.empty()) ++failures, fmt::print("WRONG: {}\n", m.wrong);
        const std::string line =
            fmt::format("{},{},{},{},{},{:.3f},{:.4f},{},{:.3f},{:.3f}", r.number, name, p.m, p.n, p.k, m.seconds * 1e6, m.spread, m.registers, m.error, (r.type == DType::fp32 ? fp32 : half) * 1e6);
        table.row(line);
        fmt::print("{}\n", line);
        std::fflush(stdout);
      }
    }
  }
  return failures != 0;
}

// The model's pick beside the fastest tile of rungs 3 to 8, over sizes. No measurement goes into the pick.
int sweep(const std::vector<bench::Shape>& shapes, int repeats, double arm, const std::string& csv) {
  Bench bench;
  const Machine& machine = machine_of(bench);
  bench::CsvFile rows = table_at(csv, bench, "rung,tile,m,n,k,microseconds,forecast_microseconds");
  const auto name = [](const Climbed& c) { return c.variant ? c.variant->text : c.configuration; };
  double worst = 1, logarithms = 0;
  int picks = 0;
  for (const bench::Shape& shape : shapes) {
    const Problem p{.m = shape.m, .n = shape.n, .k = shape.k};
    std::vector<Climbed> table = forecast_sweep(machine, p, {});
    for (Climbed& c : table) {
      if (!c.why_not.empty()) continue;
      const Measured m = bench.run(*c.rung, c.variant, p, repeats, arm, 1, c.configuration);
      if (!m.wrong.empty()) throw std::runtime_error(fmt::format("rung {}: {}", c.rung->number, m.wrong));
      c.measured = m.seconds;
      rows.row(fmt::format("{},{},{},{},{},{:.3f},{:.3f}", c.rung->number, name(c), p.m, p.n, p.k, c.measured * 1e6, c.forecast * 1e6));
    }
    for (const Swept& s : picks_of(table)) {
      fmt::print("{} rung {}: {:.3f} of the fastest, {:.1f} us; pick {}, fastest {}\n", shape.name, s.first->rung->number, s.kept(), s.fastest->measured * 1e6, name(*s.pick), name(*s.fastest));
      std::fflush(stdout);
      worst = std::min(worst, s.kept()), logarithms += std::log(s.kept()), ++picks;
    }
  }
  fmt::print("the model's picks reach {:.3f} of the fastest (geometric mean of {}), {:.3f} at worst\n", std::exp(logarithms / picks), picks, worst);
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
  bool all = false, library = true;
  CLI::App* compile = app.add_subcommand("compile", "every variant for sm_90a");
  compile->add_option("folder", folder)->required();
  CLI::App* check = app.add_subcommand("verify", "random products against fp64");
  check->add_option("--count", count), check->add_option("--seed", seed), check->add_option("--max-size", most), check->add_option("--rung", only, "one rung alone (0: the side rung); default: all");
  CLI::App* time = app.add_subcommand("times", "times, as CSV");
  time->add_option("--sizes", sizes, "M = N = K, or M x N x K: 1024,4096 or 1024x1024x2048"), time->add_flag("--all", all, "every variant, not only the one shown"), time->add_flag("!--no-library", library, "without cuBLASLt"), time->add_option("--repeats", repeats), time->add_option("--arm-seconds", arm), time->add_option("--csv", csv);
  CLI::App* tiles = app.add_subcommand("sweep", "the model's pick beside the fastest tile of rungs 3 to 8");
  tiles->add_option("--sizes", sizes, "M = N = K, or M x N x K: 1024,4096 or 1024x1024x2048"), tiles->add_option("--repeats", repeats), tiles->add_option("--arm-seconds", arm), tiles->add_option("--csv", csv);
  CLI::App* launches = app.add_subcommand("launch", "every variant once");
  CLI11_PARSE(app, argc, argv);
  if (*launches) return launch_each();
  if (*compile) return compile_all(folder);
  if (*check) return verify(count, seed, most, only);
  if (*tiles) return sweep(shapes_of(sizes), repeats, arm, csv);
  return times(shapes_of(sizes), all, library, repeats, arm, csv);
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
