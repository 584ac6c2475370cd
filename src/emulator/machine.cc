// Launch and schedule: clusters come and go, threads switch, asynchronous operations complete.
#include "emulator/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "emulator/trace.h"

namespace foretile::emulator {

namespace {

thread_local Machine* the_machine = nullptr;

constexpr u32 kMaxResidentThreads = 16384;  // a fiber each; their stacks are the limit
constexpr u32 kPriorityChanges = 3;         // PCT: the depth of the ordering bugs looked for
constexpr u32 kSpinRounds = 1000;           // fruitless tests by every thread before it counts as livelock

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

Machine& Machine::current() {
  if (!the_machine) throw std::logic_error("a vocabulary function was called outside of foretile::emulator::emulate()");
  return *the_machine;
}

Machine::Machine(const std::vector<Launch>& chain, const Options& options)
    : chain_(chain), options_(options), timeline_(options.timeline ? options.timeline->writer_.get() : nullptr), rng_(options.seed * 2654435761u + 12345) {
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
    grid->dependent = grid->before ? launch.dependent : launch.dependent || options.dependent_launch;
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
  for (auto* list : {&threads_, &idle_})
    for (auto& t : *list) give_stack(t->stack);
}

Report Machine::run() {
  Machine* const outer = the_machine;
  the_machine = this;
  if (timeline_) timeline_->begin_run();
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
  if (timeline_) timeline_->end_run(progress_);
  if (foreign_) std::rethrow_exception(foreign_);
  return std::move(report_);
}

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
  const LaunchShape& shape = grid.shape;
  auto cluster = std::make_unique<Cluster>();
  cluster->grid = &grid;
  const u32 index = grid.next_cluster++;
  ++grid.resident;
  resident_blocks_ += shape.cluster;
  for (u32 rank = 0; rank < shape.cluster; ++rank) {
    auto block = std::make_unique<Block>();
    Block& b = *block;
    b.index = grid.first_block + index * shape.cluster + rank;
    b.rank = rank;
    b.grid = &grid;
    b.cluster = cluster.get();
    b.shared.assign(shape.shared_bytes, 0xFF);  // a NaN in every floating-point format
    if (options_.races) b.shadow = std::make_unique<Cell[]>(shape.shared_bytes / kCellBytes + 1);
    b.warps = std::vector<Warp>(shape.threads / kWarp);
    for (u32 w = 0; w < b.warps.size(); ++w) b.warps[w].index = w, b.warps[w].block = &b, b.warps[w].priority = i64(rng_() >> 16) + 1;
    b.next_agent = shape.threads;
    b.warpgroups = std::vector<Warpgroup>((shape.threads + kWarpgroup - 1) / kWarpgroup);
    for (u32 g = 0; g < b.warpgroups.size(); ++g) {
      b.warpgroups[g].index = g;
      b.warpgroups[g].register_count = u32(shape.registers);
      b.warpgroups[g].agent = new_agent(b, Engine::matrix, g);
      for (int part = 1; part < 4; ++part) new_agent(b, Engine::matrix, g);
    }
    if (grid.dependent) b.grid_agent = new_agent(b, Engine::grid, 0);
    b.live = shape.threads;
    cluster->live += shape.threads;
    for (u32 i = 0; i < shape.threads; ++i) {
      std::unique_ptr<Thread> t;
      if (idle_.empty()) {
        t = std::make_unique<Thread>();
        t->stack = take_stack();
      } else {
        const Stack stack = idle_.back()->stack;
        *idle_.back() = Thread();
        t = std::move(idle_.back());
        idle_.pop_back();
        t->stack = stack;
      }
      t->block = &b;
      t->cluster = cluster.get();
      t->index = i;
      t->agent = make_agent(b.index, i);
      if (!grid.dependent)
        for (const Grid* earlier = grid.before; earlier; earlier = earlier->before) acquire(*t, earlier->released);
      t->context.prepare(t->stack, i, &Machine::thread_entry);
      b.threads.push_back(t.get());
      make_ready(*t);
      threads_.push_back(std::move(t));
    }
    if (timeline_) show_block(b);
    cluster->blocks.push_back(std::move(block));
  }
  clusters_.push_back(std::move(cluster));
}

Agent Machine::new_agent(Block& b, Engine engine, u32 detail) {
  if (b.next_agent >= (1u << kAgentBits)) throw std::runtime_error("the emulator ran out of agents: too many mbarriers and storing threads in one block");
  engine_names_[b.index].push_back({engine, detail});
  return make_agent(b.index, b.next_agent++);
}

void Machine::loop() {
  while (!failed_) {
    while (!finished_.empty()) {
      Cluster* done = finished_.back();
      finished_.pop_back();
      reap(*done);
    }
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
  const auto mine = [&](const std::unique_ptr<Thread>& t) { return t->cluster == &cluster; };
  const auto first = std::stable_partition(threads_.begin(), threads_.end(), [&](const auto& t) { return !mine(t); });
  std::move(first, threads_.end(), std::back_inserter(idle_));
  threads_.erase(first, threads_.end());
  Grid& grid = *cluster.grid;
  resident_blocks_ -= grid.shape.cluster;
  if (--grid.resident == 0 && grid.next_cluster == grid.cluster_count) complete_grid(grid);
  clusters_.erase(std::find_if(clusters_.begin(), clusters_.end(), [&](const auto& c) { return c.get() == &cluster; }));
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
  if (t.bulk) {
    const Site nowhere{};
    if (t.bulk->open_used) report("exit", nowhere, name_thread(t) + " returns with bulk stores that it never committed: bulk_commit() is missing");
    else if (t.bulk->read_waited < t.bulk->open)
      report("exit", nowhere, name_thread(t) + " returns while its bulk stores may still read shared memory: bulk_wait_read<0>() is missing");
  }
  if (t.copies && t.copies->open_used)
    report("exit", t.copies->open_site, fmt::format("{} returns with copies that it never committed, the last at {}: cp_async_commit() is missing", name_thread(t), name_site(t.copies->open_site)));
  else if (t.copies && t.copies->waited <= t.copies->last_used)
    report("exit", t.copies->open_site, fmt::format("{} returns while its copies may still land, the last issued at {}: cp_async_wait<0>() is missing", name_thread(t), name_site(t.copies->open_site)));
  t.state = Thread::State::done;
  if (timeline_) show_exit(t);
  if (options_.races && b.grid->after) b.grid->building.add(t);
  --b.live;
  if (!t.warp().rendezvous.members.empty() && t.warp().rendezvous.call != std::string_view("sync_warp"))
    fail("divergence", t.warp().rendezvous.site, name_thread(t) + " returned while other lanes of its warp are at " +
         t.warp().rendezvous.call + " (" + name_site(t.warp().rendezvous.site) + ")");
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
  const Site nowhere{};
  const std::string name = name_block(b);
  if (b.copies) report("exit", nowhere, name + " returns with " + std::to_string(b.copies) + " asynchronous copies in flight into its shared memory");
  for (const Warpgroup& g : b.warpgroups)
    if (g.open_used || g.committed > g.retired)
      report("exit", nowhere, name + ": warpgroup " + std::to_string(g.index) + " returns with wgmmas in flight: wgmma_commit() or wgmma_wait<0>() is missing");
  // Shared memory goes to the next block: some thread must have known that every copy into it had landed.
  if (options_.races && !b.copies)
    for (const auto& [offset, m] : b.barriers)
      if (m.last_copy && std::none_of(b.threads.begin(), b.threads.end(), [&, &m = m](const Thread* t) { return epoch_of(t->knowledge.seen, m.agent) >= m.last_copy; }))
        report("exit", sites_[m.init.site], fmt::format("{} returns although no thread waited for the last copy that signals the mbarrier at {}: it may land after the block is gone", name, name_shared(m)));
  for (const auto& [offset, m] : b.barriers)
    if (m.valid && (m.pending != m.expected || m.transaction != 0))
      report("mbarrier", sites_[m.init.site], fmt::format("{} returns with the mbarrier at {} in the middle of phase {}: {} of {} arrivals pending, {} bytes awaited. Its counts do not add up",
                                                         name, name_shared(m), m.phase, m.pending, m.expected, m.transaction));
  b.grid->agents = std::max(b.grid->agents, b.next_agent);
  if (!std::exchange(b.triggered, true)) ++b.grid->triggered;
  if (b.grid->dependent && !b.grid_waited)
    report("dependent-launch", nowhere, name + " returns without grid_dependency_wait(): the kernel after it could start before the one before it is complete");
}

// ---- who runs next ---------------------------------------------------------------------------------------

void Machine::make_ready(Thread& t) {
  t.state = Thread::State::ready;
  if (options_.scheduling == Scheduling::priority) ready_by_priority_[t.warp().priority].push_back(&t);
  else ready_.push_back(&t);
}

Thread* Machine::pick() {
  if (options_.scheduling == Scheduling::priority) {
    if (ready_by_priority_.empty()) return nullptr;
    auto first = ready_by_priority_.begin();
    Thread* t = first->second.front();
    first->second.pop_front();
    if (first->second.empty()) ready_by_priority_.erase(first);
    return t;
  }
  if (ready_.empty()) return nullptr;
  if (options_.scheduling == Scheduling::random) std::swap(ready_.front(), ready_[random_below(ready_.size())]);
  Thread* t = ready_.front();
  ready_.pop_front();
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

void Machine::block_on(Wait wait) {
  Thread& t = *current_;
  t.wait = wait;
  t.state = Thread::State::blocked;
  if (timeline_) show_wait(t);
  switch_from(t);
  t.wait.kind = Wait::Kind::nothing;
}

void Machine::wake(Thread& t) {
  if (t.state != Thread::State::blocked) return;
  if (timeline_) show_wake(t);
  make_ready(t);
}

void Machine::wake_all(std::vector<Thread*>& waiters) {
  for (Thread* t : waiters) wake(*t);
  waiters.clear();
}

void Machine::maybe_yield() {
  ++steps_;
  if (options_.scheduling == Scheduling::random) {
    if ((rng_() & 7) == 0) yield();
  } else if (options_.scheduling == Scheduling::priority && change_points_.count(steps_)) {
    Warp& w = current_->warp();
    // Its other lanes stay queued under the old priority until they run once: harmless.
    w.priority = --lowest_priority_;
    yield();
  }
}

// ---- asynchronous operations -----------------------------------------------------------------------------

void Machine::submit(std::function<void()> operation) {
  if (options_.async == Async::eager) operation();
  else operations_.push_back({std::move(operation)});
}

bool Machine::run_operation() {
  if (operations_.empty()) return false;
  ++progress_;
  if (options_.async == Async::random) std::swap(operations_.front(), operations_[random_below(operations_.size())]);
  const AsyncOperation op = std::move(operations_.front());
  operations_.pop_front();
  op.run();
  return true;
}

// A fruitless test. When every thread that could run only tests, an asynchronous operation has to move, or nothing
// ever will.
void Machine::spin(Thread& t, const Wait& wait) {
  if (spin_progress_ != progress_) {
    spin_progress_ = progress_;
    ++spin_round_;
    spinning_ = spin_rounds_ = 0;
  }
  if (t.spin_round != spin_round_) {
    t.spin_round = spin_round_;
    ++spinning_;
  }
  if (spinning_ > ready_count()) {
    if (!run_operation() && ++spin_rounds_ > kSpinRounds) {
      t.wait = wait;
      report_stuck("livelock");
      throw Failure();
    }
    ++spin_round_;
    spinning_ = 0;
  }
  t.wait = wait;
  if (options_.scheduling == Scheduling::priority) t.warp().priority = --lowest_priority_;  // or it would only see itself
  yield();
  t.wait.kind = Wait::Kind::nothing;
}

// ---- call sites ------------------------------------------------------------------------------------------

u32 Machine::site_id(Site site) {
  const auto [it, fresh] = site_ids_.try_emplace(site, u32(sites_.size()));
  if (fresh) {
    sites_.push_back(site);
    site_states_.emplace_back();
  }
  return it->second;
}

Machine::SiteState Machine::new_site_state(Site site, const char* call, bool counted) {
  SiteState s;
  s.call = call;
  s.index = u32(report_.calls.size());
  report_.calls.push_back({site, call, counted, 0});
  for (const Mutation& m : options_.mutations)
    if (m.line == site.line && site.file && ends_with(site.file, m.file)) {
      s.effect.drop |= m.kind == Mutation::Kind::drop;
      s.effect.delta += m.kind == Mutation::Kind::more ? 1 : m.kind == Mutation::Kind::less ? -1 : 0;
    }
  return s;
}

Effect Machine::enter(Site site, const char* call, bool counted) {
  ++progress_;
  current_->last_load = {};
  const u32 id = site_id(site);
  SiteState* s = &site_states_[id];
  if (!s->call) {
    *s = new_site_state(site, call, counted);
  } else if (s->call != call) {
    auto [it, fresh] = more_site_states_.try_emplace({id, call});
    if (fresh) it->second = new_site_state(site, call, counted);
    s = &it->second;
  }
  ++report_.calls[s->index].executions;
  const Effect effect = s->effect;  // a switch may add sites and move *s
  maybe_yield();
  return effect;
}

Report emulate(const std::vector<Launch>& chain, const Options& options) {
  Machine machine(chain, options);
  if (!options.trace) return machine.run();
  std::vector<Region> memory;
  for (const Launch& launch : chain) memory.insert(memory.end(), launch.regions.begin(), launch.regions.end());
  Trace trace(options.l2_bytes, memory);
  const TraceScope scope(trace);
  Report report = machine.run();
  report.accesses = trace.finish();
  report.l2 = trace.l2();
  return report;
}

Report emulate(const LaunchShape& shape, const std::function<void()>& body, const std::vector<Region>& regions, const Options& options) {
  return emulate({{shape, body, regions}}, options);
}

}  // namespace foretile::emulator
