#include "cli/explain_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/terminal.h"
#include "foretile/device/catalogue.h"
#include "foretile/device/kernels/family.h"
#include "model/counters.h"
#include "model/described_kernel_text.h"
#include "model/page.h"
#include "model/roofline.h"
#include "model/text.h"

namespace foretile::cli {

namespace {

// NAME=VALUE, as --set takes them.
std::map<std::string, std::string> settings(const std::vector<std::string>& given) {
  std::map<std::string, std::string> set;
  for (const std::string& text : given) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size()) throw BadInput(fmt::format("--set is \"{}\"; allowed: NAME=VALUE, a name of the kernel file's [let]", text));
    set[text.substr(0, at)] = text.substr(at + 1);
  }
  return set;
}

nlohmann::ordered_json json_of(const std::vector<DescribedAccess>& accesses, const std::vector<AccessCost>& costs) {
  auto list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < accesses.size(); ++i) {
    const AccessCost& c = costs[i];
    list.push_back({{"access", accesses[i].text}, {"space", accesses[i].space == Space::global ? "global" : "shared"}, {"direction", accesses[i].direction == Direction::load ? "load" : "store"},
                    {"bytes", accesses[i].bytes}, {"requests", c.requests}, {"wavefronts", c.wavefronts}, {"bank_conflicts", c.conflicts()}, {"sectors", c.sectors}, {"ideal_sectors", c.ideal_sectors}, {"new_sectors", c.new_sectors}});
  }
  return list;
}

nlohmann::ordered_json json_of(const std::vector<ExpectedCounter>& counters) {
  auto list = nlohmann::ordered_json::array();
  for (const ExpectedCounter& c : counters) list.push_back({{"name", c.name}, {"value", c.value}, {"unit", c.unit}, {"exact", c.exact}, {"how", c.how}});
  return list;
}

std::string tile_text(const Configuration& c) {
  return fmt::format("{} x {} x {}", c.tile_m, c.tile_n, c.tile_k);
}

void write(const std::string& path, const Roofline& r) {
  const bool html = path.ends_with(".html");
  if (!html && !path.ends_with(".svg")) throw BadInput(fmt::format("--roofline is \"{}\"; allowed: a file that ends in .svg or .html", path));
  write_file("--roofline", path, html ? roofline_html(r) : roofline_svg(r));
  fmt::print(stderr, "roofline: {}\n", path);
}

Roofline roof(const Machine& machine, const std::string& what, const Conditions& conditions, double rate, const char* unit, double clock_mhz) {
  Roofline r;
  r.title = what;
  r.subtitle = fmt::format("{}, {}", machine.full_name, regime_text(conditions));
  r.peak = rate * machine.sms * machine.boost_mhz * 1e6;
  r.peak_name = fmt::format("{} at {:.0f} MHz", unit, machine.boost_mhz);
  if (clock_mhz < 0.99 * machine.boost_mhz) {
    r.sustained = rate * machine.sms * clock_mhz * 1e6;
    r.sustained_name = fmt::format("at the forecast's {:.0f} MHz", clock_mhz);
  }
  r.bandwidth = machine.dram_bandwidth;  // no kernel's share of it: each family reaches another
  r.bandwidth_name = fmt::format("DRAM's data sheet, {}/s", bytes_text(r.bandwidth));
  return r;
}

}  // namespace

void print_comparison(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions, const std::vector<Configuration>& configurations) {
  std::vector<Anatomy> x;
  for (const Configuration& c : configurations) x.push_back(anatomy(machine, o, c, p, conditions));
  fmt::print("{}, {}\non {}, {}\n\nA: {}\nB: {}\n\n", shape_text(p), operation_line(o), machine.full_name, regime_text(conditions), text_of(configurations[0]), text_of(configurations[1]));
  Table table;
  table.column("").column("A", Align::right).column("B", Align::right).column("B/A", Align::right);
  const auto row = [&](const std::string& name, const auto& value, const auto& show, Style style = Style::plain) {
    const double first = value(x[0]), second = value(x[1]);
    table.row({{name, style}, {show(first), style}, {show(second), style}, first > 0 ? fmt::format("{:.2f}", second / first) : "-"});
  };
  const auto time = [](double s) { return time_text(s); };
  const auto plain = [](double v) { return foretile::number(v); };
  row("forecast", [](const Anatomy& a) { return a.forecast.seconds; }, time, Style::bold);
  table.row({"bound by", name_of(x[0].forecast.bound), name_of(x[1].forecast.bound)});
  const std::pair<const char*, double Forecast::*> parts[] = {{"DRAM", &Forecast::dram}, {"L2", &Forecast::l2}, {"shared memory", &Forecast::shared_memory}, {"multiply", &Forecast::compute},
                                                             {"issue, barriers", &Forecast::issue}, {"latency", &Forecast::latency}, {"epilogues (latency)", &Forecast::epilogue}, {"launch", &Forecast::launch}};
  for (const auto& [name, part] : parts) row(fmt::format("  {}", name), [part = part](const Anatomy& a) { return a.forecast.*part; }, time);
  table.row({"tile", tile_text(configurations[0]), tile_text(configurations[1])});
  row("tiles", [](const Anatomy& a) { return double(a.tiles); }, plain);
  row("waves", [](const Anatomy& a) { return a.forecast.waves; }, plain);
  row("tiles of the busiest block", [](const Anatomy& a) { return double(a.rounds); }, plain);
  row("padding multiplied", [&](const Anatomy& a) { return a.flops_executed / std::max(1.0, flop_count(p)) - 1; }, [](double v) { return percent(v); });
  row("blocks an SM", [](const Anatomy& a) { return double(a.forecast.blocks_per_sm); }, plain);
  row("registers a thread", [](const Anatomy& a) { return double(a.forecast.registers); }, plain);
  row("shared memory a block", [](const Anatomy& a) { return double(a.forecast.shared_bytes); }, [](double v) { return bytes_text(v); });
  row("asked of L2", [](const Anatomy& a) { return a.forecast.l2_bytes; }, [](double v) { return bytes_text(v); });
  row("L2 answers", [](const Anatomy& a) { return a.forecast.l2_hit_rate; }, [](double v) { return percent(v); });
  row("moved by DRAM", [](const Anatomy& a) { return a.forecast.dram_bytes; }, [](double v) { return bytes_text(v); });
  row("SM clock", [](const Anatomy& a) { return a.forecast.clock_mhz; }, [](double v) { return fmt::format("{:.0f} MHz", v); });
  row("board power", [](const Anatomy& a) { return a.forecast.watts; }, [](double v) { return fmt::format("{:.0f} W", v); });
  fmt::print("{}\n", table.text());

  const int fast = x[0].forecast.seconds <= x[1].forecast.seconds ? 0 : 1, slow = 1 - fast;
  const double gain = x[size_t(slow)].forecast.seconds / std::max(1e-12, x[size_t(fast)].forecast.seconds) - 1;
  if (std::abs(gain) < 5e-4) {
    fmt::print("Both are just as fast.\n");
    return;
  }
  // The part in which they differ most.
  const auto [part, member] = *std::max_element(std::begin(parts), std::end(parts), [&](const auto& a, const auto& b) {
    return x[size_t(slow)].forecast.*a.second - x[size_t(fast)].forecast.*a.second < x[size_t(slow)].forecast.*b.second - x[size_t(fast)].forecast.*b.second;
  });
  const double saved = x[size_t(slow)].forecast.*member - x[size_t(fast)].forecast.*member;
  fmt::print("{}", wrapped(fmt::format("{} is {}{}.", fast ? "B" : "A", comparison(gain), saved > 0 ? fmt::format("; most of the difference is in {}: {} less", part, time_text(saved)) : std::string())));
}

nlohmann::ordered_json comparison_json(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions, const std::vector<Configuration>& configurations) {
  auto list = nlohmann::ordered_json::array();
  for (const Configuration& c : configurations) list.push_back({{"configuration", text_of(c)}, {"forecast", cli::json_of(forecast(machine, o, c, p, conditions))}});
  return list;
}

void write_roofline(const std::string& path, const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions) {
  const Forecast f = forecast(machine, o, c, p, conditions);
  const bool tensor = uses_tensor_cores(c.family);
  Roofline r = roof(machine, fmt::format("{}, {}", shape_text(p), operation_line(o)), conditions, tensor ? machine.tensor_rate(o.a) : machine.fp32_rate, tensor ? "tensor cores" : "FP32 cores", f.clock_mhz);
  r.points.push_back({text_of(c), flop_count(p) / std::max(1.0, f.dram_bytes), flop_count(p) / f.seconds, true});
  for (const Candidate& other : choose(machine, o, p, conditions).ranked)
    if (!(other.configuration == c)) r.points.push_back({text_of(other.configuration), flop_count(p) / std::max(1.0, other.forecast.dram_bytes), flop_count(p) / other.forecast.seconds, false});
  write(path, r);
}

void write_roofline(const std::string& path, const Machine& machine, const DescribedKernel& k, const Problem& p, const Conditions& conditions) {
  const DescribedForecast f = forecast(machine, k, p, conditions);
  const bool tensor = on_tensor_cores(k.multiplier);
  Roofline r = roof(machine, fmt::format("{}, {}", k.name, shape_text(p)), conditions, tensor ? machine.tensor_rate(k.input) : k.multiplier == Multiplier::fp32 ? machine.fp32_rate : machine.fp16_rate,
                    tensor ? "tensor cores" : k.multiplier == Multiplier::fp32 ? "FP32 cores" : "fp16 cores", f.clock_mhz);
  r.points.push_back({"this kernel", flop_count(p) / std::max(1.0, f.traffic.dram_bytes()), flop_count(p) / f.seconds, true});
  write(path, r);
}

int explain_kernel(const std::string& path, const std::vector<std::string>& set_options, const Problem& p, const MachineOptions& machine_options, const std::string& roofline, bool as_json) {
  const Machine machine = machine_options.load();
  const Conditions conditions = machine_options.conditions(machine.sms);
  const auto set = settings(set_options);
  const KernelFile file = load_kernel_file(path, set);
  const KernelWith with = [&](const std::string& name, i64 value) {
    auto other = set;
    other[name] = std::to_string(value);
    return load_kernel_file(path, other);
  };
  if (!roofline.empty()) write_roofline(roofline, machine, file.kernel, p, conditions);
  if (!as_json) {
    fmt::print("{}", explain_text(machine, file, p, conditions, with, size_t(std::min(terminal_width(), 110))));
    return kOk;
  }
  auto json = envelope("explain.kernel");
  json["kernel"] = file.kernel.name;
  json["product"] = {{"m", p.m}, {"n", p.n}, {"k", p.k}, {"batch", p.batch}};
  json["machine"] = machine.name;
  json["regime"] = machine_options.regime;
  if (!nothing_to_compute(p).empty()) {
    json["forecast"] = {{"seconds", 0.0}};
    say_nothing(json, p);
    print_json(json);
    return kOk;
  }
  const DescribedForecast f = forecast(machine, file.kernel, p, conditions);
  json["forecast"] = {{"seconds", f.seconds},
                      {"bound", name_of(f.bound)},
                      {"parts_seconds", {{"dram", f.dram}, {"l2", f.l2}, {"shared_memory", f.shared_memory}, {"compute", f.compute}, {"issue", f.issue}, {"latency", f.latency}, {"launch", f.launch}, {"epilogue", f.epilogue}}},
                      {"waves", f.waves},
                      {"clock_mhz", f.clock_mhz},
                      {"blocks_per_sm", f.occupancy.blocks_per_sm},
                      {"occupancy", f.occupancy.warps_fraction},
                      {"limiter", name_of(f.occupancy.limiter)},
                      {"dram_bytes", f.traffic.dram_bytes()},
                      {"l2_request_bytes", f.l2_request_bytes},
                      {"l2_hit_rate", f.traffic.l2_hit_rate}};
  json["step"] = json_of(file.kernel.step, f.step);
  json["epilogue"] = json_of(file.kernel.epilogue, f.epilogue_accesses);
  json["remedies"] = nlohmann::ordered_json::array();
  for (const Remedy& r : remedies(machine, file, p, conditions, with)) json["remedies"].push_back({{"what", r.what}, {"seconds", r.seconds}, {"because", r.because}});
  json["counters"] = json_of(expected_counters(file.kernel, f));
  print_json(json);
  return kOk;
}

nlohmann::ordered_json counters_json(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Anatomy& x) { return json_of(expected_counters(machine, o, c, p, x)); }

}  // namespace foretile::cli
