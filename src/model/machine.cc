#include "model/machine.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "model/embedded_files.h"
#include "model/machine_files.h"
#include "model/read_file.h"

namespace foretile {

namespace {

struct Field {
  const char* section;
  const char* key;
  const char* unit;  // the only one accepted
  double& (*member)(Machine&);
  double low, high;  // allowed values; a typing error of a power of ten must not pass
  int capability = 0;  // 0: every file has it; else only files of this compute capability
};
#define FORETILE_MEMBER(name) [](Machine& m) -> double& { return m.name; }

constexpr Field kFields[] = {
    {"sm", "warps", "warps", FORETILE_MEMBER(warps), 16, 128},
    {"sm", "blocks", "blocks", FORETILE_MEMBER(blocks), 8, 64},
    {"sm", "threads_per_block", "threads", FORETILE_MEMBER(threads_per_block), 512, 2048},
    {"sm", "schedulers", "schedulers", FORETILE_MEMBER(schedulers), 1, 8},
    {"sm", "registers", "registers", FORETILE_MEMBER(registers), 32768, 262144},
    {"sm", "register_unit", "registers/warp", FORETILE_MEMBER(register_unit), 64, 1024},
    {"sm", "registers_per_thread", "registers", FORETILE_MEMBER(registers_per_thread), 64, 255},
    {"sm", "shared_bytes", "B", FORETILE_MEMBER(shared_bytes), 16384, 1048576},
    {"sm", "shared_bytes_per_block", "B", FORETILE_MEMBER(shared_bytes_per_block), 16384, 1048576},
    {"sm", "shared_reserved", "B/block", FORETILE_MEMBER(shared_reserved), 0, 4096},
    {"sm", "shared_bytes_per_clock", "B/clk", FORETILE_MEMBER(shared_bytes_per_clock), 32, 512},
    {"sm", "lsu_lanes", "lanes/clk", FORETILE_MEMBER(lsu_lanes), 8, 64},
    {"sm", "fp32_rate", "FLOP/clk", FORETILE_MEMBER(fp32_rate), 32, 1024},
    {"sm", "fp16_rate", "FLOP/clk", FORETILE_MEMBER(fp16_rate), 32, 2048},
    {"sm", "tensor_fp16", "FLOP/clk", FORETILE_MEMBER(tensor_fp16), 0, 65536},
    {"sm", "tensor_bf16", "FLOP/clk", FORETILE_MEMBER(tensor_bf16), 0, 65536},
    {"sm", "tensor_tf32", "FLOP/clk", FORETILE_MEMBER(tensor_tf32), 0, 65536},
    {"sm", "tensor_fp8", "FLOP/clk", FORETILE_MEMBER(tensor_fp8), 0, 65536},
    {"sm", "tensor_int8", "OP/clk", FORETILE_MEMBER(tensor_int8), 0, 65536},
    {"sm", "mma_sync", "of tensor rate", FORETILE_MEMBER(mma_sync), 0.2, 1},
    {"clock", "boost", "MHz", FORETILE_MEMBER(boost_mhz), 500, 5000},
    {"clock", "burst", "of boost", FORETILE_MEMBER(burst_clock), 0.3, 1},
    {"clock", "sustained", "of boost", FORETILE_MEMBER(sustained_clock), 0.1, 1},
    {"l2", "bytes", "B", FORETILE_MEMBER(l2_bytes), 1e6, 1e9},
    {"l2", "copies", "of a line", FORETILE_MEMBER(l2_copies), 1, 4},
    {"l2", "bytes_per_clock", "B/clk", FORETILE_MEMBER(l2_bytes_per_clock), 256, 65536},
    {"l2", "port_bytes_per_clock", "B/clk", FORETILE_MEMBER(l2_port_bytes_per_clock), 16, 256},
    {"l2", "coalescing", "requests/transfer", FORETILE_MEMBER(l2_coalescing), 1, 4},
    {"l2", "lookups", "of requests", FORETILE_MEMBER(l2_lookups), 0.2, 1},
    {"dram", "bytes", "B", FORETILE_MEMBER(dram_bytes), 1e9, 1e12},
    {"dram", "bandwidth", "B/s", FORETILE_MEMBER(dram_bandwidth), 1e11, 5e13},
    {"dram", "efficiency", "of bandwidth", FORETILE_MEMBER(dram_efficiency), 0.3, 1},
    {"latency", "shared", "clk", FORETILE_MEMBER(shared_latency), 5, 200},
    {"latency", "l2", "clk", FORETILE_MEMBER(l2_latency), 50, 2000},
    {"latency", "dram", "clk", FORETILE_MEMBER(dram_latency), 100, 5000},
    {"latency", "tma", "clk", FORETILE_MEMBER(tma_latency), 0, 1000},
    {"launch", "graph", "s", FORETILE_MEMBER(launch_seconds), 1e-7, 1e-4},
    {"power", "limit", "W", FORETILE_MEMBER(power_limit), 20, 3000},
    {"power", "idle", "W", FORETILE_MEMBER(power_idle), 1, 1000},
    {"power", "flop", "J/FLOP", FORETILE_MEMBER(flop_energy), 1e-14, 1e-10},
    {"power", "zero_flop", "J/FLOP", FORETILE_MEMBER(zero_flop_energy), 1e-14, 1e-10},
    {"power", "fp32_flop", "J/FLOP", FORETILE_MEMBER(fp32_flop_energy), 1e-13, 1e-10},
    {"power", "dram", "J/B", FORETILE_MEMBER(dram_energy), 1e-12, 1e-9},
    {"power", "l2", "J/B", FORETILE_MEMBER(l2_energy), 0, 1e-9},
    {"power", "shared", "J/B", FORETILE_MEMBER(shared_energy), 0, 1e-10},
    {"power", "clock", "J/clk", FORETILE_MEMBER(clock_energy), 0, 1e-7},
    {"power", "voltage_slope", "of voltage", FORETILE_MEMBER(voltage_slope), 0, 1},
    {"clock", "tensor", "of boost", FORETILE_MEMBER(tensor_clock), 0.3, 1, 90},
    {"power", "burst", "of limit", FORETILE_MEMBER(burst_power), 1, 4, 90},
    {"latency", "load", "of unloaded", FORETILE_MEMBER(latency_load), 1, 10},
    {"sm90", "mma_efficiency", "of tensor rate", FORETILE_MEMBER(sm90.mma_efficiency), 0.3, 1, 90},
    {"sm90", "step_clocks", "clk/step", FORETILE_MEMBER(sm90.step_clocks), 0, 2000, 90},
    {"sm90", "slab_clocks", "clk/slab", FORETILE_MEMBER(sm90.slab_clocks), 0, 2000, 90},
    {"sm90", "cluster_step_clocks", "clk/step", FORETILE_MEMBER(sm90.cluster_step_clocks), 0, 2000, 90},
    {"sm90", "cluster_tile_clocks", "clk/tile", FORETILE_MEMBER(sm90.cluster_tile_clocks), 0, 10000, 90},
    {"sm90", "tile_clocks", "clk/tile", FORETILE_MEMBER(sm90.tile_clocks), 0, 10000, 90},
    {"sm90", "l2_efficiency", "of L2 rate", FORETILE_MEMBER(sm90.l2_efficiency), 0.1, 1, 90},
    {"sm90", "chunk_clocks", "clk/chunk", FORETILE_MEMBER(sm90.chunk_clocks), 0, 5000, 90},
    {"sm90", "store_bytes_per_clock", "B/clk", FORETILE_MEMBER(sm90.store_bytes_per_clock), 4, 256, 90},
    {"sm90", "operand_clocks", "clk/chunk", FORETILE_MEMBER(sm90.operand_clocks), 0, 10000, 90},
    {"sm90", "direct_store_clocks", "clk/store", FORETILE_MEMBER(sm90.direct_store_clocks), 1, 100, 90},
    {"sm90", "fill_clocks", "clk", FORETILE_MEMBER(sm90.fill_clocks), 0, 20000, 90},
    {"sm90", "warm_saves", "s", FORETILE_MEMBER(sm90.warm_saves), 0, 1e-05, 90},
    {"sm90", "dependent_saves", "s", FORETILE_MEMBER(sm90.dependent_saves), 0, 1e-05, 90},
    {"decode", "dram_efficiency", "of bandwidth", FORETILE_MEMBER(decode.dram_efficiency), 0.3, 1, 90},
    {"decode", "launch", "s", FORETILE_MEMBER(decode.launch_seconds), 0, 0.0001, 90},
    {"decode", "l2_efficiency", "of L2 rate", FORETILE_MEMBER(decode.l2_efficiency), 0.1, 1, 90},
    {"decode", "memory_power", "exponent", FORETILE_MEMBER(decode.memory_power), 1, 32, 90},
    {"decode", "power", "exponent", FORETILE_MEMBER(decode.power), 1, 32, 90},
    {"decode", "latency_clocks", "clk", FORETILE_MEMBER(decode.latency_clocks), 100, 10000, 90},
    {"decode", "step_clocks", "clk/128", FORETILE_MEMBER(decode.step_clocks), 0, 2000, 90},
    {"decode", "empty_line_bytes", "B/line", FORETILE_MEMBER(decode.empty_line_bytes), 0, 10000, 90},
    {"decode", "empty_line_power", "exponent", FORETILE_MEMBER(decode.empty_line_power), 0, 2, 90},
    {"decode", "missed_again", "of DRAM's time", FORETILE_MEMBER(decode.missed_again), 0, 2, 90},
    {"decode", "round_clocks", "clk/round", FORETILE_MEMBER(decode.round_clocks), 0, 2000, 90},
    {"decode", "tile_clocks", "clk/tile", FORETILE_MEMBER(decode.tile_clocks), 0, 5000, 90},
    {"decode", "exchange_clocks", "clk", FORETILE_MEMBER(decode.exchange_clocks), 0, 20000, 90},
    {"decode", "exchange_clocks_per_kib", "clk/KiB", FORETILE_MEMBER(decode.exchange_clocks_per_kib), 0, 2000, 90},
    {"decode", "wave", "s", FORETILE_MEMBER(decode.wave_seconds), 0, 0.0001, 90},
    {"decode", "uneven_waves", "s", FORETILE_MEMBER(decode.uneven_waves_seconds), 0, 0.0001, 90},
    {"decode", "uneven_wave", "s", FORETILE_MEMBER(decode.uneven_wave_seconds), 0, 0.0001, 90},
    {"decode", "run_ahead", "of DRAM's time", FORETILE_MEMBER(decode.run_ahead), 0, 2, 90},
    {"decode_dependent", "dram_efficiency", "of bandwidth", FORETILE_MEMBER(decode_dependent.dram_efficiency), 0.3, 1, 90},
    {"decode_dependent", "launch", "s", FORETILE_MEMBER(decode_dependent.launch_seconds), 0, 0.0001, 90},
    {"decode_dependent", "l2_efficiency", "of L2 rate", FORETILE_MEMBER(decode_dependent.l2_efficiency), 0.1, 1, 90},
    {"decode_dependent", "memory_power", "exponent", FORETILE_MEMBER(decode_dependent.memory_power), 1, 32, 90},
    {"decode_dependent", "power", "exponent", FORETILE_MEMBER(decode_dependent.power), 1, 32, 90},
    {"decode_dependent", "latency_clocks", "clk", FORETILE_MEMBER(decode_dependent.latency_clocks), 100, 10000, 90},
    {"decode_dependent", "step_clocks", "clk/128", FORETILE_MEMBER(decode_dependent.step_clocks), 0, 2000, 90},
    {"decode_dependent", "empty_line_bytes", "B/line", FORETILE_MEMBER(decode_dependent.empty_line_bytes), 0, 10000, 90},
    {"decode_dependent", "empty_line_power", "exponent", FORETILE_MEMBER(decode_dependent.empty_line_power), 0, 2, 90},
    {"decode_dependent", "missed_again", "of DRAM's time", FORETILE_MEMBER(decode_dependent.missed_again), 0, 2, 90},
    {"decode_dependent", "round_clocks", "clk/round", FORETILE_MEMBER(decode_dependent.round_clocks), 0, 2000, 90},
    {"decode_dependent", "tile_clocks", "clk/tile", FORETILE_MEMBER(decode_dependent.tile_clocks), 0, 5000, 90},
    {"decode_dependent", "exchange_clocks", "clk", FORETILE_MEMBER(decode_dependent.exchange_clocks), 0, 20000, 90},
    {"decode_dependent", "exchange_clocks_per_kib", "clk/KiB", FORETILE_MEMBER(decode_dependent.exchange_clocks_per_kib), 0, 2000, 90},
    {"decode_dependent", "wave", "s", FORETILE_MEMBER(decode_dependent.wave_seconds), 0, 0.0001, 90},
    {"decode_dependent", "uneven_waves", "s", FORETILE_MEMBER(decode_dependent.uneven_waves_seconds), 0, 0.0001, 90},
    {"decode_dependent", "uneven_wave", "s", FORETILE_MEMBER(decode_dependent.uneven_wave_seconds), 0, 0.0001, 90},
    {"decode_dependent", "crowding", "exponent", FORETILE_MEMBER(decode_dependent.crowding), 0, 2, 90},
    {"decode_dependent", "early_launch", "of launch", FORETILE_MEMBER(decode_dependent.early_launch), 0, 1, 90},
    {"decode_dependent", "paired", "of a step", FORETILE_MEMBER(decode_dependent.paired), 1, 2, 90},
    {"simt", "efficiency", "of peak", FORETILE_MEMBER(simt.efficiency), 0.1, 1},
    {"simt", "issue_efficiency", "of issue rate", FORETILE_MEMBER(simt.issue_efficiency), 0.1, 1},
    {"simt", "step_clocks", "clk/step", FORETILE_MEMBER(simt.step_clocks), 0, 2000},
    {"simt", "load_instructions", "instructions/load", FORETILE_MEMBER(simt.load_instructions), 1, 100},
    {"simt", "fill_clocks", "clk", FORETILE_MEMBER(simt.fill_clocks), 0, 20000},
    {"library", "launch", "s", FORETILE_MEMBER(library.launch_seconds), 0, 0.0001},
    {"library", "fill_clocks", "clk", FORETILE_MEMBER(library.fill_clocks), 0, 20000},
    {"library", "efficiency", "of tensor rate", FORETILE_MEMBER(library.efficiency), 0.3, 1},
    {"library", "dram_efficiency", "of bandwidth", FORETILE_MEMBER(library.dram_efficiency), 0.3, 1},
    {"library", "dram_ramp", "s", FORETILE_MEMBER(library.dram_ramp_seconds), 0, 1e-05},
    {"library", "step_clocks", "clk/step", FORETILE_MEMBER(library.step_clocks), 0, 2000},
    {"library", "tile_clocks", "clk/tile", FORETILE_MEMBER(library.tile_clocks), 0, 10000},
    {"library", "epilogue_clocks", "clk/tile", FORETILE_MEMBER(library.epilogue_clocks), 0, 20000},
    {"library", "store_bytes_per_clock", "B/clk", FORETILE_MEMBER(library.store_bytes_per_clock), 4, 256},
    {"library", "epilogue_shown", "of epilogue", FORETILE_MEMBER(library.epilogue_shown), 0, 1},
    {"library", "split", "s", FORETILE_MEMBER(library.split_seconds), 0, 0.0001},
    {"library", "split_traffic", "of L2 rate", FORETILE_MEMBER(library.split_traffic), 0.1, 10},
    {"library", "coalescing", "requests/transfer", FORETILE_MEMBER(library.coalescing), 0.5, 4},
    {"library", "latency_load", "of unloaded", FORETILE_MEMBER(library.latency_load), 1, 10},
    {"library", "l2_share", "of L2", FORETILE_MEMBER(library.l2_share), 0.1, 1.5},
    {"library", "warm_inputs", "of inputs", FORETILE_MEMBER(library.warm_inputs), 0, 1},
    {"library", "flop", "J/FLOP", FORETILE_MEMBER(library.flop_energy), 1e-14, 1e-10},
    {"library", "burst_power", "of limit", FORETILE_MEMBER(library.burst_power), 0, 2},
    {"library", "burst", "s", FORETILE_MEMBER(library.burst_seconds), 0, 1},
};
#undef FORETILE_MEMBER

[[noreturn]] void bad(std::string_view name, std::string message) {
  throw std::invalid_argument(fmt::format("machine file '{}': {}", name, message));
}

// { value = 132, unit = "SMs", source = "..." }
Fact read_fact(std::string_view file, std::string key, const toml::node& node) {
  const toml::table* entry = node.as_table();
  if (!entry) bad(file, fmt::format("{} must be {{ value = .., unit = \"..\", source = \"..\" }}", key));
  Fact fact;
  fact.key = std::move(key);
  for (const auto& [k, v] : *entry) {
    const std::string_view part = k.str();
    if (part == "value" && v.is_number()) fact.value = *v.value<double>();
    else if (part == "unit" && v.is_string()) fact.unit = *v.value<std::string>();
    else if (part == "source" && v.is_string()) fact.source = *v.value<std::string>();
    else bad(file, fmt::format("{}.{} must be value (a number), unit or source (text)", fact.key, part));
  }
  for (const char* part : {"value", "unit", "source"})
    if (!entry->contains(part)) bad(file, fmt::format("{} has no {}", fact.key, part));
  if (fact.source.size() < 3) bad(file, fmt::format("{} says no source", fact.key));
  if (!std::isfinite(fact.value)) bad(file, fmt::format("{} must be finite", fact.key));
  return fact;
}

std::string text_at(const toml::table& table, std::string_view file, const char* key) {
  const auto value = table[key].value<std::string>();
  if (!value || value->empty()) bad(file, fmt::format("{} (text) is missing", key));
  return *value;
}

HeldAgainst read_held_against(std::string_view file, const toml::table& table) {
  HeldAgainst h;
  const auto number = [&](const toml::node_view<const toml::node> node, const char* key) {
    const auto value = node.value<double>();
    if (!value || !(*value >= 0)) bad(file, fmt::format("held_against.{} must be a number from 0 on", key));
    return *value;
  };
  for (const auto& [k, node] : table)
    if (const std::string_view key = k.str(); key != "kernels" && key != "types" && key != "dependent" && key != "regime" && key != "rows" && key != "times" && key != "median" && key != "nine_in_ten" && key != "source") bad(file, fmt::format("unknown held_against.{}", key));
  h.kernels = text_at(table, file, "kernels"), h.source = text_at(table, file, "source");
  const toml::array* types = table["types"].as_array();
  if (!types || types->empty()) bad(file, "held_against.types must be a list of types");
  for (const auto& type : *types) h.types.push_back(type.value_or(std::string()));
  h.dependent = table["dependent"].value_or(false), h.regime = table["regime"].value_or(std::string());
  if (!h.regime.empty() && h.regime != "burst" && h.regime != "sustained") bad(file, "held_against.regime must be burst or sustained");
  h.first_row = i64(number(table["rows"][0], "rows")), h.last_row = i64(number(table["rows"][1], "rows")), h.times = i64(number(table["times"], "times"));
  h.median = number(table["median"], "median"), h.ninth = number(table["nine_in_ten"], "nine_in_ten");
  return h;
}

int whole(std::string_view file, const Fact& fact, int low, int high) {
  if (fact.value != std::floor(fact.value) || fact.value < low || fact.value > high)
    bad(file, fmt::format("{} = {} must be a whole number from {} to {}", fact.key, fact.value, low, high));
  return int(fact.value);
}

constexpr const char* kSuffix = ".toml";

}  // namespace

std::string_view machine_file_text(std::string_view name) {
  for (const EmbeddedFile& file : embedded_machine_files())
    if (file.name == name || (file.name.ends_with(kSuffix) && file.name.substr(0, file.name.size() - 5) == name)) return file.text;
  return {};
}

double Machine::tensor_rate(DType type) const {
  switch (type) {
    case DType::fp16: return tensor_fp16;
    case DType::bf16: return tensor_bf16;
    case DType::tf32: return tensor_tf32;
    case DType::e4m3:
    case DType::e5m2: return tensor_fp8;
    case DType::int8: return tensor_int8;
    case DType::fp32:
    case DType::int32: return 0;
  }
  return 0;
}

const Fact* Machine::fact(std::string_view key) const {
  for (const Fact& f : facts)
    if (f.key == key) return &f;
  return nullptr;
}

Machine parse_machine(std::string_view name, std::string_view text) {
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& e) {
    bad(name, fmt::format("line {}: {}", e.source().begin.line, e.description()));
  }
  Machine m;
  m.name = std::string(name);
  m.full_name = text_at(root, name, "full_name");
  m.validation = text_at(root, name, "validation");
  if (const toml::array* names = root["driver_names"].as_array()) {
    for (const auto& n : *names) {
      if (!n.is_string()) bad(name, "driver_names must be a list of texts");
      m.driver_names.push_back(*n.value<std::string>());
    }
  }
  if (m.driver_names.empty()) bad(name, "driver_names (a list of texts) is missing or empty");

  std::vector<bool> seen(std::size(kFields), false);
  std::vector<std::pair<unsigned, Fact>> lines;  // the parser sorts by key; people want the file's order
  bool sms = false;
  const int stated = root["sm"]["compute_capability"]["value"].value_or(0);
  for (const auto& [k, node] : root) {
    const std::string section(k.str());
    if (section == "held_against") {
      if (!node.is_array_of_tables()) bad(name, "held_against must be a list of tables, [[held_against]]");
      for (const auto& table : *node.as_array()) m.held_against.push_back(read_held_against(name, *table.as_table()));
      continue;
    }
    if (section == "full_name" || section == "validation" || section == "driver_names") continue;
    const toml::table* table = node.as_table();
    if (!table) bad(name, fmt::format("'{}' must be a section", section));
    for (const auto& [kk, entry] : *table) {
      const std::string key(kk.str());
      Fact fact = read_fact(name, section + "." + key, entry);
      if (fact.key == "sm.count") {
        if (fact.unit != "SMs") bad(name, "sm.count: the unit must be SMs");
        m.sms = whole(name, fact, 1, 1024), sms = true;
      } else if (fact.key == "sm.compute_capability") {
        if (fact.unit != "major*10+minor") bad(name, "sm.compute_capability: the unit must be major*10+minor");
        m.compute_capability = whole(name, fact, 70, 200);
      } else {
        const auto field = std::find_if(std::begin(kFields), std::end(kFields), [&](const Field& f) { return section == f.section && key == f.key; });
        if (field == std::end(kFields)) bad(name, fmt::format("unknown number {}", fact.key));
        if (fact.unit != field->unit) bad(name, fmt::format("{}: the unit is '{}', must be '{}'", fact.key, fact.unit, field->unit));
        if (!(fact.value >= field->low && fact.value <= field->high))
          bad(name, fmt::format("{} = {} {} must lie from {} to {}", fact.key, fact.value, fact.unit, field->low, field->high));
        if (field->capability && field->capability != stated) bad(name, fmt::format("{} belongs to compute capability {} only", fact.key, field->capability));
        field->member(m) = fact.value;
        seen[size_t(field - std::begin(kFields))] = true;
      }
      lines.emplace_back(entry.source().begin.line, std::move(fact));
    }
  }
  std::sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& line : lines) m.facts.push_back(std::move(line.second));
  if (!sms) bad(name, "sm.count is missing");
  if (!m.compute_capability) bad(name, "sm.compute_capability is missing");
  for (size_t i = 0; i < seen.size(); ++i)
    if (!seen[i] && (kFields[i].capability == 0 || kFields[i].capability == m.compute_capability)) bad(name, fmt::format("{}.{} is missing", kFields[i].section, kFields[i].key));
  if (m.shared_bytes_per_block > m.shared_bytes) bad(name, "sm.shared_bytes_per_block is more than sm.shared_bytes");
  if (m.power_idle >= m.power_limit) bad(name, "power.idle is not below power.limit");
  return m;
}

std::vector<std::string> known_machines() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_machine_files())
    if (file.name.ends_with(kSuffix)) names.emplace_back(file.name.substr(0, file.name.size() - 5));
  std::sort(names.begin(), names.end());
  return names;
}

Machine load_machine(std::string_view name_or_path) {
  if (name_or_path.ends_with(kSuffix)) {
    std::string_view name = name_or_path.substr(0, name_or_path.size() - 5);
    name = name.substr(name.rfind('/') + 1);
    return parse_machine(name, read_file("machine file", std::string(name_or_path)));
  }
  const auto names = known_machines();
  if (std::find(names.begin(), names.end(), name_or_path) == names.end())
    throw std::invalid_argument(fmt::format("machine '{}' must be one of {}, or the path of a .toml file", name_or_path, fmt::join(names, ", ")));
  return parse_machine(name_or_path, machine_file_text(name_or_path));
}

namespace {

const std::vector<Machine>& all_machines() {
  static const std::vector<Machine> machines = [] {
    std::vector<Machine> all;
    for (const std::string& name : known_machines()) all.push_back(load_machine(name));
    return all;
  }();
  return machines;
}

// Totals follow the SM count: the same silicon cut down or a slice of it. Per-SM numbers, clocks and latencies stay.
Machine derive(const Machine& from, std::string_view driver_name, int compute_capability, int sms) {
  Machine m = from;
  const double scale = double(sms) / from.sms;
  m.name = fmt::format("{}~{} (sm_{}, {} SMs)", from.name, driver_name, compute_capability, sms);
  m.full_name = fmt::format("{}, derived from {} and not validated", driver_name, from.full_name);
  m.driver_names = {std::string(driver_name)};
  m.compute_capability = compute_capability;
  m.sms = sms;
  m.derived = true, m.held_against.clear();
  m.validation = fmt::format("none: derived from {}", from.name);
  for (double Machine::*total : {&Machine::l2_bytes, &Machine::l2_bytes_per_clock, &Machine::dram_bytes, &Machine::dram_bandwidth,
                                 &Machine::power_limit, &Machine::power_idle})
    m.*total *= scale;
  for (Fact& f : m.facts) {
    if (f.key == "sm.count") f.value = sms, f.source = "the driver";
    if (f.key == "sm.compute_capability") f.value = compute_capability, f.source = "the driver";
    for (const char* key : {"l2.bytes", "l2.bytes_per_clock", "dram.bytes", "dram.bandwidth", "power.limit", "power.idle"})
      if (f.key == key) f.value *= scale, f.source = fmt::format("{} scaled by {}/{} SMs", from.name, sms, from.sms);
  }
  return m;
}

}  // namespace

namespace {

// Whether `part` stands in `name` as whole words: "NVIDIA H200" in "NVIDIA H200 NVL", not "NVIDIA L4" in "NVIDIA L40".
bool names_it(std::string_view name, std::string_view part) {
  const size_t at = name.find(part), end = at + part.size();
  return at != std::string_view::npos && (end == name.size() || !std::isalnum(static_cast<unsigned char>(name[end])));
}

}  // namespace

const Machine* machine_for_device(std::string_view driver_name, int compute_capability, int sms) {
  const std::vector<Machine>& machines = all_machines();
  const Machine* best = nullptr;
  // The very GPU; else derived from: its name as a part (H200 NVL from H200), the same capability and the nearest SM
  // count, the closest capability.
  std::tuple<int, int, int> best_rank;
  for (const Machine& m : machines) {
    bool named = false;
    if (m.compute_capability == compute_capability) {
      for (const std::string& n : m.driver_names) {
        if (driver_name == n && m.sms == sms) return &m;
        named = named || names_it(driver_name, n);
      }
    }
    const int distance = compute_capability - m.compute_capability;
    const std::tuple<int, int, int> rank{named ? 0 : 1, 2 * std::abs(distance) + (distance < 0), std::abs(m.sms - sms)};
    if (!best || rank < best_rank) best = &m, best_rank = rank;
  }
  if (!best || sms < 1 || compute_capability < 70) return nullptr;

  static std::mutex mutex;
  static std::deque<Machine> derived;  // addresses stay
  const std::lock_guard lock(mutex);
  for (const Machine& m : derived)
    if (m.driver_names[0] == driver_name && m.compute_capability == compute_capability && m.sms == sms) return &m;
  return &derived.emplace_back(derive(*best, driver_name, compute_capability, sms));
}

}  // namespace foretile
