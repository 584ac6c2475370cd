// Barriers of every kind: what they order, when they complete, what misuse is reported, deadlock with its reasons.
#include "kernels.h"

namespace foretile::emulator_tests {

using namespace emulator;
namespace {


TEST(Barriers, SyncBlockOrdersSharedMemory) {
  for (const Options& o : every_mode()) {
    std::vector<u32> seen(128);
    const Report r = emulate(one_block(128), [&] {
      const u32 t = thread_index();
      for (u32 round = 0; round < 3; ++round) {
        store_shared<u32>(shared_base() + 4 * t, t + round);
        sync_block();
        seen[t] = load_shared<u32>(shared_base() + 4 * ((t + 37) % 128)) - round;
        sync_block();
      }
    }, {}, o);
    EXPECT_EQ(r.text(), "no findings") << mode_name(o);
    for (u32 t = 0; t < 128; ++t) EXPECT_EQ(seen[t], (t + 37) % 128);
  }
}

TEST(Barriers, NamedBarrierArriveDoesNotWaitButReleases) {
  for (const Options& o : every_mode()) {
    bool ran_ahead = false, consumed = false;
    const Report r = emulate(one_block(64), [&] {
      if (warp_index() == 0) {
        store_shared<u32>(shared_base() + 4 * lane_index(), 7u);
        named_barrier_arrive(3, 64);
        ran_ahead = true;
      } else {
        named_barrier_sync(3, 64);
        consumed = load_shared<u32>(shared_base() + 4 * lane_index()) == 7u;
      }
    }, {}, o);
    EXPECT_EQ(r.text(), "no findings") << mode_name(o);
    EXPECT_TRUE(ran_ahead && consumed);
  }
}

TEST(Barriers, ThreadsThatReturnedAreNotAwaitedBySyncBlock) {
  const Report r = emulate(one_block(64), [] {
    if (warp_index() == 1) return;
    sync_block();
  }, {});
  EXPECT_EQ(r.text(), "no findings");
}

// Copies may land before the expectation is announced: the count is signed, and the pending arrival keeps the phase open.
TEST(Barriers, TransactionCountIsSigned) {
  Aligned<float> source(64 * 4);
  std::iota(source.data, source.data + 256, 0.0f);
  const TensorMap map = map_of(source.data, DType::fp32, 32, 8, 32, 8);
  for (const Options& o : every_mode()) {
    float got = 0;
    const Report r = emulate(one_block(32), [&] {
      init_barriers({{2048, 1}});
      if (thread_index() == 0) {
        tma_load(shared_base(), map, {0, 0, 0}, barrier_at(2048));
        mbarrier_arrive_expect(barrier_at(2048), 1024);
      }
      mbarrier_wait(barrier_at(2048), 0);
      if (thread_index() == 5) got = load_shared<float>(shared_base() + 4 * 77);
    }, {source.region("source")}, o);
    EXPECT_EQ(r.text(), "no findings") << mode_name(o);
    EXPECT_EQ(got, 77);
  }
}

TEST(Barriers, AFreshMbarrierLetsParityOnePass) {
  const Report r = emulate(one_block(32), [] {
    init_barriers({{0, 32}});
    mbarrier_wait(barrier_at(0), 1);
    mbarrier_arrive(barrier_at(0));
    mbarrier_wait(barrier_at(0), 0);
  }, {});
  EXPECT_EQ(r.text(), "no findings");
}

TEST(Barriers, ClusterBarrierJoinsAllBlocks) {
  for (const Options& o : every_mode()) {
    LaunchShape shape = one_block(32);
    shape.blocks = 4, shape.cluster = 2;
    int early = 0, arrived[2] = {};
    const Report r = emulate(shape, [&] {
      const u32 cluster = block_index().x / 2;
      ++arrived[cluster];
      cluster_arrive();
      cluster_wait();
      early += arrived[cluster] != 64;
    }, {}, o);
    EXPECT_EQ(r.text(), "no findings") << mode_name(o);
    EXPECT_EQ(early, 0);
  }
}

// The relaxed arrival is enough for a peer's signals: it says that the barriers stand, and nothing else (defects_test.cc).
TEST(Barriers, RelaxedClusterArrivalAnnouncesInitialisedMbarriers) {
  for (const Options& o : every_mode()) {
    LaunchShape shape = one_block(32);
    shape.blocks = 4, shape.cluster = 2;
    const Report r = emulate(shape, [&] {
      const bool first = thread_index() == 0;
      if (first) mbarrier_init(barrier_at(0), 1), fence_mbarrier_init(), mbarrier_arrive_expect(barrier_at(0), 4);
      sync_warp();
      cluster_arrive_relaxed();
      cluster_wait();
      const u32 peer = cluster_rank() ^ 1;
      if (first) store_cluster_async(cluster_address(shared_base() + 64, peer), 5.0f, cluster_address(barrier_at(0).address, peer));
      mbarrier_wait(barrier_at(0), 0);
      EXPECT_EQ(load_shared<float>(shared_base() + 64), 5.0f);
    }, {}, o);
    EXPECT_EQ(r.text(), "no findings") << mode_name(o);
  }
}

TEST(Barriers, ElectOneElectsOneAndNotAlwaysLaneZero) {
  std::vector<u32> lanes;
  for (u64 seed = 0; seed < 8; ++seed)
    emulate(one_block(32), [&] { if (elect_one()) lanes.push_back(lane_index()); }, {}, {.scheduling = Scheduling::random, .seed = seed});
  ASSERT_EQ(lanes.size(), 8u);
  EXPECT_NE(std::count(lanes.begin(), lanes.end(), lanes[0]), 8);
}

TEST(Barriers, RegisterPoolLetsASplitThatFitsPass) {
  LaunchShape shape = one_block(384);
  shape.registers = 168;
  const auto kernel = [](bool too_greedy) {
    return [too_greedy] {
      if (warp_index() < 4) register_release<40>();
      else if (too_greedy) register_acquire<240>();
      else register_acquire<232>();
    };
  };
  EXPECT_EQ(emulate(shape, kernel(false), {}).text(), "no findings");
  const Report r = emulate(shape, kernel(true), {});
  ASSERT_TRUE(r.has("deadlock")) << r.text();
  EXPECT_NE(r.text().find("registers a thread"), std::string::npos) << r.text();
}

// The message a kernel engineer needs: every distinct site, the barrier, the phase, what is missing.
TEST(Deadlock, NamesSitesBarriersPhasesArrivalsAndBytes) {
  Launch launch{one_block(64), [] {
    init_barriers({{64, 1}, {128, 3}});
    if (warp_index() == 0) {
      if (lane_index() == 0) mbarrier_arrive_expect(barrier_at(64), 512);
      mbarrier_wait(barrier_at(128), 0);
    } else {
      mbarrier_wait(barrier_at(64), 0);
      if (lane_index() == 0) mbarrier_arrive(barrier_at(128));
    }
  }, {}};
  launch.name_shared = [](u32 offset) { return offset == 64 ? "full barrier" : "empty barrier"; };
  launch.name_role = [](u32 warp) { return warp == 0 ? "producer" : "consumer"; };
  const Report r = emulate({launch});
  ASSERT_EQ(r.findings.size(), 1u);
  EXPECT_EQ(r.findings[0].kind, "deadlock");
  const std::string text = r.text();
  for (const char* part : {"64 threads", "warp 0 (producer)", "warp 1 (consumer)", "barrier_test.cc:", "full barrier", "empty barrier", "phase 0 (parity 0)", "3 of 3 arrivals pending", "512 bytes missing"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " not in:\n" << text;
}

TEST(Deadlock, LivelockOfPollingThreadsIsFound) {
  const Report r = emulate(one_block(32), [] {
    init_barriers({{0, 2}});
    while (!mbarrier_test(barrier_at(0), 0)) {
    }
  }, {});
  EXPECT_TRUE(r.has("livelock")) << r.text();
}

// Blocks that wait for blocks which cannot be resident at the same time.
TEST(Deadlock, SpinningOnABlockThatIsNotResident) {
  Aligned<u32> flag(4);
  LaunchShape shape = one_block(32);
  shape.blocks = 3;
  const auto kernel = [&] {
    if (block_index().x == 2) store_global(flag.data, 1u);
    while (load_global(flag.data) == 0) {
    }
  };
  Options o;
  o.races = false;  // the flag itself is a race: the vocabulary has no atomic access
  EXPECT_EQ(emulate(shape, kernel, {flag.region("flag", true)}, o).text(), "no findings");
  flag[0] = 0;
  o.resident_blocks = 2;
  const Report r = emulate(shape, kernel, {flag.region("flag", true)}, o);
  ASSERT_TRUE(r.has("livelock")) << r.text();
  EXPECT_NE(r.text().find("blocks 2 to 2 have not started"), std::string::npos) << r.text();
}

}  // namespace
}  // namespace foretile::emulator_tests
