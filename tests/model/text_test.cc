#include "model/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foretile/device/catalogue.h"

namespace foretile {
namespace {

using ::testing::HasSubstr;

TEST(Text, EveryCatalogueConfigurationSurvivesTheRoundTrip) {
  for (const Configuration& c : catalogue::kConfigurations) {
    std::string error;
    const auto back = configuration_from(text_of(c), error);
    ASSERT_TRUE(back) << text_of(c) << ": " << error;
    EXPECT_EQ(*back, c) << text_of(c);
  }
}

TEST(Text, ConfigurationForms) {
  EXPECT_EQ(text_of(catalogue::coop(128, 256, 4, 2, 2)), "sm90:128x256x64:s4:c2x1:coop:b2");
  EXPECT_EQ(text_of(catalogue::pingpong(128, 128, 6, 2)), "sm90:128x128x64:s6:pingpong:b2");
  EXPECT_EQ(text_of(catalogue::simt(64, 64, 16, 4, 4)), "simt:64x64x16:t4x4");
  EXPECT_EQ(text_of(catalogue::ffma(128, 256, 8, 16, 8)), "ffma:128x256x8:t16x8");
  EXPECT_EQ(text_of(catalogue::ffma(32, 64, 32, 8, 8, 4, 2)), "ffma:32x64x32:t8x8:k4:c2");
  EXPECT_EQ(text_of(catalogue::rows(32, 64, 64, 8, 8, 6, 8, 2)), "rows:32x64x64:t8x8:s6:k8:c2");
  std::string error;
  EXPECT_EQ(configuration_from("rows:32x48x64:k8:t8x6:c3:s6", error), catalogue::rows(32, 48, 64, 8, 6, 6, 8, 3));
  EXPECT_EQ(configuration_from("ffma:128x192x16:c4:t8x12", error), catalogue::ffma(128, 192, 16, 8, 12, 1, 4));
  // Parts in another order, and an explicit cluster of one, mean the same.
  EXPECT_EQ(configuration_from("sm90:128x256x64:coop:b2:c1x1:s4", error), catalogue::coop(128, 256, 4, 2));
}

TEST(Text, BadConfigurationsAreRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "family ''"},
      {"sm80:64x64x64", "family 'sm80'"},
      {"sm90", "tile ''"},
      {"sm90:128x256:s4:coop", "tile '128x256'"},
      {"sm90:128x-256x64:s4:coop", "tile '128x-256x64'"},
      {"sm90:128x256x64x2:s4:coop", "tile"},
      {"sm90:128x256x64:coop", "stages sN is missing"},
      {"sm90:128x256x64:s4", "schedule, coop or pingpong, is missing"},
      {"sm90:128x256x64:s4:s5:coop", "part 's5'"},
      {"sm90:128x256x64:s4:coop:pingpong", "second schedule"},
      {"sm90:128x256x64:s4:c2:coop", "part 'c2'"},
      {"sm90:128x256x64:s4:coop:b0", "part 'b0'"},
      {"sm90:128x256x64:s4:coop:", "part ''"},
      {"sm90:128x256x64:s4:coop:z9", "part 'z9'"},
      {"sm90:128x256x64:s99999999999999:coop", "part 's99999999999999'"},
      {"simt:64x64x16", "register tile tMxN is missing"},
      {"simt:64x64x16:t4", "part 't4'"},
      {"simt:64x64x16:t4x4:s2", "part 's2'"},
      {"ffma:128x128x16:t8x8:c2x1", "part 'c2x1'"},
      {"ffma:128x128x16:t8x8:c2:c4", "part 'c4'"},
      {"ffma:128x128x16:t8x8:c0", "part 'c0'"},
      {"ffma:128x128x16:t8x8:s2", "part 's2'"},
      {"rows:8x64x64:t4x4:k8", "stages sN is missing"},
      {"rows:8x64x64:s8:k8", "register tile tMxN is missing"},
      {"rows:8x64x64:t4x4:s8:s6", "part 's6'"},
  };
  for (const auto& [text, wanted] : cases) {
    std::string error;
    EXPECT_FALSE(configuration_from(text, error)) << text;
    EXPECT_THAT(error, HasSubstr(wanted)) << text;
  }
}

TEST(Text, OperationsSurviveTheRoundTrip) {
  std::string error;
  for (const auto& [name, o] : catalogue::kOperations) {
    const auto back = operation_from(text_of(o), error);
    ASSERT_TRUE(back) << error;
    EXPECT_EQ(text_of(*back), text_of(o)) << name;
  }
  Operation o = catalogue::full(DType::fp16, DType::fp32, Activation::silu);
  o.c = DType::bf16, o.bias = DType::fp32, o.residual = DType::fp16, o.transpose_a = o.transpose_b = true;
  EXPECT_EQ(text_of(o), "fp16xfp16->fp32:tn:tma:tma:c=bf16:bias=fp32:res=fp16:silu");
  EXPECT_EQ(operation_from(text_of(o), error), o);
  EXPECT_EQ(text_of(catalogue::product(DType::bf16, DType::bf16)), "bf16xbf16->bf16:nt:tma:tma");
}

TEST(Text, AbsentOperandsDoNotShow) {
  Operation x = catalogue::product(DType::bf16, DType::bf16), y = x;
  y.c = DType::fp32;  // there is no C
  EXPECT_EQ(text_of(x), text_of(y));
  y.has_c = true;
  EXPECT_NE(text_of(x), text_of(y));
}

TEST(Text, BadOperationsAreRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"bf16", "types 'bf16'"},
      {"bf16xbf17->bf16:nt:tma:tma", "types"},
      {"bf16xbf16->bf16:nt:tma", "missing"},
      {"bf16xbf16->bf16:nx:tma:tma", "layouts 'nx'"},
      {"bf16xbf16->bf16:nt:tmb:tma", "input alignment 'tmb'"},
      {"bf16xbf16->bf16:nt:tma:no", "output alignment 'no'"},
      {"bf16xbf16->bf16:nt:tma:tma:d=bf16", "operand 'd'"},
      {"bf16xbf16->bf16:nt:tma:tma:c=bf16:c=bf16", "stands twice"},
      {"bf16xbf16->bf16:nt:tma:tma:c=half", "type 'half'"},
      {"bf16xbf16->bf16:nt:tma:tma:tanh", "part 'tanh'"},
      {"bf16xbf16->bf16:nt:tma:tma:relu:silu", "part 'silu'"},
  };
  for (const auto& [text, wanted] : cases) {
    std::string error;
    EXPECT_FALSE(operation_from(text, error)) << text;
    EXPECT_THAT(error, HasSubstr(wanted)) << text;
  }
}

TEST(Text, NamesOfTypesAndActivations) {
  for (DType t : {DType::fp32, DType::fp16, DType::bf16, DType::tf32, DType::e4m3, DType::e5m2, DType::int8, DType::int32})
    EXPECT_EQ(dtype_from(name_of(t)), t);
  for (Activation a : {Activation::none, Activation::relu, Activation::gelu_erf, Activation::gelu_tanh, Activation::silu})
    EXPECT_EQ(activation_from(name_of(a)), a);
  EXPECT_FALSE(dtype_from("half"));
  EXPECT_FALSE(activation_from(""));
  EXPECT_THAT(dtype_names(), HasSubstr("e4m3"));
}

}  // namespace
}  // namespace foretile
