// `foretile verify`: random products on the GPU, each compared with fp64, with guard bytes around every operand.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bench/gpu.h"
#include "bench/verify_case.h"
#include "foretile/foretile.h"

namespace foretile::bench {

struct VerifyOptions {
  int count = 2000;
  u64 seed = 1;
  int only = -1;            // run this case alone
  i64 max_size = 3000;      // of M, N and K
  bool integers = false;    // small integers everywhere: results must be exact. Otherwise every fourth case
  int device = 0;
  int threads = 0;          // that compile ahead; 0: one a core
  bool exact_allocations = false;  // every operand in an allocation that ends with its last element: for compute-sanitizer
  int stop_after = 20;      // failures
  std::optional<Configuration> configuration;
  std::optional<Gating> gating;  // only products gated like this; needs Hopper
  Compute compute = Compute::exact;  // tf32: only products of fp32 in tf32, else all kinds
  std::function<Status(const Matmul&)> product;  // what is verified; empty: foretile::matmul(), prepared ahead
  std::function<void(const std::string&)> progress;  // a line about once a second; may be empty
};

struct VerifyFailure {
  int index = 0;
  std::string problem;  // VerifyCase::text()
  std::string what;     // "D[row 3, column 5] is 7, should be 6 (at least 5.9, at most 6.1)"
};

struct VerifyResult {
  int cases = 0;             // run
  int empty = 0;             // of them with nothing to launch
  int sm90_forced = 0, decode_forced = 0, simt_forced = 0, chosen = 0;  // by how the configuration came about
  int exact = 0;             // with integer data
  int gated = 0, chained = 0, batch_invariant = 0;
  int checked_on_cpu = 0;    // small ones, compared once more with the host reference
  double worst = 0;          // largest part of the rounding bound used; up to 1 is right
  double compile_seconds = 0, seconds = 0;
  std::vector<VerifyFailure> failures;
  bool passed() const { return failures.empty() && cases > 0; }
  std::string text() const;  // a few lines for people
};

// Throws std::runtime_error without a usable GPU (Gpu::why_not says so beforehand).
VerifyResult verify(const VerifyOptions& options);

// ---- the pieces, for tests that build their own call ------------------------------------------------------

// One operand in device memory. Inputs stand amid NaN bytes, D amid a guard pattern.
struct DeviceOperand {
  OperandPlan plan;
  Buffer buffer;
  i64 data_offset = 0;  // bytes
  i64 bytes = 0;        // in use
  u64 checksum = 0;     // of an input before the call

  void* data() const { return buffer.bytes_at(data_offset); }
  MatrixArgument argument() const { return {data(), plan.ld, plan.batches > 1 ? plan.batch_stride : 0}; }
};

// A case laid out in device memory, with what D must be.
class PlacedCase {
 public:
  // Buffers of `reuse` are taken over where they are large enough.
  PlacedCase(const Gpu& gpu, const VerifyCase& c, bool exact_allocations, PlacedCase* reuse = nullptr);
  Matmul call() const;  // on the Gpu's stream
  // The call, with the others of its chain where there is one, by `product`. Afterwards A is what it was. The first error.
  Status run(const std::function<Status(const Matmul&)>& product) const;
  // After the call: empty, or what is wrong in words. `worst` grows to the largest part of the bound used.
  std::string judge(double& worst);
  // The same through the host reference; for small cases. Call it before judge() or after, D is only read.
  std::string judge_on_cpu();

 private:
  void place(DeviceOperand& x, const OperandPlan& plan, bool exact, PlacedCase* reuse, DeviceOperand PlacedCase::*member);
  ExpectArguments expectation() const;
  Matmul feed(const Buffer& values) const;  // a product that comes to these values, with this case's A as its D

  const Gpu& gpu_;
  VerifyCase case_;
  DeviceOperand a_, b_, c_, bias_, residual_, d_;
  Buffer zeros_, values_, nan_;  // of the chain: factors of the feeding products, what they add; the last two laid out like A
  Buffer scalars_, sum_, error_, verdict_;
  std::vector<u8> d_before_;  // only for small cases with C = D
};

// The same calls with pointers that are only aligned alike, for prepare(): the one under test, and the one that feeds it.
Matmul call_of(const VerifyCase& c, int device);
Matmul feed_of(const VerifyCase& c, int device);

}  // namespace foretile::bench
