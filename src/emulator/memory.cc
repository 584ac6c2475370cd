// Accesses to shared and global memory, and the checks of every access.
#include <algorithm>
#include <cstring>

#include "emulator/machine.h"

namespace foretile::emulator {

u8* Machine::shared_bytes(Block& block, u32 address, u32 bytes, u32 alignment, const char* call, Site site) {
  const u32 size = u32(block.shared.size()), offset = address - kSharedBase;
  if (address < kSharedBase || offset > size || bytes > size - offset)
    fail("out-of-bounds", site, "{} of {} bytes at shared{:+#x} at {}: the block has {} bytes of shared memory", call, bytes,
         i64(address) - kSharedBase, name_site(site), size);
  if (address % alignment)
    fail("misaligned", site, "{} at {} at {}: the address must be a multiple of {}", call, name_shared(block, address), name_site(site), alignment);
  return block.shared.data() + offset;
}

// Where a thread's own access to its block's memory goes, checked.
u8* Machine::touch_own(Thread& t, u32 address, u32 bytes, bool store, const char* call, Site site) {
  u8* const at = shared_bytes(*t.block, address, bytes, bytes, call, site);
  touch_shared(*t.block, address, bytes, {t.agent, t.epoch, site_id(site), store, false}, t.view());
  return at;
}

void Machine::touch_shared(Block& block, u32 address, u32 bytes, const Access& a, const View& view) {
  if (!options_.races) return;
  const u32 offset = address - kSharedBase;
  for_cells(offset, bytes, [&](u64 index, u16 mask) {
    touch_cell(block.shadow[index], mask, a, view, [&](Hazard hazard, const Record* before) {
      on_hazard(hazard, before, a, [&] { return name_shared(block, kSharedBase + std::max(offset, u32(index) * kCellBytes)); });
    });
  });
}

void Machine::touch_global(const void* address, u64 bytes, const Access& a, const View& view) {
  // Only what some launch may write can race.
  if (!options_.races || std::none_of(grids_.begin(), grids_.end(), [&](const auto& g) { return find_region(*g, address, bytes, true); })) return;
  const Region* region = find_region(grid_of(view.self), address, bytes, false);
  const auto at = reinterpret_cast<std::uintptr_t>(address), base = reinterpret_cast<std::uintptr_t>(region->base);
  for_cells(at, bytes, [&](u64 index, u16 mask) {
    touch_cell(global_shadow_.cell(index), mask, a, view, [&](Hazard hazard, const Record* before) {
      on_hazard(hazard, before, a, [&] { return fmt::format("{}+0x{:x}", region->name, std::max<u64>(at, index * kCellBytes) - base); });
    });
  });
}

// The region that holds the whole range; with overlapping ones, a writable one where `store`.
const Region* Machine::find_region(const Grid& grid, const void* address, u64 bytes, bool store) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const Region& r : grid.launch->regions) {
    const auto base = reinterpret_cast<std::uintptr_t>(r.base);
    if ((!store || r.writable) && at >= base && at - base <= r.bytes && bytes <= r.bytes - (at - base)) return &r;
  }
  return nullptr;
}

// `view` is the issuing thread's, also when an asynchronous copy asks.
bool Machine::check_global(const void* address, u64 bytes, bool store, const View& view, const char* call, Site site) {
  const Grid& grid = grid_of(view.self);
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
    report("out-of-bounds", site, "{} of {} bytes of global memory at {} lies in {}", call, bytes, name_site(site), where);
    return false;
  }
  if (grid.dependent && options_.races && !(region->ready && !store)) {
    // Block::grid_agent, behind the threads and the matrix units.
    const Agent before = make_agent(view.self >> kAgentBits, grid.shape.threads + 4 * u32(ceil_div(grid.shape.threads, kWarpgroup)));
    if (!view.knows(before, 1))
      report("dependent-launch", site, "{} touches {} at {} before grid_dependency_wait()", call, region->name, name_site(site));
  }
  return true;
}

// An accumulator that is read between its wgmma and the wait.
void Machine::check_poison(const void* data, u32 bytes, Site site) {
  for (u32 i = 0; i + 4 <= bytes; i += 4)
    if (std::memcmp(static_cast<const char*>(data) + i, &kPoison, 4) == 0)
      report("wgmma", site, "{} stores an accumulator at {} that a wgmma still owns: wgmma_wait() is missing", name_thread(me()), name_site(site));
}

void Machine::shared_access(u32 address, void* data, u32 bytes, bool store, Site site) {
  const char* call = store ? "store_shared" : "load_shared";
  Thread& t = me();
  tell([&](Observer& o) { o.access(store ? LaneAccess::store_shared : LaneAccess::load_shared, call, t, address, bytes, site); });
  ++progress_;
  if (unordered_mode()) maybe_yield();
  t.last_load = {};
  u8* const at = touch_own(t, address, bytes, store, call, site);
  if (store) {
    check_poison(data, bytes, site);
    std::memcpy(at, data, bytes);
  } else {
    std::memcpy(data, at, bytes);
  }
}

void Machine::global_access(const void* address, void* data, u32 bytes, bool store, Site site) {
  const char* call = store ? "store_global" : "load_global";
  Thread& t = me();
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  tell([&](Observer& o) { o.access(store ? LaneAccess::store_global : LaneAccess::load_global, call, t, at, bytes, site); });
  if (unordered_mode()) maybe_yield();
  if (at % bytes)
    fail("misaligned", site, "{} of {} bytes at {}: the address must be a multiple of {}", call, bytes, name_site(site), bytes);
  const View view = t.view();
  if (!check_global(address, bytes, store, view, call, site)) {
    if (!store) std::memset(data, 0xFF, bytes);
    return;
  }
  touch_global(address, bytes, {t.agent, t.epoch, site_id(site), store, false}, view);
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
  if (load == t.last_load) return spin({Wait::Kind::polling, call, site, 0, 0});
  ++progress_;
  t.last_load = load;
}

}  // namespace foretile::emulator
