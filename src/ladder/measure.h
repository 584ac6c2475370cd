// The rungs on a GPU: compiled by NVRTC, checked against fp64, timed.
#pragma once
#include <memory>
#include <string>

#include "bench/gpu.h"
#include "ladder/rungs.h"
#include "runtime/compile.h"

namespace foretile::ladder {

// The generated translation unit of one variant.
std::string translation_unit(const Rung& rung, const Variant& v);

// Compiles for an architecture ("sm_90a"); needs NVRTC, no GPU. A spill is reported in the kernel, and no error here: what
// a compiler makes of a rung is part of the lesson.
Compilation compile(const Rung& rung, const Variant& v, std::string_view architecture);

struct Measured {
  double seconds = 0;      // a launch, median over the repeats; 0: not timed
  double spread = 0;       // (slowest - fastest) / median of the repeats
  int registers = 0;       // a thread; 0 for production rungs
  int blocks_on_sm = 0;    // as the driver says; 0 for production rungs
  double error = 0;        // of the rounding bound against fp64 (1: all of it), the worst element
  std::string wrong;       // empty, or what is wrong in words
  std::string configuration;  // of a production rung
};

// Runs one rung on operands of its own: random normal data amid guard bytes, every element of D compared with fp64. With
// `repeats` > 0 times that many arms of about `arm_seconds`, after one that is thrown away. Production rungs run through
// foretile::matmul(), with `configuration` (its text form) or the model's choice. Throws std::runtime_error for errors of
// the driver or the compiler.
class Bench {
 public:
  Bench();  // throws std::runtime_error where there is no usable GPU
  ~Bench();
  const bench::Gpu& gpu() const { return gpu_; }
  Measured run(const Rung& rung, const Variant* v, const Problem& p, int repeats, double arm_seconds, u64 seed = 1, const std::string& configuration = "");
  // The best candidate of cuBLASLt on the same product (fp32: true fp32, in the layout B[N,K]); 0 without cuBLASLt.
  double library_seconds(DType type, const Problem& p, double arm_seconds);

 private:
  struct Loaded;
  const Loaded& load(const Rung& rung, const Variant& v);
  bench::Gpu gpu_;
  struct Private;
  std::unique_ptr<Private> p_;
};

}  // namespace foretile::ladder
