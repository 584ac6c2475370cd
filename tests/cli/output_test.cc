// Good input: exit codes, JSON that parses and says what the table says, help that teaches, tables that fit.
#include <algorithm>
#include <set>

#include "command.h"

namespace {

const char* const kCommands[] = {"demo", "explain", "choose", "emulate", "verify", "run", "bench", "machines", "calibrate", "cache"};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The number of columns a terminal shows: bytes that do not continue a UTF-8 sequence.
size_t width_of(const std::string& line) { return size_t(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; })); }

void expect_envelope(const nlohmann::json& json, const std::string& command) {
  EXPECT_EQ(json.at("schema"), "foretile." + command);
  EXPECT_EQ(json.at("version"), 1);
  EXPECT_FALSE(json.at("foretile").get<std::string>().empty());
}

TEST(Help, TheToolNamesEveryCommand) {
  for (const std::string arguments : {"", "--help"}) {
    const Outcome o = foretile(arguments);
    EXPECT_EQ(o.code, 0);
    for (const char* command : kCommands) EXPECT_NE(o.out.find(std::string("  ") + command), std::string::npos) << command;
    EXPECT_NE(o.out.find("Exit codes"), std::string::npos);
  }
}

TEST(Help, EveryCommandTeachesByExample) {
  for (const char* command : kCommands) {
    const Outcome o = foretile(std::string(command) + " --help");
    EXPECT_EQ(o.code, 0);
    EXPECT_EQ(o.error, "");
    EXPECT_NE(o.out.find("Examples:\n  foretile " + std::string(command)), std::string::npos) << o.out;
    EXPECT_NE(o.out.find("--json"), std::string::npos);
    for (const std::string& line : lines_of(o.out)) EXPECT_LE(width_of(line), 140u) << line;
  }
}

// An example that is refused would teach nonsense. Those that only compute are run as they stand.
TEST(Help, ExamplesOfQuickCommandsWork) {
  for (const char* command : {"explain", "choose", "machines", "cache"})
    for (const std::string& line : lines_of(foretile(std::string(command) + " --help").out)) {
      if (line.rfind("  foretile ", 0) != 0) continue;
      std::string arguments = line.substr(11);
      if (const size_t comment = arguments.find("   "); comment != std::string::npos) arguments.resize(comment);
      const Outcome o = foretile(arguments, "FORETILE_CACHE=" + testing::TempDir() + "/foretile_cli_cache");
      EXPECT_EQ(o.code, 0) << arguments << "\n" << o.error;
      EXPECT_NE(o.out, "");
    }
}

TEST(Version, IsPrinted) {
  const Outcome o = foretile("--version");
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(o.out.rfind("foretile ", 0), 0u) << o.out;
}

TEST(Explain, TextAndJsonAgree) {
  const Outcome text = foretile("explain " + kProduct);
  ASSERT_EQ(text.code, 0) << text.error;
  const auto json = foretile("explain --json " + kProduct).json();
  expect_envelope(json, "explain");
  EXPECT_NE(text.out.find(json.at("configuration").get<std::string>()), std::string::npos);
  const double seconds = json.at("forecast").at("seconds");
  EXPECT_GT(seconds, 50.3e6 / 4.8e12);  // it cannot beat the time that its 50 MB of weights take from memory
  EXPECT_LT(seconds, 1e-3);
  EXPECT_TRUE(json.at("chosen_by_model").get<bool>());
}

TEST(Explain, TakesUnderFiftyMilliseconds) {
  double best = 1;
  for (int i = 0; i < 20 && best >= 0.05; ++i) best = std::min(best, foretile("explain " + kProduct).seconds);  // the machine may be busy
  EXPECT_LT(best, 0.05);
}

TEST(Explain, RegimesDiffer) {
  const std::string big = "explain --json --m 8192 --n 8192 --k 8192 ";
  const auto seconds = [&](const std::string& regime) { return foretile(big + "--regime " + regime).json().at("forecast").at("seconds").get<double>(); };
  EXPECT_LT(seconds("burst"), seconds("sustained"));
  EXPECT_LT(seconds("sustained"), seconds("500MHz"));
}

TEST(Explain, ComparesTwoConfigurations) {
  const std::string product = "explain --m 4096 --n 4096 --k 1024 --compare sm90:128x256x64:s4:coop:b2 sm90:128x128x64:s6:pingpong:b2 ";
  const Outcome o = foretile(product, "COLUMNS=80");
  ASSERT_EQ(o.code, 0) << o.error;
  for (const char* text : {"A: sm90:128x256x64:s4:coop:b2", "B: sm90:128x128x64:s6:pingpong:b2", "B/A", "waves", "L2 answers", "most of the difference is in"}) EXPECT_NE(o.out.find(text), std::string::npos) << text << "\n" << o.out;
  for (const std::string& line : lines_of(o.out)) EXPECT_LE(width_of(line), 80u) << line;
  const auto json = foretile(product + "--json").json();
  expect_envelope(json, "explain.compare");
  ASSERT_EQ(json.at("compared").size(), 2u);
  EXPECT_EQ(json.at("compared")[1].at("forecast"), foretile("explain --json --m 4096 --n 4096 --k 1024 --config sm90:128x128x64:s6:pingpong:b2").json().at("forecast"));
  EXPECT_EQ(foretile("explain --m 64 --n 64 --k 64 --compare sm90:128x256x64:s4:coop:b2").code, 2);
  EXPECT_EQ(foretile("explain --m 64 --n 64 --k 64 --compare sm90:128x256x64:s4:coop:b2 nonsense").code, 2);
}

TEST(Explain, SaysHowFarToTrustAForecast) {
  const auto known = foretile("explain --json --m 8 --n 4096 --k 4096").json().at("trust"), beyond = foretile("explain --json --m 8 --n 4096 --k 4096 --bias").json().at("trust");
  EXPECT_GT(known.at("nine_in_ten"), known.at("median_error"));
  EXPECT_TRUE(known.at("beyond").empty());
  EXPECT_EQ(beyond.at("beyond").dump(), R"(["an epilogue with operands or an activation"])");
  const auto elsewhere = foretile("choose --json --m 8 --n 4096 --k 4096 --machine h100").json().at("ranked")[0].at("trust");
  EXPECT_FALSE(elsewhere.contains("times"));
  EXPECT_EQ(elsewhere.at("beyond").size(), 1u);
  EXPECT_NE(foretile("choose --m 8 --n 4096 --k 4096").out.find("How far to trust the first: Of "), std::string::npos);
}

TEST(Explain, SaysWhatWouldHelpAndWhatCountersRead) {
  // Rows of 4095 elements: nothing for TMA, and what alignment would give.
  const auto json = foretile("explain --json --m 4096 --n 4096 --k 4095").json();
  double last = 0;
  bool aligned = false;
  for (const auto& r : json.at("remedies")) {
    EXPECT_GE(r.at("seconds").get<double>(), last);
    last = r.at("seconds");
    EXPECT_LT(last, json.at("forecast").at("seconds").get<double>());
    aligned = aligned || r.at("what") == "base addresses and rows on multiples of 16 bytes";
  }
  EXPECT_TRUE(aligned);
  EXPECT_GE(json.at("counters").size(), 10u);
  const Outcome text = foretile("explain --m 4096 --n 4096 --k 4096", "COLUMNS=80");
  for (const char* wanted : {"What would help", "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum", "sm__pipe_tensor_cycles_active"}) EXPECT_NE(text.out.find(wanted), std::string::npos) << wanted;
  for (const std::string& line : lines_of(text.out)) EXPECT_LE(width_of(line), 80u) << line;
}

TEST(Explain, ZerosTakeLessPower) {
  const std::string big = "explain --json --m 8192 --n 8192 --k 8192 ";
  EXPECT_LT(foretile(big + "--data zeros").json().at("forecast").at("seconds").get<double>(), foretile(big).json().at("forecast").at("seconds").get<double>());
  EXPECT_EQ(foretile(big + "--data ones").code, 2);
  EXPECT_EQ(foretile(big + "--regime mhz=1500").json().at("forecast").at("clock_mhz"), 1500);
}

TEST(Explain, DrawsARoofline) {
  for (const char* name : {"roof.svg", "roof.html"}) {
    const std::string path = testing::TempDir() + "/" + name;
    std::remove(path.c_str());
    const Outcome o = foretile("explain --m 32 --n 6144 --k 4096 --roofline " + path);
    ASSERT_EQ(o.code, 0) << o.error;
    const std::string picture = slurp(path);
    for (const char* text : {"<svg", "</svg>", "TFLOP/s", "data sheet, 4.80 TB/s", "tensor cores at 1980 MHz", "<title>"}) EXPECT_NE(picture.find(text), std::string::npos) << name << " " << text;
    EXPECT_EQ(picture.find("nan"), std::string::npos);
    EXPECT_EQ(picture.find("inf"), std::string::npos);
  }
  EXPECT_EQ(foretile("explain --m 32 --n 6144 --k 4096 --roofline /tmp/roof.png").code, 2);
  EXPECT_EQ(foretile("explain --m 32 --n 6144 --k 4096 --roofline /no/such/folder/roof.svg").code, 3);
}

// Not even those that get most of DRAM: the weights of decode kernels, above all in dependent launches.
TEST(Explain, NoKernelStandsAboveItsRoof) {
  const std::string path = testing::TempDir() + "/foretile_above.html";
  for (const std::string product : {"--m 1 --n 57344 --k 8192 --dependent", "--m 16 --n 57344 --k 8192", "--m 4 --n 65536 --k 8192 --dtype fp32", "--m 4096 --n 4096 --k 4096 --regime burst --data zeros"}) {
    ASSERT_EQ(foretile("explain " + product + " --roofline " + path).code, 0);
    const std::string page = slurp(path);
    int shares = 0;
    for (size_t at = 0; (at = page.find(" %</td>", at)) != std::string::npos; ++at, ++shares) {
      const size_t begin = page.rfind('>', at) + 1;
      EXPECT_LE(std::stod(page.substr(begin, at - begin)), 100) << product;
    }
    EXPECT_GT(shares, 1) << product;
  }
  std::remove(path.c_str());
}

// A kernel from a description: the text and the JSON say the same, and --set changes it.
TEST(Explain, KernelsFromAFile) {
  const std::string kernel = "explain --kernel " FORETILE_SOURCE_DIR "/examples/kernels/tiled-fp32.toml --m 1024 --n 1024 --k 1024 --machine a100 ";
  const Outcome text = foretile(kernel, "COLUMNS=80");
  ASSERT_EQ(text.code, 0) << text.error;
  for (const std::string& line : lines_of(text.out)) EXPECT_LE(width_of(line), 80u) << line;
  const auto json = foretile(kernel + "--json").json(), down = foretile(kernel + "--json --set down=1").json();
  expect_envelope(json, "explain.kernel");
  EXPECT_EQ(json.at("forecast").at("bound"), "shared memory");
  EXPECT_EQ(json.at("step")[5].at("bank_conflicts"), 0);
  EXPECT_EQ(down.at("step")[5].at("bank_conflicts"), 31 * 1024);
  EXPECT_GT(down.at("forecast").at("seconds").get<double>(), 5 * json.at("forecast").at("seconds").get<double>());
  EXPECT_EQ(down.at("remedies")[0].at("what"), "pitch = 33");
  EXPECT_FALSE(json.at("counters").empty());
  EXPECT_EQ(foretile(kernel + "--set down").code, 2);
  EXPECT_EQ(foretile(kernel + "--set up=1").code, 2);
  EXPECT_EQ(foretile(kernel + "--dtype fp16").code, 2);
  EXPECT_EQ(foretile("explain --m 8 --n 8 --k 8 --set T=3").code, 2);
  EXPECT_EQ(foretile("explain --kernel /no/such.toml --m 8 --n 8 --k 8").code, 2);
}

TEST(Choose, RanksAndRulesOut) {
  const auto json = foretile("choose --json --m 64 --n 4095 --k 4095").json();
  expect_envelope(json, "choose");
  // For people a reason stands once, its configurations below it.
  const std::string text = foretile("choose --m 64 --n 4095 --k 4095").out;
  for (const auto& r : json["ruled_out"]) {
    const std::string reason = "\n" + r["reason"].get<std::string>().substr(0, 40);
    const size_t at = text.find(reason);
    ASSERT_NE(at, std::string::npos) << reason;
    EXPECT_EQ(text.find(reason, at + 1), std::string::npos) << reason;
    EXPECT_NE(text.find(r["configuration"].get<std::string>(), at), std::string::npos) << r;
  }
  ASSERT_FALSE(json.at("ranked").empty());
  double last = 0;
  for (const auto& row : json.at("ranked")) {
    EXPECT_EQ(row.at("configuration").get<std::string>().rfind("simt:", 0), 0u);  // rows of 8190 bytes: nothing for TMA
    EXPECT_GE(row.at("forecast").at("seconds").get<double>(), last);
    last = row.at("forecast").at("seconds");
  }
  ASSERT_FALSE(json.at("ruled_out").empty());
  EXPECT_NE(json.at("ruled_out")[0].at("reason").get<std::string>().find("16 bytes"), std::string::npos);
  // What it puts first is what explain takes.
  EXPECT_EQ(foretile("explain --json --m 64 --n 4095 --k 4095").json().at("configuration"), json.at("ranked")[0].at("configuration"));
}

TEST(Machines, EveryNumberHasUnitAndSource) {
  const auto json = foretile("machines --json").json();
  expect_envelope(json, "machines");
  std::set<std::string> names;
  for (const auto& machine : json.at("machines")) {
    names.insert(machine.at("name"));
    EXPECT_GT(machine.at("facts").size(), 20u);
    for (const auto& fact : machine.at("facts")) EXPECT_FALSE(fact.at("source").get<std::string>().empty()) << fact.dump();
  }
  for (const char* name : {"v100", "t4", "a10", "a100-40", "a100", "rtx3090", "rtx4090", "l4", "l40s", "h100", "h100-pcie", "h200"}) EXPECT_TRUE(names.count(name)) << name;
}

TEST(Machines, TheListSaysAtWhichClockAPeakIs) {
  const Outcome o = foretile("machines", "COLUMNS=80");
  EXPECT_NE(o.out.find("at the boost clock"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("1980 MHz"), std::string::npos) << o.out;
  for (const std::string& line : lines_of(o.out)) EXPECT_LE(width_of(line), 80u) << line;
}

TEST(Machines, SeveralAreComparedSideBySide) {
  const Outcome o = foretile("machines h200 a100 l4", "COLUMNS=80");
  ASSERT_EQ(o.code, 0) << o.error;
  for (const char* text : {"h200", "a100", "l4", "dram.bandwidth", "4.8e+12", "2.04e+12", "3e+11"}) EXPECT_NE(o.out.find(text), std::string::npos) << text << "\n" << o.out;
  EXPECT_EQ(foretile("machines --json h200 l4").json().at("machines").size(), 2u);
  EXPECT_EQ(foretile("machines h200 h300").code, 2);
}

TEST(Calibrate, WithoutAGpuItSaysWhatIsMissing) {
  const Outcome o = foretile("calibrate");
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.error.find("no usable GPU: "), std::string::npos) << o.error;
  EXPECT_EQ(foretile("calibrate --out here.txt").code, 2);
}

TEST(Emulate, ChecksAndReports) {
  const Outcome o = foretile("emulate --json --m 70 --n 72 --k 136");
  ASSERT_EQ(o.code, 0) << o.out << o.error;
  const auto json = o.json();
  expect_envelope(json, "emulate");
  const auto& check = json.at("check");
  EXPECT_TRUE(check.at("passed").get<bool>());
  EXPECT_EQ(check.at("result").at("checked"), 70 * 72);
  EXPECT_EQ(check.at("result").at("exact"), 70 * 72);
  EXPECT_EQ(check.at("configuration").get<std::string>().rfind("decode:", 0), 0u);
  EXPECT_GT(check.at("counters").at("wgmmas").get<int>(), 0);
  EXPECT_EQ(check.at("findings").size(), 0u);
}

TEST(Emulate, EpilogueAndSlowPath) {
  const Outcome o = foretile("emulate --m 33 --n 17 --k 29 --bias --activation relu --residual --beta 2 --alpha -1 --batch 2");
  EXPECT_EQ(o.code, 0) << o.out << o.error;
  EXPECT_NE(o.out.find("simt:"), std::string::npos);
  EXPECT_NE(o.out.find("nothing written outside D"), std::string::npos);
}

// A kernel broken on purpose must be reported, and end with exit code 1: every kind of call that orders memory.
TEST(Emulate, ABrokenKernelFails) {
  const std::string product = "emulate --m 64 --n 128 --k 512 --config sm90:64x64x128:s2:coop:b1 --sms 2 ";
  const auto calls = foretile(product + "--json").json().at("calls");
  for (const std::string call : {"mbarrier_wait", "fence_proxy_async", "wgmma_wait", "mbarrier_arrive_expect", "named_barrier_sync"}) {
    std::string at;
    for (const auto& c : calls)
      if (c.at("call") == call) at = c.at("at");
    ASSERT_NE(at, "") << call;
    const Outcome o = foretile(product + "--mutate " + at + ":drop");
    EXPECT_EQ(o.code, 1) << call << "\n" << o.out << o.error;
    const auto check = foretile(product + "--json --mutate " + at + ":drop").json().at("check");
    EXPECT_FALSE(check.at("passed").get<bool>());
    EXPECT_GT(check.at("findings").size(), 0u) << call;
  }
}

// "more" and "less" of a call that counts nothing would change nothing, and look like a kernel that does not need the call.
TEST(Emulate, OnlyACallWithACountHasMoreAndLess) {
  const std::string product = "emulate --m 64 --n 128 --k 512 --config sm90:64x64x128:s2:coop:b1 --sms 2 ";
  const auto calls = foretile(product + "--json").json().at("calls");
  int met = 0;
  for (const auto& c : calls) {
    if (c.at("call") != "fence_proxy_async" && c.at("call") != "named_barrier_sync") continue;
    ++met;
    const std::string at = c.at("at");
    const bool counted = c.at("call") == "named_barrier_sync";
    for (const std::string kind : {"more", "less"}) {
      const Outcome o = foretile(product + "--mutate " + at + ":" + kind);
      EXPECT_EQ(o.code, counted ? 1 : 2) << at << o.error;
      EXPECT_EQ(o.error.find("--mutate " + at + ":" + kind + ": fence_proxy_async has no count; allowed: drop") != std::string::npos, !counted) << o.error;
    }
  }
  EXPECT_GE(met, 2);
}

TEST(Emulate, TraceCountsAccesses) {
  const auto json = foretile("emulate --json --trace --m 64 --n 64 --k 128").json();
  ASSERT_FALSE(json.at("accesses").empty());
  for (const auto& a : json.at("accesses")) EXPECT_GT(a.at("requests").get<int>(), 0) << a.dump();
}

TEST(Emulate, WritesATimeline) {
  const std::string path = testing::TempDir() + "/foretile_timeline.json";
  const Outcome o = foretile("emulate --m 64 --n 128 --k 512 --config sm90:64x64x128:s2:coop:b1 --timeline " + path);
  EXPECT_EQ(o.code, 0) << o.out << o.error;
  EXPECT_NE(o.out.find(path), std::string::npos);
  std::set<std::string> names;
  const auto timeline = nlohmann::json::parse(slurp(path));
  for (const auto& e : timeline.at("traceEvents")) names.insert(e.at("name"));
  for (const char* name : {"tma_load: A tile of stage 0", "wait: full barrier of stage 1", "wgmma group 2", "tma_store: store buffer 0 of consumer 0"}) EXPECT_TRUE(names.count(name)) << name;
  std::remove(path.c_str());
}

TEST(Emulate, AChainOfDependentLaunches) {
  const std::string product = "emulate --json --m 40 --n 256 --k 200 --chain 2 --config sm90:64x64x128:s4:coop:b1 --sms 2 ";
  for (const std::string ready : {"", "--weights-ready "}) {
    const Outcome o = foretile(product + ready);
    ASSERT_EQ(o.code, 0) << o.out << o.error;
    const auto check = o.json().at("check");
    ASSERT_EQ(check.at("after").size(), 1u);
    EXPECT_EQ(check.at("after")[0].at("n"), 200);
    EXPECT_EQ(check.at("after")[0].at("k"), 256);
    EXPECT_EQ(check.at("after")[0].at("result").at("checked"), 40 * 200);
  }
  // Every grid wait of the kernels gone: the second reads what the first still writes.
  const auto calls = foretile(product + "--weights-ready").json().at("calls");
  std::string mutations;
  for (const auto& c : calls)
    if (c.at("call") == "grid_dependency_wait") mutations += " --mutate " + c.at("at").get<std::string>() + ":drop";
  ASSERT_NE(mutations, "");
  const Outcome o = foretile(product + "--weights-ready" + mutations);
  EXPECT_EQ(o.code, 1);
  std::set<std::string> kinds;
  const auto json = o.json();
  for (const auto& f : json.at("check").at("findings")) kinds.insert(f.at("kind"));
  EXPECT_TRUE(kinds.count("dependent-launch"));
  EXPECT_TRUE(kinds.count("race"));
}

TEST(Emulate, AFeedForwardLayerIsAGatedProductAndAPlainOne) {
  const Outcome o = foretile("emulate --m 16 --n 256 --k 512 --gated halves --activation silu --chain 2 --weights-ready --json");
  ASSERT_EQ(o.code, 0) << o.error << o.out;
  const auto check = o.json()["check"];
  EXPECT_NE(check["operation"].get<std::string>().find("gated=halves"), std::string::npos);
  EXPECT_EQ(check["result"]["elements"], 16 * 128);
  const auto& after = check["after"][0];
  EXPECT_EQ(after["n"], 512);
  EXPECT_EQ(after["k"], 128) << "N/2 columns of the first";
  EXPECT_EQ(after["operation"].get<std::string>().find("gated"), std::string::npos);
}

TEST(Choose, SaysWhereThereIsNothingToCompute) {
  for (const std::string sizes : {"--m 0 --n 8 --k 8", "--m 8 --n 0 --k 8", "--m 8 --n 8 --k 8 --batch 0"}) {
    const Outcome o = foretile("choose " + sizes);
    EXPECT_EQ(o.code, 0) << o.error;
    EXPECT_NE(o.out.find("nothing to compute"), std::string::npos) << o.out;
    EXPECT_EQ(o.out, foretile("explain " + sizes).out);
    // The same in JSON: no forecasts of zero for kernels that are not launched.
    const auto choice = foretile("choose --json " + sizes).json(), page = foretile("explain --json " + sizes).json(), kernel = foretile("explain --json --kernel " FORETILE_SOURCE_DIR "/examples/kernels/tiled-fp16.toml " + sizes).json();
    EXPECT_EQ(choice["nothing_to_compute"].get<std::string>() + "\n", o.out);
    EXPECT_TRUE(choice["ranked"].empty() && choice["ruled_out"].empty());
    for (const auto& json : {page, kernel}) {
      EXPECT_EQ(json["nothing_to_compute"], choice["nothing_to_compute"]);
      EXPECT_EQ(json["forecast"].dump(), R"({"seconds":0.0})");
      EXPECT_FALSE(json.contains("counters"));
    }
    EXPECT_EQ(foretile("explain " + sizes + " --compare sm90:128x256x64:s4:coop:b2 sm90:128x128x64:s6:pingpong:b2").out, o.out);
    const Outcome drawn = foretile("explain " + sizes + " --roofline nothing.svg");
    EXPECT_EQ(drawn.code, 2);
    EXPECT_NE(drawn.error.find("--roofline has nothing to draw"), std::string::npos) << drawn.error;
  }
  EXPECT_EQ(foretile("choose --m 8 --n 8 --k 0").out.find("nothing to compute"), std::string::npos);  // D of zeros
}

TEST(Choose, GatedDependentAndBatchInvariant) {
  const auto choice = [](const std::string& more) {
    const Outcome o = foretile("choose --m 16 --n 4096 --k 4096 --json " + more);
    EXPECT_EQ(o.code, 0) << o.error;
    return o.json();
  };
  const auto plain = choice(""), gated = choice("--gated interleaved --activation silu"), dependent = choice("--dependent");
  for (const auto& c : gated["ranked"]) EXPECT_EQ(c["configuration"].get<std::string>().substr(0, 6), "decode");
  EXPECT_LT(dependent["ranked"][0]["forecast"]["seconds"], plain["ranked"][0]["forecast"]["seconds"]);
  // One cut of K alone, at every M.
  std::set<std::string> cuts;
  for (const char* m : {"1", "16", "64", "96"}) {
    const Outcome o = foretile(std::string("choose --n 4096 --k 4096 --batch-invariant --json --m ") + m);
    ASSERT_EQ(o.code, 0) << o.error;
    const auto ranked = o.json()["ranked"];
    for (const auto& c : ranked) {
      const std::string text = c["configuration"];
      cuts.insert(text.find(":k") == std::string::npos ? "whole" : text.substr(text.find(":k")));
    }
  }
  EXPECT_EQ(cuts.size(), 1u);
  EXPECT_TRUE(choice("--gated halves --machine a100")["ranked"].empty());
}

TEST(Emulate, TraceSaysWhatHitsInTheMachinesL2) {
  const auto of = [](const std::string& machine) { return foretile("emulate --json --trace --m 256 --n 256 --k 128 --config sm90:128x128x64:s6:coop:b2 --sms 2 --machine " + machine).json().at("l2"); };
  const auto l2 = of("h200");
  EXPECT_EQ(l2.at("load_sectors"), 2 * 2 * (256 * 128 * 2) / 32);
  EXPECT_EQ(l2.at("load_hits"), 2 * (256 * 128 * 2) / 32);  // each operand comes from DRAM once
  EXPECT_GT(l2.at("bytes"), 20000000);
}

TEST(Emulate, EmptyProducts) {
  EXPECT_EQ(foretile("emulate --m 0 --n 17 --k 29").code, 0);
  EXPECT_EQ(foretile("emulate --m 5 --n 17 --k 0").code, 0);
}

TEST(Verify, FewRandomProducts) {
  const Outcome o = foretile("verify --on cpu --count 6 --seed 3 --json");
  ASSERT_EQ(o.code, 0) << o.out << o.error;
  const auto json = o.json();
  expect_envelope(json, "verify");
  EXPECT_EQ(json.at("count"), 6);
  EXPECT_EQ(json.at("failed"), 0);
  EXPECT_GT(json.at("elements").get<int>(), 0);
}

TEST(Cache, ListsAnEmptyAndADamagedFolder) {
  const std::string folder = testing::TempDir() + "/foretile_cli_cache_" + std::to_string(getpid());
  const std::string environment = "FORETILE_CACHE=" + folder;
  auto json = foretile("cache --json", environment).json();
  expect_envelope(json, "cache");
  EXPECT_EQ(json.at("entries").size(), 0u);
  ASSERT_EQ(std::system(("mkdir -p " + folder + " && echo nonsense > " + folder + "/00112233445566778899aabbccddeeff.kernel").c_str()), 0);
  json = foretile("cache list --json", environment).json();
  ASSERT_EQ(json.at("entries").size(), 1u);
  EXPECT_EQ(json.at("entries")[0].at("state"), "damaged");
  EXPECT_EQ(foretile("cache clear --json", environment).json().at("removed"), 1);
  EXPECT_EQ(foretile("cache --json", environment).json().at("entries").size(), 0u);

  // What the emulator had compiled stands there as well, and what a dead process left.
  ASSERT_EQ(foretile("emulate --m 8 --n 8 --k 8 --config simt:16x32x8:t4x4", environment).code, 0);
  ASSERT_EQ(std::system(("touch " + folder + "/emulator/00112233445566778899aabbccddeeff.999999999.cc").c_str()), 0);
  json = foretile("cache --json", environment).json().at("emulator");
  EXPECT_EQ(json.at("folder"), folder + "/emulator");
  ASSERT_EQ(json.at("entries").size(), 2u);
  std::set<std::string> states;
  for (const auto& e : json.at("entries")) states.insert(e.at("state"));
  EXPECT_EQ(states, (std::set<std::string>{"abandoned", "current"}));
  EXPECT_EQ(foretile("cache clear --stale --json", environment).json().at("removed"), 1);
  EXPECT_NE(foretile("cache", environment).out.find("simt:16x32x8:t4x4"), std::string::npos);
  EXPECT_EQ(foretile("cache clear --json", environment).json().at("removed"), 1);
  (void)std::system(("rm -rf " + folder).c_str());
}

TEST(Demo, EveryLayerIsForecastAndChecked) {
  const Outcome o = foretile("demo --json");
  ASSERT_EQ(o.code, 0) << o.error;
  const auto json = o.json();
  expect_envelope(json, "demo");
  EXPECT_EQ(json.at("on"), "emulator");
  ASSERT_EQ(json.at("rows").size(), 14u * 3);
  for (const auto& row : json.at("rows")) {
    const auto& check = row.at("check");
    EXPECT_TRUE(check.at("passed").get<bool>()) << row.dump();
    EXPECT_EQ(check.at("result").at("exact"), check.at("result").at("elements"));
    EXPECT_EQ(check.at("configuration"), row.at("configuration"));  // the one chosen for the whole layer
    EXPECT_GT(row.at("forecast").at("seconds").get<double>(), 1e-6);
    EXPECT_LT(check.at("k").get<int>(), 4500);
  }
}

TEST(Demo, FitsANarrowTerminal) {
  const Outcome o = foretile("demo", "COLUMNS=80");
  ASSERT_EQ(o.code, 0) << o.error;
  for (const std::string& line : lines_of(o.out)) EXPECT_LE(width_of(line), 80u) << line;
}

// Nothing but names without a space in them may be wider.
TEST(Output, FitsANarrowTerminal) {
  for (const std::string& command : {std::string("ladder --no-gpu"), std::string("ladder --no-gpu --machine a100"), std::string("ladder --no-gpu --sweep --rung 8"), std::string("ladder explain 7"), std::string("machines h200"),
                                     "choose --dtype fp32 " + kProduct, std::string("emulate --m 40 --n 72 --k 128 --trace --calls"), std::string("emulate --m 40 --n 72 --k 128 --values normal"), std::string("verify --on cpu --count 2")}) {
    const Outcome o = foretile(command, "COLUMNS=80");
    ASSERT_EQ(o.code, 0) << command << o.error;
    for (const std::string& line : lines_of(o.out)) EXPECT_TRUE(width_of(line) <= 80u || line.find_first_of(' ', line.find_first_not_of(' ')) == line.npos) << command << "\n" << line;
  }
}

TEST(Ladder, NarrowTerminalsTooSeeWhatEachStepMoves) {
  EXPECT_NE(foretile("ladder --no-gpu", "COLUMNS=80").out.find("\n    shared loads a multiply: 1.12 to 0.25\n"), std::string::npos);
}

TEST(Table, FitsTheWidthAndHasNoColourInAPipe) {
  for (const int width : {80, 120}) {
    const Outcome o = foretile("choose " + kProduct, "COLUMNS=" + std::to_string(width));
    ASSERT_EQ(o.code, 0);
    EXPECT_EQ(o.out.find('\033'), std::string::npos);
    bool in_table = false;
    for (const std::string& line : lines_of(o.out)) {
      if (line.rfind("configuration", 0) == 0) in_table = true;
      if (line.empty()) in_table = false;
      if (in_table) {
        EXPECT_LE(width_of(line), size_t(width)) << line;
      }
    }
  }
}

}  // namespace
