// foretile bench: our products beside cuBLASLt's best candidate, on the GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "bench/bench.h"
#include "bench/gated.h"
#include "bench/gpu.h"
#include "cli/cli.h"
#include "cli/json_rows.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "foretile/device/catalogue.h"
#include "model/text.h"

namespace foretile::cli {

namespace {

struct Options {
  std::string m, n, k, suite, dtype = "bf16", out_dtype, compute = "exact", config, rounds = "6", csv, winners;
  bool no_baseline = false, floor = false, gated = false;
  bench::CallMode mode;
  Output output;
};

DType type_of(const std::string& option, const std::string& text) {
  if (text == "bf16" || text == "fp16" || text == "fp32") return *dtype_from(text);
  throw BadInput(fmt::format("{} is \"{}\"; allowed: bf16, fp16, fp32", option, text));
}

std::vector<bench::Shape> shapes_of(const Options& options) {
  const bool named = !options.suite.empty();
  if (named && !(options.n.empty() && options.k.empty())) throw BadInput("--suite names its own shapes: leave --n and --k out");
  const std::string ms = !options.m.empty() ? options.m : options.gated ? "1,8,16,32,64,96" : "2048,4096";
  try {
    if (options.gated && (options.suite.empty() ? options.n.empty() && options.k.empty() : options.suite == "layers")) return bench::gated_layers(bench::parse_sizes(ms));
    if (named) return bench::suite_shapes(options.suite, bench::parse_sizes(ms));
    if (options.n.empty() && options.k.empty()) return bench::suite_shapes("layers", bench::parse_sizes(ms));
    if (options.m.empty() || options.n.empty() || options.k.empty()) throw BadInput("one product needs --m, --n and --k; --suite layers or squares takes --m alone");
    std::vector<bench::Shape> shapes;
    const i64 n = whole_number("--n", options.n, 1, 1 << 24), k = whole_number("--k", options.k, 1, 1 << 24);
    for (const i64 m : bench::parse_sizes(ms)) shapes.push_back({fmt::format("{}x{}x{}", m, n, k), m, n, k});
    return shapes;
  } catch (const std::invalid_argument& e) {
    throw BadInput(fmt::format("{}: {}", named ? "--suite or --m" : "--m", e.what()));
  }
}

std::vector<Configuration> configurations_of(const std::string& text) {
  if (text.empty()) return {};
  if (text == "all") return {std::begin(catalogue::kConfigurations), std::end(catalogue::kConfigurations)};
  std::string error;
  const auto c = configuration_from(text, error);
  if (!c) throw BadInput(fmt::format("--config: {}, or all (foretile choose lists configurations)", error));
  return {*c};
}

void need_gpu() {
  if (const std::string reason = bench::Gpu::why_not(); !reason.empty())
    throw NotPossible(fmt::format("no usable GPU: {}. foretile choose and explain forecast without one", reason));
}

int bench_gated_command(const Options& options) {
  for (const auto& [given, name] : {std::pair{!options.out_dtype.empty(), "--out-dtype"}, {!options.config.empty(), "--config"}, {options.compute != "exact", "--compute"}, {options.no_baseline, "--no-baseline"}, {options.floor, "--floor"}})
    if (given) throw BadInput(fmt::format("{} does not go with --gated: D has the type of A and B, the configuration is the library's choice, and the only other arm is what is compared with", name));
  bench::GatedOptions g;
  g.shapes = shapes_of(options);
  g.type = type_of("--dtype", options.dtype);
  g.mode = options.mode;
  g.rounds = int(whole_number("--rounds", options.rounds, 1, 1000));
  g.winners_path = options.winners, g.csv = options.csv;
  need_gpu();
  Progress progress("measured", int(g.shapes.size()));
  int done = 0;
  g.progress = [&](const std::string& line) { progress.done(++done, line); };
  bench::GatedReport report;
  try {
    report = bench::bench_gated(g);
  } catch (const std::invalid_argument& e) {
    throw BadInput(e.what());
  }
  progress.finish();

  if (options.output.json) {
    auto json = envelope("bench.gated");
    json["gpu"] = report.gpu, json["driver"] = report.driver, json["cublaslt"] = report.cublaslt, json["date"] = report.date;
    json["dtype"] = report.dtype, json["mode"] = report.mode, json["copy_bytes_per_second"] = report.copy_bytes_per_second;
    json["rows"] = nlohmann::ordered_json::array();
    for (const bench::GatedRow& r : report.rows)
      json["rows"].push_back({{"shape", r.shape.name}, {"m", r.shape.m}, {"n", r.shape.n}, {"k", r.shape.k}, {"configuration", r.configuration}, {"seconds", r.microseconds * 1e-6}, {"forecast_seconds", r.forecast_microseconds * 1e-6},
                              {"pair_seconds", r.pair_microseconds * 1e-6}, {"cublaslt_seconds", r.product_microseconds * 1e-6}, {"gate_seconds", r.gate_microseconds * 1e-6}, {"gate_bytes_per_second", r.gate_bytes_per_second},
                              {"ratio", r.ratio.median}, {"ratio_interval", {r.ratio.low, r.ratio.high}}, {"bound_used", r.bound_used}, {"verified", r.verified}});
    json["geometric_mean"] = report.geometric_mean(), json["worst"] = report.worst(), json["verified"] = report.verified();
    print_json(json);
    return report.verified() ? kOk : kCheckFailed;
  }
  fmt::print("{}, driver {}, {}, {}, ours {}\nSwiGLU in one kernel against the best candidate of cuBLASLt {} and a gating kernel; n counts both halves\n\n", report.gpu, report.driver, report.dtype, report.date, report.mode, report.cublaslt);
  Table table;
  table.column("shape").column("m", Align::right).column("n", Align::right, Table::Narrow::optional).column("k", Align::right, Table::Narrow::optional).column("configuration", Align::left, Table::Narrow::wraps).column("measured", Align::right).column("forecast", Align::right);
  table.column("the pair", Align::right).column("gating", Align::right, Table::Narrow::optional).column("ratio", Align::right).column("95 %", Align::left, Table::Narrow::optional).column("check");
  for (const bench::GatedRow& r : report.rows)
    table.row({r.shape.name, std::to_string(r.shape.m), std::to_string(r.shape.n), std::to_string(r.shape.k), r.configuration, time_text(r.microseconds * 1e-6), time_text(r.forecast_microseconds * 1e-6), time_text(r.pair_microseconds * 1e-6),
               time_text(r.gate_microseconds * 1e-6), fmt::format("{:.3f}", r.ratio.median), fmt::format("{:.3f}-{:.3f}", r.ratio.low, r.ratio.high), r.verified == "ok" ? Table::Cell("ok", Style::good) : Table::Cell("FAILED", Style::bad)});
  fmt::print("{}\n", table.text());
  for (const bench::GatedRow& r : report.rows)
    if (r.verified != "ok") fmt::print("{} at m = {}, {}: {}\n", r.shape.name, r.shape.m, r.configuration, styled(r.verified, Style::bad));
  fmt::print("ratio: the pair's time over ours, above 1 is faster. Geometric mean {:.3f}, worst {:.3f}\n", report.geometric_mean(), report.worst());
  fmt::print("copy rate {:.0f} GB/s, read and written; the gating kernel alone reaches {:.2f} of it at m = {}\n", report.copy_bytes_per_second * 1e-9, report.rows.back().gate_bytes_per_second / report.copy_bytes_per_second, report.rows.back().shape.m);
  return report.verified() ? kOk : kCheckFailed;
}

int bench_command(const Options& options) {
  if (options.gated) return bench_gated_command(options);
  bench::BenchOptions b;
  b.shapes = shapes_of(options);
  const DType stored = type_of("--dtype", options.dtype);
  b.in = input_type(stored, parse_compute(options.compute, options.dtype));
  b.out = options.out_dtype.empty() ? stored : type_of("--out-dtype", options.out_dtype);
  b.configurations = configurations_of(options.config);
  b.baseline = !options.no_baseline;
  b.floor = options.floor;
  b.mode = options.mode;
  b.rounds = int(whole_number("--rounds", options.rounds, 1, 1000));
  b.winners_path = options.winners, b.csv = options.csv;
  need_gpu();
  Progress progress("measured", int(b.shapes.size() * std::max<size_t>(1, b.configurations.size())));
  int done = 0;
  b.progress = [&](const std::string& line) { progress.done(++done, line); };
  bench::BenchReport report;
  try {
    report = bench::bench(b);
  } catch (const std::invalid_argument& e) {
    throw BadInput(e.what());
  }
  progress.finish();

  if (options.output.json) {
    auto json = envelope("bench");
    json["gpu"] = report.gpu, json["driver"] = report.driver, json["cublaslt"] = report.cublaslt, json["date"] = report.date;
    json["power_limit_watts"] = report.power_limit_watts, json["dtype"] = report.dtype;
    json["rows"] = nlohmann::ordered_json::array();
    for (const bench::BenchRow& r : report.rows) json["rows"].push_back(json_of(r));
    if (!report.cublaslt.empty()) json["geometric_mean"] = report.geometric_mean(), json["worst"] = report.worst();
    json["verified"] = report.verified();
    print_json(json);
    return report.verified() ? kOk : kCheckFailed;
  }
  fmt::print("{}, driver {}, {}, {}\n{}\n\n", report.gpu, report.driver, report.dtype, report.date, report.cublaslt.empty() ? "no cuBLASLt: " + (b.baseline ? report.cublaslt_missing : std::string("not asked for")) : "against the best candidate of cuBLASLt " + report.cublaslt);
  Table table;
  table.column("shape").column("m", Align::right).column("n", Align::right, Table::Narrow::optional).column("k", Align::right, Table::Narrow::optional).column("configuration", Align::left, Table::Narrow::wraps).column("measured", Align::right).column("forecast", Align::right).column("TFLOP/s", Align::right, Table::Narrow::optional);
  table.column("cuBLASLt", Align::right, Table::Narrow::optional).column("ratio", Align::right).column("95 %", Align::left, Table::Narrow::optional).column("MHz", Align::right, Table::Narrow::optional).column("W", Align::right, Table::Narrow::optional);
  if (b.floor) table.column("floor", Align::right).column("share", Align::right);
  table.column("check");
  for (const bench::BenchRow& r : report.rows) {
    const bool compared = r.baseline_microseconds > 0;
    std::vector<Table::Cell> cells = {r.shape.name, std::to_string(r.shape.m), std::to_string(r.shape.n), std::to_string(r.shape.k), r.configuration, time_text(r.microseconds * 1e-6), time_text(r.forecast_microseconds * 1e-6), fmt::format("{:.0f}", r.teraflops),
               compared ? time_text(r.baseline_microseconds * 1e-6) : "-", compared ? fmt::format("{:.3f}", r.ratio.median) : "-", compared ? fmt::format("{:.3f}-{:.3f}", r.ratio.low, r.ratio.high) : "", fmt::format("{:.0f}", r.mhz), fmt::format("{:.0f}", r.watts)};
    if (b.floor) cells.insert(cells.end(), {time_text(r.floor_microseconds * 1e-6), fmt::format("{:.3f}", r.share_of_floor())});
    cells.push_back(r.verified == "ok" ? Table::Cell("ok", Style::good) : Table::Cell("FAILED", Style::bad));
    table.row(std::move(cells));
  }
  fmt::print("{}\n", table.text());
  for (const bench::BenchRow& r : report.rows)
    if (r.verified != "ok") fmt::print("{} at m = {}, {}: {}\n", r.shape.name, r.shape.m, r.configuration, styled(r.verified, Style::bad));
  if (!report.cublaslt.empty()) fmt::print("ratio: cuBLASLt's time over ours, above 1 is faster. Geometric mean {:.3f}, worst {:.3f}\n", report.geometric_mean(), report.worst());
  if (b.floor) fmt::print("floor: the time in which a ring of bulk copies reads B and nothing is computed, launched as ours; share: that over our time\n");
  return report.verified() ? kOk : kCheckFailed;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "measure against cuBLASLt's best candidate, beside the forecast; needs a GPU");
  command->add_option("--m", options->m, "rows, one or several: 1,32,4096 [2048,4096]")->group("Product")->type_name("N,...");
  command->add_option("--n", options->n, "columns of D")->group("Product")->type_name("N");
  command->add_option("--k", options->k, "length of each sum")->group("Product")->type_name("N");
  command->add_option("--suite", options->suite, "layers (of real models), squares (M = N = K), or MxNxK,MxNxK [layers]")->group("Product")->type_name("NAME");
  command->add_option("--dtype", options->dtype, "of A and B: bf16, fp16 or fp32 [bf16]")->group("Product")->type_name("TYPE");
  command->add_option("--out-dtype", options->out_dtype, "of D [as A and B]")->group("Product")->type_name("TYPE");
  command->add_option("--compute", options->compute, "of fp32: exact or tf32, cuBLASLt's alike [exact]")->group("Product")->type_name("NAME");
  command->add_option("--config", options->config, "one configuration, or all of the catalogue [the library's choice]")->group("Measurement")->type_name("TEXT");
  command->add_option("--rounds", options->rounds, "of both arms in turn; six give the median's 95 % interval [6]")->group("Measurement")->type_name("N");
  command->add_flag("--gated", options->gated, "SwiGLU in one kernel, against cuBLASLt and a gating kernel behind it; layers: those with gate and up columns")->group("Measurement");
  command->add_flag("--dependent", options->mode.dependent, "ours in a chain of dependent launches whose weights are ready; cuBLASLt's as they come")->group("Measurement");
  command->add_flag("--batch-invariant", options->mode.batch_invariant, "ours with bits that do not depend on M")->group("Measurement");
  command->add_flag("--no-baseline", options->no_baseline, "without cuBLASLt")->group("Measurement");
  command->add_flag("--floor", options->floor, "a third arm that only reads B, launched as ours: how near a product of few rows comes to the speed of memory")->group("Measurement");
  command->add_option("--winners", options->winners, "file that keeps cuBLASLt's best candidates between runs")->group("Measurement")->type_name("FILE");
  command->add_option("--csv", options->csv, "also write every row there")->group("Measurement")->type_name("FILE");
  options->output.add_to(*command);
  command->footer(R"(Both arms alternate in one run, replaying graphs of launches whose weights rotate through more than the L2 holds, on random
normal data; every timed result is checked against fp64. cuBLASLt is searched: the best of all candidates it offers.

Examples:
  foretile bench --m 4096 --n 6144 --k 4096
  foretile bench --suite layers --m 1,32,4096 --csv layers.csv
  foretile bench --suite squares --m 2048,4096,8192 --dtype fp16
  foretile bench --suite squares --m 4096 --dtype fp32 --compute tf32
  foretile bench --gated --m 1,16,64 --dependent
Exit code 1 when a result is wrong, 3 when there is no GPU.)");
  command->callback([options, &action] { action = [options] { return bench_command(*options); }; });
}

}  // namespace foretile::cli
