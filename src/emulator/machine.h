// The emulated GPU: resident blocks, their threads as fibers, the engines' queues, and the checks. One Machine runs one
// launch on one host thread. Parts by file: machine.cc (launch and schedule), report.cc (findings), barrier.cc
// (barriers), memory.cc (accesses and their checks), tma.cc (bulk copies), wgmma.cc (matrix unit), vocabulary.cc (the
// functions kernels call).
#pragma once
#include <array>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/clock.h"
#include "foretile/emulator.h"
#include "emulator/fiber.h"
#include "emulator/shadow.h"
#include "emulator/timeline.h"
#include "foretile/device/vocabulary/vocabulary.h"

namespace foretile::emulator {

// Dynamic shared memory begins after the kilobyte that Hopper reserves: swizzles act on absolute addresses.
constexpr u32 kSharedBase = 1024;
// A ClusterAddress here: the block's rank above the shared-memory address.
constexpr u32 kRankShift = 20;
constexpr u32 encode_cluster_address(u32 address, u32 rank) { return rank << kRankShift | address; }
constexpr u32 kWarp = 32, kWarpgroup = 128;

struct Block;
struct Cluster;
struct Grid;
struct Thread;

// Thrown through a fiber: the run cannot go on (the finding is already in the report), or another thread failed.
struct Failure {};
struct Aborted {};

// What a thread releases into a synchronisation object, gathered from several threads.
struct Release {
  Knowledge gathered, last;  // `last`: clocks joined most recently, for the common case of equal ones
  void add(const Thread& t);
  void add_engines_only(const Thread& t);  // what the asynchronous engines did, not the thread's own accesses
};

struct Wait {
  enum class Kind { nothing, mbarrier, named_barrier, cluster, collective, bulk, cp_async, registers, grid, testing, polling } kind = Kind::nothing;
  const char* call = "";
  Site site{};
  u32 address = 0;  // of the mbarrier; id of a named barrier; registers wanted
  u64 detail = 0;   // phase awaited; members of a collective; groups allowed to stay pending

  bool same_as(const Wait& o) const { return kind == o.kind && site.line == o.site.line && site.file == o.site.file && address == o.address && detail == o.detail; }
};

// On the timeline: the lanes of a warp that wait for the same thing.
struct WarpWait {
  Wait wait;
  u32 span = 0, lanes = 0, most = 0;
};

// One thread's bulk stores. Groups complete in order; epochs of its two agents count groups from 1.
struct BulkGroups {
  Agent reads = kNobody, writes = kNobody;
  u32 open = 1;  // the group that the next store joins
  bool open_used = false;
  std::map<u32, u32> reading, writing;  // group -> stores that have not finished that half
  u32 read_waited = 1;   // first group whose reads were not waited for
  u32 first_reading() const { return reading.empty() ? open : reading.begin()->first; }  // first group not finished
  u32 first_writing() const { return writing.empty() ? open : writing.begin()->first; }
};

// One thread's element-wise copies (cp_async). Groups are counted from 1 and complete in order: epochs of its agent.
struct CopyGroups {
  Agent agent = kNobody;
  u32 open = 1;            // the group that the next copy joins
  bool open_used = false;
  Site open_site{};        // of its youngest copy
  std::map<u32, u32> pending;  // group -> copies that have not landed
  u32 waited = 1;          // first group that was not waited for
  u32 last_used = 0;       // youngest group with a copy in it
  u32 first_pending() const { return pending.empty() ? open : pending.begin()->first; }
};

struct MbarrierState {
  const Block* block = nullptr;
  u32 offset = 0;
  bool valid = false;
  u32 expected = 0, pending = 0;
  i64 transaction = 0;  // bytes expected and not landed; negative while copies run ahead of the expectation
  u32 phase = 0;        // completed phases; the current one is incomplete
  bool observed = true; // some wait saw the last completed phase
  Agent agent = kNobody;
  u32 first_epoch = 0;  // of this initialisation: epoch of phase p's completion is first_epoch + p + 1
  u32 last_copy = 0;    // epoch in which the youngest copy landed
  Access init;
  bool fenced = false;  // the initialisation is visible to the asynchronous proxy
  Release building;
  Knowledge released;   // by the last completed phase
  std::vector<Thread*> waiters;
};

struct NamedBarrier {
  u32 expected = 0, arrived = 0;
  bool whole_block = false;
  Release building;
  std::vector<Thread*> waiters;
  std::map<u32, std::pair<u32, Site>> warps;  // lanes that arrived, and where
};

// A warp- or warpgroup-wide call: the last thread to arrive performs it.
struct Rendezvous {
  const char* call = "";
  Site site{};
  std::array<u64, 3> operands{};
  std::vector<Thread*> members;
};

struct Accumulator {
  int columns = 0;
  bool integer = false;
  float* registers[kWarpgroup] = {};
  std::vector<float> values;  // 64 x columns
  u32 last_group = 0;
};

struct MatrixMultiply {
  DType type{};
  int columns = 0;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  u64 a = 0, b = 0;
  Accumulator* accumulator = nullptr;
  u32 group = 0;
  u32 site = 0;
  View view;
};

struct Warp {
  u32 index = 0;
  Block* block = nullptr;
  i64 priority = 0;
  Rendezvous rendezvous;
  std::array<u32, kWarp> address{};             // operands of the collective under way, by lane
  std::array<std::array<u32, 4>, kWarp> data{};
  std::array<std::array<u32, 2>, kWarp> second{};  // B of an mma_sync
  std::array<float*, kWarp> registers_of{};        // its accumulator
  u32 elected = 0;
  u32 track = 0, life = 0;  // on the timeline
  std::vector<WarpWait> waits;
};

struct Warpgroup {
  u32 index = 0;
  Rendezvous rendezvous;
  std::array<float*, kWarpgroup> registers_of{};  // operands of the wgmma under way, by thread
  Agent agent = kNobody;  // the first of four, one a warp
  std::deque<MatrixMultiply> queue;  // issued, not executed
  std::vector<std::unique_ptr<Accumulator>> live, left;  // in flight; as the last wait left them
  u32 committed = 0, retired = 0;    // groups
  bool open_used = false;            // wgmmas issued since the last commit
  bool fenced = false;               // a wgmma_fence came since the last wait
  u32 register_count = 0;            // a thread, where the launch tells it
  struct Shown { u32 group = 0, span = 0, multiplies = 0; };
  u32 track = 0;                     // on the timeline, with the groups in flight
  std::deque<Shown> groups;
};

// A launch, and how far it has come.
struct Grid {
  const Launch* launch = nullptr;
  LaunchShape shape;
  Grid *before = nullptr, *after = nullptr;  // in the chain
  bool dependent = false;
  u32 first_block = 0;    // blocks are numbered through the chain
  u32 next_cluster = 0, cluster_count = 0, resident = 0;
  u32 triggered = 0;      // blocks that called grid_dependency_launch() or returned
  bool complete = false;
  u32 agents = 0;         // the most that one of its blocks has
  Release building;       // what its threads know when they return
  Knowledge released;     // by its completion
  std::vector<Thread*> waiters;
};

struct Block {
  u32 index = 0, rank = 0;
  Grid* grid = nullptr;
  Cluster* cluster = nullptr;
  std::vector<u8> shared;
  std::unique_ptr<Cell[]> shadow;
  std::unordered_map<u32, MbarrierState> barriers;  // by offset
  std::array<NamedBarrier, 16> named;
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  std::vector<Thread*> threads;
  u32 live = 0;          // threads that have not returned
  u32 next_agent = 0;
  u32 copies = 0;        // asynchronous copies in flight that touch this block's shared memory
  i64 register_pool = 0;
  bool grid_waited = false, triggered = false;
  Agent grid_agent = kNobody;
  std::vector<Thread*> register_waiters;
  struct ShownWrite {
    std::string name;
    const MbarrierState* barrier;
    u32 phase, span, count, in_flight;
    u64 bytes;
  };
  u32 process = 0, load_track = 0, store_track = 0, cluster_track = 0;  // on the timeline, with the writes in flight that signal a barrier
  std::vector<ShownWrite> writes;

  u32 index_in_grid() const { return index - grid->first_block; }
};

struct Cluster {
  Grid* grid = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  u32 live = 0;
  u32 generation = 0, arrived = 0;
  Release building;
  Knowledge released;
  std::vector<Thread*> waiters;
};

struct Thread {
  Context context;
  Stack stack;
  Block* block = nullptr;
  Cluster* cluster = nullptr;
  u32 index = 0;
  Agent agent = 0;
  enum class State : u8 { ready, blocked, done } state = State::ready;
  struct Load {
    u32 site = ~0u;
    const void* address = nullptr;
    std::array<u8, 16> value{};
    friend bool operator==(const Load&, const Load&) = default;
  } last_load;  // of global memory, if nothing came after it: the same again is polling
  Knowledge knowledge;
  u32 epoch = 1, fenced_epoch = 0;
  Wait wait;
  std::unique_ptr<BulkGroups> bulk;
  std::unique_ptr<CopyGroups> copies;
  std::vector<MbarrierState*> unfenced_inits;
  u32 cluster_generation = 0;
  bool cluster_arrived = false;
  u64 spin_round = 0;  // Machine's, at its last fruitless test

  u32 warp_index() const { return index / kWarp; }
  u32 lane() const { return index % kWarp; }
  Warp& warp() const { return block->warps[warp_index()]; }
  View view() const { return {knowledge, agent, epoch, fenced_epoch}; }
};

struct AsyncOperation {
  std::function<void()> run;
};

struct Effect {
  bool drop = false;
  int delta = 0;
};

class Machine {
 public:
  Machine(const std::vector<Launch>& chain, const Options& options);
  ~Machine();
  Report run();
  static Machine& current();

  // ---- vocabulary.cc ----
  Thread& me() { return *current_; }
  // Every synchronising call begins here: counts its site, offers a switch, and says how a mutation changes it.
  Effect enter(Site site, const char* call, bool counted = false);
  void maybe_yield();

  // ---- barrier.cc ----
  void sync_warp(Site site);
  void named_barrier(u32 id, u32 threads, bool whole_block, bool wait, const char* call, Site site);
  void cluster_arrive(Site site);
  void cluster_wait(Site site);
  void mbarrier_init(u32 address, u32 arrivals, Site site);
  void mbarrier_invalidate(u32 address, Site site);
  void mbarrier_arrive(u32 address, u32 arrivals, i64 bytes, Site site);
  void mbarrier_arrive_cluster(u32 address, u32 rank, Site site);
  void mbarrier_wait(u32 address, u32 parity, Site site);
  bool mbarrier_test(u32 address, u32 parity, Site site);
  void fence_proxy_async();
  void fence_mbarrier_init();
  bool elect_one(Site site);
  void registers(u32 count, bool acquire, Site site);
  void grid_dependency_wait(Site site);
  void grid_dependency_launch(Site site);

  // ---- memory.cc ----
  void shared_access(u32 address, void* data, u32 bytes, bool store, Site site);
  void global_access(const void* address, void* data, u32 bytes, bool store, Site site);
  void store_cluster_async(u32 destination, float value, u32 barrier, Site site);
  void store_matrix(u32 row, const u32* fragments, u32 count, bool transposed, Site site);
  void load_matrix(u32 row, u32* fragments, Site site, bool transposed = false);

  // ---- cp_async.cc ----
  void cp_async(u32 destination, const void* source, u32 bytes, u32 valid, Site site);
  void cp_async_commit();
  void cp_async_wait(u32 pending, Site site);

  // ---- mma.cc ----
  float shuffle_xor(float value, u32 mask, Site site);
  void mma_sync(DType type, float* d, const u32* a, const u32* b, Site site);

  // ---- tma.cc ----
  void prefetch_tensor_map(const TensorMap& map, Site site);
  void tma_load(u32 destination, const TensorMap& map, BoxCorner corner, u32 barrier, u32 blocks, const char* call, Site site);
  void tma_store(const TensorMap& map, BoxCorner corner, u32 source, Site site);
  void bulk_commit();
  void bulk_wait(u32 pending, bool read_only, Site site);

  // ---- wgmma.cc ----
  void wgmma_fence(Site site);
  void wgmma(DType type, int columns, bool transpose_a, bool transpose_b, float* registers, u64 a, u64 b, bool accumulate, Site site);
  void wgmma_commit(Site site);
  void wgmma_wait(u32 pending, Site site);

  // ---- report.cc ----
  std::size_t report(const char* kind, Site site, const std::string& text);  // index of the finding
  [[noreturn]] void fail(const char* kind, Site site, const std::string& text);

 private:
  // ---- machine.cc ----
  void start_clusters();
  void start_cluster(Grid& grid);
  void loop();
  void abort_all();
  static void thread_entry();
  void thread_main();
  void thread_exit(Thread& t);
  void block_exit(Block& b);
  Thread* pick();
  void make_ready(Thread& t);
  void switch_from(Thread& t, bool last = false);
  std::size_t ready_count() const;
  void reap(Cluster& cluster);
  struct SiteState;
  SiteState new_site_state(Site site, const char* call, bool counted);
  void spin(Thread& t, const Wait& wait);
  void yield();
  void block_on(Wait wait);
  void wake(Thread& t);
  void wake_all(std::vector<Thread*>& waiters);
  bool run_operation();
  void submit(std::function<void()> operation);
  u64 random_below(u64 n) { return rng_() % n; }
  bool unordered_mode() const { return options_.scheduling != Scheduling::round_robin; }

  // ---- report.cc ----
  void report_stuck(const char* kind);
  std::string describe(const Wait& wait, const Block& block);
  std::string name_threads(const Block& block, const std::vector<u32>& threads) const;
  std::string name_thread(const Thread& t) const;
  std::string name_agent(Agent a) const;
  std::string name_block(const Block& block) const { return name_block(block.index); }
  std::string name_block(u32 index) const;
  std::string name_shared(const Block& block, u32 offset) const { return name_shared(*block.grid, offset); }
  std::string name_shared(const MbarrierState& b) const { return name_shared(*b.block->grid, b.offset); }
  std::string name_shared(const Grid& grid, u32 offset) const;
  std::string name_role(const Grid& grid, u32 warp) const;  // " (producer)", or nothing
  static std::string name_site(Site site);
  u32 site_id(Site site);

  // ---- barrier.cc ----
  template <class Last> void collective(Rendezvous& r, u32 members, const char* call, Site site, std::array<u64, 3> operands, bool one_site, Last&& last);
  void complete_named(NamedBarrier& b, u32 id);
  void complete_cluster(Cluster& c);
  void complete_grid(Grid& grid);
  MbarrierState& find_barrier(Block& block, u32 address, const char* call, Site site);
  void check_barrier_ready(const MbarrierState& b, const View& view, bool async, Site site);
  void complete_phase(Block& block, MbarrierState& b, Site site);
  void complete_transaction(Block& block, u32 offset, i64 bytes, Site site);
  bool phase_passed(MbarrierState& b, u32 parity, bool test, Site site);
  void acquire(Thread& t, const Knowledge& k);

  // ---- memory.cc ----
  u8* shared_bytes(Block& block, u32 address, u32 bytes, u32 alignment, const char* call, Site site);
  void touch_shared(Block& block, u32 offset, u32 bytes, const Access& a, const View& view);
  void touch_global(const void* address, u64 bytes, const Access& a, const View& view);
  const Region* find_region(const Grid& grid, const void* address, u64 bytes, bool store);
  bool check_global(const void* address, u64 bytes, bool store, const View& view, const char* call, Site site);
  bool seen_before(Hazard hazard, const Record* before, const Access& now);
  void on_hazard(Hazard hazard, const Record* before, const Access& now, const std::string& place);
  void check_poison(const void* data, u32 bytes, Site site);

  // ---- tma.cc ----
  struct Box;
  void read_box(const Box& box, u8* buffer, const Access& a, const View& view, Site site);
  Box box_of(const TensorMap& map, BoxCorner corner, bool store, const char* call, Site site);
  void write_box(const Box& box, const u8* buffer, const Access& a, const View& view, Site site);
  void wake_bulk(Thread& t);

  // ---- wgmma.cc ----
  Warpgroup& my_warpgroup(Site site);
  View warpgroup_view(const Warpgroup& g) const;
  void execute(Block& block, Warpgroup& g);
  void load_operand(Block& block, u64 descriptor, int rows, bool transposed, const MatrixMultiply& op, const Access& a, float* out);
  void retire(Warpgroup& g, u32 upto, Site site);

  // ---- timeline.cc: only with a timeline ----
  void show_block(Block& b);
  void show_exit(Thread& t);
  void show_wait(Thread& t);
  void show_wake(Thread& t);
  std::string name_of_shared(const Block& block, u32 address) const;
  EventArguments box_arguments(const Block& block, u32 address, BoxCorner corner, Site site) const;
  u32 show_write(Block& from, const char* call, u32 destination, const MbarrierState& barrier, u64 bytes, EventArguments arguments);
  void show_landed(Block& block, u32 span);
  u32 show_store(Block& block, u32 source, BoxCorner corner, u32 group, u64 bytes, Site site);
  void show_multiply(Block& block, Warpgroup& g, const MatrixMultiply& op);
  void show_retired(Warpgroup& g, u32 upto);

  enum class Engine : u8 { copies, matrix, bulk_reads, bulk_writes, cp_async, grid };
  Agent new_agent(Block& b, Engine engine, u32 detail);

  const Grid& grid_of(Agent a) const;

  const std::vector<Launch>& chain_;
  const Options& options_;
  Timeline::Writer* const timeline_;  // or null
  std::vector<std::unique_ptr<Grid>> grids_;  // in the order of the chain
  std::mt19937_64 rng_;
  Report report_;
  std::exception_ptr foreign_;  // an exception of the kernel that is not the emulator's

  struct EngineName { Engine engine; u32 detail; };
  std::vector<std::vector<EngineName>> engine_names_;  // by block, then agent index beyond the threads

  Context main_;
  std::vector<std::unique_ptr<Cluster>> clusters_;  // resident
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<std::unique_ptr<Thread>> idle_;       // finished, kept for their stacks
  Thread* current_ = nullptr;
  u32 resident_blocks_ = 0;
  bool failed_ = false, aborting_ = false;

  std::deque<Thread*> ready_;                            // round robin, random
  std::map<i64, std::deque<Thread*>, std::greater<>> ready_by_priority_;
  std::set<u64> change_points_;                          // steps at which the running warp loses its priority
  i64 lowest_priority_ = 0;
  u64 steps_ = 0;
  u64 progress_ = 0;                                     // counts everything but fruitless tests
  u64 spin_progress_ = 0, spin_round_ = 1;               // livelock detection: see spin()
  u32 spinning_ = 0, spin_rounds_ = 0;
  std::vector<Cluster*> finished_;                       // all threads returned, to be reaped by the main context
  std::deque<AsyncOperation> operations_;

  struct SiteHash {
    std::size_t operator()(const Site& s) const { return std::size_t(reinterpret_cast<std::uintptr_t>(s.file)) * 31 + std::size_t(s.line); }
  };
  struct SiteEqual {
    bool operator()(const Site& a, const Site& b) const { return a.file == b.file && a.line == b.line; }
  };
  std::unordered_map<Site, u32, SiteHash, SiteEqual> site_ids_;
  std::vector<Site> sites_;
  struct SiteState {
    const char* call = nullptr;
    u32 index = 0;  // in report_.calls
    Effect effect;
  };
  std::vector<SiteState> site_states_;                                // by site: the first kind of call there
  std::map<std::pair<u32, const char*>, SiteState> more_site_states_; // lines that hold several kinds
  std::map<std::pair<std::string, std::string>, std::size_t> finding_index_;
  std::map<std::array<u32, 3>, std::size_t> hazard_index_;  // hazard, site, earlier site -> finding: a loop repeats them

  GlobalShadow global_shadow_;
  JoinCache joins_;
};

}  // namespace foretile::emulator
