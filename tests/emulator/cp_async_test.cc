// cp_async: what lands when, zero-fill, groups; and the mistakes that kernels make with it.
#include "kernels.h"

namespace foretile::emulator_tests {

using namespace emulator;
namespace {

SmemAddress word(u32 i) { return shared_base() + 4 * i; }

// A ring of two stages of 32 words, each lane reading its neighbour's; `broken` leaves one thing out.
enum class Break { nothing, no_commit, no_wait, wait_for_too_few, no_barrier_after_wait, no_barrier_before_reuse, no_last_wait };
struct Ring {
  static constexpr u32 kSteps = 5;
  Aligned<float> in{32 * kSteps}, out{32};

  Report run(Break broken, const Options& o) {
    std::iota(in.data, in.data + in.count, 0.0f);
    return emulate(one_block(32), [&] {
      const u32 lane = lane_index();
      const auto fetch = [&](u32 step) {
        if (step < kSteps) cp_async<4>(word(step % 2 * 32 + lane), in.data + 32 * step + lane);
        if (broken != Break::no_commit) cp_async_commit();
      };
      float sum = 0;
      fetch(0);
      for (u32 step = 0; step < kSteps; ++step) {
        if (broken != Break::no_wait) {
          if (broken == Break::wait_for_too_few) cp_async_wait<1>();
          else cp_async_wait<0>();
        }
        if (broken != Break::no_barrier_after_wait) sync_block();
        fetch(step + 1);
        sum += load_shared<float>(word(step % 2 * 32 + (lane + 1) % 32));
        if (broken == Break::no_barrier_before_reuse && step + 2 < kSteps) cp_async<4>(word(step % 2 * 32 + lane), in.data + lane);
      }
      if (broken == Break::no_last_wait) fetch(0);
      store_global(out.data + lane, sum);
    }, {in.region("in"), out.region("out", true)}, o);
  }
};

TEST(CpAsync, RingIsCleanAndExactInEveryMode) {
  for (u64 seed = 0; seed < 5; ++seed)
    for (const Options& o : every_mode(seed)) {
      Ring ring;
      const Report r = ring.run(Break::nothing, o);
      ASSERT_EQ(r.text(), "no findings") << mode_name(o);
      for (u32 lane = 0; lane < 32; ++lane) ASSERT_EQ(ring.out[lane], 5 * float((lane + 1) % 32) + 320) << mode_name(o);
    }
}

struct Defect {
  const char* name;
  const char* kind;
  Break broken;
};
std::ostream& operator<<(std::ostream& out, const Defect& d) { return out << d.name; }
class PlantedInRing : public testing::TestWithParam<Defect> {};

// Not in some schedule: in every one.
TEST_P(PlantedInRing, IsReportedInEveryMode) {
  for (const Options& o : every_mode()) {
    Ring ring;
    const Report r = ring.run(GetParam().broken, o);
    EXPECT_TRUE(r.has(GetParam().kind)) << mode_name(o) << ": " << r.text();
  }
}
INSTANTIATE_TEST_SUITE_P(Defects, PlantedInRing,
                         testing::Values(Defect{"not_committed", "race", Break::no_commit}, Defect{"not_committed_at_the_end", "exit", Break::no_commit},
                                         Defect{"not_waited_for", "race", Break::no_wait}, Defect{"returns_with_copies_in_flight", "exit", Break::no_last_wait},
                                         Defect{"waits_for_too_few_groups", "race", Break::wait_for_too_few},
                                         Defect{"others_copies_read_without_a_barrier", "race", Break::no_barrier_after_wait},
                                         Defect{"stage_overwritten_while_others_read", "race", Break::no_barrier_before_reuse}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CpAsync, FillsWithZerosAndReadsNothingBeyond) {
  Aligned<float> in(4, 7.0f);
  std::vector<float> got(32 * 4);
  for (const Options& o : every_mode()) {
    const Report r = emulate(one_block(32), [&] {
      const u32 lane = lane_index();
      // Lane 0 takes all four, lanes 1 to 3 fewer, the others nothing, out of an address that nothing stands at.
      cp_async<16>(shared_base() + 16 * lane, lane < 4 ? in.data : reinterpret_cast<const float*>(u64(64)), lane < 4 ? 16 - 4 * lane : 0);
      cp_async_commit();
      cp_async_wait<0>();
      const f32x4 v = load_shared<f32x4>(shared_base() + 16 * lane);
      got[4 * lane] = v.x, got[4 * lane + 1] = v.y, got[4 * lane + 2] = v.z, got[4 * lane + 3] = v.w;
    }, {in.region("in")}, o);
    ASSERT_EQ(r.text(), "no findings") << mode_name(o);
    for (u32 lane = 0; lane < 32; ++lane)
      for (u32 i = 0; i < 4; ++i) ASSERT_EQ(got[4 * lane + i], lane < 4 && i < 4 - lane ? 7.0f : 0.0f) << lane << " " << i;
  }
}

TEST(CpAsync, WaitsInWordsAndAddressesAreChecked) {
  Aligned<float> in(8), out(8);
  const std::vector<Region> regions{in.region("in"), out.region("out", true)};
  const auto run = [&](auto body) {
    return emulate(one_block(32), [&] {
      if (thread_index() == 0) body();
      cp_async_commit();
      cp_async_wait<0>();
    }, regions);
  };
  EXPECT_TRUE(run([&] { cp_async<8>(word(2), in.data + 2); }).clean());
  EXPECT_TRUE(run([&] { cp_async<8>(word(1), in.data + 2); }).has("misaligned"));
  EXPECT_TRUE(run([&] { cp_async<16>(word(0), in.data + 2); }).has("misaligned"));
  EXPECT_TRUE(run([&] { cp_async<16>(word(1024), in.data); }).has("out-of-bounds"));
  EXPECT_TRUE(run([&] { cp_async<4>(word(0), in.data + 8); }).has("out-of-bounds"));
  EXPECT_TRUE(run([&] { cp_async<4>(word(0), in.data, 5); }).has("out-of-bounds"));
}

TEST(CpAsync, SourceWrittenInTheMeantimeIsARace) {
  for (const Options& o : every_mode()) {
    Aligned<float> x(64);
    const Report r = emulate(one_block(64), [&] {
      if (warp_index() == 0) cp_async<4>(word(lane_index()), x.data + lane_index());
      else store_global(x.data + lane_index(), 1.0f);
      cp_async_commit();
      cp_async_wait<0>();
    }, {x.region("x", true)}, o);
    EXPECT_TRUE(r.has("race")) << mode_name(o);
  }
}

TEST(CpAsync, TraceCountsBothSides) {
  Aligned<float> in(512);
  Options o;
  o.trace = true;
  const Report r = emulate(one_block(32), [&] {
    cp_async<4>(word(lane_index() * 16), in.data + 2 * lane_index());  // every other word in, two banks out
    cp_async_commit();
    cp_async_wait<0>();
  }, {in.region("in")}, o);
  ASSERT_EQ(r.accesses.size(), 2u);
  EXPECT_EQ(r.accesses[0].call, "cp_async from global");
  EXPECT_EQ(r.accesses[0].sectors, 8u);
  EXPECT_EQ(r.accesses[1].call, "cp_async to shared");
  EXPECT_EQ(r.accesses[1].wavefronts, 16u);
}

}  // namespace
}  // namespace foretile::emulator_tests
