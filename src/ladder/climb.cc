#include "ladder/climb.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "foretile/device/catalogue.h"
#include "ladder/described.h"
#include "model/text.h"

namespace foretile::ladder {

namespace {

Operation production_operation(const Rung& rung, const Problem& p) {
  Operation o = operation_of(rung);
  if (p.k % 8 == 0 && p.n % 8 == 0) o.inputs = o.output = Alignment::tma;
  return o;
}

Conditions warm(Conditions conditions) {
  conditions.warm = true;
  return conditions;
}

}  // namespace

Climbed forecast_production(const Machine& machine, const Rung& rung, const Configuration& configuration, const Problem& p, const Conditions& conditions) {
  const Forecast f = forecast(machine, production_operation(rung, p), configuration, p, warm(conditions));
  return {.rung = &rung, .forecast = f.seconds, .bound = f.bound, .configuration = text_of(configuration)};
}

Climbed forecast_rung(const Machine& machine, const Rung& rung, const Variant* v, const Problem& p, const Conditions& conditions) {
  Climbed c{.rung = &rung, .variant = v};
  if (machine.compute_capability < rung.first_capability) {
    c.why_not = fmt::format("needs compute capability {}.{}", rung.first_capability / 10, rung.first_capability % 10);
    return c;
  }
  if (const char* reason = why_not(rung, p)) {
    c.why_not = reason;
    return c;
  }
  if (!rung.production) {
    const DescribedKernel k = describe(rung, *v, p);
    c.why_not = foretile::why_not(machine, k, p);
    if (!c.why_not.empty()) return c;
    const DescribedForecast f = forecast(machine, k, p, warm(conditions));
    c.forecast = f.seconds, c.bound = f.bound;
  } else {
    c = forecast_production(machine, rung, pick(machine, production_operation(rung, p), p, conditions), p, conditions);
  }
  if (rung.number > 1) c.step = step_of(rung, v, machine);
  return c;
}

std::vector<Climbed> forecast_sweep(const Machine& machine, const Problem& p, const Conditions& conditions, const Rung* only) {
  constexpr int kFp32Kernel = 8;
  std::vector<Climbed> table;
  for (const Rung& r : rungs()) {
    if (only && only != &r) continue;
    if (r.number == kFp32Kernel) {
      for (const Configuration& configuration : catalogue::kConfigurations) {
        if (configuration.family != Family::ffma || why_not_on(machine, production_operation(r, p), configuration, p)) continue;
        table.push_back(forecast_production(machine, r, configuration, p, conditions));
      }
    } else if (!r.production && r.variants.size() > 1) {
      for (const Variant& v : r.variants)
        if (!v.lesson) table.push_back(forecast_rung(machine, r, &v, p, conditions));
    }
  }
  return table;
}

std::vector<Swept> picks_of(const std::vector<Climbed>& table) {
  std::vector<Swept> list;
  const Climbed *const end = table.data() + table.size();
  for (const Climbed* first = table.data(); first != end;) {
    const Climbed* const last = std::find_if(first, end, [&](const Climbed& c) { return c.rung != first->rung; });
    const auto least = [&](double Climbed::*time) {
      const Climbed* best = nullptr;
      for (const Climbed* c = first; c != last; ++c)
        if (c->*time > 0 && (!best || c->*time < best->*time)) best = c;
      return best;
    };
    list.push_back({first, last, least(&Climbed::forecast), least(&Climbed::measured)});
    first = last;
  }
  return list;
}

double roof(const Machine& machine, DType type) {
  const double rate = type == DType::fp32 ? machine.fp32_rate : type == DType::bf16 ? machine.tensor_bf16 : machine.tensor_fp16;
  return rate * machine.sms * machine.boost_mhz * 1e6;
}

namespace {

constexpr int kLeft = 70, kTop = 64, kWidth = 1000, kHeight = 470, kPlotWidth = kWidth - kLeft - 150, kPlotHeight = kHeight - kTop - 96;

struct Scale {
  double low, high;  // FLOP/s, powers of ten
  double y(double rate) const { return kTop + kPlotHeight * (1 - std::log10(rate / low) / std::log10(high / low)); }
};

// Figures over bars cross lines: drawn in white first, broader, then in black (not every renderer knows paint-order).
constexpr const char* kHalo = "stroke=\"white\" stroke-width=\"3\"";

std::string rate_text(double rate) { return fmt::format("{:.{}f}", rate * 1e-12, rate >= 1e14 ? 0 : rate >= 1e13 ? 1 : 2); }

std::string text(double x, double y, const std::string& what, const char* anchor = "middle", const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y, anchor, more, what);
}
std::string line(double y, const char* colour, const char* dash, double from, double to) {
  return fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"1.5\" stroke-dasharray=\"{}\"/>\n", from, to, y, y, colour, dash);
}

}  // namespace

std::string picture(const Machine& machine, const Problem& p, const std::vector<Climbed>& climb, double cublas_fp32, double cublas_half) {
  const double flop = flop_count(p);
  double low = 1e30, high = 0;
  bool measured = false;
  for (const Climbed& c : climb) {
    for (double t : {c.forecast, c.measured})
      if (t > 0) low = std::min(low, flop / t), high = std::max(high, flop / t);
    measured |= c.measured > 0;
  }
  if (high == 0) throw std::invalid_argument("no rung can run: there is nothing to draw");
  const bool tensor = std::any_of(climb.begin(), climb.end(), [](const Climbed& c) { return c.rung->type != DType::fp32 && c.why_not.empty(); });
  high = std::max(high, roof(machine, tensor ? DType::bf16 : DType::fp32));
  const Scale scale{std::pow(10, std::floor(std::log10(low))), 1.6 * high};
  const double slot = double(kPlotWidth) / double(climb.size()), right = kLeft + kPlotWidth;

  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n", kWidth, kHeight);
  out += text(kLeft, 24, fmt::format("{} x {} x {} on {}", p.m, p.n, p.k, machine.full_name), "start", "font-size=\"16\" font-weight=\"bold\"");
  out += fmt::format("<rect x=\"{}\" y=\"38\" width=\"12\" height=\"12\" fill=\"#9ecae1\"/>", kLeft) + text(kLeft + 18, 48, "forecast", "start");
  if (measured) out += fmt::format("<rect x=\"{}\" y=\"38\" width=\"12\" height=\"12\" fill=\"#08519c\"/>", kLeft + 90) + text(kLeft + 108, 48, "measured", "start");
  for (double decade = scale.low; decade <= scale.high * 1.001; decade *= 10) {
    const double y = scale.y(decade);
    out += fmt::format("<line x1=\"{}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#dddddd\"/>\n", kLeft, right, y, y);
    out += text(kLeft - 8, y + 4, fmt::format("{:g}", decade * 1e-12), "end");
  }
  out += text(20, kTop + kPlotHeight / 2, "TFLOP/s", "middle", fmt::format("transform=\"rotate(-90 20 {})\"", kTop + kPlotHeight / 2).c_str());

  const auto bar = [&](double x, double width, double seconds, const char* colour) {
    const double y = scale.y(flop / seconds);
    return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y, width, kTop + kPlotHeight - y, colour);
  };
  double fp32_end = kLeft;
  for (std::size_t i = 0; i < climb.size(); ++i)
    if (climb[i].rung->type == DType::fp32) fp32_end = kLeft + slot * double(i + 1);
  struct Mark {
    double rate;
    const char *what, *colour, *dash;
    double from, shift;
  };
  std::vector<Mark> marks = {{roof(machine, DType::fp32), "fp32 roof", "#a50f15", "6 3", kLeft, 0}};
  if (cublas_fp32 > 0) marks.push_back({flop / cublas_fp32, "cuBLAS fp32", "#238b45", "2 3", kLeft, 12});
  if (tensor) marks.push_back({roof(machine, DType::bf16), "bf16 roof", "#a50f15", "6 3", fp32_end, 0});
  if (tensor && cublas_half > 0) marks.push_back({flop / cublas_half, "cuBLAS bf16", "#238b45", "2 3", fp32_end, 12});
  // A figure over its bar, or where a line would cross it, in the bar.
  const auto figure_at = [&](double x, double top) {
    const bool crossed = std::any_of(marks.begin(), marks.end(), [&](const Mark& m) { return x >= m.from && scale.y(m.rate) > top - 18 && scale.y(m.rate) < top; });
    return crossed ? top + 14 : top - 5;
  };
  std::string figures;
  for (std::size_t i = 0; i < climb.size(); ++i) {
    const Climbed& c = climb[i];
    const double x = kLeft + slot * double(i), width = slot * 0.72 / (measured ? 2 : 1);
    if (c.forecast > 0) {
      out += bar(x + slot * 0.14, width, c.forecast, "#9ecae1");
      if (c.measured > 0) out += bar(x + slot * 0.14 + width, width, c.measured, "#08519c");
      const double shown = flop / (c.measured > 0 ? c.measured : c.forecast);
      const double y = figure_at(x + slot / 2, std::min(scale.y(flop / c.forecast), c.measured > 0 ? scale.y(flop / c.measured) : 1e9));
      for (const char* style : {kHalo, ""}) figures += text(x + slot / 2, y, rate_text(shown), "middle", style);
    } else {
      out += text(x + slot / 2, kTop + kPlotHeight - 6, "-");
    }
    // The name in two lines at most.
    const std::string name = c.rung->name;
    const std::size_t cut = name.size() > 9 ? name.find(' ') : std::string::npos;
    out += text(x + slot / 2, kTop + kPlotHeight + 18, std::to_string(c.rung->number), "middle", "font-weight=\"bold\"");
    out += text(x + slot / 2, kTop + kPlotHeight + 34, name.substr(0, cut), "middle", "font-size=\"10\"");
    if (cut != std::string::npos) out += text(x + slot / 2, kTop + kPlotHeight + 46, name.substr(cut + 1), "middle", "font-size=\"10\"");
  }
  for (const Mark& m : marks)
    out += line(scale.y(m.rate), m.colour, m.dash, m.from, right) + text(right + 6, scale.y(m.rate) + m.shift, fmt::format("{} {}", m.what, rate_text(m.rate)), "start", fmt::format("fill=\"{}\"", m.colour).c_str());
  return out + figures + "</svg>\n";
}

}  // namespace foretile::ladder
