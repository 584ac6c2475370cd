// Probes of global memory: each warp repeats one access pattern, each time `span` bytes further on, so that neither the
// compiler nor the L1 cache can answer it with an earlier one. The table of lane offsets costs a warp one load of four
// sectors more, the result one store of four sectors.
#pragma once
#include "foretile/device/probes/shared.cuh"

namespace foretile {

namespace probe_detail {
FORETILE_DEVICE i64 place(const ProbeArguments& x, int repeat) {
  const u32 warp = block_index().x * (kProbeThreads / 32) + thread_index() / 32;
  return i64(warp * kProbeRepeats + u32(repeat)) * x.span;
}
}  // namespace probe_detail

template <class T> FORETILE_DEVICE void probe_global_load(const ProbeArguments& x) {
  const i32 offset = load_global(x.offsets + lane_index());
  u32 sum = 0;
  FORETILE_UNROLL
  for (int i = 0; i < kProbeRepeats; ++i) {
    const auto* from = static_cast<const u8*>(x.input) + probe_detail::place(x, i) + offset;
    if (offset >= 0) sum = sum * 3 + probe_detail::fold(load_global(reinterpret_cast<const T*>(from)));
  }
  probe_detail::keep(x, kProbeThreads, sum);
}

// Writes to `input`, which the host hands over writable; the result goes to `output` as always.
template <class T> FORETILE_DEVICE void probe_global_store(const ProbeArguments& x) {
  const i32 offset = load_global(x.offsets + lane_index());
  FORETILE_UNROLL
  for (int i = 0; i < kProbeRepeats; ++i) {
    auto* to = static_cast<u8*>(const_cast<void*>(x.input)) + probe_detail::place(x, i) + offset;
    if (offset >= 0) store_global(reinterpret_cast<T*>(to), probe_detail::spread<T>(u32(i)));
  }
  probe_detail::keep(x, kProbeThreads, u32(offset));
}

}  // namespace foretile
