// Planted defects: each kind of mistake in a kernel that makes it, and the finding that names it. A defect counts as found
// when at least one of the modes that run here reports the kind expected; the correct kernels are clean in all of them.
#include <fmt/format.h>

#include "pipeline.h"

namespace foretile::emulator_tests {

using namespace emulator;

namespace {

struct Defect {
  const char* name;
  const char* kind;                           // of the finding expected
  std::function<Report(const Options&)> run;
};

std::ostream& operator<<(std::ostream& out, const Defect& d) { return out << d.name; }

// ---- in the pipeline of pipeline.h -----------------------------------------------------------------------
Defect in_pipeline(const char* name, const char* kind, Break broken) {
  return {name, kind, [broken](const Options& o) { return Pipeline().run(broken, o); }};
}

// ---- small kernels ---------------------------------------------------------------------------------------
Defect in_block(const char* name, const char* kind, u32 threads, std::function<void()> body, u32 blocks = 1, u32 cluster = 1) {
  return {name, kind, [=](const Options& o) {
            LaunchShape shape = one_block(threads);
            shape.blocks = blocks, shape.cluster = cluster;
            return emulate(shape, body, {}, o);
          }};
}

// With a source of 8 x 32 floats, its map, and an output of 64 floats.
struct Memory {
  Aligned<float> source{256}, output{64};
  TensorMap load = map_of(source.data, DType::fp32, 32, 8, 32, 8);
  TensorMap store = map_of(output.data, DType::fp32, 32, 2, 32, 1);
  std::vector<Region> regions() const { return {source.region("source"), output.region("output", true)}; }
};
Defect with_memory(const char* name, const char* kind, u32 threads, std::function<void(Memory&)> body, u32 blocks = 1, u32 cluster = 1, bool dependent = false) {
  return {name, kind, [=](const Options& given) {
            Memory m;
            LaunchShape shape = one_block(threads);
            shape.blocks = blocks, shape.cluster = cluster;
            Options o = given;
            o.dependent_launch = dependent;
            return emulate(shape, [&] { body(m); }, m.regions(), o);
          }};
}

SmemAddress word(u32 i) { return shared_base() + 4 * i; }
bool first() { return thread_index() == 0; }
void init(u32 offset, u32 arrivals) { init_barriers({{offset, arrivals}}); }
void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}
void load_and_wait(Memory& m) {
  init(2048, 1);
  if (first()) {
    mbarrier_arrive_expect(barrier_at(2048), 1024);
    tma_load(shared_base(), m.load, {0, 0, 0}, barrier_at(2048));
  }
  mbarrier_wait(barrier_at(2048), 0);
}

// Two consumer blocks of a cluster take part in every multicast; with unequal numbers of steps one waits for ever (B48).
void unequal_cluster(Memory& m) {
  const Mbarrier full = barrier_at(2048), empty = barrier_at(2056);
  if (first()) {
    mbarrier_init(full, 1);
    mbarrier_init(empty, 2);
    fence_mbarrier_init();
  }
  cluster_sync();
  const u32 steps = cluster_rank() == 0 ? 3 : 2, half = cluster_rank() * 512;
  for (u32 i = 0; i < steps; ++i) {
    if (first()) {
      mbarrier_wait(empty, (i & 1) ^ 1);
      mbarrier_arrive_expect(full, 1024);
      const TensorMap rows = map_of(m.source.data, DType::fp32, 32, 8, 32, 4);
      tma_load_multicast(shared_base() + half, rows, {0, i32(4 * cluster_rank()), 0}, full, 3);
    }
    mbarrier_wait(full, i & 1);
    sync_warp();
    if (lane_index() < 2) mbarrier_arrive_cluster(empty, lane_index());
  }
  cluster_sync();
}

// Each block of a cluster of two sends 32 floats to its peer, who waits for them and reads: correct but for what is broken.
enum class Sent { right, before_cluster_wait, without_barrier, barrier_elsewhere, beyond_the_cluster, read_before_wait, one_dropped, one_too_many, receiver_leaves, out_of_bounds, two_to_one_word };
void send_to_peer(Sent broken) {
  const auto is = [&](Sent s) { return broken == s; };
  const Mbarrier landed = barrier_at(2048);
  const u32 peer = cluster_rank() ^ 1;
  if (first() && !is(Sent::without_barrier)) {
    mbarrier_init(landed, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(landed, 128);
  }
  sync_warp();
  if (!is(Sent::before_cluster_wait)) cluster_sync();
  const SmemAddress place = word(is(Sent::two_to_one_word) ? lane_index() / 2 : lane_index()) + (is(Sent::out_of_bounds) ? 4096 : 0);
  const ClusterAddress to = cluster_address(place, is(Sent::beyond_the_cluster) ? 2 : peer);
  const ClusterAddress counted = cluster_address(landed.address, is(Sent::barrier_elsewhere) ? cluster_rank() : is(Sent::beyond_the_cluster) ? 2 : peer);
  if (!(is(Sent::one_dropped) && lane_index() == 7)) store_cluster_async(to, float(lane_index()), counted);
  if (is(Sent::one_too_many) && lane_index() == 7) store_cluster_async(cluster_address(word(40), peer), 1.0f, counted);
  if (is(Sent::before_cluster_wait)) cluster_sync();
  if (is(Sent::receiver_leaves)) return;
  if (is(Sent::read_before_wait)) load_shared<float>(word(lane_index()));
  mbarrier_wait(landed, 0);
  load_shared<float>(word(lane_index()));
}
Defect sending(const char* name, const char* kind, Sent broken) {
  return in_block(name, kind, 32, [broken] { send_to_peer(broken); }, 2, 2);
}

// The same with eight stores of 16 bytes.
enum class SentWide { right, misaligned, into_the_one_before, one_word_read_before_wait, one_dropped, counted_as_four_bytes };
void send_wide(SentWide broken) {
  const auto is = [&](SentWide s) { return broken == s; };
  const Mbarrier landed = barrier_at(2048);
  const u32 peer = cluster_rank() ^ 1, lane = lane_index();
  if (first()) {
    mbarrier_init(landed, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(landed, is(SentWide::counted_as_four_bytes) ? 32 : 128);
  }
  sync_warp();
  cluster_sync();
  const u32 place = is(SentWide::into_the_one_before) && lane == 5 ? 4 * 4 : 4 * lane;
  if (lane < 8 && !(is(SentWide::one_dropped) && lane == 7))
    store_cluster_async(cluster_address(word(place) + (is(SentWide::misaligned) ? 8 : 0), peer), f32x4{1, 2, 3, float(lane)}, cluster_address(landed.address, peer));
  if (is(SentWide::one_word_read_before_wait) && lane == 0) load_shared<float>(word(30));
  mbarrier_wait(landed, 0);
  if (!is(SentWide::into_the_one_before)) load_shared<float>(word(lane));
  cluster_sync();
}
Defect sending_wide(const char* name, const char* kind, SentWide broken) {
  return in_block(name, kind, 32, [broken] { send_wide(broken); }, 2, 2);
}

const std::vector<Defect>& defects() {
  static const std::vector<Defect> list = {
      in_pipeline("consumer_does_not_wait_for_full", "race", Break::no_wait_full),
      in_pipeline("producer_does_not_wait_for_empty", "race", Break::no_wait_empty),
      in_pipeline("one_warp_of_four_waits_for_full", "race", Break::one_warp_waits_full),
      in_pipeline("full_awaited_with_wrong_parity", "mbarrier", Break::wait_full_wrong_parity),
      in_pipeline("empty_awaited_with_wrong_parity", "deadlock", Break::wait_empty_wrong_parity),
      in_pipeline("more_bytes_expected_than_land", "deadlock", Break::expect_too_many),
      in_pipeline("fewer_bytes_expected_than_land", "deadlock", Break::expect_too_few),
      in_pipeline("no_bytes_expected", "deadlock", Break::no_expect),
      in_pipeline("full_count_too_high", "deadlock", Break::full_count_two),
      in_pipeline("empty_count_too_high", "deadlock", Break::empty_count_high),
      in_pipeline("empty_count_too_low", "partial-release", Break::empty_count_low),
      in_pipeline("stage_released_before_wgmma_wait", "race", Break::release_before_wait),
      in_pipeline("three_of_four_warps_release", "partial-release", Break::release_three_warps),
      in_pipeline("stage_released_twice", "mbarrier", Break::release_twice),
      in_pipeline("stage_never_released", "deadlock", Break::no_release),
      in_pipeline("no_wgmma_fence", "wgmma", Break::no_wgmma_fence),
      in_pipeline("no_wgmma_commit", "race", Break::no_wgmma_commit),
      in_pipeline("no_wgmma_wait", "wgmma", Break::no_wgmma_wait),
      in_pipeline("accumulator_read_before_the_wait", "wgmma", Break::accumulator_read_early),
      in_pipeline("accumulator_written_in_flight", "wgmma", Break::accumulator_written_in_flight),
      in_pipeline("no_fence_after_barrier_init", "missing-proxy-fence", Break::no_init_fence),
      in_pipeline("no_sync_after_barrier_init", "race", Break::no_init_sync),
      in_pipeline("B46_no_proxy_fence_before_tma_store", "missing-proxy-fence", Break::no_proxy_fence),
      in_pipeline("no_barrier_before_tma_store", "race", Break::no_store_barrier),
      in_pipeline("no_barrier_before_buffer_reuse", "race", Break::no_buffer_barrier),
      in_pipeline("no_wait_before_buffer_reuse", "race", Break::no_bulk_wait_read),
      in_pipeline("bulk_wait_by_a_thread_that_stored_nothing", "race", Break::store_wait_by_other_thread),
      in_pipeline("bulk_stores_not_committed", "exit", Break::no_bulk_commit),
      in_pipeline("returns_while_bulk_stores_read", "exit", Break::no_final_wait),
      in_pipeline("returns_with_a_copy_in_flight", "exit", Break::load_one_too_many),
      in_pipeline("register_split_beyond_the_pool", "deadlock", Break::registers_impossible),
      in_pipeline("sync_block_in_one_role", "deadlock", Break::sync_block_in_role),

      in_block("lane_zero_arrives_for_lanes_that_stored", "race", 64, [] {
        init(2048, 1);
        if (warp_index() == 0) {
          store_shared(word(lane_index()), 1u);
          if (lane_index() == 0) mbarrier_arrive(barrier_at(2048));  // sync_warp() is missing
        } else {
          mbarrier_wait(barrier_at(2048), 0);
          load_shared<u32>(word(lane_index()));
        }
      }),
      in_block("neighbour_lane_read_without_sync_warp", "race", 32, [] {
        store_shared(word(lane_index()), 1u);
        load_shared<u32>(word((lane_index() + 1) % 32));
      }),
      in_block("two_warps_write_one_word", "race", 64, [] { store_shared(word(lane_index()), warp_index()); }),
      in_block("bytes_of_one_word_by_two_lanes", "race", 32, [] {
        if (lane_index() == 0) store_shared<u32>(word(0), 0u);
        if (lane_index() == 1) store_shared<u16>(word(0) + 2, u16(1));
      }),
      in_block("barrier_for_the_wrong_warps", "race", 96, [] {
        if (warp_index() == 0) store_shared(word(lane_index()), 1u);
        if (warp_index() < 2) named_barrier_sync(1, 64);
        else load_shared<u32>(word(lane_index()));
      }),
      in_block("read_of_memory_nobody_wrote", "uninitialised", 32, [] { load_shared<u32>(word(lane_index())); }),
      in_block("shared_access_out_of_bounds", "out-of-bounds", 32, [] { store_shared(word(1024 + lane_index()), 1u); }),
      in_block("shared_access_misaligned", "misaligned", 32, [] { store_shared(shared_base() + 4 * lane_index(), f32x2{1, 2}); }),
      in_block("named_barrier_beyond_fifteen", "named-barrier", 32, [] { named_barrier_sync(16, 32); }),
      in_block("named_barrier_count_not_of_whole_warps", "named-barrier", 64, [] { named_barrier_sync(1, 48); }),
      in_block("named_barrier_counts_disagree", "named-barrier", 96, [] { named_barrier_sync(1, warp_index() == 0 ? 64 : 96); }),
      in_block("named_barrier_awaits_a_warp_too_many", "deadlock", 96, [] { if (warp_index() < 2) named_barrier_sync(1, 96); }),
      in_block("named_barrier_by_half_a_warp", "divergence", 64, [] {
        if (lane_index() < 16) named_barrier_sync(1, 32);
      }),
      in_block("lanes_of_a_warp_at_two_barrier_calls", "divergence", 32, [] {
        if (lane_index() < 16) named_barrier_sync(1, 32);
        else named_barrier_sync(1, 32);
      }),
      in_block("lanes_of_a_warp_at_two_collectives", "divergence", 32, [] {
        if (lane_index() < 16) elect_one();
        else sync_warp();
      }),
      in_block("a_lane_returns_before_a_collective", "divergence", 32, [] {
        if (lane_index() == 31) return;
        elect_one();
      }),
      in_block("sync_warp_by_half_a_warp", "deadlock", 32, [] {
        if (lane_index() < 16) sync_warp();
        else {
          init(0, 40);
        }
      }),
      in_block("wgmma_operands_differ", "divergence", 128, [] {
        float acc[32] = {};
        wgmma_fence();
        wgmma<DType::bf16, 64>(acc, k_major_descriptor(shared_base().value + (warp_index() == 2 ? 1024 : 0)), 0, false);
      }),
      in_block("wgmma_by_three_warps", "wgmma", 96, [] { wgmma_fence(); }),
      in_block("descriptor_with_a_base_offset", "descriptor", 128, [] {
        float acc[32] = {};
        wgmma_fence();
        const u64 d = k_major_descriptor(shared_base().value);
        wgmma<DType::bf16, 64>(acc, d | u64(1) << 49, d, false);
      }),
      in_block("descriptor_out_of_bounds", "out-of-bounds", 128, [] {
        float acc[32] = {};
        wgmma_fence();
        wgmma<DType::bf16, 64>(acc, k_major_descriptor(shared_base().value), k_major_descriptor(shared_base().value), false);
        wgmma_commit();
        wgmma_wait<0>();
      }),
      in_block("returns_with_wgmmas_in_flight", "exit", 128, [] {
        float acc[4] = {};
        wgmma_fence();
        wgmma<DType::bf16, 8>(acc, matrix_descriptor(1024, 128, 128, Swizzle::none), matrix_descriptor(1024, 128, 128, Swizzle::none), false);
        wgmma_commit();
      }),
      in_block("registers_not_a_multiple_of_eight", "registers", 128, [] { register_release<36>(); }),
      in_block("mbarrier_used_before_init", "mbarrier", 32, [] { mbarrier_arrive(barrier_at(0)); }),
      in_block("mbarrier_initialised_twice", "mbarrier", 32, [] {
        if (!first()) return;
        mbarrier_init(barrier_at(0), 1);
        mbarrier_init(barrier_at(0), 1);
      }),
      in_block("mbarrier_misaligned", "misaligned", 32, [] { if (first()) mbarrier_init(barrier_at(4), 1); }),
      in_block("mbarrier_with_no_arrivals", "mbarrier", 32, [] { if (first()) mbarrier_init(barrier_at(0), 0); }),
      in_block("one_arrival_too_many", "mbarrier", 32, [] {
        init(0, 33);
        mbarrier_arrive(barrier_at(0));
        if (first()) mbarrier_arrive(barrier_at(0)), mbarrier_arrive(barrier_at(0));
      }),
      in_block("mbarrier_left_in_the_middle_of_a_phase", "mbarrier", 32, [] {
        init(0, 2);
        if (first()) mbarrier_arrive(barrier_at(0));
      }),
      in_block("phase_completed_twice_unobserved", "mbarrier", 32, [] {
        init(0, 32);
        mbarrier_arrive(barrier_at(0));
        sync_warp();
        mbarrier_arrive(barrier_at(0));
      }),
      in_block("waiter_two_phases_behind", "mbarrier", 96, [] {
        init(0, 32);
        if (warp_index() == 0) {
          for (u32 phase = 0; phase < 2; ++phase) {
            mbarrier_arrive(barrier_at(0));
            mbarrier_wait(barrier_at(0), phase);
          }
        }
        if (warp_index() == 2) {
          for (int i = 0; i < 100; ++i) elect_one();  // late in many schedules
          mbarrier_wait(barrier_at(0), 0);            // phase 0 may be over: then this waits for phase 2
        }
      }),
      in_block("wait_that_may_pass_a_phase_early", "mbarrier", 64, [] {
        init(0, 32);
        if (warp_index() == 0) {
          for (u32 phase = 0; phase < 3; ++phase) {
            mbarrier_arrive(barrier_at(0));
            mbarrier_wait(barrier_at(0), phase & 1);
          }
        } else {
          mbarrier_wait(barrier_at(0), 0);
          mbarrier_wait(barrier_at(0), 0);  // meant for phase 2, but phase 0 satisfies it as well
        }
      }),
      in_block("generic_store_to_a_live_mbarrier", "mbarrier", 32, [] {
        init(0, 1);
        if (first()) store_shared(word(1), 0u);
      }),
      in_block("mbarrier_invalidated_under_a_waiter", "mbarrier", 64, [] {
        init(0, 2);
        if (warp_index() == 0) mbarrier_wait(barrier_at(0), 0);
        else if (lane_index() == 0) mbarrier_invalidate(barrier_at(0));
      }),
      in_block("use_of_an_invalidated_mbarrier", "mbarrier", 32, [] {
        init(0, 1);
        if (!first()) return;
        mbarrier_invalidate(barrier_at(0));
        mbarrier_arrive(barrier_at(0));
      }),
      in_block("transaction_count_overflow", "mbarrier", 32, [] {
        init(0, 2);
        if (first()) mbarrier_arrive_expect(barrier_at(0), 1 << 20);
      }),
      in_block("polling_for_ever", "livelock", 32, [] {
        init(0, 33);
        mbarrier_arrive(barrier_at(0));
        while (!mbarrier_test(barrier_at(0), 0)) {
        }
      }),
      in_block("cluster_wait_without_arrive", "cluster-barrier", 32, [] { cluster_wait(); }, 2, 2),
      in_block("cluster_arrive_twice", "cluster-barrier", 32, [] { cluster_arrive(), cluster_arrive(); }, 2, 2),
      in_block("peer_returns_before_a_remote_arrival", "exit", 32, [] {
        if (first()) mbarrier_init(barrier_at(0), 1), fence_mbarrier_init();
        cluster_sync();
        if (cluster_rank() == 0 && first()) mbarrier_arrive_cluster(barrier_at(0), 1);
      }, 2, 2),
      in_block("remote_arrival_before_the_cluster_is_in_sync", "race", 32, [] {
        if (first()) mbarrier_init(barrier_at(0), 1), fence_mbarrier_init();
        sync_warp();
        if (first()) mbarrier_arrive_cluster(barrier_at(0), cluster_rank() ^ 1);
        cluster_sync();
      }, 2, 2),
      in_block("relaxed_arrival_before_the_fence", "race", 32, [] {
        if (first()) mbarrier_init(barrier_at(0), 1);
        cluster_arrive_relaxed();
        if (first()) fence_mbarrier_init();
        cluster_wait();
        if (first()) mbarrier_arrive_cluster(barrier_at(0), cluster_rank() ^ 1);
        if (first()) mbarrier_wait(barrier_at(0), 0);
      }, 2, 2),
      in_block("relaxed_arrival_of_a_barrier_that_another_thread_initialised_anew", "race", 32, [] {
        if (first()) mbarrier_init(barrier_at(0), 1), fence_mbarrier_init(), mbarrier_invalidate(barrier_at(0));
        sync_warp();
        if (lane_index() == 1) mbarrier_init(barrier_at(0), 1);
        sync_warp();
        cluster_arrive_relaxed();
        cluster_wait();
        if (first()) mbarrier_arrive_cluster(barrier_at(0), cluster_rank() ^ 1);
        if (first()) mbarrier_wait(barrier_at(0), 0);
      }, 2, 2),
      in_block("relaxed_arrival_releases_no_data", "race", 32, [] {
        if (first()) mbarrier_init(barrier_at(0), 1), fence_mbarrier_init(), store_shared(word(8), 7u);
        cluster_arrive_relaxed();
        cluster_wait();
        if (first()) mbarrier_arrive_expect(barrier_at(0), 4), store_cluster_async(cluster_address(word(8), cluster_rank() ^ 1), 8.0f, cluster_address(barrier_at(0).address, cluster_rank() ^ 1));
        if (first()) mbarrier_wait(barrier_at(0), 0);
      }, 2, 2),

      sending("sent_to_a_block_whose_barrier_is_not_initialised", "mbarrier", Sent::without_barrier),
      sending("sent_before_the_cluster_wait", "race", Sent::before_cluster_wait),
      sending("sent_to_one_block_and_counted_in_another", "cluster", Sent::barrier_elsewhere),
      sending("sent_to_a_block_that_the_cluster_does_not_have", "cluster", Sent::beyond_the_cluster),
      sending("sent_data_read_before_the_wait", "race", Sent::read_before_wait),
      sending("an_expected_store_is_not_sent", "deadlock", Sent::one_dropped),
      sending("more_sent_than_expected", "mbarrier", Sent::one_too_many),
      sending("block_returns_before_its_peers_data_has_landed", "exit", Sent::receiver_leaves),
      sending("sent_out_of_bounds", "out-of-bounds", Sent::out_of_bounds),
      sending("two_stores_sent_to_one_word", "race", Sent::two_to_one_word),
      sending_wide("sixteen_bytes_sent_to_a_multiple_of_eight", "misaligned", SentWide::misaligned),
      sending_wide("sixteen_bytes_sent_into_others", "race", SentWide::into_the_one_before),
      sending_wide("a_word_of_sixteen_bytes_read_before_the_wait", "race", SentWide::one_word_read_before_wait),
      sending_wide("sixteen_expected_bytes_are_not_sent", "deadlock", SentWide::one_dropped),
      sending_wide("sixteen_bytes_expected_as_four", "mbarrier", SentWide::counted_as_four_bytes),

      with_memory("copied_data_read_without_the_wait", "race", 32, [](Memory& m) {
        init(2048, 1);
        if (first()) {
          mbarrier_arrive_expect(barrier_at(2048), 1024);
          tma_load(shared_base(), m.load, {0, 0, 0}, barrier_at(2048));
        } else {
          load_shared<u32>(word(lane_index()));
        }
        mbarrier_wait(barrier_at(2048), 0);
      }),
      with_memory("copy_into_memory_still_read", "race", 32, [](Memory& m) {
        load_and_wait(m);
        load_shared<u32>(word(lane_index()));
        if (first()) {  // sync_warp() is missing
          mbarrier_arrive_expect(barrier_at(2048), 1024);
          tma_load(shared_base(), m.load, {0, 0, 0}, barrier_at(2048));
        }
        mbarrier_wait(barrier_at(2048), 1);
      }),
      with_memory("copy_over_generic_stores_without_a_proxy_fence", "missing-proxy-fence", 32, [](Memory& m) {
        store_shared(word(lane_index()), 0u);
        sync_warp();
        load_and_wait(m);
      }),
      with_memory("two_copies_into_one_place", "race", 32, [](Memory& m) {
        init(2048, 1);
        if (first()) {
          mbarrier_arrive_expect(barrier_at(2048), 2048);
          tma_load(shared_base(), m.load, {0, 0, 0}, barrier_at(2048));
          tma_load(shared_base(), m.load, {0, 0, 0}, barrier_at(2048));
        }
        mbarrier_wait(barrier_at(2048), 0);
      }),
      with_memory("copy_into_a_misaligned_place", "misaligned", 32, [](Memory& m) {
        init(2048, 1);
        if (first()) tma_load(shared_base() + 16, m.load, {0, 0, 0}, barrier_at(2048));
      }),
      with_memory("copy_out_of_shared_memory", "out-of-bounds", 32, [](Memory& m) {
        init(2048, 1);
        if (first()) tma_load(shared_base() + 3584, m.load, {0, 0, 0}, barrier_at(2048));
      }),
      with_memory("copy_with_something_that_is_no_tensor_map", "tensor-map", 32, [](Memory&) {
        init(2048, 1);
        const TensorMap nothing{};
        if (first()) tma_load(shared_base(), nothing, {0, 0, 0}, barrier_at(2048));
      }),
      with_memory("returns_with_a_copy_nobody_awaits", "exit", 32, [](Memory& m) {
        init(2048, 1);
        if (first()) {
          mbarrier_arrive_expect(barrier_at(2048), 1024);
          tma_load(shared_base(), m.load, {0, 0, 0}, barrier_at(2048));
        }
      }),
      with_memory("bulk_wait_read_taken_for_completion", "race", 32, [](Memory& m) {
        store_shared(word(lane_index()), 1u);
        fence_proxy_async();
        sync_warp();
        if (first()) {
          tma_store(m.store, {0, 0, 0}, shared_base());
          bulk_commit();
          bulk_wait_read<0>();
          load_global(m.output.data);
        }
      }),
      with_memory("two_blocks_write_one_element", "race", 32, [](Memory& m) { store_global(m.output.data + lane_index(), 1.0f); }, 2),
      with_memory("two_blocks_store_one_box", "race", 32, [](Memory& m) {
        store_shared(word(lane_index()), 1u);
        fence_proxy_async();
        sync_warp();
        if (first()) {
          tma_store(m.store, {0, 0, 0}, shared_base());
          bulk_commit();
          bulk_wait<0>();
        }
      }, 2),
      with_memory("flag_in_global_memory_without_synchronisation", "race", 32, [](Memory& m) {
        if (block_index().x == 0) store_global(m.output.data + lane_index(), 1.0f);
        else load_global(m.output.data + lane_index());
      }, 2),
      with_memory("load_beyond_an_operand", "out-of-bounds", 32, [](Memory& m) { load_global(m.source.data + 256 + lane_index()); }),
      with_memory("store_to_an_operand_that_is_read_only", "out-of-bounds", 32, [](Memory& m) { store_global(m.source.data + lane_index(), 1.0f); }),
      with_memory("global_access_misaligned", "misaligned", 32, [](Memory& m) { load_global(reinterpret_cast<const f32x4*>(m.source.data + 1)); }),
      with_memory("B48_cluster_blocks_with_unequal_steps", "deadlock", 32, unequal_cluster, 2, 2),
      with_memory("operand_read_before_the_grid_wait", "dependent-launch", 32, [](Memory& m) {
        load_global(m.source.data);
        grid_dependency_wait();
      }, 1, 1, true),
      with_memory("operand_copied_before_the_grid_wait", "dependent-launch", 32, [](Memory& m) {
        load_and_wait(m);
        grid_dependency_wait();
      }, 1, 1, true),
      with_memory("output_written_before_the_grid_wait", "dependent-launch", 32, [](Memory& m) {
        if (first()) store_global(m.output.data, 1.0f);
        grid_dependency_wait();
      }, 1, 1, true),
      with_memory("grid_wait_by_another_warp_only", "dependent-launch", 64, [](Memory& m) {
        if (warp_index() == 0) grid_dependency_wait();
        else load_global(m.source.data);
      }, 1, 1, true),
      with_memory("block_returns_without_the_grid_wait", "dependent-launch", 32, [](Memory&) {}, 1, 1, true),
      {"B71_blocks_wait_for_a_block_that_is_not_resident", "livelock", [](const Options& given) {
         Aligned<u32> flag(4);
         LaunchShape shape = one_block(32);
         shape.blocks = 4;
         Options o = given;
         o.resident_blocks = 2;
         o.races = false;
         return emulate(shape, [&] {
           if (block_index().x == 3) store_global(flag.data, 1u);
           while (load_global(flag.data) == 0) {
           }
         }, {flag.region("flag", true)}, o);
       }},
  };
  return list;
}

class Planted : public testing::TestWithParam<Defect> {};

TEST_P(Planted, IsReported) {
  const Defect& d = GetParam();
  std::string seen;
  int found = 0;
  for (const Options& o : every_mode()) {
    const Report r = d.run(o);
    found += r.has(d.kind);
    if (!r.has(d.kind)) seen += mode_name(o) + ": " + r.text() + "\n";
  }
  EXPECT_GT(found, 0) << "expected " << d.kind << "; got\n" << seen;
}

INSTANTIATE_TEST_SUITE_P(Defects, Planted, testing::ValuesIn(defects()), [](const auto& info) { return std::string(info.param.name); });

TEST(Sending, CorrectIsCleanInEveryMode) {
  for (u64 seed = 0; seed < 5; ++seed)
    for (const Options& o : every_mode(seed)) {
      ASSERT_EQ(sending("", "", Sent::right).run(o).text(), "no findings") << mode_name(o) << ", seed " << seed;
      ASSERT_EQ(sending_wide("", "", SentWide::right).run(o).text(), "no findings") << mode_name(o) << ", seed " << seed;
    }
}

TEST(Planted, ThereAreAtLeastForty) { EXPECT_GE(defects().size(), 40u); }

TEST(Pipeline, CorrectIsCleanAndExactInEveryModeAndManySchedules) {
  Pipeline p;
  for (u64 seed = 0; seed < 20; ++seed)
    for (const Options& o : every_mode(seed)) {
      const Report r = p.run(Break::nothing, o);
      ASSERT_EQ(r.text(), "no findings") << mode_name(o) << ", seed " << seed;
      ASSERT_EQ(p.wrong(), 0) << mode_name(o) << ", seed " << seed;
      if (seed > 0 && o.scheduling == Scheduling::round_robin && o.async != Async::random) break;
    }
}

}  // namespace
}  // namespace foretile::emulator_tests
