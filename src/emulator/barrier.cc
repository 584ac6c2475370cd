// Synchronisation: collectives of a warp or warpgroup, named barriers, cluster barrier, mbarriers, fences.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/collective.h"
#include "emulator/machine.h"

namespace foretile::emulator {

namespace {

constexpr i64 kMaxTransaction = (1 << 20) - 1;  // PTX ISA, "mbarrier: range of tx-count"
constexpr u32 kMaxArrivals = (1 << 20) - 1;

}  // namespace

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

void Machine::acquire(Thread& t, const Knowledge& k) {
  t.knowledge.seen = joins_.join(t.knowledge.seen, k.seen);
  t.knowledge.fenced = joins_.join(t.knowledge.fenced, k.fenced);
}

// ---- warps -----------------------------------------------------------------------------------------------

void Machine::sync_warp(Site site) {
  Rendezvous& r = me().warp().rendezvous;
  u32 lanes = 0;
  for (u32 l = 0; l < kWarp; ++l) lanes += me().block->threads[me().warp_index() * kWarp + l]->state != Thread::State::done;
  collective(r, lanes, "sync_warp", site, {}, false, [&] {
    if (!options_.races) return;
    Release all;
    for (Thread* t : r.members) all.add(*t);
    for (Thread* t : r.members) t->knowledge = all.gathered, ++t->epoch;
  });
}

bool Machine::elect_one(Site site) {
  Warp& w = me().warp();
  collective(w.rendezvous, kWarp, "elect_one", site, {}, true, [&] { w.elected = unordered_mode() ? u32(random_below(kWarp)) : 0; });
  return me().lane() == w.elected;
}

// ---- named barriers and the cluster's --------------------------------------------------------------------

void Machine::named_barrier(u32 id, u32 threads, bool whole_block, bool wait, const char* call, Site site) {
  Thread& t = me();
  Block& block = *t.block;
  if (id > 15) fail("named-barrier", site, fmt::format("{}: there is no named barrier {}, only 0 to 15", call, id));
  if (!whole_block && (threads == 0 || threads % kWarp || threads > t.block->grid->shape.threads))
    fail("named-barrier", site, fmt::format("{}: {} threads: must be a multiple of 32 and at most the block's {}", call, threads, t.block->grid->shape.threads));
  NamedBarrier& b = block.named[id];
  if (b.arrived == 0) {
    b.expected = threads;
    b.whole_block = whole_block;
  } else if (b.expected != threads || b.whole_block != whole_block) {
    fail("named-barrier", site, fmt::format("{} on barrier {} for {} threads, while {} threads stand there who await {}", call, id, threads, b.arrived, b.expected));
  }
  auto& [lanes, first_site] = b.warps.try_emplace(t.warp_index(), 0u, site).first->second;
  if (lanes >> t.lane() & 1) fail("named-barrier", site, fmt::format("{} arrives at named barrier {} twice before it completes", name_thread(t), id));
  if (lanes && (first_site.line != site.line || first_site.file != site.file))
    fail("divergence", site, fmt::format("lanes of warp {} arrive at named barrier {} from {} and from {}", t.warp_index(), id, name_site(first_site), name_site(site)));
  lanes |= 1u << t.lane();
  if (options_.races) {
    b.building.add(t);
    if (!wait) ++t.epoch;
  }
  ++b.arrived;
  if (wait) b.waiters.push_back(&t);
  if (b.arrived == b.expected) {
    complete_named(b, id);
  } else if (wait) {
    Wait w{Wait::Kind::named_barrier, call, site, id, 0};
    block_on(w);
  }
}

void Machine::complete_named(NamedBarrier& b, u32 id) {
  for (const auto& [warp, arrived] : b.warps)
    if (arrived.first != ~0u && !b.whole_block)
      report("divergence", arrived.second, fmt::format("only some lanes of warp {} took part in named barrier {} at {}", warp, id, name_site(arrived.second)));
  if (options_.races)
    for (Thread* t : b.waiters) t->knowledge = b.building.gathered, ++t->epoch;
  b.building = {};
  b.warps.clear();
  b.arrived = 0;
  wake_all(b.waiters);
}

void Machine::cluster_arrive(Site site) {
  Thread& t = me();
  Cluster& c = *t.cluster;
  if (t.cluster_arrived) fail("cluster-barrier", site, name_thread(t) + " arrives at the cluster barrier twice without cluster_wait()");
  t.cluster_arrived = true;
  t.cluster_generation = c.generation;
  if (options_.races) {
    c.building.add(t);
    ++t.epoch;
  }
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
  if (!t.cluster_arrived) fail("cluster-barrier", site, name_thread(t) + " waits at the cluster barrier without cluster_arrive()");
  if (c.generation == t.cluster_generation) {
    c.waiters.push_back(&t);
    block_on({Wait::Kind::cluster, "cluster_wait", site, 0, 0});
  }
  t.cluster_arrived = false;
  acquire(t, c.released);  // no thread can arrive twice before this one waits, so it is still that phase's
}

// ---- mbarriers -------------------------------------------------------------------------------------------

MbarrierState& Machine::find_barrier(Block& block, u32 address, const char* call, Site site) {
  shared_bytes(block, address, 8, 8, call, site);
  const auto it = block.barriers.find(address - kSharedBase);
  if (it == block.barriers.end() || !it->second.valid)
    fail("mbarrier", site, fmt::format("{} on {}, where no mbarrier was initialised", call, name_shared(block, address - kSharedBase)));
  return it->second;
}

// Whether the user of a barrier can know that it is initialised.
void Machine::check_barrier_ready(const MbarrierState& b, const View& view, bool async, Site site) {
  if (!options_.races) return;
  if (!view.knows(b.init.agent, b.init.epoch))
    report("race", site, fmt::format("the mbarrier at {} is used at {}, not ordered after its initialisation at {}", name_shared(b), name_site(site), name_site(sites_[b.init.site])));
  else if (async && !b.fenced)
    report("missing-proxy-fence", site, fmt::format("the mbarrier at {} is signalled by the asynchronous proxy or by a peer, but no fence_mbarrier_init() follows its initialisation at {}",
                                                    name_shared(b), name_site(sites_[b.init.site])));
}

void Machine::mbarrier_init(u32 address, u32 arrivals, Site site) {
  Thread& t = me();
  Block& block = *t.block;
  shared_bytes(block, address, 8, 8, "mbarrier_init", site);
  const u32 offset = address - kSharedBase;
  MbarrierState& b = block.barriers[offset];
  if (b.valid) fail("mbarrier", site, fmt::format("mbarrier_init on {}, which is already initialised: mbarrier_invalidate() first", name_shared(block, offset)));
  if (arrivals < 1 || arrivals > kMaxArrivals) fail("mbarrier", site, fmt::format("mbarrier_init with {} arrivals: must be 1 to {}", arrivals, kMaxArrivals));
  const Agent agent = b.agent == kNobody ? new_agent(block, Engine::copies, offset) : b.agent;
  const u32 first_epoch = b.first_epoch + b.phase;  // epochs go on where an earlier barrier at this address stopped
  const Access access{t.agent, t.epoch, site_id(site), true, false};
  if (options_.races) touch_shared(block, offset, 8, access, t.view());
  b = MbarrierState();
  b.block = &block;
  b.offset = offset;
  b.valid = true;
  b.expected = b.pending = arrivals;
  b.agent = agent;
  b.first_epoch = first_epoch;
  b.init = access;
  if (options_.races) block.shadow[offset / kCellBytes].barrier |= u16(0xFF << offset % kCellBytes);
  t.unfenced_inits.push_back(&b);
}

void Machine::mbarrier_invalidate(u32 address, Site site) {
  Thread& t = me();
  MbarrierState& b = find_barrier(*t.block, address, "mbarrier_invalidate", site);
  check_barrier_ready(b, t.view(), false, site);
  if (!b.waiters.empty()) fail("mbarrier", site, fmt::format("mbarrier_invalidate on {} while {} threads wait on it", name_shared(b), b.waiters.size()));
  b.valid = false;
  if (options_.races) {
    Cell& cell = t.block->shadow[b.offset / kCellBytes];
    cell.barrier &= u16(~(0xFF << b.offset % kCellBytes));
    touch_shared(*t.block, b.offset, 8, {t.agent, t.epoch, site_id(site), true, false}, t.view());
  }
}

void Machine::complete_phase(Block& block, MbarrierState& b, Site site) {
  if (b.pending != 0 || b.transaction != 0) return;
  if (!b.observed)
    report("mbarrier", site, fmt::format("the mbarrier at {} completes phase {} although no wait has observed that phase {} completed", name_shared(b), b.phase, b.phase - 1));
  ++b.phase;
  ++progress_;
  b.pending = b.expected;
  if (options_.races) advance(b.building.gathered.seen, b.agent, b.first_epoch + b.phase);
  b.released = b.building.gathered;
  b.building = {};
  b.observed = !b.waiters.empty();
  for (Thread* t : b.waiters) {
    acquire(*t, b.released);  // this phase's, even if the barrier moves on before the thread runs
    wake(*t);
  }
  b.waiters.clear();
  (void)block;
}

void Machine::mbarrier_arrive(u32 address, u32 arrivals, i64 bytes, Site site) {
  Thread& t = me();
  MbarrierState& b = find_barrier(*t.block, address, "mbarrier_arrive", site);
  check_barrier_ready(b, t.view(), false, site);
  if (bytes < 0) fail("mbarrier", site, fmt::format("mbarrier_arrive_expect with {} bytes", bytes));
  b.transaction += bytes;
  if (b.transaction > kMaxTransaction)
    fail("mbarrier", site, fmt::format("the mbarrier at {} expects {} bytes: more than {}", name_shared(b), b.transaction, kMaxTransaction));
  if (arrivals > b.pending)
    fail("mbarrier", site, fmt::format("{} arrives at the mbarrier at {} in phase {}, where {} of {} arrivals are pending: one arrival too many", name_thread(t), name_shared(b),
                                       b.phase, b.pending, b.expected));
  if (options_.races) {
    b.building.add(t);
    ++t.epoch;
  }
  b.pending -= arrivals;
  complete_phase(*t.block, b, site);
}

void Machine::mbarrier_arrive_cluster(u32 address, u32 rank, Site site) {
  Thread& t = me();
  if (rank >= t.cluster->blocks.size()) fail("mbarrier", site, fmt::format("mbarrier_arrive_cluster: there is no block {} in a cluster of {}", rank, t.cluster->blocks.size()));
  Block& peer = *t.cluster->blocks[rank];
  if (peer.live == 0)
    fail("exit", site, fmt::format("{} arrives at an mbarrier of {}, all of whose threads have returned: a peer must stay until the last remote arrival", name_thread(t), name_block(peer)));
  MbarrierState& b = find_barrier(peer, address, "mbarrier_arrive_cluster", site);
  check_barrier_ready(b, t.view(), &peer != t.block, site);
  if (b.pending == 0) fail("mbarrier", site, fmt::format("{} arrives at {}'s mbarrier at {} in phase {}, which awaits no arrival", name_thread(t), name_block(peer), name_shared(b), b.phase));
  if (options_.races) b.building.add_engines_only(t);
  --b.pending;
  complete_phase(peer, b, site);
}

void Machine::complete_transaction(Block& block, u32 offset, i64 bytes, Site site) {
  MbarrierState& b = block.barriers.at(offset);
  if (!b.valid) fail("mbarrier", site, fmt::format("a copy lands on the mbarrier at {}, which was invalidated", name_shared(b)));
  b.transaction -= bytes;
  if (b.transaction < -kMaxTransaction)
    fail("mbarrier", site, fmt::format("{} bytes landed on the mbarrier at {} that nobody expects", -b.transaction, name_shared(b)));
  complete_phase(block, b, site);
}

// Parity has one bit, so a wait is unambiguous only for a thread that knows, by happens-before and not by luck, that
// the phase before the awaited one is complete. One that does not could in another schedule pass a phase early or be
// two behind and wait for ever.
bool Machine::phase_passed(MbarrierState& b, u32 parity, bool test, Site site) {
  Thread& t = me();
  if (parity > 1) fail("mbarrier", site, fmt::format("parity {}: must be 0 or 1", parity));
  check_barrier_ready(b, t.view(), false, site);
  const bool passed = (b.phase & 1) != parity;
  if (options_.races && b.phase > 0) {
    const u32 known_epoch = epoch_of(t.knowledge.seen, b.agent);
    const u32 known = known_epoch > b.first_epoch ? known_epoch - b.first_epoch : 0;  // phases known to be complete
    const u32 needed = passed ? b.phase - 1 : b.phase;
    if (known < needed && !test)
      report("mbarrier", site,
             fmt::format("{} waits with parity {} on the mbarrier at {}, {} phases of which are complete, but it has not observed more than {}: it may be two phases behind, "
                         "which one bit of parity cannot tell",
                         name_thread(t), parity, name_shared(b), b.phase, known));
  }
  if (passed) {
    b.observed = true;
    acquire(t, b.released);
  }
  return passed;
}

void Machine::mbarrier_wait(u32 address, u32 parity, Site site) {
  Thread& t = me();
  MbarrierState& b = find_barrier(*t.block, address, "mbarrier_wait", site);
  if (phase_passed(b, parity, false, site)) return;
  b.waiters.push_back(&t);
  block_on({Wait::Kind::mbarrier, "mbarrier_wait", site, address, b.phase});
}

bool Machine::mbarrier_test(u32 address, u32 parity, Site site) {
  Thread& t = me();
  MbarrierState& b = find_barrier(*t.block, address, "mbarrier_test", site);
  if (unordered_mode() && random_below(4) == 0) {  // the hardware's may be falsely false
    yield();
    return false;
  }
  if (phase_passed(b, parity, true, site)) return true;
  spin(t, {Wait::Kind::testing, "mbarrier_test", site, address, b.phase});
  return false;
}

// ---- fences ----------------------------------------------------------------------------------------------

void Machine::fence_mbarrier_init() {
  for (MbarrierState* b : me().unfenced_inits) b->fenced = true;
  me().unfenced_inits.clear();
}

void Machine::fence_proxy_async() {
  Thread& t = me();
  t.knowledge.fenced = t.knowledge.seen;  // covers whatever was fenced before
  t.fenced_epoch = t.epoch;
  fence_mbarrier_init();
}

// ---- registers, dependent launch -------------------------------------------------------------------------

void Machine::registers(u32 count, bool acquire, Site site) {
  const char* call = acquire ? "register_acquire" : "register_release";
  Thread& t = me();
  if (count < 24 || count > 256 || count % 8) fail("registers", site, fmt::format("{}<{}>: must be a multiple of 8 from 24 to 256", call, count));
  Warpgroup& g = my_warpgroup(site);
  Block& block = *t.block;
  collective(g.rendezvous, kWarpgroup, call, site, {count, 0, 0}, true, [&] {
    if (g.register_count == 0) return;  // the compiler decided the launch's count: unknown here
    if (acquire ? count < g.register_count : count > g.register_count)
      fail("registers", site, fmt::format("{}<{}>, but a thread of warpgroup {} has {} registers", call, count, g.index, g.register_count));
    if (acquire) return;
    block.register_pool += i64(g.register_count - count) * kWarpgroup;
    g.register_count = count;
    wake_all(block.register_waiters);
  });
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
  if (timeline_) timeline_->mark(block.process, progress_, "grid_dependency_launch", EventArguments().add("at", name_site(site)));
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
