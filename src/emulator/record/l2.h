// A level-2 cache, to replay the sectors of a run through: sets of 16 lines of 128 bytes, whose four sectors are filled one by
// one; the line used longest ago goes first. A store leaves its sectors in the cache.
#pragma once
#include <algorithm>
#include <vector>

#include "foretile/emulator.h"
#include "model/access.h"

namespace foretile::emulator {

class L2Cache {
 public:
  explicit L2Cache(u64 bytes) : sets_(std::max<u64>(1, bytes / (kWays * kLineBytes))), lines_(sets_ * kWays) {}

  // Addresses count from wherever the caller likes; they pick the set through a hash, as the chip's do.
  void access(u64 sector, bool store) {
    const u64 line = sector / kSectors, bit = u64(1) << sector % kSectors;
    Line* const set = &lines_[(line * 0x9E3779B97F4A7C15 >> 32) % sets_ * kWays];
    const auto last = std::find_if(set, set + kWays - 1, [&](const Line& l) { return l.number == line; });  // else the oldest
    Line found = last->number == line ? *last : Line{line, 0};
    const bool hit = found.sectors & bit;
    found.sectors |= u8(bit);
    std::move_backward(set, last, last + 1);
    *set = found;
    if (store) ++traffic_.store_sectors, traffic_.store_hits += hit;
    else ++traffic_.load_sectors, traffic_.load_hits += hit;
  }

  const L2Traffic& traffic() const { return traffic_; }

 private:
  static constexpr u64 kWays = 16, kSectors = kLineBytes / kSectorBytes;
  struct Line {
    u64 number = ~u64(0);
    u8 sectors = 0;  // present
  };
  u64 sets_;
  std::vector<Line> lines_;  // of a set, youngest first
  L2Traffic traffic_;
};

}  // namespace foretile::emulator
