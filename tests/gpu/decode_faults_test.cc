// Known faults of other libraries around few rows, K split over blocks, and repeatable bits, where a GPU's own schedule or
// its speed is the question. Named by their number in the collection of cases; tests/faults has those that show on a CPU.
#include <cmath>

#include "bench/invariant.h"
#include "bench/workload.h"
#include "gpu/placed.h"

namespace foretile::gpu_tests {
namespace {

class Stream {
 public:
  explicit Stream(const bench::Gpu& gpu) : gpu_(gpu) { gpu.check(gpu.driver().stream_create(&stream_, 1), "cuStreamCreate"); }  // 1: does not wait for the legacy stream
  ~Stream() { gpu_.driver().stream_destroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cuda::Stream get() const { return stream_; }
  void wait() const { gpu_.check(gpu_.driver().stream_synchronize(stream_), "cuStreamSynchronize"); }

 private:
  const bench::Gpu& gpu_;
  cuda::Stream stream_ = nullptr;
};

bool hopper(const bench::Gpu& gpu) { return gpu.info().compute_capability == 90; }
bench::VerifyCase with(bench::VerifyCase v, const Configuration& c) {
  v.configuration = c;
  return v;
}
const Operation kBf16 = operation(DType::bf16, DType::bf16);

// B13: products with K split that overlap on two streams, from two host threads.
TEST(GpuFaults, B13_SplitKOnTwoStreams) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  if (!hopper(gpu)) GTEST_SKIP() << "K is split on Hopper";
  for (const int split : {2, 4, 8}) {
    const bench::VerifyCase cases[2] = {with(make_case(kBf16, {16, 4096, 14336, 1}), catalogue::decode(16, 64, 128, 5, split)), with(make_case(kBf16, {16, 1280, 8192, 1}), catalogue::decode(16, 64, 128, 5, split))};
    std::vector<std::unique_ptr<bench::PlacedCase>> placed;
    for (const bench::VerifyCase& v : cases) placed.push_back(std::make_unique<bench::PlacedCase>(gpu, v, false));
    gpu.synchronize();  // other streams do not wait for this one
    std::vector<std::thread> threads;
    std::string trouble[2];
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&, t] {
        gpu.bind_thread();
        const Stream stream(gpu);
        Matmul call = placed[std::size_t(t)]->call();
        call.stream = stream.get();
        for (int i = 0; i < 200 && trouble[t].empty(); ++i)
          if (const Status s = matmul(call); !s) trouble[t] = s.message();
        stream.wait();
      });
    for (std::thread& t : threads) t.join();
    double worst = 0;
    for (int t = 0; t < 2; ++t) {
      EXPECT_EQ(trouble[t], "");
      EXPECT_EQ(placed[std::size_t(t)]->judge(worst), "") << cases[t].text();
    }
  }
}

// B14: partial sums stay in fp32, whatever the split: the bound is that of fp32 sums.
TEST(GpuFaults, B14_SplitKIsAsRightAsWhole) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  if (!hopper(gpu)) GTEST_SKIP() << "K is split on Hopper";
  for (const DType type : {DType::bf16, DType::fp16})
    for (const int split : {1, 2, 4}) {
      bench::VerifyCase v = with(make_case(operation(type, type), {64, 4096, 14336, 1}), catalogue::decode(64, 64, 128, 6, split));
      v.integers = false;  // random normal: sums of both signs that cancel
      EXPECT_EQ(run(gpu, v), "");
    }
}

// B24: few rows read the weights at the speed of memory, as a chain of dependent launches whose weights are ready; more rows
// take no less time. The bar is the copy rate of this GPU, measured here.
TEST(GpuFaults, B24_FewRowsAtTheSpeedOfMemory) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  if (!hopper(gpu)) GTEST_SKIP() << "the decode kernel needs Hopper";
  constexpr i64 kBytes = i64(512) << 20;
  double copy = 0;
  {
    const bench::Buffer from(gpu, kBytes), to(gpu, kBytes);
    gpu.set_bytes(from.data(), 1, kBytes);
    void *source = from.data(), *target = to.data();
    i64 count = kBytes / 16;
    const bench::Arm arm = bench::make_arm(gpu, 4, [&](i64) { gpu.launch("copy", gpu.info().sms * 16, 256, {&source, &target, &count}); });
    copy = 2 * double(kBytes) / (bench::time_arm(gpu, arm, 0.1, nullptr).microseconds * 1e-6);
  }
  std::printf("  copy: %.0f GB/s\n", copy * 1e-9);
  for (const DType type : {DType::bf16, DType::fp16}) {
    std::vector<bench::Shape> shapes;
    for (const auto& [n, k] : {std::pair<i64, i64>{2112, 7168}, {4096, 4096}, {8192, 3072}, {1024, 3072}, {256, 2048}})
      for (const i64 m : {1, 2, 4, 8, 16, 32, 64}) shapes.push_back({"", m, n, k});
    bench::Arena arena(gpu, shapes, type, type, false);
    double before = 0;
    for (const bench::Shape& s : shapes) {
      const bench::Workload w(arena, s, type, type);
      const auto launch = [&](i64 i) {
        Matmul call = w.call(i, nullptr);
        call.dependent = call.weights_ready = true;
        if (const Status status = matmul(call); !status) throw std::runtime_error(status.message());
      };
      const bench::Arm arm = bench::make_arm(gpu, std::max<i64>(w.copies(), 64), launch);
      double best = 1e9;
      for (int i = 0; i < 5; ++i) best = std::min(best, bench::time_arm(gpu, arm, 0.02, nullptr).microseconds);
      const double rate = double(s.n * s.k * 2) / (best * 1e-6);
      std::printf("  %s %4lld x %5lld x %5lld: %6.2f us, %.2f of the copy rate\n", type == DType::bf16 ? "bf16" : "fp16", static_cast<long long>(s.m), static_cast<long long>(s.n), static_cast<long long>(s.k), best, rate / copy);
      if (s.n * s.k >= 8'000'000 && s.m <= 32) { EXPECT_GE(rate, 0.70 * copy) << s.m << " " << s.n << " " << s.k; }
      if (s.n * s.k >= 8'000'000) { EXPECT_GE(rate, 0.60 * copy) << s.m << " " << s.n << " " << s.k; }
      if (s.m > 1) { EXPECT_GE(best, 0.93 * before) << "less time than fewer rows took: " << s.m << " " << s.n << " " << s.k; }
      before = best;
    }
  }
}

// B44: the batch-invariant mode keeps a row's bits whatever M is; and every call repeats its bits.
TEST(GpuFaults, B44_BatchInvariantBits) {
  GPU_OR_SKIP();
  bench::InvariantOptions o;
  o.shapes = {{"qkv", 0, 4096, 4096}, {"narrow", 0, 1280, 8192}};
  const bench::InvariantReport r = bench::invariant(o);
  EXPECT_TRUE(r.passed()) << r.text();
}
TEST(GpuFaults, B44_B46_RepeatedCallsHaveTheSameBits) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  std::vector<std::optional<Configuration>> configurations{std::nullopt, catalogue::simt(64, 64, 16, 4, 4)};
  if (hopper(gpu))
    for (const Configuration& c : {catalogue::coop(128, 256, 4, 2), catalogue::pingpong(128, 128, 6, 2), catalogue::coop(128, 256, 4, 2, 2), catalogue::decode(32, 64, 128, 4), catalogue::decode(32, 64, 128, 4, 4), catalogue::decode(64, 128, 64, 7, 2)}) configurations.push_back(c);
  const Stream other(gpu);
  for (const std::optional<Configuration>& c : configurations) {
    const bool few = c && c->family == Family::decode;
    bench::VerifyCase v = make_case(kBf16, {few ? 29 : 1024, 1032, 2048, 1});
    v.integers = false, v.configuration = c;
    bench::PlacedCase placed(gpu, v, false), disturbing(gpu, v, false);
    Matmul beside = disturbing.call();
    beside.stream = other.get();
    gpu.synchronize();  // the other stream does not wait for this one
    const auto checksum = [&] { return gpu.checksum(placed.call().d.data, std::size_t(v.d.span() * size_of(v.d.type))); };
    ASSERT_TRUE(matmul(placed.call()));
    gpu.synchronize();
    const u64 wanted = checksum();
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(matmul(beside));
      ASSERT_TRUE(matmul(placed.call()));
      gpu.synchronize();
      ASSERT_EQ(checksum(), wanted) << v.text() << ", call " << i + 2;
    }
    other.wait();
  }
}

// B71: few SMs, and SMs that others hold.
TEST(GpuFaults, B71_FewSms) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  const Stream other(gpu);
  for (const i64 m : {16, 300})
    for (const int sms : {1, 7, 78}) {
      bench::VerifyCase v = make_case(kBf16, {m, 1280, 8192, 1});
      v.sm_budget = std::min(sms, gpu.info().sms);
      EXPECT_EQ(run(gpu, v), "");
      if (!hopper(gpu)) continue;
      for (const Configuration& c : {catalogue::decode(16, 64, 128, 5, 8), catalogue::decode(16, 64, 128, 10, 2), catalogue::coop(128, 256, 4, 2, 2)}) EXPECT_EQ(run(gpu, with(v, c)), "");
    }
  // Half of the SMs held for a quarter of a second each time; the product needs the others alone.
  std::vector<std::optional<Configuration>> configurations{std::nullopt};
  if (hopper(gpu)) configurations.insert(configurations.end(), {catalogue::decode(16, 64, 128, 5, 8), catalogue::decode(64, 64, 128, 6, 4), catalogue::coop(128, 256, 4, 2, 2)});
  for (const std::optional<Configuration>& c : configurations) {
    bench::VerifyCase v = make_case(kBf16, {60, 1280, 8192, 1});
    v.configuration = c;
    bench::PlacedCase placed(gpu, v, false);
    Matmul call = placed.call();
    call.stream = other.get();
    ASSERT_TRUE(prepare(call));
    gpu.synchronize();  // the other stream does not wait for this one
    u64 duration = 250'000'000;
    gpu.launch("hold", gpu.info().sms / 2, 1024, {&duration});
    ASSERT_TRUE(matmul(call));
    other.wait();
    gpu.synchronize();
    double worst = 0;
    EXPECT_EQ(placed.judge(worst), "") << v.text();
  }
}

}  // namespace
}  // namespace foretile::gpu_tests
