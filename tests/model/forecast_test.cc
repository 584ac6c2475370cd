#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "model/anatomy.h"
#include "model/text.h"

namespace foretile {
namespace {

// The Hopper kernel with one consumer, which the decode kernel has replaced in the catalogue.
constexpr Configuration few_rows(int n, int k, int stages) {
  return {.family = Family::sm90, .tile_m = 64, .tile_n = n, .tile_k = k, .stages = stages, .schedule = Schedule::cooperative, .store_buffers = 1};
}


using ::testing::HasSubstr;

const Operation kBf16 = catalogue::product(DType::bf16, DType::bf16);
const Operation kUnaligned = catalogue::unaligned(kBf16);
const Operation kFp32 = catalogue::unaligned(catalogue::product(DType::fp32, DType::fp32));
const Operation kAlignedFp32 = catalogue::product(DType::fp32, DType::fp32);
bool is_fp32(Family f) { return f == Family::ffma || f == Family::gemv || f == Family::rows; }
const Machine kH200 = load_machine("h200");

Conditions burst() { return {.regime = Regime::burst}; }
Conditions at(double mhz) { return {.regime = Regime::fixed_clock, .mhz = mhz}; }

// L2 has the operands of the launch before as far as they fit, which shortens the start and nothing else.
TEST(Forecast, WarmOperandsShortenTheStart) {
  const Configuration c = catalogue::coop(128, 256, 4, 2);
  const auto saved = [&](const Problem& p) { return forecast(kH200, kBf16, c, p, burst()).seconds - forecast(kH200, kBf16, c, p, {.regime = Regime::burst, .warm = true}).seconds; };
  EXPECT_NEAR(saved({512, 512, 512}), kH200.sm90.warm_saves, 1e-12);
  EXPECT_GT(saved({2048, 2048, 2048}), 0);
  EXPECT_LT(saved({2048, 2048, 2048}), kH200.sm90.warm_saves);
  EXPECT_EQ(saved({8192, 8192, 8192}), 0);
}

TEST(Forecast, CountsByHand) {
  // 16 x 32 tiles of 128 x 256 on 132 SMs: 3.88 waves, the busiest block walks 4; 8192 / 64 steps along K.
  const Anatomy x = anatomy(kH200, kBf16, catalogue::coop(128, 256, 4, 2), {2048, 8192, 8192}, {});
  EXPECT_EQ(x.tiles, 512);
  EXPECT_EQ(x.concurrent, 132);
  EXPECT_EQ(x.rounds, 4);
  EXPECT_EQ(x.steps, 128);
  EXPECT_EQ(x.busy_sms, 132);
  EXPECT_DOUBLE_EQ(x.forecast.waves, 512.0 / 132);
  EXPECT_DOUBLE_EQ(x.full_share, 396.0 / 512);
  EXPECT_EQ(x.forecast.blocks_per_sm, 1);
  // 4 stages of 128 x 64 and 256 x 64 bf16, two warpgroups x two buffers of 64 x 64 bf16, 8 barriers of 8 bytes.
  EXPECT_EQ(x.forecast.shared_bytes, 4 * (16384 + 32768) + 4 * 8192 + 64);
  EXPECT_EQ(x.forecast.registers, 168);
  EXPECT_DOUBLE_EQ(x.flops_executed, 2.0 * 2048 * 8192 * 8192);
}

TEST(Forecast, CountsOfFp32Clusters) {
  // As many clusters at once as were seen on the chip: one block an SM, some GPCs with room for fewer.
  const auto at_once = [](int tile_n, int split_k, int cluster_k) {
    return anatomy(kH200, kAlignedFp32, catalogue::ffma(128, tile_n, 16, 8, 8, split_k, cluster_k), {4096, 4096, 4096}, {}).concurrent;
  };
  EXPECT_EQ(at_once(128, 1, 1), 132);
  EXPECT_EQ(at_once(128, 1, 2), 66);
  EXPECT_EQ(at_once(128, 1, 4), 30);
  EXPECT_EQ(at_once(128, 1, 8), 15);
  // 4 x 7 tiles, a cluster of four each; 512 steps of 16 along K, a quarter for each block.
  const Anatomy x = anatomy(kH200, kAlignedFp32, catalogue::ffma(128, 192, 16, 8, 12, 1, 4), {512, 1280, 8192}, {});
  EXPECT_EQ(x.tiles, 28);
  EXPECT_EQ(x.launch.blocks, 112u);
  EXPECT_EQ(x.launch.cluster, 4u);
  EXPECT_EQ(x.concurrent, 28);
  EXPECT_EQ(x.busy_sms, 112);
  EXPECT_EQ(x.rounds, 1);
  EXPECT_EQ(x.steps, 128);
  EXPECT_DOUBLE_EQ(x.flops_executed, 2.0 * 512 * 1344 * 8192);
  // Two stages of 16 deep with rows of 128 + 4 and 192 + 4 floats, all sums of a quarter of the columns, a barrier.
  EXPECT_EQ(x.forecast.shared_bytes, 2 * 16 * (132 + 196) * 4 + 4 * 128 * 192 + 8);
}

TEST(Forecast, WorkOfARowsTile) {
  // 96 tiles of 64 columns are one round; as many SMs read as much with 128 of 48.
  const Anatomy x = anatomy(kH200, kAlignedFp32, catalogue::rows(8, 64, 128, 4, 4, 4, 8), {8, 6144, 4096}, {});
  EXPECT_EQ(x.tile_columns, 48);
  EXPECT_EQ(x.tiles, 128);
  EXPECT_EQ(x.rounds, 1);
  EXPECT_EQ(x.steps, 32);
  EXPECT_EQ(x.busy_sms, 128);
  EXPECT_DOUBLE_EQ(x.flops_executed, 2.0 * 8 * 128 * 64 * 4096) << "lanes of absent columns multiply too";
  // A cluster of two for each of 33 tiles, made 66; half the steps each.
  const Anatomy y = anatomy(kH200, kAlignedFp32, catalogue::rows(8, 64, 128, 4, 4, 4, 8, 2), {8, 2112, 7168}, {});
  EXPECT_EQ(y.tile_columns, 32);
  EXPECT_EQ(y.launch.blocks, 132u);
  EXPECT_EQ(y.launch.cluster, 2u);
  EXPECT_EQ(y.steps, 28);
}

TEST(Forecast, Fp32TilesThatAreRefused) {
  const auto reason = [](const Operation& o, const Configuration& c) { return std::string(why_not(o, c) ? why_not(o, c) : ""); };
  Operation rich = catalogue::full(DType::fp32, DType::fp32, Activation::silu);
  EXPECT_EQ(reason(rich, catalogue::ffma(128, 256, 8, 16, 8)), "");
  EXPECT_EQ(reason(catalogue::unaligned(kAlignedFp32), catalogue::ffma(128, 256, 8, 16, 8)), "");
  EXPECT_THAT(reason(catalogue::unaligned(rich), catalogue::ffma(128, 256, 8, 16, 8)), HasSubstr("too few registers"));
  EXPECT_EQ(reason(catalogue::unaligned(rich), catalogue::ffma(128, 128, 16, 16, 8, 2)), "");
  EXPECT_THAT(reason(kAlignedFp32, catalogue::ffma(128, 128, 16, 8, 8, 1, 3)), HasSubstr("multiple of 4 columns"));
  EXPECT_THAT(reason(kAlignedFp32, catalogue::ffma(128, 128, 16, 8, 8, 1, 16)), HasSubstr("at most 8 blocks"));
  EXPECT_THAT(reason(kAlignedFp32, catalogue::ffma(128, 128, 8, 8, 8, 8)), HasSubstr("an even number each"));
  EXPECT_THAT(reason(kAlignedFp32, catalogue::ffma(128, 256, 32, 16, 8, 2)), HasSubstr("227 KiB"));
  EXPECT_THAT(reason(kBf16, {.family = Family::decode, .tile_m = 8, .tile_n = 64, .tile_k = 128, .stages = 4, .cluster_k = 2}), HasSubstr("only the ffma and rows families"));
  EXPECT_THAT(std::string(why_not_on(load_machine("a100"), kAlignedFp32, catalogue::ffma(128, 128, 16, 8, 8, 1, 2), {128, 128, 128})), HasSubstr("compute capability 9.0"));
  for (const auto& [c, why] : {std::pair{catalogue::rows(8, 64, 64, 4, 4, 1, 8), "at least two stages"}, {catalogue::rows(12, 64, 64, 12, 2, 4, 8), "1, 4 or a multiple of 8 rows"},
                               {catalogue::rows(8, 64, 64, 1, 4, 4, 8), "register tiles must have a multiple of 4 rows"}, {catalogue::rows(32, 64, 64, 4, 8, 4, 8), "one, two or four register tiles"},
                               {catalogue::rows(8, 72, 64, 4, 4, 4, 8), "multiple of a warp's"}, {catalogue::rows(8, 64, 40, 4, 4, 4, 2), "32, 64, 96 or 128 elements deep"},
                               {catalogue::rows(8, 64, 64, 4, 4, 4, 3), "groups of warps"}, {catalogue::rows(8, 64, 32, 4, 4, 4, 8), "in pairs"}, {catalogue::rows(32, 128, 64, 16, 8, 3, 4), "64 values"}, {catalogue::rows(8, 256, 64, 4, 4, 3, 8), "at most 16 warps"},
                               {catalogue::rows(8, 64, 64, 4, 4, 4, 8, 9), "one to eight blocks of a cluster"}, {catalogue::rows(32, 64, 64, 8, 8, 9, 8), "227 KiB"}})
    EXPECT_THAT(reason(kAlignedFp32, c), HasSubstr(why)) << text_of(c);
  EXPECT_THAT(reason(catalogue::unaligned(kAlignedFp32), catalogue::rows(8, 64, 64, 4, 4, 4, 8)), HasSubstr("multiple of 16 bytes"));
  EXPECT_THAT(reason(kBf16, catalogue::rows(8, 64, 64, 4, 4, 4, 8)), HasSubstr("fp32 or both tf32"));
  // A rich epilogue goes through shared memory, where 128 sums a thread take all registers.
  EXPECT_EQ(ffma::shared_bytes(kAlignedFp32, catalogue::ffma(128, 256, 8, 16, 8)), 2 * 8 * (132 + 260) * 4);
  EXPECT_EQ(ffma::shared_bytes(rich, catalogue::ffma(128, 256, 8, 16, 8)), 4 * 128 * 256);
}

TEST(Forecast, CountsOfClustersAndEdges) {
  // Pairs along M: ceil(1000/256) x ceil(1000/256) = 16 cluster tiles, 32 blocks.
  const Anatomy x = anatomy(kH200, kBf16, catalogue::coop(128, 256, 4, 2, 2), {1000, 1000, 100}, {});
  EXPECT_EQ(x.tiles, 16);
  EXPECT_EQ(x.concurrent, 16);
  EXPECT_EQ(x.busy_sms, 32);
  EXPECT_EQ(x.steps, 2);
  EXPECT_DOUBLE_EQ(x.flops_executed, 32 * 2.0 * 128 * 256 * 128);
}

TEST(Forecast, OneStepByHand) {
  const Anatomy x = anatomy(kH200, kBf16, catalogue::coop(128, 256, 4, 2), {4096, 4096, 4096}, burst());
  EXPECT_DOUBLE_EQ(x.step_math, 2.0 * 128 * 256 * 64 / (4096 * kH200.sm90.mma_efficiency));
  // Two bands read 64 + 256 lines of 128 bytes at a line a clock; TMA's 128 + 256 are written beside them.
  EXPECT_DOUBLE_EQ(x.step_shared, 640);
  // 384 lines of 128 bytes through one SM's port, and for all SMs out of L2.
  EXPECT_DOUBLE_EQ(x.step_l2, std::max(49152 / kH200.l2_port_bytes_per_clock, 49152 * 128 / (kH200.l2_bytes_per_clock * kH200.l2_coalescing)));
  EXPECT_DOUBLE_EQ(x.step_latency, (kH200.dram_latency + kH200.tma_latency) * kH200.latency_load / 3);
  EXPECT_GE(x.step, x.step_math);
  EXPECT_LE(x.step, 1.05 * x.step_math);
  // Decode: eight rows of A are loaded, not 64.
  const Anatomy thin = anatomy(kH200, kBf16, few_rows(32, 128, 9), {8, 4096, 4096}, burst());
  EXPECT_DOUBLE_EQ(thin.step_shared, (64 + 32) * 256.0 / 128);
  EXPECT_DOUBLE_EQ(thin.step_issue, kH200.sm90.step_clocks + 2 * kH200.sm90.slab_clocks);
}

TEST(Forecast, Tf32TakesTwiceTheBytesAndTwiceTheClocks) {
  const Problem p{4096, 4096, 4096};
  const Operation tf32 = catalogue::product(DType::tf32, DType::fp32), bf16 = catalogue::product(DType::bf16, DType::fp32);
  const Configuration c = catalogue::coop(128, 256, 4, 2);
  const Anatomy x = anatomy(kH200, tf32, catalogue::tf32(c), p, burst()), y = anatomy(kH200, bf16, c, p, burst());
  // A step is as many bytes and clocks, of half the depth.
  EXPECT_EQ(x.steps, 2 * y.steps);
  EXPECT_DOUBLE_EQ(x.step_math, y.step_math);
  EXPECT_DOUBLE_EQ(x.step_shared, y.step_shared);
  EXPECT_DOUBLE_EQ(x.step_l2, y.step_l2);
  EXPECT_DOUBLE_EQ(x.epilogue, y.epilogue);
  EXPECT_DOUBLE_EQ(x.flops_executed, y.flops_executed);
  EXPECT_DOUBLE_EQ(x.traffic.a_bytes, 2 * y.traffic.a_bytes);
  EXPECT_DOUBLE_EQ(x.traffic.d_bytes, y.traffic.d_bytes);
  EXPECT_EQ(x.forecast.shared_bytes, y.forecast.shared_bytes);
  EXPECT_NEAR(x.forecast.seconds / y.forecast.seconds, 2, 0.1);
  EXPECT_NEAR(forecast(kH200, tf32, catalogue::tf32(c), p).seconds / forecast(kH200, bf16, c, p).seconds, 2, 0.15) << "under the power limit";
}

TEST(Forecast, NormIsTheLongestOrALittleMore) {
  EXPECT_EQ(norm(0, 0), 0);
  EXPECT_EQ(norm(3, 0), 3);
  EXPECT_NEAR(norm(1, 1), std::pow(2, 1.0 / 16), 1e-12);
  EXPECT_NEAR(norm(2, 1), 2, 1e-4);
  EXPECT_NEAR(norm(1, 2, 3, 4, 5), std::pow(std::pow(2, 16) + std::pow(3, 16) + std::pow(4, 16) + std::pow(5, 16), 1.0 / 16), 1e-6);
}

// No forecast may beat the hardware: the tensor peak at the clock it assumes, DRAM's bandwidth for what must move, the
// launch; and the part that bounds it is its longest.
TEST(Forecast, NeverBeatsTheHardware) {
  for (const char* name : {"h200", "h100", "a100", "rtx4090"}) {
    const Machine machine = load_machine(name);
    for (const Operation& o : {kBf16, kUnaligned, kFp32}) {
      for (const Configuration& c : catalogue::kConfigurations) {
        for (const Problem& p : {Problem{1, 4096, 4096}, Problem{33, 1000, 77}, Problem{2048, 2048, 2048}, Problem{8192, 28672, 4096}, Problem{64, 64, 100000}, Problem{128, 128, 128, 500}, Problem{4096, 4096, 0}}) {
          if (why_not_on(machine, o, c, p)) continue;
          for (const Conditions& conditions : {Conditions{}, burst(), at(1000)}) {
            const Anatomy x = anatomy(machine, o, c, p, conditions);
            const Forecast& f = x.forecast;
            const double peak = machine.sms * f.clock_mhz * 1e6 * (uses_tensor_cores(c.family) ? machine.tensor_rate(o.a) : machine.fp32_rate);
            ASSERT_TRUE(std::isfinite(f.seconds));
            EXPECT_GE(f.seconds, flop_count(p) / peak);
            EXPECT_GE(f.seconds, (x.traffic.a_bytes + x.traffic.b_bytes + x.traffic.d_bytes) / machine.dram_bandwidth);
            EXPECT_GE(f.seconds, machine.launch_seconds);
            EXPECT_LE(f.clock_mhz, machine.boost_mhz);
            EXPECT_LE(f.watts, machine.power_limit * 1.0001 * (conditions.regime == Regime::burst && uses_tensor_cores(c.family) ? machine.burst_power : 1));
            EXPECT_GE(f.watts, machine.power_idle);
            EXPECT_GE(f.blocks_per_sm, 1);
            EXPECT_GE(f.l2_hit_rate, 0);
            EXPECT_LE(f.l2_hit_rate, 1);
            for (double part : {f.dram, f.l2, f.shared_memory, f.compute, f.issue, f.launch, f.epilogue}) {
              EXPECT_GE(part, 0);
              EXPECT_LE(part, f.seconds * 1.0001);
            }
          }
        }
      }
    }
  }
}

TEST(Forecast, MoreWorkTakesLonger) {
  for (const Configuration& c : catalogue::kConfigurations) {
    const Operation o = catalogue::plain_operation(c);
    const auto seconds = [&](i64 m, i64 n, i64 k, i64 batch = 1) { return forecast(kH200, o, c, {m, n, k, batch}, burst()).seconds; };
    double last = 0;
    for (i64 k = 1024; k < 20000; k *= 2) {
      EXPECT_GT(seconds(512, 4096, k), last);
      last = seconds(512, 4096, k);
    }
    // Whole waves: twice the tiles take longer.
    EXPECT_GT(seconds(132 * 256 * 2, 1024, 1024), 1.5 * seconds(132 * 256, 1024, 1024));
    EXPECT_GT(seconds(512, 4096, 1024, 8), seconds(512, 4096, 1024, 1));
  }
}

// More of the same work never takes less time. Exactly so while the grid of tiles stays (more rows in its last row of
// tiles, a longer K), but for the search of the clock, which stops within 5e-4 of the power limit. Where the grid grows,
// one thing may gain: the last, partial round of blocks fills up, and the rounds share DRAM more evenly than before.
TEST(Forecast, NeverFallsAsWorkGrows) {
  std::mt19937 random(1);
  const auto up_to = [&](double largest) { return i64(std::exp(std::uniform_real_distribution<>(0, std::log(largest))(random))); };
  std::vector<Machine> machines;
  for (const std::string& name : known_machines()) machines.push_back(load_machine(name));
  int same_grid = 0, larger_grid = 0;
  for (int i = 0; i < 100000; ++i) {
    const Machine& machine = machines[random() % machines.size()];
    const Configuration& c = catalogue::kConfigurations[random() % std::size(catalogue::kConfigurations)];
    const i64 unit = needs_hopper(c.family) || is_fp32(c.family) ? 8 : 1;  // rows of whole 16 bytes for TMA and 16-byte loads
    Problem p{up_to(c.family == Family::gemv ? 32 : 20000), round_up(up_to(40000), unit), round_up(up_to(20000), unit), random() % 4 ? 1 : up_to(64)};
    Problem more = p;
    i64* const sizes[] = {&more.m, &more.n, &more.k, &more.batch};
    const size_t grown = random() % 4;
    *sizes[grown] += (grown == 1 || grown == 2 ? unit : 1) * (random() % 2 ? 1 : up_to(200));
    const Operation o = c.family == Family::simt && random() % 2 ? kUnaligned : catalogue::plain_operation(c);
    if (why_not_on(machine, o, c, p) || why_not_on(machine, o, c, more)) continue;
    // Never chosen; and rows that a decode tile has to spare cost more than those that exist.
    if (c.family == Family::decode && (more.m > 2 * c.tile_m || (grown == 0 && p.m % c.tile_m))) continue;
    const Conditions conditions{.regime = random() % 2 ? Regime::burst : Regime::sustained};
    const Anatomy x = anatomy(machine, o, c, p, conditions), y = anatomy(machine, o, c, more, conditions);
    const bool same = x.tiles == y.tiles;
    const bool fuller = !same && x.rounds == y.rounds && x.rounds > 1;
    (same ? same_grid : larger_grid)++;
    double least = is_fp32(c.family) ? 0.91 : c.family == Family::simt ? 0.99 : 0.997;  // their last round may fill up and become one more
    if (fuller) least = is_fp32(c.family) ? 0.8 : 0.9;
    // decode::balance takes the width of tile with the fewest columns for the busiest block, 27 rounds of 48 rather than 21 of 64. Where
    // latency binds, a round takes as long whatever its columns, so that a wider tile, once N asks for it, takes as much less as it has
    // fewer rounds; and fewer blocks read fewer lines beyond the matrix.
    if (c.family == Family::decode && (!same || grown == 1)) least = 0.92 * std::min(1.0, double(y.rounds) / double(x.rounds));
    EXPECT_GE(y.forecast.seconds, x.forecast.seconds * (same && x.tile_columns == y.tile_columns ? 0.999 : least))
        << machine.name << " " << text_of(c) << ": " << p.m << "x" << p.n << "x" << p.k << " of " << p.batch << " to " << more.m << "x" << more.n << "x" << more.k << " of " << more.batch;
  }
  EXPECT_GT(same_grid, 10000);
  EXPECT_GT(larger_grid, 1000);
}

// A budget of SMs may be less than a cluster has blocks.
TEST(Forecast, FewSmsTakeLonger) {
  for (const Configuration& c : catalogue::kConfigurations) {
    const Operation o = catalogue::plain_operation(c);
    for (const bool dependent : {false, true})
      for (const Problem& p : {Problem{1, 8, 8192}, {16, 1280, 8192}, {300, 28672, 4096}}) {
        if (why_not_on(kH200, o, c, p)) continue;
        const double whole = forecast(kH200, o, c, p, {.dependent = dependent}).seconds;
        for (const int sms : {1, 2, 3, 7, 15, 16, 31, 78}) {
          const double seconds = forecast(kH200, o, c, p, {.sm_budget = sms, .dependent = dependent}).seconds;
          EXPECT_TRUE(std::isfinite(seconds)) << text_of(c) << " on " << sms;
          EXPECT_GT(seconds, 0.8 * whole) << text_of(c) << " on " << sms;
        }
      }
  }
}

// From one token to a tile of them, on every machine: what a decoding batch does.
TEST(Forecast, NeverFallsAsTokensComeIn) {
  for (const std::string& name : known_machines()) {
    const Machine machine = load_machine(name);
    for (const Configuration& c : catalogue::kConfigurations) {
      const Operation o = catalogue::plain_operation(c);
      if (is_fp32(c.family)) continue;
      for (const auto& [n, k] : {std::pair<i64, i64>{28672, 4096}, {4096, 14336}, {1280, 8192}, {8192, 1024}}) {
        double last = 0;
        for (i64 m = 1; m <= std::min(c.tile_m * c.cluster_m, 64); ++m) {
          if (c.family == Family::decode && m != c.tile_m) continue;  // rows to spare cost more than those that exist
          if (why_not_on(machine, o, c, {m, n, k})) continue;
          const double seconds = forecast(machine, o, c, {m, n, k}, burst()).seconds;
          EXPECT_GE(seconds, last) << name << " " << text_of(c) << " at M = " << m;
          last = seconds;
        }
      }
    }
  }
}

TEST(Forecast, RegimesAndClocks) {
  const Configuration c = catalogue::coop(128, 256, 4, 2);
  const Problem large{8192, 8192, 8192}, thin{8, 4096, 4096};
  const Forecast sustained = forecast(kH200, kBf16, c, large), quick = forecast(kH200, kBf16, c, large, burst());
  EXPECT_GT(sustained.seconds, 1.03 * quick.seconds) << "the power limit binds";
  EXPECT_LT(sustained.clock_mhz, quick.clock_mhz);
  EXPECT_NEAR(sustained.watts, kH200.power_limit, 0.01 * kH200.power_limit);
  // The vendor's library sustains 650 to 700 TFLOP/s here: so do our kernels, nearly.
  EXPECT_GT(flop_count(large) / sustained.seconds, 620e12);
  EXPECT_LT(flop_count(large) / sustained.seconds, 720e12);

  Conditions zeros;
  zeros.data = Data::zeros;
  EXPECT_LT(forecast(kH200, kBf16, c, large, zeros).seconds, sustained.seconds) << "zeros take less power";

  const Forecast slow = forecast(kH200, kBf16, c, large, at(990)), fast = forecast(kH200, kBf16, c, large, at(1980));
  EXPECT_EQ(slow.clock_mhz, 990);
  EXPECT_NEAR(slow.seconds / fast.seconds, 2, 0.05) << "bound by the SM clock, nearly: L2 has its own";
  EXPECT_DOUBLE_EQ(forecast(kH200, kBf16, few_rows(32, 128, 9), thin).clock_mhz, kH200.boost_mhz * kH200.tensor_clock) << "DRAM alone does not reach the limit";
}

// The clock is where power just meets the limit: recompute the power from the parts.
TEST(Forecast, ThePowerBalanceHolds) {
  const Anatomy x = anatomy(kH200, kBf16, catalogue::coop(128, 256, 4, 2), {8192, 8192, 8192}, {});
  const double voltage = 1 - kH200.voltage_slope * (1 - x.clock / (kH200.boost_mhz * 1e6));
  const double clocks = x.core_clocks * x.busy_sms * double(x.tiles) / double(x.rounds * x.concurrent);
  const double on_chip = flop_count({8192, 8192, 8192}) * kH200.flop_energy + x.shared_traffic * kH200.shared_energy + x.traffic.l2_bytes() * kH200.l2_energy + clocks * kH200.clock_energy;
  const double watts = kH200.power_idle + (on_chip * voltage * voltage + x.traffic.dram_bytes() * kH200.dram_energy) / x.forecast.seconds;
  EXPECT_NEAR(watts, kH200.power_limit, 0.002 * kH200.power_limit);
}

TEST(Forecast, BoundsMakeSense) {
  EXPECT_EQ(forecast(kH200, kBf16, catalogue::coop(128, 256, 4, 2), {8192, 8192, 8192}).bound, Bound::tensor_cores);
  EXPECT_EQ(forecast(kH200, kBf16, few_rows(256, 64, 5), {8, 28672, 8192}).bound, Bound::dram);
  const Forecast barriers = forecast(kH200, kBf16, few_rows(16, 256, 5), {8, 1280, 8192});
  EXPECT_EQ(barriers.bound, Bound::latency) << "barriers keep every unit from its limit";
  EXPECT_GT(barriers.issue, std::max({barriers.dram, barriers.l2, barriers.compute}));
  const Bound small = forecast(kH200, kBf16, few_rows(16, 256, 5), {8, 64, 64}).bound;
  EXPECT_TRUE(small == Bound::launch || small == Bound::latency) << name_of(small);
  // Lines beyond the last row keep L2 waiting: no unit is near its limit, but neither is it the launch, a fortieth of the time.
  EXPECT_EQ(forecast(kH200, kBf16, catalogue::decode(64, 64, 128, 6), {16, 28672, 4096}).bound, Bound::latency);
  EXPECT_EQ(name_of(Bound::shared_memory), std::string("shared memory"));
}

// 150 tiles on 132 SMs: the second round runs at the pace of one block. As measured: 42.8 us, not DRAM's 33.
TEST(Forecast, APartialRoundIsNotFree) {
  const Problem p{8, 7168, 8192};
  const double partial = forecast(kH200, kBf16, few_rows(48, 128, 7), p).seconds;
  const double even = forecast(kH200, kBf16, few_rows(64, 128, 6), p).seconds;
  EXPECT_GT(partial, 1.2 * even);
  EXPECT_NEAR(partial, 42.8e-6, 0.1 * 42.8e-6);
}

TEST(Forecast, PingPongHidesTheEpilogue) {
  const Problem p{4096, 32768, 512};
  const Anatomy together = anatomy(kH200, kBf16, catalogue::coop(128, 128, 6, 2), p, {}), apart = anatomy(kH200, kBf16, catalogue::pingpong(128, 128, 6, 2), p, {});
  EXPECT_GT(together.epilogue_exposed, 0.9 * together.epilogue);
  EXPECT_LT(apart.epilogue_exposed, 0.2 * apart.epilogue);
  EXPECT_LT(apart.forecast.seconds, 0.9 * together.forecast.seconds);
}

TEST(Forecast, EpiloguesCost) {
  const Configuration c = catalogue::coop(128, 192, 4, 3);
  const Problem p{4096, 4096, 512};
  const double plain = forecast(kH200, kBf16, c, p, burst()).seconds;
  Operation direct = kBf16, wide = kBf16;
  direct.output = Alignment::any;
  wide.d = DType::fp32;
  EXPECT_GT(forecast(kH200, catalogue::full(DType::bf16, DType::bf16, Activation::gelu_erf), c, p, burst()).seconds, 1.1 * plain);
  EXPECT_GT(forecast(kH200, direct, c, p, burst()).seconds, plain) << "stores by threads";
  EXPECT_GT(anatomy(kH200, wide, c, p, burst()).traffic.d_bytes, 1.9 * anatomy(kH200, kBf16, c, p, burst()).traffic.d_bytes);
}

TEST(Forecast, AnSmBudgetSlowsDown) {
  Conditions half;
  half.sm_budget = 66;
  const Configuration c = catalogue::coop(128, 128, 6, 2);
  const Anatomy x = anatomy(kH200, kBf16, c, {4096, 4096, 4096}, half);
  EXPECT_EQ(x.busy_sms, 66);
  EXPECT_GT(x.forecast.seconds, forecast(kH200, kBf16, c, {4096, 4096, 4096}).seconds * 1.3);
}

TEST(Forecast, EmptyProblemsTakeNoTime) {
  for (const Problem& p : {Problem{0, 8, 8}, Problem{8, 0, 8}, Problem{8, 8, 8, 0}}) EXPECT_EQ(forecast(kH200, kFp32, catalogue::simt(64, 64, 16, 4, 4), p).seconds, 0);
  EXPECT_GT(forecast(kH200, kFp32, catalogue::simt(64, 64, 16, 4, 4), {8, 8, 0}).seconds, 0) << "K = 0 still writes D";
}

TEST(Forecast, NonsenseIsRefused) {
  const Configuration c = catalogue::coop(128, 128, 6, 2);
  const Problem p{128, 128, 128};
  const auto message = [&](const Machine& m, const Operation& o, const Problem& problem, const Conditions& conditions) {
    try {
      forecast(m, o, c, problem, conditions);
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_THAT(message(kH200, kBf16, p, at(0)), HasSubstr("mhz"));
  EXPECT_THAT(message(kH200, kBf16, p, at(5000)), HasSubstr("1980"));
  EXPECT_THAT(message(kH200, kBf16, p, at(std::numeric_limits<double>::quiet_NaN())), HasSubstr("mhz"));
  EXPECT_THAT(message(kH200, kBf16, p, {.sm_budget = 133}), HasSubstr("sm_budget is 133, must be 0 (all) to 132"));
  EXPECT_THAT(message(kH200, kBf16, p, {.sm_budget = -1}), HasSubstr("sm_budget"));
  EXPECT_THAT(message(kH200, kBf16, {-1, 8, 8}, {}), HasSubstr("negative"));
  EXPECT_THAT(message(kH200, kUnaligned, p, {}), HasSubstr("TMA"));
  EXPECT_THAT(message(load_machine("a100"), kBf16, p, {}), HasSubstr("9.0"));
}

TEST(Forecast, ExtremesDoNotOverflow) {
  const i64 huge = 2000000000;
  for (const Problem& p : {Problem{huge, 1, 1}, Problem{1, huge, 1}, Problem{1, 1, huge}, Problem{1, 1, 1, huge}}) {
    const Forecast f = forecast(kH200, kFp32, catalogue::simt(128, 128, 8, 8, 8), p);
    EXPECT_TRUE(std::isfinite(f.seconds) && f.seconds > 0);
    EXPECT_GE(f.l2_hit_rate, 0);
  }
}

}  // namespace
}  // namespace foretile
