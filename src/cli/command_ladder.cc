// foretile ladder: from the naive kernel to the production ones, each step by forecast and proof.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "bench/gpu.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "foretile/device/kernels/family.h"
#include "foretile/emulator.h"
#include "ladder/climb.h"
#include "ladder/described.h"
#include "ladder/measure.h"
#include "model/machine.h"
#include "model/registers.h"
#include "model/text.h"
#include "reference/check.h"

namespace foretile::cli {

namespace {

using ladder::Climbed;
using ladder::Rung;
using ladder::Variant;

struct Options {
  std::string m = "4096", n = "4096", k = "4096", rung, tile, plot, explain;
  bool sweep = false, no_gpu = false;
  MachineOptions machine;
  Output output;
};

constexpr int kRepeats = 5;
constexpr double kArmSeconds = 0.03;
constexpr i64 kMostSize = 32768;  // the naive kernel needs minutes beyond

std::string variant_names(const Rung& rung, const Variant* without = nullptr) {
  std::string names;
  for (const Variant& v : rung.variants)
    if (&v != without) names += (names.empty() ? "" : ", ") + v.text;
  return names;
}

const Rung& rung_of(const std::string& option, const std::string& text) {
  return *ladder::find_rung(int(whole_number(option, text, 1, i64(ladder::rungs().size()))));
}

// The variant asked for, or the one that is shown; null for production rungs.
const Variant* variant_of(const Rung& rung, const std::string& text) {
  if (rung.production) {
    if (!text.empty()) throw BadInput(fmt::format("--tile is \"{}\"; rung {} is the library's kernel: the model chooses its tile, and foretile choose lists them", text, rung.number));
    return nullptr;
  }
  if (text.empty()) return &rung.variants.front();
  if (const Variant* v = ladder::find_variant(rung, text)) return v;
  throw BadInput(fmt::format("--tile is \"{}\"; rung {} allows {}", text, rung.number, rung.variants.size() == 1 ? "no choice" : variant_names(rung)));
}

std::string where_text(const Problem& p, const Machine& machine, const Conditions& conditions) {
  return fmt::format("{} on {}, {}, one launch after the other on the same operands.", shape_text(p), machine.full_name, regime_text(conditions));
}

std::string rate_text(double flop, double seconds) {
  const double rate = flop / seconds * 1e-12;
  return fmt::format("{:.{}f}", rate, rate >= 100 ? 0 : rate >= 10 ? 1 : 2);
}
std::string factor_text(double x) { return fmt::format("{:.{}f}x", x, x >= 100 ? 0 : x >= 10 ? 1 : 2); }
std::string number_text(double x) { return x >= 100 ? fmt::format("{:.0f}", x) : fmt::format("{:.3g}", x); }

// The GPU that a plain run measures on: there is one, and it is the machine asked for (or none was asked for).
std::unique_ptr<ladder::Bench> find_gpu(const Options& options) {
  if (options.no_gpu || !bench::Gpu::why_not().empty()) return nullptr;
  auto b = std::make_unique<ladder::Bench>();
  const DeviceInfo& info = b->gpu().info();
  const Machine* const here = machine_for_device(info.name, info.compute_capability, info.sms);
  if (!here || here->name != options.machine.load().name) return nullptr;
  return b;
}

void measure(ladder::Bench& bench, Climbed& c, const Problem& p, int repeats = kRepeats) {
  const ladder::Measured m = bench.run(*c.rung, c.variant, p, repeats, kArmSeconds, 1, c.configuration);
  if (!m.wrong.empty()) throw std::runtime_error(fmt::format("rung {}: {}", c.rung->number, m.wrong));
  c.measured = m.seconds, c.spread = m.spread, c.registers = m.registers, c.error = m.error;
}

nlohmann::ordered_json json_of(const Climbed& c, const Problem& p) {
  nlohmann::ordered_json j = {{"rung", c.rung->number}, {"name", c.rung->name}, {"idea", c.rung->idea}, {"file", fmt::format("device/{}", c.rung->file)}};
  if (c.variant && !c.variant->text.empty()) j["tile"] = c.variant->text;
  if (!c.configuration.empty()) j["configuration"] = c.configuration;
  if (!c.why_not.empty()) {
    j["why_not"] = c.why_not;
    return j;
  }
  j["forecast"] = {{"seconds", c.forecast}, {"flops", flop_count(p) / c.forecast}, {"bound", name_of(c.bound)}};
  if (!c.step.counter.empty()) j["step"] = {{"counter", c.step.counter}, {"measured_as", c.step.measured_as}, {"before", c.step.before}, {"after", c.step.after}, {"exact", c.step.exact}};
  if (c.measured > 0) j["measured"] = {{"seconds", c.measured}, {"spread", c.spread}, {"part_of_rounding_bound", c.error}};
  return j;
}

// ---- the table of all rungs --------------------------------------------------------------------------------
int climb_command(const Options& options, const Problem& p) {
  const Machine machine = options.machine.load();
  const Conditions conditions = options.machine.conditions(machine.sms);
  std::vector<Climbed> climb;
  for (const Rung& r : ladder::rungs()) climb.push_back(ladder::forecast_rung(machine, r, r.production ? nullptr : &r.variants.front(), p, conditions));
  double cublas_fp32 = 0, cublas_half = 0;
  if (const auto bench = find_gpu(options)) {
    Progress progress("rung", int(climb.size()));
    cublas_fp32 = bench->library_seconds(DType::fp32, p, kArmSeconds);
    cublas_half = bench->library_seconds(DType::bf16, p, kArmSeconds);
    for (std::size_t i = 0; i < climb.size(); ++i) {
      progress.done(int(i), climb[i].rung->name);
      if (climb[i].why_not.empty()) measure(*bench, climb[i], p);
    }
    progress.finish();
  }
  if (!options.plot.empty()) write_file("--plot", options.plot, ladder::picture(machine, p, climb, cublas_fp32, cublas_half));
  if (options.output.json) {
    auto json = envelope("ladder");
    json["problem"] = {{"m", p.m}, {"n", p.n}, {"k", p.k}};
    json["machine"] = machine.name;
    if (cublas_fp32 > 0) json["cublas"] = {{"fp32_seconds", cublas_fp32}, {"bf16_seconds", cublas_half}};
    json["rungs"] = nlohmann::ordered_json::array();
    for (const Climbed& c : climb) json["rungs"].push_back(json_of(c, p));
    print_json(json);
    return kOk;
  }

  const double flop = flop_count(p);
  const bool measured = std::any_of(climb.begin(), climb.end(), [](const Climbed& c) { return c.measured > 0; });
  fmt::print("{}\n", wrapped(where_text(p, machine, conditions)));
  Table table;
  table.column("", Align::right).column("rung").column("forecast", Align::right).column("TFLOP/s", Align::right).column("bound by");
  if (measured) table.column("measured", Align::right).column("TFLOP/s", Align::right).column("error", Align::right);
  table.column("step", Align::right).column("to 1", Align::right).column("the counter that it moves", Align::left, Table::Narrow::wraps).column("the idea", Align::left, Table::Narrow::optional);
  double below = 0, first = 0;
  DType type = DType::bf16;
  for (const Climbed& c : climb) {
    if (c.rung->type != type) table.section(c.rung->type == DType::fp32 ? "fp32" : "bf16, summed in fp32");
    type = c.rung->type;
    std::vector<Table::Cell> cells = {std::to_string(c.rung->number), c.rung->name};
    if (!c.why_not.empty()) {
      cells.insert(cells.end(), {"-", "-", "-"});
      if (measured) cells.insert(cells.end(), {"-", "-", "-"});
      cells.insert(cells.end(), {"", "", c.why_not});
    } else {
      const double shown = c.measured > 0 ? c.measured : c.forecast;
      cells.insert(cells.end(), {time_text(c.forecast), rate_text(flop, c.forecast), name_of(c.bound)});
      if (measured) cells.insert(cells.end(), {time_text(c.measured), rate_text(flop, c.measured), fmt::format("{:+.0f} %", 100 * (c.forecast / c.measured - 1))});
      cells.insert(cells.end(), {below > 0 ? factor_text(below / shown) : "", first > 0 ? factor_text(first / shown) : "", c.step.counter.empty() ? "" : fmt::format("{}: {} to {}", c.step.counter, number_text(c.step.before), number_text(c.step.after)),
                                 {c.rung->idea, Style::dim}});
      below = shown;
      if (first == 0) first = shown;
    }
    table.row(std::move(cells));
  }
  fmt::print("{}\n", table.text());
  fmt::print("{}", wrapped(fmt::format("Roofs at the boost clock: {} TFLOP/s in fp32{}.{} Steps {}.", rate_text(ladder::roof(machine, DType::fp32), 1),
                                       machine.tensor_bf16 > 0 ? fmt::format(", {} in bf16", rate_text(ladder::roof(machine, DType::bf16), 1)) : "",
                                       cublas_fp32 > 0 ? fmt::format(" cuBLASLt's best candidate: {} in fp32, {} in bf16.", rate_text(flop, cublas_fp32), rate_text(flop, cublas_half)) : "",
                                       measured ? "(times as fast as the rung below; to 1: as rung 1) are of measured times" : "(times as fast as the rung below; to 1: as rung 1) are of forecasts")));
  fmt::print("{}", wrapped("foretile ladder explain N: what was wrong below rung N, and why the step mends it. Read device/ladder."));
  if (!options.plot.empty()) fmt::print("The picture is in {}.\n", options.plot);
  return kOk;
}

// ---- the tuning table ---------------------------------------------------------------------------------------
// Tile, threads, registers and shared memory of a line of the tuning table.
std::vector<Table::Cell> tile_cells(const Climbed& c) {
  if (c.variant) return {c.variant->text, std::to_string(c.variant->threads), std::to_string(c.registers ? c.registers : c.variant->registers), bytes_text(c.variant->shared_bytes)};
  std::string error;
  const Configuration configuration = configuration_from(c.configuration, error).value();
  const Operation o = ladder::operation_of(*c.rung);
  const BlockFacts block = block_facts(o, configuration);
  const Registers registers = registers_of(o, configuration);
  return {c.configuration, std::to_string(block.threads), c.registers ? std::to_string(c.registers) : fmt::format("{}{}", registers.estimated ? "~" : "", registers.count), bytes_text(block.shared_bytes)};
}

int sweep_command(const Options& options, const Problem& p, const Rung* only) {
  const Machine machine = options.machine.load();
  const Conditions conditions = options.machine.conditions(machine.sms);
  std::vector<Climbed> all = ladder::forecast_sweep(machine, p, conditions, only);
  if (all.empty()) throw BadInput(fmt::format("--rung is \"{}\"; rungs 3 to 8 have tiles to choose from", options.rung));
  if (const auto bench = find_gpu(options)) {
    Progress progress("variant", int(all.size()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      progress.done(int(i), all[i].variant ? all[i].variant->text : all[i].configuration);
      if (all[i].why_not.empty()) measure(*bench, all[i], p, 3);
    }
    progress.finish();
  }
  if (options.output.json) {
    auto json = envelope("ladder-sweep");
    json["problem"] = {{"m", p.m}, {"n", p.n}, {"k", p.k}};
    json["machine"] = machine.name;
    for (const Climbed& c : all) json["variants"].push_back(json_of(c, p));
    print_json(json);
    return kOk;
  }
  const bool measured = std::any_of(all.begin(), all.end(), [](const Climbed& c) { return c.measured > 0; });
  const double flop = flop_count(p);
  fmt::print("{}\n", wrapped(where_text(p, machine, conditions)));
  Table table;
  table.column("tile").column("threads", Align::right, Table::Narrow::wraps).column("regs", Align::right, Table::Narrow::wraps).column("shared", Align::right, Table::Narrow::wraps).column("forecast", Align::right).column("TFLOP/s", Align::right).column("bound by");
  if (measured) table.column("measured", Align::right).column("TFLOP/s", Align::right).column("error", Align::right);
  table.column("", Align::left, Table::Narrow::wraps);
  std::string picks;
  for (const ladder::Swept& rung : ladder::picks_of(all)) {
    table.section(fmt::format("rung {}: {}", rung.first->rung->number, rung.first->rung->name));
    for (const Climbed* c = rung.first; c != rung.last; ++c) {
      std::vector<Table::Cell> cells = tile_cells(*c);
      if (!c->why_not.empty()) cells.insert(cells.end(), {"-", "-", c->why_not});
      else cells.insert(cells.end(), {time_text(c->forecast), rate_text(flop, c->forecast), name_of(c->bound)});
      if (measured) {
        if (c->measured > 0) cells.insert(cells.end(), {time_text(c->measured), rate_text(flop, c->measured), fmt::format("{:+.0f} %", 100 * (c->forecast / c->measured - 1))});
        else cells.insert(cells.end(), {"-", "-", "-"});
      }
      std::string mark = c == rung.pick ? "the model's pick" : "";
      if (c == rung.fastest) mark += mark.empty() ? "fastest" : ", fastest";
      cells.emplace_back(mark, Style::bold);
      table.row(std::move(cells));
    }
    if (rung.fastest) picks += fmt::format("{}rung {} {:.0f} %", picks.empty() ? "" : ", ", rung.first->rung->number, 100 * rung.kept());
  }
  fmt::print("{}", table.text());
  if (measured) fmt::print("\nThe model's pick against the fastest: {}.\n", picks);
  return kOk;
}

// ---- the lesson -----------------------------------------------------------------------------------------------
// One block's worth of the rung in the emulator: what every access costs, and whether anything is wrong.
emulator::Report trace_of(const Rung& rung, const Variant& v) {
  const ladder::Tile t = v.tile;
  const Problem p{.m = t.tile_m, .n = t.tile_n, .k = std::max(2 * t.tile_k, 16)};
  const std::size_t size = std::size_t(size_of(rung.type));
  const auto bytes = [&](i64 elements) { return std::vector<u64>(std::size_t(elements) * size / 8 + 32, 0); };  // zeros: addresses are what counts
  std::vector<u64> a = bytes(p.m * p.k), b = bytes(p.n * p.k), d = bytes(p.m * p.n);
  const auto aligned = [](std::vector<u64>& x) { return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(x.data()) + 255) / 256 * 256); };  // as the driver does
  const ladder::Arguments x = ladder::arguments_of(rung, p, aligned(a), aligned(b), aligned(d), emulator::encode_tensor_map);
  emulator::Options o;
  o.trace = true;
  return emulator::emulate(ladder::launch_shape(rung, v, p), [&] { v.body(x); },
                           {{x.a, std::size_t(p.m * p.k) * size, false, "A"}, {x.b, std::size_t(p.n * p.k) * size, false, "B"}, {x.d, std::size_t(p.m * p.n) * size, true, "D"}}, o);
}

std::string place_of(const Site& site) {
  const std::string_view file = site.file ? site.file : "?";
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), site.line);
}

int explain_command(const Options& options, const Problem& p) {
  const Rung& rung = rung_of("explain", options.explain);
  const Variant* v = variant_of(rung, options.tile);
  const Machine machine = options.machine.load();
  const Climbed c = ladder::forecast_rung(machine, rung, v, p, options.machine.conditions(machine.sms));
  const ladder::Lesson& l = ladder::lesson(rung.number);
  if (options.output.json) {
    auto json = envelope("ladder-explain");
    json["rung"] = json_of(c, p);
    json["lesson"] = {{"wrong", l.wrong}, {"shows", l.shows}, {"mends", l.mends}, {"costs", l.costs}, {"next", l.next}};
    print_json(json);
    return kOk;
  }
  fmt::print("{}\n{}\n", styled(fmt::format("Rung {}: {}", rung.number, rung.name), Style::bold), wrapped(fmt::format("{}. Source: device/{}", rung.idea, rung.file)));
  const auto part = [](const char* heading, const std::string& text) { fmt::print("{}\n{}\n", styled(heading, Style::bold), wrapped(text)); };
  part(rung.number == 1 ? "The start" : fmt::format("What was wrong on rung {}", rung.number - 1).c_str(), l.wrong);
  part("Which counter shows it", l.shows);
  if (!c.step.counter.empty())
    fmt::print("{}\n", wrapped(fmt::format("{}: {} before, {} after ({}). Nsight Compute: {}.", c.step.counter, number_text(c.step.before), number_text(c.step.after),
                                           c.step.exact ? "exact, from the source" : "a forecast, or as compiled for sm_90a", c.step.measured_as)));
  part("Why the change mends it", l.mends);
  part("What it costs", l.costs);
  part("What to try next", l.next);
  if (!c.why_not.empty()) fmt::print("On {}: {}.\n", machine.full_name, c.why_not);
  else fmt::print("{}", wrapped(fmt::format("Forecast for {} on {}: {}, {} TFLOP/s, bound by {}{}.", shape_text(p), machine.full_name, time_text(c.forecast), rate_text(flop_count(p), c.forecast), name_of(c.bound),
                                                  v ? "" : ", with the model's pick " + c.configuration)));
  if (!v) {
    // A small product would get a kernel for few rows: the configuration is named.
    if (!c.configuration.empty()) fmt::print("\nIts trace:\n  foretile emulate --trace --m 128 --n 256 --k 128 --dtype {} \\\n    --config {}\n", name_of(rung.type), c.configuration);
    return kOk;
  }
  const emulator::Report report = trace_of(rung, *v);
  fmt::print("\n{}\n", styled(fmt::format("One block in the emulator{}", v->text.empty() ? "" : ", tile " + v->text), Style::bold));
  Table table;
  table.column("access").column("at", Align::left, Table::Narrow::wraps).column("bytes", Align::right).column("requests", Align::right).column("wavefronts", Align::right).column("conflicts", Align::right).column("sectors", Align::right).column("ideal", Align::right);
  for (const emulator::AccessSite& s : report.accesses) {
    const bool shared = s.wavefronts > 0;
    const auto shown = [](bool show, u64 value) { return show ? fmt::format("{}", value) : std::string("-"); };
    table.row({s.call, place_of(s.site), std::to_string(s.bytes), std::to_string(s.requests), shown(shared, s.wavefronts), shown(shared, shared ? s.bank_conflicts() : 0), shown(!shared, s.sectors), shown(!shared, s.ideal_sectors)});
  }
  fmt::print("{}{}\n", table.text(), report.clean() ? "No finding: no race, no missing wait, no bad address." : report.text());
  return report.clean() ? kOk : kCheckFailed;
}

// One rung alone.
int rung_command(const Options& options, const Problem& p) {
  const Rung& rung = rung_of("--rung", options.rung);
  const Variant* v = variant_of(rung, options.tile);
  const Machine machine = options.machine.load();
  Climbed c = ladder::forecast_rung(machine, rung, v, p, options.machine.conditions(machine.sms));
  if (c.why_not.empty())
    if (const auto bench = find_gpu(options)) measure(*bench, c, p);
  if (options.output.json) {
    auto json = envelope("ladder-rung");
    json["machine"] = machine.name;
    json["rung"] = json_of(c, p);
    print_json(json);
    return kOk;
  }
  if (!c.why_not.empty()) throw BadInput(fmt::format("{} cannot run on {} on {}: {}", rung.name, shape_text(p), machine.full_name, c.why_not));
  fmt::print("{}", wrapped(fmt::format("Rung {}: {} ({}), device/{}", rung.number, rung.name, rung.idea, rung.file)));
  fmt::print("{} on {}\n", shape_text(p), machine.full_name);
  fmt::print("forecast  {}, {} TFLOP/s, bound by {}\n", time_text(c.forecast), rate_text(flop_count(p), c.forecast), name_of(c.bound));
  if (c.measured > 0)
    fmt::print("{}", labelled("measured", fmt::format("{}, {} TFLOP/s (spread {:.1f} %), forecast {:+.0f} %; right, {}", time_text(c.measured), rate_text(flop_count(p), c.measured), 100 * c.spread, 100 * (c.forecast / c.measured - 1), reference::rounding_text(c.error))));
  if (!v) fmt::print("{}", wrapped(fmt::format("Configuration {}, the model's pick; foretile choose ranks the others.", c.configuration)));
  if (v && rung.variants.size() > 1) fmt::print("{}", wrapped(fmt::format("Tile {}; others: {}.", v->text, variant_names(rung, v))));
  return kOk;
}

int ladder_command(const Options& options) {
  const Problem p{.m = whole_number("--m", options.m, 1, kMostSize), .n = whole_number("--n", options.n, 1, kMostSize), .k = whole_number("--k", options.k, 1, kMostSize)};
  if (!options.plot.empty() && !options.plot.ends_with(".svg")) throw BadInput(fmt::format("--plot is \"{}\"; allowed: a file that ends in .svg", options.plot));
  if (!options.explain.empty()) return explain_command(options, p);
  if (options.sweep) return sweep_command(options, p, options.rung.empty() ? nullptr : &rung_of("--rung", options.rung));
  if (!options.rung.empty()) return rung_command(options, p);
  if (!options.tile.empty()) throw BadInput("--tile chooses among the tiles of one rung: --rung says which");
  return climb_command(options, p);
}

}  // namespace

void add_ladder(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("ladder", "from the naive kernel to the production ones, each step by forecast and proof");
  const auto add = [&](CLI::App& to) {
    to.add_option("--m", options->m, "rows of A and D (default 4096)")->type_name("M");
    to.add_option("--n", options->n, "columns of B and D (default 4096)")->type_name("N");
    to.add_option("--k", options->k, "the sum's length (default 4096)")->type_name("K");
    to.add_flag("--no-gpu", options->no_gpu, "forecasts alone, on a machine with a GPU too");
    to.add_option("--tile", options->tile, "one of a rung's tiles, such as 128x128x16:t8x8:swizzled")->type_name("TILE");
    options->machine.add_to(to);
    options->output.add_to(to);
  };
  add(*command);
  command->add_option("--rung", options->rung, "one rung alone, 1 to 12")->type_name("N");
  command->add_flag("--sweep", options->sweep, "every tile of rungs 3 to 8: forecast, on a GPU measured, the model's pick");
  command->add_option("--plot", options->plot, "write the climb as a picture (SVG)")->type_name("FILE");
  CLI::App* explain = command->add_subcommand("explain", "the lesson of one rung, with the emulator's trace as evidence");
  explain->add_option("rung", options->explain, "1 to 12")->required()->type_name("N");
  add(*explain);
  command->footer(R"(Examples:
  foretile ladder
  foretile ladder --m 1024 --n 1024 --k 1024 --machine a100
  foretile ladder --rung 7 --tile 128x128x16:t8x8:swizzled
  foretile ladder --sweep
  foretile ladder explain 7

--sweep: ~ before a register count: estimated, not read from compiled code.)");
  command->callback([options, &action] { action = [options] { return ladder_command(*options); }; });
}

}  // namespace foretile::cli
