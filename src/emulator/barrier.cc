// Synchronisation of whole warps, blocks, clusters and launches, and the pool of registers.
#include <algorithm>
#include <string_view>

#include "emulator/machine.h"

namespace foretile::emulator {

void Release::add(const Thread& t) {
  if (!(last.seen == t.knowledge.seen)) gathered.seen = join(gathered.seen, t.knowledge.seen), last.seen = t.knowledge.seen;
  if (!(last.fenced == t.knowledge.fenced)) gathered.fenced = join(gathered.fenced, t.knowledge.fenced), last.fenced = t.knowledge.fenced;
  advance(gathered.seen, t.agent, t.epoch);
  if (t.fenced_epoch) advance(gathered.fenced, t.agent, t.fenced_epoch);
}

void Release::add_engines_only(const Thread& t) {
  gathered.seen = join(gathered.seen, without_threads(t.knowledge.seen, u32(t.block->threads.size())));
  last.seen = {};
}

// What the thread does from here on is not released.
void Machine::release_into(Release& building, Thread& t) {
  if (!options_.races) return;
  building.add(t);
  ++t.epoch;
}

void Machine::acquire(Thread& t, const Knowledge& k) {
  t.knowledge.seen = joins_.join(t.knowledge.seen, k.seen);
  t.knowledge.fenced = joins_.join(t.knowledge.fenced, k.fenced);
}

// ---- calls made together ---------------------------------------------------------------------------------

bool Machine::is_last(Rendezvous& r, u32 members, const char* call, Site site, const CallOperands& operands, bool one_site) {
  Thread& t = me();
  if (r.members.empty()) {
    r.call = call, r.site = site, r.operands = operands;
  } else if (r.call != std::string_view(call) || (one_site && r.site != site)) {
    fail("divergence", site, "{} calls {} at {}, while {} is at {} ({}): the {} must make the call together", name_thread(t), call, name_site(site),
         name_thread(*r.members.front()), r.call, name_site(r.site), members == kWarpgroup ? "warpgroup" : "warp");
  } else if (r.operands != operands) {
    fail("divergence", site, "{} calls {} at {} with operands {:#x} {:#x} {:#x}, {} with {:#x} {:#x} {:#x}: they must be the same", name_thread(t),
         call, name_site(site),
         operands[0], operands[1], operands[2], name_thread(*r.members.front()), r.operands[0], r.operands[1], r.operands[2]);
  }
  r.members.push_back(&t);
  if (r.members.size() == members) return true;
  block_on({Wait::Kind::collective, call, site, 0, members});
  return false;
}

void Machine::let_go(Rendezvous& r) {
  r.members.pop_back();  // the last to arrive runs
  wake_all(r.members);
}

void Machine::sync_warp(Site site) {
  Rendezvous& r = me().warp().rendezvous;
  const auto first = me().block->threads.begin() + me().warp_index() * kWarp;
  const auto lanes = std::count_if(first, first + kWarp, [](const Thread* t) { return t->state != Thread::State::done; });
  const auto exchange = [&] {
    if (!options_.races) return;
    Release all;
    for (Thread* t : r.members) all.add(*t);
    for (Thread* t : r.members) t->knowledge = all.gathered, ++t->epoch;
  };
  collective(r, u32(lanes), "sync_warp", site, exchange, {}, false);
}

bool Machine::elect_one(Site site) {
  Warp& w = me().warp();
  collective(w.rendezvous, kWarp, "elect_one", site, [&] { w.elected = unordered_mode() ? u32(random_below(kWarp)) : 0; });
  return me().lane() == w.elected;
}

// ---- named barriers --------------------------------------------------------------------------------------

void Machine::sync_block(Site site) { arrive(0, me().block->live, true, true, "sync_block", site); }

void Machine::named_barrier(u32 id, u32 threads, bool wait, const char* call, Site site) {
  const u32 all = me().block->grid->shape.threads;
  if (id > 15) fail("named-barrier", site, "{}: there is no named barrier {}, only 0 to 15", call, id);
  if (threads == 0 || threads % kWarp || threads > all)
    fail("named-barrier", site, "{}: {} threads: must be a multiple of 32 and at most the block's {}", call, threads, all);
  arrive(id, threads, false, wait, call, site);
}

void Machine::arrive(u32 id, u32 threads, bool whole_block, bool wait, const char* call, Site site) {
  Thread& t = me();
  NamedBarrier& b = t.block->named[id];
  if (b.arrived == 0) {
    b.expected = threads;
    b.whole_block = whole_block;
  } else if (b.expected != threads || b.whole_block != whole_block) {
    fail("named-barrier", site, "{} on barrier {} for {} threads, while {} threads stand there who await {}", call, id, threads, b.arrived,
         b.expected);
  }
  auto& [lanes, first_site] = b.warps.try_emplace(t.warp_index(), 0u, site).first->second;
  if (lanes >> t.lane() & 1) fail("named-barrier", site, "{} arrives at named barrier {} twice before it completes", name_thread(t), id);
  if (lanes && first_site != site)
    fail("divergence", site, "lanes of warp {} arrive at named barrier {} from {} and from {}", t.warp_index(), id, name_site(first_site),
         name_site(site));
  lanes |= 1u << t.lane();
  release_into(b.building, t);
  ++b.arrived;
  if (wait) b.waiters.push_back(&t);
  if (b.arrived == b.expected) complete_named(b, id);
  else if (wait) block_on({Wait::Kind::named_barrier, call, site, id, 0});
}

void Machine::complete_named(NamedBarrier& b, u32 id) {
  for (const auto& [warp, arrived] : b.warps)
    if (arrived.first != ~0u && !b.whole_block)
      report("divergence", arrived.second, "only some lanes of warp {} took part in named barrier {} at {}", warp, id, name_site(arrived.second));
  if (options_.races)
    for (Thread* t : b.waiters) t->knowledge = b.building.gathered;
  b.building = {};
  b.warps.clear();
  b.arrived = 0;
  wake_all(b.waiters);
}

// ---- the cluster's barrier -------------------------------------------------------------------------------

void Machine::cluster_arrive(bool relaxed, Site site) {
  Thread& t = me();
  Cluster& c = *t.cluster;
  if (t.cluster_arrived) fail("cluster-barrier", site, "{} arrives at the cluster barrier twice without cluster_wait()", name_thread(t));
  for (MbarrierState* b : t.fenced_inits)
    if (b->fenced && b->init.agent == t.agent) b->announced = c.generation;  // another thread may have initialised it anew
  t.fenced_inits.clear();
  t.cluster_arrived = true;
  t.cluster_generation = c.generation;
  if (!relaxed) release_into(c.building, t);
  if (++c.arrived == c.live) complete_cluster(c);
}

void Machine::complete_cluster(Cluster& c) {
  c.released = c.building.gathered;
  c.building = {};
  c.arrived = 0;
  ++c.generation;
  wake_all(c.waiters);
}

void Machine::cluster_wait(Site site) {
  Thread& t = me();
  Cluster& c = *t.cluster;
  if (!t.cluster_arrived) fail("cluster-barrier", site, "{} waits at the cluster barrier without cluster_arrive()", name_thread(t));
  if (c.generation == t.cluster_generation) {
    c.waiters.push_back(&t);
    block_on({Wait::Kind::cluster, "cluster_wait", site, 0, 0});
  }
  t.cluster_arrived = false;
  t.cluster_waited = t.cluster_generation + 1;
  acquire(t, c.released);  // no thread can arrive twice before this one waits, so it is still that phase's
}

// ---- registers -------------------------------------------------------------------------------------------

void Machine::registers(u32 count, bool acquire, Site site) {
  const char* call = acquire ? "register_acquire" : "register_release";
  Thread& t = me();
  if (count < 24 || count > 256 || count % 8) fail("registers", site, "{}<{}>: must be a multiple of 8 from 24 to 256", call, count);
  Warpgroup& g = my_warpgroup(site);
  Block& block = *t.block;
  const auto exchange = [&] {
    if (g.register_count == 0) return;  // the compiler decided the launch's count: unknown here
    if (acquire ? count < g.register_count : count > g.register_count)
      fail("registers", site, "{}<{}>, but a thread of warpgroup {} has {} registers", call, count, g.index, g.register_count);
    if (acquire) return;
    block.register_pool += i64(g.register_count - count) * kWarpgroup;
    g.register_count = count;
    wake_all(block.register_waiters);
  };
  collective(g.rendezvous, kWarpgroup, call, site, exchange, {count, 0, 0});
  if (!acquire || g.register_count == 0) return;
  // The first thread to find room takes the registers for the whole warpgroup.
  while (g.register_count < count && block.register_pool < i64(count - g.register_count) * kWarpgroup) {
    block.register_waiters.push_back(&t);
    block_on({Wait::Kind::registers, call, site, count - g.register_count, 0});
  }
  if (g.register_count < count) {
    block.register_pool -= i64(count - g.register_count) * kWarpgroup;
    g.register_count = count;
    wake_all(block.register_waiters);
  }
}

// ---- dependent launch ------------------------------------------------------------------------------------

void Machine::grid_dependency_wait(Site site) {
  Thread& t = me();
  Grid* const before = t.block->grid->before;
  if (before && !before->complete) {
    before->waiters.push_back(&t);
    block_on({Wait::Kind::grid, "grid_dependency_wait", site, 0, 0});
  }
  t.block->grid_waited = true;
  if (!options_.races) return;
  if (before) acquire(t, before->released);
  if (t.block->grid->dependent) advance(t.knowledge.seen, t.block->grid_agent, 1);
}

void Machine::grid_dependency_launch(Site site) {
  Block& block = *me().block;
  if (std::exchange(block.triggered, true)) return;
  ++block.grid->triggered;
  tell([&](Observer& o) { o.happened(block, "grid_dependency_launch", site, ""); });
  start_clusters();
}

// Everything that a block of the launch did is behind whoever knows of this, and visible to the asynchronous proxy.
void Machine::complete_grid(Grid& grid) {
  grid.complete = true;
  if (options_.races && grid.after) {
    const ClockRef everything = everything_of(grid.first_block, grid.shape.blocks, grid.agents);
    grid.released = {join(grid.building.gathered.seen, everything), join(grid.building.gathered.fenced, everything)};
  }
  wake_all(grid.waiters);
}

}  // namespace foretile::emulator
