#include "model/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

namespace foretile {

namespace {

constexpr double kWidth = 900, kHeight = 560, kLeft = 84, kRight = 30, kTop = 74, kBottom = 64;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

// 1e12 -> "1", 5e11 -> "0.5": TFLOP/s for people.
std::string tera(double rate) { return rate >= 1e15 ? fmt::format("{:.0f}", rate * 1e-12) : fmt::format("{:.3g}", rate * 1e-12); }

struct Axes {
  double x_low, x_high, y_low, y_high;  // powers of ten
  double x(double intensity) const { return kLeft + (std::log10(intensity) - x_low) / (x_high - x_low) * (kWidth - kLeft - kRight); }
  double y(double rate) const { return kHeight - kBottom - (std::log10(rate) - y_low) / (y_high - y_low) * (kHeight - kTop - kBottom); }
};

struct Box {
  double x0, y0, x1, y1;
  bool meets(const Box& b) const { return x0 < b.x1 && b.x0 < x1 && y0 < b.y1 && b.y0 < y1; }
};
// What stands along a line, in pieces small enough that a box that crosses it meets one.
void add_line(std::vector<Box>& taken, double x0, double y0, double x1, double y1, double half) {
  const int pieces = 1 + int(std::hypot(x1 - x0, y1 - y0) / 6);
  for (int i = 0; i <= pieces; ++i) {
    const double x = x0 + (x1 - x0) * i / pieces, y = y0 + (y1 - y0) * i / pieces;
    taken.push_back({x - half, y - half, x + half, y + half});
  }
}
// The letters are no wider than this, bold ones included.
constexpr double kLetter = 8.2;

// Where two lines of `width` and `height` beside (x, y) meet least of what is there, near the point rather than far from it.
Box free_place(const std::vector<Box>& taken, double x, double y, double width, double height) {
  Box best{};
  double least = 1e9;
  for (const bool left : {false, true})
    for (double down = 8; down < kHeight; down += 6)
      for (const double top : {y + down, y - down - height}) {
        const double from = left ? x - 12 - width : x + 12;
        const Box box{from, top, from + width, top + height};
        if (box.x0 < kLeft + 2 || box.x1 > kWidth - kRight - 2 || box.y0 < kTop || box.y1 > kHeight - kBottom - 4) continue;
        const double cost = down + 40.0 * double(std::count_if(taken.begin(), taken.end(), [&](const Box& b) { return box.meets(b); })) + (top < y ? 20 : 0);
        if (cost < least) least = cost, best = box;
      }
  return least < 1e9 ? best : Box{x + 12, y + 8, x + 12 + width, y + 8 + height};
}

Axes axes_of(const Roofline& r) {
  const double ridge = r.peak / r.bandwidth;
  double least_x = ridge / 30, most_x = ridge * 30, least_y = r.peak / 1000;
  for (const RooflinePoint& p : r.points) {
    if (!(p.intensity > 0) || !(p.rate > 0)) continue;
    least_x = std::min(least_x, p.intensity / 2), most_x = std::max(most_x, p.intensity * 2), least_y = std::min(least_y, p.rate / 2);
  }
  return {std::log10(least_x), std::log10(most_x), std::log10(std::min(least_y, least_x * r.bandwidth)), std::log10(r.peak * 1.6)};
}

}  // namespace

std::string roofline_svg(const Roofline& r) {
  const Axes a = axes_of(r);
  const double x0 = kLeft, x1 = kWidth - kRight, y0 = kHeight - kBottom, y1 = kTop;
  std::string s = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#fff\"/>\n<text x=\"{2}\" y=\"28\" font-size=\"17\" font-weight=\"bold\">{3}</text>\n<text x=\"{2}\" y=\"50\" fill=\"#555\">{4}</text>\n",
      kWidth, kHeight, x0, escaped(r.title), escaped(r.subtitle));
  // Grid: decades, named; 2 and 5 between them faint.
  for (int d = int(std::floor(a.x_low)); d <= int(std::ceil(a.x_high)); ++d)
    for (const int m : {1, 2, 5}) {
      const double v = m * std::pow(10, d), x = a.x(v);
      if (x < x0 - 0.5 || x > x1 + 0.5) continue;
      s += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"{3}\"/>\n<text x=\"{0:.1f}\" y=\"{4}\" text-anchor=\"middle\">{5:.4g}</text>\n", x, y0, y1, m == 1 ? "#ddd" : "#f0f0f0", y0 + 18, v);
    }
  for (int d = int(std::floor(a.y_low)); d <= int(std::ceil(a.y_high)); ++d)
    for (const int m : {1, 2, 5}) {
      const double v = m * std::pow(10, d), y = a.y(v);
      if (y > y0 + 0.5 || y < y1 - 0.5) continue;
      s += fmt::format("<line x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\" stroke=\"{3}\"/>\n<text x=\"{4}\" y=\"{5:.1f}\" text-anchor=\"end\">{6}</text>\n", x0, y, x1, m == 1 ? "#ddd" : "#f0f0f0", x0 - 8, y + 4, tera(v));
    }
  s += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">FLOP a byte of DRAM</text>\n<text transform=\"translate(22 {:.1f}) rotate(-90)\" text-anchor=\"middle\">TFLOP/s</text>\n", (x0 + x1) / 2, y0 + 44, (y0 + y1) / 2);

  const double ridge = r.peak / r.bandwidth, low = std::pow(10, a.x_low), high = std::pow(10, a.x_high);
  s += fmt::format("<path d=\"M {:.1f} {:.1f} L {:.1f} {:.1f} L {:.1f} {:.1f}\" fill=\"none\" stroke=\"#1a5fb4\" stroke-width=\"2.5\"/>\n", a.x(low), a.y(low * r.bandwidth), a.x(ridge), a.y(r.peak), a.x(high), a.y(r.peak));
  s += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#1a5fb4\">{}: {} TFLOP/s</text>\n", x1 - 4, a.y(r.peak) - 8, escaped(r.peak_name), tera(r.peak));
  if (r.sustained > 0) {
    s += fmt::format("<path d=\"M {:.1f} {:.1f} L {:.1f} {:.1f}\" fill=\"none\" stroke=\"#1a5fb4\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"/>\n", a.x(r.sustained / r.bandwidth), a.y(r.sustained), a.x(high), a.y(r.sustained));
    s += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#1a5fb4\">{}: {}</text>\n", x1 - 4, a.y(r.sustained) + 16, escaped(r.sustained_name), tera(r.sustained));
  }
  const double at = std::pow(10, a.x_low + 0.45 * (std::log10(ridge) - a.x_low)), angle = -std::atan2(a.y(low * r.bandwidth) - a.y(r.peak), a.x(ridge) - a.x(low)) * 180 / 3.14159265;
  s += fmt::format("<text transform=\"translate({:.1f} {:.1f}) rotate({:.1f})\" text-anchor=\"middle\" fill=\"#1a5fb4\">{}</text>\n", a.x(at) - 8, a.y(at * r.bandwidth) - 8, angle, escaped(r.bandwidth_name));

  std::vector<Box> taken;
  add_line(taken, a.x(low), a.y(low * r.bandwidth), a.x(ridge), a.y(r.peak), 4);
  add_line(taken, a.x(ridge), a.y(r.peak), x1, a.y(r.peak), 4);
  if (r.sustained > 0) {
    add_line(taken, a.x(r.sustained / r.bandwidth), a.y(r.sustained), x1, a.y(r.sustained), 4);
    add_line(taken, x1 - 4 - kLetter * double(r.sustained_name.size() + 6), a.y(r.sustained) + 12, x1, a.y(r.sustained) + 12, 8);
  }
  for (const RooflinePoint& p : r.points)
    if (p.intensity > 0 && p.rate > 0) add_line(taken, a.x(p.intensity), a.y(p.rate), a.x(p.intensity), a.y(p.rate), p.chosen ? 8 : 5);

  // The others first, the chosen one above them with its name.
  for (const bool chosen : {false, true})
    for (const RooflinePoint& p : r.points) {
      if (p.chosen != chosen || !(p.intensity > 0) || !(p.rate > 0)) continue;
      const double x = a.x(p.intensity), y = a.y(p.rate), roof = std::min(r.peak, p.intensity * r.bandwidth);
      const std::string tip = fmt::format("{}: {} TFLOP/s at {:.3g} FLOP a byte, {:.0f} % of the roof", p.name, tera(p.rate), p.intensity, 100 * p.rate / roof);
      s += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\" fill-opacity=\"{}\"><title>{}</title></circle>\n", x, y, chosen ? 7 : 4, chosen ? "#c01c28" : "#888", chosen ? "1" : "0.55", escaped(tip));
      if (!chosen) continue;
      s += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#c01c28\" stroke-dasharray=\"2 3\"/>\n", x, y, a.y(roof));
      // White under the letters, so that lines and dots do not cross them.
      const std::string second = fmt::format("{} TFLOP/s, {:.0f} % of the roof above it", tera(p.rate), 100 * p.rate / roof);
      const Box place = free_place(taken, x, y, kLetter * double(std::max(p.name.size(), second.size())), 36);
      const bool left = place.x0 < x;
      for (const char* style : {"stroke=\"#fff\" stroke-width=\"4\"", "fill=\"#c01c28\""})
        for (const auto& [text, weight, down] : {std::tuple{p.name, "bold", 14}, {second, "normal", 31}})
          s += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-weight=\"{}\" {}>{}</text>\n", left ? place.x1 : place.x0, place.y0 + down, left ? "end" : "start", weight, style, escaped(text));
    }
  // Beside the axis's name: the head's lines are of any length.
  if (std::any_of(r.points.begin(), r.points.end(), [](const RooflinePoint& p) { return !p.chosen; }))
    s += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"#888\" fill-opacity=\"0.55\"/>\n<text x=\"{}\" y=\"{}\" fill=\"#555\">the catalogue's other configurations</text>\n", x1 - 246, y0 + 40, x1 - 236, y0 + 44);
  return s + "</svg>\n";
}

std::string roofline_html(const Roofline& r) {
  std::string rows;
  std::vector<RooflinePoint> points = r.points;
  std::stable_sort(points.begin(), points.end(), [](const auto& x, const auto& y) { return x.rate > y.rate; });
  for (const RooflinePoint& p : points) {
    if (!(p.intensity > 0) || !(p.rate > 0)) continue;
    rows += fmt::format("<tr{}><td>{}</td><td>{}</td><td>{:.4g}</td><td>{:.0f} %</td></tr>\n", p.chosen ? " class=\"chosen\"" : "", escaped(p.name), tera(p.rate), p.intensity, 100 * p.rate / std::min(r.peak, p.intensity * r.bandwidth));
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\n<style>body{{font-family:sans-serif;max-width:920px;margin:2em auto;color:#222}} svg{{max-width:100%;height:auto}} "
      "table{{border-collapse:collapse}} td,th{{padding:.2em 1em;text-align:right;border-bottom:1px solid #ddd}} td:first-child,th:first-child{{text-align:left;font-family:monospace}} .chosen{{color:#c01c28;font-weight:bold}}</style></head>\n<body>\n{}"
      "<table><tr><th>kernel</th><th>TFLOP/s</th><th>FLOP a byte</th><th>of the roof</th></tr>\n{}</table>\n</body></html>\n",
      escaped(r.title), roofline_svg(r), rows);
}

}  // namespace foretile
