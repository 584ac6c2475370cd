// The vocabulary on the host. Each function names itself to the machine, which counts its call site and says whether a
// mutation drops or changes the call, and goes to the machine's part that does the work.
#include "foretile/device/vocabulary/vocabulary.h"

#include <array>
#include <bit>

#include "emulator/machine.h"

namespace foretile {

using emulator::Effect;
using emulator::Machine;

namespace {

// A synchronising call.
template <class Part> void call(Site site, const char* name, Part&& part) {
  Machine& m = Machine::current();
  if (!m.enter(site, name, false).drop) part(m);
}
// One with a count, which a mutation makes one more or less.
template <class Part> void counted(Site site, const char* name, Part&& part) {
  Machine& m = Machine::current();
  const Effect effect = m.enter(site, name, true);
  if (!effect.drop) part(m, effect.delta);
}
template <class Fragments> void store_matrix(SmemAddress row, Fragments f, const char* name, bool transposed, Site site) {
  const auto words = std::bit_cast<std::array<u32, sizeof(f) / 4>>(f);
  Machine::current().store_matrix(row.value, words.data(), u32(words.size()), name, transposed, site);
}
u32 pending_after(int pending, int delta) { return u32(max_of(0, pending + delta)); }

}  // namespace

u32 thread_index() { return Machine::current().me().index; }
u32 warp_index() { return Machine::current().me().warp_index(); }
u32 lane_index() { return Machine::current().me().lane(); }
Index3 block_index() { return {Machine::current().me().block->index_in_grid(), 0, 0}; }
Index3 grid_size() { return {Machine::current().me().block->grid->shape.blocks, 1, 1}; }
u32 cluster_rank() { return Machine::current().me().block->rank; }
SmemAddress shared_base() { return {emulator::kSharedBase}; }

void sync_block(Site site) { call(site, "sync_block", [&](Machine& m) { m.sync_block(site); }); }
void sync_warp(Site site) { call(site, "sync_warp", [&](Machine& m) { m.sync_warp(site); }); }
void named_barrier_sync(u32 id, u32 threads, Site site) {
  counted(site, "named_barrier_sync", [&](Machine& m, int delta) { m.named_barrier(id, threads + u32(32 * delta), true, "named_barrier_sync", site); });
}
void named_barrier_arrive(u32 id, u32 threads, Site site) {
  counted(site, "named_barrier_arrive", [&](Machine& m, int delta) { m.named_barrier(id, threads + u32(32 * delta), false, "named_barrier_arrive", site); });
}
void cluster_arrive(Site site) { call(site, "cluster_arrive", [&](Machine& m) { m.cluster_arrive(false, site); }); }
void cluster_arrive_relaxed(Site site) { call(site, "cluster_arrive_relaxed", [&](Machine& m) { m.cluster_arrive(true, site); }); }
void cluster_wait(Site site) { call(site, "cluster_wait", [&](Machine& m) { m.cluster_wait(site); }); }

void mbarrier_init(Mbarrier b, u32 arrivals, Site site) {
  counted(site, "mbarrier_init", [&](Machine& m, int delta) { m.mbarrier_init(b.address.value, arrivals + u32(delta), site); });
}
void mbarrier_invalidate(Mbarrier b, Site site) { call(site, "mbarrier_invalidate", [&](Machine& m) { m.mbarrier_invalidate(b.address.value, site); }); }
void mbarrier_arrive(Mbarrier b, Site site) {
  counted(site, "mbarrier_arrive", [&](Machine& m, int delta) { m.mbarrier_arrive(b.address.value, u32(1 + delta), 0, site); });
}
void mbarrier_arrive_expect(Mbarrier b, u32 bytes, Site site) {
  counted(site, "mbarrier_arrive_expect", [&](Machine& m, int delta) { m.mbarrier_arrive(b.address.value, 1, i64(bytes) + 16 * delta, site); });
}
void mbarrier_arrive_cluster(Mbarrier b, u32 rank, Site site) {
  counted(site, "mbarrier_arrive_cluster", [&](Machine& m, int delta) {
    for (int i = 0; i < 1 + delta; ++i) m.mbarrier_arrive_cluster(b.address.value, rank, site);
  });
}
void mbarrier_wait(Mbarrier b, u32 parity, Site site) {
  counted(site, "mbarrier_wait", [&](Machine& m, int delta) { m.mbarrier_wait(b.address.value, delta ? parity ^ 1 : parity, site); });
}
bool mbarrier_test(Mbarrier b, u32 parity, Site site) { return Machine::current().mbarrier_test(b.address.value, parity, site); }
void fence_mbarrier_init(Site site) { call(site, "fence_mbarrier_init", [](Machine& m) { m.fence_mbarrier_init(); }); }
void fence_proxy_async(Site site) { call(site, "fence_proxy_async", [](Machine& m) { m.fence_proxy_async(); }); }

void prefetch_tensor_map(const TensorMap& map, Site site) { Machine::current().prefetch_tensor_map(map, site); }
void tma_prefetch(const TensorMap& map, BoxCorner corner, L2Policy, Site site) { Machine::current().tma_prefetch(map, corner, site); }
void tma_load(SmemAddress destination, const TensorMap& map, BoxCorner corner, Mbarrier barrier, Site site) {
  call(site, "tma_load", [&](Machine& m) { m.tma_load(destination.value, map, corner, barrier.address.value, 1u << m.me().block->rank, "tma_load", site); });
}
void tma_load(SmemAddress destination, const TensorMap& map, BoxCorner corner, Mbarrier barrier, L2Policy, Site site) {
  tma_load(destination, map, corner, barrier, site);
}
L2Policy evict_first() { return {1}; }
L2Policy evict_last() { return {2}; }
L2Policy evict_normal() { return {0}; }
void tma_load_multicast(SmemAddress destination, const TensorMap& map, BoxCorner corner, Mbarrier barrier, u16 blocks, Site site) {
  call(site, "tma_load_multicast", [&](Machine& m) { m.tma_load(destination.value, map, corner, barrier.address.value, blocks, "tma_load_multicast", site); });
}
void tma_store(const TensorMap& map, BoxCorner corner, SmemAddress source, Site site) {
  call(site, "tma_store", [&](Machine& m) { m.tma_store(map, corner, source.value, site); });
}
void bulk_commit(Site site) { call(site, "bulk_commit", [](Machine& m) { m.bulk_commit(); }); }
template <class T> static void send(ClusterAddress destination, const T& value, ClusterAddress barrier, Site site) {
  call(site, "store_cluster_async", [&](Machine& m) { m.store_cluster_async(destination, &value, sizeof value, barrier, site); });
}
void store_cluster_async(ClusterAddress destination, float value, ClusterAddress barrier, Site site) { send(destination, value, barrier, site); }
void store_cluster_async(ClusterAddress destination, f32x2 value, ClusterAddress barrier, Site site) { send(destination, value, barrier, site); }
void store_cluster_async(ClusterAddress destination, f32x4 value, ClusterAddress barrier, Site site) { send(destination, value, barrier, site); }
void cp_async_commit(Site site) { call(site, "cp_async_commit", [](Machine& m) { m.cp_async_commit(); }); }

void wgmma_fence(Site site) { call(site, "wgmma_fence", [&](Machine& m) { m.wgmma_fence(site); }); }
void wgmma_commit(Site site) { call(site, "wgmma_commit", [&](Machine& m) { m.wgmma_commit(site); }); }

float load_shared_alone(SmemAddress address, Site site) { return load_shared<float>(address, site); }
void store_matrix_x4(SmemAddress row, u32x4 f, Site site) { store_matrix(row, f, "store_matrix_x4", false, site); }
void store_matrix_x2(SmemAddress row, u32x2 f, Site site) { store_matrix(row, f, "store_matrix_x2", false, site); }
void store_matrix_x4_transposed(SmemAddress column, u32x4 f, Site site) { store_matrix(column, f, "store_matrix_x4_transposed", true, site); }
void store_matrix_x2_transposed(SmemAddress column, u32x2 f, Site site) { store_matrix(column, f, "store_matrix_x2_transposed", true, site); }
u32x4 load_matrix_x4(SmemAddress row, Site site) { return Machine::current().load_matrix(row.value, "load_matrix_x4", false, site); }
u32x4 load_matrix_x4_transposed(SmemAddress row, Site site) { return Machine::current().load_matrix(row.value, "load_matrix_x4_transposed", true, site); }

float shuffle_xor(float value, u32 mask, Site site) { return Machine::current().shuffle_xor(value, mask, site); }
bool elect_one(Site site) { return Machine::current().elect_one(site); }

void grid_dependency_wait(Site site) { call(site, "grid_dependency_wait", [&](Machine& m) { m.grid_dependency_wait(site); }); }
void grid_dependency_launch(Site site) { call(site, "grid_dependency_launch", [&](Machine& m) { m.grid_dependency_launch(site); }); }

// What the templates of host.h go through.
namespace emulator {

void bulk_wait(int pending, bool read_only, Site site) {
  counted(site, read_only ? "bulk_wait_read" : "bulk_wait", [&](Machine& m, int delta) { m.bulk_wait(pending_after(pending, delta), read_only, site); });
}
void wgmma(DType type, int n, bool transpose_a, bool transpose_b, float* acc, u64 a, u64 b, bool accumulate, Site site) {
  call(site, "wgmma", [&](Machine& m) { m.wgmma(type, n, transpose_a, transpose_b, acc, a, b, accumulate, site); });
}
void wgmma_wait(int pending, Site site) {
  counted(site, "wgmma_wait", [&](Machine& m, int delta) { m.wgmma_wait(pending_after(pending, delta), site); });
}
void registers(int count, bool acquire, Site site) {
  counted(site, acquire ? "register_acquire" : "register_release", [&](Machine& m, int delta) { m.registers(u32(count + 8 * delta), acquire, site); });
}
void shared_access(u32 address, void* data, int bytes, bool store, Site site) {
  Machine::current().shared_access(address, data, u32(bytes), store, site);
}
void global_access(const void* address, void* data, int bytes, bool store, Site site) {
  Machine::current().global_access(address, data, u32(bytes), store, site);
}
void cp_async(u32 destination, const void* source, int bytes, u32 valid, Site site) {
  call(site, "cp_async", [&](Machine& m) { m.cp_async(destination, source, u32(bytes), valid, site); });
}
void cp_async_wait(int pending, Site site) {
  counted(site, "cp_async_wait", [&](Machine& m, int delta) { m.cp_async_wait(pending_after(pending, delta), site); });
}
void mma_sync(DType type, float* d, const u32* a, const u32* b, Site site) { Machine::current().mma_sync(type, d, a, b, site); }

}  // namespace emulator

}  // namespace foretile
