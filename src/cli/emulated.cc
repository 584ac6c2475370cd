#include "cli/emulated.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "foretile/device/legality.h"
#include "model/text.h"

namespace foretile::cli {

namespace {

// Multiply-adds a second in the emulator with race detection on: measured on one core of a 2-core virtual machine (Xeon,
// 2025-11), where sm90 kernels ran at 160e6 to 430e6 and simt kernels at 4.7e6 (4x4 registers) to 28e6 (8x8). A rough,
// low figure is enough: it sizes the demo's checks and tells people how long to wait.
double work_per_second(const Configuration& c) { return uses_tensor_cores(c.family) ? 200e6 : 0.3e6 * (c.family == Family::gemv ? c.tile_m * c.tile_n : c.thread_m * c.thread_n); }
constexpr double kStart = 0.05;  // seconds, whatever the size

std::vector<emulator::Region> regions_of(const reference::GemmData& g) {
  std::vector<emulator::Region> regions;
  for (const reference::HostOperand& x : g.list) {
    emulator::Region r;
    r.base = x.data();
    r.bytes = x.data_bytes();
    r.writable = x.name == "D";
    r.name = x.name;
    regions.push_back(std::move(r));
  }
  return regions;
}

}  // namespace

std::string EmulatedCheck::failure() const {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  const auto add_kernel = [&](const EmulatedCheck& c, const std::string& name) {
    if (!c.result.passed()) add(name + c.result.text());
    if (!c.damage.empty()) add(name + c.damage);
  };
  add_kernel(*this, "");
  for (size_t i = 0; i < after.size(); ++i) add_kernel(after[i], fmt::format("kernel {}: ", i + 2));
  if (!report.clean()) add(fmt::format("{} finding{} of the emulator, first: {}: {}", report.findings.size(), report.findings.size() == 1 ? "" : "s", report.findings.front().kind, report.findings.front().text));
  return text;
}

EmulatedCheck emulate_and_check(const Operation& o, const Configuration& c, const Problem& p, const reference::GemmDataOptions& data, const emulator::Options& options, int sms) {
  return emulate_and_check({{o, c, p}}, false, data, options, sms);
}

EmulatedCheck emulate_and_check(const std::vector<ChainLink>& chain, bool weights_ready, const reference::GemmDataOptions& given, const emulator::Options& options, int sms) {
  std::vector<reference::GemmData> data;
  std::vector<emulator::GemmRun> runs;
  std::vector<EmulatedCheck> checks;
  for (const ChainLink& link : chain) {
    reference::GemmDataOptions placed = given;
    placed.seed += data.size();
    if (link.operation.inputs == Alignment::any && placed.a.pointer_offset == 0) placed.a.pointer_offset = 1;
    if (link.operation.output == Alignment::any && placed.d.pointer_offset == 0) placed.d.pointer_offset = 1;
    reference::GemmData g = reference::make_gemm_data(link.operation, link.problem, placed);
    emulator::GemmRun run{g.operation, link.configuration, link.problem, g.operands, regions_of(g), sms};
    if (!data.empty()) {
      const reference::HostOperand& from = *data.back().find("D");
      run.operands.a = from.argument();
      run.weights_ready = weights_ready;
      for (emulator::Region& r : run.regions)
        if (r.name == "A") r.base = from.data(), r.bytes = from.data_bytes();
      run.operation.inputs = input_alignment(run.operation, link.problem, run.operands);
    }
    EmulatedCheck check;
    check.operation = run.operation, check.configuration = link.configuration, check.problem = link.problem, check.sms = sms;
    checks.push_back(std::move(check));
    runs.push_back(std::move(run));
    data.push_back(std::move(g));
  }
  const auto start = std::chrono::steady_clock::now();
  EmulatedCheck& first = checks.front();
  first.report = emulator::emulate_gemms(runs, options);
  first.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (size_t i = 0; i < checks.size(); ++i) {
    checks[i].damage = data[i].damage();
    if (i > 0) data[i].operands.a = runs[i].operands.a;  // judged by what the kernel before it really wrote
    checks[i].result = data[i].check({.threads = 1});
  }
  first.after.assign(std::make_move_iterator(checks.begin() + 1), std::make_move_iterator(checks.end()));
  return std::move(first);
}

double emulated_work(const Configuration& c, const Problem& p) {
  return double(round_up(p.m, i64(c.tile_m) * c.cluster_m)) * double(round_up(p.n, i64(c.tile_n) * c.cluster_n)) * double(round_up(std::max<i64>(p.k, 1), c.tile_k)) * double(p.batch);
}

double expected_seconds(const Configuration& c, const Problem& p) { return kStart + emulated_work(c, p) / work_per_second(c); }

Problem cut(const Configuration& c, const Problem& p, double budget) {
  const auto shorten = [](i64 size, i64 tile, i64 tiles) { return size <= tile * tiles ? size : tile * (tiles - 1) + (size % tile ? size % tile : tile); };
  const i64 ring = c.family == Family::decode ? 2 * c.split_k : c.family == Family::sm90 ? c.stages : 1;  // for decode, steps that give every block some
  // From the most telling to the cheapest.
  const i64 plans[][3] = {{3, 3, 2 * ring + 1}, {2, 2, ring + 2}, {1, 2, ring + 2}, {2, 2, 3}, {1, 2, 3}, {1, 1, ring + 2}, {1, 1, 3}, {1, 1, 2}, {1, 1, 1}};
  Problem small;
  for (const auto& plan : plans) {
    small = {.m = shorten(p.m, i64(c.tile_m) * c.cluster_m, plan[0]), .n = shorten(p.n, i64(c.tile_n) * c.cluster_n, plan[1]), .k = shorten(p.k, c.tile_k, plan[2]), .batch = std::min<i64>(p.batch, 2)};
    if (emulated_work(c, small) <= budget) break;
  }
  return small;
}

nlohmann::ordered_json json_of(const EmulatedCheck& check) {
  const auto kernel = [](const EmulatedCheck& c) -> nlohmann::ordered_json {
    return {{"passed", c.right()},
            {"m", c.problem.m}, {"n", c.problem.n}, {"k", c.problem.k}, {"batch", c.problem.batch},
            {"operation", text_of(c.operation)},
            {"configuration", text_of(c.configuration)},
            {"sms", c.sms},
            {"result", {{"passed", c.result.passed()}, {"elements", c.result.elements}, {"checked", c.result.checked}, {"exact", c.result.exact}, {"wrong", c.result.wrong}, {"unwritten", c.result.unwritten}, {"text", c.result.text()}}},
            {"damage", c.damage}};
  };
  nlohmann::ordered_json json = kernel(check);
  json["passed"] = check.passed();
  json["seconds"] = check.seconds;
  for (const EmulatedCheck& c : check.after) json["after"].push_back(kernel(c));
  json["findings"] = nlohmann::ordered_json::array();
  for (const auto& f : check.report.findings) json["findings"].push_back({{"kind", f.kind}, {"text", f.text}, {"file", f.site.file ? f.site.file : ""}, {"line", f.site.line}, {"count", f.count}});
  const auto& n = check.report.counters;
  json["counters"] = {{"switches", n.switches}, {"wgmmas", n.wgmmas}, {"tma_loads", n.tma_loads}, {"tma_load_bytes", n.tma_load_bytes}, {"tma_stores", n.tma_stores}, {"tma_store_bytes", n.tma_store_bytes}};
  return json;
}

}  // namespace foretile::cli
