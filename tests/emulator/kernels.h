// Helpers for tests that run small kernels of their own.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "foretile/emulator.h"
#include "foretile/device/layout/descriptor.h"
#include "foretile/device/layout/fragment.h"
#include "foretile/device/vocabulary/vocabulary.h"

namespace foretile::emulator_tests {

using namespace emulator;

inline LaunchShape one_block(u32 threads, u32 shared_bytes = 4096) { return {.blocks = 1, .cluster = 1, .threads = threads, .shared_bytes = shared_bytes}; }

inline std::vector<Options> every_mode(u64 seed = 5) {
  std::vector<Options> list;
  for (Async a : {Async::eager, Async::lazy, Async::random})
    for (Scheduling s : {Scheduling::round_robin, Scheduling::random, Scheduling::priority}) list.push_back({.async = a, .scheduling = s, .seed = seed});
  return list;
}

inline std::string mode_name(const Options& o) { return "async " + std::to_string(int(o.async)) + ", schedule " + std::to_string(int(o.scheduling)); }

inline Mbarrier barrier_at(u32 offset) { return {shared_base() + offset}; }

// Barriers at the given offsets, initialised by thread 0 and published to the block.
inline void init_barriers(std::initializer_list<std::pair<u32, u32>> offset_and_arrivals) {
  if (thread_index() == 0) {
    for (const auto& [offset, arrivals] : offset_and_arrivals) mbarrier_init(barrier_at(offset), arrivals);
    fence_mbarrier_init();
  }
  sync_block();
}

// A dense two-dimensional fp32 matrix as a tensor map with the given box.
inline TensorMap map_of(const void* base, DType type, u64 columns, u64 rows, u32 box_columns, u32 box_rows, Swizzle swizzle = Swizzle::none) {
  TensorMapSpec spec;
  spec.base = base;
  spec.type = type;
  spec.extent[0] = columns, spec.extent[1] = rows;
  spec.stride_bytes[0] = columns * u64(size_of(type));
  spec.stride_bytes[1] = spec.stride_bytes[0] * rows;
  spec.box[0] = box_columns, spec.box[1] = box_rows;
  spec.swizzle = swizzle;
  return encode_tensor_map(spec);
}

// A vector whose data stands on 128 bytes.
template <class T> struct Aligned {
  std::vector<T> storage;
  T* data;
  std::size_t count;
  explicit Aligned(std::size_t n, T value = {}) : storage(n + 128 / sizeof(T), value), count(n) {
    data = reinterpret_cast<T*>((reinterpret_cast<std::uintptr_t>(storage.data()) + 127) / 128 * 128);
  }
  T& operator[](std::size_t i) { return data[i]; }
  Region region(const std::string& name, bool writable = false) const { return {data, count * sizeof(T), writable, name}; }
};

}  // namespace foretile::emulator_tests
