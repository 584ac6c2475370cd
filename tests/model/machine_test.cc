#include "model/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "model/described_kernel_file.h"
#include "model/machine_files.h"

namespace foretile {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(Machine, TheListedOnesAreThere) {
  for (const char* name : {"v100", "t4", "a10", "a100-40", "a100", "rtx3090", "rtx4090", "l4", "l40s", "h100", "h100-pcie", "h200"}) {
    EXPECT_THAT(known_machines(), Contains(name));
    EXPECT_FALSE(machine_file_text(name).empty());
    EXPECT_EQ(load_machine(name).name, name);
  }
  EXPECT_TRUE(machine_file_text("nothing").empty());
}

TEST(Machine, EveryNumberHasUnitAndSource) {
  for (const std::string& name : known_machines()) {
    const Machine m = load_machine(name);
    EXPECT_GE(m.facts.size(), 40u) << name;
    for (const Fact& f : m.facts) {
      EXPECT_FALSE(f.unit.empty()) << name << " " << f.key;
      EXPECT_GE(f.source.size(), 7u) << name << " " << f.key;
    }
    EXPECT_FALSE(m.validation.empty());
    EXPECT_FALSE(m.derived);
  }
}

// "carried over from h200.toml": the same number then, also after a new fit.
TEST(Machine, WhatIsCarriedOverIsTheSameNumber) {
  const std::string words = "carried over from ";
  int carried = 0;
  for (const std::string& name : known_machines()) {
    const Machine m = load_machine(name);
    for (const Fact& f : m.facts) {
      if (!f.source.starts_with(words)) continue;
      const std::string from = f.source.substr(words.size(), f.source.find(".toml") - words.size());
      const Machine other = load_machine(from);
      ASSERT_TRUE(other.fact(f.key)) << name << " " << f.key << " from " << from;
      EXPECT_EQ(f.value, other.fact(f.key)->value) << name << " " << f.key << " from " << from;
      ++carried;
    }
  }
  EXPECT_GT(carried, 100);
}

// Data-sheet peaks: SMs x FLOP a clock x the clock that the data sheet quotes.
TEST(Machine, RatesGiveTheDataSheetPeaks) {
  struct {
    const char* name;
    double mhz, tensor_fp16, fp32;  // MHz, TFLOP/s
  } const sheets[] = {
      {"h200", 1830, 989.4, 61.9},   // NVIDIA H200 data sheet: 989 bf16; H100 whitepaper: 66.9 fp32 at 1,980 MHz
      {"h100", 1830, 989.4, 61.9},
      {"a100", 1410, 312, 19.5},     // A100 data sheet
      {"a100-40", 1410, 312, 19.5},
      {"rtx4090", 2520, 165.2, 82.6},  // Ada whitepaper, bf16 with fp32 accumulation
      {"v100", 1530, 125, 15.7},       // V100 whitepaper
      {"t4", 1590, 65, 8.1},           // T4 data sheet
      {"a10", 1695, 125, 31.2},        // A10 data sheet
      {"rtx3090", 1695, 71, 35.6},     // GA102 whitepaper, fp32 accumulation
      {"l4", 2040, 121, 30.3},         // L4 data sheet, dense
      {"l40s", 2490, 362, 90.5},       // L40S data sheet, dense; 91.6 at the boost clock
      {"h100-pcie", 1620, 756, 47.3},  // H100 PCIe product brief, dense; 51.2 fp32 at 1,755 MHz
  };
  for (const auto& s : sheets) {
    const Machine m = load_machine(s.name);
    EXPECT_NEAR(m.sms * m.tensor_fp16 * s.mhz * 1e-6, s.tensor_fp16, 0.005 * s.tensor_fp16) << s.name;
    EXPECT_EQ(m.tensor_bf16, m.compute_capability >= 80 ? m.tensor_fp16 : 0) << s.name;
    EXPECT_NEAR(m.sms * m.fp32_rate * s.mhz * 1e-6, s.fp32, 0.006 * s.fp32) << s.name;
    EXPECT_EQ(m.tensor_rate(DType::bf16), m.tensor_bf16);
    EXPECT_EQ(m.tensor_rate(DType::e5m2), m.tensor_fp8);
    EXPECT_EQ(m.tensor_rate(DType::fp32), 0) << "true fp32 never runs on tensor cores";
  }
}

TEST(Machine, CapacitiesOfTheProgrammingGuide) {
  const Machine h200 = load_machine("h200"), a100 = load_machine("a100"), rtx4090 = load_machine("rtx4090");
  EXPECT_EQ(h200.sms, 132);
  EXPECT_EQ(h200.compute_capability, 90);
  EXPECT_EQ(h200.shared_bytes, 228 * 1024);
  EXPECT_EQ(h200.shared_bytes_per_block, 227 * 1024);
  EXPECT_EQ(h200.dram_bandwidth, 4.8e12);
  EXPECT_EQ(a100.sms, 108);
  EXPECT_EQ(a100.shared_bytes, 164 * 1024);
  EXPECT_EQ(a100.shared_bytes_per_block, 163 * 1024);
  EXPECT_EQ(a100.tensor_fp8, 0);
  EXPECT_EQ(rtx4090.warps, 48);
  EXPECT_EQ(rtx4090.blocks, 24);
  EXPECT_EQ(rtx4090.shared_bytes, 100 * 1024);
  EXPECT_EQ(rtx4090.lsu_lanes, 16);
}

TEST(Machine, UnknownNamesListTheKnownOnes) {
  const std::string message = message_of([] { load_machine("h300"); });
  EXPECT_THAT(message, HasSubstr("h300"));
  EXPECT_THAT(message, HasSubstr("h100, h100-pcie, h200, l4"));
  EXPECT_THAT(message_of([] { load_machine("/no/such/file.toml"); }), HasSubstr("cannot be read: No such file or directory"));
  const std::string folder = ::testing::TempDir() + "a_folder.toml";
  std::filesystem::create_directory(folder);
  EXPECT_THAT(message_of([&] { load_machine(folder); }), HasSubstr("machine file '" + folder + "' is a folder; allowed: a .toml file"));
  EXPECT_THAT(message_of([&] { load_kernel_file(folder); }), HasSubstr("kernel file '" + folder + "' is a folder; allowed: a .toml file"));
  std::filesystem::remove(folder);
}

// A damaged file is refused and the message names the number.
TEST(Machine, DamagedFilesAreRefusedByName) {
  const std::string good(machine_file_text("h200"));
  const auto broken = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    if (at == std::string::npos) return "the test is wrong: no " + from;
    text.replace(at, from.size(), to);
    return message_of([&] { parse_machine("broken", text); });
  };
  EXPECT_EQ(message_of([&] { parse_machine("good", good); }), "nothing was thrown");
  EXPECT_THAT(broken("value = 132,", "value = \"132\","), HasSubstr("sm.count"));
  EXPECT_THAT(broken("value = 132,", "value = 13.5,"), HasSubstr("sm.count"));
  EXPECT_THAT(broken("value = 132, ", ""), HasSubstr("sm.count has no value"));
  EXPECT_THAT(broken("unit = \"SMs\", ", ""), HasSubstr("sm.count has no unit"));
  EXPECT_THAT(broken("unit = \"B/s\"", "unit = \"GB/s\""), HasSubstr("dram.bandwidth: the unit is 'GB/s', must be 'B/s'"));
  EXPECT_THAT(broken("4.8000e+12", "4800"), HasSubstr("dram.bandwidth"));
  EXPECT_THAT(broken("\nboost = {", "\nbost = {"), HasSubstr("unknown number clock.bost"));
  EXPECT_THAT(broken("[clock]\nboost", "[clock]\n# boost"), HasSubstr("clock.boost is missing"));
  EXPECT_THAT(broken("\nmma_efficiency = {", "\n# mma_efficiency = {"), HasSubstr("sm90.mma_efficiency is missing"));
  EXPECT_THAT(broken("full_name = ", "fullname = "), HasSubstr("full_name"));
  EXPECT_THAT(broken("[power]", "[power"), HasSubstr("line"));
  EXPECT_THAT(broken("value = 232448,", "value = 240000,"), HasSubstr("shared_bytes_per_block is more"));
  EXPECT_THAT(broken("source = \"NVIDIA H200 data sheet\" }", "source = \"\" }"), HasSubstr("says no source"));
  // Constants of the Hopper kernel make no sense elsewhere.
  std::string text(machine_file_text("a100"));
  text += "[sm90]\nmma_efficiency = { value = 0.8, unit = \"of tensor rate\", source = \"somewhere\" }\n";
  EXPECT_THAT(message_of([&] { parse_machine("broken", text); }), HasSubstr("compute capability 90 only"));
}

TEST(Machine, AFileOfOnesOwnWorks) {
  const std::string path = ::testing::TempDir() + "/mine.toml";
  std::ofstream(path) << machine_file_text("a100");
  const Machine m = load_machine(path);
  EXPECT_EQ(m.name, "mine");
  EXPECT_EQ(m.sms, 108);
}

TEST(Machine, RealGpusAreMatchedOrDerived) {
  const Machine* h200 = machine_for_device("NVIDIA H200", 90, 132);
  ASSERT_TRUE(h200);
  EXPECT_EQ(h200->name, "h200");
  EXPECT_EQ(machine_for_device("NVIDIA H200", 90, 132), h200) << "the same object every time";
  EXPECT_EQ(machine_for_device("NVIDIA A100-SXM4-80GB", 80, 108)->name, "a100");
  EXPECT_EQ(machine_for_device("NVIDIA GeForce RTX 4090", 89, 128)->name, "rtx4090");

  const Machine* slice = machine_for_device("NVIDIA H200 MIG 3g.71gb", 90, 60);
  ASSERT_TRUE(slice);
  EXPECT_TRUE(slice->derived);
  EXPECT_THAT(slice->name, HasSubstr("h200~NVIDIA H200 MIG"));
  EXPECT_EQ(slice->sms, 60);
  EXPECT_DOUBLE_EQ(slice->dram_bandwidth, 4.8e12 * 60 / 132);
  EXPECT_EQ(slice->tensor_bf16, h200->tensor_bf16);
  EXPECT_EQ(slice->fact("sm.count")->value, 60);
  EXPECT_EQ(machine_for_device("NVIDIA H200 MIG 3g.71gb", 90, 60), slice);

  EXPECT_EQ(machine_for_device("NVIDIA L4", 89, 58)->name, "l4");
  EXPECT_EQ(machine_for_device("NVIDIA L40S", 89, 142)->name, "l40s");
  EXPECT_EQ(machine_for_device("Tesla T4", 75, 40)->name, "t4");
  EXPECT_EQ(machine_for_device("NVIDIA H100 PCIe", 90, 114)->name, "h100-pcie");
  // Of the same capability the nearest in size; a name counts where it stands as words ("NVIDIA L4" does not name an L40).
  EXPECT_THAT(machine_for_device("NVIDIA L40", 89, 142)->name, HasSubstr("l40s~NVIDIA L40"));
  EXPECT_THAT(machine_for_device("NVIDIA H200 NVL", 90, 132)->name, HasSubstr("h200~NVIDIA H200 NVL"));
  EXPECT_THAT(machine_for_device("NVIDIA A10G", 86, 80)->name, HasSubstr("rtx3090~NVIDIA A10G"));
  EXPECT_TRUE(machine_for_device("NVIDIA B200", 100, 148));
  EXPECT_FALSE(machine_for_device("Tesla P100", 60, 56));
  EXPECT_FALSE(machine_for_device("nonsense", 90, 0));
}

}  // namespace
}  // namespace foretile
