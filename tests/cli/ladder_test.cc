// foretile ladder: the table, one rung, the lessons, the sweep, the picture, and what it refuses.
#include <array>
#include <regex>

#include "command.h"

namespace {

TEST(Ladder, TableHasTwelveRungsThatClimb) {
  const Outcome r = foretile("ladder --no-gpu --json");
  ASSERT_EQ(r.code, 0) << r.error;
  const auto json = r.json();
  ASSERT_EQ(json["rungs"].size(), 12u);
  EXPECT_GT(json["rungs"][0]["forecast"]["seconds"].get<double>(), 30 * json["rungs"][7]["forecast"]["seconds"].get<double>());
  for (const auto& rung : json["rungs"]) {
    if (rung["rung"] != 1) {
      EXPECT_FALSE(rung["step"]["counter"].get<std::string>().empty());
    }
  }
}

TEST(Ladder, StepsMoveTheirCountersTheWayTheLessonsSay) {
  const auto json = foretile("ladder --no-gpu --json").json();
  const auto step = [&](int rung, const char* which) { return json["rungs"][std::size_t(rung - 1)]["step"][which].get<double>(); };
  EXPECT_DOUBLE_EQ(step(2, "before"), 16.5);    // sectors a request: 32 of A, 1 of B
  EXPECT_DOUBLE_EQ(step(2, "after"), 2.5);
  EXPECT_DOUBLE_EQ(step(3, "after"), 2.0 / 32);  // global loads a multiply
  EXPECT_DOUBLE_EQ(step(4, "before"), 2);        // shared loads a multiply
  EXPECT_DOUBLE_EQ(step(4, "after"), 1.125);
  EXPECT_DOUBLE_EQ(step(5, "after"), 0.25);
  EXPECT_DOUBLE_EQ(step(6, "after"), 0.0625);
  EXPECT_GT(step(7, "before"), 0);               // conflicts
  EXPECT_DOUBLE_EQ(step(7, "after"), 0);
}

TEST(Ladder, EveryLessonHasItsPartsAndACleanTrace) {
  for (int rung = 1; rung <= 12; ++rung) {
    const Outcome r = foretile("ladder explain " + std::to_string(rung));
    ASSERT_EQ(r.code, 0) << r.error << r.out;
    for (const char* part : {"Which counter shows it", "Why the change mends it", "What it costs", "What to try next"}) EXPECT_NE(r.out.find(part), std::string::npos) << rung << part;
    if (rung != 8 && rung != 12) {
      EXPECT_NE(r.out.find("No finding"), std::string::npos) << r.out;
      continue;
    }
    // The command that stands there traces that kernel, not what the model picks for a product so small.
    const std::string program = "foretile ";
    const size_t at = r.out.find(program + "emulate --trace");
    ASSERT_NE(at, std::string::npos) << r.out;
    const Outcome trace = foretile(r.out.substr(at + program.size(), r.out.size() - at - program.size() - 1));  // two lines, as a shell reads them
    EXPECT_EQ(trace.code, 0) << trace.error;
    EXPECT_NE(trace.out.find(rung == 8 ? "gemm_ffma.cuh" : "gemm_sm90.cuh"), std::string::npos) << trace.out;
  }
}

TEST(Ladder, CounterExampleShowsItsConflicts) {
  const std::string out = foretile("ladder explain 3 --tile 32x32x32:b_transposed").out;
  EXPECT_NE(out.find("63488"), std::string::npos) << out;  // 2048 requests of 32 wavefronts, 31 too many each
}

TEST(Ladder, ProductionRungsNameTheirConfiguration) {
  for (const char* command : {"ladder --no-gpu --rung 12", "ladder explain 12"}) {
    const Outcome r = foretile(command);
    ASSERT_EQ(r.code, 0) << r.error;
    EXPECT_NE(r.out.find("sm90:"), std::string::npos) << r.out;
  }
}

// Rows that do not stand on multiples of 16 bytes are read element by element, and forecast so.
TEST(Ladder, AnySizesAreForecast) {
  const auto seconds = [](int rung, const std::string& sizes) -> double {
    const Outcome r = foretile("ladder --no-gpu --json --rung " + std::to_string(rung) + " " + sizes);
    EXPECT_EQ(r.code, 0) << r.error;
    return r.code ? 0 : r.json()["rung"]["forecast"]["seconds"].get<double>();
  };
  for (int rung = 1; rung <= 12; ++rung) EXPECT_GT(seconds(rung, rung == 11 ? "--m 33 --n 77 --k 8" : "--m 33 --n 77 --k 1"), 0) << rung;
  for (int rung : {6, 7, 9, 10}) EXPECT_GT(seconds(rung, "--m 1023 --n 1023 --k 1023"), 1.05 * seconds(rung, "--m 1024 --n 1024 --k 1024")) << rung;
}

TEST(Ladder, SweepNamesThePick) {
  const Outcome r = foretile("ladder --sweep --no-gpu --rung 5");
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_NE(r.out.find("the model's pick"), std::string::npos);
  EXPECT_NE(r.out.find("64x64x8:t4x4"), std::string::npos);
  // What no table has is an estimate, and marked.
  EXPECT_TRUE(std::regex_search(foretile("ladder --sweep --no-gpu --rung 8").out, std::regex("ffma:128x256x8:t16x8 +256 +~248 ")));
}

TEST(Ladder, PictureIsAnSvgWithEveryRung) {
  const std::string path = testing::TempDir() + "climb.svg";
  const Outcome r = foretile("ladder --no-gpu --plot " + path);
  ASSERT_EQ(r.code, 0) << r.error;
  const std::string text = slurp(path);
  EXPECT_EQ(text.rfind("<svg", 0), 0u);
  EXPECT_NE(text.find("bank-aware"), std::string::npos);
  EXPECT_NE(text.find("fp32 roof"), std::string::npos);
  EXPECT_EQ(foretile("ladder --no-gpu --plot /nowhere/climb.svg").code, 3);
  // No roof's line, dashed, goes through a figure.
  std::vector<std::array<double, 3>> lines;
  const std::regex line(R"re(<line x1="([0-9.]+)" x2="([0-9.]+)" y1="([0-9.]+)"[^>]*dasharray)re"), figure(R"re(<text x="([0-9.]+)" y="([0-9.]+)" text-anchor="middle" >[0-9.]+<)re");
  for (std::sregex_iterator i(text.begin(), text.end(), line), end; i != end; ++i) lines.push_back({std::stod((*i)[1]), std::stod((*i)[2]), std::stod((*i)[3])});
  EXPECT_EQ(lines.size(), 2u);
  int figures = 0;
  for (std::sregex_iterator i(text.begin(), text.end(), figure), end; i != end; ++i, ++figures) {
    const double x = std::stod((*i)[1]), y = std::stod((*i)[2]);
    for (const auto& [from, to, at] : lines) EXPECT_FALSE(x > from && x < to && at > y - 10 && at < y) << i->str();
  }
  EXPECT_EQ(figures, 12);
}

TEST(Ladder, MachinesWithoutARungSaySo) {
  const Outcome r = foretile("ladder --no-gpu --machine a100");
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_NE(r.out.find("needs compute capability 9.0"), std::string::npos) << r.out;
}

TEST(Ladder, BadInputNamesWhatIsAllowed) {
  Outcome r = foretile("ladder --rung 13");
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.error.find("--rung"), std::string::npos) << r.error;
  r = foretile("ladder --rung 5 --tile 7x7");
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.error.find("64x64x8:t4x4"), std::string::npos) << r.error;
  r = foretile("ladder --tile 64x64x8:t4x4");
  EXPECT_EQ(r.code, 2);
  r = foretile("ladder --m 0");
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.error.find("--m"), std::string::npos) << r.error;
  r = foretile("ladder --rung 11 --k 7");
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.error.find("multiple of 8"), std::string::npos) << r.error;
}

}  // namespace
