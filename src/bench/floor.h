// How fast weights can be read at all: a kernel that streams them into shared memory and does nothing else, as one more arm
// beside a product that has to read them.
#pragma once
#include <string>

#include "bench/workload.h"

namespace foretile::bench {

// Of bulk copies into shared memory, one a stage.
struct Ring {
  u32 stages = 0, copy_bytes = 0;
  int blocks_per_sm = 0;
  u32 shared_bytes() const { return stages * (copy_bytes + 8); }  // with a barrier a stage
  std::string text() const;                                       // "13x16384x1": stages, bytes a copy, blocks an SM
};

// Puts a read of `bytes` from `from` (both multiples of 16) on the stream, even shares for `blocks` blocks. `dependent`: it may
// start while the kernel before it runs, and reads before that one is complete, as a product whose weights are ready.
void launch_read(const Gpu& gpu, const void* from, i64 bytes, const Ring& ring, int blocks, bool dependent);

// The fastest ring for a workload's weights in its mode of launches.
class ReadFloor {
 public:
  // Times a few rings in turn. Throws std::invalid_argument where the GPU has no bulk copies or the weights do not divide into them.
  explicit ReadFloor(const Gpu& gpu, const Workload& w);
  const Ring& ring() const { return ring_; }
  void run(i64 copy) const { run(copy, ring_); }

 private:
  void run(i64 copy, const Ring& ring) const;
  const Gpu& gpu_;
  const Workload& workload_;
  Ring ring_;
};

}  // namespace foretile::bench
