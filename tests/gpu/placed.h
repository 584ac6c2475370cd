// Hand-made cases for the GPU: the checks of verify() around a call of one's own.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/verify.h"
#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "model/text.h"

namespace foretile::gpu_tests {

// Skips the test where there is no GPU, or too little memory for it.
#define GPU_OR_SKIP() \
  if (const std::string reason = foretile::bench::Gpu::why_not(); !reason.empty()) GTEST_SKIP() << "no usable GPU: " << reason

struct Layout {
  i64 padding = 0;  // of the leading dimension
  i64 offset = 0;   // elements from a 256-byte boundary
  std::optional<i64> told_ld = {};
  bool broadcast = false;
};

inline bench::OperandPlan plan(const char* name, DType type, i64 rows, i64 columns, i64 batch, const Layout& l = {}) {
  bench::OperandPlan x;
  x.name = name, x.type = type, x.rows = rows, x.columns = columns, x.batches = batch;
  x.ld = std::max<i64>(1, columns + l.padding);
  x.offset = l.offset;
  x.batch_stride = l.broadcast ? 0 : x.ld * std::max<i64>(1, rows);
  x.told_ld = l.told_ld.value_or(x.ld);
  x.told_batch_stride = batch > 1 ? x.batch_stride : 0;
  return x;
}

struct Layouts { Layout a = {}, b = {}, c = {}, bias = {}, residual = {}, d = {}; };

inline bench::VerifyCase make_case(Operation o, const Problem& p, const Layouts& l = {}) {
  bench::VerifyCase v;
  v.problem = p, v.seed = 99, v.integers = o.activation == Activation::none || o.activation == Activation::relu;
  v.a = plan("A", o.a, o.transpose_a ? p.k : p.m, o.transpose_a ? p.m : p.k, p.batch, l.a);
  v.b = plan("B", o.b, o.transpose_b ? p.k : p.n, o.transpose_b ? p.n : p.k, p.batch, l.b);
  v.c = plan("C", o.c, p.m, p.n, p.batch, l.c);
  v.bias = plan("bias", o.bias, 1, p.n, p.batch, l.bias);
  v.residual = plan("residual", o.residual, p.m, output_columns(o, p.n), p.batch, l.residual);
  v.d = plan("D", o.d, p.m, output_columns(o, p.n), p.batch, l.d);
  v.beta = o.has_c ? 1 : 0;
  v.operation = o;
  return v;
}

// Empty when the call succeeded and D, its surroundings and the inputs are as they must be.
inline std::string run(const bench::Gpu& gpu, const bench::VerifyCase& v, std::unique_ptr<bench::PlacedCase>* reuse = nullptr) {
  auto placed = std::make_unique<bench::PlacedCase>(gpu, v, false, reuse ? reuse->get() : nullptr);
  std::string what;
  if (const Status s = placed->run([](const Matmul& call) { return matmul(call); }); !s) {
    what = "refused: " + s.message();
  } else {
    gpu.synchronize();
    double worst = 0;
    what = placed->judge(worst);
  }
  if (reuse) *reuse = std::move(placed);
  return what.empty() ? what : v.text() + ": " + what;
}

// Compiles what the cases need, on all cores.
inline void prepare_all(const bench::Gpu& gpu, const std::vector<bench::VerifyCase>& cases) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      for (std::size_t i; (i = next++) < cases.size();) {
        Status s = prepare(bench::call_of(cases[i], gpu.device()));
        if (s && cases[i].chain != bench::Chain::none) s = prepare(bench::feed_of(cases[i], gpu.device()));
        EXPECT_TRUE(s) << cases[i].text() << ": " << s.message();
      }
    });
  for (std::thread& t : threads) t.join();
}

inline Operation operation(DType in, DType out, bool transpose_a = false, bool transpose_b = false) {
  Operation o = catalogue::product(in, out);
  o.transpose_a = transpose_a, o.transpose_b = transpose_b;
  return o;
}

inline const Configuration kHopper = catalogue::coop(128, 128, 6, 2);
inline const Configuration kPortable = catalogue::simt(64, 64, 16, 4, 4);

}  // namespace foretile::gpu_tests
