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
  for (const bool ready : {false, true})
    for (Options o : every_mode()) {
      o.dependent_launch = true;
      const ProductResult r = run_product(c.operation, c.configuration, c.problem, c.data, o, c.sms, ready);
      ASSERT_EQ(r.failure(), "") << mode_name(o) << (ready ? ", weights ready" : "");
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

// What ready weights are asked for before the grid wait: as many stages at a time as are paced, each handed over once it has landed;
// then boxes of the next stages come to L2, as many as there are and none behind the last step: nothing comes from DRAM that would not
// come anyway. Nor is a stage freed at once that nobody will fill again.
TEST(Decode, EarlyWeightsAreHandedOverAndPrefetchedAsFarAsThereAreAny) {
  struct Early { const char* name; Operation operation; Configuration configuration; Problem problem; int sms; };
  const Early kEarly[] = {
      {"more_than_a_ring", kBf16, decode(32, 64, 128, 4), {.m = 20, .n = 448, .k = 904}, 2},
      {"next_tiles", kBf16, decode(16, 64, 128, 5), {.m = 13, .n = 512, .k = 264}, 1},
      {"one_step_behind_the_ring", kBf16, decode(64, 64, 64, 5), {.m = 20, .n = 64, .k = 384}, 1},
      {"a_ring", kBf16, decode(64, 64, 64, 5), {.m = 20, .n = 64, .k = 320}, 1},
      {"less_than_a_ring", kBf16, decode(64, 64, 64, 5), {.m = 20, .n = 64, .k = 192}, 1},
      {"less_than_is_paced", kBf16, decode(8, 64, 128, 12), {.m = 8, .n = 128, .k = 264}, 2},
      {"alone_on_its_sm", kBf16, decode(8, 64, 128, 12), {.m = 8, .n = 64, .k = 2056}, 1},
      {"split", kBf16, decode(16, 64, 128, 5, 2), {.m = 13, .n = 128, .k = 1672}, 2},
      {"batch_of_halves", kSwiGlu, decode(64, 128, 64, 7), {.m = 80, .n = 256, .k = 200, .batch = 2}, 2},
  };
  for (const Early& e : kEarly) {
    const Configuration& c = e.configuration;
    const decode::Balance b = decode::balance(e.operation, c, e.problem, e.sms);
    const i64 paced = decode::paced_stages(e.operation, c, b.units * c.split_k, e.sms);
    i64 handed_over = 0, prefetched = 0, freed = 0;
    for (i64 unit = 0; unit < b.units; ++unit)
      for (i32 slice = 0; slice < c.split_k; ++slice) {
        const i64 tiles = ceil_div(b.tiles - unit, b.units);
        const i64 of_tile = decode::first_step(i32(e.problem.k), slice + 1, c) - decode::first_step(i32(e.problem.k), slice, c);
        const i64 steps = tiles * of_tile, lap = min_of(steps, c.stages);
        handed_over += max_of(lap - paced, 0), prefetched += min_of(steps - lap, decode::prefetched_stages(c)), freed += steps - (decode::frees_at_once(c) ? min_of(of_tile, c.stages) : 0);
      }
    Options o;
    o.trace = o.dependent_launch = true;
    o.l2_bytes = 32 << 20;
    const ProductResult r = run_product(e.operation, c, e.problem, {}, o, e.sms, true), late = run_product(e.operation, c, e.problem, {}, o, e.sms, false);
    ASSERT_EQ(r.failure() + late.failure(), "") << e.name;
    i64 boxes = 0, arrivals = 0;
    u64 sectors = 0;
    for (const AccessSite& a : r.report.accesses)
      if (a.call == "tma_prefetch") boxes += i64(a.requests), sectors += a.sectors;
    for (const CallSite& a : r.report.calls) arrivals += a.call == "mbarrier_arrive" ? i64(a.executions) : 0;
    EXPECT_EQ(boxes, prefetched * decode::slabs(e.operation, c) * decode::tile_halves(e.operation)) << e.name;
    EXPECT_EQ(arrivals, handed_over + freed * decode::empty_arrivals(c)) << e.name;
    const L2Traffic &early_l2 = r.report.l2, &late_l2 = late.report.l2;
    EXPECT_EQ(early_l2.load_sectors, late_l2.load_sectors + sectors) << e.name;
    EXPECT_EQ(early_l2.load_hits, late_l2.load_hits + sectors) << e.name;
  }
}

// At least one stage of early weights is under way, or the producer would wait for what it has not asked for; never more than the ring has.
TEST(Decode, AtLeastOneStageIsPaced) {
  std::vector<Configuration> list = {decode(40, 256, 128, 2), decode(24, 256, 64, 3), decode(128, 128, 64, 4)};
  for (const Configuration& c : catalogue::kConfigurations)
    if (c.family == Family::decode) list.push_back(c);
  for (const Configuration& c : list)
    for (const int sms : {1, 16, 132})
      for (const i64 blocks : {1, 40, 132, 264, 100'000}) {
        const int paced = decode::paced_stages(kBf16, c, blocks, sms);
        EXPECT_TRUE(paced >= 1 && paced <= c.stages) << text_of(c) << ", " << blocks << " blocks on " << sms << " SMs: " << paced;
      }
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
