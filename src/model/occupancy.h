// How many blocks of a kernel an SM holds at once, and what limits it. Exact: the rules of cuda_occupancy.h.
#pragma once
#include "model/machine.h"

namespace foretile {

enum class Limiter { registers, shared_memory, warps, blocks };
const char* name_of(Limiter limiter);

struct Occupancy {
  int blocks_per_sm = 0;  // 0: not even one block fits
  int warps_per_block = 0;
  // Blocks an SM would hold if this resource alone counted.
  int by_registers = 0, by_shared_memory = 0, by_warps = 0, by_blocks = 0;
  Limiter limiter = Limiter::blocks;  // the smallest of them, in the order of the enum where they tie
  double warps_fraction = 0;          // resident warps over what the SM can hold: Nsight's theoretical occupancy
};

// threads: of a block. registers: a thread, as compiled. shared_bytes: static and dynamic together.
Occupancy occupancy(const Machine& machine, int threads, int registers, int shared_bytes);

}  // namespace foretile
