// foretile verify: random products, each checked against an fp64 reference. On the GPU where there is one, else in the
// emulator.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "bench/gpu.h"
#include "bench/verify.h"
#include "cli/cli.h"
#include "cli/emulated.h"
#include "cli/options.h"
#include "cli/parallel.h"
#include "cli/terminal.h"
#include "emulator/library/built_in.h"
#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "model/text.h"

namespace foretile::cli {

namespace {

struct Options {
  std::string count, seed = "1", only, on = "auto", config, gated, compute = "exact";
  Output output;
};

struct Case {
  Operation operation;
  Configuration configuration;
  Problem problem;
  reference::GemmDataOptions data;
  emulator::Options how;
  int sms = 1;
};

// Those that the emulator has built in and that gate like this; none where nothing is to be gated.
std::vector<emulator::BuiltIn> gated_kernels(const std::optional<Configuration>& configuration, Gating gating) {
  std::vector<emulator::BuiltIn> list;
  for (const emulator::BuiltIn& k : emulator::built_in_kernels())
    if (gating != Gating::none && k.operation.gating == gating && (!configuration || k.configuration == *configuration)) list.push_back(k);
  return list;
}

// Everything about case `index` follows from the seed, so that one case can be run again alone.
Case random_case(u64 seed, u64 index, const std::optional<Configuration>& configuration, Gating gating, Compute compute) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15ull + index);
  const auto below = [&](i64 n) { return i64(random() % u64(n)); };
  Case c;
  const std::vector<emulator::BuiltIn> gated = gated_kernels(configuration, gating);
  if (!gated.empty()) {
    const emulator::BuiltIn& kernel = gated[size_t(below(i64(gated.size())))];
    c.operation = kernel.operation, c.configuration = kernel.configuration;
  }
  while (gated.empty()) {
    c.operation = catalogue::kOperations[below(std::size(catalogue::kOperations))].operation;
    c.configuration = catalogue::kConfigurations[below(std::size(catalogue::kConfigurations))];
    if (configuration) c.configuration = *configuration;
    if (compute == Compute::tf32 && c.operation.a != DType::tf32) continue;
    if (!why_not(c.operation, c.configuration)) break;
  }
  // Odd sizes, down to one; small enough for a case to take about a second.
  const bool simt = c.configuration.family == Family::simt;
  c.problem.m = 1 + below(simt ? 70 : 200), c.problem.n = 1 + below(simt ? 70 : 260), c.problem.k = 1 + below(simt ? 70 : 400);
  if (below(4) == 0) c.problem.batch = 2, c.problem.k = 1 + c.problem.k / 3;
  if (c.operation.gating != Gating::none) c.problem.n += c.problem.n % 2;
  c.problem.k += decode::kSliceUnit * (c.configuration.split_k - 1);  // a slice for every block of a cluster
  const auto padding = [&](DType type, i64 inner, Alignment wanted) -> i64 {
    if (wanted == Alignment::any) return below(5);
    const i64 unit = 16 / size_of(type);  // rows on 16-byte boundaries, whatever the row's own length
    return round_up(inner, unit) - inner + unit * below(3);
  };
  reference::GemmDataOptions& d = c.data;
  d.values = reference::Values::integers;
  d.seed = random();
  d.a.ld_padding = padding(c.operation.a, c.operation.transpose_a ? c.problem.m : c.problem.k, c.operation.inputs);
  d.b.ld_padding = padding(c.operation.b, c.operation.transpose_b ? c.problem.n : c.problem.k, c.operation.inputs);
  d.d.ld_padding = padding(c.operation.d, output_columns(c.operation, c.problem.n), c.operation.output);
  d.c.ld_padding = below(4), d.residual.ld_padding = below(4), d.bias.pointer_offset = below(4);
  if (c.operation.inputs == Alignment::any) d.a.pointer_offset = below(8), d.b.pointer_offset = below(8);
  if (c.operation.output == Alignment::any) d.d.pointer_offset = below(8);
  d.b.broadcast = below(2) == 0;
  d.alpha = float(below(4) - 1), d.beta = c.operation.has_c ? float(below(4) - 1) : 0;
  // Activations other than ReLU round; their operands need not be integers.
  if (c.operation.activation != Activation::none && c.operation.activation != Activation::relu) d.values = reference::Values::normal;
  if (c.operation.a == DType::tf32) d.values = reference::Values::normal;  // integers would not show what is cut
  c.how.async = emulator::Async(below(3)), c.how.scheduling = emulator::Scheduling(below(3)), c.how.seed = random();
  c.sms = int(2 + 2 * below(2));
  return c;
}

Compute compute_of(const Options& options) {
  const Compute compute = parse_compute(options.compute, "fp32");
  if (compute == Compute::tf32 && !options.gated.empty()) throw BadInput("--compute tf32 does not go with --gated: gated products are of 16-bit types");
  return compute;
}

std::optional<Configuration> configuration_of(const Options& options) {
  if (options.config.empty()) return std::nullopt;
  std::string error;
  const auto c = configuration_from(options.config, error);
  if (!c) throw BadInput(fmt::format("--config: {} (foretile choose lists configurations)", error));
  const char* first = nullptr;  // reason why not
  for (const auto& named : catalogue::kOperations) {
    if (compute_of(options) == Compute::tf32 && named.operation.a != DType::tf32) continue;
    const char* const reason = why_not(named.operation, *c);
    if (!reason) return c;
    if (!first) first = reason;
  }
  throw BadInput(fmt::format("--config {} computes none of the operations that are tried: {}", options.config, first));
}

int verify_on_gpu(const Options& options) {
  bench::VerifyOptions v;
  v.count = options.count.empty() ? 2000 : int(whole_number("--count", options.count, 1, 1000000));
  v.seed = u64(whole_number("--seed", options.seed, 0, 0x7fffffff));
  if (!options.only.empty()) v.only = int(whole_number("--only", options.only, 0, 999999));
  v.configuration = configuration_of(options);
  if (!options.gated.empty()) v.gating = parse_gating(options.gated);
  v.compute = compute_of(options);
  Progress progress("on the GPU", 0);
  v.progress = [&](const std::string& line) { progress.say(line); };
  const bench::VerifyResult r = bench::verify(v);
  progress.finish();
  if (options.output.json) {
    auto json = envelope("verify");
    json["on"] = "gpu";
    json["seed"] = v.seed, json["count"] = r.cases;
    json["exact"] = r.exact, json["empty"] = r.empty, json["worst_bound_used"] = r.worst, json["seconds"] = r.seconds;
    json["failed"] = r.failures.size();
    json["failures"] = nlohmann::ordered_json::array();
    for (const bench::VerifyFailure& f : r.failures) json["failures"].push_back({{"case", f.index}, {"problem", f.problem}, {"what", f.what}});
    print_json(json);
  } else {
    fmt::print("{}", r.text());
  }
  return r.passed() ? kOk : kCheckFailed;
}

// One case of a run again, with all that is known of it.
int verify_one(const Options& options, const std::optional<Configuration>& configuration, u64 seed, u64 index) {
  const Case c = random_case(seed, index, configuration, parse_gating(options.gated), compute_of(options));
  const EmulatedCheck check = emulate_and_check(c.operation, c.configuration, c.problem, c.data, c.how, c.sms);
  if (options.output.json) {
    auto json = envelope("verify");
    json["on"] = "emulator";
    json["seed"] = seed, json["count"] = 1, json["failed"] = check.passed() ? 0 : 1;
    json["case"] = json_of(check);
    print_json(json);
  } else {
    fmt::print("case {}: {} {}, {}\n{}\n{}", index, shape_text(c.problem), text_of(check.operation), text_of(c.configuration), check.passed() ? styled("right: " + check.result.text(), Style::good) : styled(check.failure(), Style::bad), check.report.clean() ? "" : check.report.text());
  }
  return check.passed() ? kOk : kCheckFailed;
}

int verify_in_emulator(const Options& options) {
  const int count = options.count.empty() ? 200 : int(whole_number("--count", options.count, 1, 1000000));
  const u64 seed = u64(whole_number("--seed", options.seed, 0, 0x7fffffff));
  const auto configuration = configuration_of(options);
  const Gating gating = parse_gating(options.gated);
  const Compute compute = compute_of(options);
  if (gating != Gating::none && gated_kernels(configuration, gating).empty())
    throw BadInput(fmt::format("--config {} with --gated {}: the emulator has no such kernel built in; leave out --config", options.config, options.gated));
  if (!options.only.empty()) return verify_one(options, configuration, seed, u64(whole_number("--only", options.only, 0, 999999)));
  std::vector<EmulatedCheck> checks(static_cast<size_t>(count));
  Progress progress("checking", count);
  std::atomic<int> done{0};
  in_parallel(count, [&](int i) {
    const Case c = random_case(seed, u64(i), configuration, gating, compute);
    checks[size_t(i)] = emulate_and_check(c.operation, c.configuration, c.problem, c.data, c.how, c.sms);
    progress.done(++done, fmt::format("{} {}", shape_text(c.problem), text_of(c.configuration)));
  });
  progress.finish();

  i64 failed = 0, elements = 0, exact = 0;
  std::map<std::string, std::pair<int, int>> by_family;  // cases, failures
  auto json = envelope("verify");
  json["on"] = "emulator";
  json["seed"] = seed, json["count"] = count;
  json["failures"] = nlohmann::ordered_json::array();
  for (int i = 0; i < count; ++i) {
    const EmulatedCheck& c = checks[size_t(i)];
    auto& family = by_family[std::string(name_of(c.configuration.family))];
    ++family.first;
    elements += c.result.elements, exact += c.result.exact;
    if (c.passed()) continue;
    ++failed, ++family.second;
    auto row = json_of(c);
    row["case"] = i;
    json["failures"].push_back(row);
    if (!options.output.json) fmt::print("case {}: {} {}, {}\n  {}\n", i, shape_text(c.problem), text_of(c.operation), text_of(c.configuration), styled(c.failure(), Style::bad));
  }
  json["failed"] = failed, json["elements"] = elements, json["exact_elements"] = exact;
  if (options.output.json) {
    print_json(json);
  } else {
    fmt::print("{} random products in the emulator (seed {}): {}\n", count, seed, failed ? styled(fmt::format("{} failed", failed), Style::bad) : styled("all right", Style::good));
    for (const auto& [name, numbers] : by_family) fmt::print("  {}: {} cases, {} failed\n", name, numbers.first, numbers.second);
    fmt::print("{}", labelled("", fmt::format("{} elements of D checked against fp64, {} of them with one value possible; no byte outside D, no race, no deadlock tolerated", elements, exact), Style::plain, 2));
  }
  return failed ? kCheckFailed : kOk;
}

int verify_command(const Options& options) {
  if (options.on != "auto" && options.on != "gpu" && options.on != "cpu") throw BadInput(fmt::format("--on is \"{}\"; allowed: auto, gpu, cpu", options.on));
  const std::string reason = options.on == "cpu" ? "not asked for" : bench::Gpu::why_not();
  if (options.on == "gpu" && !reason.empty()) throw NotPossible(fmt::format("no usable GPU: {}", reason));
  return reason.empty() ? verify_on_gpu(options) : verify_in_emulator(options);
}

}  // namespace

void add_verify(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("verify", "random products against an fp64 reference, odd sizes and strides included");
  command->add_option("--count", options->count, "how many [2000 on a GPU, 200 in the emulator]")->type_name("N");
  command->add_option("--seed", options->seed, "which ones: the same seed gives the same products [1]")->type_name("N");
  command->add_option("--only", options->only, "run this case of them alone")->type_name("N");
  command->add_option("--config", options->config, "always this configuration [drawn from the catalogue]")->type_name("TEXT");
  command->add_option("--gated", options->gated, "gated products alone: halves or interleaved [some, on a Hopper GPU]")->type_name("LAYOUT");
  command->add_option("--compute", options->compute, "tf32: products of fp32 in tf32 alone [all kinds]")->type_name("NAME");
  command->add_option("--on", options->on, "gpu, cpu (the emulator), or auto: the GPU where there is one [auto]")->type_name("NAME");
  options->output.add_to(*command);
  command->footer(R"(Examples:
  foretile verify --count 50
  foretile verify --count 50 --seed 7 --only 31                                     one case again
  foretile verify --count 20 --gated interleaved
  foretile verify --count 20 --compute tf32
  foretile verify --count 2000 --seed 7 --json
Exit code 1 when one fails; each failure prints its case.)");
  command->callback([options, &action] { action = [options] { return verify_command(*options); }; });
}

}  // namespace foretile::cli
