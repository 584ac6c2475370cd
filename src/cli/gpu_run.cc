#include "cli/gpu_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "bench/verify.h"
#include "bench/workload.h"
#include "cli/options.h"

namespace foretile::cli {

namespace {

bench::OperandPlan dense(const char* name, DType type, i64 rows, i64 columns, i64 batches, bool off_alignment) {
  bench::OperandPlan x;
  x.name = name, x.type = type, x.rows = rows, x.columns = columns, x.batches = batches;
  x.ld = x.told_ld = std::max<i64>(1, columns);
  x.batch_stride = std::max<i64>(1, rows) * x.ld;
  x.told_batch_stride = batches > 1 ? x.batch_stride : 0;
  x.offset = off_alignment ? 1 : 0;
  return x;
}

}  // namespace

GpuRun run_on_gpu(const Operation& o, const Problem& p, float alpha, float beta, const std::optional<Configuration>& configuration, const Conditions& conditions, u64 seed) {
  if (const std::string reason = bench::Gpu::why_not(); !reason.empty())
    throw NotPossible(fmt::format("no usable GPU: {}. foretile emulate runs the kernel on the CPU, foretile explain forecasts it", reason));
  const bench::Gpu gpu;
  bench::VerifyCase v;
  v.seed = seed, v.operation = o, v.problem = p;
  const bool a_off = o.inputs == Alignment::any, d_off = o.output == Alignment::any;
  v.a = dense("A", o.a, o.transpose_a ? p.k : p.m, o.transpose_a ? p.m : p.k, p.batch, a_off);
  v.b = dense("B", o.b, o.transpose_b ? p.k : p.n, o.transpose_b ? p.n : p.k, p.batch, a_off);
  v.c = dense("C", o.c, p.m, p.n, p.batch, false);
  v.bias = dense("bias", o.bias, 1, p.n, p.batch, false);
  v.residual = dense("residual", o.residual, p.m, output_columns(o, p.n), p.batch, false);
  v.d = dense("D", o.d, p.m, output_columns(o, p.n), p.batch, d_off);
  v.alpha = alpha, v.beta = beta;
  v.configuration = configuration;
  v.sm_budget = conditions.sm_budget;
  v.batch_invariant = conditions.batch_invariant;
  if (conditions.dependent && v.outputs() > 0 && p.k > 0 && alpha != 0) v.chain = bench::Chain::fed, v.weights_ready = true;

  GpuRun run{.gpu = gpu.info().name, .compute_capability = gpu.info().compute_capability, .sms = gpu.info().sms};
  bench::PlacedCase placed(gpu, v, false);
  const Matmul call = placed.call();
  const auto start = std::chrono::steady_clock::now();
  const auto require = [](const Status& status) {
    if (!status) throw std::runtime_error(status.message());
  };
  require(matmul(call));
  gpu.synchronize();
  run.first_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (v.chain != bench::Chain::none) {
    require(placed.run([](const Matmul& one) { return matmul(one); }));
    gpu.synchronize();
  }
  run.wrong = placed.judge(run.bound_used);
  if (p.m && p.n && p.batch) {
    const bench::Arm one = bench::make_arm(gpu, 4, [&](i64) { require(matmul(call)); });
    const double estimate = bench::time_arm(gpu, one, 0, nullptr).microseconds;
    const bench::Arm arm = bench::make_arm(gpu, std::clamp<i64>(i64(5e3 / std::max(1.0, estimate)), 2, 256), [&](i64) { require(matmul(call)); });
    run.seconds = bench::time_arm(gpu, arm, 0.2, nullptr).microseconds * 1e-6;
  }
  return run;
}

}  // namespace foretile::cli
