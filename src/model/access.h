// What one warp-wide memory access costs, exactly: wavefronts of shared memory, sectors and lines of global memory.
// Brute force over the addresses of its lanes, and the only home of these rules: model, emulator and tests use them.
// They are checked against counters recorded on an H200 (tests/counters).
//
// Everywhere, addresses[l] is the byte address of lane l, a multiple of `bytes`; lanes beyond the end of the span, and
// those whose bit in `active` is clear, take no part. `bytes`, of one lane, is 1, 2, 4, 8 or 16.
#pragma once
#include <span>

#include "foretile/device/types.h"

namespace foretile {

inline constexpr u32 kWarpLanes = 32;
inline constexpr u32 kSharedBanks = 32;      // each gives one 4-byte word a wavefront
inline constexpr u32 kSectorBytes = 32;      // what L2 hands out
inline constexpr u32 kLineBytes = 128;       // what a tag of the L1 cache stands for
inline constexpr u32 kEveryLane = 0xffffffff;

namespace access_detail {

constexpr bool takes_part(std::size_t lane, std::size_t lanes, u32 active) { return lane < lanes && (active >> lane & 1); }

// Whether every lane that takes part asks for the same address as its neighbour at `distance`, or has none.
constexpr bool uniform_pairs(std::span<const u32> addresses, u32 active, u32 distance) {
  for (u32 lane = 0; lane < kWarpLanes; ++lane) {
    const u32 other = lane ^ distance;
    if (takes_part(lane, addresses.size(), active) && takes_part(other, addresses.size(), active) && addresses[lane] != addresses[other]) return false;
  }
  return true;
}

// Distinct values, in order of first appearance. A warp's access has at most 32 lanes of 4 words each.
template <class T> struct Distinct {
  T value[4 * kWarpLanes] = {};
  u32 count = 0;
  constexpr void add(T v) {
    for (u32 i = count; i-- > 0;)  // neighbours in a warp are neighbours in memory: the last one first
      if (value[i] == v) return;
    value[count++] = v;
  }
};

// Distinct blocks of `size` bytes that an access touches.
constexpr int distinct_blocks(std::span<const u64> addresses, int bytes, u32 active, u32 size) {
  Distinct<u64> blocks;
  for (std::size_t lane = 0; lane < addresses.size(); ++lane) {
    if (!takes_part(lane, addresses.size(), active)) continue;
    for (u64 block = addresses[lane] / size; block <= (addresses[lane] + u64(bytes) - 1) / size; ++block) blocks.add(block);
  }
  return int(blocks.count);
}

}  // namespace access_detail

enum class Direction { load, store };

// How many lanes are served together. A wavefront moves 32 words, so a warp's 8-byte access goes in two groups of 16
// lanes and its 16-byte access in four of 8 (CUDA C++ Programming Guide, "Shared Memory"). Where all lanes of a load
// agree in pairs, lane l with l^1 or all with l^2, half of the words are the same and groups are twice as large
// (forums.developer.nvidia.com/t/77228, and the counters). Every lane of a store brings its own words: no pairs there.
constexpr u32 shared_group_lanes(std::span<const u32> addresses, int bytes, u32 active = kEveryLane, Direction direction = Direction::load) {
  if (bytes <= 4) return kWarpLanes;
  const u32 lanes = kWarpLanes * 4 / u32(bytes);
  if (direction == Direction::store) return lanes;
  const bool pairs = access_detail::uniform_pairs(addresses, active, 1) || access_detail::uniform_pairs(addresses, active, 2);
  return pairs ? 2 * lanes : lanes;
}

// Wavefronts of one load or store. A group takes as many as the most crowded bank has distinct words to give; equal
// words are given once, to all who ask.
constexpr int shared_wavefronts(std::span<const u32> addresses, int bytes, u32 active = kEveryLane, Direction direction = Direction::load) {
  const u32 group = shared_group_lanes(addresses, bytes, active, direction), words = bytes <= 4 ? 1 : u32(bytes) / 4;
  int total = 0;
  for (u32 first = 0; first < kWarpLanes; first += group) {
    access_detail::Distinct<u32> distinct;
    for (u32 lane = first; lane < first + group; ++lane) {
      if (!access_detail::takes_part(lane, addresses.size(), active)) continue;
      for (u32 w = 0; w < words; ++w) distinct.add(addresses[lane] / 4 + w);
    }
    int crowd[kSharedBanks] = {}, most = 0;
    for (u32 i = 0; i < distinct.count; ++i) {
      const int in_bank = ++crowd[distinct.value[i] % kSharedBanks];
      most = in_bank > most ? in_bank : most;
    }
    total += most;
  }
  return total;
}

// Wavefronts of the same lanes if no two words shared a bank: one for each group that anybody is in. What an access
// takes beyond this are its bank conflicts.
constexpr int ideal_wavefronts(std::span<const u32> addresses, int bytes, u32 active = kEveryLane, Direction direction = Direction::load) {
  const u32 group = shared_group_lanes(addresses, bytes, active, direction);
  int total = 0;
  for (u32 first = 0; first < kWarpLanes; first += group) {
    bool any = false;
    for (u32 lane = first; lane < first + group; ++lane) any = any || access_detail::takes_part(lane, addresses.size(), active);
    total += any;
  }
  return total;
}

// Wavefronts of ldmatrix and stmatrix: rows[8 * i + r] is the address of row r (16 bytes) of the 8x8 matrix i, 8, 16 or
// 32 rows in all. Each matrix is a group.
constexpr int matrix_wavefronts(std::span<const u32> rows) {
  int total = 0;
  for (std::size_t first = 0; first < rows.size(); first += 8) total += shared_wavefronts(rows.subspan(first, 8), 16);
  return total;
}

// 32-byte sectors of one global access; L1 asks L2 for those it does not have.
constexpr int global_sectors(std::span<const u64> addresses, int bytes, u32 active = kEveryLane) {
  return access_detail::distinct_blocks(addresses, bytes, active, kSectorBytes);
}
// 128-byte lines of one global access.
constexpr int global_lines(std::span<const u64> addresses, int bytes, u32 active = kEveryLane) {
  return access_detail::distinct_blocks(addresses, bytes, active, kLineBytes);
}
// Sectors if the bytes stood side by side from a sector's boundary.
constexpr int ideal_sectors(u32 lanes, int bytes) { return int((lanes * u32(bytes) + kSectorBytes - 1) / kSectorBytes); }

// Sectors of `bytes` contiguous bytes: a row of a TMA box after clipping.
constexpr i64 row_sectors(u64 address, u64 bytes) {
  return bytes == 0 ? 0 : i64((address + bytes - 1) / kSectorBytes - address / kSectorBytes + 1);
}
// Sectors' worth of zeros that a TMA load delivers for the part of a box's row outside the tensor. They cross from L2 to
// the SM beside the row's sectors though memory is not read for them (the counters of clipped boxes).
constexpr i64 fill_sectors(u64 bytes) { return i64((bytes + kSectorBytes - 1) / kSectorBytes); }

}  // namespace foretile
