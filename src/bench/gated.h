// `foretile bench --gated`: a gated product (SwiGLU) in one kernel, beside cuBLASLt's best candidate for the product and a
// kernel of our own behind it that gates. Both arms alternate in one run, every timed result verified.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/gpu.h"

namespace foretile::bench {

struct GatedOptions {
  std::vector<Shape> shapes;     // N counts the columns of the product: even, N/2 a multiple of 8. Gates stand in the first half
  DType type = DType::bf16;      // of everything: bf16 or fp16
  CallMode mode;                 // of ours; where it is dependent, so is the gating kernel's launch. cuBLASLt's are as they come
  std::vector<Configuration> configurations;  // each timed where it is legal; empty: the library's choice alone
  int rounds = 6;                // of A B
  double arm_seconds = 0;        // as BenchOptions::arm_seconds
  int device = 0;
  std::string winners_path, csv;  // as BenchOptions'
  std::function<void(const std::string&)> progress;
};

struct GatedRow {
  Shape shape;
  std::string configuration;
  double microseconds = 0;           // ours, median over the rounds
  double forecast_microseconds = 0;
  double pair_microseconds = 0;      // cuBLASLt and the gating kernel
  double product_microseconds = 0;   // cuBLASLt alone
  double gate_microseconds = 0;      // the gating kernel alone, its operands as they stand in L2 or memory
  double gate_bytes_per_second = 0;  // read and written
  Interval ratio;                    // the pair's time over ours: above 1 is faster
  std::string verified;              // "ok", or what is wrong in words
  double bound_used = 0;
  std::string csv() const;
};

struct GatedReport {
  std::string gpu, driver, cublaslt, date, dtype, mode;
  double copy_bytes_per_second = 0;  // read and written, 16 bytes an access, the fastest of several grids
  std::vector<GatedRow> rows;
  bool verified() const;
  double geometric_mean() const, worst() const;
  std::string table() const;
  CsvFile open_csv(const std::string& path) const;
};

// Throws std::runtime_error without a usable GPU or cuBLASLt, std::invalid_argument for options that make no sense.
GatedReport bench_gated(const GatedOptions& options);

// Puts D[M,N/2] = silu(gate) * up of the dense product [M,N] on the stream.
void launch_gate(const Gpu& gpu, const Shape& shape, DType type, void* product, void* d, bool dependent);

}  // namespace foretile::bench
