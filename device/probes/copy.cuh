// A copy by the tensor memory accelerator: no lane touches the data, so no lane's counter sees it. Its traffic is that of
// the boxes clipped to the tensor, in sectors of L2.
#pragma once
#include "foretile/device/probes/shared.cuh"

namespace foretile {

inline constexpr u32 kCopyColumns = 64, kCopyRows = 64;  // of 16-bit elements: rows of 128 bytes
inline constexpr u32 kCopyBoxBytes = kCopyColumns * kCopyRows * 2;

// One warp a box; the boxes cover a matrix of width x height.
FORETILE_DEVICE void probe_tma_copy(const ProbeArguments& x) {
  const u32 across = u32(x.width + i32(kCopyColumns) - 1) / kCopyColumns;
  const BoxCorner corner{i32(block_index().x % across * kCopyColumns), i32(block_index().x / across * kCopyRows), 0};
  const SmemAddress box = shared_base();
  const Mbarrier landed{box + kCopyBoxBytes};
  if (thread_index() == 0) {
    mbarrier_init(landed, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(landed, kCopyBoxBytes);  // the full box, whatever part of it lies inside
    tma_load(box, x.from, corner, landed);
    mbarrier_wait(landed, 0);
    tma_store(x.to, corner, box);
    bulk_commit();
    bulk_wait<0>();
  }
}

}  // namespace foretile
