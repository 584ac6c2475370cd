// Which byte each lane of a warp asks for: the access patterns of the probes with a table (device/probes). An offset
// of -1: the lane takes no part.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "foretile/device/layout/swizzle.h"
#include "foretile/device/types.h"

namespace foretile::counters {

struct Pattern {
  std::string name;
  std::string shows;
  std::function<i32(i32 lane, i32 bytes)> offset;  // bytes: of one lane's access
};

// The same in every run: an integer hash (the finaliser of MurmurHash3).
inline u32 scramble(u32 x) {
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}

// Offsets of all 32 lanes; empty where some lane's address would not be a multiple of the access.
inline std::vector<i32> offsets_of(const Pattern& p, i32 bytes) {
  std::vector<i32> all;
  for (i32 lane = 0; lane < 32; ++lane) {
    const i32 offset = p.offset(lane, bytes);
    if (offset >= 0 && offset % bytes) return {};
    all.push_back(offset);
  }
  return all;
}

inline std::vector<Pattern> shared_patterns() {
  std::vector<Pattern> all = {
      {"unit", "neighbouring lanes, neighbouring elements: one wavefront for each 128 bytes", [](i32 l, i32 b) { return l * b; }},
      {"reversed", "the order of lanes does not matter", [](i32 l, i32 b) { return (31 - l) * b; }},
      {"permuted", "any permutation of 32 words costs what the row itself does", [](i32 l, i32 b) { return l * 5 % 32 * b; }},
      {"broadcast", "one element for all lanes", [](i32, i32) { return 64; }},
      {"pairs", "lane l and l^1 ask for the same element", [](i32 l, i32 b) { return l / 2 * b; }},
      {"pairs-2", "lane l and l^2 ask for the same element", [](i32 l, i32 b) { return (l / 4 * 2 + l % 2) * b; }},
      {"pairs-4", "lane l and l^4 ask for the same element", [](i32 l, i32 b) { return (l / 8 * 4 + l % 4) * b; }},
      {"pairs-8", "lane l and l^8 ask for the same element", [](i32 l, i32 b) { return (l / 16 * 8 + l % 8) * b; }},
      {"pairs-16", "lane l and l^16 ask for the same element", [](i32 l, i32 b) { return l % 16 * b; }},
      {"fours", "four neighbours ask for the same element", [](i32 l, i32 b) { return l / 4 * b; }},
      {"pairs-lower-half", "pairs in one half of the warp, a plain row in the other", [](i32 l, i32 b) { return l < 16 ? l / 2 * b : (l - 8) * b; }},
      {"pairs-lower-quarter", "pairs in one quarter of the warp alone", [](i32 l, i32 b) { return l < 8 ? l / 2 * b : l * b; }},
      {"pairs-mixed", "pairs l^1 in one half, l^2 in the other", [](i32 l, i32 b) { return l < 16 ? l / 2 * b : (l / 4 * 2 + l % 2) * b; }},
      {"pairs-strided", "pairs, every other element", [](i32 l, i32 b) { return l / 2 * 2 * b; }},
      {"pairs-one-bank", "pairs, all of them in one bank", [](i32 l, i32) { return l / 2 * 128; }},
      {"all-but-one", "every pair agrees but the last", [](i32 l, i32 b) { return l == 31 ? 256 : l / 2 * b; }},
      {"even-lanes", "odd lanes take no part: no neighbour disagrees", [](i32 l, i32 b) { return l % 2 ? -1 : l * b; }},
      {"even-lanes-dense", "odd lanes take no part, half the bytes", [](i32 l, i32 b) { return l % 2 ? -1 : l / 2 * b; }},
      {"every-fourth-lane", "one lane in four takes part", [](i32 l, i32 b) { return l % 4 ? -1 : l * b; }},
      {"lower-half", "lanes 0 to 15 take part", [](i32 l, i32 b) { return l < 16 ? l * b : -1; }},
      {"upper-half", "lanes 16 to 31 take part", [](i32 l, i32 b) { return l < 16 ? -1 : l * b; }},
      {"lower-quarter", "lanes 0 to 7 take part", [](i32 l, i32 b) { return l < 8 ? l * b : -1; }},
      {"one-lane", "lane 5 alone", [](i32 l, i32 b) { return l == 5 ? l * b : -1; }},
      {"two-rows", "two rows of 16 lanes at a pitch of 132 words: a fragment of the simt kernel", [](i32 l, i32 b) { return l / 16 * 528 + l % 16 * b; }},
      {"accumulator-128", "a wgmma accumulator's rows at a pitch of 128 words", [](i32 l, i32 b) { return l / 4 * 512 + l % 4 * b; }},
      {"accumulator-136", "the same at a pitch of 136 words", [](i32 l, i32 b) { return l / 4 * 544 + l % 4 * b; }},
  };
  for (i32 pitch : {24, 28, 31, 32, 33, 34, 36, 40})
    all.push_back({"column-" + std::to_string(pitch), "a column at a pitch of " + std::to_string(pitch) + " words", [pitch](i32 l, i32) { return l * pitch * 4; }});
  for (u32 seed = 1; seed <= 5; ++seed)
    all.push_back({"random-" + std::to_string(seed), "anywhere in 4 KiB", [seed](i32 l, i32 b) { return i32(scramble(seed * 32 + u32(l)) % u32(4096 / b)) * b; }});
  for (u32 seed = 6; seed <= 8; ++seed)
    all.push_back({"random-" + std::to_string(seed), "anywhere in 512 bytes: some words are shared", [seed](i32 l, i32 b) { return i32(scramble(seed * 32 + u32(l)) % u32(512 / b)) * b; }});
  return all;
}

// 16-bit elements down a column: pitches in elements.
inline std::vector<Pattern> half_patterns() {
  std::vector<Pattern> all = {
      {"unit", "two lanes a word", [](i32 l, i32 b) { return l * b; }},
      {"broadcast", "one element for all lanes", [](i32, i32) { return 64; }},
      {"other-halves", "lane l and l^1 ask for the two halves of a word, the far one first", [](i32 l, i32 b) { return (l ^ 1) * b; }},
  };
  for (i32 pitch : {24, 28, 32, 33, 34, 36, 40, 48, 64, 66, 72})
    all.push_back({"column-" + std::to_string(pitch), "a column at a pitch of " + std::to_string(pitch) + " halves", [pitch](i32 l, i32) { return l * pitch * 2; }});
  return all;
}

// ldmatrix and stmatrix: where the row of lane l begins. Four 8x8 matrices, two down and two across.
inline std::vector<Pattern> matrix_patterns() {
  std::vector<Pattern> all = {
      {"swizzle-128", "rows of 128 bytes in the 128-byte swizzle", [](i32 l, i32) { return i32(swizzle_address(u32(l % 16 * 128 + l / 16 * 16), Swizzle::bytes128)); }},
      {"swizzle-64", "rows of 64 bytes in the 64-byte swizzle", [](i32 l, i32) { return i32(swizzle_address(u32(l % 16 * 64 + l / 16 * 16), Swizzle::bytes64)); }},
      {"contiguous", "all rows one after the other", [](i32 l, i32) { return l * 16; }},
      {"one-row", "every row the same", [](i32, i32) { return 0; }},
      {"row-pairs", "rows 2i and 2i+1 the same, at a pitch of 128 bytes", [](i32 l, i32) { return l / 2 * 128; }},
  };
  for (i32 pitch : {64, 80, 96, 112, 128, 144, 160, 192, 256, 272})
    all.push_back({"pitch-" + std::to_string(pitch), "rows at a pitch of " + std::to_string(pitch) + " bytes", [pitch](i32 l, i32) { return l % 16 * pitch + l / 16 * 16; }});
  return all;
}

// Global memory. Offsets stay below kGlobalSpan.
inline constexpr i32 kGlobalSpan = 16384;
inline std::vector<Pattern> global_patterns() {
  std::vector<Pattern> all = {
      {"unit", "coalesced: as many sectors as the bytes fill", [](i32 l, i32 b) { return l * b; }},
      {"reversed", "the order of lanes does not matter", [](i32 l, i32 b) { return (31 - l) * b; }},
      {"one-off", "one element off the boundary: one sector more", [](i32 l, i32 b) { return (l + 1) * b; }},
      {"half-line-off", "64 bytes off: as many sectors, one line more", [](i32 l, i32 b) { return l * b + 64; }},
      {"strided-2", "every other element: twice the sectors", [](i32 l, i32 b) { return l * 2 * b; }},
      {"column", "a row of 512 bytes apart: one sector a lane", [](i32 l, i32) { return l * 512; }},
      {"sector-each", "neighbouring sectors, one a lane", [](i32 l, i32) { return l * 32; }},
      {"broadcast", "one element for all lanes", [](i32, i32) { return 256; }},
      {"pairs", "two lanes an element", [](i32 l, i32 b) { return l / 2 * b; }},
      {"eight-elements", "the same eight elements for each quarter of the warp", [](i32 l, i32 b) { return l % 8 * b; }},
      {"sixteen-elements", "the same sixteen elements for each half of the warp", [](i32 l, i32 b) { return l % 16 * b; }},
      {"two-rows", "16 lanes a row, rows 512 bytes apart", [](i32 l, i32 b) { return l / 16 * 512 + l % 16 * b; }},
      {"lower-half", "lanes 0 to 15 take part", [](i32 l, i32 b) { return l < 16 ? l * b : -1; }},
      {"even-lanes", "odd lanes take no part", [](i32 l, i32 b) { return l % 2 ? -1 : l * b; }},
      {"one-lane", "lane 5 alone", [](i32 l, i32 b) { return l == 5 ? l * b : -1; }},
  };
  for (u32 seed = 1; seed <= 2; ++seed)
    all.push_back({"gather-" + std::to_string(seed), "anywhere in 16 KiB", [seed](i32 l, i32 b) { return i32(scramble(seed * 32 + u32(l)) % u32(kGlobalSpan / b)) * b; }});
  return all;
}

}  // namespace foretile::counters
