// foretile emulate: a product by the library's kernel source on the CPU, checked and searched for faults.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <future>
#include <memory>
#include <thread>

#include "cli/cli.h"
#include "cli/emulated.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "model/text.h"

namespace foretile::cli {

namespace {

struct Options {
  ProductOptions product;
  MachineOptions machine;
  ConfigurationOption configuration;
  std::string async = "lazy", scheduling = "round_robin", seed = "1", values = "integers";
  bool no_races = false, force = false;
  Output output;
};

constexpr double kPatience = 600;  // seconds: longer runs must be asked for

template <class Value> Value one_of(const std::string& option, const std::string& text, std::initializer_list<std::pair<const char*, Value>> allowed) {
  std::string names;
  for (const auto& [name, value] : allowed) {
    if (text == name) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw BadInput(fmt::format("{} is \"{}\"; allowed: {}", option, text, names));
}

int emulate_command(const Options& options) {
  const Problem p = options.product.problem();
  const Operation o = options.product.operation();
  const Machine machine = options.machine.load();
  const auto given = options.configuration.parse(machine, o, p);
  const Configuration c = given ? *given : pick(machine, o, p, options.machine.conditions());
  emulator::Options how;
  how.async = one_of<emulator::Async>("--async", options.async, {{"eager", emulator::Async::eager}, {"lazy", emulator::Async::lazy}, {"random", emulator::Async::random}});
  how.scheduling = one_of<emulator::Scheduling>("--scheduling", options.scheduling, {{"round_robin", emulator::Scheduling::round_robin}, {"random", emulator::Scheduling::random}, {"priority", emulator::Scheduling::priority}});
  how.seed = u64(whole_number("--seed", options.seed, 0, 0x7fffffffffffffff));
  how.races = !options.no_races;
  reference::GemmDataOptions data;
  data.values = one_of<reference::Values>("--values", options.values, {{"integers", reference::Values::integers}, {"normal", reference::Values::normal}});
  data.seed = how.seed;
  data.alpha = options.product.alpha_value(), data.beta = options.product.beta_value();
  const int sms = options.machine.sms.empty() ? 4 : int(whole_number("--sms", options.machine.sms, 1, 1024));

  const double expected = expected_seconds(c, p);
  if (expected > kPatience && !options.force)
    throw BadInput(fmt::format("--m {} --n {} --k {} with {} would take the emulator about {}; choose a smaller product (a few tiles show what a large one would), or insist with --force", p.m, p.n, p.k, text_of(c), time_text(expected)));

  // The emulator works in a thread of its own, so that this one can say how long it has been.
  auto work = std::async(std::launch::async, [&] { return emulate_and_check(o, c, p, data, how, sms); });
  {
    Progress progress("emulating", 0);
    for (int ticks = 0; work.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready; ++ticks)
      progress.done(ticks / 10, fmt::format(" s of about {:.0f}", std::max(1.0, expected)));
  }
  const EmulatedCheck check = work.get();

  if (options.output.json) {
    auto json = envelope("emulate");
    json["product"] = json_of(o, p);
    json["async"] = options.async, json["scheduling"] = options.scheduling, json["seed"] = how.seed;
    json["check"] = json_of(check);
    print_json(json);
    return check.passed() ? kOk : kCheckFailed;
  }
  fmt::print("{}, {}\n{}{} on {} emulated SMs, {} completion, {} scheduling, seed {}\n\n", shape_text(p), operation_line(check.operation), text_of(c), given ? "" : fmt::format(" (the model's choice for {})", machine.name), sms, options.async, options.scheduling, how.seed);
  const auto line = [](const char* what, const std::string& text, bool good) { fmt::print("{:<10}{}\n", what, styled(text, good ? Style::good : Style::bad)); };
  line("result", check.result.text(), check.result.passed());
  line("memory", check.damage.empty() ? "nothing written outside D" : check.damage, check.damage.empty());
  line("findings", check.report.clean() ? (how.races ? "none: no race, missing wait, deadlock or bad address in this schedule" : "none (races were not looked for)") : fmt::format("{}", check.report.findings.size()), check.report.clean());
  for (const auto& f : check.report.findings) {
    const std::string at = f.site.file ? fmt::format("{}:{}", f.site.file, f.site.line) : "";
    fmt::print("  {} {}{}\n    {}\n", styled(f.kind, Style::bold), at, f.count > 1 ? fmt::format(" ({} times)", f.count) : "", f.text);
  }
  const auto& n = check.report.counters;
  if (n.tma_loads || n.wgmmas) {
    fmt::print("{:<10}{} TMA boxes loaded ({}), {} warpgroup multiplies, {} boxes stored ({})\n", "trace", n.tma_loads, bytes_text(double(n.tma_load_bytes)), n.wgmmas, n.tma_stores, bytes_text(double(n.tma_store_bytes)));
  }
  fmt::print("{:<10}{}, {} switches between threads\n", "took", time_text(check.seconds), count_text(double(n.switches)));
  return check.passed() ? kOk : kCheckFailed;
}

}  // namespace

void add_emulate(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("emulate", "run the kernel's source on the CPU, check the result, find races and bad accesses");
  options->product.add_to(*command);
  options->machine.add_to(*command);
  options->configuration.add_to(*command);
  command->add_option("--async", options->async, "when asynchronous copies and multiplies complete: eager, lazy or random [lazy]")->group("Emulator")->type_name("NAME");
  command->add_option("--scheduling", options->scheduling, "which thread runs next: round_robin, random or priority [round_robin]")->group("Emulator")->type_name("NAME");
  command->add_option("--seed", options->seed, "of the data and of random schedules [1]")->group("Emulator")->type_name("N");
  command->add_option("--values", options->values, "integers (the result must be exact) or normal [integers]")->group("Emulator")->type_name("NAME");
  command->add_flag("--no-races", options->no_races, "faster: values, bounds and deadlocks only")->group("Emulator");
  command->add_flag("--force", options->force, "run even if it takes long")->group("Emulator");
  options->output.add_to(*command);
  command->footer(R"(The kernel is the source that runs on the GPU. Everything it reads or writes is checked: values against an fp64
reference, addresses against the operands, each access against the waits that must order it.

Examples:
  foretile emulate --m 100 --n 200 --k 320                                            what the model would choose
  foretile emulate --m 130 --n 256 --k 512 --config sm90:128x128x64:s6:pingpong:b2    one configuration
  foretile emulate --m 64 --n 64 --k 256 --async random --scheduling random --seed 7  another schedule
Exit code 1 when the result is wrong or anything was found.)");
  command->callback([options, &action] { action = [options] { return emulate_command(*options); }; });
}

}  // namespace foretile::cli
