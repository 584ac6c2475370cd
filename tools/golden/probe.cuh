// Host side of the wgmma probes: images of shared memory, launches, and D as a matrix.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "device.cuh"

namespace golden {

constexpr int kImageBytes = 160 * 1024;

struct Image {
  std::vector<uint8_t> bytes = std::vector<uint8_t>(kImageBytes, 0);
  void put(int offset, int size, uint32_t bits) {
    for (int i = 0; i < size; ++i) bytes.at(size_t(offset + i)) = uint8_t(bits >> 8 * i);
  }
  // Element k of row r of a tile that stands K-major in rows of 128 bytes with the 128-byte swizzle.
  void put_k_major(int tile, Type type, int r, int k, uint32_t bits) {
    const int size = kFormats[type].bytes, offset = tile + r * 128 + k * size;
    put(offset ^ (offset >> 3 & 0x70), size, bits);
  }
};

constexpr uint64_t descriptor(int start, int lbo, int sbo, int swizzle) {
  return uint64_t(start >> 4) | uint64_t(lbo >> 4) << 16 | uint64_t(sbo >> 4) << 32 | uint64_t(swizzle) << 62;
}
constexpr uint64_t k_major(int start) { return descriptor(start, 16, 1024, 1); }

struct Step { uint64_t a, b; };
using Registers = std::vector<uint32_t>;  // [thread][register]

using Launcher = void (*)(const uint32_t*, int, const uint64_t*, int, const uint32_t*, uint32_t*);
template <int Type, int N, int TA, int TB>
void launch_probe(const uint32_t* image, int bytes, const uint64_t* d, int steps, const uint32_t* init, uint32_t* out) {
  const auto kernel = wgmma_probe<Type, N, TA, TB>;
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes + 1024));
  kernel<<<1, 128, bytes + 1024>>>(image, bytes, d, steps, init, out);
  CUDA_CHECK(cudaGetLastError());
}

using Key = std::tuple<int, int, int, int>;
inline std::map<Key, Launcher>& launchers() {
  static std::map<Key, Launcher> m;
  return m;
}
template <int Type, int N> void add_launchers() {
  launchers()[{Type, N, 0, 0}] = launch_probe<Type, N, 0, 0>;
  if constexpr (Type == bf16 || Type == fp16) {
    launchers()[{Type, N, 1, 0}] = launch_probe<Type, N, 1, 0>;
    launchers()[{Type, N, 0, 1}] = launch_probe<Type, N, 0, 1>;
  }
}
template <int Type> void add_type() {
  add_launchers<Type, 8>(), add_launchers<Type, 16>(), add_launchers<Type, 32>(), add_launchers<Type, 64>();
  add_launchers<Type, 96>(), add_launchers<Type, 128>(), add_launchers<Type, 256>();
}

inline Registers run_wgmma(Type type, int n, int ta, int tb, const Image& image, const std::vector<Step>& steps, const Registers& init = {}) {
  static uint32_t *d_image, *d_init, *d_out;
  static uint64_t* d_steps;
  if (!d_image) {
    CUDA_CHECK(cudaMalloc(&d_image, kImageBytes));
    CUDA_CHECK(cudaMalloc(&d_init, 128 * 128 * 4));
    CUDA_CHECK(cudaMalloc(&d_out, 128 * 128 * 4));
    CUDA_CHECK(cudaMalloc(&d_steps, 64 * sizeof(Step)));
  }
  Registers out(size_t(128) * (n / 2));
  CUDA_CHECK(cudaMemcpy(d_image, image.bytes.data(), kImageBytes, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(d_steps, steps.data(), steps.size() * sizeof(Step), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemset(d_out, 0xEE, out.size() * 4));
  if (!init.empty()) CUDA_CHECK(cudaMemcpy(d_init, init.data(), out.size() * 4, cudaMemcpyHostToDevice));
  launchers().at({type, n, ta, tb})(d_image, kImageBytes, d_steps, int(steps.size()), init.empty() ? nullptr : d_init, d_out);
  CUDA_CHECK(cudaMemcpy(out.data(), d_out, out.size() * 4, cudaMemcpyDeviceToHost));
  return out;
}

inline double value_of(Type type, uint32_t bits) {
  if (type == int8) return double(int32_t(bits));
  float f;
  memcpy(&f, &bits, 4);
  return double(f);
}

// Where each register's element stands in D, as the chip has it: (row, column) by (thread, register). Found with
// A[m][0] = digit of m, B[n][0] = 1 and the other way round; digits of base 8 are exact in every type.
struct FragmentMap {
  int n = 0;
  std::vector<uint16_t> row, column;
};
inline FragmentMap measure_fragments(Type type, int n) {
  FragmentMap map{n, std::vector<uint16_t>(size_t(64) * n), std::vector<uint16_t>(size_t(64) * n)};
  for (int digit = 0; digit < 3; ++digit) {
    Image rows, columns;
    for (int m = 0; m < 64; ++m) rows.put_k_major(0, type, m, 0, encode_integer(type, m >> 3 * digit & 7)), columns.put_k_major(0, type, m, 0, encode_integer(type, 1));
    for (int j = 0; j < n; ++j) rows.put_k_major(8192, type, j, 0, encode_integer(type, 1)), columns.put_k_major(8192, type, j, 0, encode_integer(type, j >> 3 * digit & 7));
    const Step step{k_major(0), k_major(8192)};
    const Registers r = run_wgmma(type, n, 0, 0, rows, {step}), c = run_wgmma(type, n, 0, 0, columns, {step});
    for (size_t i = 0; i < r.size(); ++i) map.row[i] |= uint16_t(int(value_of(type, r[i])) << 3 * digit), map.column[i] |= uint16_t(int(value_of(type, c[i])) << 3 * digit);
  }
  return map;
}
inline const FragmentMap& fragments(Type type, int n) {
  static std::map<std::pair<int, int>, FragmentMap> cache;
  auto it = cache.find({type, n});
  if (it == cache.end()) it = cache.emplace(std::pair<int, int>{type, n}, measure_fragments(type, n)).first;
  return it->second;
}

// D[64][n] as bits, row-major, through the measured fragment map.
inline std::vector<uint32_t> matrix_of(Type type, int n, const Registers& registers) {
  const FragmentMap& map = fragments(type, n);
  std::vector<uint32_t> d(registers.size(), 0xEEEEEEEE);
  for (size_t i = 0; i < registers.size(); ++i) d.at(size_t(map.row[i]) * n + map.column[i]) = registers[i];
  return d;
}

}  // namespace golden
