#include "model/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <regex>
#include <sstream>

#include "foretile/device/catalogue.h"
#include "model/text.h"

namespace foretile {
namespace {

// The Hopper kernel with one consumer, which the decode kernel has replaced in the catalogue.
constexpr Configuration few_rows(int n, int k, int stages) {
  return {.family = Family::sm90, .tile_m = 64, .tile_n = n, .tile_k = k, .stages = stages, .schedule = Schedule::cooperative, .store_buffers = 1};
}


using ::testing::HasSubstr;
using ::testing::Not;

const Operation kBf16 = catalogue::product(DType::bf16, DType::bf16);
const Configuration kLarge = catalogue::coop(128, 256, 4, 2);
const Machine kH200 = load_machine("h200");

// The explanation as one line, so that a sentence may be found wherever it was broken.
std::string unbroken(const std::string& text) { return std::regex_replace(text, std::regex("\\n +"), " "); }

TEST(Explain, SaysWhatItComputes) {
  const std::string text = unbroken(explain_text(kH200, kBf16, kLarge, {2048, 8192, 8192}));
  EXPECT_THAT(text, HasSubstr("sm90:128x256x64:s4:coop:b2 on h200: bf16xbf16->bf16:nt:tma:tma, M = 2048, N = 8192, K = 8192"));
  EXPECT_THAT(text, HasSubstr("ceil(2048/128) x ceil(8192/256) = 512"));
  EXPECT_THAT(text, HasSubstr("512 / 132 = 3.879 waves; the busiest block walks 4 tiles"));
  EXPECT_THAT(text, HasSubstr("Bound by tensor cores"));
  EXPECT_THAT(text, HasSubstr("limited by registers and shared memory"));
  EXPECT_THAT(text, HasSubstr("The limit binds"));
}

TEST(Explain, EveryCitedConstantStandsAtTheEndWithItsSource) {
  const Operation unaligned = catalogue::unaligned(kBf16);
  for (const auto& [o, c] : {std::pair{kBf16, kLarge}, std::pair{kBf16, catalogue::pingpong(128, 160, 5, 2, 2)}, std::pair{unaligned, catalogue::simt(64, 64, 16, 4, 4)}}) {
    const std::string text = unbroken(explain_text(kH200, o, c, {1000, 1000, 1000}));
    const size_t end = text.find("\nConstants of");
    ASSERT_NE(end, std::string::npos);
    const std::string body = text.substr(0, end), list = text.substr(end);
    EXPECT_THAT(body, Not(HasSubstr("[@")));
    EXPECT_THAT(body, Not(HasSubstr("?[")));
    int cited = 0;
    const std::regex citation("([0-9.e+-]+)\\[(\\d+)\\]");
    for (std::sregex_iterator i(body.begin(), body.end(), citation), none; i != none; ++i, ++cited) {
      // "[7] l2.bytes = 5.243e+07 B: source"
      const std::regex entry("\\[" + (*i)[2].str() + "\\] (\\S+) = (\\S+) [^:]+: .{7,}");
      std::smatch match;
      ASSERT_TRUE(std::regex_search(list, match, entry)) << (*i)[0];
      EXPECT_EQ(match[2].str(), (*i)[1].str());
      const Fact* fact = kH200.fact(match[1].str());
      ASSERT_TRUE(fact) << match[1];
      EXPECT_NEAR(fact->value, std::stod((*i)[1].str()), 0.001 * std::abs(fact->value));
    }
    EXPECT_GT(cited, 20);
  }
}

// A reader with the text alone: recompute a few of its numbers from the numbers beside them.
TEST(Explain, TheNumbersCanBeRecomputed) {
  const std::string text = unbroken(explain_text(kH200, kBf16, kLarge, {4096, 6144, 4096}));
  const auto numbers = [&](const char* pattern) {
    std::smatch match;
    std::vector<double> found;
    const std::regex expression(pattern);
    EXPECT_TRUE(std::regex_search(text, match, expression)) << pattern;
    for (size_t i = 1; i < match.size(); ++i) found.push_back(std::stod(match[i].str()));
    found.resize(8);
    return found;
  };
  const std::string n = "([0-9.e+-]+)", c = n + "\\[\\d+\\]";
  auto v = numbers(("Tensor cores: 2 x " + n + " x " + n + " x " + n + " FLOP / \\(" + c + " x " + c + "\\) = " + n + "\\.").c_str());
  EXPECT_NEAR(2 * v[0] * v[1] * v[2] / (v[3] * v[4]), v[5], 0.002 * v[5]);
  v = numbers(("DRAM time: " + n + " MB / \\(" + c + " B/s x " + c + "\\) = " + n + " us").c_str());
  EXPECT_NEAR(v[0] / (v[1] * v[2]) * 1e12, v[3], 0.002 * v[3]);
  v = numbers(("The busiest block: " + n + " tiles? x \\(" + n + " steps? x " + n + " \\+ " + n + " \\+ " + n + "\\) = " + n + " clk").c_str());
  EXPECT_NEAR(v[0] * (v[1] * v[2] + v[3] + v[4]), v[5], 0.002 * v[5]);
  v = numbers(("Latency: a load takes \\(" + c + " \\+ " + c + "\\) x " + c + " under load, covered by " + n + " stages: " + n + "\\.").c_str());
  EXPECT_NEAR((v[0] + v[1]) * v[2] / v[3], v[4], 0.002 * v[4]);
}

// One of a thing is not many, and what is as fast is not "faster by 0.0 %".
TEST(Explain, CountsAndComparisonsReadWell) {
  const std::regex one("[^0-9.]1 (waves|tiles|steps|slabs|blocks|chunks)\\b"), nothing("(faster|slower) by 0\\.0 %");
  int alike = 0;
  for (const char* name : {"h200", "a100"}) {
    const Machine machine = load_machine(name);
    for (const Problem& p : {Problem{1, 64, 64}, Problem{64, 8448, 4096}, Problem{1, 64, 16384}, Problem{4096, 4096, 4096}, Problem{128, 4224, 64}}) {
      for (const Configuration& c : catalogue::kConfigurations) {
        if (why_not_on(machine, kBf16, c, p)) continue;
        const std::string text = unbroken(explain_text(machine, kBf16, c, p));
        std::smatch match;
        EXPECT_FALSE(std::regex_search(text, match, one)) << match[0] << " for " << text_of(c) << " in\n" << text;
        EXPECT_FALSE(std::regex_search(text, nothing)) << text;
        alike += text.find("just as fast") != std::string::npos;
      }
    }
  }
  EXPECT_GT(alike, 0) << "no pair of configurations is alike: the test sees nothing";
}

TEST(Explain, WithoutKNoNumberIsMissing) {
  const std::string text = explain_text(kH200, catalogue::unaligned(kBf16), catalogue::simt(32, 32, 16, 4, 4), {64, 64, 0});
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(text, Not(HasSubstr("inf ")));
}

TEST(Explain, SaysWhichPathAndWhy) {
  const Operation unaligned = catalogue::unaligned(kBf16);
  Operation output = kBf16;
  output.output = Alignment::any;
  const Configuration slow = catalogue::simt(128, 128, 8, 8, 8);
  EXPECT_THAT(path_text(kH200, unaligned, slow, {64, 64, 64}), HasSubstr("multiple of 16 bytes"));
  EXPECT_THAT(path_text(kH200, kBf16, slow, {64, 64, 64}), HasSubstr("by request"));
  EXPECT_THAT(path_text(kH200, kBf16, slow, {64, 64, 0}), HasSubstr("K = 0"));
  EXPECT_THAT(path_text(load_machine("a100"), kBf16, slow, {64, 64, 64}), HasSubstr("compute capability 9.0"));
  EXPECT_THAT(path_text(kH200, output, kLarge, {64, 64, 64}), HasSubstr("D is written by threads, because its base address or a row of it is not on a multiple of 16 bytes"));
  Operation biased = kBf16;
  biased.has_bias = true;
  EXPECT_THAT(path_text(kH200, biased, kLarge, {64, 64, 64}), HasSubstr("D is written by threads, because the epilogue has operands"));
  EXPECT_THAT(path_text(kH200, kBf16, kLarge, {64, 64, 64}), HasSubstr("D leaves by TMA"));
}

TEST(Explain, SaysWhatItDoesNotKnow) {
  EXPECT_THAT(unbroken(explain_text(kH200, kBf16, kLarge, {512, 512, 512})), HasSubstr("Held against: our sm90 kernels"));
  EXPECT_THAT(unbroken(explain_text(load_machine("h100"), kBf16, kLarge, {512, 512, 512})), HasSubstr("Held against: none"));
  EXPECT_THAT(explain_text(kH200, kBf16, kLarge, {0, 512, 512}), HasSubstr("nothing is launched"));
  EXPECT_THROW(explain_text(kH200, catalogue::unaligned(kBf16), kLarge, {512, 512, 512}), std::invalid_argument);
}

TEST(Explain, LinesAreNotTooLong) {
  for (const Configuration& c : {kLarge, few_rows(16, 256, 5)}) {
    std::stringstream text(explain_text(kH200, kBf16, c, {64, 7168, 16384}));
    for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(Explain, IsFast) {
  double best = 1;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    explain_text(kH200, kBf16, kLarge, {4096, 4096 + i, 4096});
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  EXPECT_LT(best, 0.05);
}

}  // namespace
}  // namespace foretile
