// foretile run: one product on the GPU, checked and timed beside its forecast.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/cli.h"
#include "cli/gpu_run.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "model/text.h"
#include "reference/check.h"

namespace foretile::cli {

namespace {

struct Options {
  ProductOptions product;
  CallOptions call;
  ConfigurationOption configuration;
  std::string regime = "burst", sms, seed = "1";
  Output output;
};

int run_command(const Options& options) {
  const Problem p = options.product.problem();
  const Operation o = options.product.operation();
  MachineOptions how;
  how.regime = options.regime, how.sms = options.sms;
  const Conditions conditions = options.call.with(how.conditions());
  const u64 seed = u64(whole_number("--seed", options.seed, 0, 0x7fffffff));
  std::optional<Configuration> given;
  if (!options.configuration.text.empty()) {
    std::string error;
    given = configuration_from(options.configuration.text, error);
    if (!given) throw BadInput(fmt::format("--config: {} (foretile choose lists configurations)", error));
  }
  const GpuRun run = run_on_gpu(o, p, options.product.alpha_value(), options.product.beta_value(), given, conditions, seed);

  const Machine* machine = machine_for_device(run.gpu, run.compute_capability, run.sms);
  const Configuration c = given ? *given : machine ? pick(*machine, o, p, conditions) : Configuration{};
  const bool has_forecast = machine && !why_not_on(*machine, o, c, p);
  const Forecast f = has_forecast ? forecast(*machine, o, c, p, conditions) : Forecast{};
  const bool passed = run.wrong.empty();

  if (options.output.json) {
    auto json = envelope("run");
    json["product"] = json_of(o, p);
    json["gpu"] = run.gpu;
    json["configuration"] = given || machine ? nlohmann::ordered_json(text_of(c)) : nlohmann::ordered_json();
    json["check"] = {{"passed", passed}, {"text", run.wrong}, {"bound_used", run.bound_used}};
    json["measured"] = {{"seconds", run.seconds}, {"first_call_seconds", run.first_seconds}};
    if (has_forecast) json["machine"] = machine->name, json["forecast"] = json_of(f);
    print_json(json);
    return passed ? kOk : kCheckFailed;
  }
  fmt::print("{}, {}\non {}, {}\n\n", shape_text(p), operation_line(o), run.gpu, given || machine ? text_of(c) : "the library's choice");
  fmt::print("{}", passed ? labelled("result", fmt::format("right, {}; no byte around D touched", reference::rounding_text(run.bound_used)), Style::good) : labelled("result", run.wrong, Style::bad));
  if (run.seconds > 0) {
    fmt::print("{}", labelled("measured", fmt::format("{} a call in a graph, {:.4g} TFLOP/s; the operands stay in L2 where they fit (foretile bench rotates them)", time_text(run.seconds), flop_count(p) / run.seconds * 1e-12)));
    fmt::print("{}", labelled("at first", time_text(run.first_seconds) + ", compiling or loading the kernel included"));
  }
  if (has_forecast) fmt::print("{}", labelled("forecast", fmt::format("{} from cold memory, bound by {} ({}, {})", time_text(f.seconds), name_of(f.bound), machine->name, regime_text(conditions))));
  return passed ? kOk : kCheckFailed;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "run a product on this machine's GPU, check it, time it beside the forecast");
  options->product.add_to(*command);
  options->configuration.add_to(*command);
  options->call.add_to(*command);
  command->add_option("--regime", options->regime, "of the forecast: burst, sustained or a clock such as 1500MHz [burst]")->group("Machine")->type_name("NAME");
  command->add_option("--sms", options->sms, "fill only so many SMs [all]")->group("Machine")->type_name("N");
  command->add_option("--seed", options->seed, "of the random data [1]")->group("Machine")->type_name("N");
  options->output.add_to(*command);
  command->footer(R"(The operands hold random normal data amid guard bytes; every element of D is compared with an fp64 reference.

Examples:
  foretile run --m 4096 --n 6144 --k 4096
  foretile run --m 77 --n 1001 --k 333 --dtype fp16 --bias --activation gelu_erf
  foretile run --m 16 --n 28672 --k 4096 --gated halves --activation silu --dependent
Exit code 1 when the result is wrong, 3 when there is no GPU.)");
  command->callback([options, &action] { action = [options] { return run_command(*options); }; });
}

}  // namespace foretile::cli
