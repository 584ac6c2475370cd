// Element-wise asynchronous copies: each lands between its issue and the wait for its group. They write by the generic
// proxy, so that no proxy fence is due, but only the wait orders them, and only for the thread that issued them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/machine.h"

namespace foretile::emulator {

void Machine::cp_async(u32 destination, const void* source, u32 bytes, u32 valid, Site site) {
  Thread& t = me();
  Block& block = *t.block;
  t.last_load = {};
  shared_bytes(block, destination, bytes, bytes, "cp_async", site);
  if (valid > bytes) fail("out-of-bounds", site, fmt::format("cp_async of {} bytes at {} says that {} are valid", bytes, name_site(site), valid));
  if (valid && reinterpret_cast<std::uintptr_t>(source) % bytes)
    fail("misaligned", site, fmt::format("cp_async of {} bytes at {}: the address in global memory must be a multiple of {}", bytes, name_site(site), bytes));
  if (!t.copies) {
    t.copies = std::make_unique<CopyGroups>();
    t.copies->agent = new_agent(block, Engine::cp_async, t.index);
  }
  CopyGroups& copies = *t.copies;
  const u32 group = copies.open;
  copies.open_used = true;
  copies.open_site = site;
  copies.last_used = group;
  ++copies.pending[group];
  const View view = t.view();
  ++t.epoch;
  const u32 id = site_id(site);
  submit([this, &t, &block, &copies, view, destination, source, bytes, valid, group, id, site] {
    u8 value[16] = {};
    if (valid && check_global(source, valid, false, view, "cp_async", site)) {
      if (options_.races) touch_global(source, valid, {copies.agent, group, id, false, false}, view);
      std::memcpy(value, source, valid);
    }
    if (options_.races) touch_shared(block, destination - kSharedBase, bytes, {copies.agent, group, id, true, false}, view);
    std::memcpy(block.shared.data() + (destination - kSharedBase), value, bytes);
    if (--copies.pending[group] == 0) copies.pending.erase(group);
    if (t.wait.kind == Wait::Kind::cp_async) wake(t);
  });
}

void Machine::cp_async_commit() {
  CopyGroups* const copies = me().copies.get();
  if (!copies) {  // an empty group counts, too
    me().copies = std::make_unique<CopyGroups>();
    me().copies->agent = new_agent(*me().block, Engine::cp_async, me().index);
    return cp_async_commit();
  }
  ++copies->open;
  copies->open_used = false;
}

void Machine::cp_async_wait(u32 pending, Site site) {
  Thread& t = me();
  if (!t.copies) return;
  CopyGroups& copies = *t.copies;
  const u32 upto = copies.open > pending ? copies.open - pending : 0;  // groups before this one must be complete
  while (copies.first_pending() < upto) block_on({Wait::Kind::cp_async, "cp_async_wait", site, 0, pending});
  if (upto == 0) return;
  copies.waited = std::max(copies.waited, upto);
  if (options_.races) advance(t.knowledge.seen, copies.agent, upto - 1);
}

}  // namespace foretile::emulator
