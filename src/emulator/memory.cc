// Lane accesses to shared and global memory, and the checks of every access.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/collective.h"
#include "emulator/machine.h"

namespace foretile::emulator {

namespace {

// What stands in an accumulator while a wgmma owns it: a NaN that arithmetic carries along.
constexpr u32 kPoisonBits = 0x7fc0dead;

}  // namespace

u8* Machine::shared_bytes(Block& block, u32 address, u32 bytes, u32 alignment, const char* call, Site site) {
  if (address < kSharedBase || address - kSharedBase > block.shared.size() || bytes > block.shared.size() - (address - kSharedBase))
    fail("out-of-bounds", site, fmt::format("{} of {} bytes at shared{:+#x} at {}: the block has {} bytes of shared memory", call, bytes, i64(address) - kSharedBase, name_site(site),
                                            block.shared.size()));
  if (address % alignment)
    fail("misaligned", site, fmt::format("{} at {} at {}: the address must be a multiple of {}", call, name_shared(block, address - kSharedBase), name_site(site), alignment));
  return block.shared.data() + (address - kSharedBase);
}

void Machine::touch_shared(Block& block, u32 offset, u32 bytes, const Access& a, const View& view) {
  for_cells(offset, bytes, [&](u64 index, u16 mask) {
    touch_cell(block.shadow[index], mask, a, view, [&](Hazard hazard, const Record* before) {
      if (!seen_before(hazard, before, a)) on_hazard(hazard, before, a, name_shared(block, std::max<u32>(offset, u32(index) * kCellBytes)));
    });
  });
}

void Machine::touch_global(const void* address, u64 bytes, const Access& a, const View& view) {
  // Only what some launch may write can race.
  const auto writer = std::find_if(grids_.begin(), grids_.end(), [&](const auto& g) { return find_region(*g, address, bytes, true); });
  if (writer == grids_.end()) return;
  const Region* region = find_region(grid_of(view.self), address, bytes, false);
  const auto at = reinterpret_cast<std::uintptr_t>(address), base = reinterpret_cast<std::uintptr_t>(region->base);
  for_cells(at, bytes, [&](u64 index, u16 mask) {
    touch_cell(global_shadow_.cell(index), mask, a, view, [&](Hazard hazard, const Record* before) {
      if (!seen_before(hazard, before, a)) on_hazard(hazard, before, a, fmt::format("{}+0x{:x}", region->name, std::max<u64>(at, index * kCellBytes) - base));
    });
  });
}

// The region that holds the whole range; with overlapping ones, a writable one where `store`.
const Region* Machine::find_region(const Grid& grid, const void* address, u64 bytes, bool store) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const Region& r : grid.launch->regions) {
    const auto base = reinterpret_cast<std::uintptr_t>(r.base);
    if ((!store || r.writable) && at >= base && at - base <= r.bytes && bytes <= r.bytes - (at - base)) return &r;
  }
  return nullptr;
}

bool Machine::check_global(const void* address, u64 bytes, bool store, const View& view, const char* call, Site site) {
  const Grid& grid = grid_of(view.self);  // `view` is the issuing thread's, also when an asynchronous copy asks
  const Region* region = find_region(grid, address, bytes, store);
  if (!region) {
    const Region* other = find_region(grid, address, bytes, false);
    std::string where = other ? fmt::format("{}, which this launch may only read", other->name) : "no operand";
    if (!other)
      for (const Region& r : grid.launch->regions) {
        const i64 past = i64(reinterpret_cast<std::uintptr_t>(address)) - i64(reinterpret_cast<std::uintptr_t>(r.base));
        if (past >= -4096 && past < i64(r.bytes) + 65536) {
          where += fmt::format(" ({:+} bytes from the start of {}, which has {})", past, r.name, r.bytes);
          break;
        }
      }
    report("out-of-bounds", site, fmt::format("{} of {} bytes of global memory at {} lies in {}", call, bytes, name_site(site), where));
    return false;
  }
  if (grid.dependent && options_.races && !(region->ready && !store)) {
    const Agent before = make_agent(view.self >> kAgentBits, grid.shape.threads + 4 * u32(ceil_div(grid.shape.threads, kWarpgroup)));
    if (!view.knows(before, 1))
      report("dependent-launch", site, fmt::format("{} touches {} at {} before grid_dependency_wait()", call, region->name, name_site(site)));
  }
  return true;
}

// An accumulator that is read between its wgmma and the wait.
void Machine::check_poison(const void* data, u32 bytes, Site site) {
  for (u32 i = 0; i + 4 <= bytes; i += 4) {
    u32 bits;
    std::memcpy(&bits, static_cast<const char*>(data) + i, 4);
    if (bits == kPoisonBits) report("wgmma", site, fmt::format("{} stores an accumulator at {} that a wgmma still owns: wgmma_wait() is missing", name_thread(me()), name_site(site)));
  }
}

void Machine::shared_access(u32 address, void* data, u32 bytes, bool store, Site site) {
  ++progress_;
  if (unordered_mode()) maybe_yield();
  Thread& t = me();
  t.last_load = {};
  u8* at = shared_bytes(*t.block, address, bytes, bytes, store ? "store_shared" : "load_shared", site);
  if (options_.races) touch_shared(*t.block, address - kSharedBase, bytes, {t.agent, t.epoch, site_id(site), store, false}, t.view());
  if (store) {
    check_poison(data, bytes, site);
    std::memcpy(at, data, bytes);
  } else {
    std::memcpy(data, at, bytes);
  }
}

void Machine::global_access(const void* address, void* data, u32 bytes, bool store, Site site) {
  if (unordered_mode()) maybe_yield();
  Thread& t = me();
  const char* call = store ? "store_global" : "load_global";
  if (reinterpret_cast<std::uintptr_t>(address) % bytes)
    fail("misaligned", site, fmt::format("{} of {} bytes at {}: the address must be a multiple of {}", call, bytes, name_site(site), bytes));
  const View view = t.view();
  if (!check_global(address, bytes, store, view, call, site)) {
    if (!store) std::memset(data, 0xFF, bytes);
    return;
  }
  if (options_.races) touch_global(address, bytes, {t.agent, t.epoch, site_id(site), store, false}, view);
  if (store) {
    ++progress_;
    t.last_load = {};
    check_poison(data, bytes, site);
    std::memcpy(const_cast<void*>(address), data, bytes);
    return;
  }
  std::memcpy(data, address, bytes);
  Thread::Load load{site_id(site), address, {}};
  std::memcpy(load.value.data(), data, bytes);
  if (load == t.last_load) return spin(t, {Wait::Kind::polling, call, site, 0, 0});
  ++progress_;
  t.last_load = load;
}

// Row r of matrix i comes from lanes 4r to 4r+3, two elements each, and goes to the address that lane 8i+r gave.
void Machine::store_matrix(u32 row, const u32* fragments, u32 count, bool transposed, Site site) {
  ++progress_;
  Thread& t = me();
  Warp& w = t.warp();
  w.address[t.lane()] = row;
  check_poison(fragments, 4 * count, site);
  for (u32 i = 0; i < count; ++i) w.data[t.lane()][i] = fragments[i];
  collective(w.rendezvous, kWarp, count == 4 ? transposed ? "store_matrix_x4_transposed" : "store_matrix_x4" : transposed ? "store_matrix_x2_transposed" : "store_matrix_x2", site, {}, true, [&] {
    for (u32 i = 0; i < count; ++i)
      for (u32 r = 0; r < 8; ++r) {
        Thread& owner = *t.block->threads[w.index * kWarp + 8 * i + r];
        const u32 address = w.address[owner.lane()];
        u8* at = shared_bytes(*t.block, address, 16, 16, "store_matrix", site);
        if (options_.races) touch_shared(*t.block, address - kSharedBase, 16, {owner.agent, owner.epoch, site_id(site), true, false}, owner.view());
        // A lane holds two neighbours of a row; transposed, those of a column come from eight lanes.
        if (!transposed) {
          for (u32 k = 0; k < 4; ++k) std::memcpy(at + 4 * k, &w.data[4 * r + k][i], 4);
        } else {
          for (u32 k = 0; k < 8; ++k) {
            const u16 half = u16(w.data[4 * k + r / 2][i] >> 16 * (r % 2));
            std::memcpy(at + 2 * k, &half, 2);
          }
        }
      }
  });
}

// The other way round, four matrices. Transposed, lane l holds of each matrix the two neighbours down column l / 4.
void Machine::load_matrix(u32 row, u32* fragments, Site site, bool transposed) {
  ++progress_;
  Thread& t = me();
  Warp& w = t.warp();
  w.address[t.lane()] = row;
  collective(w.rendezvous, kWarp, transposed ? "load_matrix_x4_transposed" : "load_matrix_x4", site, {}, true, [&] {
    for (u32 i = 0; i < 4; ++i)
      for (u32 r = 0; r < 8; ++r) {
        Thread& owner = *t.block->threads[w.index * kWarp + 8 * i + r];
        const u32 address = w.address[owner.lane()];
        const u8* at = shared_bytes(*t.block, address, 16, 16, "load_matrix", site);
        if (options_.races) touch_shared(*t.block, address - kSharedBase, 16, {owner.agent, owner.epoch, site_id(site), false, false}, owner.view());
        if (!transposed) {
          for (u32 k = 0; k < 4; ++k) std::memcpy(&w.data[4 * r + k][i], at + 4 * k, 4);
        } else {
          for (u32 column = 0; column < 8; ++column)
            std::memcpy(reinterpret_cast<u8*>(&w.data[4 * column + r / 2][i]) + r % 2 * 2, at + 2 * column, 2);
        }
      }
  });
  // No lane can overwrite this before all 32 have come to the next collective call.
  for (u32 i = 0; i < 4; ++i) fragments[i] = w.data[t.lane()][i];
}

// A generic write that lands later and counts on the receiver's barrier (PTX ISA, "st.async").
void Machine::store_cluster_async(u32 destination, float value, u32 barrier, Site site) {
  static constexpr const char* kCall = "store_cluster_async";
  Thread& t = me();
  const u32 rank = destination >> kRankShift, address = destination & ((1u << kRankShift) - 1), counted = barrier & ((1u << kRankShift) - 1);
  if (rank >= t.cluster->blocks.size()) fail("cluster", site, fmt::format("{} at {} to block {} of a cluster of {}", kCall, name_site(site), rank, t.cluster->blocks.size()));
  if (barrier >> kRankShift != rank) fail("cluster", site, fmt::format("{} at {}: the data goes to block {} of the cluster, its barrier lies in block {}; must be the same", kCall, name_site(site), rank, barrier >> kRankShift));
  Block& target = *t.cluster->blocks[rank];
  if (target.live == 0) fail("exit", site, fmt::format("{} at {} into {}, all of whose threads have returned", kCall, name_site(site), name_block(target)));
  shared_bytes(target, address, sizeof value, sizeof value, kCall, site);
  check_barrier_ready(find_barrier(target, counted, kCall, site), t.view(), true, site);
  ++target.copies;
  View view = t.view();
  ++t.epoch;
  const u32 id = site_id(site), offset = counted - kSharedBase;
  const u32 span = timeline_ ? show_write(*t.block, kCall, address, target.barriers.at(offset), sizeof value, EventArguments().add("at", name_site(site))) : 0;
  submit([this, &target, address, value, offset, view = std::move(view), id, site, span, from = t.block] {
    MbarrierState& b = target.barriers.at(offset);
    const Access a{b.agent, b.first_epoch + b.phase + 1, id, true, false};
    b.last_copy = a.epoch;
    if (target.live == 0) fail("exit", site, fmt::format("{} at {} lands in {}, all of whose threads have returned", kCall, name_site(site), name_block(target)));
    if (options_.races) touch_shared(target, address - kSharedBase, sizeof value, a, view);
    std::memcpy(target.shared.data() + (address - kSharedBase), &value, sizeof value);
    --target.copies;
    complete_transaction(target, offset, sizeof value, site);
    if (span) show_landed(*from, span);
  });
}

}  // namespace foretile::emulator
