// Launch and schedule: clusters come and go, threads switch, asynchronous operations complete.
#include "emulator/machine.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace foretile::emulator {

namespace {

thread_local Machine* the_machine = nullptr;

constexpr u32 kMaxResidentThreads = 16384;  // a fiber each; their stacks are the limit
constexpr u32 kPriorityChanges = 3;         // PCT: the depth of the ordering bugs looked for
constexpr u32 kSpinRounds = 1000;           // fruitless tests by every thread before it counts as livelock
constexpr Site kNowhere{};

}  // namespace

Machine& Machine::current() {
  if (!the_machine) throw std::logic_error("a vocabulary function was called outside of foretile::emulator::emulate()");
  return *the_machine;
}

Machine::Machine(const std::vector<Launch>& chain, const Options& options)
    : options_(options), rng_(options.seed * 2654435761u + 12345) {
  const auto require = [](bool ok, const char* message) {
    if (!ok) throw std::invalid_argument(message);
  };
  u32 blocks = 0;
  for (const Launch& launch : chain) {
    const LaunchShape& shape = launch.shape;
    require(shape.threads > 0 && shape.threads % kWarp == 0 && shape.threads <= 1024, "threads a block must be a multiple of 32, at most 1024");
    require(shape.cluster >= 1 && shape.cluster <= 16, "a cluster has 1 to 16 blocks");
    require(shape.blocks > 0 && shape.blocks % shape.cluster == 0, "the grid must be a positive multiple of the cluster");
    require(shape.blocks < (1u << (32 - kAgentBits)) - blocks, "the emulator runs grids of fewer than 2^20 blocks, a chain's together");
    require(shape.shared_bytes <= 227 * 1024, "a block has at most 227 KiB of shared memory");
    require(shape.registers >= 0 && i64(shape.registers) * shape.threads <= 65536, "a block has at most 65,536 registers");
    auto grid = std::make_unique<Grid>();
    grid->launch = &launch;
    grid->shape = shape;
    grid->cluster_count = shape.blocks / shape.cluster;
    grid->first_block = blocks;
    grid->before = grids_.empty() ? nullptr : grids_.back().get();
    grid->dependent = launch.dependent || (!grid->before && options.dependent_launch);
    if (grid->before) grid->before->after = grid.get();
    grids_.push_back(std::move(grid));
    blocks += shape.blocks;
  }
  engine_names_.resize(blocks);
  report_.seed = options.seed;
  if (options_.scheduling == Scheduling::priority)
    // Where in the run a priority drops matters on every scale, and its length is unknown: log-uniform.
    for (u32 i = 0; i < kPriorityChanges; ++i) change_points_.insert(random_below(u64(16) << random_below(14)));
}

Machine::~Machine() {
  for (auto& t : threads_) give_stack(t->stack);
}

Report Machine::run() {
  Machine* const outer = std::exchange(the_machine, this);
  try {
    start_clusters();
    loop();
  } catch (const Failure&) {
    failed_ = true;
  } catch (...) {
    failed_ = true;
    foreign_ = std::current_exception();
  }
  abort_all();
  the_machine = outer;
  if (foreign_) std::rethrow_exception(foreign_);
  return std::move(report_);
}

// ---- blocks come and go ----------------------------------------------------------------------------------

// Launches start in order: a dependent one when every block of the one before has said so, another when all are complete.
void Machine::start_clusters() {
  bool all_complete = true;  // of those before
  for (const auto& g : grids_) {
    Grid& grid = *g;
    if (!all_complete && !(grid.dependent && grid.before->triggered == grid.before->shape.blocks)) return;
    all_complete = all_complete && grid.complete;
    const u32 cluster = grid.shape.cluster;
    while (grid.next_cluster < grid.cluster_count) {
      const bool fits = options_.resident_blocks ? resident_blocks_ + cluster <= options_.resident_blocks
                                                 : threads_.size() + std::size_t(cluster) * grid.shape.threads <= kMaxResidentThreads;
      if (!fits && !clusters_.empty()) return;
      start_cluster(grid);
    }
  }
}

void Machine::start_cluster(Grid& grid) {
  clusters_.push_back(std::make_unique<Cluster>());
  Cluster& cluster = *clusters_.back();
  cluster.grid = &grid;
  cluster.live = grid.shape.cluster * grid.shape.threads;
  for (u32 rank = 0; rank < grid.shape.cluster; ++rank) start_block(grid, cluster, rank);
  ++grid.next_cluster;
  ++grid.resident;
  resident_blocks_ += grid.shape.cluster;
}

void Machine::start_block(Grid& grid, Cluster& cluster, u32 rank) {
  const LaunchShape& shape = grid.shape;
  cluster.blocks.push_back(std::make_unique<Block>());
  Block& b = *cluster.blocks.back();
  b.index = grid.first_block + grid.next_cluster * shape.cluster + rank;
  b.rank = rank;
  b.grid = &grid;
  b.cluster = &cluster;
  b.shared.assign(shape.shared_bytes, 0xFF);  // a NaN in every floating-point format
  if (options_.races) b.shadow = std::make_unique<Cell[]>(shape.shared_bytes / kCellBytes + 1);
  b.warps = std::vector<Warp>(shape.threads / kWarp);
  for (Warp& w : b.warps) w.priority = i64(rng_() >> 16) + 1;
  b.live = b.next_agent = shape.threads;
  b.warpgroups = std::vector<Warpgroup>((shape.threads + kWarpgroup - 1) / kWarpgroup);
  for (Warpgroup& g : b.warpgroups) {
    g.index = u32(&g - b.warpgroups.data());
    g.register_count = u32(shape.registers);
    g.agent = new_agent(b, Engine::matrix, g.index);
    for (int part = 1; part < 4; ++part) new_agent(b, Engine::matrix, g.index);
  }
  if (grid.dependent) b.grid_agent = new_agent(b, Engine::grid, 0);
  for (u32 i = 0; i < shape.threads; ++i) {
    Thread& t = new_thread(b, i);
    b.threads.push_back(&t);
    make_ready(t);
  }
  tell([&](Observer& o) { o.block_starts(b); });
}

Thread& Machine::new_thread(Block& block, u32 index) {
  threads_.push_back(std::make_unique<Thread>());
  Thread* const t = threads_.back().get();
  t->stack = take_stack();
  t->block = &block;
  t->cluster = block.cluster;
  t->index = index;
  t->agent = make_agent(block.index, index);
  if (!block.grid->dependent)
    for (const Grid* earlier = block.grid->before; earlier; earlier = earlier->before) acquire(*t, earlier->released);
  t->context.prepare(t->stack, index, &Machine::thread_entry);
  return *t;
}

Agent Machine::new_agent(Block& b, Engine engine, u32 detail) {
  if (b.next_agent >= (1u << kAgentBits))
    throw std::runtime_error("the emulator ran out of agents: too many mbarriers and storing threads in one block");
  engine_names_[b.index].push_back({engine, detail});
  return make_agent(b.index, b.next_agent++);
}

void Machine::loop() {
  while (!failed_) {
    for (Cluster* done : std::exchange(finished_, {})) reap(*done);
    start_clusters();
    if (options_.async == Async::random && !operations_.empty() && random_below(4) == 0) run_operation();
    if (Thread* t = pick()) {
      current_ = t;
      ++report_.counters.switches;
      main_.switch_to(t->context);
    } else if (!run_operation()) {
      if (clusters_.empty()) return;
      report_stuck("deadlock");
      failed_ = true;
    }
  }
}

void Machine::reap(Cluster& cluster) {
  while (run_operation()) {  // the second halves of its bulk stores
  }
  std::erase_if(threads_, [&](const auto& t) {
    if (t->cluster == &cluster) give_stack(t->stack);
    return t->cluster == &cluster;
  });
  Grid& grid = *cluster.grid;
  resident_blocks_ -= grid.shape.cluster;
  if (--grid.resident == 0 && grid.next_cluster == grid.cluster_count) complete_grid(grid);
  std::erase_if(clusters_, [&](const auto& c) { return c.get() == &cluster; });
}

void Machine::abort_all() {
  failed_ = aborting_ = true;
  for (auto& t : threads_) {
    if (t->state == Thread::State::done) continue;
    current_ = t.get();
    main_.switch_to(t->context);  // unwinds its stack
  }
}

void Machine::thread_entry() {
  Machine& m = *the_machine;
  m.current_->context.entered();
  m.thread_main();
}

void Machine::thread_main() {
  Thread& t = *current_;
  try {
    if (!aborting_) t.block->grid->launch->body();
    if (!aborting_) thread_exit(t);
  } catch (const Failure&) {
    failed_ = true;
  } catch (const Aborted&) {
  } catch (...) {
    failed_ = true;
    if (!foreign_) foreign_ = std::current_exception();
  }
  t.state = Thread::State::done;
  switch_from(t, true);
}

void Machine::thread_exit(Thread& t) {
  ++progress_;
  Block& b = *t.block;
  const Groups &stores = t.bulk_reads, &copies = t.copies;
  if (stores.uncommitted())
    report("exit", kNowhere, "{} returns with bulk stores that it never committed: bulk_commit() is missing", name_thread(t));
  else if (stores.waited <= stores.youngest)
    report("exit", kNowhere, "{} returns while its bulk stores may still read shared memory: bulk_wait_read<0>() is missing", name_thread(t));
  if (copies.uncommitted())
    report("exit", copies.site, "{} returns with copies that it never committed, the last at {}: cp_async_commit() is missing", name_thread(t),
           name_site(copies.site));
  else if (copies.waited <= copies.youngest)
    report("exit", copies.site, "{} returns while its copies may still land, the last issued at {}: cp_async_wait<0>() is missing", name_thread(t),
           name_site(copies.site));
  t.state = Thread::State::done;
  tell([&](Observer& o) { o.thread_returns(t); });
  if (options_.races && b.grid->after) b.grid->building.add(t);
  --b.live;
  const Rendezvous& others = t.warp().rendezvous;
  if (!others.members.empty() && others.call != std::string_view("sync_warp"))
    fail("divergence", others.site, "{} returned while other lanes of its warp are at {} ({})", name_thread(t), others.call, name_site(others.site));
  // Threads that have returned are not waited for.
  if (b.named[0].whole_block && b.named[0].arrived > 0) {
    b.named[0].expected = b.live;
    if (b.named[0].arrived >= b.live) complete_named(b.named[0], 0);
  }
  if (b.live == 0) block_exit(b);
  Cluster& c = *t.cluster;
  --c.live;
  if (t.cluster_arrived && t.cluster_generation == c.generation) --c.arrived;  // counted among neither any more
  if (c.arrived > 0 && c.arrived >= c.live) complete_cluster(c);
  if (c.live == 0) finished_.push_back(&c);
}

void Machine::block_exit(Block& b) {
  const std::string name = name_block(b);
  if (b.copies) report("exit", kNowhere, "{} returns with {} asynchronous copies in flight into its shared memory", name, b.copies);
  for (const Warpgroup& g : b.warpgroups)
    if (g.open_used || g.committed > g.retired)
      report("exit", kNowhere, "{}: warpgroup {} returns with wgmmas in flight: wgmma_commit() or wgmma_wait<0>() is missing", name, g.index);
  for (const auto& [address, barrier] : b.barriers) {
    const MbarrierState& m = barrier;
    // Shared memory goes to the next block: some thread must have known that every copy into it had landed.
    const auto knows = [&](const Thread* t) { return epoch_of(t->knowledge.seen, m.agent) >= m.last_copy; };
    if (options_.races && !b.copies && m.last_copy && std::none_of(b.threads.begin(), b.threads.end(), knows))
      report("exit", site(m.init.site),
             "{} returns although no thread waited for the last copy that signals the mbarrier at {}: it may land after the block is gone", name,
             name_shared(m));
    if (m.valid && (m.pending != m.expected || m.transaction != 0))
      report("mbarrier", site(m.init.site),
             "{} returns with the mbarrier at {} in the middle of phase {}: {} of {} arrivals pending, {} bytes awaited. Its counts do not add up", name,
             name_shared(m), m.phase, m.pending, m.expected, m.transaction);
  }
  b.grid->agents = std::max(b.grid->agents, b.next_agent);
  if (!std::exchange(b.triggered, true)) ++b.grid->triggered;
  if (b.grid->dependent && !b.grid_waited)
    report("dependent-launch", kNowhere,
           "{} returns without grid_dependency_wait(): the kernel after it could start before the one before it is complete", name);
}

// ---- who runs next ---------------------------------------------------------------------------------------

void Machine::make_ready(Thread& t) {
  t.state = Thread::State::ready;
  if (options_.scheduling == Scheduling::priority) ready_by_priority_[t.warp().priority].push_back(&t);
  else ready_.push_back(&t);
}

Thread* Machine::pick() {
  const auto first = ready_by_priority_.begin();  // empty but for priorities
  std::deque<Thread*>& queue = first == ready_by_priority_.end() ? ready_ : first->second;
  if (queue.empty()) return nullptr;
  if (options_.scheduling == Scheduling::random) std::swap(queue.front(), queue[random_below(queue.size())]);
  Thread* const t = queue.front();
  queue.pop_front();
  if (first != ready_by_priority_.end() && queue.empty()) ready_by_priority_.erase(first);
  return t;
}

std::size_t Machine::ready_count() const {
  std::size_t n = ready_.size();
  for (const auto& [priority, list] : ready_by_priority_) n += list.size();
  return n;
}

// Straight to the next thread where nothing else is due: half the switches of going through the main context.
void Machine::switch_from(Thread& t, bool last) {
  Thread* next = nullptr;
  if (options_.async != Async::random && finished_.empty() && !failed_) next = pick();
  if (next) {
    ++report_.counters.switches;
    current_ = next;
    if (next != &t) t.context.switch_to(next->context, last);
  } else {
    t.context.switch_to(main_, last);
  }
  if (aborting_) throw Aborted();
}

void Machine::yield() {
  Thread& t = *current_;
  make_ready(t);
  switch_from(t);
}

// Offers a switch where the schedule takes some at any call.
void Machine::maybe_yield() {
  ++steps_;
  if (options_.scheduling == Scheduling::random) {
    if ((rng_() & 7) == 0) yield();
  } else if (options_.scheduling == Scheduling::priority && change_points_.count(steps_)) {
    // The warp's other lanes stay queued under the old priority until they run once: harmless.
    current_->warp().priority = --lowest_priority_;
    yield();
  }
}

void Machine::block_on(const Wait& wait) {
  Thread& t = *current_;
  t.wait = wait;
  t.state = Thread::State::blocked;
  tell([&](Observer& o) { o.thread_waits(t); });
  switch_from(t);
  t.wait.kind = Wait::Kind::nothing;
}

void Machine::wake(Thread& t) {
  if (t.state != Thread::State::blocked) return;
  tell([&](Observer& o) { o.thread_goes_on(t); });
  make_ready(t);
}

void Machine::wake_all(std::vector<Thread*>& waiters) {
  for (Thread* t : waiters) wake(*t);
  waiters.clear();
}

// A fruitless test. When every thread that could run only tests, an asynchronous operation has to move, or nothing
// ever will.
void Machine::spin(const Wait& wait) {
  Thread& t = *current_;
  if (spin_progress_ != progress_) {
    spin_progress_ = progress_;
    ++spin_round_;
    spinning_ = spin_rounds_ = 0;
  }
  if (std::exchange(t.spin_round, spin_round_) != spin_round_) ++spinning_;
  t.wait = wait;
  if (spinning_ > ready_count()) {
    if (!run_operation() && ++spin_rounds_ > kSpinRounds) {
      report_stuck("livelock");
      throw Failure();
    }
    ++spin_round_;
    spinning_ = 0;
  }
  if (options_.scheduling == Scheduling::priority) t.warp().priority = --lowest_priority_;  // or it would only see itself
  yield();
  t.wait.kind = Wait::Kind::nothing;
}

// ---- asynchronous operations -----------------------------------------------------------------------------

void Machine::submit(std::function<void()> operation) {
  if (options_.async == Async::eager) operation();
  else operations_.push_back(std::move(operation));
}

bool Machine::run_operation() {
  if (operations_.empty()) return false;
  ++progress_;
  if (options_.async == Async::random) std::swap(operations_.front(), operations_[random_below(operations_.size())]);
  const std::function<void()> operation = std::move(operations_.front());
  operations_.pop_front();
  operation();
  return true;
}

// ---- call sites ------------------------------------------------------------------------------------------

u32 Machine::site_id(Site site) {
  const auto [it, fresh] = site_ids_.try_emplace({site.file, site.line}, u32(sites_.size()));
  if (fresh) sites_.push_back(site);
  return it->second;
}

Effect Machine::enter(Site site, const char* call, bool counted) {
  ++progress_;
  current_->last_load = {};
  const auto [entry, fresh] = calls_.try_emplace({site.file, site.line, call});
  CallState& state = entry->second;
  if (fresh) {
    state.index = report_.calls.size();
    report_.calls.push_back({site, call, counted, 0});
    for (const Mutation& m : options_.mutations) {
      if (m.line != site.line || !site.file || !std::string_view(site.file).ends_with(m.file)) continue;
      state.effect.drop |= m.kind == Mutation::Kind::drop;
      state.effect.delta += m.kind == Mutation::Kind::more ? 1 : m.kind == Mutation::Kind::less ? -1 : 0;
    }
  }
  ++report_.calls[state.index].executions;
  maybe_yield();
  return state.effect;
}

}  // namespace foretile::emulator
