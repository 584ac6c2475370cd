// Copies in flight: boxes by tensor map (TMA), values sent to a peer of the cluster, element-wise copies. Each is issued by a
// thread, completes when the machine runs it, and is then known to whoever waits for its mbarrier or its group.
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/machine.h"

namespace foretile::emulator {

namespace {

// Of a ClusterAddress: the block's rank stands above the shared-memory address.
constexpr u32 kRankShift = 20;
constexpr u32 rank_of(ClusterAddress a) { return a.value >> kRankShift; }
constexpr u32 address_in(ClusterAddress a) { return a.value & ((1u << kRankShift) - 1); }

}  // namespace

Machine::Issue Machine::issue(Site site) {
  Issue issued{me().view(), site_id(site), ++copies_};
  ++me().epoch;
  return issued;
}

// ---- what lands in shared memory and counts on a barrier -------------------------------------------------

// Checks that it may, now; land() does it.
MbarrierState& Machine::expect_copy(u32 rank, u32 address, u32 bytes, u32 alignment, u32 barrier, const char* call, Site site) {
  Block& target = *me().cluster->blocks[rank];
  if (target.live == 0) fail("exit", site, "{} at {} into {}, all of whose threads have returned", call, name_site(site), name_block(target));
  shared_bytes(target, address, bytes, alignment, call, site);
  MbarrierState& b = find_barrier(target, barrier, call, site);
  check_barrier_ready(b, true, site);
  ++target.copies;
  return b;
}

// Whoever knows that the barrier's phase is complete knows that the copy has landed.
void Machine::land(MbarrierState& b, u32 address, const u8* data, u32 bytes, Swizzle swizzle, bool async, const Issue& issued, const char* call,
                   Site site) {
  Block& target = *b.block;
  if (target.live == 0) fail("exit", site, "{} at {} lands in {}, all of whose threads have returned", call, name_site(site), name_block(target));
  b.last_copy = b.first_epoch + b.phase + 1;
  touch_shared(target, address, bytes, {b.agent, b.last_copy, issued.site, true, async}, issued.view);
  for (u32 k = 0; k < bytes; k += 16)
    std::memcpy(&target.shared[swizzle_address(address + k, swizzle) - kSharedBase], data + k, std::min(16u, bytes - k));
  --target.copies;
  complete_transaction(b, bytes, site);
}

// Refuses what is no tensor map, and corners that trap on the chip (seen on an H200 by tools/golden, 2026-11-30).
Box Machine::box_of(const TensorMap& map, BoxCorner corner, bool store, const char* call, Site site) {
  EncodedMap m;
  std::memcpy(&m, &map, sizeof(m));
  if (m.magic != kTensorMapMagic) fail("tensor-map", site, "{} at {}: not a tensor map", call, name_site(site));
  const Box box(m, corner);
  const i64 start = i64(corner.inner) * i64(box.element);
  if (start % 16 != 0)
    fail("tensor-map", site, "{} at {}: the box starts {} bytes into a row, which must be a multiple of 16", call, name_site(site), start);
  if (store && (corner.inner < 0 || corner.row < 0 || corner.batch < 0))
    fail("tensor-map", site, "{} at {}: the corner {}, {}, {} is negative", call, name_site(site), corner.inner, corner.row, corner.batch);
  return box;
}

void Machine::tma_prefetch(const TensorMap& map, BoxCorner corner, Site site) {
  const Box box = box_of(map, corner, false, "tma_prefetch", site);
  tell([&](Observer& o) { o.box_prefetched(box, site); });
}

void Machine::tma_load(u32 destination, const TensorMap& map, BoxCorner corner, u32 barrier, u32 blocks, const char* call, Site site) {
  Thread& t = me();
  const Box box = box_of(map, corner, false, call, site);
  if (blocks == 0 || blocks >> t.cluster->blocks.size())
    fail("tensor-map", site, "{} to blocks {:#x} of a cluster of {}", call, blocks, t.cluster->blocks.size());
  std::vector<MbarrierState*> barriers;
  for (u32 rank = 0; rank < t.cluster->blocks.size(); ++rank)
    if (blocks >> rank & 1) barriers.push_back(&expect_copy(rank, destination, u32(box.bytes), kBoxAlignment, barrier, call, site));
  const Issue issued = issue(site);
  const Copy copy{issued.copy, call, site, t.block, destination, box.bytes, barriers[0], &box, u32(std::popcount(blocks))};
  tell([&](Observer& o) { o.copy_issued(copy); });
  submit([this, box, issued, barriers, destination, site, call] {
    ++report_.counters.tma_loads;
    thread_local std::vector<u8> buffer;
    buffer.assign(box.bytes, 0);  // zeros outside of the tensor
    const MbarrierState& first = *barriers[0];
    box.inside([&](u64 offset, const u8* address, u64 bytes) {
      if (!check_global(address, bytes, false, issued.view, "tma_load", site)) return;
      touch_global(address, bytes, {first.agent, first.first_epoch + first.phase + 1, issued.site, false, true}, issued.view);
      std::memcpy(buffer.data() + offset, address, bytes);
    });
    for (MbarrierState* b : barriers) {
      land(*b, destination, buffer.data(), u32(box.bytes), box.map.swizzle, true, issued, call, site);
      report_.counters.tma_load_bytes += box.bytes;
    }
    tell([&](Observer& o) { o.copy_landed(issued.copy); });
  });
}

// A generic write that lands later and counts on the receiver's barrier (PTX ISA, "st.async").
void Machine::store_cluster_async(ClusterAddress destination, const void* value, u32 bytes, ClusterAddress barrier, Site site) {
  static constexpr const char* kCall = "store_cluster_async";
  Thread& t = me();
  const u32 rank = rank_of(destination), address = address_in(destination);
  if (rank >= t.cluster->blocks.size())
    fail("cluster", site, "{} at {} to block {} of a cluster of {}", kCall, name_site(site), rank, t.cluster->blocks.size());
  if (rank_of(barrier) != rank)
    fail("cluster", site, "{} at {}: the data goes to block {} of the cluster, its barrier lies in block {}; must be the same", kCall,
         name_site(site), rank, rank_of(barrier));
  MbarrierState& b = expect_copy(rank, address, bytes, bytes, address_in(barrier), kCall, site);
  std::array<u8, 16> data;
  std::memcpy(data.data(), value, bytes);
  const Issue issued = issue(site);
  tell([&](Observer& o) { o.copy_issued({issued.copy, kCall, site, t.block, address, bytes, &b}); });
  submit([this, &b, address, data, bytes, issued, site] {
    land(b, address, data.data(), bytes, Swizzle::none, false, issued, kCall, site);
    tell([&](Observer& o) { o.copy_landed(issued.copy); });
  });
}

// ---- what completes in groups of the thread that issued it -----------------------------------------------

u32 Machine::begin(Groups& groups, Engine engine, Site site) {
  if (groups.agent == kNobody) groups.agent = new_agent(*me().block, engine, me().index);
  groups.begin(site);
  return groups.open;
}

void Machine::finish(Thread& t, Groups& groups, u32 group) {
  groups.finish(group);
  if (t.wait.kind == Wait::Kind::bulk || t.wait.kind == Wait::Kind::cp_async) wake(t);
}

// Until all but the youngest groups are complete; wait.detail: how many may stay.
void Machine::await(Groups& groups, const Wait& wait) {
  const u32 upto = groups.open > wait.detail ? groups.open - u32(wait.detail) : 0;  // groups before this one must be complete
  while (groups.first_pending() < upto) block_on(wait);
  groups.waited = std::max(groups.waited, upto);
  if (options_.races && groups.agent != kNobody && upto > 0) advance(me().knowledge.seen, groups.agent, upto - 1);
}

// Two completions: the source may be reused; the write is done.
void Machine::tma_store(const TensorMap& map, BoxCorner corner, u32 source, Site site) {
  Thread& t = me();
  Block& block = *t.block;
  const Box box = box_of(map, corner, true, "tma_store", site);
  shared_bytes(block, source, u32(box.bytes), kBoxAlignment, "tma_store", site);
  const u32 group = begin(t.bulk_reads, Engine::bulk_reads, site);
  begin(t.bulk_writes, Engine::bulk_writes, site);
  ++report_.counters.tma_stores;
  const Issue issued = issue(site);
  tell([&](Observer& o) { o.copy_issued({issued.copy, "tma_store", site, &block, source, box.bytes, nullptr, &box, 0, group}); });
  submit([this, &t, &block, box, issued, source, group, site] {
    std::vector<u8> buffer(box.bytes);
    touch_shared(block, source, u32(box.bytes), {t.bulk_reads.agent, group, issued.site, false, true}, issued.view);
    for (u32 k = 0; k < box.bytes; k += 16)
      std::memcpy(buffer.data() + k, &block.shared[swizzle_address(source + k, box.map.swizzle) - kSharedBase], 16);
    finish(t, t.bulk_reads, group);
    tell([&](Observer& o) { o.copy_read(issued.copy); });
    submit([this, &t, box, issued, group, site, buffer = std::move(buffer)] {
      const auto write = [&](u64 offset, const u8* address, u64 bytes) {
        if (!check_global(address, bytes, true, issued.view, "tma_store", site)) return;
        touch_global(address, bytes, {t.bulk_writes.agent, group, issued.site, true, true}, issued.view);
        std::memcpy(const_cast<u8*>(address), buffer.data() + offset, bytes);
        report_.counters.tma_store_bytes += bytes;
      };
      box.inside(write, true);
      finish(t, t.bulk_writes, group);
      tell([&](Observer& o) { o.copy_landed(issued.copy); });
    });
  });
}

void Machine::bulk_wait(u32 pending, bool read_only, Site site) {
  const Wait wait{Wait::Kind::bulk, read_only ? "bulk_wait_read" : "bulk_wait", site, 0, pending};
  if (!read_only) await(me().bulk_writes, wait);
  await(me().bulk_reads, wait);
}

// They write by the generic proxy, so that no proxy fence is due, but only the wait orders them, and only for the thread
// that issued them.
void Machine::cp_async(u32 destination, const void* source, u32 bytes, u32 valid, Site site) {
  Thread& t = me();
  const auto from = reinterpret_cast<std::uintptr_t>(source);
  if (valid) tell([&](Observer& o) { o.access(LaneAccess::load_global, "cp_async from global", t, from, bytes, site); });
  tell([&](Observer& o) { o.access(LaneAccess::store_shared, "cp_async to shared", t, destination, bytes, site); });
  shared_bytes(*t.block, destination, bytes, bytes, "cp_async", site);
  if (valid > bytes) fail("out-of-bounds", site, "cp_async of {} bytes at {} says that {} are valid", bytes, name_site(site), valid);
  if (valid && from % bytes)
    fail("misaligned", site, "cp_async of {} bytes at {}: the address in global memory must be a multiple of {}", bytes, name_site(site), bytes);
  const u32 group = begin(t.copies, Engine::cp_async, site);
  const Issue issued = issue(site);
  submit([this, &t, issued, destination, source, bytes, valid, group, site] {
    u8 value[16] = {};
    if (valid && check_global(source, valid, false, issued.view, "cp_async", site)) {
      touch_global(source, valid, {t.copies.agent, group, issued.site, false, false}, issued.view);
      std::memcpy(value, source, valid);
    }
    touch_shared(*t.block, destination, bytes, {t.copies.agent, group, issued.site, true, false}, issued.view);
    std::memcpy(&t.block->shared[destination - kSharedBase], value, bytes);
    finish(t, t.copies, group);
  });
}

void Machine::cp_async_wait(u32 pending, Site site) { await(me().copies, {Wait::Kind::cp_async, "cp_async_wait", site, 0, pending}); }

}  // namespace foretile::emulator

namespace foretile {

ClusterAddress cluster_address(SmemAddress address, u32 rank) { return {rank << emulator::kRankShift | address.value}; }

}  // namespace foretile
