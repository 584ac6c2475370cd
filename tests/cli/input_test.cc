// Bad input: exit code 2, nothing on standard output, and a message that names the argument and what is allowed.
#include "command.h"

#include <filesystem>

namespace {

struct Bad {
  const char* arguments;
  std::vector<const char*> message;  // all of these stand in it
};

class BadInput : public testing::TestWithParam<Bad> {};

TEST_P(BadInput, IsRefusedByName) {
  const Outcome o = foretile(GetParam().arguments);
  EXPECT_EQ(o.code, 2) << o.error;
  EXPECT_EQ(o.out, "");
  for (const char* part : GetParam().message) EXPECT_NE(o.error.find(part), std::string::npos) << "\"" << part << "\" is missing in:\n" << o.error;
}

INSTANTIATE_TEST_SUITE_P(Commands, BadInput, testing::Values(
    Bad{"frobnicate", {"frobnicate", "--help"}},
    Bad{"explian --m 1 --n 1 --k 1", {"Did you mean explain?"}},
    Bad{"explain --m 1 --n 2 --k 3 --dtyp bf16", {"--dtyp", "Did you mean --dtype?"}},
    Bad{"explain --n 2 --k 3", {"--m is missing"}},
    Bad{"explain --m 1 --n 2", {"--k is missing"}},
    Bad{"explain --m x --n 2 --k 3", {"--m is \"x\"", "whole number from 0"}},
    Bad{"explain --m -1 --n 2 --k 3", {"--m is \"-1\"", "whole number from 0"}},
    Bad{"explain --m 1.5 --n 2 --k 3", {"--m is \"1.5\""}},
    Bad{"explain --m 3000000000 --n 2 --k 3", {"--m is \"3000000000\"", "to 2147479551"}},
    Bad{"explain --m 1 --n 2 --k 3 --dtype bf17", {"--dtype is \"bf17\"", "bf16, fp16, fp32"}},
    Bad{"explain --m 1 --n 2 --k 3 --out-dtype int9", {"--out-dtype is \"int9\"", "bf16, fp16, fp32"}},
    Bad{"explain --m 1 --n 2 --k 3 --dtype tf32", {"--dtype is \"tf32\"", "bf16, fp16, fp32"}},
    Bad{"explain --m 1 --n 2 --k 3 --dtype fp32 --compute tf23", {"--compute is \"tf23\"", "exact, tf32"}},
    Bad{"explain --m 1 --n 2 --k 3 --compute tf32", {"--compute is tf32 with --dtype bf16", "--dtype fp32"}},
    Bad{"explain --m 8 --n 64 --k 64 --dtype fp32 --config sm90:128x128x32:s6:coop:b2", {"--config", "both bf16, both fp16 or both tf32"}},
    Bad{"bench --compute tf32 --dtype fp16", {"--compute is tf32 with --dtype fp16"}},
    Bad{"bench --gated --compute tf32", {"--compute does not go with --gated"}},
    Bad{"verify --on cpu --count 2 --compute tf32 --gated halves", {"--compute tf32 does not go with --gated"}},
    Bad{"verify --on cpu --count 2 --compute tf32 --config decode:8x64x128:s6", {"--config decode:8x64x128:s6", "none of the operations"}},
    Bad{"explain --m 1 --n 2 --k 3 --activation swish", {"--activation is \"swish\"", "none, relu, gelu_erf, gelu_tanh, silu"}},
    Bad{"explain --m 1 --n 2 --k 8 --gated half", {"--gated is \"half\"", "halves", "interleaved"}},
    Bad{"explain --m 1 --n 2 --k 8 --gated none", {"--gated is \"none\""}},
    Bad{"explain --m 1 --n 256 --k 0 --gated halves", {"--k is 0 with --gated halves", "from 1 on"}},
    Bad{"choose --m 1 --n 256 --k 0 --gated interleaved", {"--k is 0 with --gated interleaved", "from 1 on"}},
    Bad{"emulate --m 1 --n 256 --k 0 --config decode:8x64x128:s6", {"--config", "K = 0 takes the simt family"}},
    Bad{"choose --m 1 --n 255 --k 8 --gated halves", {"--n is 255 with --gated halves", "even"}},
    Bad{"explain --m 1 --n 256 --k 8 --gated halves --machine a100", {"gated products take the decode and sm90 families", "compute capability 9.0"}},
    Bad{"explain --m 1 --n 256 --k 8 --gated halves --dtype fp32", {"gated products take the decode and sm90 families", "both bf16 or both fp16"}},
    Bad{"explain --m 1 --n 256 --k 8 --gated halves --config sm90:192x176x64:s4:coop:b2", {"--config", "a multiple of 32 columns"}},
    Bad{"explain --m 1 --n 256 --k 8 --gated interleaved --config sm90:128x128x64:s6:coop:b2", {"--config", "the sm90 family gates halves"}},
    Bad{"explain --m 1 --n 256 --k 8 --gated halves --config simt:32x32x16:t4x4", {"--config", "gated products take the decode and sm90 families"}},
    Bad{"verify --on cpu --count 2 --gated halves --config simt:64x64x16:t4x4", {"--config simt:64x64x16:t4x4", "--gated halves"}},
    Bad{"bench --gated --out-dtype fp32", {"--out-dtype does not go with --gated"}},
    Bad{"explain --m 1 --n 2 --k 3 --alpha nan", {"--alpha is \"nan\"", "finite"}},
    Bad{"explain --m 1 --n 2 --k 3 --beta 1e60", {"--beta is \"1e60\"", "finite fp32"}},
    Bad{"explain --m 1 --n 2 --k 3 --machine h201", {"--machine", "h201", "h200", "a100"}},
    Bad{"explain --m 1 --n 2 --k 3 --machine /nonexistent.toml", {"--machine", "/nonexistent.toml"}},
    Bad{"explain --m 1 --n 2 --k 3 --regime fast", {"--regime is \"fast\"", "sustained, burst", "1500MHz"}},
    Bad{"explain --m 1 --n 2 --k 3 --regime 5MHz", {"--regime is \"5MHz\""}},
    Bad{"explain --m 1 --n 2 --k 3 --config sm91:1x1x1", {"--config", "sm91"}},
    Bad{"explain --m 8 --n 64 --k 63 --config sm90:128x128x64:s6:coop:b2", {"--config", "16 bytes"}},
    Bad{"explain --m 8 --n 64 --k 64 --machine a100 --config sm90:128x128x64:s6:coop:b2", {"--config", "a100"}},
    Bad{"choose --m 1 --n 2 --k 3 --sms 0", {"--sms is \"0\"", "from 1"}},
    Bad{"choose --m 1 --n 2 --k 3 --sms 133", {"--sms is \"133\"", "to 132"}},
    Bad{"explain --m 2147479551 --n 2147479551 --k 8", {"m 2147479551, n 2147479551, k 8, batch 1: D has too many tiles", "fewer than 2^31 - 4096"}},
    Bad{"ladder --plot climb.png", {"--plot is \"climb.png\"", ".svg"}},
    Bad{"emulate --m 100000000 --n 1 --k 0", {"--m 100000000", "--force"}},
    Bad{"emulate --m 8 --n 8 --k 8 --async never", {"--async is \"never\"", "eager, lazy, random"}},
    Bad{"emulate --m 8 --n 8 --k 8 --schedule fair", {"--schedule is \"fair\"", "round-robin, random, priority"}},
    Bad{"emulate --m 8 --n 8 --k 8 --checks few", {"--checks is \"few\"", "all, no-races"}},
    Bad{"emulate --m 8 --n 8 --k 8 --values big", {"--values is \"big\"", "integers, normal"}},
    Bad{"emulate --m 8192 --n 8192 --k 8192", {"--m 8192", "--force"}},
    Bad{"emulate --m 8 --n 8 --k 8 --mutate gemm:drop", {"--mutate is \"gemm:drop\"", "FILE:LINE:KIND"}},
    Bad{"emulate --m 8 --n 8 --k 8 --mutate gemm.cuh:3:explode", {"drop, more or less"}},
    Bad{"emulate --m 8 --n 8 --k 8 --mutate gemm_sm90.cuh:1:drop", {"gemm_sm90.cuh:1", "--calls"}},
    Bad{"emulate --m 8 --n 8 --k 8 --mutate gemm_sm90.cuh:1:drop --mutate sm90.cuh:1:more", {"gemm_sm90.cuh:1:drop", "sm90.cuh:1:more", "the same call", "one of them"}},
    Bad{"explain --m 8 --n 8 --k 8 --config ''", {"--config is empty", "leave it out"}},
    Bad{"explain --m 8 --n 8 --k 8 --config=", {"--config"}},
    Bad{"explain --m 8 --n 8 --k 8 --kernel ''", {"--kernel is empty"}},
    Bad{"explain --m 8 --n 8 --k 8 --roofline ''", {"--roofline is empty"}},
    Bad{"explain --m 8 --n 8 --k 8 --gated ''", {"--gated is empty"}},
    Bad{"emulate --m 8 --n 8 --k 8 --timeline ''", {"--timeline is empty"}},
    Bad{"choose --m 8 --n 8 --k 8 --sms ''", {"--sms is empty"}},
    Bad{"ladder --plot ''", {"--plot is empty"}},
    Bad{"machines ''", {"is empty"}},
    Bad{"emulate --m 8 --n 8 --k 8 --chain 0", {"--chain is \"0\"", "from 1"}},
    Bad{"emulate --m 8 --n 8 --k 8 --chain 2 --out-dtype fp32", {"--chain 2", "--out-dtype must equal --dtype"}},
    Bad{"emulate --m 8 --n 8 --k 8 --chain 2 --transpose-a", {"--chain 2", "--transpose-a"}},
    Bad{"emulate --m 8 --n 8 --k 8 --weights-ready", {"--weights-ready", "--chain 2"}},
    Bad{"verify --count 0", {"--count is \"0\"", "from 1"}},
    Bad{"verify --on moon", {"--on is \"moon\"", "auto, gpu, cpu"}},
    Bad{"demo --on moon", {"--on is \"moon\"", "auto, gpu, cpu"}},
    Bad{"demo --machine none", {"--machine", "h200"}},
    Bad{"bench --n 8", {"--m, --n and --k"}},
    Bad{"bench --suite circles", {"circles", "layers, squares"}},
    Bad{"bench --m 1,x", {"'x'"}},
    Bad{"bench --dtype int8", {"--dtype is \"int8\"", "bf16, fp16, fp32"}},
    Bad{"cache burn", {"burn", "list, clear"}},
    Bad{"cache list --stale", {"--stale"}},
    Bad{"machines none", {"none", "h200"}}));

TEST(Environment, ATimelineThatCannotBeWrittenIsSaidByName) {
  const Outcome o = foretile("emulate --m 8 --n 8 --k 8 --timeline /nonexistent/run.json");
  EXPECT_EQ(o.code, 3);
  EXPECT_EQ(o.out, "");
  EXPECT_NE(o.error.find("--timeline: the timeline /nonexistent/run.json cannot be written: No such file"), std::string::npos) << o.error;
}

TEST(Environment, OperandsThatMemoryCannotHoldAreRefusedAhead) {
  const Outcome o = foretile("emulate --m 2000000000 --n 1 --k 2000000000 --force");
  EXPECT_EQ(o.code, 3);
  EXPECT_EQ(o.out, "");
  EXPECT_NE(o.error.find("--m 2000000000 --n 1 --k 2000000000: the operands take 8000000 TB of memory, and this machine has "), std::string::npos) << o.error;
}

TEST(Environment, APictureThatCannotBeWrittenIsSaidByName) {
  for (const std::string arguments : {"explain --m 8 --n 8 --k 8 --roofline", "ladder --plot"}) {
    const Outcome o = foretile(arguments + " /nonexistent/picture.svg");
    EXPECT_EQ(o.code, 3) << arguments;
    EXPECT_EQ(o.out, "");
    EXPECT_NE(o.error.find(arguments.substr(arguments.rfind("--")) + ": /nonexistent/picture.svg cannot be written: No such file"), std::string::npos) << o.error;
  }
}

// A file that cannot be written whole is left as it was. A disk that is full is here a limit on the size of files.
TEST(Environment, AFullDiskLeavesTheFileThatWasThere) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / ("foretile_full_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder / "far");
  const auto files = [&] { return std::distance(fs::recursive_directory_iterator(folder), fs::recursive_directory_iterator()); };
  for (const std::string name : {"roof.svg", "roof.html"}) {
    const std::string path = (folder / name).string(), draw = "explain --m 8 --n 8 --k 8 --json --roofline " + path;
    for (const bool there : {false, true}) {
      if (there) std::ofstream(path) << "the one before";
      const auto before = files();
      const Outcome full = foretile(draw, "/bin/sh -c 'trap \"\" XFSZ; ulimit -f 12; exec \"$0\" \"$@\"'");
      EXPECT_EQ(full.code, 3);
      EXPECT_NE(full.error.find("--roofline: " + path + " cannot be written: File too large"), std::string::npos) << full.error;
      EXPECT_EQ(files(), before);
      EXPECT_EQ(slurp(path), there ? "the one before" : "");
    }
    // A link stays, and its file is replaced.
    fs::rename(path, folder / "far" / name);
    fs::create_symlink(fs::path("far") / name, path);
    EXPECT_EQ(foretile(draw).code, 0);
    EXPECT_TRUE(fs::is_symlink(path));
    EXPECT_NE(slurp((folder / "far" / name).string()).find("</svg>"), std::string::npos);
  }
  EXPECT_EQ(files(), 5);  // two files, their links and a folder
  fs::create_symlink("/dev/full", folder / "full.svg");
  const Outcome device = foretile("explain --m 8 --n 8 --k 8 --roofline " + (folder / "full.svg").string());
  EXPECT_EQ(device.code, 3);
  EXPECT_NE(device.error.find("full.svg cannot be written: No space left on device"), std::string::npos) << device.error;
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  fs::remove_all(folder);
}

TEST(Environment, CommandsThatNeedAGpuSayWhatIsMissing) {
  for (const std::string arguments : {"run --m 8 --n 8 --k 8", "bench --m 8 --n 8 --k 8", "verify --on gpu", "demo --on gpu"}) {
    const Outcome o = foretile(arguments);
    EXPECT_EQ(o.code, 3) << arguments;
    EXPECT_EQ(o.out, "");
    EXPECT_NE(o.error.find("no usable GPU"), std::string::npos) << o.error;
  }
}

TEST(Environment, OutputThatCannotBeWritten) {
  for (const std::string arguments : {"emulate --m 8 --n 8 --k 8", "explain --m 8 --n 8 --k 8", "explain --m 8 --n 8 --k 8 --json"})
    EXPECT_EQ(foretile(arguments + " >/dev/full 2>/dev/null; exit $?; :").code, 3) << arguments;
}

TEST(Environment, NoCacheFolder) {
  const Outcome o = foretile("cache", "FORETILE_CACHE= XDG_CACHE_HOME= HOME=");
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.error.find("no cache folder"), std::string::npos) << o.error;
}

}  // namespace
