// foretile explain: how long one product takes, what bounds it, and why.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "model/counters.h"
#include "model/described_kernel_text.h"
#include "model/explain.h"
#include "model/text.h"

namespace foretile::cli {

namespace {

struct Options {
  ProductOptions product;
  MachineOptions machine;
  ConfigurationOption configuration;
  std::string kernel;
  std::vector<std::string> set;
  Output output;
};

// NAME=VALUE, as --set takes them.
std::map<std::string, std::string> settings(const std::vector<std::string>& given) {
  std::map<std::string, std::string> set;
  for (const std::string& text : given) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size()) throw BadInput(fmt::format("--set is \"{}\"; allowed: NAME=VALUE, a name of the kernel file's [let]", text));
    set[text.substr(0, at)] = text.substr(at + 1);
  }
  return set;
}

nlohmann::ordered_json costs_json(const std::vector<DescribedAccess>& accesses, const std::vector<AccessCost>& costs) {
  auto list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < accesses.size(); ++i) {
    const AccessCost& c = costs[i];
    list.push_back({{"access", accesses[i].text}, {"space", accesses[i].space == Space::global ? "global" : "shared"}, {"direction", accesses[i].direction == Direction::load ? "load" : "store"},
                    {"bytes", accesses[i].bytes}, {"requests", c.requests}, {"wavefronts", c.wavefronts}, {"bank_conflicts", c.conflicts()}, {"sectors", c.sectors}, {"ideal_sectors", c.ideal_sectors}, {"new_sectors", c.new_sectors}});
  }
  return list;
}

int explain_kernel(const Options& options) {
  const Problem p = options.product.problem();
  const Machine machine = options.machine.load();
  const Conditions conditions = options.machine.conditions(machine.sms);
  const auto set = settings(options.set);
  const KernelFile file = load_kernel_file(options.kernel, set);
  const KernelWith with = [&](const std::string& name, i64 value) {
    auto other = set;
    other[name] = std::to_string(value);
    return load_kernel_file(options.kernel, other);
  };
  if (!options.output.json) {
    fmt::print("{}", explain_text(machine, file, p, conditions, with, size_t(std::min(terminal_width(), 110))));
    return kOk;
  }
  const DescribedForecast f = forecast(machine, file.kernel, p, conditions);
  auto json = envelope("explain.kernel");
  json["kernel"] = file.kernel.name;
  json["product"] = {{"m", p.m}, {"n", p.n}, {"k", p.k}, {"batch", p.batch}};
  json["machine"] = machine.name;
  json["regime"] = options.machine.regime;
  json["forecast"] = {{"seconds", f.seconds}, {"bound", name_of(f.bound)},
                      {"parts_seconds", {{"dram", f.dram}, {"l2", f.l2}, {"shared_memory", f.shared_memory}, {"compute", f.compute}, {"issue", f.issue}, {"latency", f.latency}, {"launch", f.launch}, {"epilogue", f.epilogue}}},
                      {"waves", f.waves}, {"clock_mhz", f.clock_mhz}, {"blocks_per_sm", f.occupancy.blocks_per_sm}, {"occupancy", f.occupancy.warps_fraction}, {"limiter", name_of(f.occupancy.limiter)},
                      {"dram_bytes", f.traffic.dram_bytes()}, {"l2_request_bytes", f.l2_request_bytes}, {"l2_hit_rate", f.traffic.l2_hit_rate}};
  json["step"] = costs_json(file.kernel.step, f.step);
  json["epilogue"] = costs_json(file.kernel.epilogue, f.epilogue_accesses);
  json["remedies"] = nlohmann::ordered_json::array();
  for (const Remedy& r : remedies(machine, file, p, conditions, with)) json["remedies"].push_back({{"what", r.what}, {"seconds", r.seconds}, {"because", r.because}});
  json["counters"] = nlohmann::ordered_json::array();
  for (const ExpectedCounter& c : expected_counters(file.kernel, f)) json["counters"].push_back({{"name", c.name}, {"value", c.value}, {"unit", c.unit}, {"exact", c.exact}, {"how", c.how}});
  print_json(json);
  return kOk;
}

int explain_command(const Options& options) {
  if (!options.kernel.empty()) return explain_kernel(options);
  if (!options.set.empty()) throw BadInput("--set goes with --kernel");
  const Problem p = options.product.problem();
  const Operation o = options.product.operation();
  const Machine machine = options.machine.load();
  const Conditions conditions = options.machine.conditions(machine.sms);
  const auto given = options.configuration.parse(machine, o, p);
  const Configuration c = given ? *given : pick(machine, o, p, conditions);
  if (options.output.json) {
    auto json = envelope("explain");
    json["product"] = json_of(o, p);
    json["machine"] = machine.name;
    json["regime"] = options.machine.regime;
    json["configuration"] = text_of(c);
    json["chosen_by_model"] = !given;
    json["forecast"] = json_of(forecast(machine, o, c, p, conditions));
    json["path"] = path_text(machine, o, c, p);
    print_json(json);
    return kOk;
  }
  fmt::print("{}", explain_text(machine, o, c, p, conditions));
  return kOk;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("explain", "how long a product takes, what bounds it, and why; no GPU needed");
  options->product.add_to(*command);
  options->machine.add_to(*command);
  options->configuration.add_to(*command);
  CLI::Option* kernel = command->add_option("--kernel", options->kernel, "a kernel that is not ours, described in a .toml file (docs/kernel-files.md)")->group("Machine")->type_name("FILE");
  command->add_option("--set", options->set, "another value for a name of the kernel file, such as pitch=32; may be repeated")->group("Machine")->type_name("NAME=VALUE");
  // The file says types, layouts and epilogue.
  for (const char* name : {"--config", "--dtype", "--out-dtype", "--transpose-a", "--transpose-b", "--unaligned", "--alpha", "--beta", "--bias", "--activation", "--residual"}) kernel->excludes(name);
  options->output.add_to(*command);
  command->footer(R"(Examples:
  foretile explain --m 1 --n 28672 --k 4096                              one token: the weights' bytes decide
  foretile explain --m 4096 --n 28672 --k 4096 --regime burst             many tokens: tensor cores and the clock
  foretile explain --m 4096 --n 4096 --k 4095                             rows that TMA cannot address, and what that costs
  foretile explain --m 512 --n 4096 --k 4096 --machine a100 --config simt:128x128x8:t8x8
  foretile explain --kernel examples/kernels/tiled-fp16.toml --m 2048 --n 2048 --k 1024 --machine a100 --set T=24)");
  command->callback([options, &action] { action = [options] { return explain_command(*options); }; });
}

}  // namespace foretile::cli
