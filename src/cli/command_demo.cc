// foretile demo: the layers of real models, each forecast, and each chosen kernel checked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "bench/bench.h"
#include "bench/gpu.h"
#include "cli/cli.h"
#include "cli/emulated.h"
#include "cli/json_rows.h"
#include "cli/layers.h"
#include "cli/options.h"
#include "cli/parallel.h"
#include "cli/terminal.h"
#include "model/text.h"

namespace foretile::cli {

namespace {

constexpr double kSecondsPerCheck = 0.8;  // the emulator's share of each row

struct Options {
  MachineOptions machine;
  std::string on = "auto";
  Output output;
};

struct Row {
  const Model* model = nullptr;
  const Layer* layer = nullptr;
  Operation operation;
  Problem problem;
  Configuration configuration;
  Forecast forecast;
  EmulatedCheck check;
};

std::vector<Row> forecasts(const ModelFile& file, const Machine& machine, const Conditions& conditions) {
  std::vector<Row> rows;
  for (const Model& model : file.models)
    for (const i64 tokens : file.tokens)
      for (const Layer& layer : model.layers) {
        ProductOptions product;
        product.m = std::to_string(tokens), product.n = std::to_string(layer.n), product.k = std::to_string(layer.k);
        product.dtype = name_of(model.dtype);
        Row row{.model = &model, .layer = &layer, .operation = product.operation(), .problem = product.problem()};
        row.configuration = pick(machine, row.operation, row.problem, conditions);
        row.forecast = forecast(machine, row.operation, row.configuration, row.problem, conditions);
        rows.push_back(std::move(row));
      }
  return rows;
}

// The largest work whose expected time fits.
double budget(const Configuration& c) {
  Problem one{.m = c.tile_m, .n = c.tile_n, .k = c.tile_k};
  const double start = expected_seconds(c, {}), per_work = (expected_seconds(c, one) - start) / emulated_work(c, one);
  return (kSecondsPerCheck - start) / per_work;
}

void emulate_rows(std::vector<Row>& rows) {
  Progress progress("checking kernels in the emulator", int(rows.size()));
  std::atomic<int> done{0};
  in_parallel(int(rows.size()), [&](int i) {
    Row& row = rows[size_t(i)];
    const Problem small = cut(row.configuration, row.problem, budget(row.configuration));
    // Two SMs (or a pair of clusters): fewer blocks than tiles, so that the persistent loop turns.
    const int sms = 2 * row.configuration.cluster_m * row.configuration.cluster_n;
    row.check = emulate_and_check(row.operation, row.configuration, small, {.seed = u64(i) + 1}, {.seed = u64(i)}, sms);
    progress.done(++done, fmt::format("{}.{} at {} tokens", row.model->id, row.layer->name, row.problem.m));
  });
}

// The rows in the order they are shown, under the name of their model.
template <class Rows, class Print> void by_model(const ModelFile& file, Table& table, const Rows& rows, const Print& print) {
  size_t i = 0;
  for (const Model& model : file.models) {
    table.section(model.name);
    for (size_t j = 0; j < model.layers.size() * file.tokens.size(); ++j, ++i) print(model.layers[j % model.layers.size()], rows[i]);
  }
}

int demo_on_gpu(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const ModelFile file = load_models();
  bench::BenchOptions b;
  b.in = b.out = DType::bf16;
  b.rounds = 3;  // a demonstration: foretile bench takes the six that give an interval
  for (const Model& model : file.models) {
    if (model.dtype != b.in) throw std::runtime_error(fmt::format("models.toml: {} is {}; the demo measures bf16 layers", model.name, name_of(model.dtype)));
    for (const i64 tokens : file.tokens)
      for (const Layer& layer : model.layers) b.shapes.push_back({model.id + "." + layer.name, tokens, layer.n, layer.k});
  }
  Progress progress("measured", int(b.shapes.size()));
  int done = 0;
  b.progress = [&](const std::string& line) { progress.done(++done, line); };
  const bench::BenchReport report = bench::bench(b);
  progress.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  size_t failed = 0;
  for (const bench::BenchRow& r : report.rows) failed += r.verified != "ok";
  const bool passed = failed == 0 && report.rows.size() == b.shapes.size();

  if (options.output.json) {
    auto json = envelope("demo");
    json["on"] = "gpu", json["gpu"] = report.gpu, json["driver"] = report.driver, json["cublaslt"] = report.cublaslt, json["date"] = report.date;
    json["seconds"] = seconds;
    json["rows"] = nlohmann::ordered_json::array();
    for (const bench::BenchRow& r : report.rows) json["rows"].push_back(json_of(r));
    if (!report.cublaslt.empty()) json["geometric_mean"] = report.geometric_mean(), json["worst"] = report.worst();
    json["failed"] = failed;
    print_json(json);
    return passed ? kOk : kCheckFailed;
  }
  const bool compared = !report.cublaslt.empty();
  fmt::print("{}", wrapped(fmt::format("Layers of real models on {}, driver {}: D[m,n] = A[m,k] x W[n,k]^T", report.gpu, report.driver)));
  Table table;
  table.column("layer").column("m", Align::right).column("n", Align::right).column("k", Align::right).column("dtype", Align::left, Table::Narrow::optional).column("configuration");
  table.column("forecast", Align::right).column("measured", Align::right).column("bound by", Align::left, Table::Narrow::optional);
  if (compared) table.column("of cuBLASLt", Align::right);
  table.column("ok");
  by_model(file, table, report.rows, [&](const Layer& layer, const bench::BenchRow& r) {
    std::vector<Table::Cell> cells = {layer.name, std::to_string(r.shape.m), std::to_string(r.shape.n), std::to_string(r.shape.k), std::string(name_of(b.in)), r.configuration,
                                      r.forecast_microseconds > 0 ? time_text(r.forecast_microseconds * 1e-6) : "-", {time_text(r.microseconds * 1e-6), Style::bold}, r.forecast_bound};
    if (compared) cells.emplace_back(r.ratio.median > 0 ? fmt::format("{:.2f}", r.ratio.median) : "-");
    cells.push_back(r.verified == "ok" ? Table::Cell("yes", Style::good) : Table::Cell("NO", Style::bad));
    table.row(std::move(cells));
  });
  fmt::print("{}\n", table.text());
  for (const bench::BenchRow& r : report.rows)
    if (r.verified != "ok") fmt::print("{} at {} tokens, {}: {}\n", r.shape.name, r.shape.m, r.configuration, styled(r.verified, Style::bad));
  if (compared) fmt::print("{}", wrapped(fmt::format("of cuBLASLt: the time of its best candidate over ours, above 1 is faster; geometric mean {:.3f}, worst {:.3f} (cuBLASLt {})", report.geometric_mean(), report.worst(), report.cublaslt)));
  else fmt::print("{}", wrapped("no ratio to cuBLASLt: " + report.cublaslt_missing));
  fmt::print("{}", wrapped(fmt::format("ok: D agrees with an fp64 reference on sampled rows{}.", compared ? ", and in every element with cuBLASLt's" : "")));
  fmt::print("{} layers measured, {} of {} checks passed, {:.0f} s\n", report.rows.size(), report.rows.size() - failed, report.rows.size(), seconds);
  return passed ? kOk : kCheckFailed;
}

int demo_in_emulator(const Options& options, const std::string& no_gpu) {
  const auto start = std::chrono::steady_clock::now();
  const Machine machine = options.machine.load();
  const Conditions conditions = options.machine.conditions(machine.sms);
  const ModelFile file = load_models();
  std::vector<Row> rows = forecasts(file, machine, conditions);
  emulate_rows(rows);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  int failed = 0;
  for (const Row& row : rows) failed += !row.check.passed();

  if (options.output.json) {
    auto json = envelope("demo");
    json["on"] = "emulator", json["machine"] = machine.name;
    json["regime"] = options.machine.regime;
    json["seconds"] = seconds;
    json["rows"] = nlohmann::ordered_json::array();
    for (const Row& row : rows) {
      auto r = json_of(row.operation, row.problem);
      r["model"] = row.model->name, r["layer"] = row.model->id + "." + row.layer->name;
      r["configuration"] = text_of(row.configuration);
      r["forecast"] = json_of(row.forecast);
      r["check"] = json_of(row.check);
      json["rows"].push_back(r);
    }
    json["failed"] = failed;
    print_json(json);
    return failed ? kCheckFailed : kOk;
  }

  fmt::print("{}", wrapped(fmt::format("Forecasts of real models' layers on {}, {}: D[m,n] = A[m,k] x W[n,k]^T", machine.full_name, regime_text(conditions))));
  Table table;
  table.column("layer").column("m", Align::right).column("n", Align::right).column("k", Align::right).column("dtype", Align::left, Table::Narrow::optional).column("configuration");
  table.column("time", Align::right).column("bound by").column("ok").column("checked at", Align::left, Table::Narrow::optional);
  by_model(file, table, rows, [&](const Layer&, const Row& row) {
    const Problem& p = row.problem;
    const Problem& q = row.check.problem;
    table.row({row.layer->name, std::to_string(p.m), std::to_string(p.n), std::to_string(p.k), std::string(name_of(row.operation.a)), text_of(row.configuration), time_text(row.forecast.seconds), name_of(row.forecast.bound),
               row.check.passed() ? Table::Cell("yes", Style::good) : Table::Cell("NO", Style::bad), fmt::format("{}x{}x{}", q.m, q.n, q.k)});
  });
  fmt::print("{}\n", table.text());
  for (const Row& row : rows)
    if (!row.check.passed()) fmt::print("{}.{} at {} tokens, {}: {}\n", row.model->id, row.layer->name, row.problem.m, text_of(row.configuration), styled(row.check.failure(), Style::bad));
  fmt::print("{}", wrapped(fmt::format("ok: {}, so the kernel's own source ran in the CPU emulator, in the configuration chosen, on each problem cut to what takes it a second or less "
                                       "(\"checked at\"), against an fp64 reference. Every value had to be exact; a race, a missing wait or a bad address would have failed too.", no_gpu)));
  fmt::print("{} forecasts, {} of {} checks passed, {:.0f} s\n", rows.size(), rows.size() - size_t(failed), rows.size(), seconds);
  return failed ? kCheckFailed : kOk;
}

int demo_command(const Options& options) {
  if (options.on != "auto" && options.on != "gpu" && options.on != "cpu") throw BadInput(fmt::format("--on is \"{}\"; allowed: auto, gpu, cpu", options.on));
  const std::string reason = options.on == "cpu" ? "" : bench::Gpu::why_not();
  if (options.on == "gpu" && !reason.empty()) throw NotPossible(fmt::format("no usable GPU: {}", reason));
  if (options.on != "cpu" && reason.empty()) return demo_on_gpu(options);
  return demo_in_emulator(options, options.on == "cpu" ? "the GPU was not asked for" : "there is no usable GPU here");
}

}  // namespace

void add_demo(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("demo", "layers of real models: forecast each, check each kernel, measure where there is a GPU");
  options->machine.add_to(*command);
  command->add_option("--on", options->on, "gpu, cpu (the emulator), or auto: the GPU where there is one [auto]")->type_name("NAME");
  options->output.add_to(*command);
  command->footer(R"(Llama-3-8B, Llama-3-70B over 8 GPUs and DeepSeek-V3 at 1, 32 and 4096 tokens. Without a GPU each chosen kernel runs in the
CPU emulator on a problem cut to about a second; with one it runs there, measured beside the forecast.

Examples:
  foretile demo
  foretile demo --machine a100 --json)");
  command->callback([options, &action] { action = [options] { return demo_command(*options); }; });
}

}  // namespace foretile::cli
