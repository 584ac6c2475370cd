// The emulated GPU: one Machine runs one chain of launches on one host thread. The order to read it in stands in
// docs/emulator.md.
#pragma once
#include <fmt/format.h>

#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/observer.h"
#include "emulator/state.h"

namespace foretile::emulator {

// Thrown through a fiber: the run cannot go on (the finding is already in the report), or another thread failed.
struct Failure {};
struct Aborted {};

// How a mutation changes a call.
struct Effect {
  bool drop = false;
  int delta = 0;
};

class Machine {
 public:
  Machine(const std::vector<Launch>& chain, const Options& options);
  ~Machine();
  void watch(Observer& observer) { observers_.push_back(&observer); }
  Report run();
  static Machine& current();

  // ---- machine.cc ----
  Thread& me() { return *current_; }
  // Every synchronising call begins here: counts its site, offers a switch, and says how a mutation changes it.
  Effect enter(Site site, const char* call, bool counted);
  // Grows with everything but fruitless tests: the time base of observers.
  u64 progress() const { return progress_; }

  // ---- barrier.cc ----
  void sync_warp(Site site);
  bool elect_one(Site site);
  void sync_block(Site site);
  void named_barrier(u32 id, u32 threads, bool wait, const char* call, Site site);
  void cluster_arrive(bool relaxed, Site site);
  void cluster_wait(Site site);
  void registers(u32 count, bool acquire, Site site);
  void grid_dependency_wait(Site site);
  void grid_dependency_launch(Site site);

  // ---- mbarrier.cc ----
  void mbarrier_init(u32 address, u32 arrivals, Site site);
  void mbarrier_invalidate(u32 address, Site site);
  void mbarrier_arrive(u32 address, u32 arrivals, i64 bytes, Site site);
  void mbarrier_arrive_cluster(u32 address, u32 rank, Site site);
  void mbarrier_wait(u32 address, u32 parity, Site site);
  bool mbarrier_test(u32 address, u32 parity, Site site);
  void fence_mbarrier_init();
  void fence_proxy_async();

  // ---- memory.cc ----
  void shared_access(u32 address, void* data, u32 bytes, bool store, Site site);
  void global_access(const void* address, void* data, u32 bytes, bool store, Site site);

  // ---- warp.cc ----
  void store_matrix(u32 row, const u32* fragments, u32 count, const char* call, bool transposed, Site site);
  u32x4 load_matrix(u32 row, const char* call, bool transposed, Site site);
  float shuffle_xor(float value, u32 mask, Site site);
  void mma_sync(DType type, float* d, const u32* a, const u32* b, Site site);

  // ---- copies.cc ----
  void prefetch_tensor_map(const TensorMap& map, Site site) { box_of(map, {0, 0, 0}, false, "prefetch_tensor_map", site); }
  void tma_prefetch(const TensorMap& map, BoxCorner corner, Site site);
  void tma_load(u32 destination, const TensorMap& map, BoxCorner corner, u32 barrier, u32 blocks, const char* call, Site site);
  void tma_store(const TensorMap& map, BoxCorner corner, u32 source, Site site);
  void bulk_commit() { ++me().bulk_reads.open, ++me().bulk_writes.open; }
  void bulk_wait(u32 pending, bool read_only, Site site);
  void store_cluster_async(ClusterAddress destination, const void* value, u32 bytes, ClusterAddress barrier, Site site);
  void cp_async(u32 destination, const void* source, u32 bytes, u32 valid, Site site);
  void cp_async_commit() { ++me().copies.open; }
  void cp_async_wait(u32 pending, Site site);

  // ---- wgmma.cc ----
  void wgmma_fence(Site site);
  void wgmma(DType type, int columns, bool transpose_a, bool transpose_b, float* registers, u64 a, u64 b, bool accumulate, Site site);
  void wgmma_commit(Site site);
  void wgmma_wait(u32 pending, Site site);

  // ---- report.cc: names for findings ----
  std::string name_threads(const Block& block, const std::vector<u32>& threads) const;
  std::string name_thread(const Thread& t) const { return name_agent(t.agent); }
  std::string name_agent(Agent a) const;
  std::string name_block(u32 index) const;
  std::string name_block(const Block& block) const { return name_block(block.index); }
  std::string name_shared(const Grid& grid, u32 address) const;
  std::string name_shared(const Block& block, u32 address) const { return name_shared(*block.grid, address); }
  std::string name_shared(const MbarrierState& b) const { return name_shared(*b.block, b.address); }
  std::string name_role(const Grid& grid, u32 warp) const;  // " (producer)", or nothing
  static std::string name_site(Site site);
  std::string name_site(u32 id) const { return name_site(site(id)); }
  Site site(u32 id) const { return sites_[id]; }

 private:
  // ---- machine.cc: launch and schedule ----
  void start_clusters();
  void start_cluster(Grid& grid);
  void start_block(Grid& grid, Cluster& cluster, u32 rank);
  Thread& new_thread(Block& block, u32 index);
  enum class Engine : u8 { copies, matrix, bulk_reads, bulk_writes, cp_async, grid };
  Agent new_agent(Block& b, Engine engine, u32 detail);
  void loop();
  void reap(Cluster& cluster);
  void abort_all();
  static void thread_entry();
  void thread_main();
  void thread_exit(Thread& t);
  void block_exit(Block& b);
  void make_ready(Thread& t);
  Thread* pick();
  std::size_t ready_count() const;
  void switch_from(Thread& t, bool last = false);
  void yield();
  void maybe_yield();
  void block_on(const Wait& wait);
  void wake(Thread& t);
  void wake_all(std::vector<Thread*>& waiters);
  void spin(const Wait& wait);
  void submit(std::function<void()> operation);
  bool run_operation();
  u32 site_id(Site site);
  u64 random_below(u64 n) { return rng_() % n; }
  bool unordered_mode() const { return options_.scheduling != Scheduling::round_robin; }
  template <class Event> void tell(Event&& event) {
    for (Observer* o : observers_) event(*o);
  }

  // ---- barrier.cc ----
  // A call that `members` threads make together. The last to arrive calls `last`. `one_site`: all must come from the same
  // call site (.aligned instructions).
  using CallOperands = std::array<u64, 3>;
  template <class Last>
  void collective(Rendezvous& r, u32 members, const char* call, Site site, Last&& last, const CallOperands& operands = {}, bool one_site = true) {
    if (!is_last(r, members, call, site, operands, one_site)) return;
    last();
    let_go(r);
  }
  bool is_last(Rendezvous& r, u32 members, const char* call, Site site, const CallOperands& operands, bool one_site);
  void let_go(Rendezvous& r);
  void arrive(u32 id, u32 threads, bool whole_block, bool wait, const char* call, Site site);
  void complete_named(NamedBarrier& b, u32 id);
  void complete_cluster(Cluster& c);
  void complete_grid(Grid& grid);
  void release_into(Release& building, Thread& t);
  void acquire(Thread& t, const Knowledge& k);

  // ---- mbarrier.cc ----
  MbarrierState& find_barrier(Block& block, u32 address, const char* call, Site site);
  void check_barrier_ready(const MbarrierState& b, bool async, Site site);
  bool phase_passed(MbarrierState& b, u32 parity, bool test, Site site);
  void complete_phase(MbarrierState& b, Site site);
  void complete_transaction(MbarrierState& b, i64 bytes, Site site);

  // ---- memory.cc ----
  u8* shared_bytes(Block& block, u32 address, u32 bytes, u32 alignment, const char* call, Site site);
  u8* touch_own(Thread& t, u32 address, u32 bytes, bool store, const char* call, Site site);
  void touch_shared(Block& block, u32 address, u32 bytes, const Access& a, const View& view);
  void touch_global(const void* address, u64 bytes, const Access& a, const View& view);
  const Region* find_region(const Grid& grid, const void* address, u64 bytes, bool store) const;
  bool check_global(const void* address, u64 bytes, bool store, const View& view, const char* call, Site site);
  void check_poison(const void* data, u32 bytes, Site site);

  // ---- copies.cc ----
  // What an operation in flight keeps of its issue.
  struct Issue {
    View view;  // of the thread, which knows nothing of what it does later
    u32 site;   // its number
    u64 copy;
  };
  Issue issue(Site site);
  Box box_of(const TensorMap& map, BoxCorner corner, bool store, const char* call, Site site);
  MbarrierState& expect_copy(u32 rank, u32 address, u32 bytes, u32 alignment, u32 barrier, const char* call, Site site);
  void land(MbarrierState& b, u32 address, const u8* data, u32 bytes, Swizzle swizzle, bool async, const Issue& issued, const char* call, Site site);
  u32 begin(Groups& groups, Engine engine, Site site);
  void finish(Thread& t, Groups& groups, u32 group);
  void await(Groups& groups, const Wait& wait);

  // ---- wgmma.cc ----
  Warpgroup& my_warpgroup(Site site);
  View warpgroup_view(const Warpgroup& g) const;
  Accumulator& take_accumulator(Warpgroup& g, DType type, int columns, Site site);
  void execute(Block& block, Warpgroup& g);
  void load_operand(Block& block, u64 descriptor, int rows, bool transposed, const MatrixMultiply& op, const Access& a, float* out);
  void retire(Warpgroup& g, u32 upto, Site site);

  // ---- report.cc ----
  std::size_t report_text(const char* kind, Site site, const std::string& text);  // index of the finding
  template <class... T> void report(const char* kind, Site site, fmt::format_string<T...> text, T&&... values) {
    report_text(kind, site, fmt::format(text, std::forward<T>(values)...));
  }
  template <class... T> [[noreturn]] void fail(const char* kind, Site site, fmt::format_string<T...> text, T&&... values) {
    report_text(kind, site, fmt::format(text, std::forward<T>(values)...));
    throw Failure();
  }
  void on_hazard(Hazard hazard, const Record* before, const Access& now, const std::function<std::string()>& place);
  void report_stuck(const char* kind);
  std::string describe(const Wait& wait, const Block& block) const;
  const Grid& grid_of(Agent a) const;

  const Options& options_;
  std::vector<Observer*> observers_;
  std::vector<std::unique_ptr<Grid>> grids_;  // in the order of the chain
  std::mt19937_64 rng_;
  Report report_;
  std::exception_ptr foreign_;  // an exception of the kernel that is not the emulator's

  struct EngineName { Engine engine; u32 detail; };
  std::vector<std::vector<EngineName>> engine_names_;  // by block, then agent index beyond the threads

  Context main_;
  std::vector<std::unique_ptr<Cluster>> clusters_;  // resident
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Cluster*> finished_;                  // all threads returned, to be reaped by the main context
  Thread* current_ = nullptr;
  u32 resident_blocks_ = 0;
  bool failed_ = false, aborting_ = false;

  std::deque<Thread*> ready_;                            // round robin, random
  std::map<i64, std::deque<Thread*>, std::greater<>> ready_by_priority_;
  std::set<u64> change_points_;                          // steps at which the running warp loses its priority
  i64 lowest_priority_ = 0;
  u64 steps_ = 0, progress_ = 0;
  u64 spin_progress_ = 0, spin_round_ = 1;               // livelock detection: see spin()
  u32 spinning_ = 0, spin_rounds_ = 0;
  std::deque<std::function<void()>> operations_;         // asynchronous, not yet complete
  u64 copies_ = 0;                                       // issued

  struct CallState {
    std::size_t index = 0;  // in report_.calls
    Effect effect;
  };
  std::map<std::tuple<const char*, int, const char*>, CallState> calls_;  // file, line, call
  std::map<std::pair<const char*, int>, u32> site_ids_;
  std::vector<Site> sites_;
  std::map<std::pair<std::string, std::string>, std::size_t> finding_index_;
  std::map<std::array<u32, 3>, std::size_t> hazard_index_;  // hazard, site, earlier site -> finding: a loop repeats them

  GlobalShadow global_shadow_;
  JoinCache joins_;
};

}  // namespace foretile::emulator
