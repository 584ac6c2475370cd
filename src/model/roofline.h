// A roofline: how fast a product can go for the bytes it moves, and where kernels stand under that roof. As an SVG picture
// or an HTML page with it.
#pragma once
#include <string>
#include <vector>

#include "model/machine.h"

namespace foretile {

struct RooflinePoint {
  std::string name;
  double intensity = 0;  // FLOP a byte of DRAM
  double rate = 0;       // FLOP/s
  bool chosen = false;   // the one the picture is about
};

struct Roofline {
  std::string title, subtitle;
  double peak = 0;            // FLOP/s of the unit that multiplies, at `peak_name`
  std::string peak_name;      // "tensor cores at 1980 MHz"
  double sustained = 0;       // FLOP/s at the clock of the forecast; 0: no second roof
  std::string sustained_name;
  double bandwidth = 0;       // B/s of DRAM, more than any kernel gets
  std::string bandwidth_name; // "DRAM's data sheet, 4.80 TB/s"
  std::vector<RooflinePoint> points;
};

std::string roofline_svg(const Roofline& r);
std::string roofline_html(const Roofline& r);

}  // namespace foretile
