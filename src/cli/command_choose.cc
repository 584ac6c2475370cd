// foretile choose: every configuration of the catalogue, ranked by forecast.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "model/page.h"
#include "model/text.h"

namespace foretile::cli {

namespace {

struct Options {
  ProductOptions product;
  MachineOptions machine;
  CallOptions call;
  Output output;
};

int choose_command(const Options& options) {
  const Problem p = options.product.problem();
  const Operation o = options.product.operation();
  const Machine machine = options.machine.load();
  const Conditions conditions = options.call.with(options.machine.conditions(machine.sms));
  const std::string nothing = nothing_to_compute(p);
  const Choice choice = nothing.empty() ? choose(machine, o, p, conditions) : Choice{};

  if (options.output.json) {
    auto json = envelope("choose");
    json["product"] = json_of(o, p);
    json["machine"] = machine.name;
    say_nothing(json, p);
    json["ranked"] = nlohmann::ordered_json::array();
    for (const Candidate& c : choice.ranked) json["ranked"].push_back({{"configuration", text_of(c.configuration)}, {"forecast", json_of(c.forecast)}, {"trust", json_of(trust(machine, o, c.configuration, p, conditions))}});
    json["ruled_out"] = nlohmann::ordered_json::array();
    for (const RuledOut& r : choice.ruled_out) json["ruled_out"].push_back({{"configuration", text_of(r.configuration)}, {"reason", r.reason}});
    print_json(json);
    return kOk;
  }

  if (!nothing.empty()) {
    fmt::print("{}", nothing);
    return kOk;
  }
  fmt::print("{}, {}\non {}, {}\n\n", shape_text(p), operation_line(o), machine.full_name, regime_text(conditions));
  Table table;
  table.column("configuration").column("forecast", Align::right).column("to best", Align::right).column("bound by").column("waves", Align::right);
  table.column("blocks/SM", Align::right, Table::Narrow::optional).column("registers", Align::right, Table::Narrow::optional).column("shared", Align::right, Table::Narrow::optional);
  for (const Candidate& c : choice.ranked) {
    const Forecast& f = c.forecast;
    const double best = choice.ranked.front().forecast.seconds;
    const Style style = &c == &choice.ranked.front() ? Style::bold : Style::plain;
    table.row({{text_of(c.configuration), style}, {time_text(f.seconds), style}, best > 0 ? fmt::format("{:.2f}", f.seconds / best) : "-", name_of(f.bound), fmt::format("{:.2f}", f.waves), std::to_string(f.blocks_per_sm),
               fmt::format("{}{}", f.registers_estimated ? "~" : "", f.registers), bytes_text(f.shared_bytes)});
  }
  if (choice.ranked.empty()) fmt::print("No kernel of the library can compute it here.\n");
  else fmt::print("{}\n{}", table.text(), wrapped("How far to trust the first: " + trust(machine, o, choice.ranked.front().configuration, p, conditions).text()));
  if (!choice.ruled_out.empty()) {
    // Those with one reason together, in the order of the catalogue.
    std::vector<std::pair<std::string, std::string>> reasons;
    for (const RuledOut& r : choice.ruled_out) {
      const auto same = std::find_if(reasons.begin(), reasons.end(), [&](const auto& x) { return x.first == r.reason; });
      if (same == reasons.end()) reasons.emplace_back(r.reason, text_of(r.configuration));
      else same->second += ", " + text_of(r.configuration);
    }
    fmt::print("\n{} ruled out:\n", choice.ruled_out.size());
    for (const auto& [reason, configurations] : reasons) fmt::print("\n{}{}", wrapped(reason + ":"), labelled("", configurations, Style::plain, 2));
  }
  return kOk;
}

}  // namespace

void add_choose(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("choose", "rank every configuration for a product; no GPU needed");
  options->product.add_to(*command);
  options->machine.add_to(*command);
  options->call.add_to(*command);
  options->output.add_to(*command);
  command->footer(R"(Examples:
  foretile choose --m 4096 --n 6144 --k 4096                       the first line is what the library would run
  foretile choose --m 1 --n 4096 --k 4096 --machine rtx4090        on another GPU
  foretile choose --m 32 --n 4096 --k 4096 --batch-invariant        with a row's bits the same at every M
  foretile choose --m 64 --n 4095 --k 4095                         rows that TMA cannot address: see what is ruled out, and why
~ before a register count: estimated, not read from compiled code.)");
  command->callback([options, &action] { action = [options] { return choose_command(*options); }; });
}

}  // namespace foretile::cli
