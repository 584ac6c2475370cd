// Vector clocks: what an agent knows to have happened.
//
// Agents are the threads of all blocks, and a few per block that stand for asynchronous engines:
//   - an mbarrier stands for the copies that signal it: its epoch counts completed phases;
//   - a warpgroup's matrix unit, four agents, one for the part of each warp: their epochs count wgmma groups;
//   - a thread's bulk stores: one agent for the reads of their sources, one for the writes; epochs count groups.
// Each of these completes in order, so knowing epoch e implies knowing every earlier one, and the number of agents does
// not grow with the length of the run.
//
// Clocks are immutable once shared and hang in two levels: a chunk a block, shared by every clock that says the same
// about that block. Lanes that did the same things share one clock; what each knows of itself is kept beside it
// (Thread::epoch), so a missing sync_warp is seen although 32 lanes cost little more than one.
#pragma once
#include <utility>
#include <vector>

#include "foretile/device/types.h"

namespace foretile::emulator {

using Agent = u32;  // block << 12 | index in the block
constexpr u32 kAgentBits = 12;
constexpr Agent kNobody = ~0u;
constexpr Agent make_agent(u32 block, u32 index) { return block << kAgentBits | index; }

// Counted by hand and not atomically: a machine lives on one host thread.
template <class T> class Ref {
 public:
  Ref() = default;
  explicit Ref(T* p) : p_(p) { if (p_) ++p_->uses; }
  Ref(const Ref& o) : p_(o.p_) { if (p_) ++p_->uses; }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept { std::swap(p_, o.p_); return *this; }
  ~Ref() { if (p_ && --p_->uses == 0) delete p_; }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.p_ == b.p_; }

 private:
  T* p_ = nullptr;
};

struct Chunk {
  u32 uses = 0;
  std::vector<u32> epoch;
};

struct Clock {
  u32 uses = 0;
  std::vector<Ref<Chunk>> blocks;

  u32 at(Agent a) const {
    const u32 block = a >> kAgentBits, index = a & ((1u << kAgentBits) - 1);
    if (block >= blocks.size() || !blocks[block]) return 0;
    const std::vector<u32>& e = blocks[block]->epoch;
    return index < e.size() ? e[index] : 0;
  }
};
using ClockRef = Ref<Clock>;

inline u32 epoch_of(const ClockRef& c, Agent a) { return c ? c->at(a) : 0; }
void advance(ClockRef& clock, Agent a, u32 epoch);            // raises one entry, copying what is shared
ClockRef join(const ClockRef& a, const ClockRef& b);          // the greater of each entry
ClockRef meet(const ClockRef& a, const ClockRef& b);          // the smaller of each entry
ClockRef everything_of(u32 first_block, u32 blocks, u32 agents);  // whatever these blocks' agents did, and will do
ClockRef without_threads(const ClockRef& clock, u32 threads); // engines' entries only

// Remembers recent joins: the 128 lanes that pass one barrier with equal clocks go on sharing one.
class JoinCache {
 public:
  ClockRef join(const ClockRef& a, const ClockRef& b);

 private:
  struct Entry { ClockRef a, b, result; };
  Entry entries_[64];
};

// What travels along a synchronisation edge: accesses that happened before (`seen`), and those of the generic proxy
// that a proxy fence has made visible to the asynchronous one (`fenced`).
struct Knowledge { ClockRef seen, fenced; };

// The point of view of an access: what its agent knows, and what it did itself.
struct View {
  Knowledge knowledge;
  Agent self = kNobody;
  u32 self_epoch = 0, self_fenced = 0;

  bool knows(Agent a, u32 epoch) const { return a == self ? epoch <= self_epoch : epoch_of(knowledge.seen, a) >= epoch; }
  bool knows_fenced(Agent a, u32 epoch) const {
    return a == self ? epoch <= self_fenced : epoch_of(knowledge.fenced, a) >= epoch;
  }
};

}  // namespace foretile::emulator
