// foretile_bench_tool: the GPU checks and benchmarks without the rest of the command-line tool. bench/gpu.sh runs it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench/bench.h"
#include "bench/gated.h"
#include "bench/invariant.h"
#include "bench/verify.h"
#include "foretile/device/catalogue.h"
#include "model/text.h"

namespace {

using namespace foretile;

Configuration configuration_of(const std::string& text) {
  std::string error;
  const auto c = configuration_from(text, error);
  if (!c) throw std::invalid_argument("configuration: " + error);
  return *c;
}

Compute compute_of(const std::string& text) {
  const auto c = compute_from(text);
  if (!c) throw std::invalid_argument("compute is '" + text + "'; allowed: " + compute_names());
  return *c;
}

DType dtype_of(const std::string& text) {
  const auto t = dtype_from(text);
  if (!t) throw std::invalid_argument("dtype is '" + text + "'; allowed: fp32, fp16, bf16");
  return *t;
}

int run(int argc, char** argv) {
  CLI::App app{"GPU checks and benchmarks of Foretile"};
  app.require_subcommand(1);
  const auto say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };

  bench::VerifyOptions v;
  std::string v_configuration, v_gated, compute = "exact";
  CLI::App* verify = app.add_subcommand("verify", "random products against fp64");
  verify->add_option("--count", v.count), verify->add_option("--seed", v.seed), verify->add_option("--only", v.only), verify->add_option("--max-size", v.max_size);
  verify->add_flag("--integers", v.integers), verify->add_flag("--exact-allocations", v.exact_allocations);
  verify->add_option("--gated", v_gated, "halves or interleaved: gated products alone");
  verify->add_option("--compute", compute, "tf32: products of fp32 in tf32 alone");
  verify->add_option("--config", v_configuration), verify->add_option("--threads", v.threads), verify->add_option("--device", v.device);

  bench::BenchOptions b;
  std::string suite = "layers", ms = "2048,4096", in = "bf16", out, configurations;
  double limit = 0;
  CLI::App* speed = app.add_subcommand("bench", "our products beside cuBLASLt's best");
  CLI::App* all = app.add_subcommand("configurations", "every catalogue configuration, quickly");
  for (CLI::App* sub : {speed, all}) {
    sub->add_option("--suite", suite, "layers, squares, catalogue or MxNxK,..."), sub->add_option("--m", ms), sub->add_option("--dtype", in), sub->add_option("--out-dtype", out);
    sub->add_option("--compute", compute, "of fp32: exact or tf32; cuBLASLt's alike");
    sub->add_option("--csv", b.csv), sub->add_option("--device", b.device);
    sub->add_flag("--dependent", b.mode.dependent, "ours in a chain of dependent launches, weights ready"), sub->add_flag("--batch-invariant", b.mode.batch_invariant);
    sub->add_option("--configs", configurations, sub == speed ? "all, or configurations separated by commas; default: the library's choice" : "configurations separated by commas; default: all of the catalogue");
  }
  speed->add_option("--rounds", b.rounds), speed->add_option("--arm-seconds", b.arm_seconds), speed->add_option("--winners", b.winners_path);
  speed->add_flag("!--no-baseline", b.baseline);
  speed->add_flag("--floor", b.floor, "a third arm in turn with the others, launched as ours: a ring of bulk copies that reads B's bytes and computes nothing; columns floor_us and share_of_floor (floor_us / us)");
  bool gated = false;
  bench::GatedOptions g;
  speed->add_flag("--gated", gated, "SwiGLU in one kernel beside cuBLASLt and a gating kernel; layers: those with gate and up columns");
  all->add_option("--seconds", limit, "start no new shape after so long");
  bench::InvariantOptions i;
  std::string i_suite;
  CLI::App* same = app.add_subcommand("invariant", "bits of a row of D at every M up to 96, in batch-invariant mode");
  same->add_option("--suite", i_suite, "layers and five more shapes, or MxNxK,..."), same->add_option("--rows", i.rows), same->add_option("--dtype", in), same->add_option("--out-dtype", out);
  same->add_flag("!--plain", i.batch_invariant, "without the mode: shows that bits can differ"), same->add_option("--device", i.device);
  CLI::App* host = app.add_subcommand("host-time", "the host's part of a repeated call");
  CLI11_PARSE(app, argc, argv);

  if (*verify) {
    if (!v_configuration.empty()) v.configuration = configuration_of(v_configuration);
    if (!v_gated.empty() && !(v.gating = gating_from(v_gated))) throw std::invalid_argument("gated is '" + v_gated + "'; allowed: none, halves, interleaved");
    v.compute = compute_of(compute);
    v.progress = say;
    const bench::VerifyResult r = bench::verify(v);
    std::printf("%s", r.text().c_str());
    return r.passed() ? 0 : 1;
  }
  if (*host) {
    const bench::HostTime t = bench::host_time(b.device);
    std::printf("host time of a repeated call: %.2f us from entry to the driver's launch function (%.2f us with changing pointers), %.2f us in all\n", t.entry_to_launch_us, t.changing_pointers_us,
                t.whole_call_us);
    return t.entry_to_launch_us <= 3 ? 0 : 1;
  }
  if (*same) {
    i.in = dtype_of(in), i.out = out.empty() ? i.in : dtype_of(out);
    if (!i_suite.empty()) i.shapes = bench::suite_shapes(i_suite, i_suite == "layers" ? std::vector<i64>{i.rows} : std::vector<i64>{});
    i.progress = say;
    const bench::InvariantReport r = bench::invariant(i);
    std::printf("%s", r.text().c_str());
    return r.passed() ? 0 : 1;
  }
  if (configurations == "all") {
    b.configurations.assign(std::begin(catalogue::kConfigurations), std::end(catalogue::kConfigurations));
  } else {
    for (std::size_t begin = 0; begin < configurations.size();) {
      const std::size_t end = std::min(configurations.find(',', begin), configurations.size());
      b.configurations.push_back(configuration_of(configurations.substr(begin, end - begin)));
      begin = end + 1;
    }
  }
  if (gated) {
    if (b.floor) throw std::invalid_argument("floor does not go with gated");
    if (!b.baseline) throw std::invalid_argument("--no-baseline does not go with --gated: the pair is what it is held against");
    g.shapes = suite == "layers" ? bench::gated_layers(bench::parse_sizes(ms)) : bench::suite_shapes(suite, bench::parse_sizes(ms));
    g.configurations = b.configurations, g.type = dtype_of(in), g.mode = b.mode, g.rounds = b.rounds, g.arm_seconds = b.arm_seconds, g.device = b.device, g.winners_path = b.winners_path, g.csv = b.csv, g.progress = say;
    const bench::GatedReport r = bench::bench_gated(g);
    std::printf("%s", r.table().c_str());
    return r.verified() ? 0 : 1;
  }
  b.in = input_type(dtype_of(in), compute_of(compute)), b.out = dtype_of(out.empty() ? in : out);
  if (compute_of(compute) == Compute::tf32 && b.in != DType::tf32) throw std::invalid_argument("compute is tf32 with dtype " + in + "; allowed: tf32 with dtype fp32");
  b.shapes = bench::suite_shapes(suite, suite == "layers" || suite == "squares" ? bench::parse_sizes(ms) : std::vector<i64>{});
  b.progress = say;
  if (*all) {
    const bench::ConfigurationReport r = bench::bench_configurations(b, limit);
    std::printf("%s", r.summary().c_str());
    for (const bench::ConfigurationRow& row : r.rows)
      if (row.verified != "ok") return 1;
    return r.rows.empty();
  }
  const bench::BenchReport r = bench::bench(b);
  std::printf("%s", r.table().c_str());
  if (b.baseline && r.cublaslt.empty()) std::printf("%s\n", r.cublaslt_missing.c_str());
  return r.verified() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
