// Bank conflicts of the kernels' own shared-memory accesses in closed form; the rule by address is in model/access.h.
#pragma once
#include "foretile/device/configuration.h"
#include "model/access.h"

namespace foretile {

// Wavefronts of one of the simt kernel's stores to its shared tile (gemm_simt.cuh, deposit): thread t stores element
// (r, k) at k * pitch + r words, neighbours along K, or along the rows where the operand stands transposed. The most
// crowded bank counts the pairs of lanes whose words differ by a multiple of the banks.
constexpr int simt_deposit_wavefronts(const Configuration& c, bool transposed, int rows, int pitch) {
  int count[kSharedBanks] = {}, most = 0;  // no two lanes store the same word
  for (int lane = 0; lane < int(kWarpLanes); ++lane) {
    const int r = transposed ? lane % rows : lane / c.tile_k, k = transposed ? lane / rows : lane % c.tile_k;
    const int bank = (k * pitch + r) % int(kSharedBanks);
    most = ++count[bank] > most ? count[bank] : most;
  }
  return most;
}

}  // namespace foretile
