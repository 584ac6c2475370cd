// Probes of shared memory: each warp repeats one access whose addresses come from a table, one entry a lane.
//
// Before a load the block fills its shared memory with 4-byte stores at unit stride, one wavefront each. The table costs
// a warp one global load of four sectors, the result one global store of four sectors.
#pragma once
#include "foretile/device/probes/arguments.h"
#include "foretile/device/vocabulary/vocabulary.h"

namespace foretile {

namespace probe_detail {
FORETILE_DEVICE u32 fold(u16 v) { return v; }
FORETILE_DEVICE u32 fold(u32 v) { return v; }
FORETILE_DEVICE u32 fold(u32x2 v) { return v.x ^ v.y; }
FORETILE_DEVICE u32 fold(u32x4 v) { return v.x ^ v.y ^ v.z ^ v.w; }
template <class T> FORETILE_DEVICE T spread(u32 v) {
  if constexpr (sizeof(T) <= 4) return T(v);
  else if constexpr (sizeof(T) == 8) return T{v, v};
  else return T{v, v, v, v};
}

// The number of threads is that of the launch: every thread takes its words, so the stride is a constant of the loop.
FORETILE_DEVICE void fill_shared(const ProbeArguments& x, u32 threads) {
  for (u32 i = thread_index(); i < u32(x.shared_words); i += threads) store_shared(shared_base() + 4 * i, i);
  sync_block();
}
// Where thread t of the grid leaves what it found, so that no access is dead code.
FORETILE_DEVICE void keep(const ProbeArguments& x, u32 threads, u32 value) {
  store_global(static_cast<u32*>(x.output) + block_index().x * threads + thread_index(), value);
}
}  // namespace probe_detail

// Threads a block of every probe with a table.
inline constexpr u32 kProbeThreads = 64;

template <class T> FORETILE_DEVICE void probe_shared_load(const ProbeArguments& x) {
  probe_detail::fill_shared(x, kProbeThreads);
  const i32 offset = load_global(x.offsets + lane_index());
  u32 sum = 0;
  FORETILE_UNROLL
  for (int i = 0; i < kProbeRepeats; ++i) {
    if (offset >= 0) sum = sum * 3 + probe_detail::fold(load_shared<T>(shared_base() + u32(offset)));
    sync_warp();  // keeps the compiler from answering the next load with this one's result
  }
  probe_detail::keep(x, kProbeThreads, sum);
}

// Lanes may name the same word: which of them wins is not defined, and nothing reads it.
template <class T> FORETILE_DEVICE void probe_shared_store(const ProbeArguments& x) {
  const i32 offset = load_global(x.offsets + lane_index());
  FORETILE_UNROLL
  for (int i = 0; i < kProbeRepeats; ++i) {
    if (offset >= 0) store_shared(shared_base() + u32(offset), probe_detail::spread<T>(u32(i)));
    sync_warp();
  }
  probe_detail::keep(x, kProbeThreads, u32(offset));
}

// Four 8x8 matrices; the table has the address of each lane's row.
FORETILE_DEVICE void probe_load_matrix(const ProbeArguments& x) {
  probe_detail::fill_shared(x, kProbeThreads);
  const i32 offset = load_global(x.offsets + lane_index());
  u32 sum = 0;
  FORETILE_UNROLL
  for (int i = 0; i < kProbeRepeats; ++i) {
    sum = sum * 3 + probe_detail::fold(load_matrix_x4(shared_base() + u32(offset)));
    sync_warp();
  }
  probe_detail::keep(x, kProbeThreads, sum);
}

template <int Matrices> FORETILE_DEVICE void probe_store_matrix(const ProbeArguments& x) {
  static_assert(Matrices == 2 || Matrices == 4);
  const i32 offset = load_global(x.offsets + lane_index());
  FORETILE_UNROLL
  for (int i = 0; i < kProbeRepeats; ++i) {
    const u32 v = u32(i);
    if constexpr (Matrices == 4) store_matrix_x4(shared_base() + u32(offset), u32x4{v, v, v, v});
    else store_matrix_x2(shared_base() + u32(offset), u32x2{v, v});
    sync_warp();
  }
  probe_detail::keep(x, kProbeThreads, u32(offset));
}

}  // namespace foretile
