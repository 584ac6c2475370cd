// The real compiler, where there is one: every kernel of the catalogue, quickly, without spills.
#include "runtime/compile.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "model/text.h"
#include "runtime/source.h"
#include "support.h"

namespace foretile::test {
namespace {

using ::testing::HasSubstr;

// The NVRTC of this machine, found as a user's process finds it; null where there is none.
const Nvrtc* real_nvrtc() {
  static const Nvrtc* const found = []() -> const Nvrtc* {
    unsetenv("FORETILE_NVRTC");
    const std::optional<std::string> path = find_nvrtc();
    setenv("FORETILE_NVRTC", FORETILE_FAKE_CUDA, 1);
    auto* nvrtc = new Nvrtc;
    return path && open_nvrtc(*path, *nvrtc) ? nvrtc : nullptr;
  }();
  return found;
}
#define NEEDS_NVRTC \
  if (!real_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine"

std::string image(const Compilation& made) { return made.kernel.cubin.substr(0, 4); }

TEST(Compile, TheCompilerIsIdentifiedWithoutBeingLoaded) {
  NEEDS_NVRTC;
  EXPECT_THAT(real_nvrtc()->identity, HasSubstr("libnvrtc"));
  EXPECT_THAT(real_nvrtc()->identity, HasSubstr("bytes)"));
  EXPECT_GE(real_nvrtc()->major, 12);
}

TEST(Compile, AHopperKernelWithinASecond) {
  NEEDS_NVRTC;
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {  // processor time, the least of three: other processes may be at work
    const std::clock_t begin = std::clock();
    const Compilation made = compile_kernel(catalogue::product(DType::bf16, DType::bf16), catalogue::coop(128, 256, 4, 2), "sm_90a", real_nvrtc());
    ASSERT_TRUE(made.status) << made.status.message();
    EXPECT_EQ(image(made), "\x7f" "ELF");
    EXPECT_EQ(made.kernel.spill_bytes, 0);
    EXPECT_EQ(made.kernel.registers, 168);  // 65,536 registers over 384 threads, in eights
    best = std::min(best, double(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  std::printf("  %.2f s\n", best);
  EXPECT_LE(best, 1.0);
}

// The same source for every GPU that NVRTC knows, from 7.5 on.
TEST(Compile, ThePortableKernelOnEveryArchitecture) {
  NEEDS_NVRTC;
  Operation everything = catalogue::full(DType::bf16, DType::fp16, Activation::gelu_tanh);
  everything.b = DType::fp32, everything.transpose_a = true;
  for (const int capability : {75, 80, 86, 89, 90, 100, 120}) {
    const Compilation made = compile_kernel(everything, catalogue::simt(32, 32, 16, 4, 4), architecture_for(capability), real_nvrtc());
    if (real_nvrtc()->major < 13 && capability >= 100) continue;
    EXPECT_TRUE(made.status) << capability << ": " << made.status.message();
  }
}

// A kernel that spills under the launch bounds that the facts state is compiled with looser ones, not refused.
TEST(Compile, APortableKernelNeverFailsForItsSpills) {
  NEEDS_NVRTC;
  Operation rich = catalogue::full(DType::fp32, DType::fp32, Activation::silu);
  rich.b = DType::fp16, rich.transpose_b = true;
  for (const Configuration& c : catalogue::kConfigurations) {
    if (c.family != Family::simt) continue;
    const Compilation made = compile_kernel(rich, c, "sm_90a", real_nvrtc());
    EXPECT_TRUE(made.status) << text_of(c) << ": " << made.status.message();
    EXPECT_EQ(made.kernel.spill_bytes, 0);
    EXPECT_GT(made.kernel.registers, 0);
  }
}

TEST(Compile, RefusalsSayWhy) {
  const Operation bf16 = catalogue::product(DType::bf16, DType::bf16);
  Configuration c = catalogue::coop(128, 256, 4, 2);
  EXPECT_THAT(compile_kernel(bf16, c, "sm_80").status.message(), HasSubstr("sm_90a alone"));
  c.stages = 99;
  const Compilation made = compile_kernel(bf16, c, "sm_90a");
  EXPECT_EQ(made.status.code(), Code::unsupported);
  EXPECT_THAT(made.status.message(), HasSubstr("227 KiB"));
  NEEDS_NVRTC;
  const Compilation wrong = compile_kernel(bf16, catalogue::simt(32, 32, 16, 4, 4), "sm_12345", real_nvrtc());
  EXPECT_EQ(wrong.status.code(), Code::compile_error);
  EXPECT_THAT(wrong.status.message(), HasSubstr("sm_12345"));
}

TEST(Compile, TheLogIsJudged) {
  constexpr const char* kGood =
      "ptxas info    : Compiling entry function 'foretile_kernel' for 'sm_90a'\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 16 barriers\n";
  CompiledKernel kernel;
  EXPECT_TRUE(judge_log(kGood, kernel));
  EXPECT_EQ(kernel.registers, 168);
  for (const char* remark : {"ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n",
                             "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored\n"}) {
    const Status s = judge_log(std::string(kGood) + remark, kernel);
    EXPECT_EQ(s.code(), Code::compile_error);
    EXPECT_THAT(s.message(), HasSubstr("Potential Performance Loss"));
  }
  EXPECT_FALSE(judge_log("ptxas . 8 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\nptxas info : Used 168 registers\n", kernel));
  EXPECT_EQ(kernel.spill_bytes, 12);
  EXPECT_FALSE(judge_log("", kernel));  // a log that says nothing proves nothing
}

TEST(Compile, TheSourceNamesEveryField) {
  Operation o = catalogue::full(DType::fp16, DType::fp32, Activation::silu);
  const std::string text = translation_unit(o, catalogue::pingpong(128, 128, 6, 2, 2));
  for (const char* part : {".a = DType::fp16, .b = DType::fp16, .d = DType::fp32", ".activation = Activation::silu", ".cluster_m = 2", "Schedule::pingpong",
                           "gemm_sm90.cuh", "__launch_bounds__(384, 1)", "GemmSm90Arguments"})
    EXPECT_THAT(text, HasSubstr(part));
  // For the portable family the alignment changes nothing: one kernel.
  const Configuration simt = catalogue::simt(32, 32, 16, 4, 4);
  EXPECT_EQ(translation_unit(o, simt), translation_unit(catalogue::unaligned(o), simt));
}

}  // namespace
}  // namespace foretile::test
