// Measured rows as JSON, for the commands that print them.
#pragma once
#include <nlohmann/json.hpp>

#include "bench/bench.h"

namespace foretile::cli {

inline nlohmann::ordered_json json_of(const bench::BenchRow& r) {
  nlohmann::ordered_json json = {{"shape", r.shape.name}, {"m", r.shape.m}, {"n", r.shape.n}, {"k", r.shape.k}, {"configuration", r.configuration}, {"chosen", r.chosen},
                                 {"seconds", r.microseconds * 1e-6}, {"teraflops", r.teraflops}, {"mhz", r.mhz}, {"watts", r.watts}, {"joules", r.joules},
                                 {"forecast_seconds", r.forecast_microseconds * 1e-6}, {"forecast_bound", r.forecast_bound}, {"verified", r.verified}, {"bound_used", r.bound_used}};
  if (r.baseline_microseconds > 0)
    json["cublaslt"] = {{"seconds", r.baseline_microseconds * 1e-6}, {"mhz", r.baseline_mhz}, {"watts", r.baseline_watts}, {"candidates", r.candidates},
                        {"ratio", {{"median", r.ratio.median}, {"low", r.ratio.low}, {"high", r.ratio.high}}}};
  if (r.floor_microseconds > 0) json["floor"] = {{"seconds", r.floor_microseconds * 1e-6}, {"share", r.share_of_floor()}, {"ring", r.floor_ring}};
  return json;
}

}  // namespace foretile::cli
