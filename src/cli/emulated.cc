#include "cli/emulated.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "foretile/device/legality.h"
#include "model/text.h"

namespace foretile::cli {

namespace {

// Multiply-adds a second in the emulator with race detection on: measured on one core of a 2-core virtual machine (Xeon,
// 2025-11), where sm90 kernels ran at 160e6 to 430e6 and simt kernels at 4.7e6 (4x4 registers) to 28e6 (8x8). A rough,
// low figure is enough: it sizes the demo's checks and tells people how long to wait.
double work_per_second(const Configuration& c) { return c.family == Family::sm90 ? 200e6 : 0.3e6 * c.thread_m * c.thread_n; }
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
  if (!result.passed()) add(result.text());
  if (!damage.empty()) add(damage);
  if (!report.clean()) add(fmt::format("{} finding{} of the emulator, first: {}: {}", report.findings.size(), report.findings.size() == 1 ? "" : "s", report.findings.front().kind, report.findings.front().text));
  return text;
}

EmulatedCheck emulate_and_check(const Operation& o, const Configuration& c, const Problem& p, const reference::GemmDataOptions& given, const emulator::Options& options, int sms) {
  reference::GemmDataOptions placed = given;
  if (o.inputs == Alignment::any && placed.a.pointer_offset == 0) placed.a.pointer_offset = 1;
  if (o.output == Alignment::any && placed.d.pointer_offset == 0) placed.d.pointer_offset = 1;
  reference::GemmData data = reference::make_gemm_data(o, p, placed);
  EmulatedCheck check;
  check.operation = data.operation, check.configuration = c, check.problem = p, check.sms = sms;
  emulator::GemmRun run;
  run.operation = data.operation, run.configuration = c, run.problem = p, run.operands = data.operands, run.regions = regions_of(data), run.sms = sms;
  const auto start = std::chrono::steady_clock::now();
  check.report = emulator::emulate_gemm(run, options);
  check.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  check.result = data.check({.threads = 1});
  check.damage = data.damage();
  return check;
}

double emulated_work(const Configuration& c, const Problem& p) {
  return double(round_up(p.m, i64(c.tile_m) * c.cluster_m)) * double(round_up(p.n, i64(c.tile_n) * c.cluster_n)) * double(round_up(std::max<i64>(p.k, 1), c.tile_k)) * double(p.batch);
}

double expected_seconds(const Configuration& c, const Problem& p) { return kStart + emulated_work(c, p) / work_per_second(c); }

Problem cut(const Configuration& c, const Problem& p, double budget) {
  const auto shorten = [](i64 size, i64 tile, i64 tiles) { return size <= tile * tiles ? size : tile * (tiles - 1) + (size % tile ? size % tile : tile); };
  const i64 ring = c.family == Family::sm90 ? c.stages : 1;
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
  nlohmann::ordered_json json = {{"passed", check.passed()},
                                 {"m", check.problem.m}, {"n", check.problem.n}, {"k", check.problem.k}, {"batch", check.problem.batch},
                                 {"operation", text_of(check.operation)},
                                 {"configuration", text_of(check.configuration)},
                                 {"sms", check.sms},
                                 {"seconds", check.seconds},
                                 {"result", {{"passed", check.result.passed()}, {"elements", check.result.elements}, {"checked", check.result.checked}, {"exact", check.result.exact}, {"wrong", check.result.wrong}, {"unwritten", check.result.unwritten}, {"text", check.result.text()}}},
                                 {"damage", check.damage},
                                 {"findings", nlohmann::ordered_json::array()}};
  for (const auto& f : check.report.findings) json["findings"].push_back({{"kind", f.kind}, {"text", f.text}, {"file", f.site.file ? f.site.file : ""}, {"line", f.site.line}, {"count", f.count}});
  const auto& n = check.report.counters;
  json["counters"] = {{"switches", n.switches}, {"wgmmas", n.wgmmas}, {"tma_loads", n.tma_loads}, {"tma_load_bytes", n.tma_load_bytes}, {"tma_stores", n.tma_stores}, {"tma_store_bytes", n.tma_store_bytes}};
  return json;
}

}  // namespace foretile::cli
