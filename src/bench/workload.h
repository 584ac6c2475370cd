// One product laid out for timing: operands on the GPU with rotating weights, and its launches by either library.
#pragma once
#include <memory>
#include <vector>

#include "bench/cublaslt.h"
#include "bench/gpu.h"
#include "bench/nvml.h"
#include "bench/suites.h"
#include "foretile/foretile.h"

namespace foretile::bench {

// Device memory for the largest of a list of shapes.
class Arena {
 public:
  // `rotate`: the weights stand there often enough to leave the L2 cache between two uses; else once.
  Arena(const Gpu& gpu, const std::vector<Shape>& shapes, DType in, DType out, bool baseline, bool rotate = true);
  i64 copies(const Shape& s, DType in) const;  // of the weights: more than 512 MB together, at least one

  const Gpu& gpu;
  const bool rotate;
  Buffer a, b, d, baseline_d, workspace, sum, error, verdict;
};

// Whether D in the arena is `operation`'s product of A and `weights`, on rows spread over M (which of them: `salt`): empty,
// or what is wrong. Dense operands, no others. `bound_used` as in VerifyResult::worst.
std::string judge_sampled(const Arena& arena, const Shape& shape, const Operation& operation, const void* weights, i64 salt, double& bound_used);

class Workload {
 public:
  Workload(Arena& arena, const Shape& shape, DType in, DType out, CallMode mode = {});

  const Shape& shape() const { return shape_; }
  const CallMode& mode() const { return mode_; }
  const Operation& operation() const { return operation_; }  // with alignment classes
  Problem problem() const { return {shape_.m, shape_.n, shape_.k, 1}; }
  double flop() const { return flop_count(problem()); }
  i64 copies() const { return copies_; }
  void* weights(i64 copy) const;
  i64 weight_bytes() const { return shape_.n * shape_.k * size_of(operation_.b); }  // of one copy

  // One product with weights `copy % copies()`; null configuration: the library's choice.
  Matmul call(i64 copy, const Configuration* configuration) const;
  void run(i64 copy, const Configuration* configuration) const;  // throws on an error status
  Configuration chosen() const;

  void poison() const;  // both outputs become NaN
  // Whether D, as a launch with weights `copy` left it, is right: sampled rows against fp64, and with `other` every
  // element against the baseline's. Empty, or what is wrong. `bound_used` as in VerifyResult::worst.
  std::string judge(i64 copy, bool other, double& bound_used) const;

 private:
  Arena& arena_;
  Shape shape_;
  CallMode mode_;
  Operation operation_;
  i64 copies_;
};

// Those asked for that can compute `operation` at w's sizes; one null pointer, the library's choice, where none was. Throws
// std::invalid_argument where none of them can.
std::vector<const Configuration*> configurations_for(const std::vector<Configuration>& asked, const Operation& operation, const Workload& w);

// A graph of launches that is replayed for timing.
struct Arm {
  std::unique_ptr<GraphReplay> graph;
  i64 launches = 0;
};
struct ArmTime {
  double microseconds = 0;  // a launch
  double mhz = 0;                   // the SMs' mean clock over all of it, from their counters
  double watts = 0, joules = 0;     // joules a launch; 0 where time_arm() cannot tell
};
// `launch(i)` puts launch i on the stream; called once outside the graph first, for every i.
template <class F> Arm make_arm(const Gpu& gpu, i64 launches, F&& launch) {
  for (i64 i = 0; i < launches; ++i) launch(i);
  gpu.synchronize();
  Arm arm;
  arm.launches = launches;
  arm.graph = std::make_unique<GraphReplay>(gpu, [&] {
    for (i64 i = 0; i < launches; ++i) launch(i);
  });
  return arm;
}
// Launches in a graph: about 10 ms, and every weight matrix at least once.
i64 launches_for(const Workload& w, double microseconds);
// What results are dated and signed with.
std::string today();
std::string driver_text(const Gpu& gpu, const Nvml& nvml);
// Replays once, then for about `uncounted` seconds, then, the GPU never idle between the two, for about `seconds` (at least once)
// that count; `nvml` null: does not read the power. Joules only where all of it counts.
ArmTime time_arm(const Gpu& gpu, const Arm& arm, double seconds, const Nvml* nvml, double uncounted = 0);

}  // namespace foretile::bench
