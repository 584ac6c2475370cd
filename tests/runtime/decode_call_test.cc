// What calls of few rows add: gated products, dependent launch, batch invariance. Against the pretended driver.
#include <gmock/gmock.h>

#include <set>

#include "api/call_key.h"
#include "foretile/device/catalogue.h"
#include "support.h"

namespace foretile::test {
namespace {

using ::testing::HasSubstr;

class DecodeCalls : public FakeGpu {
 protected:
  static void refused(const Matmul& call, Code code, std::initializer_list<const char*> parts) {
    const int before = fake_cuda().launch_count;
    for (const Status& s : {matmul(call), prepare(call)}) {
      EXPECT_EQ(s.code(), code) << s.message();
      for (const char* part : parts) EXPECT_THAT(s.message(), HasSubstr(part));
    }
    EXPECT_EQ(fake_cuda().launch_count, before);
  }
};

bool is_decode(const fake::Launch& l) { return l.image.find("gemm_decode") != std::string::npos; }

// A[m,k] x B[n,k]^T gated, D[m,n/2].
Matmul gated(i64 m, i64 n, i64 k, Gating gating = Gating::halves) {
  Matmul call = product(m, n, k);
  call.gating = gating, call.activation = Activation::silu;
  return call;
}

// ---- gated ------------------------------------------------------------------------------------------------

TEST_F(DecodeCalls, GatedProductsOfFewRowsTakeTheDecodeKernel) {
  for (const auto& [gating, name, most] : {std::tuple{Gating::halves, "Gating::halves", 64}, {Gating::interleaved, "Gating::interleaved", 200}})
    for (const i64 m : {1, 32, most}) {
      const fake::Launch l = launch_of(gated(m, 28672, 4096, gating));
      ASSERT_TRUE(is_decode(l)) << m;
      EXPECT_THAT(l.image, HasSubstr(name));
      EXPECT_EQ(l.decode.n, 28672) << "N counts the product's columns";
      EXPECT_EQ(l.decode.epilogue.d.ld, 14336) << "a dense D has N/2";
      EXPECT_EQ(map_of(l.decode.b).extent[1], 28672u);
      EXPECT_EQ(map_of(l.decode.b).box[1], u32(l.decode.tile_columns / (gating == Gating::halves ? 2 : 1)));
    }
}

TEST_F(DecodeCalls, GatedProductsOfManyRowsTakeTheHopperKernelWhereItGates) {
  const fake::Launch l = launch_of(gated(2048, 28672, 4096, Gating::halves));
  ASSERT_TRUE(is_hopper(l) && !is_decode(l));
  EXPECT_THAT(l.image, HasSubstr("Gating::halves"));
  EXPECT_EQ(l.sm90.n, 28672) << "N counts the product's columns";
  EXPECT_EQ(map_of(l.sm90.b).extent[1], 28672u);
  EXPECT_EQ(map_of(l.sm90.d).extent[0], 14336u);
  EXPECT_EQ(l.sm90.grid.tiles_n, ceil_div(28672, i64(2 * map_of(l.sm90.b).box[1]))) << "a tile has a box of gates and one of up columns";
}

TEST_F(DecodeCalls, StridesOfGatedOperands) {
  Matmul call = gated(64, 256, 512);
  call.beta = 1, call.c = {address(3), DType::bf16}, call.bias = {address(4), DType::fp32}, call.residual = {address(5), DType::bf16};
  const fake::Launch l = launch_of(call);
  EXPECT_EQ(l.decode.epilogue.d.ld, 128);
  EXPECT_EQ(l.decode.epilogue.residual.ld, 128);
  EXPECT_EQ(l.decode.epilogue.c.ld, 256);
  call.d.ld = 127;
  refused(call, Code::invalid_argument, {"ld of D is 127", "at least 128 (N/2"});
  call.d.ld = 136, call.residual.ld = 100;
  refused(call, Code::invalid_argument, {"ld of residual is 100", "at least 128 (N/2"});
  call.residual.ld = 128, call.c.ld = 128;
  refused(call, Code::invalid_argument, {"ld of C is 128", "at least 256 (N"});
  call.c.ld = 0;
  EXPECT_EQ(launch_of(call).decode.epilogue.d.ld, 136);
  call.batch = 3, call.d.batch_stride = 64 * 136 - 9;
  refused(call, Code::invalid_argument, {"batches of D overlap"});
  call.d.batch_stride = 64 * 136;
  EXPECT_TRUE(is_decode(launch_of(call)));
}

TEST_F(DecodeCalls, AGatedNMustBeEven) {
  for (const Gating gating : {Gating::halves, Gating::interleaved}) {
    refused(gated(8, 255, 512, gating), Code::invalid_argument, {"n is 255", gating == Gating::halves ? "halves" : "interleaved", "even"});
    EXPECT_TRUE(matmul(gated(8, 0, 512, gating)));
    EXPECT_EQ(launch_of(gated(8, 2, 512, gating)).decode.epilogue.d.ld, 1);
  }
}

TEST_F(DecodeCalls, GatingsThatDoNotExistAreRefused) {
  Matmul call = gated(8, 256, 512);
  ASSERT_TRUE(matmul(call));
  for (const int value : {3, 4, 255}) {
    call.gating = Gating(value);
    refused(call, Code::invalid_argument, {"gating is", std::to_string(value).c_str(), "halves (1), interleaved (2)"});
  }
}

TEST_F(DecodeCalls, CMayNotBeDWhereTheProductIsGated) {
  Matmul call = gated(8, 256, 512);
  call.beta = 1, call.c = {call.d.data, DType::bf16};
  const int before = fake_cuda().launch_count;
  Status s = matmul(call);
  EXPECT_EQ(s.code(), Code::invalid_argument);
  EXPECT_THAT(s.message(), HasSubstr("share elements"));
  call.c.ld = call.d.ld = 256;  // alike in every number, and still not the same matrix
  s = matmul(call);
  EXPECT_EQ(s.code(), Code::invalid_argument);
  EXPECT_EQ(fake_cuda().launch_count, before);
  call.gating = Gating::none;
  EXPECT_TRUE(matmul(call));
}

TEST_F(DecodeCalls, WhatNoKernelGatesIsRefusedInWords) {
  Matmul call = gated(8, 256, 512);
  call.a.dtype = call.b.dtype = DType::fp32;
  refused(call, Code::unsupported, {"gated products take the decode and sm90 families", "both bf16 or both fp16"});
  call = gated(8, 256, 512);
  call.a.ld = 513;
  refused(call, Code::unsupported, {"gated products take the decode and sm90 families", "16 bytes"});
  call = gated(8, 256, 512);
  call.b.transposed = true, call.b.ld = 256;
  refused(call, Code::unsupported, {"not transposed"});
  call = gated(8, 256, 0);
  refused(call, Code::unsupported, {"K above 0"});
  call = gated(8, 256, 512);
  call.alpha = 0;
  refused(call, Code::unsupported, {"alpha that is not 0"});
  call.alpha = 1, call.device = 1;  // A100
  refused(call, Code::unsupported, {"A100", "Hopper"});
  const Configuration hopper = catalogue::coop(128, 128, 6, 2);
  call.device = 0, call.configuration = &hopper, call.gating = Gating::interleaved;
  refused(call, Code::unsupported, {"sm90:128x128x64", "gates halves"});
}

// fp32 at few rows takes the rows kernel: maps of both operands, and every one of its launches has the call's own addresses.
TEST_F(DecodeCalls, FewRowsInFp32) {
  Matmul call = product(8, 2112, 7168);
  call.a.dtype = call.b.dtype = call.d.dtype = DType::fp32;
  call.dependent = call.weights_ready = true;
  const fake::Launch l = launch_of(call);
  ASSERT_NE(l.image.find("gemm_rows"), std::string::npos);
  EXPECT_EQ(l.decode.weights_ready, 1);
  EXPECT_EQ(map_of(l.decode.a).address, reinterpret_cast<unsigned long long>(call.a.data));
  EXPECT_EQ(map_of(l.decode.a).box[1], 8u);
  EXPECT_EQ(map_of(l.decode.a).extent[1], 8u);
  EXPECT_EQ(map_of(l.decode.b).box[1], u32(l.decode.tile_columns));
  EXPECT_EQ(map_of(l.decode.b).extent[1], 2112u);
  Matmul again = call;
  again.a.data = address(9), again.b.data = address(10);
  const fake::Launch second = launch_of(again);
  EXPECT_EQ(map_of(second.decode.a).address, reinterpret_cast<unsigned long long>(again.a.data));
  EXPECT_EQ(map_of(second.decode.b).address, reinterpret_cast<unsigned long long>(again.b.data));
  call.a.data = static_cast<char*>(const_cast<void*>(call.a.data)) + 4;
  EXPECT_EQ(launch_of(call).image.find("gemm_rows"), std::string::npos) << "not on 16 bytes";
}

// ---- dependent launch -------------------------------------------------------------------------------------

TEST_F(DecodeCalls, DependentLaunchesCarryTheAttribute) {
  for (const Configuration& c : {catalogue::decode(16, 64, 128, 5), catalogue::decode(16, 64, 128, 5, 4), catalogue::coop(128, 128, 6, 2), catalogue::coop(128, 256, 4, 2, 2)})
    for (const bool dependent : {false, true})
      for (const bool ready : {false, true}) {
        Matmul call = product(16, 1024, 2048);
        call.configuration = &c, call.dependent = dependent, call.weights_ready = ready;
        const fake::Launch l = launch_of(call);
        EXPECT_EQ(l.programmatic, dependent);
        EXPECT_EQ(l.sm90.weights_ready, dependent && ready) << "a promise about a chain, where there is no chain";
        EXPECT_EQ(l.cluster, u32(c.split_k * c.cluster_m * c.cluster_n)) << "beside the other attribute";
      }
  Matmul unaligned = product(16, 1024, 2048);
  unaligned.a.ld = 2049, unaligned.dependent = true;
  EXPECT_TRUE(launch_of(unaligned).programmatic) << "the portable kernel on Hopper as well";
}

TEST_F(DecodeCalls, GpusWithoutDependentLaunchIgnoreIt) {
  Matmul call = product(16, 1024, 2048);
  call.device = 1, call.dependent = call.weights_ready = true;  // A100
  EXPECT_FALSE(launch_of(call).programmatic);
}

// ---- the key of a call ------------------------------------------------------------------------------------

TEST_F(DecodeCalls, CallsThatDifferInOneFieldHaveDifferentKeys) {
  const Matmul plain = product(16, 1024, 2048);
  std::vector<Matmul> calls(7, plain);
  calls[1].gating = Gating::halves, calls[2].gating = Gating::interleaved;
  calls[3].dependent = true, calls[4].weights_ready = true, calls[5].batch_invariant = true;
  const Configuration split = catalogue::decode(16, 64, 128, 5, 2);
  calls[6].configuration = &split;
  const Configuration whole = catalogue::decode(16, 64, 128, 5);
  calls.push_back(plain);
  calls.back().configuration = &whole;
  for (std::size_t i = 0; i < calls.size(); ++i)
    for (std::size_t j = 0; j < calls.size(); ++j) EXPECT_EQ(make_key(7, calls[i]) == make_key(7, calls[j]), i == j) << i << " " << j;
}

// And what the plan made for one must not be taken for the other: launched in turn, each comes out as its own.
TEST_F(DecodeCalls, PlansAreNotMixedUp) {
  for (int round = 0; round < 2; ++round)
    for (const Gating gating : {Gating::none, Gating::halves, Gating::interleaved})
      for (const bool dependent : {false, true})
        for (const bool ready : {false, true}) {
          Matmul call = gated(16, 1024, 2048, gating);
          call.dependent = dependent, call.weights_ready = ready;
          const fake::Launch l = launch_of(call);
          EXPECT_EQ(l.programmatic, dependent);
          EXPECT_EQ(l.sm90.weights_ready, dependent && ready);
          EXPECT_EQ(l.sm90.epilogue.d.ld, gating == Gating::none ? 1024 : 512);
          EXPECT_THAT(l.image, HasSubstr(gating == Gating::none ? "Gating::none" : gating == Gating::halves ? "Gating::halves" : "Gating::interleaved"));
        }
}

}  // namespace
}  // namespace foretile::test
