// Kernels from descriptions: the shipped examples, and what the forecast must say of them. Their counters are compared
// with the chip's in tests/counters/described_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <stdexcept>

#include "model/described_access.h"
#include "model/described_kernel_text.h"

namespace foretile {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Conditions kBurst{.regime = Regime::burst};

KernelFile example(const std::string& name, const std::map<std::string, std::string>& set = {}) { return load_kernel_file(std::string(FORETILE_SOURCE_DIR) + "/examples/kernels/" + name + ".toml", set); }
double teraflops(const char* machine, const KernelFile& f, const Problem& p) { return flop_count(p) / forecast(load_machine(machine), f.kernel, p, kBurst).seconds * 1e-12; }
double conflicts(const DescribedForecast& f) {
  double sum = 0;
  for (const AccessCost& c : f.step) sum += c.conflicts();
  return sum;
}
std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "nothing was thrown";
}

const Problem kSquare{4096, 4096, 4096};

// A published 4.78 TFLOP/s of plain tiling on an A100 stands at its load-store units' limit, 32 lanes a clock and two
// loads a multiply-add: 4.87. On an RTX 3090, with 16 lanes, no such kernel passes 2.2.
TEST(Described, OneOutputAThreadIsBoundByLoads) {
  const KernelFile tiled = example("tiled-fp32");
  EXPECT_NEAR(teraflops("a100", tiled, kSquare), 4.78, 0.3);
  EXPECT_LT(teraflops("rtx3090", tiled, kSquare), 2.23);
  EXPECT_EQ(forecast(load_machine("a100"), tiled.kernel, kSquare, kBurst).bound, Bound::shared_memory);
  // 8 x 8 outputs a thread: the multiply-adds bind.
  const DescribedForecast f = forecast(load_machine("a100"), example("register-tile-fp32").kernel, kSquare, kBurst);
  EXPECT_EQ(f.bound, Bound::fp32_cores);
  EXPECT_EQ(conflicts(f), 0);
}

TEST(Described, ConflictsFollowTheLayoutOfTheSharedTile) {
  const Machine a100 = load_machine("a100");
  const auto of = [&](const char* name, const std::map<std::string, std::string>& set) { return conflicts(forecast(a100, example(name, set).kernel, {512, 512, 512}, kBurst)); };
  // Rows by row: none, whatever the pitch, the tile's width or K.
  for (const char* pitch : {"32", "33", "40"}) EXPECT_EQ(of("tiled-fp32", {{"pitch", pitch}}), 0) << pitch;
  EXPECT_EQ(of("tiled-fp16", {{"pitch", "32"}}), 0);
  // Down the columns: 32 ways at 32 words, none at 33.
  EXPECT_EQ(of("tiled-fp32", {{"down", "1"}, {"pitch", "32"}}), 31 * 32 + 31 * 1024);
  EXPECT_EQ(of("tiled-fp32", {{"down", "1"}, {"pitch", "33"}}), 0);
  // ldmatrix: rows of 64 bytes collide, 80 do not, and an XOR of 16-byte pieces does without padding.
  const auto matrix = [&](const std::map<std::string, std::string>& set) {
    const DescribedForecast f = forecast(a100, example("mma-async-fp16", set).kernel, {512, 512, 512}, kBurst);
    return f.step[4].conflicts() + f.step[5].conflicts();
  };
  EXPECT_GT(matrix({{"pitch", "32"}}), 0);
  EXPECT_EQ(matrix({{"pitch", "40"}}), 0);
  EXPECT_EQ(of("mma-async-fp16", {{"pitch", "32"}, {"swizzle", "1"}}), 0);
}

TEST(Described, CoalescingDecidesNaiveKernels) {
  const Machine h200 = load_machine("h200");
  const KernelFile across = example("naive-fp32"), down = example("naive-fp32", {{"across", "0"}});
  const DescribedForecast good = forecast(h200, across.kernel, kSquare, kBurst), bad = forecast(h200, down.kernel, kSquare, kBurst);
  // A: one word for the whole warp. B: a row of 128 bytes.
  EXPECT_EQ(good.step[0].sectors / good.step[0].requests, 1);
  EXPECT_EQ(good.step[1].sectors / good.step[1].requests, 4);
  EXPECT_EQ(bad.step[0].sectors / bad.step[0].requests, 32);
  EXPECT_GT(bad.seconds, 3 * good.seconds);
}

// Rows that are cut off: counts by the number of threads inside.
TEST(Described, EdgesAreWeighed) {
  const Machine h200 = load_machine("h200");
  const KernelFile f = example("tiled-fp16");
  // 40 rows: a block of 32 and one of 8, on columns and K of whole tiles; a load of A takes part row by row.
  const auto cost = access_costs(h200, f.kernel, {40, 64, 64}, false);
  EXPECT_DOUBLE_EQ(cost[0].requests, (32 + 8) / 2.0);
  EXPECT_DOUBLE_EQ(cost[0].sectors, (32 + 8) / 2.0 * 2);
  // Five row tiles, the last with 8 rows.
  EXPECT_NEAR(access_costs(h200, f.kernel, {136, 64, 64}, false)[0].requests, (4 * 32 + 8) / 5.0, 1e-9);
}

TEST(Described, MoreWorkTakesLonger) {
  for (const char* name : {"tiled-fp32", "naive-fp32", "register-tile-fp32", "mma-async-fp16"}) {
    const KernelFile f = example(name);
    for (const char* machine : {"t4", "a100", "rtx4090", "h200"}) {
      const Machine m = load_machine(machine);
      if (!why_not(m, f.kernel, {512, 512, 512}).empty()) continue;
      double last = 0;
      for (i64 rows = 128; rows <= 8192; rows *= 2) {
        const DescribedForecast x = forecast(m, f.kernel, {rows, 2048, 1024}, kBurst);
        EXPECT_GE(x.seconds, last * 0.999) << name << " on " << machine << ", M = " << rows;
        last = x.seconds;
        EXPECT_GE(x.seconds, flop_count({rows, 2048, 1024}) / (m.sms * m.boost_mhz * 1e6 * std::max(m.fp32_rate, m.tensor_fp16)));
        for (const double part : {x.dram, x.l2, x.shared_memory, x.compute, x.issue}) EXPECT_LE(part, x.seconds * 1.0001);
      }
    }
  }
}

// Multiplies out of shared memory run at the tensor cores' own rate; a block alone waits for each, two overlap.
TEST(Described, WgmmaIsWaitedFor) {
  const Machine h200 = load_machine("h200");
  DescribedKernel k{.name = "wgmma", .input = DType::bf16, .output = DType::bf16, .tile_m = 128, .tile_n = 128, .tile_k = 64, .threads_x = 256, .registers = 90, .shared_bytes = 98304,
                    .multiplier = Multiplier::wgmma, .stages = 3, .copy = Copy::bulk, .barriers = 1};
  const DescribedForecast one = forecast(h200, k, {1024, 1024, 1024}, kBurst), two = forecast(h200, k, {4096, 4096, 4096}, kBurst);
  EXPECT_NEAR(one.step_math, 2.0 * 128 * 128 * 64 / (h200.tensor_bf16 * h200.sm90.mma_efficiency), 1e-9);
  EXPECT_GE(one.step_clocks, one.step_math + h200.sm90.step_clocks);
  EXPECT_EQ(two.blocks_on_sm, 2);
  EXPECT_LT(two.step_clocks, 2 * one.step_clocks);
  EXPECT_NEAR(one.clock_mhz, h200.boost_mhz * h200.tensor_clock, 1e-6);
  const std::string text = explain_text(h200, {.kernel = k}, {1024, 1024, 1024}, kBurst, nullptr, 500);
  EXPECT_THAT(text, HasSubstr("wgmma on tensor cores"));
  EXPECT_THAT(text, HasSubstr("the round of a stage"));
  EXPECT_THAT(why_not(load_machine("a100"), k, {8, 8, 8}), HasSubstr("compute capability 9.0"));
  k.tile_m = 96;
  EXPECT_THAT(why_not(h200, k, {96, 128, 64}), HasSubstr("bands of 64 rows"));
}

TEST(Described, SmallProductsAreBatched) {
  const std::string text = explain_text(load_machine("a100"), example("tiled-fp16"), {128, 128, 128}, kBurst);
  EXPECT_THAT(text, HasSubstr("Batching saves it"));
  EXPECT_THAT(text, HasSubstr("64 in one launch"));
}

TEST(Described, FusingCountsRegistersToo) {
  const Machine a100 = load_machine("a100");
  // 1,024 threads of 32 registers: two more cost a block.
  EXPECT_THAT(explain_text(a100, example("tiled-fp16"), {2048, 2048, 1024}, kBurst, nullptr, 500), HasSubstr("2 registers more a thread (1 block an SM, as before 2)"));
  EXPECT_THAT(explain_text(a100, example("tiled-fp16", {{"T", "16"}}), {256, 256, 64}, kBurst, nullptr, 500), HasSubstr("faster by"));
}

TEST(Described, HelpIsRankedAndEachHasItsForecast) {
  const Machine a100 = load_machine("a100");
  const std::map<std::string, std::string> set = {{"down", "1"}};
  const KernelFile f = example("tiled-fp32", set);
  const KernelWith with = [&](const std::string& name, i64 value) {
    auto other = set;
    other[name] = std::to_string(value);
    return example("tiled-fp32", other);
  };
  const auto list = remedies(a100, f, kSquare, kBurst, with);
  ASSERT_GE(list.size(), 3u);
  EXPECT_EQ(list[0].what, "pitch = 33");
  EXPECT_DOUBLE_EQ(list[0].seconds, forecast(a100, with("pitch", 33).kernel, kSquare, kBurst).seconds);
  for (size_t i = 1; i < list.size(); ++i) EXPECT_LE(list[i - 1].seconds, list[i].seconds);
  const double now = forecast(a100, f.kernel, kSquare, kBurst).seconds;
  for (const Remedy& r : list) EXPECT_LT(r.seconds, now) << r.what;
  EXPECT_THAT(explain_text(a100, f, kSquare, kBurst, with, 500), HasSubstr("threads 0 and 1 want words 1024 and 1056, both of bank 0"));
}

TEST(Described, LinesFitAndNothingIsMissing) {
  for (const char* name : {"tiled-fp32", "tiled-fp16", "naive-fp32", "register-tile-fp32", "mma-async-fp16"}) {
    const KernelWith with = [&](const std::string& key, i64 value) { return example(name, {{key, std::to_string(value)}}); };
    const std::string text = explain_text(load_machine("l4"), example(name), {1000, 1000, 1000}, {}, with);
    for (const char* wrong : {"nan", "inf ", "[@", "?["}) EXPECT_THAT(text, Not(HasSubstr(wrong))) << name;
    size_t start = 0;
    for (size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) EXPECT_LE(end - start, 80u) << text.substr(start, end - start);
  }
}

TEST(Described, NonsenseIsRefusedByName) {
  const Machine a100 = load_machine("a100");
  const std::string head = "[let]\nT = 32\n[kernel]\ntile = [\"T\", \"T\", \"T\"]\nthreads = [\"T\", \"T\"]\nregisters = 32\nshared_bytes = 4096\n";
  const auto file = [&](const std::string& rest, const std::map<std::string, std::string>& set = {}) { return message([&] { parse_kernel_file("mine.toml", head + rest, set); }); };
  EXPECT_EQ(file(""), "nothing was thrown");
  EXPECT_THAT(file("", {{"pitch", "3"}}), HasSubstr("'pitch' cannot be set; [let] has T"));
  EXPECT_THAT(file("color = 3\n"), HasSubstr("kernel has 'color'; allowed: input"));
  EXPECT_THAT(file("multiplier = \"tensor\"\n"), HasSubstr("multiplier is 'tensor'; allowed: fp32, half, half2, mma, wgmma"));
  EXPECT_THAT(file("stages = 0\n"), HasSubstr("stages is 0, must be 1 to 64"));
  EXPECT_THAT(file("[[step]]\ndo = \"load\"\n"), HasSubstr("step[0].do is 'load'; allowed: load global"));
  EXPECT_THAT(file("[[step]]\ndo = \"load global\"\narray = \"A\"\nindex = \"row\"\n"), HasSubstr("step[0].index: expression 'row': 'row' is not known"));
  EXPECT_THAT(file("[vary]\nU = [1]\n"), HasSubstr("vary.U: [let] has no such name; it has T"));
  EXPECT_THAT(message([] { load_kernel_file("/no/such.toml"); }), HasSubstr("cannot be read"));
  EXPECT_THAT(message([] { parse_kernel_file("mine.toml", "[kernel"); }), HasSubstr("line 1"));

  const auto run = [&](const std::string& access, const Problem& p = {64, 64, 64}) { return message([&] { forecast(a100, parse_kernel_file("mine.toml", head + "[[step]]\n" + access).kernel, p); }); };
  EXPECT_THAT(run("do = \"load shared\"\narray = \"S\"\ntext = \"S[tx]\"\nindex = \"tx * 64\"\n"), HasSubstr("'S[tx]': thread 16 of block (0, 0), repetition 0 of step 0: bytes 4096 to 4099 are beyond the block's 4096 bytes"));
  EXPECT_THAT(run("do = \"load global\"\narray = \"A\"\nindex = \"tx - 1\"\n"), HasSubstr("address -4 is negative"));
  EXPECT_THAT(run("do = \"load global\"\narray = \"A\"\nindex = \"tx\"\nelements = 4\n"), HasSubstr("address 4 is no multiple of the access's 16 bytes"));
  EXPECT_THAT(run("do = \"load global\"\narray = \"A\"\nindex = \"1 / tx\"\n"), HasSubstr("thread 0 of block (0, 0), repetition 0 of step 0: a division by 0"));

  DescribedKernel k = parse_kernel_file("mine.toml", head).kernel;
  EXPECT_THAT(message([&] { forecast(a100, k, {-1, 8, 8}); }), HasSubstr("m is -1"));
  EXPECT_THAT(message([&] { forecast(a100, k, {8, 8, 8}, {.sm_budget = 109}); }), HasSubstr("sm_budget is 109"));
  k.copy = Copy::bulk;
  EXPECT_THAT(why_not(a100, k, {8, 8, 8}), HasSubstr("compute capability 9.0"));
  k.copy = Copy::registers, k.multiplier = Multiplier::mma;
  EXPECT_THAT(why_not(a100, k, {8, 8, 8}), HasSubstr("no tensor cores for fp32"));
  k.multiplier = Multiplier::fp32, k.registers = 128;
  EXPECT_THAT(why_not(a100, k, {8, 8, 8}), HasSubstr("not one block fits"));
  k.registers = 32;
  EXPECT_EQ(forecast(a100, k, {0, 8, 8}).seconds, 0);
}

}  // namespace
}  // namespace foretile
