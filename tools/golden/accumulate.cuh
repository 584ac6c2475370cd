// How wgmma accumulates: bits kept, order, and whether N or a swap of the operands changes a result's bits.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>

#include "container.h"
#include "probe.cuh"

namespace golden {

constexpr int kTileB = 8192;  // A: 64 rows x 128 bytes at 0; B behind it
inline int k_step(Type t) { return 32 / kFormats[t].bytes; }
inline std::vector<Step> k_steps(int steps) {
  std::vector<Step> list;
  for (int s = 0; s < steps; ++s) list.push_back({k_major(32 * s), k_major(kTileB + 32 * s)});
  return list;
}

// A large term 2^(2 top) and small ones 2^(2 top - gap): what is left of the small ones in the sum, by gap.
struct GapProbe {
  const char* name;
  int large;            // k of the large product, -1: it stands in the accumulator
  int small, count;     // first k and number of equal small products
  bool negative;        // the small products' sign
};
inline void dump_gaps(Writer& out) {
  std::printf("%-28s", "bits of the large term kept");
  for (int t = 0; t < int8; ++t) std::printf("%8s", kFormats[t].name);
  std::printf("\n");
  for (const GapProbe& p : {GapProbe{"next", 0, 1, 1, false}, GapProbe{"next-negative", 0, 1, 1, true}, GapProbe{"far", 0, -1, 1, false}, GapProbe{"before", -2, 0, 1, false},
                            GapProbe{"many", 0, 1, 7, false}, GapProbe{"accumulator", -1, 0, 1, false}, GapProbe{"accumulator-negative", -1, 0, 1, true},
                            GapProbe{"accumulator-many", -1, 0, 8, false}}) {
    std::printf("%-28s", p.name);
    for (int ti = 0; ti < int8; ++ti) {
      const Type type = Type(ti);
      const Format f = kFormats[type];
      const int range = f.top - f.bottom, k = k_step(type), n = 32;
      Image image;
      const int large = p.large == -2 ? k - 1 : p.large, small = p.small == -1 ? k - 1 : p.small;
      for (int m = 0; m < 64; ++m) {
        if (large >= 0) image.put_k_major(0, type, m, large, encode(type, false, f.top, 0));
        for (int i = 0; i < p.count; ++i) image.put_k_major(0, type, m, small + i, encode(type, p.negative, f.top - std::min(m, range), 0));
      }
      for (int j = 0; j < n; ++j) {
        if (large >= 0) image.put_k_major(kTileB, type, j, large, encode(type, false, f.top, 0));
        for (int i = 0; i < p.count; ++i) image.put_k_major(kTileB, type, j, small + i, encode(type, false, f.top - std::min(j, range), 0));
      }
      const float big = float(std::ldexp(1.0, 2 * f.top));
      Registers init;
      if (p.large == -1) {
        uint32_t bits;
        memcpy(&bits, &big, 4);
        init.assign(size_t(64) * n, bits);
      }
      const std::vector<uint32_t> d = matrix_of(type, n, run_wgmma(type, n, 0, 0, image, {{k_major(0), k_major(kTileB)}}, init));
      std::vector<uint32_t> by_gap;
      int kept = -1;
      for (int gap = 0; gap <= 2 * range && gap <= 50; ++gap) {
        const int m = std::min({gap, range, 60}), j = gap - m;
        if (j >= n) break;
        by_gap.push_back(d[size_t(m) * n + j]);
        float sum;
        memcpy(&sum, &by_gap.back(), 4);
        if (sum != big) kept = gap;
      }
      out.record("gap", std::string("probe=") + p.name + " type=" + f.name + " large=" + std::to_string(large) + " small=" + std::to_string(small) +
                            " count=" + std::to_string(p.count) + " negative=" + std::to_string(p.negative), by_gap.data(), by_gap.size() * 4);
      std::printf("%8d", kept);
    }
    std::printf("\n");
  }
  std::printf("  (largest gap in bits between the large term and the small ones at which the sum still moved; IEEE fp32 keeps 23,\n   and 24 of a negative small term)\n");
}

// Element (row, k) of a random operand.
inline uint32_t element(Type type, DataSet set, int row, int k, uint32_t seed) { return random_element(type, set, uint32_t(row * 4096 + k), seed); }
// Random A and B of `steps` K steps. `order` maps the position inside a step to the k whose element stands there.
inline Image random_image(Type type, DataSet set, int n, int steps, uint32_t seed_a, uint32_t seed_b, const std::vector<int>& order = {}) {
  Image image;
  const int step = k_step(type);
  for (int k = 0; k < steps * step; ++k) {
    const int from = order.empty() ? k : k / step * step + order[size_t(k % step)];
    for (int m = 0; m < 64; ++m) image.put_k_major(0, type, m, k, element(type, set, m, from, seed_a));
    for (int j = 0; j < n; ++j) image.put_k_major(kTileB, type, j, k, element(type, set, j, from, seed_b));
  }
  return image;
}
inline std::vector<uint32_t> random_product(Type type, DataSet set, int n, int steps, uint32_t seed_a, uint32_t seed_b, const std::vector<int>& order = {}) {
  return matrix_of(type, n, run_wgmma(type, n, 0, 0, random_image(type, set, n, steps, seed_a, seed_b, order), k_steps(steps)));
}

inline void dump_random(Writer& out) {
  for (int t = 0; t <= int8; ++t)
    for (const DataSet set : {narrow, wide})
      for (const int steps : {1, 2, 4}) {
        if (t == int8 && set == wide) continue;
        const auto d = random_product(Type(t), set, 8, steps, 1, 2);
        out.record("random", std::string("type=") + kFormats[t].name + " set=" + (set == narrow ? "narrow" : "wide") + " n=8 steps=" + std::to_string(steps) + " seed_a=1 seed_b=2", d.data(), d.size() * 4);
      }
  // A non-zero accumulator: values of the wide set, as fp32.
  for (int t = 0; t < int8; ++t) {
    const Type type = Type(t);
    Registers init(64 * 8);
    const FragmentMap& map = fragments(type, 8);
    for (size_t i = 0; i < init.size(); ++i) init[i] = random_accumulator(uint32_t(map.row[i] * 8 + map.column[i]));
    const auto d = matrix_of(type, 8, run_wgmma(type, 8, 0, 0, random_image(type, wide, 8, 1, 1, 2), k_steps(1), init));
    out.record("random-accumulate", std::string("type=") + kFormats[t].name + " set=wide n=8 steps=1 seed_a=1 seed_b=2", d.data(), d.size() * 4);
  }
}

inline size_t differing(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  size_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += a[i] != b[i];
  return count;
}

// Each fact as a count of results whose bits differ, out of how many; also kept as records.
inline void dump_invariance(Writer& out) {
  const auto note = [&](const char* question, Type type, size_t differ, size_t of) {
    const uint32_t counts[2] = {uint32_t(differ), uint32_t(of)};
    out.record("invariance", std::string("question=") + question + " type=" + kFormats[type].name, counts, 8);
    return differ;
  };
  std::printf("%-28s", "results whose bits change");
  for (int t = 0; t <= int8; ++t) std::printf("%16s", kFormats[t].name);
  std::printf("\n");
  const auto row = [&](const char* question, auto&& count) {
    std::printf("%-28s", question);
    for (int t = 0; t <= int8; ++t) {
      size_t differ = 0, of = 0;
      for (const DataSet set : {narrow, wide}) count(Type(t), set, differ, of);
      note(question, Type(t), differ, of);
      std::printf("%8zu of %5zu", differ, of);
    }
    std::printf("\n");
  };
  row("swap-operands", [](Type t, DataSet set, size_t& differ, size_t& of) {
    for (uint32_t seed = 10; seed < 14; ++seed) {
      const auto d = random_product(t, set, 64, 4, seed, seed + 50), e = random_product(t, set, 64, 4, seed + 50, seed);
      for (int m = 0; m < 64; ++m)
        for (int j = 0; j < 64; ++j) differ += d[size_t(m * 64 + j)] != e[size_t(j * 64 + m)], ++of;
    }
  });
  row("width-n", [](Type t, DataSet set, size_t& differ, size_t& of) {
    const auto reference = random_product(t, set, 256, 4, 20, 21);
    for (const int n : {8, 16, 32, 64, 96, 128}) {
      const auto d = random_product(t, set, n, 4, 20, 21);
      for (int m = 0; m < 64; ++m)
        for (int j = 0; j < n; ++j) differ += d[size_t(m * n + j)] != reference[size_t(m * 256 + j)], ++of;
    }
  });
  row("same-again", [](Type t, DataSet set, size_t& differ, size_t& of) {
    const auto d = random_product(t, set, 256, 4, 22, 23);
    for (int i = 0; i < 8; ++i) differ += differing(d, random_product(t, set, 256, 4, 22, 23)), of += d.size();
  });
  // Orders of K inside one wgmma. Where a permutation inside a group changes nothing, the group is summed as one.
  for (const auto& [name, block] : {std::pair<const char*, int>{"reverse-within-2", 2}, {"reverse-within-4", 4}, {"reverse-within-8", 8}, {"reverse-within-16", 16}, {"reverse-within-32", 32}})
    row(name, [block = block](Type t, DataSet set, size_t& differ, size_t& of) {
      const int k = k_step(t);
      if (block > k) return;
      std::vector<int> order;
      for (int i = 0; i < k; ++i) order.push_back(i / block * block + block - 1 - i % block);
      for (uint32_t seed = 30; seed < 34; ++seed) {
        const auto d = random_product(t, set, 64, 1, seed, seed + 50);
        differ += differing(d, random_product(t, set, 64, 1, seed, seed + 50, order)), of += d.size();
      }
    });
  row("swap-halves", [](Type t, DataSet set, size_t& differ, size_t& of) {
    const int k = k_step(t);
    std::vector<int> order;
    for (int i = 0; i < k; ++i) order.push_back((i + k / 2) % k);
    for (uint32_t seed = 30; seed < 34; ++seed) {
      const auto d = random_product(t, set, 64, 1, seed, seed + 50);
      differ += differing(d, random_product(t, set, 64, 1, seed, seed + 50, order)), of += d.size();
    }
  });
}

}  // namespace golden
