// Runs a kernel written against the vocabulary on the CPU, exactly, and reports what a GPU would hide.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "foretile/device/vocabulary/site.h"
#include "plan/plan.h"

namespace foretile::emulator {

enum class Async { eager, lazy, random };                 // when asynchronous operations complete
enum class Scheduling { round_robin, random, priority };  // which thread runs next

struct Options {
  Async async = Async::lazy;
  Scheduling scheduling = Scheduling::round_robin;
  std::uint64_t seed = 0;
  bool races = true;  // vector clocks, proxies, uninitialised reads
  bool trace = false; // requests, wavefronts and sectors by call site
};

// What the launch may touch in global memory: anything else is out of bounds.
struct Region {
  const void* base = nullptr;
  std::size_t bytes = 0;
  bool writable = false;
  std::string name;  // "A", "bias", ... as the findings call it
};

struct Finding {
  std::string kind;  // stable identifier: "race", "deadlock", "out-of-bounds", ...
  std::string text;  // in words a kernel engineer understands
  Site site{};
};

struct Report {
  std::vector<Finding> findings;
  bool clean() const { return findings.empty(); }
  std::string text() const;
};

TensorMap encode_tensor_map(const TensorMapSpec& spec);

// Runs `body` once for every thread of the launch.
Report emulate(const LaunchShape& shape, const std::function<void()>& body, const std::vector<Region>& regions, const Options& options = {});

// A product by one of the library's kernels, on host memory. `operands` hold host pointers.
struct GemmRun {
  Operation operation;
  Configuration configuration;
  Problem problem;
  Operands operands;
  std::vector<Region> regions;
  int sms = 4;  // SMs of the machine that is pretended: bounds the blocks of a persistent launch
};
Report emulate_gemm(const GemmRun& run, const Options& options = {});

}  // namespace foretile::emulator
