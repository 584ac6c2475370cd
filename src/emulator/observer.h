// Who may watch a run: record/trace.h counts what accesses cost, record/picture.h draws who waits for whom. The emulator
// itself works the same with and without them.
#pragma once
#include <string>

#include "emulator/chip/tensor_map.h"
#include "emulator/state.h"

namespace foretile::emulator {

enum class LaneAccess : u8 { load_shared, store_shared, load_global, store_global, two_matrices, four_matrices };

// A copy that has been issued and not landed.
struct Copy {
  u64 id = 0;
  const char* call = "";
  Site site{};
  const Block* from = nullptr;             // whose thread issued it
  u32 address = 0;                         // in shared memory: where a load lands, what a store reads
  u64 bytes = 0;                           // in each block that it goes to
  const MbarrierState* barrier = nullptr;  // that counts a load, the first where there are several
  const Box* box = nullptr;                // by tensor map
  u32 blocks = 0;                          // that a load goes to
  u32 group = 0;                           // of bulk stores
};

struct Observer {
  virtual ~Observer() = default;
  virtual void block_starts(const Block&) {}
  virtual void thread_returns(const Thread&) {}
  virtual void thread_waits(const Thread&) {}   // see Thread::wait
  virtual void thread_goes_on(const Thread&) {}
  virtual void access(LaneAccess, const char* /*call*/, const Thread&, u64 /*address*/, u32 /*bytes*/, Site) {}
  virtual void copy_issued(const Copy&) {}
  virtual void box_prefetched(const Box&, Site) {}
  virtual void copy_read(u64 /*id*/) {}  // of a bulk store: its source may be reused
  virtual void copy_landed(u64 /*id*/) {}
  virtual void multiply_issued(const Block&, const Warpgroup&, const MatrixMultiply&) {}
  virtual void multiplies_retired(const Block&, const Warpgroup&, u32 /*upto: the last group*/) {}
  virtual void happened(const Block&, const char* /*what*/, Site, const std::string& /*text*/) {}
};

}  // namespace foretile::emulator
