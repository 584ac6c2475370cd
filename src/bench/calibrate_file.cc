// From measurements to a machine file and to the model's error; no GPU.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>

#include "bench/calibrate.h"
#include "foretile/device/catalogue.h"
#include "model/accuracy.h"
#include "model/model.h"
#include "model/text.h"

namespace foretile::bench {

namespace {

// What a microbenchmark can only stand in for: a listed GPU keeps what was found with products.
constexpr const char* kFromKernels[] = {"dram.efficiency", "library.dram_efficiency", "l2.bytes_per_clock", "l2.port_bytes_per_clock", "power.flop", "power.zero_flop", "power.l2", "power.dram", "power.clock"};

std::string toml_number(double v) { return v == std::floor(v) && std::abs(v) < 1e9 ? fmt::format("{:.0f}", v) : fmt::format("{:.6g}", v); }

std::string toml_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string line_of(const Fact& f) { return fmt::format("{} = {{ value = {}, unit = \"{}\", source = \"{}\" }}\n", f.key.substr(f.key.find('.') + 1), toml_number(f.value), f.unit, toml_text(f.source)); }

std::string file_of(const Calibration& c, const std::vector<Fact>& facts) {
  std::string text = fmt::format("# {}, written by foretile calibrate. Every number has its unit and its source; src/model/machine.h says what each one means.\n", c.gpu);
  text += fmt::format("full_name = \"{}\"\nvalidation = \"microbenchmarks on one card ({}, driver {}); kernel constants as their sources say\"\ndriver_names = [\"{}\"]\n", toml_text(c.gpu), c.date, toml_text(c.driver), toml_text(c.gpu));
  std::string section;
  for (const Fact& f : facts) {
    const std::string here = f.key.substr(0, f.key.find('.'));
    if (here != section) text += fmt::format("\n[{}]\n", section = here);
    text += line_of(f);
  }
  return text;
}

}  // namespace

std::string machine_file(const Machine& base, const Calibration& c, std::vector<std::string>& left_out) {
  const bool same = !base.derived && base.sms == c.sms && std::find(base.driver_names.begin(), base.driver_names.end(), c.gpu) != base.driver_names.end();
  const std::string from = base.name.substr(0, base.name.find('~'));
  std::vector<Fact> facts;
  for (Fact f : base.facts) {
    // Its kernel cannot run here.
    if (f.key.starts_with("sm90.") && c.compute_capability != 90) continue;
    if (f.key == "sm.count") f.value = c.sms, f.source = "the driver";
    else if (f.key == "sm.compute_capability") f.value = c.compute_capability, f.source = "the driver";
    else if (!same && !f.key.starts_with("sm.")) f.source = fmt::format("carried over from {}.toml, not measured on this GPU: {}", from, f.source);
    facts.push_back(std::move(f));
  }
  // One at a time, so that a value which a machine file does not allow costs itself alone.
  for (const Measured& m : c.facts) {
    const auto at = std::find_if(facts.begin(), facts.end(), [&](const Fact& f) { return f.key == m.key; });
    if (at == facts.end()) {
      left_out.push_back(fmt::format("{} = {:.6g}: no such number in {}", m.key, m.value, base.name));
      continue;
    }
    if (same && std::find(std::begin(kFromKernels), std::end(kFromKernels), m.key) != std::end(kFromKernels)) {
      left_out.push_back(fmt::format("{}: measured {:.4g}, kept {:.4g}, which real kernels on this GPU gave ({})", m.key, m.value, at->value, from));
      continue;
    }
    const Fact before = *at;
    at->value = m.value;
    at->source = fmt::format("measured by foretile calibrate on {} ({}, driver {}): {}", c.gpu, c.date, c.driver, m.how);
    try {
      parse_machine("calibrated", file_of(c, facts));
    } catch (const std::invalid_argument& e) {
      left_out.push_back(e.what());
      *at = before;
    }
  }
  const std::string text = file_of(c, facts);
  parse_machine("calibrated", text);
  return text;
}

std::vector<Measured> energies(const PowerReadings& r, int sms, double boost, double slope) {
  std::vector<Measured> list;
  // What is on the SMs' supply at this clock, at boost voltage.
  const auto at_boost = [&](double mhz) {
    const double voltage = 1 - slope * (1 - mhz / boost);
    return voltage > 0.1 ? 1 / (voltage * voltage) : 0;
  };
  if (r.idle > 0) list.push_back({"power.idle", r.idle, "three seconds after the last kernel"});
  if (!(r.spin > r.idle && r.idle > 0 && r.spin_mhz > 0)) return list;
  const double clock = (r.spin - r.idle) * at_boost(r.spin_mhz) / (sms * r.spin_mhz * 1e6);
  list.push_back({"power.clock", clock, fmt::format("{:.0f} W with all SMs spinning at {:.0f} MHz, less idle", r.spin, r.spin_mhz)});
  // Busy SMs at another clock than that of the spinning.
  const auto busy = [&](double mhz) { return r.idle + clock * sms * mhz * 1e6 / at_boost(mhz); };
  const auto each = [&](const char* key, double watts, double per_second, double mhz, const char* what) {
    const double more = watts - busy(mhz);
    if (!(per_second > 0) || !(mhz > 0) || !(more > 0) || at_boost(mhz) == 0) return 0.0;
    const double energy = more * at_boost(mhz) / per_second;
    list.push_back({key, energy, fmt::format("{:.0f} W at {:.3g} {} a second and {:.0f} MHz, less busy SMs", watts, per_second, what, mhz)});
    return energy;
  };
  each("power.fp32_flop", r.fp32, r.fp32_flops, r.fp32_mhz, "FLOP of FFMA");
  const double l2 = each("power.l2", r.l2, r.l2_bytes, r.l2_mhz, "B read from L2");
  if (r.dram_bytes > 0 && r.dram_mhz > 0) {
    // DRAM does not follow the SMs' voltage; its bytes pass L2 as well.
    const double more = r.dram - busy(r.dram_mhz) - l2 * r.dram_bytes / at_boost(r.dram_mhz);
    if (more > 0) list.push_back({"power.dram", more / r.dram_bytes, fmt::format("{:.0f} W at {:.3g} B read from DRAM a second and {:.0f} MHz, less busy SMs and L2", r.dram, r.dram_bytes, r.dram_mhz)});
  }
  each("power.flop", r.mma, r.mma_flops, r.mma_mhz, "FLOP of mma.sync on pseudo-random bits");
  each("power.zero_flop", r.zeros, r.zeros_flops, r.zeros_mhz, "FLOP of mma.sync on zeros");
  return list;
}

std::vector<unsigned> chain(std::size_t count, std::size_t stride, unsigned seed) {
  std::vector<unsigned> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin() + 1, order.end(), std::mt19937(seed));  // begins at 0
  std::vector<unsigned> table((count - 1) * stride + 1, 0);
  for (std::size_t i = 0; i < count; ++i) table[order[i] * stride] = unsigned(order[(i + 1) % count] * stride);
  return table;
}

SetReport set_report(const Machine& machine, std::vector<SetRow> rows) {
  const Operation o = catalogue::product(DType::bf16, DType::bf16);
  SetReport report;
  std::vector<Compared> all, decisive;  // the choice is made for sustained load where power binds
  for (SetRow& row : rows) {
    std::string error;
    const auto c = configuration_from(row.configuration, error);
    if (!c) throw std::invalid_argument(error);
    const Problem p{row.m, row.n, row.k};
    if (why_not_on(machine, o, *c, p)) continue;
    const auto compare = [&](double measured, double& forecasted, Regime regime) {
      if (!(measured > 0)) return;
      forecasted = forecast(machine, o, *c, p, {.regime = regime}).seconds;
      all.push_back({p, measured, forecasted});
    };
    compare(row.burst, row.forecast_burst, Regime::burst);
    compare(row.sustained, row.forecast_sustained, Regime::sustained);
    if (row.burst > 0 || row.sustained > 0) decisive.push_back(all.back());
  }
  report.rows = std::move(rows);
  const Accuracy a = accuracy(all);
  report.count = a.times, report.median = a.median, report.ninth = a.ninth;
  report.choice = accuracy(decisive).choice;
  return report;
}

}  // namespace foretile::bench
