// Transposing a matrix through shared memory: the textbook bank conflict, and two cures.
//
// A block of 256 threads moves one 32x32 tile of fp32 values: rows in, columns out, both coalesced in global memory. The
// shared tile is written along its rows and read down its columns. At a pitch of 32 words a column lies in one bank and
// a read takes 32 wavefronts; at 33 it takes one; exchanging columns by an exclusive or with the row's number takes
// one, too, and no padding.
#pragma once
#include "foretile/device/probes/shared.cuh"

namespace foretile {

// width and height, of the input, are multiples of 32.
template <int Pitch, bool Exchange> FORETILE_DEVICE void probe_transpose(const ProbeArguments& x) {
  const u32 tx = thread_index() % 32, ty = thread_index() / 32;
  const u32 tiles = u32(x.width) / 32, left = block_index().x % tiles * 32, top = block_index().x / tiles * 32;
  const auto* in = static_cast<const float*>(x.input);
  auto* out = static_cast<float*>(x.output);
  const auto at = [&](u32 row, u32 column) {
    return shared_base() + 4 * (row * Pitch + (Exchange ? column ^ row : column));
  };
  FORETILE_UNROLL
  for (u32 i = 0; i < 32; i += 8) store_shared(at(ty + i, tx), load_global(in + i64(top + ty + i) * x.width + left + tx));
  sync_block();
  FORETILE_UNROLL
  for (u32 i = 0; i < 32; i += 8) store_global(out + i64(left + ty + i) * x.height + top + tx, load_shared<float>(at(tx, ty + i)));
}

}  // namespace foretile
