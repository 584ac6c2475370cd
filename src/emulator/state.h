// What the emulated GPU consists of: launches, clusters, blocks, warps and threads, and what stands for the synchronisation
// objects and for the engines that work beside the threads.
#pragma once
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "emulator/clock.h"
#include "emulator/fiber/fiber.h"
#include "emulator/shadow.h"
#include "foretile/device/vocabulary/vocabulary.h"
#include "foretile/emulator.h"

namespace foretile::emulator {

// Dynamic shared memory begins after the kilobyte that Hopper reserves: swizzles act on absolute addresses.
constexpr u32 kSharedBase = 1024;
constexpr u32 kWarp = 32, kWarpgroup = 128;
constexpr u32 kPoison = 0x7fc0dead;  // stands in an accumulator while a wgmma owns it: a NaN that arithmetic carries along

struct Block;
struct Cluster;
struct Thread;

struct Wait {
  enum class Kind { nothing, mbarrier, named_barrier, cluster, collective, bulk, cp_async, registers, grid, testing, polling } kind = Kind::nothing;
  const char* call = "";
  Site site{};
  u32 address = 0;  // of the mbarrier; id of a named barrier; registers wanted
  u64 detail = 0;   // phase awaited; members of a collective; groups allowed to stay pending

  bool same_as(const Wait& o) const { return kind == o.kind && site == o.site && address == o.address && detail == o.detail; }
};

// ---- synchronisation objects -----------------------------------------------------------------------------

// What threads release into a synchronisation object.
struct Release {
  Knowledge gathered, last;  // `last`: clocks joined most recently, for the common case of equal ones
  void add(const Thread& t);
  void add_engines_only(const Thread& t);  // what the asynchronous engines did, not the thread's own accesses
};

struct MbarrierState {
  Block* block = nullptr;
  u32 address = 0;
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
  u32 announced = ~0u;  // the phase of the cluster's barrier at which its thread arrived after that
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

// ---- engines ---------------------------------------------------------------------------------------------

// One thread's bulk stores or element-wise copies. Groups complete in order; epochs of the agent count them from 1.
struct Groups {
  Agent agent = kNobody;
  u32 open = 1;                // the group that the next operation joins
  u32 youngest = 0;            // group with an operation in it
  u32 waited = 1;              // first group that was not waited for
  Site site{};                 // of the youngest operation
  std::map<u32, u32> pending;  // group -> operations that are not complete

  u32 first_pending() const { return pending.empty() ? open : pending.begin()->first; }
  bool uncommitted() const { return youngest == open; }
  void begin(Site s) { youngest = open, site = s, ++pending[open]; }
  void finish(u32 group) { if (--pending[group] == 0) pending.erase(group); }
};

// The registers of a warpgroup that a wgmma owns.
struct Accumulator {
  int columns = 0;
  bool integer = false;
  std::array<float*, kWarpgroup> registers{};
  std::vector<float> values;  // 64 x columns
  u32 last_group = 0;
};

struct MatrixMultiply {
  DType type{};
  int columns = 0;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  u64 a = 0, b = 0;  // descriptors
  Accumulator* accumulator = nullptr;
  u32 group = 0;
  u32 site = 0;
  View view;
};

// ---- threads and what they live in -----------------------------------------------------------------------

struct Warp {
  i64 priority = 0;
  Rendezvous rendezvous;
  // Operands of the collective under way, by lane.
  std::array<u32, kWarp> address{};
  std::array<std::array<u32, 4>, kWarp> data{};
  std::array<std::array<u32, 2>, kWarp> second{};  // B of an mma_sync
  std::array<float*, kWarp> registers_of{};        // its accumulator
  u32 elected = 0;
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
  std::unordered_map<u32, MbarrierState> barriers;  // by address
  std::array<NamedBarrier, 16> named;
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  std::vector<Thread*> threads;
  u32 live = 0;          // threads that have not returned
  u32 next_agent = 0;
  u32 copies = 0;        // asynchronous copies in flight into this block's shared memory
  i64 register_pool = 0;
  bool grid_waited = false, triggered = false;
  Agent grid_agent = kNobody;
  std::vector<Thread*> register_waiters;

  u32 index_in_grid() const { return index - grid->first_block; }
};

struct Cluster {
  Grid* grid = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  u32 live = 0;
  u32 generation = 0, arrived = 0;  // of its barrier
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
  Groups bulk_reads, bulk_writes, copies;
  std::vector<MbarrierState*> unfenced_inits, fenced_inits;  // the latter since its last cluster_arrive
  u32 cluster_generation = 0;
  bool cluster_arrived = false;
  u32 cluster_waited = 0;  // phases of the cluster's barrier that it has waited for: those before
  u64 spin_round = 0;  // Machine's, at its last fruitless test

  u32 warp_index() const { return index / kWarp; }
  u32 lane() const { return index % kWarp; }
  Warp& warp() const { return block->warps[warp_index()]; }
  View view() const { return {knowledge, agent, epoch, fenced_epoch}; }
};

}  // namespace foretile::emulator
