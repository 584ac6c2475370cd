#include "model/occupancy.h"

#include <algorithm>

namespace foretile {

const char* name_of(Limiter limiter) {
  switch (limiter) {
    case Limiter::registers: return "registers";
    case Limiter::shared_memory: return "shared memory";
    case Limiter::warps: return "warps";
    case Limiter::blocks: return "blocks";
  }
  return "?";
}

Occupancy occupancy(const Machine& machine, int threads, int registers, int shared_bytes) {
  Occupancy o;
  const int warps = int(ceil_div(threads, 32));
  o.warps_per_block = warps;
  if (threads <= 0 || threads > machine.threads_per_block || registers > machine.registers_per_thread ||
      shared_bytes > machine.shared_bytes_per_block)
    return o;

  // A warp's registers are rounded up to the unit and live in one of the SM's partitions, one a scheduler.
  const int partitions = int(machine.schedulers);
  const i64 warp_registers = round_up(max_of(1, i64(registers)) * 32, i64(machine.register_unit));
  const i64 warps_by_registers = i64(machine.registers) / partitions / warp_registers * partitions;
  o.by_registers = int(warps_by_registers / warps);
  // Shared memory is given out in units of 128 bytes (compute capability 7.0 and above; cuda_occupancy.h).
  const i64 block_shared = round_up(shared_bytes + i64(machine.shared_reserved), 128);
  o.by_shared_memory = block_shared > 0 ? int(i64(machine.shared_bytes) / block_shared) : int(machine.blocks);
  o.by_warps = int(machine.warps) / warps;
  o.by_blocks = int(machine.blocks);

  o.blocks_per_sm = std::min({o.by_registers, o.by_shared_memory, o.by_warps, o.by_blocks});
  o.limiter = o.by_registers == o.blocks_per_sm       ? Limiter::registers
              : o.by_shared_memory == o.blocks_per_sm ? Limiter::shared_memory
              : o.by_warps == o.blocks_per_sm         ? Limiter::warps
                                                      : Limiter::blocks;
  o.warps_fraction = double(o.blocks_per_sm) * warps / machine.warps;
  return o;
}

}  // namespace foretile
