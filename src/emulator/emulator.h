// Runs a kernel written against the vocabulary on the CPU, exactly, and reports what a GPU would hide.
// docs/emulator.md explains how it works and walks through finding a planted defect.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "emulator/trace.h"
#include "foretile/device/vocabulary/site.h"
#include "plan/plan.h"

namespace foretile::emulator {

enum class Async { eager, lazy, random };                 // when asynchronous operations complete
enum class Scheduling { round_robin, random, priority };  // which thread runs next

// Changes one synchronising call while the kernel runs, with no recompiling: does the emulator object?
struct Mutation {
  enum class Kind {
    drop,  // the call does nothing
    more,  // its count (arrivals, pending groups) is one more; threads: 32, bytes: 16, registers: 8 more; a parity is flipped
    less,  // the same amounts less; a parity is flipped
  };
  std::string file;  // the end of the site's file name
  int line = 0;
  Kind kind = Kind::drop;
};

struct Options {
  Async async = Async::lazy;
  Scheduling scheduling = Scheduling::round_robin;
  std::uint64_t seed = 0;
  bool races = true;   // vector clocks, proxies, uninitialised reads
  bool trace = false;  // requests, wavefronts and sectors by call site
  bool dependent_launch = false;  // launched while the kernel before it still runs: the grid wait is checked
  std::uint32_t resident_blocks = 0;  // how many blocks run at once; 0: as many as the emulator can hold
  std::vector<Mutation> mutations;
  // Names for the findings: of a byte of shared memory (offset from shared_base()), of a warp's role.
  std::function<std::string(std::uint32_t offset)> name_shared;
  std::function<std::string(std::uint32_t warp)> name_role;
};

// What the launch may touch in global memory: anything else is out of bounds.
struct Region {
  const void* base = nullptr;
  std::size_t bytes = 0;
  bool writable = false;
  std::string name;  // "A", "bias", ... as the findings call it
  // Complete before any kernel of the chain was launched: may be read before the grid wait (dependent launch).
  bool ready = false;
};

struct Finding {
  std::string kind;  // stable identifier: "race", "deadlock", "out-of-bounds", ... (docs/emulator.md lists them)
  std::string text;  // in words a kernel engineer understands
  Site site{};
  std::uint64_t count = 1;  // how often the same finding came up
};

// A vocabulary call site that was executed, so that a sweep can mutate each in turn.
struct CallSite {
  Site site{};
  std::string call;      // the vocabulary's name of it
  bool counted = false;  // whether `more` and `less` change anything
  std::uint64_t executions = 0;
};

struct Counters {
  std::uint64_t switches = 0;    // between threads
  std::uint64_t wgmmas = 0;      // warpgroup-wide multiplies
  std::uint64_t tma_loads = 0, tma_load_bytes = 0;    // boxes; bytes landed, each destination block counted
  std::uint64_t tma_stores = 0, tma_store_bytes = 0;  // boxes; bytes written after clipping
};

struct Report {
  std::vector<Finding> findings;
  std::vector<CallSite> calls;  // synchronising calls, in order of first execution
  Counters counters;
  std::vector<AccessSite> accesses;  // with Options::trace: what accesses cost, by call site
  std::uint64_t seed = 0;
  bool clean() const { return findings.empty(); }
  bool has(const std::string& kind) const;
  std::string text() const;
};

// Throws std::invalid_argument where cuTensorMapEncodeTiled would refuse.
TensorMap encode_tensor_map(const TensorMapSpec& spec);

// Runs `body` once for every thread of the launch. Throws std::invalid_argument for an impossible launch; whatever
// the kernel does wrong is in the report. Several host threads may call it at once.
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
// Throws std::invalid_argument with the reason where the configuration cannot compute it, and std::runtime_error where
// the kernel is not built in and cannot be compiled either.
Report emulate_gemm(const GemmRun& run, const Options& options = {});

}  // namespace foretile::emulator
