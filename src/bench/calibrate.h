// `foretile calibrate`: measures the GPU at hand and writes a machine file for it. What cannot be measured is carried over
// from the nearest machine file, and says so.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/machine.h"

namespace foretile::bench {

// One number of a machine file, as measured or as the driver says.
struct Measured {
  std::string key;   // "l2.bytes_per_clock"
  double value = 0;
  std::string how;   // "reads of 12 MB past L1 on all SMs": goes into the source
};

struct Calibration {
  std::string gpu, driver, date;
  int compute_capability = 0, sms = 0;
  std::vector<Measured> facts;
  std::vector<Measured> notes;  // measured beside them, with no place in a machine file: "stream launch" and such
};

struct CalibrateOptions {
  int device = 0;
  bool power = true;  // a minute of loads held long enough for the board's power to settle; needs NVML
  std::function<void(const std::string&)> progress;
};

// Throws std::runtime_error without a usable GPU.
Calibration measure(const CalibrateOptions& options);

// The text of a machine file: every number of `base` (of the same compute capability or the nearest), those that were measured
// replaced, sources saying which is which. Left out and named in `left_out`: a value outside of what a machine file allows, and, where
// `base` is this very GPU, a number that stands in for what was found there with real products. parse_machine() accepts the text.
std::string machine_file(const Machine& base, const Calibration& c, std::vector<std::string>& left_out);

// ---- what numbers are made of; no GPU needed ----------------------------------------------------------------------

// Energies from board power under loads that add one thing at a time. W, and what was done a second.
struct PowerReadings {
  double idle = 0;                      // W
  double spin = 0, spin_mhz = 0;        // all SMs busy with nothing
  double fp32 = 0, fp32_flops = 0, fp32_mhz = 0;
  double l2 = 0, l2_bytes = 0, l2_mhz = 0;
  double dram = 0, dram_bytes = 0, dram_mhz = 0;
  double mma = 0, mma_flops = 0, mma_mhz = 0;          // pseudo-random operands
  double zeros = 0, zeros_flops = 0, zeros_mhz = 0;
};
// The power.* facts that follow, each only where its readings make sense (positive, rising). boost: MHz; slope: the machine's
// power.voltage_slope, by which energies on the SMs' supply are brought to boost voltage.
std::vector<Measured> energies(const PowerReadings& r, int sms, double boost, double slope);

// A random cycle through `count` entries, `stride` words apart, for a pointer chase.
std::vector<unsigned> chain(std::size_t count, std::size_t stride, unsigned seed);

// ---- the built-in set ---------------------------------------------------------------------------------------------
struct SetRow {
  std::string shape, configuration;
  i64 m = 0, n = 0, k = 0;
  double burst = 0, sustained = 0;                    // s, measured; 0: not measured
  double forecast_burst = 0, forecast_sustained = 0;  // s, with the machine asked about
};
struct SetReport {
  std::vector<SetRow> rows;
  // Of |forecast / measured - 1| over bursts and sustained times together; NaN without rows.
  double median = 0, ninth = 0;  // nine in ten stay within
  std::size_t count = 0;
  double choice = 0;             // fastest measured over the machine's first choice, geometric mean over shapes
};
// Every legal configuration of the catalogue at 16 layers of real models, bf16. About two minutes.
std::vector<SetRow> measure_set(const CalibrateOptions& options);
SetReport set_report(const Machine& machine, std::vector<SetRow> rows);

}  // namespace foretile::bench
