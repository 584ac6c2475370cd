// The climb: forecast and measured times of all rungs, as numbers and as a picture.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ladder/lessons.h"
#include "ladder/rungs.h"
#include "model/model.h"

namespace foretile::ladder {

struct Climbed {
  const Rung* rung = nullptr;
  const Variant* variant = nullptr;  // null: a production rung
  std::string why_not;               // the machine or the sizes rule the rung out; empty: they do not
  double forecast = 0;               // s
  Bound bound = Bound::latency;
  std::string configuration;         // of a production rung: the model's pick, or one of a sweep
  Step step;                         // what the step to this rung moves; empty for rung 1
  double measured = 0, spread = 0;   // s; 0: not measured. spread: slowest less fastest of the repeats, over the median
  int registers = 0;                 // as compiled here; 0: not compiled here
  double error = 0;                  // of the rounding bound against fp64, where measured
};

// The forecast of one rung; `configuration` is set for production rungs. As rungs are measured, one launch after the other on the
// same operands: all forecasts here have Conditions::warm.
Climbed forecast_rung(const Machine& machine, const Rung& rung, const Variant* v, const Problem& p, const Conditions& conditions);

// The same of a production rung with one of its configurations.
Climbed forecast_production(const Machine& machine, const Rung& rung, const Configuration& configuration, const Problem& p, const Conditions& conditions);

// The tuning table: every tile of rungs 3 to 8 but the counter-examples, or of one of them, rung by rung. Rung 8 has the
// catalogue's configurations of its family that can compute the problem.
std::vector<Climbed> forecast_sweep(const Machine& machine, const Problem& p, const Conditions& conditions, const Rung* only = nullptr);

// Of one rung in a tuning table: what the forecast picks and what was fastest, null where nothing was measured.
struct Swept {
  const Climbed *first, *last;  // its lines: [first, last)
  const Climbed *pick, *fastest;
  double kept() const { return fastest->measured / pick->measured; }  // of the fastest's speed, where measured
};
std::vector<Swept> picks_of(const std::vector<Climbed>& table);

// The most FLOP/s of the machine for the rung's type at its boost clock.
double roof(const Machine& machine, DType type);

// An SVG: TFLOP/s of each rung on a logarithmic scale, forecast and measured, with lines at the roofs and, where given
// (0: not), at cuBLAS for fp32 and bf16.
std::string picture(const Machine& machine, const Problem& p, const std::vector<Climbed>& climb, double cublas_fp32_seconds, double cublas_half_seconds);

}  // namespace foretile::ladder
