// The roofline's picture: what is written in it can be read.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "model/roofline.h"

namespace foretile {
namespace {

TEST(Roofline, TheNameOfTheChosenOneCoversNoOther) {
  Roofline r;
  r.title = "title", r.peak = 67e12, r.peak_name = "FP32 cores", r.bandwidth = 4.8e12, r.bandwidth_name = "DRAM";
  for (int i = 0; i < 12; ++i) r.points.push_back({"other", 20 * std::pow(1.25, i), (30 + 3 * (i % 5)) * 1e12});
  r.points.push_back({"ffma:128x128x16:t16x8:k2", 205, 49e12, true});
  const std::string svg = roofline_svg(r);
  std::vector<std::pair<double, double>> dots;
  const std::regex dot(R"re(<circle cx="([0-9.]+)" cy="([0-9.]+)" r="4"[^>]*><title>)re"), label(R"re(<text x="([0-9.]+)" y="([0-9.]+)" text-anchor="(\w+)"[^>]*fill="#c01c28">([^<]*)<)re");
  for (std::sregex_iterator i(svg.begin(), svg.end(), dot), end; i != end; ++i) dots.emplace_back(std::stod((*i)[1]), std::stod((*i)[2]));
  ASSERT_EQ(dots.size(), 12u);
  int lines = 0;
  for (std::sregex_iterator i(svg.begin(), svg.end(), label), end; i != end; ++i, ++lines) {
    const double x = std::stod((*i)[1]), y = std::stod((*i)[2]), width = 7.5 * double((*i)[4].length()), from = (*i)[3] == "end" ? x - width : x;
    EXPECT_GE(from, 84);
    EXPECT_LE(from + width, 870);
    for (const auto& [dx, dy] : dots) EXPECT_FALSE(dx > from - 4 && dx < from + width + 4 && dy > y - 16 && dy < y + 6) << (*i)[4] << " covers the dot at " << dx << ", " << dy;
  }
  EXPECT_EQ(lines, 2);
}

TEST(Roofline, NothingStandsBesideTheHead) {
  Roofline r;
  r.title = "title", r.subtitle = std::string(110, 'x'), r.peak = 67e12, r.peak_name = "FP32 cores", r.bandwidth = 4.8e12, r.bandwidth_name = "DRAM";
  r.points = {{"other", 20, 30e12}, {"chosen", 20, 40e12, true}};
  const std::string svg = roofline_svg(r);
  const std::regex text(R"re(<text x="[0-9.]+" y="([0-9.]+)"[^>]*>([^<]*)<)re");
  int head = 0;
  for (std::sregex_iterator i(svg.begin(), svg.end(), text), end; i != end; ++i) head += std::stod((*i)[1]) < 74;
  EXPECT_EQ(head, 2) << "title and subtitle alone";
}

}  // namespace
}  // namespace foretile
