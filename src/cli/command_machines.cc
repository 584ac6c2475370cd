// foretile machines: the GPUs the model knows, and every number of one with its source.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"

namespace foretile::cli {

namespace {

struct Options {
  std::string name;
  Output output;
};

nlohmann::ordered_json json_of(const Machine& m) {
  nlohmann::ordered_json json = {{"name", m.name}, {"full_name", m.full_name}, {"compute_capability", m.compute_capability}, {"sms", m.sms}, {"facts", nlohmann::ordered_json::array()}};
  for (const Fact& f : m.facts) json["facts"].push_back({{"key", f.key}, {"value", f.value}, {"unit", f.unit}, {"source", f.source}});
  return json;
}

// Dense bf16 FLOP/s on tensor cores at the boost clock.
double tensor_peak(const Machine& m) { return m.tensor_rate(DType::bf16) * m.sms * m.boost_mhz * 1e6; }

int machines_command(const Options& options) {
  std::vector<std::string> names = known_machines();
  if (!options.name.empty()) {
    MachineOptions chosen;
    chosen.machine = options.name;
    const Machine m = chosen.load();
    if (options.output.json) {
      auto json = envelope("machines");
      json["machines"] = {json_of(m)};
      print_json(json);
      return kOk;
    }
    fmt::print("{} ({}), compute capability {}.{}, {} SMs\n\n", styled(m.full_name, Style::bold), m.name, m.compute_capability / 10, m.compute_capability % 10, m.sms);
    Table table;
    table.column("fact").column("value", Align::right).column("unit").column("source", Align::left, false);
    for (const Fact& f : m.facts) table.row({f.key, count_text(f.value), f.unit, {f.source, Style::dim}});
    fmt::print("{}", table.text());
    return kOk;
  }
  auto json = envelope("machines");
  Table table;
  table.column("name").column("GPU").column("capability", Align::right).column("SMs", Align::right).column("bf16 peak", Align::right).column("memory", Align::right).column("L2", Align::right);
  for (const std::string& name : names) {
    const Machine m = load_machine(name);
    json["machines"].push_back(json_of(m));
    const double peak = tensor_peak(m);
    table.row({m.name, m.full_name, fmt::format("{}.{}", m.compute_capability / 10, m.compute_capability % 10), std::to_string(m.sms), peak > 0 ? fmt::format("{:.0f} TFLOP/s", peak * 1e-12) : "-", bytes_text(m.dram_bandwidth) + "/s", bytes_text(m.l2_bytes)});
  }
  if (options.output.json) {
    print_json(json);
    return kOk;
  }
  fmt::print("{}\nforetile machines NAME prints every number with its source. A .toml file of your own works wherever a name does.\n", table.text());
  return kOk;
}

}  // namespace

void add_machines(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("machines", "the GPUs the model knows, every number with its source");
  command->add_option("name", options->name, "a listed GPU or a .toml file: print all of it")->type_name("NAME");
  options->output.add_to(*command);
  command->footer(R"(Examples:
  foretile machines
  foretile machines h200)");
  command->callback([options, &action] { action = [options] { return machines_command(*options); }; });
}

}  // namespace foretile::cli
