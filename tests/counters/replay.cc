#include "replay.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <utility>

#include "foretile/device/probes/probes.cuh"

namespace foretile::counters {

namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (char c : line) {
    if (c == '"') quoted = !quoted;
    else if (c == ',' && !quoted) fields.emplace_back();
    else if (c != '\r') fields.back() += c;
  }
  return fields;
}

using Body = void (*)(const ProbeArguments&);
const std::map<std::string, Body>& bodies() {
#define FORETILE_BODY(...) {#__VA_ARGS__, [](const ProbeArguments& x) { __VA_ARGS__(x); }},
  static const std::map<std::string, Body> map = {FORETILE_PROBES(FORETILE_BODY)};
#undef FORETILE_BODY
  return map;
}

// Aligned as GPU allocations are, so that sectors fall alike.
struct HostBuffer {
  explicit HostBuffer(std::size_t size) : bytes(round_up(i64(size) + 1, 512)), data(static_cast<u8*>(std::aligned_alloc(512, std::size_t(bytes)))) {
    if (!data) throw std::bad_alloc();
  }
  ~HostBuffer() { std::free(data); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  i64 bytes;
  u8* data;
};

template <class Get> u64 sum(const std::vector<emulator::AccessSite>& sites, const std::string& call, Get&& get) {
  u64 total = 0;
  for (const auto& s : sites)
    if (call.empty() || s.call == call) total += get(s);
  return total;
}

}  // namespace

std::string recorded_path(List list) {
  const char* folder = std::getenv("FORETILE_GOLDEN");
  return (folder ? std::filesystem::path(folder) : std::filesystem::path(FORETILE_SOURCE_DIR) / "tests/golden") / fmt::format("counters_{}.csv", name_of(list));
}

std::vector<Row> recorded(List list) {
  std::ifstream in(recorded_path(list));
  std::vector<Row> rows;
  std::vector<std::string> header;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> fields = split(line);
    if (header.empty()) {
      header = fields;
      continue;
    }
    if (fields.size() != header.size()) throw std::runtime_error(fmt::format("{}: a row has {} fields, the header {}", recorded_path(list), fields.size(), header.size()));
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < fields.size(); ++i) row[header[i]] = fields[i];
  }
  return rows;
}

bool has(const Row& row, const std::string& counter) {
  const auto found = row.find(counter);
  return found != row.end() && !found->second.empty();
}

double value_of(const Row& row, const std::string& counter) {
  if (!has(row, counter)) {
    ADD_FAILURE() << row.at("case") << " has no " << counter;
    return std::nan("");
  }
  return std::stod(row.at(counter));
}

const Case& case_named(const std::string& name) {
  static const std::vector<Case> all = all_cases();
  for (const Case& c : all)
    if (c.name == name) return c;
  throw std::runtime_error("no case is named " + name + ": the recording is older or newer than tools/counters/cases.cc");
}

std::vector<const Case*> cases_of(List list) {
  static const std::vector<Case> all = all_cases();
  std::vector<const Case*> some;
  for (const Case& c : all)
    if (c.list == list) some.push_back(&c);
  return some;
}

u64 Emulated::wavefronts(const std::string& call) const { return sum(sites, call, [](auto& s) { return s.wavefronts; }); }
u64 Emulated::conflicts(const std::string& call) const { return sum(sites, call, [](auto& s) { return s.bank_conflicts(); }); }
u64 Emulated::requests(const std::string& call) const { return sum(sites, call, [](auto& s) { return s.requests; }); }
u64 Emulated::sectors(const std::string& call) const { return sum(sites, call, [](auto& s) { return s.sectors; }); }
u64 Emulated::mergeable(const std::string& call) const { return sum(sites, call, [](auto& s) { return s.mergeable; }); }
u64 Emulated::delivered(const std::string& call) const { return sum(sites, call, [](auto& s) { return s.delivered; }); }
u64 Emulated::lines(const std::string& call) const { return sum(sites, call, [](auto& s) { return s.lines; }); }

Emulated emulated(const Case& c) {
  const Sizes sizes = sizes_of(c);
  HostBuffer input(sizes.input), output(sizes.output), offsets(c.offsets.size() * sizeof(i32));
  std::memset(input.data, 0x3c, std::size_t(input.bytes));  // small finite numbers of every type
  if (!c.offsets.empty()) std::memcpy(offsets.data, c.offsets.data(), c.offsets.size() * sizeof(i32));
  const Memory memory{input.data, output.data, reinterpret_cast<i32*>(offsets.data)};
  const std::vector<emulator::Region> regions = {{input.data, sizes.input, c.writes_input, "input"}, {output.data, sizes.output, true, "output"},
                                                 {offsets.data, c.offsets.size() * sizeof(i32), false, "offsets"}};
  emulator::Options options;
  options.races = false;
  options.trace = true;
  emulator::Report report;
  if (!c.probe.empty()) {
    LaunchShape shape;
    shape.blocks = c.blocks, shape.threads = c.threads, shape.shared_bytes = c.shared_bytes;
    const ProbeArguments arguments = probe_arguments(c, memory, emulator::encode_tensor_map);
    const auto body = bodies().find(c.probe);
    if (body == bodies().end()) throw std::runtime_error(c.probe + " is missing from FORETILE_PROBES");
    report = emulator::emulate(shape, [&] { body->second(arguments); }, regions, options);
  } else {
    emulator::GemmRun run;
    run.operation = c.operation, run.configuration = c.configuration, run.problem = c.problem;
    run.operands = operands_of(c, memory);
    run.regions = regions;
    run.sms = 132;  // as on the chip: the launch has as many blocks as there
    report = emulator::emulate_gemm(run, options);
  }
  if (!report.clean()) throw std::runtime_error(c.name + ": " + report.text());
  return {std::move(report.accesses)};
}

}  // namespace foretile::counters
