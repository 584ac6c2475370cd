// Known faults of other libraries around few rows, K split over blocks, and repeatable bits: named by their number in the
// collection of cases. What needs time or a GPU's own schedule is in tests/gpu.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "faults/run.h"
#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "foretile/foretile.h"
#include "model/model.h"

namespace foretile {
namespace {

using catalogue::decode;

const Operation kBf16 = catalogue::product(DType::bf16, DType::bf16);

// One value in the first half of K, another in the second.
void fill_rows(const reference::GemmData& data, const char* name, double low, double high) {
  const reference::HostOperand* x = data.find(name);
  ASSERT_NE(x, nullptr);
  for (i64 row = 0; row < x->rows; ++row)
    for (i64 k = 0; k < x->columns; ++k) reference::store(x->type, x->data(), row * x->ld + k, k < x->columns / 2 ? low : high);
}

std::vector<u8> bits_of_d(const Operation& o, const Configuration& c, const Problem& p, u64 seed, i64 rows, const emulator::Options& options = quick()) {
  reference::GemmDataOptions d;
  d.values = reference::Values::normal, d.seed = seed;
  reference::GemmData data = reference::make_gemm_data(o, p, d);
  emulator::GemmRun run{data.operation, c, p, data.operands, {}, 4};
  for (const reference::HostOperand& x : data.list) run.regions.push_back({x.data(), x.data_bytes(), x.name == "D", x.name});
  const emulator::Report report = emulate_gemm(run, options);
  EXPECT_TRUE(report.clean()) << text_of(c) << ": " << report.text();
  EXPECT_TRUE(data.check().passed()) << text_of(c) << ": " << data.check().text();
  const reference::HostOperand& result = *data.find("D");
  std::vector<u8> bits;
  for (i64 row = 0; row < rows; ++row) {
    const u8* const from = static_cast<const u8*>(static_cast<const void*>(result.data())) + row * result.ld * size_of(result.type);
    bits.insert(bits.end(), from, from + result.columns * size_of(result.type));
  }
  return bits;
}

// B13: products with K split that overlap must not share counters or partial sums. Ours have neither in global memory: the
// sums meet in the shared memory of the cluster that computes the tile, so two threads at it are two independent runs.
TEST(Faults, B13_OverlappingProductsWithKSplit) {
  for (const int split : {2, 4, 8}) {
    const Configuration c = decode(16, 64, 128, 5, split);
    std::string failures[4];
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        // Sizes differ, and the split kernel is met at different points by each.
        for (int i = 0; i < 3 && failures[t].empty(); ++i) failures[t] = run(kBf16, c, {16, 64 * (t + 1), 1024 + 128 * i, 1});
      });
    for (std::thread& t : threads) t.join();
    for (const std::string& failure : failures) EXPECT_EQ(failure, "");
  }
}
// Two in one chain, the second begun while the first still sums.
TEST(Faults, B13_SplitKernelsOfAChainOverlap) {
  const Operation o = kBf16;
  const Configuration c = decode(32, 64, 128, 4, 4);
  std::vector<reference::GemmData> data;
  std::vector<emulator::GemmRun> runs;
  for (int i = 0; i < 2; ++i) {
    reference::GemmDataOptions d;
    d.seed = u64(i + 1);
    data.push_back(reference::make_gemm_data(o, {20, 128, 640, 1}, d));
  }
  for (const reference::GemmData& g : data) {
    emulator::GemmRun run{g.operation, c, g.problem, g.operands, {}, 8};
    for (const reference::HostOperand& x : g.list) run.regions.push_back({x.data(), x.data_bytes(), x.name == "D", x.name});
    run.weights_ready = true;
    runs.push_back(std::move(run));
  }
  const emulator::Report report = emulate_gemms(runs, {});
  EXPECT_TRUE(report.clean()) << report.text();
  for (const reference::GemmData& g : data) EXPECT_TRUE(g.check().passed()) << g.check().text();
}

// B14: partial sums stay in fp32. The halves of K sum to +120,000 and -120,000, beyond fp16's 65,504: with partial sums in
// the output type there is infinity minus infinity, the true sum is 0.
TEST(Faults, B14_PartialSumsAreNotRounded) {
  for (const DType type : {DType::fp16, DType::bf16})
    for (const int split : {1, 2, 4, 8}) {
      const Configuration c = decode(16, 64, 128, 5, split);
      reference::GemmData data = reference::make_gemm_data(catalogue::product(type, type), {16, 64, 2048, 1}, {});
      fill_rows(data, "A", 15, -15);
      fill_rows(data, "B", 7.8125, 7.8125);  // 1024 * 15 * 7.8125 = 120,000
      EXPECT_EQ(run(data, c), "");
      for (i64 row = 0; row < 16; ++row)
        for (i64 column = 0; column < 64; ++column) ASSERT_EQ(reference::load(type, data.find("D")->data(), row * data.find("D")->ld + column), 0.0) << text_of(c);
    }
}

// B24: few rows read the weights at the speed of memory, and more rows never take less time. By the forecast; tests/gpu
// measures it.
TEST(Faults, B24_FewRowsAtTheSpeedOfMemory) {
  const Machine machine = load_machine("h200");
  for (const DType type : {DType::bf16, DType::fp16})
    for (const auto& [n, k] : {std::pair<i64, i64>{1024, 3072}, {2112, 7168}, {4096, 4096}, {256, 2048}, {8192, 3072}}) {
      double before = 0;
      for (const i64 m : {1, 2, 4, 8, 16, 32, 64}) {
        const Problem p{m, n, k, 1};
        const Operation o = catalogue::product(type, type);
        const Conditions chain{.regime = Regime::burst, .dependent = true};
        const Configuration c = pick(machine, o, p, chain);
        EXPECT_EQ(c.family, Family::decode) << m << " " << n << " " << k;
        const double seconds = forecast(machine, o, c, p, chain).seconds, rate = double(n * k * 2) / seconds;
        if (n * k >= 8'000'000 && m <= 16) { EXPECT_GE(rate, 0.70 * machine.dram_bandwidth * machine.dram_efficiency) << text_of(c) << " " << m << " " << n << " " << k; }
        EXPECT_GE(seconds, before * 0.98) << text_of(c) << " " << m << " " << n << " " << k;
        before = seconds;
      }
    }
}

// B42: batches that would write the same output, and D over A or B in part, are refused; C in D's place is exact.
TEST(Faults, B42_OverlappingOutputs) {
  const auto refusal = [](const std::function<void(Matmul&)>& change) {
    Matmul call;
    call.m = 65, call.n = 64, call.k = 128, call.batch = 2;
    call.a = Matrix(reinterpret_cast<void*>(0x10000000), DType::bf16, 0, 65 * 128), call.b = Matrix(reinterpret_cast<void*>(0x20000000), DType::bf16, 0, 64 * 128);
    call.d = Matrix(reinterpret_cast<void*>(0x30000000), DType::bf16, 0, 65 * 64);
    change(call);
    const Status s = matmul(call);
    return s.code() == Code::invalid_argument ? s.message() : std::string();
  };
  const auto bytes = [](const Matrix& x, i64 offset) { return static_cast<void*>(static_cast<char*>(x.data) + offset); };
  EXPECT_EQ(refusal([](Matmul&) {}), "") << "nothing is wrong with the call itself";
  EXPECT_NE(refusal([](Matmul& c) { c.d.batch_stride = 0; }).find("batch_stride of D is 0"), std::string::npos);
  EXPECT_NE(refusal([](Matmul& c) { c.d.batch_stride = 65 * 64 - 1; }).find("batches of D overlap"), std::string::npos);
  EXPECT_NE(refusal([](Matmul& c) { c.d.batch_stride = 64; }).find("batches of D overlap"), std::string::npos);
  for (const bool over_a : {true, false})
    EXPECT_NE(refusal([&](Matmul& c) { c.d.data = bytes(over_a ? c.a : c.b, 4096); }).find("share elements"), std::string::npos);
  EXPECT_NE(refusal([&](Matmul& c) { c.c = c.d, c.c.data = bytes(c.d, 64), c.beta = 1; }).find("share elements"), std::string::npos) << "C shifted against D";

  for (const Configuration& c : {catalogue::coop(128, 128, 6, 2), decode(64, 64, 128, 6), decode(64, 64, 128, 6, 4), decode(16, 64, 128, 5)}) {
    reference::GemmDataOptions d;
    d.beta = 1, d.c_is_d = true;
    EXPECT_EQ(run(catalogue::full(DType::bf16, DType::bf16, Activation::gelu_erf), c, {65, 72, 512, 2}, d), "");
  }
}

// B44: with K cut alike, a row's bits do not depend on how many rows there are, on the tile, or on the schedule.
TEST(Faults, B44_BitsOfARowDependOnTheCutOfKAlone) {
  const Operation o = catalogue::product(DType::bf16, DType::fp32);
  const Problem most{40, 72, 1288, 1};
  EXPECT_NE(bits_of_d(o, decode(16, 64, 128, 5), most, 11, 1), bits_of_d(o, decode(16, 64, 128, 5, 4), most, 11, 1)) << "another cut shows, so this test can fail";
  for (const int split : {1, 2, 4}) {
    const std::vector<u8> wanted = bits_of_d(o, decode(64, 64, 128, 6, split), most, 11, 1);
    for (const i64 m : {1, 2, 9, 17, 33})
      for (const Configuration& c : {decode(8, 64, 128, 6, split), decode(16, 64, 128, 5, split), decode(32, 64, 128, 4, split), decode(96, 64, 64, 9, split)}) {
        const Problem p{m, most.n, most.k, 1};
        EXPECT_EQ(bits_of_d(o, c, p, 11, 1), wanted) << text_of(c) << " m=" << m;
      }
    for (const emulator::Options& schedule : emulator_tests::every_mode(5)) {
      emulator::Options how = schedule;
      how.races = false;
      EXPECT_EQ(bits_of_d(o, decode(16, 64, 128, 5, split), most, 11, 1, how), wanted) << "another schedule";
    }
  }
}

// B71: no number of SMs is assumed, and no block waits for one that may not be resident: with room for one cluster at a time
// the others follow.
TEST(Faults, B71_FewSmsAndFewResidentBlocks) {
  for (const Configuration& c : {decode(16, 64, 128, 5), decode(16, 64, 128, 5, 2), decode(16, 64, 128, 5, 8), catalogue::coop(128, 128, 6, 2), catalogue::coop(128, 256, 4, 2, 2)})
    for (const int sms : {1, 7, 78}) {
      const u32 cluster = u32(c.split_k * c.cluster_m * c.cluster_n);
      reference::GemmData data = reference::make_gemm_data(kBf16, {c.family == Family::decode ? 20 : 260, 200, 1032, 1}, {});
      emulator::GemmRun run{data.operation, c, data.problem, data.operands, {}, sms};
      for (const reference::HostOperand& x : data.list) run.regions.push_back({x.data(), x.data_bytes(), x.name == "D", x.name});
      emulator::Options o = quick();
      o.resident_blocks = cluster;
      const emulator::Report report = emulate_gemm(run, o);
      EXPECT_TRUE(report.clean()) << text_of(c) << " on " << sms << " SMs: " << report.text();
      EXPECT_TRUE(data.check().passed()) << data.check().text();
    }
}

}  // namespace
}  // namespace foretile
