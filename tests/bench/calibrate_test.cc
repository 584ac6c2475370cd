// Calibration without a GPU: the kernels compile for every architecture, measurements become a machine file that loads, and
// energies, chains and errors are what arithmetic says.
#include "bench/calibrate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <glob.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include "bench/calibrate_kernels.h"
#include "bench/plain_compile.h"
#include "foretile/device/catalogue.h"
#include "model/model.h"
#include "model/text.h"
#include "runtime/nvrtc.h"

namespace foretile::bench {
namespace {

using ::testing::HasSubstr;

TEST(Calibrate, KernelsCompileForEveryArchitecture) {
  const Nvrtc* nvrtc = nullptr;
  if (const Status s = load_nvrtc(nvrtc); !s) GTEST_SKIP() << s.message();
  for (const int capability : {75, 80, 86, 89, 90}) {
    const std::string code = compile_plain(kCalibrationSource, capability, "calibration");
    EXPECT_GT(code.size(), 1000u);
    const auto has = [&](const char* name) { return code.find(name) != std::string::npos; };
    for (const char* name : {"nothing", "spin", "read", "chase_global", "chase_shared", "shared_words", "shared_quads", "fp32_multiply_adds", "half2_multiply_adds", "mma_fp16"}) EXPECT_TRUE(has(name)) << name << " on " << capability;
    EXPECT_EQ(has("mma_bf16"), capability >= 80);
    EXPECT_EQ(has("mma_fp8"), capability == 89);
  }
}

// What is timed must be there: an assembler that sees through a loop leaves nothing to time.
TEST(Calibrate, TheMachineCodeHasWhatIsTimed) {
  const Nvrtc* nvrtc = nullptr;
  if (const Status s = load_nvrtc(nvrtc); !s) GTEST_SKIP() << s.message();
  glob_t found{};
  const std::string pattern = std::string(FORETILE_BINARY_DIR) + "/python/lib/python3*/site-packages/nvidia/*/bin/nvdisasm";
  const bool have = glob(pattern.c_str(), 0, nullptr, &found) == 0 && found.gl_pathc > 0;
  const std::string disassembler = have ? found.gl_pathv[0] : "";
  globfree(&found);
  if (!have) GTEST_SKIP() << "no disassembler: " << pattern;
  const std::string path = testing::TempDir() + "/foretile_calibration.cubin";
  const std::string code = compile_plain(kCalibrationSource, 90, "calibration");
  std::ofstream(path, std::ios::binary).write(code.data(), std::streamsize(code.size()));
  FILE* pipe = popen((disassembler + " -c " + path).c_str(), "r");
  ASSERT_TRUE(pipe);
  std::map<std::string, std::map<std::string, int>> counts;  // by kernel and mnemonic's head
  std::string kernel;
  char line[512];
  while (std::fgets(line, sizeof line, pipe)) {
    const std::string text = line;
    if (text.rfind(".text.", 0) == 0) kernel = text.substr(6, text.find(':') - 6);
    for (const char* mnemonic : {"LDS.128", "LDS ", "LDS.U", "FFMA", "HFMA2", "HMMA", "IMMA", "LDG.E.128"})
      if (text.find(std::string(" ") + mnemonic) != std::string::npos) ++counts[kernel][mnemonic];
  }
  pclose(pipe);
  EXPECT_EQ(counts["shared_quads"]["LDS.128"] % 8, 0);
  EXPECT_GE(counts["shared_quads"]["LDS.128"], 8);
  EXPECT_EQ(counts["shared_words"]["LDS "] % 8, 0);
  EXPECT_GE(counts["shared_words"]["LDS "], 8);
  EXPECT_GE(counts["fp32_multiply_adds"]["FFMA"], 64);
  EXPECT_GE(counts["half2_multiply_adds"]["HFMA2"], 64);
  EXPECT_GE(counts["read"]["LDG.E.128"], 4);
  for (const char* name : {"mma_fp16", "mma_bf16", "mma_tf32"}) EXPECT_GE(counts[name]["HMMA"], 16) << name;
  EXPECT_GE(counts["mma_int8"]["IMMA"], 16);
}

Calibration of(const char* gpu, int capability, int sms, std::vector<Measured> facts) {
  Calibration c;
  c.gpu = gpu, c.driver = "580.1", c.date = "2026-11-30", c.compute_capability = capability, c.sms = sms, c.facts = std::move(facts);
  return c;
}

TEST(Calibrate, WritesAMachineFileThatLoads) {
  std::vector<std::string> left_out;
  const Machine base = *machine_for_device("NVIDIA H200", 90, 132);
  const std::string text = machine_file(base, of("NVIDIA H200", 90, 132, {{"dram.efficiency", 0.93, "reads of 4 GB"}, {"latency.dram", 700, "chase"}, {"latency.shared", 29.25, "a \"chase\""}}), left_out);
  const Machine m = parse_machine("mine", text);
  ASSERT_EQ(left_out.size(), 1u);
  EXPECT_THAT(left_out[0], HasSubstr(fmt::format("dram.efficiency: measured 0.93, kept {:.4g}", base.dram_efficiency)));
  EXPECT_EQ(m.dram_efficiency, base.dram_efficiency);
  EXPECT_EQ(m.dram_latency, 700);
  EXPECT_EQ(m.shared_latency, 29.25);
  EXPECT_THAT(m.fact("latency.dram")->source, HasSubstr("measured by foretile calibrate on NVIDIA H200 (2026-11-30, driver 580.1): chase"));
  EXPECT_EQ(m.fact("sm90.tile_clocks")->source, base.fact("sm90.tile_clocks")->source) << "the same GPU keeps its kernel constants' sources";
  EXPECT_EQ(m.facts.size(), base.facts.size());
  EXPECT_EQ(m.driver_names, std::vector<std::string>{"NVIDIA H200"});
  for (const Fact& f : base.facts)
    if (f.key != "latency.dram" && f.key != "latency.shared") {
      EXPECT_NEAR(m.fact(f.key)->value, f.value, 1e-5 * std::abs(f.value)) << f.key;
    }
}

TEST(Calibrate, AnotherGpuSaysWhatIsCarriedOver) {
  std::vector<std::string> left_out;
  const Machine* base = machine_for_device("NVIDIA RTX 6000 Ada Generation", 89, 142);
  ASSERT_TRUE(base);
  const Machine m = parse_machine("mine", machine_file(*base, of("NVIDIA RTX 6000 Ada Generation", 89, 142, {{"dram.bandwidth", 9.6e11, "the driver"}}), left_out));
  EXPECT_EQ(m.dram_bandwidth, 9.6e11);
  EXPECT_EQ(m.sms, 142);
  EXPECT_THAT(m.fact("latency.dram")->source, HasSubstr("carried over from l40s.toml"));
  EXPECT_THAT(m.fact("latency.dram")->source, HasSubstr("not measured on this GPU"));
}

// A broken measurement costs itself, not the file.
TEST(Calibrate, NonsenseIsLeftOutByName) {
  std::vector<std::string> left_out;
  const Machine base = *machine_for_device("NVIDIA GH200", 90, 132);
  const Machine m = parse_machine("mine", machine_file(base, of("NVIDIA GH200", 90, 132, {{"dram.efficiency", 1.3, "x"}, {"latency.l2", 280, "x"}, {"l2.colour", 3, "x"}, {"latency.dram", std::nan(""), "x"}}), left_out));
  EXPECT_EQ(m.dram_efficiency, base.dram_efficiency);
  EXPECT_EQ(m.l2_latency, 280);
  EXPECT_EQ(m.dram_latency, base.dram_latency);
  ASSERT_EQ(left_out.size(), 3u);
  EXPECT_THAT(left_out[0], HasSubstr("dram.efficiency"));
  EXPECT_THAT(left_out[1], HasSubstr("l2.colour"));
  EXPECT_THAT(left_out[2], HasSubstr("latency.dram"));
}

double value_of(const std::vector<Measured>& list, const std::string& key) {
  for (const Measured& m : list)
    if (m.key == key) return m.value;
  return -1;
}

TEST(Calibrate, EnergiesAreRecoveredFromPower) {
  // A board of known energies under the loads, at clocks below boost.
  const double idle = 100, clock = 3e-10, fp32 = 5e-12, l2 = 1e-11, dram = 6e-11, mma = 8e-13, zero = 3e-13, boost = 2000;
  const int sms = 100;
  const auto board = [&](double mhz, double on_chip, double off_chip) {
    const double v = mhz / boost;
    return idle + (clock * sms * mhz * 1e6 + on_chip) * v * v + off_chip;
  };
  PowerReadings r;
  r.idle = idle, r.spin_mhz = 2000, r.spin = board(2000, 0, 0);
  r.fp32_mhz = 1800, r.fp32_flops = 4e13, r.fp32 = board(1800, fp32 * 4e13, 0);
  r.l2_mhz = 1900, r.l2_bytes = 8e12, r.l2 = board(1900, l2 * 8e12, 0);
  r.dram_mhz = 2000, r.dram_bytes = 4e12, r.dram = board(2000, l2 * 4e12, dram * 4e12);
  r.mma_mhz = 1500, r.mma_flops = 5e14, r.mma = board(1500, mma * 5e14, 0);
  r.zeros_mhz = 1950, r.zeros_flops = 6e14, r.zeros = board(1950, zero * 6e14, 0);
  const auto list = energies(r, sms, boost, 1);
  EXPECT_NEAR(value_of(list, "power.idle"), idle, 1e-9);
  EXPECT_NEAR(value_of(list, "power.clock"), clock, 1e-6 * clock);
  EXPECT_NEAR(value_of(list, "power.fp32_flop"), fp32, 1e-6 * fp32);
  EXPECT_NEAR(value_of(list, "power.l2"), l2, 1e-6 * l2);
  EXPECT_NEAR(value_of(list, "power.dram"), dram, 1e-6 * dram);
  EXPECT_NEAR(value_of(list, "power.flop"), mma, 1e-6 * mma);
  EXPECT_NEAR(value_of(list, "power.zero_flop"), zero, 1e-6 * zero);
  // A meter that does not rise gives no energy.
  r.fp32 = idle;
  EXPECT_EQ(value_of(energies(r, sms, boost, 1), "power.fp32_flop"), -1);
  EXPECT_TRUE(energies({}, sms, boost, 1).empty());
}

TEST(Calibrate, ChainsVisitEveryEntryOnce) {
  for (const std::size_t stride : {1u, 32u}) {
    const auto table = chain(1000, stride, 3);
    std::set<unsigned> seen;
    unsigned at = 0;
    for (int i = 0; i < 1000; ++i) seen.insert(at), at = table[at];
    EXPECT_EQ(seen.size(), 1000u);
    EXPECT_EQ(at, 0u);
    EXPECT_EQ(*seen.rbegin(), 999 * stride);
  }
}

TEST(Calibrate, TheSetsErrorIsTheModels) {
  const Machine h200 = load_machine("h200");
  const Operation o = catalogue::product(DType::bf16, DType::bf16);
  std::vector<SetRow> rows;
  for (const Configuration& c : catalogue::kConfigurations) {
    const Problem p{4096, 6144, 4096};
    if (why_not_on(h200, o, c, p)) continue;
    rows.push_back({.shape = "one", .configuration = text_of(c), .m = p.m, .n = p.n, .k = p.k, .burst = forecast(h200, o, c, p, {.regime = Regime::burst}).seconds, .sustained = forecast(h200, o, c, p).seconds * 1.1});
  }
  const SetReport r = set_report(h200, rows);
  EXPECT_EQ(r.count, 2 * rows.size());
  EXPECT_NEAR(r.ninth, 1 - 1 / 1.1, 1e-9);
  EXPECT_NEAR(r.choice, 1, 1e-9);
  EXPECT_TRUE(std::isnan(set_report(h200, {}).median));
}

TEST(Calibrate, WithoutAGpuItSaysSo) {
  if (::getenv("FORETILE_LIBCUDA")) GTEST_SKIP() << "another test's driver is loaded";
  CalibrateOptions options;
  try {
    measure(options);
    GTEST_SKIP() << "there is a GPU here";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()), "");
  }
}

}  // namespace
}  // namespace foretile::bench
