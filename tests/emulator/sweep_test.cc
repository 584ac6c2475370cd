// No false report: every kernel that is built in, and configurations beyond the catalogue, on correct products in every
// asynchronous mode and many schedules, with nothing found and exact results.
//
// All of it takes minutes: tools/sweep.sh. Otherwise a sample runs: a few combinations of each kernel, which a hash of the kernel
// and of the device sources picks. A change of any kernel moves the sample on; the same sources run the same again.
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "emulator/library/built_in.h"
#include "emulator/library/store.h"
#include "foretile/device/legality.h"
#include "kernels.h"
#include "model/text.h"
#include "product.h"
#include "runtime/embedded_sources.h"

namespace foretile::emulator_tests {

using namespace emulator;

namespace {

constexpr Async kAsyncs[] = {Async::eager, Async::lazy, Async::random};
constexpr int kSchedules = 20;  // round robin, then random and priorities in turn
constexpr int kCombinations = 3 * kSchedules;
constexpr int kSampled = 2;     // combinations of a kernel

struct Kernel {
  Operation operation;
  Configuration configuration;
};

// Branches that no configuration of the catalogue takes: other rings, depths, clusters, numbers of consumers.
constexpr Configuration kMore[] = {
    {.family = Family::sm90, .tile_m = 256, .tile_n = 128, .tile_k = 64, .stages = 3, .schedule = Schedule::cooperative, .store_buffers = 1},
    {.family = Family::sm90, .tile_m = 128, .tile_n = 128, .tile_k = 64, .stages = 4, .cluster_n = 2, .schedule = Schedule::cooperative, .store_buffers = 2},
    {.family = Family::sm90, .tile_m = 64, .tile_n = 96, .tile_k = 192, .stages = 2, .schedule = Schedule::pingpong, .store_buffers = 1},
    {.family = Family::sm90, .tile_m = 64, .tile_n = 256, .tile_k = 64, .stages = 4, .cluster_m = 2, .schedule = Schedule::pingpong, .store_buffers = 3},
    {.family = Family::sm90, .tile_m = 192, .tile_n = 64, .tile_k = 128, .stages = 2, .schedule = Schedule::cooperative, .store_buffers = 4},
    {.family = Family::sm90, .tile_m = 64, .tile_n = 16, .tile_k = 64, .stages = 16, .cluster_n = 2, .schedule = Schedule::cooperative, .store_buffers = 1},
    {.family = Family::sm90, .tile_m = 64, .tile_n = 128, .tile_k = 64, .stages = 9, .schedule = Schedule::cooperative, .store_buffers = 1},
    {.family = Family::sm90, .tile_m = 64, .tile_n = 48, .tile_k = 256, .stages = 3, .schedule = Schedule::cooperative, .store_buffers = 1},
    {.family = Family::simt, .tile_m = 128, .tile_n = 64, .tile_k = 8, .thread_m = 8, .thread_n = 4},
    {.family = Family::simt, .tile_m = 16, .tile_n = 128, .tile_k = 16, .thread_m = 4, .thread_n = 8},
    catalogue::ffma(32, 64, 8, 8, 8, 1, 8),
    catalogue::ffma(16, 96, 16, 4, 12, 2, 3),
    catalogue::ffma(64, 224, 8, 4, 28),
    catalogue::rows(4, 64, 32, 4, 2, 3, 2),
    catalogue::rows(8, 128, 128, 4, 8, 2, 16),
    catalogue::rows(32, 48, 96, 8, 6, 2, 4, 3),
};

std::vector<Kernel> all_kernels() {
  std::vector<Kernel> list;
  for (const BuiltIn& k : built_in_kernels()) list.push_back({k.operation, k.configuration});
  const Operation aligned = catalogue::product(DType::bf16, DType::bf16), fp32 = catalogue::product(DType::fp32, DType::fp32);
  for (const Configuration& c : kMore) list.push_back({c.family == Family::sm90 ? aligned : c.family == Family::rows ? fp32 : catalogue::unaligned(c.family == Family::ffma ? fp32 : aligned), c});
  return list;
}

u64 hash_of(const std::string& text) { return Hash().add(text).value; }

// Fewer and more rows and columns than a tile, one step of K and more of them than the ring is deep.
Problem problem_of(const Operation& o, const Configuration& c, u64 bits) {
  const auto pick = [&bits](std::initializer_list<i64> sizes) {
    const i64 size = sizes.begin()[bits % sizes.size()];
    bits /= sizes.size();
    return size;
  };
  const int slices = c.family == Family::rows ? c.cluster_k : c.split_k;
  const i64 m = i64(c.tile_m) * c.cluster_m, n = i64(c.tile_n) * c.cluster_n, ring = i64(std::max(1, c.stages)) * c.tile_k * slices;
  const i64 least = slices > 1 ? i64(decode::kSliceUnit) * slices : 8;  // a slice for every block
  return {.m = pick({1, m / 2, m, m + 5}), .n = round_up(pick({8, n, n + 8, n + n / 2}), o.gating == Gating::none ? i64(1) : i64(16)), .k = std::max(least, pick({8, c.tile_k, ring + c.tile_k + 8, ring + 2 * c.tile_k})), .batch = pick({1, 1, 1, 2})};
}

// Empty, or what is wrong.
std::string run_one(const Kernel& k, int combination, u64 bits) {
  const int schedule = combination / 3;
  Options o;
  o.async = kAsyncs[combination % 3];
  o.scheduling = schedule == 0 ? Scheduling::round_robin : schedule % 2 ? Scheduling::random : Scheduling::priority;
  o.seed = u64(schedule) + 1;
  o.dependent_launch = true;
  const bool weights_ready = schedule / 2 % 2;  // with every kind of schedule
  Problem p = problem_of(k.operation, k.configuration, bits);
  for (u64 other = bits; why_not(k.operation, k.configuration, p); p = problem_of(k.operation, k.configuration, ++other))
    if (other == bits + 64) return fmt::format("{} {} computes none of the sizes", text_of(k.operation), text_of(k.configuration));
  reference::GemmDataOptions d;
  d.seed = bits % 1000;
  if (k.operation.has_c) d.beta = 2;
  if (k.operation.inputs == Alignment::any) d.a.pointer_offset = 1;
  if (k.operation.output == Alignment::any) d.d.pointer_offset = 1;
  const std::string failure = run_product(k.operation, k.configuration, p, d, o, 2, weights_ready).failure();
  return failure.empty() ? failure : fmt::format("{} {} m={} n={} k={} batch={}{} combination {} bits {}: {}", text_of(k.operation), text_of(k.configuration), p.m, p.n, p.k, p.batch, weights_ready ? " weights ready" : "", combination, bits, failure);
}

TEST(Sweep, NothingIsReportedOfCorrectKernels) {
  const char* asked = std::getenv("FORETILE_SWEEP");
  const bool full = asked && std::strcmp(asked, "full") == 0;
  u64 sources = 0;
  for (const EmbeddedFile& f : embedded_device_sources()) sources ^= hash_of(std::string(f.name) + std::string(f.text));

  struct Job { Kernel kernel; int combination; u64 bits; };
  std::vector<Job> jobs;
  const std::vector<Kernel> kernels = all_kernels();
  std::set<std::string> configurations;
  for (const Kernel& k : kernels) {
    const std::string name = text_of(k.operation) + text_of(k.configuration);
    configurations.insert(text_of(k.configuration));
    ASSERT_EQ(why_not(k.operation, k.configuration), nullptr) << name;
    for (int i = 0; i < (full ? kCombinations : kSampled); ++i) {
      const u64 bits = hash_of(fmt::format("{} {} {}", name, i, full ? 0 : sources));
      jobs.push_back({k, full ? i : int(bits % kCombinations), bits / kCombinations});
    }
  }
  EXPECT_GE(configurations.size(), 25u);

  std::atomic<std::size_t> next = 0, failed = 0;
  std::mutex mutex;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < jobs.size() && failed < 5;) {
      const std::string failure = run_one(jobs[i].kernel, jobs[i].combination, jobs[i].bits);
      const std::lock_guard lock(mutex);
      if (!failure.empty()) ++failed, ADD_FAILURE() << failure;
      if (full && i % 500 == 499) fmt::print(stderr, "{} of {} runs\n", i + 1, jobs.size());
    }
  };
  std::vector<std::thread> threads(full ? std::max(1u, std::thread::hardware_concurrency()) : 1);
  for (std::thread& t : threads) t = std::thread(work);
  for (std::thread& t : threads) t.join();
  fmt::print("{} kernels of {} configurations, {} runs\n", kernels.size(), configurations.size(), jobs.size());
}

}  // namespace
}  // namespace foretile::emulator_tests
