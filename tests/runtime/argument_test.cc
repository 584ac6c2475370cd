// What matmul() refuses, and how it says so; what it takes. Against the pretended driver.
#include <gmock/gmock.h>

#include <limits>

#include "foretile/device/catalogue.h"
#include "support.h"

namespace foretile::test {
namespace {

using ::testing::HasSubstr;

class Arguments : public FakeGpu {
 protected:
  // Refused with a message that holds all the parts, and nothing launched.
  void refused(const Matmul& call, Code code, std::initializer_list<const char*> parts) {
    const int before = fake_cuda().launch_count;
    for (const Status& s : {matmul(call), prepare(call)}) {
      EXPECT_EQ(s.code(), code) << s.message();
      for (const char* part : parts) EXPECT_THAT(s.message(), HasSubstr(part));
    }
    EXPECT_EQ(fake_cuda().launch_count, before);
  }
  void refused(const Matmul& call, std::initializer_list<const char*> parts) { refused(call, Code::invalid_argument, parts); }
  void refused_at_launch(const Matmul& call, std::initializer_list<const char*> parts) {
    const int before = fake_cuda().launch_count;
    const Status s = matmul(call);
    EXPECT_EQ(s.code(), Code::invalid_argument) << s.message();
    for (const char* part : parts) EXPECT_THAT(s.message(), HasSubstr(part));
    EXPECT_EQ(fake_cuda().launch_count, before);
  }
};

TEST_F(Arguments, NegativeSizes) {
  Matmul call = product(64, 64, 64);
  call.m = -1;
  refused(call, {"m is -1", "0 or more"});
  call = product(64, -2, 64);
  refused(call, {"n is -2"});
  call = product(64, 64, std::numeric_limits<i64>::min());
  refused(call, {"k is -9223372036854775808"});
  call = product(64, 64, 64);
  call.batch = -4;
  refused(call, {"batch is -4"});
  call.batch = 1, call.sm_budget = -1;
  refused(call, {"sm_budget is -1"});
  call.sm_budget = 133;
  refused(call, {"sm_budget is 133", "132"});
  call.sm_budget = 0, call.device = -2;
  refused(call, {"device is -2"});
  call.device = 3;
  refused(call, {"device is 3", "0 to 2"});
}

TEST_F(Arguments, NullPointersAreNamed) {
  for (const auto& [member, name] : {std::pair{&Matmul::a, "A is null"}, {&Matmul::b, "B is null"}, {&Matmul::d, "D is null"}}) {
    Matmul call = product(64, 64, 64);
    (call.*member).data = nullptr;
    refused(call, {name});
  }
  Matmul call = product(64, 64, 64);
  call.beta = 0.5f;
  refused(call, {"C is null", "beta is 0.5"});
  call.beta = Scalar::on_device(static_cast<float*>(address(9)));
  refused(call, {"C is null", "device value"});
}

TEST_F(Arguments, AddressesThatNoElementCanHave) {
  Matmul call = product(64, 64, 64);
  call.a.data = static_cast<char*>(call.a.data) + 1;
  refused(call, {"A is at", "2 bytes"});
  call = product(64, 64, 64);
  call.bias = {static_cast<char*>(address(4)) + 2, DType::fp32};
  refused(call, {"bias is at", "4 bytes"});
  call = product(64, 64, 64);
  call.alpha = Scalar::on_device(reinterpret_cast<float*>(static_cast<char*>(address(4)) + 2));
  refused(call, {"alpha is at", "4 bytes"});
}

TEST_F(Arguments, Types) {
  for (const auto& [member, name] : {std::pair{&Matmul::a, "dtype of A is e4m3"}, {&Matmul::b, "dtype of B is e4m3"}, {&Matmul::d, "dtype of D is e4m3"}}) {
    Matmul call = product(64, 64, 64);
    (call.*member).dtype = DType::e4m3;
    refused(call, Code::unsupported, {name, "fp32, fp16, bf16"});
  }
  Matmul call = product(64, 64, 64);
  call.residual = {address(4), DType::int8};
  refused(call, Code::unsupported, {"dtype of residual is int8"});
  call = product(64, 64, 64);
  ASSERT_TRUE(matmul(call));
  call.b.dtype = DType(18);  // the low bits are bf16's: a careless key would find the plan made just now
  refused(call, {"dtype of B is 18"});
  call = product(64, 64, 64);
  call.activation = Activation(5);
  refused(call, {"activation is 5", "silu (4)"});
  // Every mix of the three types has a kernel.
  for (const DType a : {DType::fp32, DType::fp16, DType::bf16})
    for (const DType b : {DType::fp32, DType::fp16, DType::bf16})
      for (const DType d : {DType::fp32, DType::fp16, DType::bf16}) {
        Matmul mixed = product(48, 48, 48);
        mixed.a.dtype = a, mixed.b.dtype = b, mixed.d.dtype = d;
        EXPECT_EQ(is_hopper(launch_of(mixed)), a == b && a != DType::fp32);
      }
}

TEST_F(Arguments, Tf32IsForFp32AndOnlyWhereItIsAskedFor) {
  Matmul call = product(512, 512, 512);
  call.compute = Compute::tf32;
  refused(call, {"compute is tf32", "dtype of A bf16", "both fp32"});
  call.a.dtype = DType::fp32;
  refused(call, {"compute is tf32", "dtype of B bf16", "both fp32"});
  call.b.dtype = call.d.dtype = DType::fp32;
  EXPECT_TRUE(is_hopper(launch_of(call)));
  call.compute = Compute::exact;  // the same addresses and sizes: the plan made just now must not be taken
  EXPECT_FALSE(is_hopper(launch_of(call)));
  call.compute = Compute::tf32, call.a.transposed = true;
  EXPECT_FALSE(is_hopper(launch_of(call))) << "wgmma takes tf32 K-major alone";
  call.compute = Compute(2);
  refused(call, {"compute is 2", "exact (0), tf32 (1)"});
  call = product(64, 64, 64);
  call.a.dtype = DType::tf32;
  refused(call, Code::unsupported, {"dtype of A is tf32", "fp32, fp16, bf16", "compute"});
  call = product(64, 64, 64);
  call.a.dtype = call.b.dtype = DType::fp32, call.compute = Compute::tf32, call.gating = Gating::halves;
  refused(call, Code::unsupported, {"gated products take the decode and sm90 families", "both bf16 or both fp16"});
}

TEST_F(Arguments, TransposedOutputsAreRefused) {
  Matmul call = product(64, 64, 64);
  call.d.transposed = true;
  refused(call, {"D is transposed", "A and B alone"});
  call = product(64, 64, 64);
  call.beta = 1, call.c = {address(3), DType::bf16, 0, 0, true};
  refused(call, {"C is transposed"});
  call = product(64, 64, 64);
  call.residual = {address(3), DType::bf16, 0, 0, true};
  refused(call, {"residual is transposed"});
}

// B94: leading dimensions with transposes. A rectangular case, so that no wrong one passes by luck.
TEST_F(Arguments, B94_LeadingDimensionsOfAllTransposes) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      Matmul call = product(2, 3, 4);
      call.a.transposed = ta, call.b.transposed = tb;
      const i64 row_a = ta ? 2 : 4, row_b = tb ? 3 : 4;  // A[2,4] or A[4,2]; B[3,4] or B[4,3]
      for (const i64 more : {0, 3}) {
        call.a.ld = row_a + more, call.b.ld = row_b + more, call.d.ld = 3 + more;
        const fake::Launch l = launch_of(call);
        if (!is_hopper(l)) {
          EXPECT_EQ(l.simt.a.ld, call.a.ld);
          EXPECT_EQ(l.simt.b.ld, call.b.ld);
        }
        EXPECT_EQ((is_hopper(l) ? l.sm90.epilogue : l.simt.epilogue).d.ld, call.d.ld);
      }
      call.a.ld = row_a - 1;
      refused(call, {"ld of A is", row_a == 2 ? "at least 2 (M" : "at least 4 (K"});
      call.a.ld = 0, call.b.ld = row_b - 1;
      refused(call, {"ld of B is", row_b == 3 ? "at least 3 (N" : "at least 4 (K"});
      call.b.ld = 0, call.d.ld = 2;
      refused(call, {"ld of D is 2", "at least 3 (N"});
      call.d.ld = -3;
      refused(call, {"ld of D is -3"});
    }
  Matmul call = product(64, 64, 64);
  call.beta = 1, call.c = {address(3), DType::bf16, 63};
  refused(call, {"ld of C is 63", "at least 64 (N"});
  call.beta = 0;  // then C is not looked at
  EXPECT_TRUE(matmul(call));
  call.residual = {address(4), DType::bf16, 63};
  refused(call, {"ld of residual is 63"});
}

// B26: frameworks leave anything in the stride of a dimension of one element.
TEST_F(Arguments, B26_StridesOfSizeOneDimensionsDoNotMatter) {
  const fake::Launch dense = launch_of(product(1, 512, 512));
  ASSERT_TRUE(is_hopper(dense));
  for (const i64 ld : {i64(1), i64(0), i64(1000000000), i64(-5), i64(513)}) {
    Matmul call = product(1, 512, 512);
    call.a.ld = call.d.ld = ld;
    call.beta = 1, call.c = {call.d.data, DType::bf16, ld + 1};
    const fake::Launch l = launch_of(call);
    ASSERT_TRUE(is_hopper(l)) << ld;
    EXPECT_EQ(map_of(l.sm90.a).stride[0] % 16, 0u);
    EXPECT_EQ(map_of(l.sm90.a).extent[1], 1u);
    EXPECT_EQ(l.sm90.epilogue.d.ld, l.sm90.epilogue.c.ld);
  }
  Matmul call = product(64, 1, 64);
  call.b.ld = 1;
  EXPECT_TRUE(matmul(call));
  call = product(64, 64, 1);  // A[64,1]: a transposed view has one row, and its ld does not matter
  call.a.transposed = true, call.a.ld = 7;
  EXPECT_TRUE(matmul(call));
  call = product(64, 64, 64);
  call.a.batch_stride = -7;  // of a single batch
  EXPECT_TRUE(matmul(call));
}

TEST_F(Arguments, BatchStrides) {
  Matmul call = product(64, 64, 64);
  constexpr Configuration kSm90 = catalogue::pingpong(128, 128, 6, 2);
  call.configuration = &kSm90;  // whose map of D shows D's strides
  call.batch = 4;
  refused(call, {"batch_stride of D is 0", "batch 4"});
  call.d.batch_stride = 64 * 64 - 1;
  refused(call, {"batches of D overlap"});
  call.d.batch_stride = 64 * 64;
  call.a.batch_stride = -64;
  refused(call, {"batch_stride of A is -64"});
  call.a.batch_stride = 0;
  fake::Launch l = launch_of(call);  // A and B read by all
  ASSERT_TRUE(is_hopper(l));
  EXPECT_EQ(l.sm90.a_batched, 0);
  EXPECT_EQ(map_of(l.sm90.a).extent[2], 1u);
  EXPECT_EQ(map_of(l.sm90.d).extent[2], 4u);
  // Heads interleaved within a row: no element twice, so legal.
  call.d.ld = 4 * 64, call.d.batch_stride = 64;
  call.a.batch_stride = 64 * 64;
  l = launch_of(call);
  EXPECT_EQ(l.sm90.a_batched, 1);
  EXPECT_EQ(map_of(l.sm90.d).stride[1], 128u);
  call.d.batch_stride = 63;
  refused(call, {"batches of D overlap"});
}

TEST_F(Arguments, DSharesNoElementWithAnInput) {
  Matmul call = product(64, 64, 64);
  call.d.data = call.a.data;
  refused_at_launch(call, {"D (at", "A (at", "share elements"});
  EXPECT_TRUE(prepare(call));  // placeholders
  call.d.data = static_cast<char*>(call.b.data) + 64 * 64 * 2 - 2;
  refused_at_launch(call, {"B (at"});
  call.d.data = static_cast<char*>(call.b.data) + 64 * 64 * 2;
  EXPECT_TRUE(matmul(call));
  call = product(64, 64, 64);
  call.bias = {static_cast<char*>(call.d.data) + 128, DType::bf16};
  refused_at_launch(call, {"bias (at"});
  call = product(64, 64, 64);
  call.residual = {call.d.data, DType::bf16};
  refused_at_launch(call, {"residual (at"});
  call = product(64, 64, 64);
  call.alpha = Scalar::on_device(reinterpret_cast<float*>(static_cast<char*>(call.d.data) + 4));
  refused_at_launch(call, {"alpha (at"});
  // The repeated call is looked at as well: the plan is there, the addresses are new.
  call = product(64, 64, 64);
  ASSERT_TRUE(matmul(call));
  call.a.data = call.d.data;
  refused_at_launch(call, {"A (at"});
  // Not read, so not in the way.
  call.alpha = 0;
  EXPECT_TRUE(matmul(call));
}

TEST_F(Arguments, InterleavedViewsThatShareNoElementAreLegal) {
  Matmul call = product(64, 64, 64);  // A and D are the two halves of the rows of one matrix
  call.a.ld = call.d.ld = 128;
  call.d.data = static_cast<char*>(call.a.data) + 128;
  EXPECT_TRUE(is_hopper(launch_of(call)));
  call.d.data = static_cast<char*>(call.a.data) + 112;
  refused_at_launch(call, {"share elements"});
}

TEST_F(Arguments, CMayBeDWithEqualTypeAndStrides) {
  Matmul call = product(64, 64, 64);
  call.beta = 1, call.c = {call.d.data, DType::bf16};
  EXPECT_EQ(launch_of(call).sm90.epilogue.c.data, call.d.data);
  call.c.dtype = DType::fp16;
  refused_at_launch(call, {"C (at", "equal dtype"});
  call.c = {call.d.data, DType::bf16, 72};
  refused_at_launch(call, {"C (at"});
  call.c = {static_cast<char*>(call.d.data) + 16, DType::bf16};
  refused_at_launch(call, {"C (at"});
  call.batch = 2, call.d.batch_stride = 64 * 64;
  call.c = {call.d.data, DType::bf16};  // C of all batches is D of the first
  refused_at_launch(call, {"C (at"});
  call.c.batch_stride = 64 * 64;
  EXPECT_TRUE(matmul(call));
  call.beta = 0, call.c.dtype = DType::fp16;  // not read
  EXPECT_TRUE(matmul(call));
}

TEST_F(Arguments, SizesBeyondTheKernels) {
  refused(product(i64(1) << 31, 8, 8), Code::unsupported, {"below 2^31"});
  Matmul call = product(64, 64, 64);
  call.a.ld = i64(1) << 45;
  refused(call, {"A spans more than 2^46 elements"});
  call.a.ld = std::numeric_limits<i64>::max();
  refused(call, {"A spans more than 2^46 elements"});
}

TEST_F(Arguments, ConfigurationsThatCannotComputeIt) {
  Configuration c{.family = Family::sm90, .tile_m = 128, .tile_n = 128, .tile_k = 64, .stages = 4, .store_buffers = 1};
  Matmul call = product(256, 256, 256);
  call.configuration = &c;
  fake::Launch l = launch_of(call);
  EXPECT_THAT(l.image, HasSubstr(".tile_m = 128, .tile_n = 128"));
  c.stages = 1;
  refused(call, Code::unsupported, {"sm90:128x128x64:s1", "two stages"});
  c.stages = 4, call.a.ld = 257;
  refused(call, Code::unsupported, {"16 bytes"});
  call.a.ld = 0, call.device = 1;
  refused(call, Code::unsupported, {"A100", "9.0"});
}

// B02: an empty sum is 0, and every element of D is written.
TEST_F(Arguments, B02_EmptySumsAreComputed) {
  for (const i64 batch : {1, 3})
    for (const DType type : {DType::bf16, DType::fp16, DType::fp32}) {
      Matmul call = product(3, 3, 0);
      call.batch = batch, call.d.batch_stride = 9;
      call.a = call.b = {nullptr, type};
      call.d.dtype = type;
      call.bias = {address(4), DType::fp32};
      call.activation = Activation::gelu_erf;
      const fake::Launch l = launch_of(call);
      EXPECT_FALSE(is_hopper(l));  // a tensor map cannot be empty
      EXPECT_EQ(l.simt.k, 0);
      EXPECT_EQ(l.simt.grid.batch, batch);
      EXPECT_EQ(l.simt.epilogue.bias.data, address(4));
    }
  for (const auto& [m, n, batch] : {std::tuple{0, 64, 1}, {64, 0, 1}, {64, 64, 0}}) {  // nothing to write
    Matmul call = product(m, n, 64);
    call.a.data = call.b.data = call.d.data = nullptr;
    call.batch = batch;
    const int before = fake_cuda().launch_count;
    EXPECT_TRUE(matmul(call));
    EXPECT_TRUE(prepare(call));
    EXPECT_EQ(fake_cuda().launch_count, before);
  }
  Matmul call = product(0, 64, 64);
  call.b.ld = 63;  // bad all the same
  refused(call, {"ld of B is 63"});
}

// B04: what beta = 0 and alpha = 0 leave unread does not reach the kernel.
TEST_F(Arguments, B04_ZeroBetaAndAlphaDropTheirOperands) {
  Matmul call = product(64, 64, 64);
  call.c = {address(3), DType::bf16};
  for (const float beta : {0.0f, -0.0f}) {
    call.beta = beta;
    const fake::Launch l = launch_of(call);
    EXPECT_THAT(l.image, HasSubstr(".has_c = false"));
    EXPECT_EQ(l.sm90.epilogue.c.data, nullptr);
  }
  call.beta = std::numeric_limits<float>::quiet_NaN();  // not 0: C counts
  EXPECT_THAT(launch_of(call).image, HasSubstr(".has_c = true"));
  call.beta = Scalar::on_device(static_cast<float*>(address(5)));
  fake::Launch l = launch_of(call);
  EXPECT_THAT(l.image, HasSubstr(".has_c = true"));
  EXPECT_EQ(l.sm90.epilogue.beta_pointer, address(5));

  call = product(64, 64, 64);
  call.alpha = 0;
  call.a.data = call.b.data = nullptr;
  l = launch_of(call);
  EXPECT_FALSE(is_hopper(l));
  EXPECT_EQ(l.simt.k, 0);
  call.alpha = Scalar::on_device(static_cast<float*>(address(5)));  // its value is not known here
  refused(call, {"A is null"});
  call = product(64, 64, 64);
  call.alpha = 2.5f;
  EXPECT_EQ(launch_of(call).sm90.epilogue.alpha, 2.5f);
  call.alpha = 3.5f;  // the plan is found again, the value is new
  EXPECT_EQ(launch_of(call).sm90.epilogue.alpha, 3.5f);
}

// B05: batches and tiles beyond 65,535 stay off the grid's y and z.
TEST_F(Arguments, B05_LargeBatchesAndTileCounts) {
  for (const auto& [m, n, k, batch] : {std::tuple<i64, i64, i64, i64>{16, 16, 8, 65536}, {16, 1, 8, 65536}, {65536 * 128, 8, 16, 1}, {1, 16, 8, 70000}}) {
    Matmul call = product(m, n, k);
    call.batch = batch;
    call.a.batch_stride = m * k, call.b.batch_stride = n * k, call.d.batch_stride = m * n;
    const fake::Launch l = launch_of(call);
    EXPECT_EQ(l.grid[1], 1u);
    EXPECT_EQ(l.grid[2], 1u);
    const TileGrid& grid = is_hopper(l) ? l.sm90.grid : l.simt.grid;
    EXPECT_EQ(grid.batch, batch);
    EXPECT_GE(i64(grid.tiles_m) * grid.tiles_n * grid.batch, 65536);
  }
}

// B18: TMA wants strides of 16 bytes; anything else takes the other family, never TMA with a rounded stride.
TEST_F(Arguments, B18_StridesThatTmaCannotTake) {
  EXPECT_TRUE(is_hopper(launch_of(product(128, 256, 512))));
  for (const i64 more : {1, 2, 4}) {
    Matmul call = product(128, 256, 512);
    call.a.ld = 512 + more;
    fake::Launch l = launch_of(call);
    EXPECT_FALSE(is_hopper(l));
    EXPECT_EQ(l.simt.a.ld, 512 + more);
    call.a.ld = 0, call.b.ld = 512 + more;
    l = launch_of(call);
    EXPECT_FALSE(is_hopper(l));
    EXPECT_EQ(l.simt.b.ld, 512 + more);
    call.b.ld = 0, call.d.ld = 256 + more;  // D alone: the fast kernel, which then stores from registers
    l = launch_of(call);
    ASSERT_TRUE(is_hopper(l));
    EXPECT_THAT(l.image, HasSubstr(".output = Alignment::any"));
    EXPECT_EQ(l.sm90.epilogue.d.ld, 256 + more);
  }
  Matmul call = product(3, 132, 7168);  // rows of D of 264 bytes
  fake::Launch l = launch_of(call);
  ASSERT_TRUE(is_hopper(l));
  EXPECT_THAT(l.image, HasSubstr(".output = Alignment::any"));
  call = product(128, 256, 512);
  for (Matrix* x : {&call.a, &call.b}) {  // an address between the sixteens
    void* const whole = x->data;
    x->data = static_cast<char*>(whole) + 2;
    EXPECT_FALSE(is_hopper(launch_of(call)));
    x->data = whole;
  }
  call.batch = 2, call.d.batch_stride = 128 * 256, call.a.batch_stride = 128 * 512 + 1;
  EXPECT_FALSE(is_hopper(launch_of(call)));
}

// B20: views of larger matrices keep their strides, for every operand.
TEST_F(Arguments, B20_StridedViewsAreHonoured) {
  Matmul call = product(128, 256, 512);
  call.a.ld = 2 * 512, call.b.ld = 3 * 512, call.d.ld = 4 * 256;
  call.beta = 1, call.c = {address(3), DType::fp32, 5 * 256};
  call.residual = {address(4), DType::fp16, 6 * 256};
  fake::Launch l = launch_of(call);
  ASSERT_TRUE(is_hopper(l));
  EXPECT_EQ(map_of(l.sm90.a).stride[0], 2u * 512 * 2);
  EXPECT_EQ(map_of(l.sm90.b).stride[0], 3u * 512 * 2);
  EXPECT_EQ(l.sm90.epilogue.d.ld, 4 * 256);
  EXPECT_EQ(l.sm90.epilogue.c.ld, 5 * 256);
  EXPECT_EQ(l.sm90.epilogue.residual.ld, 6 * 256);
  EXPECT_THAT(l.image, HasSubstr(".c = DType::fp32, .bias = DType::bf16, .residual = DType::fp16"));
  // x = base.t(): a transposed view, both ways round.
  call = product(128, 256, 512);
  call.a.transposed = true;
  l = launch_of(call);
  EXPECT_THAT(l.image, HasSubstr(".transpose_a = true, .transpose_b = false"));
  EXPECT_EQ(is_hopper(l) ? 128 : l.simt.a.ld, 128);
}

// B01: offsets beyond 32 bits.
TEST_F(Arguments, B01_LargeLeadingDimensions) {
  for (const i64 ld : {i64(1) << 20, i64(1) << 21, i64(1) << 31}) {
    Matmul call = product(2049, 64, 512);
    call.a.ld = ld, call.d.ld = ld;
    call.beta = 1, call.c = {address(3), DType::bf16, ld};
    const fake::Launch l = launch_of(call);
    ASSERT_TRUE(is_hopper(l));
    EXPECT_EQ(map_of(l.sm90.a).stride[0], u64(ld) * 2);
    EXPECT_EQ(l.sm90.epilogue.c.ld, ld);
  }
}

// B90: odd sizes work; rows that are not contiguous are not asked to be aligned.
TEST_F(Arguments, B90_OddSizesAreTaken) {
  for (const auto& [m, n, k, fast] : {std::tuple<i64, i64, i64, bool>{2, 4, 3, false}, {1471, 256, 512, true}, {1, 105, 107, false}, {1, 105, 112, true}}) {
    Matmul call = product(m, n, k);
    call.a.dtype = call.b.dtype = call.d.dtype = DType::fp16;
    EXPECT_EQ(is_hopper(launch_of(call)), fast) << m << " " << n << " " << k;
  }
}

TEST_F(Arguments, TensorMapsAreEncodedAsTheKernelExpects) {
  Matmul call = product(300, 200, 500);
  call.a.ld = 504, call.b.ld = 512;
  const fake::Launch l = launch_of(call);
  ASSERT_TRUE(is_hopper(l));
  const fake::EncodedMap a = map_of(l.sm90.a), b = map_of(l.sm90.b);
  EXPECT_EQ(a.address, reinterpret_cast<u64>(call.a.data));
  EXPECT_EQ(a.extent[0], 500u);
  EXPECT_EQ(a.extent[1], 300u);
  EXPECT_EQ(b.extent[1], 200u);
  EXPECT_EQ(a.box[0], 64u);
  EXPECT_EQ(a.type, 9);       // BFLOAT16
  EXPECT_EQ(a.swizzle, 3);    // 128 B
  EXPECT_EQ(a.promotion, 3);  // L2 256 B
  EXPECT_EQ(a.fill, 0);       // zeros
  EXPECT_EQ(l.sm90.m, 300);
  EXPECT_EQ(l.sm90.n, 200);
  EXPECT_EQ(l.sm90.k, 500);
}

}  // namespace
}  // namespace foretile::test
