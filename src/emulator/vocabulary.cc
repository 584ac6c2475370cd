// The vocabulary on the host. Each function names itself to the machine, applies a mutation if one is set on its call
// site, and goes to the machine's part that does the work.
#include "foretile/device/vocabulary/vocabulary.h"

#include "emulator/machine.h"
#include "emulator/trace.h"

namespace foretile {

using emulator::Effect;
using emulator::Machine;
using emulator::Trace;

namespace {

void trace(Trace::Kind kind, u64 address, u32 bytes, Site site) {
  if (Trace* t = Trace::current()) t->lane(kind, Machine::current().me().block->index, Machine::current().me().index, address, bytes, site);
}

}  // namespace

u32 thread_index() { return Machine::current().me().index; }
u32 warp_index() { return Machine::current().me().warp_index(); }
u32 lane_index() { return Machine::current().me().lane(); }
Index3 block_index() { return {Machine::current().me().block->index_in_grid(), 0, 0}; }
Index3 grid_size() { return {Machine::current().me().block->grid->shape.blocks, 1, 1}; }
u32 cluster_rank() { return Machine::current().me().block->rank; }
SmemAddress shared_base() { return {emulator::kSharedBase}; }

void sync_block(Site site) {
  Machine& m = Machine::current();
  if (m.enter(site, "sync_block").drop) return;
  m.named_barrier(0, m.me().block->live, true, true, "sync_block", site);
}
void sync_warp(Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "sync_warp").drop) m.sync_warp(site);
}
void named_barrier_sync(u32 id, u32 threads, Site site) {
  Machine& m = Machine::current();
  const Effect e = m.enter(site, "named_barrier_sync", true);
  if (!e.drop) m.named_barrier(id, threads + u32(32 * e.delta), false, true, "named_barrier_sync", site);
}
void named_barrier_arrive(u32 id, u32 threads, Site site) {
  Machine& m = Machine::current();
  const Effect e = m.enter(site, "named_barrier_arrive", true);
  if (!e.drop) m.named_barrier(id, threads + u32(32 * e.delta), false, false, "named_barrier_arrive", site);
}
void cluster_arrive(Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "cluster_arrive").drop) m.cluster_arrive(site);
}
void cluster_wait(Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "cluster_wait").drop) m.cluster_wait(site);
}

void mbarrier_init(Mbarrier barrier, u32 arrivals, Site site) {
  Machine& m = Machine::current();
  const Effect e = m.enter(site, "mbarrier_init", true);
  if (!e.drop) m.mbarrier_init(barrier.address.value, arrivals + u32(e.delta), site);
}
void mbarrier_invalidate(Mbarrier barrier, Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "mbarrier_invalidate").drop) m.mbarrier_invalidate(barrier.address.value, site);
}
void mbarrier_arrive(Mbarrier barrier, Site site) {
  Machine& m = Machine::current();
  const Effect e = m.enter(site, "mbarrier_arrive", true);
  if (!e.drop) m.mbarrier_arrive(barrier.address.value, u32(1 + e.delta), 0, site);
}
void mbarrier_arrive_expect(Mbarrier barrier, u32 bytes, Site site) {
  Machine& m = Machine::current();
  const Effect e = m.enter(site, "mbarrier_arrive_expect", true);
  if (!e.drop) m.mbarrier_arrive(barrier.address.value, 1, i64(bytes) + 16 * e.delta, site);
}
void mbarrier_arrive_cluster(Mbarrier barrier, u32 rank, Site site) {
  Machine& m = Machine::current();
  const Effect e = m.enter(site, "mbarrier_arrive_cluster", true);
  for (int i = e.drop ? 1 : -e.delta; i < 1; ++i) m.mbarrier_arrive_cluster(barrier.address.value, rank, site);
}
void mbarrier_wait(Mbarrier barrier, u32 parity, Site site) {
  Machine& m = Machine::current();
  const Effect e = m.enter(site, "mbarrier_wait", true);
  if (!e.drop) m.mbarrier_wait(barrier.address.value, e.delta ? parity ^ 1 : parity, site);
}
bool mbarrier_test(Mbarrier barrier, u32 parity, Site site) {
  Machine& m = Machine::current();
  return m.mbarrier_test(barrier.address.value, parity, site);
}
void fence_mbarrier_init(Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "fence_mbarrier_init").drop) m.fence_mbarrier_init();
}
void fence_proxy_async(Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "fence_proxy_async").drop) m.fence_proxy_async();
}

void prefetch_tensor_map(const TensorMap& map, Site site) { Machine::current().prefetch_tensor_map(map, site); }
void tma_load(SmemAddress destination, const TensorMap& map, BoxCorner corner, Mbarrier barrier, Site site) {
  Machine& m = Machine::current();
  if (m.enter(site, "tma_load").drop) return;
  m.tma_load(destination.value, map, corner, barrier.address.value, 1u << m.me().block->rank, "tma_load", site);
}
void tma_load(SmemAddress destination, const TensorMap& map, BoxCorner corner, Mbarrier barrier, L2Policy, Site site) {
  tma_load(destination, map, corner, barrier, site);
}
L2Policy evict_first() { return {1}; }
L2Policy evict_last() { return {2}; }
L2Policy evict_normal() { return {0}; }
void tma_load_multicast(SmemAddress destination, const TensorMap& map, BoxCorner corner, Mbarrier barrier, u16 blocks, Site site) {
  Machine& m = Machine::current();
  if (m.enter(site, "tma_load_multicast").drop) return;
  m.tma_load(destination.value, map, corner, barrier.address.value, blocks, "tma_load_multicast", site);
}
void tma_store(const TensorMap& map, BoxCorner corner, SmemAddress source, Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "tma_store").drop) m.tma_store(map, corner, source.value, site);
}
void bulk_commit(Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "bulk_commit").drop) m.bulk_commit();
}

ClusterAddress cluster_address(SmemAddress address, u32 rank) { return {emulator::encode_cluster_address(address.value, rank)}; }
void store_cluster_async(ClusterAddress destination, float value, ClusterAddress barrier, Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "store_cluster_async").drop) m.store_cluster_async(destination.value, value, barrier.value, site);
}

void wgmma_fence(Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "wgmma_fence").drop) m.wgmma_fence(site);
}
void wgmma_commit(Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "wgmma_commit").drop) m.wgmma_commit(site);
}

float load_shared_alone(SmemAddress address, Site site) { return load_shared<float>(address, site); }
namespace {
void store_matrix(SmemAddress row, u32x4 f, u32 count, bool transposed, Site site) {
  trace(count == 4 ? Trace::Kind::store_matrix_x4 : Trace::Kind::store_matrix_x2, row.value, 16, site);
  const u32 fragments[4] = {f.x, f.y, f.z, f.w};
  Machine::current().store_matrix(row.value, fragments, count, transposed, site);
}
u32x4 load_matrix(SmemAddress row, bool transposed, Site site) {
  trace(transposed ? Trace::Kind::load_matrix_x4_transposed : Trace::Kind::load_matrix_x4, row.value, 16, site);
  u32 fragments[4];
  Machine::current().load_matrix(row.value, fragments, site, transposed);
  return {fragments[0], fragments[1], fragments[2], fragments[3]};
}
}  // namespace
void store_matrix_x4(SmemAddress row, u32x4 f, Site site) { store_matrix(row, f, 4, false, site); }
void store_matrix_x2(SmemAddress row, u32x2 f, Site site) { store_matrix(row, {f.x, f.y, 0, 0}, 2, false, site); }
void store_matrix_x4_transposed(SmemAddress column, u32x4 f, Site site) { store_matrix(column, f, 4, true, site); }
void store_matrix_x2_transposed(SmemAddress column, u32x2 f, Site site) { store_matrix(column, {f.x, f.y, 0, 0}, 2, true, site); }
u32x4 load_matrix_x4(SmemAddress row, Site site) { return load_matrix(row, false, site); }
u32x4 load_matrix_x4_transposed(SmemAddress row, Site site) { return load_matrix(row, true, site); }

void cp_async_commit(Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "cp_async_commit").drop) m.cp_async_commit();
}

float shuffle_xor(float value, u32 mask, Site site) { return Machine::current().shuffle_xor(value, mask, site); }
bool elect_one(Site site) { return Machine::current().elect_one(site); }

void grid_dependency_wait(Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "grid_dependency_wait").drop) m.grid_dependency_wait(site);
}
void grid_dependency_launch(Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "grid_dependency_launch").drop) m.grid_dependency_launch(site);
}

namespace emulator {

void bulk_wait(int pending, bool read_only, Site site) {
  Machine& m = Machine::current();
  const Effect e = m.enter(site, read_only ? "bulk_wait_read" : "bulk_wait", true);
  if (!e.drop) m.bulk_wait(u32(max_of(0, pending + e.delta)), read_only, site);
}
void wgmma(DType type, int n, bool transpose_a, bool transpose_b, float* acc, u64 a, u64 b, bool accumulate, Site site) {
  Machine& m = Machine::current();
  if (!m.enter(site, "wgmma").drop) m.wgmma(type, n, transpose_a, transpose_b, acc, a, b, accumulate, site);
}
void wgmma_wait(int pending, Site site) {
  Machine& m = Machine::current();
  const Effect e = m.enter(site, "wgmma_wait", true);
  if (!e.drop) m.wgmma_wait(u32(max_of(0, pending + e.delta)), site);
}
void registers(int count, bool acquire, Site site) {
  Machine& m = Machine::current();
  const Effect e = m.enter(site, acquire ? "register_acquire" : "register_release", true);
  if (!e.drop) m.registers(u32(count + 8 * e.delta), acquire, site);
}
void shared_access(u32 address, void* data, int bytes, bool store, Site site) {
  trace(store ? Trace::Kind::store_shared : Trace::Kind::load_shared, address, u32(bytes), site);
  Machine::current().shared_access(address, data, u32(bytes), store, site);
}
void cp_async(u32 destination, const void* source, int bytes, u32 valid, Site site) {
  Machine& m = Machine::current();
  if (m.enter(site, "cp_async").drop) return;
  if (valid) trace(Trace::Kind::cp_async_read, reinterpret_cast<std::uintptr_t>(source), u32(bytes), site);
  trace(Trace::Kind::cp_async_write, destination, u32(bytes), site);
  m.cp_async(destination, source, u32(bytes), valid, site);
}
void cp_async_wait(int pending, Site site) {
  Machine& m = Machine::current();
  const Effect e = m.enter(site, "cp_async_wait", true);
  if (!e.drop) m.cp_async_wait(u32(max_of(0, pending + e.delta)), site);
}
void mma_sync(DType type, float* d, const u32* a, const u32* b, Site site) { Machine::current().mma_sync(type, d, a, b, site); }
void global_access(const void* address, void* data, int bytes, bool store, Site site) {
  trace(store ? Trace::Kind::store_global : Trace::Kind::load_global, reinterpret_cast<std::uintptr_t>(address), u32(bytes), site);
  Machine::current().global_access(address, data, u32(bytes), store, site);
}

}  // namespace emulator

}  // namespace foretile
