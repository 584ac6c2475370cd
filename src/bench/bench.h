// `foretile bench`: our products beside cuBLASLt's best, alternating in one run, every timed result verified.
//
// A speed claim is a ratio: both arms replay a CUDA graph of launches whose weights rotate through more than 512 MB (or
// the L2 twice over, where one weight matrix is larger), on random normal data, A B A B..., each arm at least
// `arm_seconds` long. Reported is the median over the rounds with its 95 % interval.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/csv.h"
#include "bench/suites.h"
#include "foretile/device/configuration.h"
#include "foretile/foretile.h"
#include "model/model.h"

namespace foretile::bench {

// A product of fewer FLOP is too short, or too bound by memory, to reach the power limit (H200: 700 W at about 1.2e10 FLOP/us).
constexpr double kPowerBinds = 2e10;

struct BenchOptions {
  std::vector<Shape> shapes;
  DType in = DType::bf16, out = DType::bf16;
  std::vector<Configuration> configurations;  // each timed where it is legal; empty: the library's choice alone
  CallMode mode;           // of our products; cuBLASLt's are launched as they come
  bool baseline = true;    // needs cuBLASLt; without it rows have no ratio
  bool floor = false;      // a third arm that only reads B's bytes, launched as ours (floor.h); needs compute capability 9.0
  int rounds = 6;          // of A B; the median's 95 % interval needs six
  double arm_seconds = 0;  // 0: 0.3 s where the power limit binds (2 M N K >= 2e10 FLOP), else 0.03 s
  int device = 0;
  std::string winners_path;  // file that keeps cuBLASLt's three best candidates a shape; empty: search anew each time
  std::string csv;           // file that the rows go to as they are measured; empty: none
  std::function<void(const std::string&)> progress;
  // bench_configurations() alone: computes a product, for tests without a GPU; empty: foretile::matmul, weights rotating.
  std::function<Status(const Matmul&)> product;
  double power_binds_from = kPowerBinds;  // bench_configurations() alone: FLOP of a product whose sustained time is asked for
};

struct Interval { double median = 0, low = 0, high = 0; };

struct BenchRow {
  Shape shape;
  std::string configuration;
  bool chosen = false;              // by the library, not asked for
  double microseconds = 0;          // ours, median over the rounds
  double teraflops = 0;
  double mhz = 0, watts = 0;        // while ours ran
  double joules = 0;                // a launch; 0 where the arms were too short to tell
  double baseline_microseconds = 0; // cuBLASLt's best candidate; 0: no baseline
  double baseline_first_microseconds = 0;  // what its heuristic likes best, from the search (0: taken from the cache)
  double baseline_mhz = 0, baseline_watts = 0, baseline_joules = 0;
  double floor_microseconds = 0;    // of reading B's bytes and nothing else; 0: not asked for
  std::string floor_ring;           // how they are read fastest: stages x bytes a copy x blocks an SM
  int candidates = 0, best_candidate = -1; // offered; index of the best (-1: from the cache)
  Interval ratio;                   // baseline time over ours: above 1 is faster
  double forecast_microseconds = 0; // sustained where power binds, else burst
  std::string forecast_bound;
  std::string verified;             // "ok", or what is wrong in words
  double bound_used = 0;            // of the rounding bound against fp64, on sampled rows
  double share_of_floor() const { return floor_microseconds > 0 ? floor_microseconds / microseconds : 0; }  // 1: as fast as reading B; 0: not asked for
  std::string csv() const;
};

struct BenchReport {
  std::string gpu, driver, cublaslt, date;  // versions; cublaslt empty: none found
  std::string cublaslt_missing;             // why
  double power_limit_watts = 0;
  std::vector<BenchRow> rows;
  std::string dtype;                        // "bf16->bf16"
  std::string mode;                         // of our launches: "plain"
  bool verified() const;
  // Geometric mean and worst of the ratios; 1 and 1 without a baseline.
  double geometric_mean() const;
  double worst() const;
  std::string table() const;  // for people
  CsvFile open_csv(const std::string& path) const;
};

// Throws std::runtime_error without a usable GPU, std::invalid_argument for options that make no sense.
BenchReport bench(const BenchOptions& options);

// ---- all configurations, quickly: what the model is calibrated on and held against -------------------------
struct ConfigurationRow {
  Shape shape;
  std::string configuration;
  double burst_microseconds = 0, burst_mhz = 0;  // a few milliseconds, after a pause where power binds
  double sustained_microseconds = 0;             // settled, in turn with the shape's others; 0 where power does not bind, and of slow ones
  double mhz = 0, watts = 0;                     // while sustained
  double forecast_burst_microseconds = 0, forecast_sustained_microseconds = 0;
  bool offered = true;                           // choose() may pick it, and it was timed as the shape's others
  std::string verified;
  std::string csv() const;
};
struct ConfigurationReport {
  std::string gpu, driver, date, dtype, mode;
  double power_limit_watts = 0;
  std::vector<ConfigurationRow> rows;
  int left_out = 0;  // legal, but forecast to take more than kWorthTiming of the shape's shortest
  std::string heading() const;  // in words: where and how the times were taken, and what is left out
  CsvFile open_csv(const std::string& path) const;
  std::string summary() const;  // a line a shape: best configuration, the model's choice, what that costs; then the errors by regime
};
// Forecasts beyond this many times the shape's shortest are not timed: nobody would choose them, and they would take most of the time.
constexpr double kWorthTiming = 2;
// Every legal catalogue configuration of each shape that is worth it. `seconds`: stop starting new shapes after so long (0: no limit).
ConfigurationReport bench_configurations(const BenchOptions& options, double seconds);

// ---- the host's part of a repeated call -------------------------------------------------------------------
struct HostTime {
  double entry_to_launch_us = 0;  // foretile::matmul() until the driver's launch function is entered, and the way back
  double whole_call_us = 0;       // with the driver's launch
  double changing_pointers_us = 0;  // entry to launch where every call brings other addresses (new tensor maps)
};
// Medians over batches of calls of a small product on the current GPU.
HostTime host_time(int device = 0);

}  // namespace foretile::bench
