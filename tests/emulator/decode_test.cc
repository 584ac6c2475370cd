// The decode kernel in the emulator: its branches one by one, each in every asynchronous mode and schedule, clean and exact.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "kernels.h"
#include "model/text.h"
#include "plan/plan.h"
#include "product.h"

namespace foretile::emulator_tests {

using namespace emulator;

namespace {

using catalogue::decode;

// What a case is there for. Each is checked against the launch it leads to, so that a case cannot miss its branch.
enum Branch : u32 {
  plain = 0,
  split = 1,          // K over a cluster
  narrow = 2,         // a tile takes fewer rows of B than its slots hold
  tiles = 4,          // a block computes several tiles, its ring running on
  m_tail = 8,         // the last tile of M has fewer tokens
  n_tail = 16,        // the last tile of N sticks out of D
  k_tail = 32,        // K ends within a step
  run_tail = 64,      // D's columns end within a run of four
  unaligned_d = 128,  // D is written element by element
  batched = 256,
  idle = 512,         // a slice of K is shorter than the others
};

struct Case {
  const char* name;
  Operation operation;
  Configuration configuration;
  Problem problem;
  int sms = 1;
  u32 branches = plain;
  reference::GemmDataOptions data = {};
};

constexpr Operation kBf16 = catalogue::product(DType::bf16, DType::bf16);
constexpr Operation kSwiGlu = catalogue::gated(DType::bf16, DType::bf16, Gating::halves);

constexpr Operation direct(Operation o) {
  o.output = Alignment::any;
  return o;
}
constexpr Operation with(Operation o, DType side, bool c, bool bias, bool residual, Activation activation) {
  o.c = o.bias = o.residual = side;
  o.has_c = c, o.has_bias = bias, o.has_residual = residual;
  o.activation = activation;
  return o;
}
constexpr Operation interleaved(DType in, DType out) { return catalogue::gated(in, out, Gating::interleaved); }

reference::GemmDataOptions factors(float alpha, float beta) {
  reference::GemmDataOptions d;
  d.alpha = alpha, d.beta = beta;
  return d;
}
reference::GemmDataOptions off_alignment(float beta = 0) {
  reference::GemmDataOptions d = factors(1, beta);
  d.d.pointer_offset = 1, d.d.ld_padding = 3;
  d.bias.pointer_offset = d.residual.pointer_offset = d.c.ld_padding = 1;
  return d;
}
reference::GemmDataOptions shared_weights(bool a, bool b) {
  reference::GemmDataOptions d;
  d.a.broadcast = a, d.b.broadcast = b;
  return d;
}

const Case kCases[] = {
    {"one_tile", kBf16, decode(8, 64, 128, 6), {.m = 8, .n = 64, .k = 256}},
    {"one_token", kBf16, decode(8, 64, 128, 12), {.m = 1, .n = 64, .k = 1792}, 1, m_tail},
    {"ring_runs_on_over_tiles", kBf16, decode(16, 64, 128, 5), {.m = 13, .n = 256, .k = 904}, 1, tiles | m_tail | k_tail},
    {"two_consumers", kBf16, decode(64, 128, 64, 7), {.m = 50, .n = 256, .k = 520}, 1, tiles | m_tail | k_tail},
    {"wide_tokens", kBf16, decode(96, 128, 64, 5), {.m = 90, .n = 128, .k = 392}, 1, m_tail | k_tail},
    {"several_tiles_of_m", kBf16, decode(64, 64, 64, 5), {.m = 150, .n = 100, .k = 200}, 2, tiles | m_tail | n_tail | k_tail},
    {"narrow_tile", kBf16, decode(16, 64, 128, 5), {.m = 16, .n = 112, .k = 256}, 1, narrow},
    {"narrow_tile_and_tails", kBf16, decode(64, 128, 64, 7), {.m = 33, .n = 220, .k = 328}, 1, narrow | m_tail | n_tail | k_tail},
    {"n_of_one", kBf16, decode(8, 64, 128, 6), {.m = 3, .n = 1, .k = 136}, 1, m_tail | n_tail | k_tail | run_tail},
    {"fp16", catalogue::product(DType::fp16, DType::fp16), decode(32, 64, 128, 4), {.m = 30, .n = 200, .k = 640}, 2, m_tail | n_tail},
    {"fp32_out", catalogue::product(DType::bf16, DType::fp32), decode(32, 64, 128, 4), {.m = 30, .n = 132, .k = 384}, 2, m_tail | n_tail},
    {"activation_alone", with(kBf16, DType::bf16, false, false, false, Activation::gelu_erf), decode(16, 128, 64, 5, 4), {.m = 13, .n = 232, .k = 600}, 4, split | m_tail | n_tail | k_tail | narrow, factors(2, 0)},
    {"full_epilogue", catalogue::full(DType::bf16, DType::bf16, Activation::gelu_erf), decode(32, 64, 128, 8), {.m = 20, .n = 136, .k = 264}, 2, m_tail | n_tail | k_tail, factors(2, -1)},
    {"unaligned_d", direct(kBf16), decode(16, 64, 128, 5), {.m = 9, .n = 79, .k = 264}, 2, m_tail | n_tail | k_tail | run_tail | unaligned_d, off_alignment()},
    {"unaligned_d_and_operands", direct(with(kBf16, DType::fp32, true, true, true, Activation::relu)), decode(32, 64, 128, 4, 4), {.m = 9, .n = 79, .k = 904}, 2,
     split | m_tail | n_tail | k_tail | run_tail | unaligned_d, off_alignment(2)},

    {"split_2", kBf16, decode(16, 64, 128, 5, 2), {.m = 13, .n = 128, .k = 1672}, 2, split | m_tail | k_tail},
    {"split_2_two_consumers", kBf16, decode(64, 128, 64, 7, 2), {.m = 64, .n = 128, .k = 1032}, 2, split | k_tail},
    {"split_4", kBf16, decode(32, 64, 128, 4, 4), {.m = 20, .n = 100, .k = 2568}, 4, split | m_tail | n_tail | k_tail | idle},
    {"split_8", kBf16, decode(8, 64, 128, 6, 8), {.m = 5, .n = 64, .k = 1480}, 8, split | m_tail | k_tail | idle},
    {"split_8_one_step_a_block", kBf16, decode(16, 64, 128, 5, 8), {.m = 16, .n = 64, .k = 1024}, 8, split},
    {"split_2_narrow", kBf16, decode(16, 64, 128, 5, 2), {.m = 16, .n = 112, .k = 512}, 2, split | narrow},
    {"split_4_several_tiles_of_m", kBf16, decode(96, 64, 64, 9, 4), {.m = 100, .n = 64, .k = 512}, 4, split | m_tail},
    {"split_4_fp32_out", catalogue::product(DType::bf16, DType::fp32), decode(64, 64, 128, 6, 4), {.m = 40, .n = 68, .k = 1152}, 4, split | m_tail | n_tail | idle},
    {"split_2_full_epilogue", catalogue::full(DType::fp16, DType::fp16, Activation::silu), decode(32, 64, 128, 4, 2), {.m = 20, .n = 72, .k = 640}, 2, split | m_tail | n_tail | idle, factors(-1, 2)},

    {"batch", kBf16, decode(16, 64, 128, 5), {.m = 10, .n = 80, .k = 264, .batch = 3}, 2, tiles | batched | m_tail | n_tail | k_tail},
    {"batch_sharing_a", kBf16, decode(16, 64, 128, 5), {.m = 10, .n = 80, .k = 264, .batch = 3}, 2, tiles | batched | m_tail | n_tail | k_tail, shared_weights(true, false)},
    {"batch_sharing_b_split", kBf16, decode(32, 64, 128, 4, 4), {.m = 10, .n = 64, .k = 512, .batch = 3}, 4, split | batched | m_tail, shared_weights(false, true)},

    {"swiglu_halves", kSwiGlu, decode(16, 64, 128, 5), {.m = 11, .n = 256, .k = 712}, 1, tiles | m_tail | k_tail},
    {"swiglu_halves_split_2", kSwiGlu, decode(32, 64, 128, 4, 2), {.m = 20, .n = 128, .k = 1288}, 2, split | m_tail | k_tail},
    {"swiglu_halves_split_4", kSwiGlu, decode(8, 64, 128, 6, 4), {.m = 7, .n = 64, .k = 640}, 4, split | m_tail | idle},
    {"swiglu_halves_narrow_and_tails", kSwiGlu, decode(64, 128, 64, 7), {.m = 33, .n = 208, .k = 200}, 1, narrow | m_tail | k_tail},
    {"swiglu_halves_in_registers_split_2", kSwiGlu, decode(64, 128, 64, 4, 2), {.m = 50, .n = 256, .k = 712}, 2, split | m_tail | k_tail},
    {"swiglu_halves_in_registers_split_8", kSwiGlu, decode(16, 128, 64, 5, 8), {.m = 16, .n = 224, .k = 1032}, 8, split | narrow | k_tail},
    {"swiglu_halves_in_registers_two_consumers", kSwiGlu, decode(24, 256, 64, 3), {.m = 20, .n = 896, .k = 200}, 1, tiles | narrow | m_tail | k_tail},
    {"swiglu_halves_n_tail", kSwiGlu, decode(16, 64, 128, 5), {.m = 11, .n = 152, .k = 264}, 2, m_tail | n_tail | k_tail},
    {"swiglu_halves_n_of_two", direct(kSwiGlu), decode(16, 64, 128, 5), {.m = 2, .n = 2, .k = 136}, 1, m_tail | n_tail | k_tail | run_tail | unaligned_d, off_alignment()},
    {"swiglu_halves_batch", kSwiGlu, decode(16, 64, 128, 5), {.m = 11, .n = 64, .k = 136, .batch = 3}, 1, tiles | batched | m_tail | k_tail},
    {"swiglu_interleaved", interleaved(DType::bf16, DType::bf16), decode(16, 64, 128, 5), {.m = 11, .n = 256, .k = 712}, 1, tiles | m_tail | k_tail},
    {"swiglu_interleaved_split_4", interleaved(DType::bf16, DType::bf16), decode(32, 64, 128, 4, 4), {.m = 20, .n = 112, .k = 904}, 4, split | m_tail | k_tail},
    {"reglu_halves_all_operands", with(kSwiGlu, DType::bf16, true, true, true, Activation::relu), decode(16, 64, 128, 5), {.m = 11, .n = 152, .k = 264}, 2, m_tail | n_tail | k_tail, factors(2, -1)},
    {"geglu_erf_halves_bias_split", with(kSwiGlu, DType::fp32, false, true, false, Activation::gelu_erf), decode(32, 64, 128, 4, 4), {.m = 20, .n = 64, .k = 520}, 4, split | m_tail | k_tail},
    {"geglu_tanh_interleaved_c_residual", with(interleaved(DType::fp16, DType::fp32), DType::fp32, true, false, true, Activation::gelu_tanh), decode(16, 64, 128, 5), {.m = 11, .n = 136, .k = 264}, 2,
     m_tail | n_tail | k_tail, factors(1, 2)},
    {"bilinear_interleaved_unaligned_split", direct(with(interleaved(DType::bf16, DType::fp16), DType::fp16, true, true, true, Activation::none)), decode(32, 64, 128, 4, 4), {.m = 20, .n = 70, .k = 520}, 2,
     split | m_tail | n_tail | k_tail | run_tail | unaligned_d, off_alignment(1)},
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

u32 branches_of(const Operation& o, const Configuration& c, const Problem& p, int sms) {
  const decode::Balance b = decode::balance(o, c, p, sms);
  const i64 outputs = output_columns(o, p.n);
  u32 met = 0;
  const auto note = [&](bool condition, Branch branch) { met |= condition ? u32(branch) : 0; };
  note(c.split_k > 1, split), note(b.columns < c.tile_n, narrow), note(b.tiles > b.units, tiles);
  note(p.m % c.tile_m, m_tail), note(p.n % b.columns, n_tail), note(p.k % c.tile_k, k_tail), note(outputs % 4, run_tail);
  note(o.output == Alignment::any, unaligned_d), note(p.batch > 1, batched);
  const auto steps = [&](i32 rank) { return decode::first_step(i32(p.k), rank + 1, c) - decode::first_step(i32(p.k), rank, c); };
  for (i32 rank = 1; rank < c.split_k; ++rank) note(steps(rank) != steps(0), idle);
  return met;
}

class Decode : public testing::TestWithParam<Case> {};

TEST_P(Decode, CleanAndExactInEveryModeAndSchedule) {
  const Case& c = GetParam();
  ASSERT_EQ(why_not(c.operation, c.configuration, c.problem), nullptr) << why_not(c.operation, c.configuration, c.problem);
  EXPECT_EQ(c.branches & ~branches_of(c.operation, c.configuration, c.problem, c.sms), 0u) << "a branch that the case is there for is not taken";
  const bool exact = c.operation.gating == Gating::none && (c.operation.activation == Activation::none || c.operation.activation == Activation::relu);
  for (const Options& o : every_mode()) {
    const ProductResult r = run_product(c.operation, c.configuration, c.problem, c.data, o, c.sms);
    ASSERT_EQ(r.failure(), "") << mode_name(o);
    if (exact) { ASSERT_EQ(r.check.exact, r.check.checked) << mode_name(o); }
  }
}

INSTANTIATE_TEST_SUITE_P(Branches, Decode, testing::ValuesIn(kCases), [](const auto& info) { return std::string(info.param.name); });

TEST(Decode, CasesTakeEveryBranchWithEverySplit) {
  u32 all = 0;
  std::vector<int> splits;
  for (const Case& c : kCases) all |= branches_of(c.operation, c.configuration, c.problem, c.sms), splits.push_back(c.configuration.split_k);
  EXPECT_EQ(all, 1023u);
  for (const int s : {1, 2, 4, 8}) EXPECT_NE(std::find(splits.begin(), splits.end(), s), splits.end()) << s;
}

// Slices of K partition it, whatever the split.
TEST(Decode, SlicesCoverKOnce) {
  for (const int s : {1, 2, 4, 8})
    for (const int tile_k : {64, 128})
      for (i32 k = 1; k <= 5000; k += 37) {
        const Configuration c = decode(16, 64, tile_k, 5, s);
        EXPECT_EQ(decode::first_step(k, 0, c), 0);
        EXPECT_EQ(decode::first_step(k, s, c), (k + tile_k - 1) / tile_k) << "k=" << k << " split " << s << " tile_k " << tile_k;
        for (i32 rank = 0; rank < s; ++rank) EXPECT_LE(decode::first_step(k, rank, c), decode::first_step(k, rank + 1, c));
      }
}

}  // namespace
}  // namespace foretile::emulator_tests
