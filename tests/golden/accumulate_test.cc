// The rule by which wgmma adds, fitted to the recorded bits: what a kernel that wants the same bits twice may rely on.
//
// The rule: in groups of `group` products, sum exactly-formed products and the accumulator after aligning all of them to
// the largest exponent among them and cutting each, toward zero, to `fraction` bits behind that exponent; then round the
// sum to fp32 (toward zero, or to nearest).
#include "golden_test.h"

#include <cmath>
#include <cstring>

#include <algorithm>

namespace {

using namespace golden;

struct Rule {
  int group = 16;          // products summed at once
  int fraction = 25;       // bits kept behind the largest exponent
  bool raw_exponent = false;  // a product's exponent is the sum of its factors', not that of the normalised product
  bool to_nearest = false;
  int result_bits = 23;    // fraction bits of the sum itself
};

int exponent_of(double x) { return x == 0 ? -100000 : std::ilogb(x); }

double cut(double x, int lowest) { return std::ldexp(std::trunc(std::ldexp(x, -lowest)), lowest); }

float round_sum(double x, const Rule& rule) {
  if (x == 0) return 0;
  const int lowest = exponent_of(x) - rule.result_bits;
  const double scaled = std::ldexp(x, -lowest);
  return float(std::ldexp(rule.to_nearest ? std::nearbyint(scaled) : std::trunc(scaled), lowest));
}

float apply(const Rule& rule, float accumulator, const double* a, const double* b, int count) {
  for (int first = 0; first < count; first += rule.group) {
    const int last = std::min(count, first + rule.group);
    int largest = exponent_of(double(accumulator));
    for (int k = first; k < last; ++k) {
      if (a[k] == 0 || b[k] == 0) continue;
      largest = std::max(largest, rule.raw_exponent ? exponent_of(a[k]) + exponent_of(b[k]) : exponent_of(a[k] * b[k]));
    }
    const int lowest = largest - rule.fraction;
    double sum = cut(double(accumulator), lowest);
    for (int k = first; k < last; ++k) sum += cut(a[k] * b[k], lowest);
    accumulator = round_sum(sum, rule);
  }
  return accumulator;
}

// How many of the recorded results of one type the rule gives bit by bit.
struct Match {
  int same = 0, of = 0;
  std::string first;
};
Match match(const File& file, const std::string& name, const Rule& rule) {
  Match m;
  const Type t = type_of(name);
  const int depth = 32 / kFormats[t].bytes;
  for (const Record& r : file.records) {
    if ((r.kind != "random" && r.kind != "random-accumulate") || r.word("type") != name) continue;
    const auto set = r.word("set") == "narrow" ? narrow : wide;
    const int steps = int(r.number("steps"));
    const auto chip = r.as<float>();
    for (int row = 0; row < 64; ++row)
      for (int column = 0; column < 8; ++column) {
        float sum = 0;
        if (r.kind == "random-accumulate") {
          const std::uint32_t bits = random_accumulator(std::uint32_t(row * 8 + column));
          std::memcpy(&sum, &bits, 4);
        }
        std::vector<double> a, b;
        for (int k = 0; k < depth * steps; ++k) {
          a.push_back(decode(t, random_element(t, set, std::uint32_t(row * 4096 + k), std::uint32_t(r.number("seed_a")))));
          b.push_back(decode(t, random_element(t, set, std::uint32_t(column * 4096 + k), std::uint32_t(r.number("seed_b")))));
        }
        for (int s = 0; s < steps; ++s) sum = apply(rule, sum, a.data() + s * depth, b.data() + s * depth, depth);
        const float got = chip[std::size_t(row * 8 + column)];
        ++m.of;
        if (std::memcmp(&sum, &got, 4) == 0) ++m.same;
        else if (m.first.empty()) m.first = describe(r) + " D(" + std::to_string(row) + ", " + std::to_string(column) + ")";
      }
  }
  return m;
}

std::string text_of(const Rule& r) {
  return "groups of " + std::to_string(r.group) + ", " + std::to_string(r.fraction) + " bits behind the " + (r.raw_exponent ? "raw" : "normalised") + " largest exponent, sum of " + std::to_string(r.result_bits) +
         " bits rounded " + (r.to_nearest ? "to nearest" : "toward zero");
}

// What is claimed of the H200: all products of one wgmma step and the accumulator are summed as one, so their order does
// not matter; 16-bit types and tf32 keep 25 bits behind the largest exponent and cut the sum to fp32, fp8 keeps 13.
struct Claim {
  const char* type;
  Rule rule;
};
const Claim kClaims[] = {
    {"bf16", {.group = 16, .fraction = 25, .raw_exponent = true}}, {"fp16", {.group = 16, .fraction = 25, .raw_exponent = true}}, {"tf32", {.group = 8, .fraction = 25, .raw_exponent = true}},
    {"e4m3", {.group = 32, .fraction = 13, .raw_exponent = true, .result_bits = 13}}, {"e5m2", {.group = 32, .fraction = 13, .raw_exponent = true, .result_bits = 13}},
};

TEST(GoldenAccumulate, RuleGivesTheChipsBits) {
  READ_GOLDEN_OR_SKIP(file, "accumulate.golden");
  for (const Claim& claim : kClaims) {
    const Match claimed = match(file, claim.type, claim.rule);
    ASSERT_GT(claimed.of, 0) << claim.type;
    if (claimed.same == claimed.of) continue;
    // Say what would fit better, so that the claim can be put right.
    Match best = claimed;
    Rule best_rule = claim.rule;
    for (const int group : {2, 4, 8, 16, 32})
      for (int fraction = 10; fraction <= 30; ++fraction)
        for (const bool raw : {false, true})
          for (const bool nearest : {false, true})
            for (const int bits : {13, 14, 22, 23}) {
              const Rule rule{group, fraction, raw, nearest, bits};
              const Match m = match(file, claim.type, rule);
              if (m.same > best.same) best = m, best_rule = rule;
            }
    ADD_FAILURE() << claim.type << ": the claimed rule (" << text_of(claim.rule) << ") gives " << claimed.same << " of " << claimed.of << " results bit by bit, not " << claimed.first << "; best of those tried ("
                  << text_of(best_rule) << ") gives " << best.same;
  }
}

// The claim is sharp: a neighbour of it does not fit.
TEST(GoldenAccumulate, NeighbouringRulesDoNotFit) {
  READ_GOLDEN_OR_SKIP(file, "accumulate.golden");
  for (const Claim& claim : kClaims) {
    const int depth = 32 / kFormats[type_of(claim.type)].bytes;
    std::vector<Rule> neighbours(6, claim.rule);
    neighbours[0].fraction -= 1, neighbours[1].fraction += 1, neighbours[2].raw_exponent = !claim.rule.raw_exponent;
    neighbours[3].to_nearest = true, neighbours[4].group = depth / 2, neighbours[5].result_bits = claim.rule.result_bits - 1;
    for (const Rule& rule : neighbours) {
      const Match m = match(file, claim.type, rule);
      EXPECT_LT(m.same, m.of) << claim.type << ": " << text_of(rule) << " fits as well";
    }
  }
}

// What the batch-invariant mode may leave free: N of the instruction, operand swap; and that a repeat gives the same bits.
TEST(GoldenAccumulate, WhatDoesNotChangeBits) {
  READ_GOLDEN_OR_SKIP(file, "accumulate.golden");
  int checked = 0;
  for (const Record& r : file.records) {
    if (r.kind != "invariance") continue;
    const auto counts = r.as<std::uint32_t>();
    const std::string& question = r.word("question");
    if (question != "same-again" && question != "width-n" && question != "swap-operands") continue;
    EXPECT_GT(counts[1], 10000u);
    EXPECT_EQ(counts[0], 0u) << describe(r) << ": bits changed in " << counts[0] << " of " << counts[1];
    ++checked;
  }
  EXPECT_EQ(checked, 18);
}

// The probe with one large and one small term says directly how many bits are kept.
TEST(GoldenAccumulate, BitsKept) {
  READ_GOLDEN_OR_SKIP(file, "accumulate.golden");
  for (const Claim& claim : kClaims) {
    const Format f = kFormats[type_of(claim.type)];
    for (const Record& r : file.records) {
      if (r.kind != "gap" || r.word("type") != claim.type || r.word("probe") != "next") continue;
      const auto sums = r.as<float>();
      const float large = float(std::ldexp(1.0, 2 * f.top));
      int kept = -1;
      for (std::size_t gap = 0; gap < sums.size(); ++gap)
        if (sums[gap] != large) kept = int(gap);
      EXPECT_EQ(kept, std::min(claim.rule.result_bits, claim.rule.fraction)) << claim.type;
    }
  }
}

}  // namespace
