// foretile emulate: a product by the library's kernel source on the CPU, checked and searched for faults.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <future>
#include <memory>
#include <optional>
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
  std::string async = "lazy", schedule = "round-robin", checks = "all", seed = "1", values = "integers";
  std::vector<std::string> mutate;
  bool force = false, trace = false, calls = false, weights_ready = false;
  std::string chain = "1", timeline;
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

// "gemm_sm90.cuh:123:drop": the synchronising call of that line does nothing, or counts one more or less.
emulator::Mutation mutation_from(const std::string& text) {
  const std::string error = fmt::format("--mutate is \"{}\"; allowed: FILE:LINE:KIND with KIND drop, more or less, such as gemm_sm90.cuh:123:drop (--calls lists the lines)", text);
  const size_t last = text.rfind(':'), middle = last == std::string::npos || last == 0 ? std::string::npos : text.rfind(':', last - 1);
  if (middle == std::string::npos || middle == 0) throw BadInput(error);
  emulator::Mutation m;
  m.file = text.substr(0, middle);
  const std::string line = text.substr(middle + 1, last - middle - 1), kind = text.substr(last + 1);
  const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), m.line);
  if (code != std::errc() || end != line.data() + line.size() || m.line < 1) throw BadInput(error);
  if (kind == "drop") m.kind = emulator::Mutation::Kind::drop;
  else if (kind == "more") m.kind = emulator::Mutation::Kind::more;
  else if (kind == "less") m.kind = emulator::Mutation::Kind::less;
  else throw BadInput(error);
  return m;
}

std::vector<emulator::Mutation> mutations_from(const std::vector<std::string>& texts) {
  std::vector<emulator::Mutation> all;
  for (const std::string& text : texts) {
    const emulator::Mutation m = mutation_from(text);
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].line == m.line && (all[i].file.ends_with(m.file) || m.file.ends_with(all[i].file)))
        throw BadInput(fmt::format("--mutate {} and --mutate {} break the same call; allowed: one of them", texts[i], text));
    all.push_back(m);
  }
  return all;
}

std::string place_of(const Site& site) {
  if (!site.file) return "";
  const std::string_view file = site.file;
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), site.line);  // npos + 1 is 0
}

void print_accesses(const emulator::Report& report) {
  Table table;
  table.column("access").column("at", Align::left, Table::Narrow::wraps).column("bytes", Align::right).column("requests", Align::right).column("wavefronts", Align::right).column("conflicts", Align::right).column("sectors", Align::right).column("ideal", Align::right).column("mergeable", Align::right, Table::Narrow::wraps);
  for (const emulator::AccessSite& a : report.accesses)
    table.row({a.call, place_of(a.site), std::to_string(a.bytes), std::to_string(a.requests), a.wavefronts ? std::to_string(a.wavefronts) : "", a.wavefronts ? std::to_string(a.bank_conflicts()) : "", a.sectors ? std::to_string(a.sectors) : "", a.sectors ? std::to_string(a.ideal_sectors) : "", a.mergeable ? std::to_string(a.mergeable) : ""});
  fmt::print("\n{}", table.text());
}

void print_calls(const emulator::Report& report) {
  Table table;
  table.column("synchronising call").column("at").column("executions", Align::right);
  for (const emulator::CallSite& c : report.calls) table.row({c.call, place_of(c.site), std::to_string(c.executions)});
  fmt::print("\n{}", table.text());
}

// The product that was asked for, and those that follow in its chain. N and K change places from each to the next, so that
// the D of one is the A of the next, as in the two products of a feed-forward layer. Behind a gated product comes a plain one.
std::vector<ChainLink> chain_of(const Options& options, const Machine& machine) {
  const i64 kernels = whole_number("--chain", options.chain, 1, 16);
  std::vector<ChainLink> chain;
  ProductOptions product = options.product;
  for (i64 i = 0; i < kernels; ++i) {
    const Operation o = product.operation();
    const Problem p = product.problem();
    if (kernels > 1 && o.d != stored_type(o.a)) throw BadInput(fmt::format("--chain {}: D is the next product's A, so --out-dtype must equal --dtype", kernels));
    if (kernels > 1 && o.transpose_a) throw BadInput(fmt::format("--chain {}: D is the next product's A and is not transposed; leave out --transpose-a", kernels));
    const auto given = options.configuration.parse(machine, o, p);
    chain.push_back({o, given ? *given : pick(machine, o, p, options.machine.conditions(machine.sms)), p});
    product.n = std::to_string(p.k), product.k = std::to_string(output_columns(o, p.n));
    if (!options.product.gated.empty()) {
      const bool gate = !product.gated.empty();  // gate and up, down, gate and up, ...
      product.gated = gate ? "" : options.product.gated, product.activation = gate ? "none" : options.product.activation;
      if (!gate) product.n = options.product.n;
    }
  }
  if (options.weights_ready && kernels == 1) throw BadInput("--weights-ready says what kernels of a chain may read before the one before them is complete: it needs --chain 2 or more");
  return chain;
}

// Of A, B and D alone.
double operand_bytes(const std::vector<ChainLink>& chain) {
  double bytes = 0;
  for (const auto& [o, c, p] : chain) bytes += double(p.batch) * (double(p.m) * double(p.k) * size_of(o.a) + double(p.n) * double(p.k) * size_of(o.b) + double(p.m) * double(p.n) * size_of(o.d));
  return bytes;
}

int emulate_command(const Options& options) {
  const Machine machine = options.machine.load();
  const std::vector<ChainLink> chain = chain_of(options, machine);
  const Operation& o = chain.front().operation;
  const Problem& p = chain.front().problem;
  const Configuration& c = chain.front().configuration;
  emulator::Options how;
  how.async = one_of<emulator::Async>("--async", options.async, {{"eager", emulator::Async::eager}, {"lazy", emulator::Async::lazy}, {"random", emulator::Async::random}});
  how.scheduling = one_of<emulator::Scheduling>("--schedule", options.schedule, {{"round-robin", emulator::Scheduling::round_robin}, {"random", emulator::Scheduling::random}, {"priority", emulator::Scheduling::priority}});
  how.seed = u64(whole_number("--seed", options.seed, 0, 0x7fffffffffffffff));
  how.races = one_of<bool>("--checks", options.checks, {{"all", true}, {"no-races", false}});
  how.trace = options.trace;
  how.l2_bytes = u64(machine.l2_bytes / machine.l2_copies);  // what SMs everywhere read comes to stand in every partition
  how.mutations = mutations_from(options.mutate);
  reference::GemmDataOptions data;
  data.values = one_of<reference::Values>("--values", options.values, {{"integers", reference::Values::integers}, {"normal", reference::Values::normal}});
  data.seed = how.seed;
  data.alpha = options.product.alpha_value(), data.beta = options.product.beta_value();
  const int sms = options.machine.sms.empty() ? 4 : int(whole_number("--sms", options.machine.sms, 1, 1024));

  double expected = 0;
  for (const ChainLink& link : chain) expected += expected_seconds(link.configuration, link.problem);
  if (expected > kPatience && !options.force)
    throw BadInput(fmt::format("--m {} --n {} --k {} with {} would take the emulator about {}; choose a smaller product (a few tiles show what a large one would), or insist with --force", p.m, p.n, p.k, text_of(c), time_text(expected)));
  if (const double needed = operand_bytes(chain), present = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE)); needed > present)
    throw NotPossible(fmt::format("--m {} --n {} --k {}: the operands take {} of memory, and this machine has {}", p.m, p.n, p.k, bytes_text(needed), bytes_text(present)));

  std::optional<emulator::Timeline> timeline;
  const auto of_timeline = [](auto&& act) {
    try {
      act();
    } catch (const std::runtime_error& e) {
      throw NotPossible(fmt::format("--timeline: {}", e.what()));
    }
  };
  if (!options.timeline.empty()) of_timeline([&] { how.timeline = &timeline.emplace(options.timeline); });

  // The emulator works in a thread of its own, so that this one can say how long it has been.
  auto work = std::async(std::launch::async, [&] { return emulate_and_check(chain, options.weights_ready, data, how, sms); });
  {
    Progress progress("emulating", 0);
    for (int ticks = 0; work.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready; ++ticks)
      progress.done(ticks / 10, fmt::format(" s of about {:.0f}", std::max(1.0, expected)));
  }
  const EmulatedCheck check = work.get();
  if (timeline) of_timeline([&] { timeline->finish(); });
  // A mutation that changed nothing would look like a kernel that does not need the call.
  for (size_t i = 0; i < how.mutations.size(); ++i) {
    const emulator::Mutation& m = how.mutations[i];
    std::string met;
    bool counted = false;
    for (const emulator::CallSite& c : check.report.calls)
      if (c.site.line == m.line && std::string_view(c.site.file).ends_with(m.file)) met = c.call, counted |= c.counted;
    if (met.empty()) throw BadInput(fmt::format("--mutate {}:{}: no synchronising call of this run stands there; --calls lists them", m.file, m.line));
    if (m.kind != emulator::Mutation::Kind::drop && !counted) throw BadInput(fmt::format("--mutate {}: {} has no count; allowed: drop", options.mutate[i], met));
  }

  if (options.output.json) {
    auto json = envelope("emulate");
    json["product"] = json_of(o, p);
    json["async"] = options.async, json["schedule"] = options.schedule, json["checks"] = options.checks, json["seed"] = how.seed;
    json["mutations"] = options.mutate;
    json["weights_ready"] = options.weights_ready;
    if (timeline) json["timeline"] = options.timeline;
    json["check"] = json_of(check);
    json["calls"] = nlohmann::ordered_json::array();
    for (const auto& c : check.report.calls) json["calls"].push_back({{"call", c.call}, {"at", place_of(c.site)}, {"executions", c.executions}});
    json["accesses"] = nlohmann::ordered_json::array();
    for (const auto& a : check.report.accesses)
      json["accesses"].push_back({{"call", a.call}, {"at", place_of(a.site)}, {"bytes", a.bytes}, {"requests", a.requests}, {"lanes", a.lanes}, {"wavefronts", a.wavefronts}, {"ideal_wavefronts", a.ideal_wavefronts}, {"sectors", a.sectors}, {"ideal_sectors", a.ideal_sectors}, {"mergeable", a.mergeable}});
    if (options.trace) {
      const auto& l2 = check.report.l2;
      json["l2"] = {{"machine", machine.name}, {"bytes", how.l2_bytes}, {"load_sectors", l2.load_sectors}, {"load_hits", l2.load_hits}, {"store_sectors", l2.store_sectors}, {"store_hits", l2.store_hits}};
    }
    print_json(json);
    return check.passed() ? kOk : kCheckFailed;
  }
  fmt::print("{}, {}\n{}\n", shape_text(p), operation_line(check.operation), wrapped(fmt::format("{}{} on {} emulated SMs, {} completion, {} schedule, seed {}", text_of(c), !options.configuration.text.empty() ? "" : fmt::format(" (the model's choice for {})", machine.name), sms, options.async, options.schedule, how.seed)));
  const auto line = [](const char* what, const std::string& text, bool good) { fmt::print("{}", labelled(what, text, good ? Style::good : Style::bad)); };
  const auto judge = [&](const EmulatedCheck& k) {
    line("result", k.result.text(), k.result.passed());
    line("memory", k.damage.empty() ? "nothing written outside D" : k.damage, k.damage.empty());
  };
  judge(check);
  for (size_t i = 0; i < check.after.size(); ++i) {
    const EmulatedCheck& k = check.after[i];
    fmt::print("\n{}\n", wrapped(fmt::format("then kernel {}, launched while the one before it runs: {}, {}{}", i + 2, shape_text(k.problem), text_of(k.configuration), options.weights_ready ? "; its weights are ready" : "")));
    judge(k);
  }
  line("findings", check.report.clean() ? (how.races ? "none: no race, missing wait, deadlock or bad address in this schedule" : "none (races were not looked for)") : fmt::format("{}", check.report.findings.size()), check.report.clean());
  for (const auto& f : check.report.findings) {
    fmt::print("  {} {}{}\n{}", styled(f.kind, Style::bold), place_of(f.site), f.count > 1 ? fmt::format(" ({} times)", f.count) : "", labelled("", f.text, Style::plain, 4));
  }
  const auto& n = check.report.counters;
  if (n.tma_loads || n.wgmmas) {
    fmt::print("{}", labelled("trace", fmt::format("{} TMA boxes loaded ({}), {} warpgroup multiplies, {} boxes stored ({})", n.tma_loads, bytes_text(double(n.tma_load_bytes)), n.wgmmas, n.tma_stores, bytes_text(double(n.tma_store_bytes)))));
  }
  if (timeline) fmt::print("{}", labelled("timeline", options.timeline + ": open it at https://ui.perfetto.dev"));
  fmt::print("{}", labelled("took", fmt::format("{}, {} switches between threads", time_text(check.seconds), count_text(double(n.switches)))));
  if (options.trace) {
    const auto& l2 = check.report.l2;
    fmt::print("{}", labelled("L2", fmt::format("{} of {} load sectors hit ({:.1f} %), {} from DRAM (in this run's order through {} of L2, {}'s, empty at first)", l2.load_hits, l2.load_sectors,
                                                l2.load_sectors ? 100.0 * double(l2.load_hits) / double(l2.load_sectors) : 0.0, bytes_text(32.0 * double(l2.load_sectors - l2.load_hits)), bytes_text(double(how.l2_bytes)), machine.name)));
    print_accesses(check.report);
  }
  if (options.calls) print_calls(check.report);
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
  command->add_option("--schedule", options->schedule, "which thread runs next: round-robin, random or priority [round-robin]")->group("Emulator")->type_name("NAME");
  command->add_option("--seed", options->seed, "of the data and of random schedules [1]")->group("Emulator")->type_name("N");
  command->add_option("--values", options->values, "integers (the result must be exact) or normal [integers]")->group("Emulator")->type_name("NAME");
  command->add_option("--checks", options->checks, "all, or no-races: faster, values, bounds, waits and deadlocks only [all]")->group("Emulator")->type_name("NAME");
  command->add_flag("--trace", options->trace, "count requests, bank conflicts, sectors and hits in the machine's L2")->group("Emulator");
  command->add_flag("--calls", options->calls, "list the synchronising calls, for --mutate")->group("Emulator");
  command->add_option("--mutate", options->mutate, "break one: FILE:LINE:KIND, KIND drop, more or less")->group("Emulator")->type_name("CALL");
  command->add_option("--chain", options->chain, "kernels in a row: each starts while the one before it runs, and takes its D as A [1]")->group("Emulator")->type_name("COUNT");
  command->add_flag("--weights-ready", options->weights_ready, "with --chain: B may be read before the kernel before is complete")->group("Emulator");
  command->add_option("--timeline", options->timeline, "write who waits for what, and what is in flight, for ui.perfetto.dev")->group("Emulator")->type_name("FILE");
  command->add_flag("--force", options->force, "run even if it takes long")->group("Emulator");
  options->output.add_to(*command);
  command->footer(R"(The kernel is the source that runs on the GPU. Everything it reads or writes is checked: values against an fp64
reference, addresses against the operands, each access against the waits that must order it.

Examples:
  foretile emulate --m 100 --n 200 --k 320                                            what the model would choose
  foretile emulate --m 130 --n 256 --k 512 --config sm90:128x128x64:s6:pingpong:b2    one configuration
  foretile emulate --m 64 --n 64 --k 256 --async random --schedule random --seed 7    another schedule
  foretile emulate --m 64 --n 64 --k 256 --trace --calls                              bank conflicts, sectors, barriers
  foretile emulate --m 64 --n 64 --k 256 --mutate gemm_decode.cuh:LINE:drop           what a call of --calls is for
  foretile emulate --m 200 --n 256 --k 512 --timeline run.json                        a picture: roles, waits, copies
  foretile emulate --m 64 --n 256 --k 512 --chain 2 --weights-ready                   dependent launch (PDL)
  foretile emulate --m 16 --n 256 --k 512 --gated halves --activation silu --chain 2  a feed-forward layer
Exit code 1 when the result is wrong or anything was found.)");
  command->callback([options, &action] { action = [options] { return emulate_command(*options); }; });
}

}  // namespace foretile::cli
