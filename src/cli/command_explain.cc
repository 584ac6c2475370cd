// foretile explain: how long one product takes, what bounds it, and why.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "model/explain.h"
#include "model/text.h"

namespace foretile::cli {

namespace {

struct Options {
  ProductOptions product;
  MachineOptions machine;
  ConfigurationOption configuration;
  Output output;
};

int explain_command(const Options& options) {
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
  options->output.add_to(*command);
  command->footer(R"(Examples:
  foretile explain --m 1 --n 28672 --k 4096                              one token: the weights' bytes decide
  foretile explain --m 4096 --n 28672 --k 4096 --regime burst             many tokens: tensor cores and the clock
  foretile explain --m 4096 --n 4096 --k 4095                             rows that TMA cannot address, and what that costs
  foretile explain --m 512 --n 4096 --k 4096 --machine a100 --config simt:128x128x8:t8x8)");
  command->callback([options, &action] { action = [options] { return explain_command(*options); }; });
}

}  // namespace foretile::cli
