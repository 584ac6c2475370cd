// Runs a kernel written against the vocabulary (foretile/device/vocabulary/vocabulary.h) on the CPU, exactly, and reports
// what a GPU would hide. docs/emulator.md explains how it works and walks through finding a planted defect.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "foretile/device/vocabulary/site.h"
#include "foretile/launch.h"

namespace foretile::emulator {

class Timeline;

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
  std::uint64_t l2_bytes = 0;  // with trace: the sectors also go through an L2 cache of this size, in the order of the run
  bool dependent_launch = false;  // the first launch starts while a kernel before it still runs: its grid wait is checked
  std::uint32_t resident_blocks = 0;  // how many blocks run at once; 0: as many as the emulator can hold
  std::vector<Mutation> mutations;
  Timeline* timeline = nullptr;  // records waits and asynchronous operations; see below
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

// One kernel of a chain.
struct Launch {
  LaunchShape shape;
  std::function<void()> body;  // runs once for every thread
  std::vector<Region> regions;
  // Programmatic dependent launch: starts when every block of the launch before it has called grid_dependency_launch() or
  // returned, and waits for that launch in grid_dependency_wait(). Otherwise it starts when all before it are complete.
  bool dependent = false;
  // Names for the findings: of a byte of shared memory (offset from shared_base()), of a warp's role.
  std::function<std::string(std::uint32_t offset)> name_shared = {};
  std::function<std::string(std::uint32_t warp)> name_role = {};
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

// What the accesses of one call site cost. Requests are those of the source: a compiler may merge neighbouring narrow ones.
struct AccessSite {
  Site site{};
  std::string call;  // the vocabulary's name: "load_shared", "store_matrix_x4", "tma_load", ...
  int bytes = 0;     // of one lane's access; of a box
  u64 requests = 0;  // warp-wide accesses; boxes
  u64 lanes = 0;     // that took part, all requests together
  u64 wavefronts = 0, ideal_wavefronts = 0;      // shared memory, by lanes
  u64 sectors = 0, ideal_sectors = 0, lines = 0; // global memory; boxes have no lines
  u64 delivered = 0;  // boxes: sectors that reach SMs, with the zeros outside the tensor, once for each block it goes to
  // Requests whose every lane goes on where an earlier one at this site ended, within the same aligned 16 bytes, at a site
  // where the alignment does not depend on the warp or lane: a compiler may make one wider access of both.
  u64 mergeable = 0;
  u64 bank_conflicts() const { return wavefronts - ideal_wavefronts; }
};

// What an L2 cache that was empty at first would make of the sectors, in the order in which this run asked for them.
struct L2Traffic {
  u64 load_sectors = 0, load_hits = 0;    // a multicast asks once
  u64 store_sectors = 0, store_hits = 0;
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
  L2Traffic l2;                      // with Options::l2_bytes
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

// Launches of one stream, in order; dependent ones run together with the launch before them.
Report emulate(const std::vector<Launch>& chain, const Options& options = {});

// Writes a run as Chrome trace events, which ui.perfetto.dev and chrome://tracing show: a process for each block, a track
// for each of its warps with what it waits for, and tracks for the copies and multiplies in flight. A unit of time (they
// call it a microsecond) is one emulated step: one call of the vocabulary by one thread. It orders events and measures
// nothing else. Point Options::timeline to it for one run or several.
class Timeline {
 public:
  // Opens a file beside `path`, or what is no regular file itself, such as a pipe. Throws std::runtime_error that names the path, here and in finish().
  explicit Timeline(std::string path);
  ~Timeline();  // without finish() nothing is left behind
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  void finish();  // completes the file and moves it to `path`, behind its links

 private:
  friend class Picture;
  struct Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace foretile::emulator

namespace foretile {

// Runs kernel(args) once for every thread of `grid`. `memory`: what of the host's memory the kernel may touch.
template <class Kernel, class Arguments>
emulator::Report emulate(Kernel&& kernel, const LaunchShape& grid, const Arguments& args, const std::vector<emulator::Region>& memory,
                         const emulator::Options& options = {}) {
  return emulator::emulate(grid, [&] { kernel(args); }, memory, options);
}

}  // namespace foretile
