// foretile explain: how long one product takes, what bounds it, and why.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/cli.h"
#include "cli/explain_output.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "model/counters.h"
#include "model/explain.h"
#include "model/page.h"
#include "model/remedy.h"
#include "model/speed_of_light.h"
#include "model/text.h"

namespace foretile::cli {

namespace {

struct Options {
  ProductOptions product;
  MachineOptions machine;
  CallOptions call;
  ConfigurationOption configuration;
  std::vector<std::string> compare;  // two
  std::string roofline, kernel;
  std::vector<std::string> set;
  Output output;
};

void together(const CLI::App& command, const char* option, std::initializer_list<const char*> not_with, const char* why) {
  if (!command.count(option)) return;
  for (const char* other : not_with)
    if (command.count(other)) throw BadInput(fmt::format("{} does not go with {}: {}", other, option, why));
}

int explain_command(const Options& options, const CLI::App& command) {
  together(command, "--kernel", {"--config", "--compare", "--dtype", "--out-dtype", "--compute", "--transpose-a", "--transpose-b", "--unaligned", "--alpha", "--beta", "--bias", "--activation", "--gated", "--residual", "--dependent", "--batch-invariant"}, "the file says what the kernel does");
  together(command, "--compare", {"--config", "--roofline"}, "it has its two configurations");
  const Problem p = options.product.problem();
  if (const std::string nothing = nothing_to_compute(p); !options.roofline.empty() && !nothing.empty()) throw BadInput("--roofline has nothing to draw: " + nothing.substr(0, nothing.size() - 1));
  if (!options.kernel.empty()) return explain_kernel(options.kernel, options.set, p, options.machine, options.roofline, options.output.json);
  if (!options.set.empty()) throw BadInput("--set goes with --kernel");
  const Operation o = options.product.operation();
  const Machine machine = options.machine.load();
  const Conditions conditions = options.call.with(options.machine.conditions(machine.sms));
  if (const std::string nothing = nothing_to_compute(p); !nothing.empty()) {
    if (!options.output.json) return fmt::print("{}", nothing), kOk;
    auto json = envelope("explain");
    json["product"] = json_of(o, p), json["machine"] = machine.name, json["regime"] = options.machine.regime;
    json["forecast"] = {{"seconds", 0.0}};
    say_nothing(json, p);
    print_json(json);
    return kOk;
  }
  if (!options.compare.empty()) {
    std::vector<Configuration> both;
    for (const std::string& text : options.compare) both.push_back(*ConfigurationOption{text}.parse(machine, o, p));
    if (!options.output.json) {
      print_comparison(machine, o, p, conditions, both);
      return kOk;
    }
    auto json = envelope("explain.compare");
    json["product"] = json_of(o, p);
    json["machine"] = machine.name;
    json["regime"] = options.machine.regime;
    json["compared"] = comparison_json(machine, o, p, conditions, both);
    print_json(json);
    return kOk;
  }
  const auto given = options.configuration.parse(machine, o, p);
  const Configuration c = given ? *given : pick(machine, o, p, conditions);
  if (!options.roofline.empty()) write_roofline(options.roofline, machine, o, c, p, conditions);
  if (options.output.json) {
    const Anatomy x = anatomy(machine, o, c, p, conditions);
    auto json = envelope("explain");
    json["product"] = json_of(o, p);
    json["machine"] = machine.name;
    json["regime"] = options.machine.regime;
    json["configuration"] = text_of(c);
    json["chosen_by_model"] = !given;
    json["forecast"] = json_of(x.forecast);
    json["trust"] = json_of(trust(machine, o, c, p, conditions));
    json["path"] = path_text(machine, o, c, p);
    json["remedies"] = nlohmann::ordered_json::array();
    for (const Remedy& r : remedies(machine, o, c, p, conditions, x)) json["remedies"].push_back({{"what", r.what}, {"seconds", r.seconds}, {"because", r.because}});
    json["counters"] = counters_json(machine, o, c, p, x);
    json["speed_of_light"] = nlohmann::ordered_json::object();
    for (const UnitShare& u : speed_of_light(machine, o, c, p, x, x.traffic)) json["speed_of_light"][name_of(u.unit)] = u.percent;
    print_json(json);
    return kOk;
  }
  fmt::print("{}", explain_text(machine, o, c, p, conditions, size_t(std::min(terminal_width(), 110))));
  return kOk;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("explain", "how long a product takes, what bounds it, and why; no GPU needed");
  options->product.add_to(*command);
  options->machine.add_to(*command);
  options->call.add_to(*command);
  options->configuration.add_to(*command);
  command->add_option("--compare", options->compare, "two configurations side by side, part by part")->expected(2)->group("Machine")->type_name("CONFIG CONFIG");
  command->add_option("--kernel", options->kernel, "a kernel that is not ours, described in a .toml file (docs/kernel-files.md)")->group("Machine")->type_name("FILE");
  command->add_option("--set", options->set, "another value for a name of the kernel file, such as pitch=32; may be repeated")->allow_extra_args(false)->group("Machine")->type_name("NAME=VALUE");
  command->add_option("--roofline", options->roofline, "also draw it: a picture (.svg) or a page (.html)")->group("Machine")->type_name("FILE");
  options->output.add_to(*command);
  command->footer(R"(Examples:
  foretile explain --m 1 --n 28672 --k 4096                              one token: the weights' bytes decide
  foretile explain --m 4096 --n 28672 --k 4096 --regime burst             many tokens: tensor cores and the clock
  foretile explain --m 4096 --n 4096 --k 4095                             rows that TMA cannot address, and what that costs
  foretile explain --m 32 --n 28672 --k 4096 --gated halves --activation silu --dependent
                                                                        SwiGLU in one kernel, in a chain of launches
  foretile explain --m 512 --n 4096 --k 4096 --machine a100 --config simt:128x128x8:t8x8
  foretile explain --m 4096 --n 4096 --k 4096 --compare sm90:128x256x64:s4:coop:b2 sm90:128x128x64:s6:pingpong:b2
  foretile explain --kernel examples/kernels/tiled-fp16.toml --m 2048 --n 2048 --k 1024 --machine a100 --set T=24)");
  command->callback([options, command, &action] { action = [options, command] { return explain_command(*options, *command); }; });
}

}  // namespace foretile::cli
