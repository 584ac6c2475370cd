// Which shared-memory element a wgmma takes as element (row, k) of an operand, for every layout: an address map.
//
// Shared memory is filled with one base-8 digit of each element's own index, the other operand is an identity, so D
// shows the digit of the element that was read. Six digits give the index; no assumption about the layout goes in.
#pragma once
#include "container.h"
#include "probe.cuh"

namespace golden {

struct Layout {
  bool mn_major;
  int swizzle;       // code in the descriptor: 0 none, 1 = 128 B, 2 = 64 B, 3 = 32 B
  int start, lbo, sbo;  // bytes
};

constexpr int kMapRegion = 64 * 1024;

// map[row][k]: index of the element, in elements from the image's start; 0xFFFF where a digit was not one (a failure).
inline std::vector<uint16_t> address_map(Type type, bool operand_a, int n, const Layout& l) {
  const int size = kFormats[type].bytes, k_step = 32 / size, rows = operand_a ? 64 : n, identity = kMapRegion;
  const int mma_n = operand_a ? (k_step < 8 ? 8 : k_step) : n;
  std::vector<uint32_t> map(size_t(rows) * k_step, 0);
  bool bad = false;
  for (int digit = 0; digit < 6; ++digit) {
    Image image;
    for (int e = 0; e < kMapRegion / size; ++e) image.put(e * size, size, encode_integer(type, e >> 3 * digit & 7));
    for (int i = 0; i < k_step; ++i) image.put_k_major(identity, type, i, i, encode_integer(type, 1));
    const uint64_t probed = descriptor(l.start, l.lbo, l.sbo, l.swizzle), one = k_major(identity);
    const Step step = operand_a ? Step{probed, one} : Step{one, probed};
    const std::vector<uint32_t> d = matrix_of(type, mma_n, run_wgmma(type, mma_n, operand_a && l.mn_major, !operand_a && l.mn_major, image, {step}));
    for (int r = 0; r < rows; ++r)
      for (int k = 0; k < k_step; ++k) {
        const double v = value_of(type, operand_a ? d[size_t(r) * mma_n + k] : d[size_t(k) * mma_n + r]);
        if (!(v >= 0 && v < 8 && v == int(v))) bad = true;
        map[size_t(r) * k_step + k] |= uint32_t(v) << 3 * digit;
      }
  }
  std::vector<uint16_t> result;
  for (const uint32_t index : map) result.push_back(bad || index > 0xFFFF ? 0xFFFF : uint16_t(index));
  return result;
}

// Layouts as kernels use them, and each with other strides, so that the meaning of both strides shows.
inline std::vector<Layout> layouts_to_probe(Type type, int rows) {
  std::vector<Layout> list = {
      {false, 0, 0, 128, 256},                 // core matrices of 8 rows x 16 bytes: the two of a step side by side
      {false, 0, 0, 128 * (rows / 8), 128},    // all rows' first core matrices, then all second ones
      {false, 3, 0, 16, 256},   {false, 2, 0, 16, 512},  {false, 1, 0, 16, 1024},
      {false, 2, 32, 16, 512},  {false, 1, 32, 16, 1024}, {false, 1, 96, 16, 1024},  // advanced along K inside the row
      {false, 1, 0, 4096, 1536},               // a pitch that is no multiple of the pattern, an LBO that should not matter
      {false, 1, 8192 + 64, 16, 1024},
  };
  if (type == bf16 || type == fp16) {
    const int eights = rows / 8;
    list.push_back({true, 0, 0, 128, 256});
    list.push_back({true, 0, 0, 128 * eights, 128});
    list.push_back({true, 0, 0, 256, 128 * 5});
    for (const int code : {3, 2, 1}) {
      const int span = code == 3 ? 32 : code == 2 ? 64 : 128, atom = 8 * span, atoms = rows * 2 > span ? rows * 2 / span : 1;
      list.push_back({true, code, 0, 2 * atom, atom});          // the two groups of eight k of an atom side by side
      list.push_back({true, code, 0, atom, atom * atoms});      // all atoms along M or N, then the next eight k
      list.push_back({true, code, atom * 2, atom, atom * atoms});
    }
  }
  return list;
}

inline int dump_layouts(Writer& out) {
  int records = 0, bad = 0;
  // `brief`: only the layouts that start at the image's start.
  const auto dump = [&](Type type, bool operand_a, int n, bool brief = false) {
    for (const Layout& l : layouts_to_probe(type, operand_a ? 64 : n)) {
      if (brief && l.start != 0) continue;
      const auto map = address_map(type, operand_a, n, l);
      char fields[256];
      snprintf(fields, sizeof fields, "type=%s operand=%s n=%d major=%s swizzle=%d start=%d lbo=%d sbo=%d", kFormats[type].name, operand_a ? "A" : "B", n,
               l.mn_major ? "mn" : "k", l.swizzle, l.start, l.lbo, l.sbo);
      out.record("wgmma-map", fields, map.data(), map.size() * 2);
      ++records;
      if (map[0] == 0xFFFF) ++bad, std::printf("  no map: %s\n", fields);
    }
  };
  dump(bf16, true, 16);
  for (const int n : {8, 64}) dump(bf16, false, n);
  for (const int n : {16, 96, 256}) dump(bf16, false, n, true);
  dump(fp16, true, 16), dump(fp16, false, 64);
  for (const Type t : {tf32, e4m3, e5m2, int8}) dump(t, true, 32), dump(t, false, 64);
  std::printf("layouts: %d address maps, %d of them unreadable\n", records, bad);
  return bad;
}

inline int dump_fragments(Writer& out) {
  int bad = 0;
  for (const int n : {8, 64, 96, 256}) {
    const FragmentMap& map = fragments(bf16, n);
    const size_t threads = n > 64 ? 32 : 128;  // the other warps repeat the pattern 16 rows on; all are checked here
    for (const auto* of : {&map.row, &map.column}) {
      const std::string fields = "n=" + std::to_string(n) + " threads=" + std::to_string(threads) + (of == &map.row ? " of=row" : " of=column");
      out.record("fragment", fields, of->data(), threads * size_t(n / 2) * 2);
    }
    std::vector<bool> seen(size_t(64) * n);
    for (size_t i = 0; i < map.row.size(); ++i) seen.at(size_t(map.row[i]) * n + map.column[i]) = true;
    for (const bool s : seen) bad += !s;
    for (const Type other : {fp16, tf32, e4m3, e5m2, int8}) {
      const FragmentMap& m = fragments(other, n);
      if (m.row != map.row || m.column != map.column) ++bad, std::printf("  fragment map of %s n=%d differs from bf16's\n", kFormats[other].name, n);
    }
  }
  std::printf("fragments: %s\n", bad ? "NOT a permutation, or types differ" : "one map for all types");
  return bad;
}

}  // namespace golden
