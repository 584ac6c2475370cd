#include "model/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "foretile/device/catalogue.h"
#include "model/described_kernel_file.h"
#include "model/described_kernel_text.h"
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
  EXPECT_THAT(text, HasSubstr("ceil(2048 / 128) x ceil(8192 / 256) = 512"));
  EXPECT_THAT(text, HasSubstr("512 / 132 = 3.879 waves; the busiest block walks 4 tiles"));
  EXPECT_THAT(text, HasSubstr("Bound by tensor cores"));
  EXPECT_THAT(text, HasSubstr("limited by registers and shared memory"));
  EXPECT_THAT(text, HasSubstr("The limit binds"));
  EXPECT_THAT(unbroken(explain_text(kH200, kBf16, catalogue::decode(64, 64, 128, 6), {16, 28672, 4096})), HasSubstr("of the time, with the lines beyond the last row of A"));
}

TEST(Explain, EveryCitedConstantStandsAtTheEndWithItsSource) {
  const Operation unaligned = catalogue::unaligned(kBf16);
  for (const auto& [o, c] : {std::pair{kBf16, kLarge}, std::pair{kBf16, catalogue::pingpong(128, 160, 5, 2, 2)}, std::pair{unaligned, catalogue::simt(64, 64, 16, 4, 4)},
                              std::pair{catalogue::product(DType::tf32, DType::fp32), catalogue::tf32(kLarge)}}) {
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

// A sum as the text prints it: numbers with citations and units, x / + - ^, functions. Throws where it is none.
class Arithmetic {
 public:
  explicit Arithmetic(std::string_view text) : rest_(text) {}
  double all() {
    const double value = sum();
    space();
    if (!rest_.empty()) throw std::invalid_argument("more");
    return value;
  }
  double number() {
    space();
    const char* end = rest_.data();
    double value = 0;
    const auto [after, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    end = after;
    if (error != std::errc() || rest_[0] == '-') throw std::invalid_argument("no number");
    if (end[-1] == '.') --end;  // of the sentence
    rest_.remove_prefix(size_t(end - rest_.data()));
    if (take("[")) rest_.remove_prefix(rest_.find(']') + 1);
    static constexpr std::pair<const char*, double> units[] = {{" MB", 1e6}, {" GFLOP", 1e9}, {" FLOP", 1}, {" MHz", 1e6}, {" mJ", 1e-3}, {" us", 1e-6}, {" %", 0.01}, {" B/clk", 1}, {" B/s", 1}, {" clk", 1}, {" KiB", 1024}, {" B", 1}, {" J", 1}, {" W", 1}, {" s", 1}};
    for (const auto& [unit, size] : units)
      if (rest_.starts_with(unit) && (rest_.size() == std::strlen(unit) || !std::isalpha(static_cast<unsigned char>(rest_[std::strlen(unit)])))) return rest_.remove_prefix(std::strlen(unit)), value * size;
    return value;
  }

 private:
  void space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }
  bool take(std::string_view what) {
    if (!rest_.starts_with(what)) return false;
    rest_.remove_prefix(what.size());
    return true;
  }
  double sum() {
    double value = product();
    for (;;) {
      if (take(" + ")) value += product();
      else if (take(" - ")) value -= product();
      else return value;
    }
  }
  double product() {
    double value = power();
    for (;;) {
      if (take(" x ")) value *= power();
      else if (take(" / ")) value /= power();
      else return value;
    }
  }
  double power() {
    const double value = factor();
    return take(" ^ ") ? std::pow(value, factor()) : value;
  }
  double factor() {
    space();
    if (take("(")) return closed(sum());
    for (const char* name : {"ceil(", "floor(", "min(", "max(", "norm(", "beside("}) {
      if (!take(name)) continue;
      std::vector<double> x{sum()};
      while (take(",")) x.push_back(sum());
      closed(0);
      if (name[0] == 'c') return std::ceil(x.at(0) - 1e-9);
      if (name[0] == 'f') return std::floor(x.at(0) + 1e-9);
      if (name[1] == 'i') return *std::min_element(x.begin(), x.end());
      if (name[1] == 'a') return *std::max_element(x.begin(), x.end());
      const double power = name[0] == 'n' ? 16 : 8;
      double powers = 0;
      for (const double part : x) powers += std::pow(part, power);
      return std::pow(powers, 1 / power);
    }
    return number();
  }
  double closed(double value) {
    if (!take(")")) throw std::invalid_argument("not closed");
    return value;
  }
  std::string_view rest_;
};

// Every "sum = number" of a page, each recomputed from what stands in it. Returns how many there are.
int recompute(const std::string& text) {
  std::stringstream body(text.substr(0, text.find("\nConstants of")));
  int found = 0;
  for (std::string line; std::getline(body, line);) {
    for (size_t at = 0; (at = line.find(" = ", at)) != std::string::npos; at += 3) {
      if (line.find_first_not_of(' ') == at + 1) continue;  // "  =  1234  a_counter"
      double says = 0, is = NAN;
      try {
        says = Arithmetic(std::string_view(line).substr(at + 3)).number();
      } catch (const std::invalid_argument&) {
        continue;
      }
      std::string sum;
      for (size_t from = 0; from < at && std::isnan(is); ++from) {
        if (from > 0 && line[from - 1] != ' ') continue;
        sum = line.substr(from, at - from);
        try {
          is = Arithmetic(sum).all();
        } catch (const std::invalid_argument&) {
        }
      }
      if (sum.find_first_of("x/+-^(") == std::string::npos && !std::isnan(is)) continue;  // "M = 4096" and the like
      if (std::isnan(is) && std::isalpha(static_cast<unsigned char>(line[at - 1]))) continue;
      // Numbers have four digits, shares one after the point.
      const double slack = line.substr(at + 3, line.find('.', at + 9) - at).find('%') != std::string::npos ? 2e-3 : 1e-9;
      EXPECT_NEAR(is, says, 2e-3 * std::abs(says) + slack) << sum << " = ... in: " << line;
      ++found;
    }
  }
  return found;
}

// A reader with the text alone can recompute what it says.
TEST(Explain, EverySumCanBeRecomputed) {
  Operation full = catalogue::full(DType::bf16, DType::bf16, Activation::gelu_erf), gated = catalogue::gated(DType::bf16, DType::bf16, Gating::halves);
  const Operation fp32 = catalogue::product(DType::fp32, DType::fp32), tf32 = catalogue::product(DType::tf32, DType::fp32);
  const Conditions burst{.regime = Regime::burst}, dependent{.dependent = true, .warm = true}, zeros{.data = Data::zeros};
  int pages = 0, fewest = 1000;
  for (const char* name : {"h200", "a100"}) {
    const Machine machine = load_machine(name);
    for (const Operation& o : {kBf16, catalogue::unaligned(kBf16), full, gated, fp32, tf32})
      for (const Problem& p : {Problem{1, 6144, 4096}, Problem{90, 7168, 2048}, Problem{1000, 1000, 1000}, Problem{4096, 6144, 4096}, Problem{8, 512, 1024, 3}})
        for (const Conditions& conditions : {Conditions{}, burst, dependent, zeros})
          for (const Configuration& c : catalogue::kConfigurations) {
            if (why_not_on(machine, o, c, p) || (conditions.regime == Regime::sustained && (conditions.dependent || conditions.data == Data::zeros) && pages % 3)) continue;
            SCOPED_TRACE(std::string(name) + " " + text_of(o) + " " + text_of(c));
            fewest = std::min(fewest, recompute(explain_text(machine, o, c, p, conditions, 10000)));
            ++pages;
            if (::testing::Test::HasFailure()) return;
          }
  }
  EXPECT_GT(pages, 300);
  EXPECT_GE(fewest, 30);
}

// The page of a kernel from a description as well.
TEST(Explain, EverySumOfADescribedKernelCanBeRecomputed) {
  for (const char* name : {"naive-fp32", "tiled-fp16", "tiled-fp32", "register-tile-fp32", "mma-async-fp16"}) {
    const KernelFile file = load_kernel_file(std::string(FORETILE_SOURCE_DIR) + "/examples/kernels/" + name + ".toml");
    for (const char* machine : {"h200", "a100", "l4"})
      for (const Problem& p : {Problem{1000, 1000, 1000}, Problem{4096, 6144, 4096}, Problem{64, 64, 64}}) {
        SCOPED_TRACE(std::string(name) + " on " + machine);
        EXPECT_GE(recompute(explain_text(load_machine(machine), file, p, {}, nullptr, 10000)), 11);
      }
  }
  // Tiles by TMA, products by wgmma: no example is one.
  DescribedKernel k{.name = "tma", .input = DType::bf16, .output = DType::bf16, .tile_m = 128, .tile_n = 128, .tile_k = 64, .threads_x = 256, .registers = 168, .shared_bytes = 131072, .multiplier = Multiplier::wgmma, .stages = 4, .copy = Copy::bulk, .barriers = 1};
  EXPECT_GE(recompute(explain_text(kH200, {.kernel = k}, {4096, 4096, 4096}, {}, nullptr, 10000)), 11);
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

TEST(Explain, SaysWhatTf32Is) {
  const Operation tf32 = catalogue::product(DType::tf32, DType::fp32);
  const std::string text = unbroken(explain_text(kH200, tf32, catalogue::tf32(kLarge), {2048, 8192, 8192}));
  EXPECT_THAT(text, HasSubstr("wgmma multiplies in TF32 (ten bits of each input count)"));
  EXPECT_THAT(text, HasSubstr("2 x 128 x 256 x 32 FLOP / (2048"));
  EXPECT_THAT(text, HasSubstr("sm.tensor_tf32 = 2048 FLOP/clk"));
  EXPECT_THAT(text, HasSubstr("a FLOP in TF32 counts as 2 in 16 bits"));
  EXPECT_THAT(path_text(kH200, catalogue::unaligned(tf32), catalogue::ffma(128, 128, 8, 16, 8), {64, 64, 64}), HasSubstr("FFMA in TF32 (ten bits of each input count)"));
}

TEST(Explain, SaysWhatItDoesNotKnow) {
  EXPECT_THAT(unbroken(explain_text(kH200, kBf16, kLarge, {512, 512, 512})), HasSubstr("were held against: our kernels in bf16 in short bursts"));
  EXPECT_THAT(unbroken(explain_text(load_machine("h100"), kBf16, kLarge, {512, 512, 512})), HasSubstr("were held against: none"));
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
