// Shared-memory bank conflicts and global-memory sectors of one warp-wide access, exactly.
#pragma once
#include "foretile/device/configuration.h"
#include "foretile/device/types.h"

namespace foretile {

inline constexpr int kWarp = 32;
inline constexpr int kBanks = 32;  // of 32-bit words
inline constexpr i64 kInactive = -1;

// Wavefronts of one access: byte address of each lane (kInactive: the lane takes no part), bytes a lane 1 to 16, a power
// of two, addresses its multiples. 8-byte accesses run by half-warps, 16-byte ones by quarter-warps (CUDA C++
// Programming Guide; a phase costs the most distinct words any one bank has to give. Equal words are one.
constexpr int shared_wavefronts(const i64 (&addresses)[kWarp], int bytes) {
  const int words = bytes <= 4 ? 1 : bytes / 4, lanes = kWarp / words;
  int total = 0;
  for (int phase = 0; phase < words; ++phase) {
    i64 seen[kBanks][kWarp] = {};
    int count[kBanks] = {}, most = 0;
    for (int lane = phase * lanes; lane < (phase + 1) * lanes; ++lane) {
      if (addresses[lane] == kInactive) continue;
      for (int w = 0; w < words; ++w) {
        const i64 word = addresses[lane] / 4 + w;
        const int bank = int(word % kBanks);
        bool known = false;
        for (int i = 0; i < count[bank]; ++i) known = known || seen[bank][i] == word;
        if (!known) seen[bank][count[bank]++] = word;
        most = count[bank] > most ? count[bank] : most;
      }
    }
    total += most;
  }
  return total;
}

// ldmatrix / stmatrix: one 8x8 matrix of 16-bit elements, its eight row addresses.
constexpr int matrix_wavefronts(const i64 (&rows)[8]) {
  int count[kBanks / 4] = {}, most = 0;  // rows are 16-byte aligned: whole groups of four banks
  for (int i = 0; i < 8; ++i) {
    bool known = false;
    for (int j = 0; j < i; ++j) known = known || rows[j] == rows[i];
    if (known) continue;
    const int group = int(rows[i] / 16 % (kBanks / 4));
    most = ++count[group] > most ? count[group] : most;
  }
  return most;
}

// 32-byte sectors one warp-wide global access touches.
constexpr int global_sectors(const i64 (&addresses)[kWarp], int bytes) {
  i64 seen[2 * kWarp] = {};
  int count = 0;
  for (int lane = 0; lane < kWarp; ++lane) {
    if (addresses[lane] == kInactive) continue;
    for (i64 sector = addresses[lane] / 32; sector <= (addresses[lane] + bytes - 1) / 32; ++sector) {
      bool known = false;
      for (int i = 0; i < count; ++i) known = known || seen[i] == sector;
      if (!known) seen[count++] = sector;
    }
  }
  return count;
}

// Wavefronts of one of the simt kernel's stores to its shared tile (gemm_simt.cuh, deposit): thread t stores element
// (r, k) at k * pitch + r words, neighbours along K, or along the rows where the operand stands transposed. The most
// crowded bank counts the pairs of lanes whose words differ by a multiple of the banks.
constexpr int simt_deposit_wavefronts(const Configuration& c, bool transposed, int rows, int pitch) {
  int count[kBanks] = {}, most = 0;  // no two lanes store the same word
  for (int lane = 0; lane < kWarp; ++lane) {
    const int r = transposed ? lane % rows : lane / c.tile_k, k = transposed ? lane / rows : lane % c.tile_k;
    const int bank = (k * pitch + r) % kBanks;
    most = ++count[bank] > most ? count[bank] : most;
  }
  return most;
}

}  // namespace foretile
