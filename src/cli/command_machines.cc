// foretile machines: the GPUs the model knows, every number of one with its source, several side by side.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"

namespace foretile::cli {

namespace {

struct Options {
  std::vector<std::string> names;
  Output output;
};

nlohmann::ordered_json json_of(const Machine& m) {
  nlohmann::ordered_json json = {{"name", m.name}, {"full_name", m.full_name}, {"compute_capability", m.compute_capability}, {"sms", m.sms}, {"validation", m.validation}, {"facts", nlohmann::ordered_json::array()}};
  for (const Fact& f : m.facts) json["facts"].push_back({{"key", f.key}, {"value", f.value}, {"unit", f.unit}, {"source", f.source}});
  return json;
}

std::string capability(const Machine& m) { return fmt::format("{}.{}", m.compute_capability / 10, m.compute_capability % 10); }

// FLOP/s of all SMs at the boost clock, in TFLOP/s; "-" where there is no such unit.
std::string peak_text(const Machine& m, double per_clock) { return per_clock > 0 ? fmt::format("{:.{}f}", per_clock * m.sms * m.boost_mhz * 1e-6, per_clock * m.sms * m.boost_mhz < 1e8 ? 1 : 0) : "-"; }

void print_one(const Machine& m) {
  fmt::print("{} ({}), compute capability {}, {} SMs\n", styled(m.full_name, Style::bold), m.name, capability(m), m.sms);
  fmt::print("{}\n", wrapped("Forecasts for it were held against: " + m.validation));
  Table table;
  table.column("fact").column("value", Align::right).column("unit").column("source", Align::left, Table::Narrow::wraps);
  for (const Fact& f : m.facts) table.row({f.key, count_text(f.value), f.unit, {f.source, Style::dim}});
  fmt::print("{}", table.text());
}

// Every number of several machines side by side; what differs stands out.
void print_comparison(const std::vector<Machine>& machines) {
  Table table;
  table.column("fact").column("unit", Align::left, Table::Narrow::optional);
  for (const Machine& m : machines) table.column(m.name, Align::right);
  std::vector<std::pair<std::string, std::string>> keys;  // of any of them, in the order of the first that has it
  for (const Machine& m : machines)
    for (const Fact& f : m.facts)
      if (std::none_of(keys.begin(), keys.end(), [&](const auto& k) { return k.first == f.key; })) keys.emplace_back(f.key, f.unit);
  for (const auto& [key, unit] : keys) {
    std::vector<Table::Cell> row = {key, unit};
    const Fact* first = machines.front().fact(key);
    for (const Machine& m : machines) {
      const Fact* f = m.fact(key);
      row.push_back({f ? count_text(f->value) : "-", f && first && f->value == first->value ? Style::plain : Style::bold});
    }
    table.row(std::move(row));
  }
  fmt::print("{}\nforetile machines NAME prints one of them with the source of every number.\n", table.text());
}

void print_list(const std::vector<Machine>& machines) {
  Table table;
  table.column("name").column("GPU", Align::left, Table::Narrow::optional).column("CC", Align::right).column("SMs", Align::right).column("boost", Align::right);
  table.column("tensor", Align::right).column("fp32", Align::right).column("memory", Align::right).column("L2", Align::right).column("power", Align::right, Table::Narrow::optional);
  for (const Machine& m : machines)
    table.row({m.name, m.full_name.substr(m.full_name.starts_with("NVIDIA ") ? 7 : 0), capability(m), std::to_string(m.sms), fmt::format("{:.0f} MHz", m.boost_mhz), peak_text(m, m.tensor_fp16), peak_text(m, m.fp32_rate),
               bytes_text(m.dram_bandwidth) + "/s", bytes_text(m.l2_bytes), fmt::format("{:.0f} W", m.power_limit)});
  fmt::print("{}\n{}{}", table.text(),
             wrapped("tensor, fp32: peaks in TFLOP/s at the boost clock, all SMs; tensor: dense fp16 (and bf16, from compute capability 8.0 on) with fp32 sums. Data sheets quote some "
                     "GPUs at a lower clock: H100 and H200 at 1830 MHz (989 TFLOP/s), H100 PCIe at 1620 MHz (756). Under load the power limit decides (--regime sustained)."),
             wrapped("foretile machines NAME prints every number with its source, several NAMEs side by side. A .toml file of your own works wherever a name does."));
}

int machines_command(const Options& options) {
  std::vector<Machine> machines;
  for (const std::string& name : options.names) {
    MachineOptions chosen;
    chosen.machine = name;
    machines.push_back(chosen.load());
  }
  if (options.names.empty())
    for (const std::string& name : known_machines()) machines.push_back(load_machine(name));
  if (options.output.json) {
    auto json = envelope("machines");
    for (const Machine& m : machines) json["machines"].push_back(json_of(m));
    print_json(json);
  } else if (options.names.empty()) {
    print_list(machines);
  } else if (machines.size() == 1) {
    print_one(machines.front());
  } else {
    print_comparison(machines);
  }
  return kOk;
}

}  // namespace

void add_machines(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("machines", "the GPUs the model knows, every number with its source");
  command->add_option("names", options->names, "listed GPUs or .toml files: one is printed whole, several side by side")->type_name("NAME");
  options->output.add_to(*command);
  command->footer(R"(Examples:
  foretile machines
  foretile machines h200
  foretile machines h200 a100 l4)");
  command->callback([options, &action] { action = [options] { return machines_command(*options); }; });
}

}  // namespace foretile::cli
