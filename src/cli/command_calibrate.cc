// foretile calibrate: a machine file for the GPU at hand, and how well the model forecasts it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "bench/calibrate.h"
#include "bench/gpu.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"

namespace foretile::cli {

namespace {

struct Options {
  std::string out = "calibrated.toml";
  bool no_power = false, no_set = false;
  Output output;
};

int calibrate_command(const Options& options) {
  if (!options.out.ends_with(".toml")) throw BadInput(fmt::format("--out is \"{}\"; allowed: a file that ends in .toml", options.out));
  if (const std::string reason = bench::Gpu::why_not(); !reason.empty())
    throw NotPossible(fmt::format("no usable GPU: {}. foretile machines lists the GPUs that need no calibration", reason));
  Progress progress("calibrating", 0);
  bench::CalibrateOptions how;
  how.power = !options.no_power;
  how.progress = [&](const std::string& what) { progress.say(what); };
  const bench::Calibration c = bench::measure(how);
  const Machine* base = machine_for_device(c.gpu, c.compute_capability, c.sms);
  if (!base) throw NotPossible(fmt::format("{} has compute capability {}.{}; 7.0 or more is needed", c.gpu, c.compute_capability / 10, c.compute_capability % 10));
  std::vector<std::string> left_out;
  const std::string text = bench::machine_file(*base, c, left_out);
  write_file("--out", options.out, text);
  const Machine machine = load_machine(options.out);

  bench::SetReport before, after;
  if (!options.no_set) {
    const auto rows = bench::measure_set(how);
    before = bench::set_report(*base, rows), after = bench::set_report(machine, rows);
  }
  progress.finish();

  if (options.output.json) {
    auto json = envelope("calibrate");
    json["gpu"] = c.gpu, json["driver"] = c.driver, json["date"] = c.date, json["file"] = options.out, json["based_on"] = base->name;
    for (const auto& [name, list] : {std::pair{"facts", &c.facts}, std::pair{"notes", &c.notes}}) {
      json[name] = nlohmann::ordered_json::array();
      for (const bench::Measured& m : *list) json[name].push_back({{"key", m.key}, {"value", m.value}, {"how", m.how}});
    }
    json["left_out"] = left_out;
    if (!options.no_set) {
      for (const auto& [name, report] : {std::pair{"before", &before}, std::pair{"after", &after}})
        json["set"][name] = {{"times", report->count}, {"median_error", report->median}, {"nine_in_ten", report->ninth}, {"choice", report->choice}};
      json["set"]["rows"] = nlohmann::ordered_json::array();
      for (const bench::SetRow& r : after.rows)
        json["set"]["rows"].push_back({{"shape", r.shape}, {"configuration", r.configuration}, {"burst_seconds", r.burst}, {"sustained_seconds", r.sustained}, {"forecast_burst_seconds", r.forecast_burst}, {"forecast_sustained_seconds", r.forecast_sustained}});
    }
    print_json(json);
    return kOk;
  }
  fmt::print("{}, driver {}, {}\n\n", styled(c.gpu, Style::bold), c.driver, c.date);
  Table table;
  table.column("fact").column("measured", Align::right).column(base->name.substr(0, base->name.find('~')), Align::right).column("unit").column("how", Align::left, Table::Narrow::wraps);
  for (const bench::Measured& m : c.facts) {
    const Fact* old = base->fact(m.key);
    table.row({m.key, count_text(m.value), old ? count_text(old->value) : "-", old ? old->unit : "", {m.how, Style::dim}});
  }
  table.section("beside them");
  for (const bench::Measured& m : c.notes) table.row({m.key, count_text(m.value), "", "", {m.how, Style::dim}});
  fmt::print("{}\n", table.text());
  for (const std::string& reason : left_out) fmt::print("left out: {}\n", reason);
  if (!options.no_set && after.count > 0)
    fmt::print("{}", wrapped(fmt::format("Built-in set, {} times of our kernels: with {} the median error is {:.1f} %, nine in ten within {:.1f} %, its choices reach {:.3f} of the fastest; with the new file {:.1f} %, {:.1f} % and {:.3f}.", after.count, base->name,
                                         100 * before.median, 100 * before.ninth, before.choice, 100 * after.median, 100 * after.ninth, after.choice)));
  fmt::print("Written: {}. Use it as --machine {}.\n", options.out, options.out);
  return kOk;
}

}  // namespace

void add_calibrate(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("calibrate", "measure this GPU and write a machine file for it; needs a GPU");
  command->add_option("--out", options->out, "the machine file [calibrated.toml]")->type_name("FILE");
  command->add_flag("--no-power", options->no_power, "leave out the loads that are held until power settles (20 s)");
  command->add_flag("--no-set", options->no_set, "leave out the built-in set of products (2 minutes), and the model's error");
  options->output.add_to(*command);
  command->footer(R"(Examples:
  foretile calibrate                                  microbenchmarks, calibrated.toml, and the model's error before and after
  foretile calibrate --no-set --out mine.toml         half a minute
Measured: DRAM, L2 and shared memory (bandwidth, latency), launches, multiply-adds and tensor cores by clock and power. What a
microbenchmark cannot show (kernel constants) is carried over from the nearest listed GPU, and its source says so.)");
  command->callback([options, &action] { action = [options] { return calibrate_command(*options); }; });
}

}  // namespace foretile::cli
