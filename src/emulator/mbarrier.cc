// Mbarriers: arrivals, transaction bytes, phases; and the fences that go with them.
#include "emulator/machine.h"

namespace foretile::emulator {

namespace {

constexpr i64 kMaxTransaction = (1 << 20) - 1;  // PTX ISA, "mbarrier: range of tx-count"
constexpr u32 kMaxArrivals = (1 << 20) - 1;
constexpr u32 kBarrierBytes = 8;

u16 cell_mask(u32 address) { return u16(0xFF << address % kCellBytes); }

}  // namespace

MbarrierState& Machine::find_barrier(Block& block, u32 address, const char* call, Site site) {
  shared_bytes(block, address, kBarrierBytes, kBarrierBytes, call, site);
  const auto it = block.barriers.find(address);
  if (it == block.barriers.end() || !it->second.valid)
    fail("mbarrier", site, "{} on {}, where no mbarrier was initialised", call, name_shared(block, address));
  return it->second;
}

// Whether this thread can know that the barrier is initialised.
void Machine::check_barrier_ready(const MbarrierState& b, bool async, Site site) {
  if (!options_.races) return;
  const bool announced = me().cluster == b.block->cluster && b.announced < me().cluster_waited;
  if (!announced && !me().view().knows(b.init.agent, b.init.epoch))
    report("race", site, "the mbarrier at {} is used at {}, not ordered after its initialisation at {}", name_shared(b), name_site(site),
           name_site(b.init.site));
  else if (async && !b.fenced)
    report("missing-proxy-fence", site,
           "the mbarrier at {} is signalled by the asynchronous proxy or by a peer, but no fence_mbarrier_init() follows its initialisation at {}",
           name_shared(b), name_site(b.init.site));
}

void Machine::mbarrier_init(u32 address, u32 arrivals, Site site) {
  Thread& t = me();
  Block& block = *t.block;
  shared_bytes(block, address, kBarrierBytes, kBarrierBytes, "mbarrier_init", site);
  MbarrierState& b = block.barriers[address];
  if (b.valid) fail("mbarrier", site, "mbarrier_init on {}, which is already initialised: mbarrier_invalidate() first", name_shared(block, address));
  if (arrivals < 1 || arrivals > kMaxArrivals) fail("mbarrier", site, "mbarrier_init with {} arrivals: must be 1 to {}", arrivals, kMaxArrivals);
  const Agent agent = b.agent == kNobody ? new_agent(block, Engine::copies, address) : b.agent;
  const u32 first_epoch = b.first_epoch + b.phase;  // epochs go on where an earlier barrier at this address stopped
  const Access access{t.agent, t.epoch, site_id(site), true, false};
  touch_shared(block, address, kBarrierBytes, access, t.view());
  b = MbarrierState();
  b.block = &block;
  b.address = address;
  b.valid = true;
  b.expected = b.pending = arrivals;
  b.agent = agent;
  b.first_epoch = first_epoch;
  b.init = access;
  if (options_.races) block.shadow[(address - kSharedBase) / kCellBytes].barrier |= cell_mask(address);
  t.unfenced_inits.push_back(&b);
}

void Machine::mbarrier_invalidate(u32 address, Site site) {
  Thread& t = me();
  MbarrierState& b = find_barrier(*t.block, address, "mbarrier_invalidate", site);
  check_barrier_ready(b, false, site);
  if (!b.waiters.empty()) fail("mbarrier", site, "mbarrier_invalidate on {} while {} threads wait on it", name_shared(b), b.waiters.size());
  b.valid = false;
  if (options_.races) t.block->shadow[(address - kSharedBase) / kCellBytes].barrier &= u16(~cell_mask(address));
  touch_own(t, address, kBarrierBytes, true, "mbarrier_invalidate", site);
}

void Machine::mbarrier_arrive(u32 address, u32 arrivals, i64 bytes, Site site) {
  Thread& t = me();
  MbarrierState& b = find_barrier(*t.block, address, "mbarrier_arrive", site);
  check_barrier_ready(b, false, site);
  if (bytes < 0) fail("mbarrier", site, "mbarrier_arrive_expect with {} bytes", bytes);
  b.transaction += bytes;
  if (b.transaction > kMaxTransaction)
    fail("mbarrier", site, "the mbarrier at {} expects {} bytes: more than {}", name_shared(b), b.transaction, kMaxTransaction);
  if (arrivals > b.pending)
    fail("mbarrier", site, "{} arrives at the mbarrier at {} in phase {}, where {} of {} arrivals are pending: one arrival too many", name_thread(t),
         name_shared(b), b.phase, b.pending, b.expected);
  release_into(b.building, t);
  b.pending -= arrivals;
  complete_phase(b, site);
}

void Machine::mbarrier_arrive_cluster(u32 address, u32 rank, Site site) {
  Thread& t = me();
  if (rank >= t.cluster->blocks.size())
    fail("mbarrier", site, "mbarrier_arrive_cluster: there is no block {} in a cluster of {}", rank, t.cluster->blocks.size());
  Block& peer = *t.cluster->blocks[rank];
  if (peer.live == 0)
    fail("exit", site, "{} arrives at an mbarrier of {}, all of whose threads have returned: a peer must stay until the last remote arrival",
         name_thread(t), name_block(peer));
  MbarrierState& b = find_barrier(peer, address, "mbarrier_arrive_cluster", site);
  check_barrier_ready(b, &peer != t.block, site);
  if (b.pending == 0)
    fail("mbarrier", site, "{} arrives at {}'s mbarrier at {} in phase {}, which awaits no arrival", name_thread(t), name_block(peer), name_shared(b),
         b.phase);
  if (options_.races) b.building.add_engines_only(t);
  --b.pending;
  complete_phase(b, site);
}

void Machine::complete_transaction(MbarrierState& b, i64 bytes, Site site) {
  if (!b.valid) fail("mbarrier", site, "a copy lands on the mbarrier at {}, which was invalidated", name_shared(b));
  b.transaction -= bytes;
  if (b.transaction < -kMaxTransaction)
    fail("mbarrier", site, "{} bytes landed on the mbarrier at {} that nobody expects", -b.transaction, name_shared(b));
  complete_phase(b, site);
}

void Machine::complete_phase(MbarrierState& b, Site site) {
  if (b.pending != 0 || b.transaction != 0) return;
  if (!b.observed)
    report("mbarrier", site, "the mbarrier at {} completes phase {} although no wait has observed that phase {} completed", name_shared(b), b.phase,
           b.phase - 1);
  ++b.phase;
  ++progress_;
  b.pending = b.expected;
  if (options_.races) advance(b.building.gathered.seen, b.agent, b.first_epoch + b.phase);
  b.released = b.building.gathered;
  b.building = {};
  b.observed = !b.waiters.empty();
  for (Thread* t : b.waiters) acquire(*t, b.released);  // this phase's, even if the barrier moves on before the thread runs
  wake_all(b.waiters);
}

// Parity has one bit, so a wait is unambiguous only for a thread that knows, by happens-before and not by luck, that
// the phase before the awaited one is complete. One that does not could in another schedule pass a phase early or be
// two behind and wait for ever.
bool Machine::phase_passed(MbarrierState& b, u32 parity, bool test, Site site) {
  Thread& t = me();
  if (parity > 1) fail("mbarrier", site, "parity {}: must be 0 or 1", parity);
  check_barrier_ready(b, false, site);
  const bool passed = (b.phase & 1) != parity;
  if (options_.races && b.phase > 0 && !test) {
    const u32 known_epoch = epoch_of(t.knowledge.seen, b.agent);
    const u32 known = known_epoch > b.first_epoch ? known_epoch - b.first_epoch : 0;  // phases known to be complete
    if (known < (passed ? b.phase - 1 : b.phase))
      report("mbarrier", site,
             "{} waits with parity {} on the mbarrier at {}, {} phases of which are complete, but it has not observed more than {}: it may be two phases behind, "
             "which one bit of parity cannot tell",
             name_thread(t), parity, name_shared(b), b.phase, known);
  }
  if (passed) {
    b.observed = true;
    acquire(t, b.released);
  }
  return passed;
}

void Machine::mbarrier_wait(u32 address, u32 parity, Site site) {
  MbarrierState& b = find_barrier(*me().block, address, "mbarrier_wait", site);
  if (phase_passed(b, parity, false, site)) return;
  b.waiters.push_back(&me());
  block_on({Wait::Kind::mbarrier, "mbarrier_wait", site, address, b.phase});
}

bool Machine::mbarrier_test(u32 address, u32 parity, Site site) {
  MbarrierState& b = find_barrier(*me().block, address, "mbarrier_test", site);
  if (unordered_mode() && random_below(4) == 0) {  // the hardware's may be falsely false
    yield();
    return false;
  }
  if (phase_passed(b, parity, true, site)) return true;
  spin({Wait::Kind::testing, "mbarrier_test", site, address, b.phase});
  return false;
}

// ---- fences ----------------------------------------------------------------------------------------------

void Machine::fence_mbarrier_init() {
  Thread& t = me();
  for (MbarrierState* b : t.unfenced_inits) b->fenced = true;
  if (t.cluster->blocks.size() > 1) t.fenced_inits.insert(t.fenced_inits.end(), t.unfenced_inits.begin(), t.unfenced_inits.end());
  t.unfenced_inits.clear();
}

void Machine::fence_proxy_async() {
  Thread& t = me();
  t.knowledge.fenced = t.knowledge.seen;  // covers whatever was fenced before
  t.fenced_epoch = t.epoch;
  fence_mbarrier_init();
}

}  // namespace foretile::emulator
