#include "bench/workload.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <stdexcept>

#include "api/check.h"
#include "api/launch_plan.h"
#include "foretile/device/legality.h"

namespace foretile::bench {

namespace {
constexpr i64 kRotation = i64(512) << 20;  // bytes: ten times the largest L2 there is
constexpr i64 kSampledRows = 64;
}  // namespace

i64 Arena::copies(const Shape& s, DType in) const { return rotate ? kRotation / (s.n * s.k * size_of(in)) + 1 : 1; }

Arena::Arena(const Gpu& g, const std::vector<Shape>& shapes, DType in, DType out, bool baseline, bool rotates) : gpu(g), rotate(rotates) {
  i64 a_bytes = 0, b_bytes = 0, d_bytes = 0, columns = 0;
  for (const Shape& s : shapes) {
    a_bytes = std::max(a_bytes, s.m * s.k * size_of(in));
    b_bytes = std::max(b_bytes, copies(s, in) * s.n * s.k * size_of(in));
    d_bytes = std::max(d_bytes, s.m * s.n * size_of(out));
    columns = std::max(columns, s.n);
  }
  a = Buffer(gpu, std::size_t(a_bytes)), b = Buffer(gpu, std::size_t(b_bytes)), d = Buffer(gpu, std::size_t(d_bytes));
  if (baseline) baseline_d = Buffer(gpu, std::size_t(d_bytes)), workspace = Buffer(gpu, CublasLtProduct::kWorkspaceBytes);
  sum = Buffer(gpu, std::size_t(kSampledRows * columns) * 8), error = Buffer(gpu, std::size_t(kSampledRows * columns) * 8);
  verdict = Buffer(gpu, sizeof(Verdict));
  // One long row of normal values each: a shape's operands are its first elements.
  FillArguments f{};
  f.rows = f.batch = 1, f.type = in, f.values = 0;
  f.x.data = a.data(), f.columns = a_bytes / size_of(in), f.seed = 1;
  gpu.fill(f);
  f.x.data = b.data(), f.columns = b_bytes / size_of(in), f.seed = 2;
  gpu.fill(f);
  gpu.synchronize();
}

Workload::Workload(Arena& arena, const Shape& shape, DType in, DType out, CallMode mode) : arena_(arena), shape_(shape), mode_(mode), copies_(arena.copies(shape, in)) {
  operation_.a = operation_.b = in;
  operation_.d = out;
  CheckedCall checked;
  if (const Status s = check_call(call(0, nullptr), Pointers::real, checked); !s) throw std::invalid_argument(shape.name + ": " + s.message());
  operation_ = checked.operation;
}

void* Workload::weights(i64 copy) const { return arena_.b.bytes_at(copy % copies_ * weight_bytes()); }

Matmul Workload::call(i64 copy, const Configuration* configuration) const {
  Matmul call;
  call.m = shape_.m, call.n = shape_.n, call.k = shape_.k;
  call.a = Matrix(arena_.a.data(), stored_type(operation_.a)), call.b = Matrix(weights(copy), stored_type(operation_.b)), call.d = Matrix(arena_.d.data(), operation_.d);
  call.compute = operation_.a == DType::tf32 ? Compute::tf32 : Compute::exact;
  call.stream = arena_.gpu.stream();
  call.device = arena_.gpu.device();
  call.configuration = configuration;
  call.dependent = call.weights_ready = mode_.dependent;
  call.batch_invariant = mode_.batch_invariant;
  return call;
}

void Workload::run(i64 copy, const Configuration* configuration) const {
  if (const Status s = matmul(call(copy, configuration)); !s) throw std::runtime_error(shape_.name + ": " + s.message());
}

Configuration Workload::chosen() const {
  const Matmul c = call(0, nullptr);
  CheckedCall checked;
  Configuration configuration;
  Status s = check_call(c, Pointers::real, checked);
  if (s) s = choose_configuration(arena_.gpu.info(), c, checked, configuration);
  if (!s) throw std::runtime_error(shape_.name + ": " + s.message());
  return configuration;
}

void Workload::poison() const {
  const std::size_t bytes = std::size_t(shape_.m * shape_.n * size_of(operation_.d));
  arena_.gpu.set_bytes(arena_.d.data(), 0xFF, bytes);
  if (arena_.baseline_d.data()) arena_.gpu.set_bytes(arena_.baseline_d.data(), 0xFF, bytes);
}

std::string judge_sampled(const Arena& arena, const Shape& shape, const Operation& operation, const void* weights, i64 salt, double& bound_used) {
  const Gpu& gpu = arena.gpu;
  // Rows spread over M, as one matrix with a longer leading dimension.
  const i64 rows = std::min(shape.m, kSampledRows), step = shape.m / rows, first = salt % step, columns = output_columns(operation, shape.n);
  ReferenceArguments r{};
  r.m = rows, r.n = shape.n, r.k = shape.k, r.batch = 1;
  r.a = {static_cast<u8*>(arena.a.data()) + first * shape.k * size_of(operation.a), shape.k * step, 0};
  r.b = {const_cast<void*>(weights), shape.k, 0};
  r.a_type = operation.a, r.b_type = operation.b;
  r.sum = static_cast<double*>(arena.sum.data()), r.error = static_cast<double*>(arena.error.data());
  gpu.launch("reference", int(ceil_div(rows, 64) * ceil_div(shape.n, 64)), 256, {&r});
  ExpectArguments e{};
  e.m = rows, e.n = shape.n, e.batch = 1;
  e.operation = operation;
  e.d = {static_cast<u8*>(arena.d.data()) + first * columns * size_of(operation.d), columns * step, 0};
  e.alpha = 1, e.sum = r.sum, e.error = r.error;
  gpu.launch("expect", gpu.info().sms * 8, 256, {&e});
  const Verdict fresh{0, ~u64(0), 0, 0, 0, ~u64(0)};
  Verdict v;
  gpu.upload(arena.verdict.data(), &fresh, sizeof fresh);
  void* verdict = arena.verdict.data();
  gpu.launch("compare", gpu.info().sms * 8, 256, {&e, &verdict});
  gpu.download(&v, verdict, sizeof v);
  bound_used = std::max(bound_used, double(v.worst));
  if (!v.wrong) return {};
  return fmt::format("{} of {} sampled elements differ from fp64 by more than rounding; first: row {}, column {}. ", v.wrong, rows * columns, first + i64(v.first) / columns * step, i64(v.first) % columns);
}

std::string Workload::judge(i64 copy, bool other, double& bound_used) const {
  const Gpu& gpu = arena_.gpu;
  std::string text = judge_sampled(arena_, shape_, operation_, weights(copy), copy, bound_used);
  if (other) {
    float result[2] = {};
    gpu.upload(arena_.verdict.data(), result, sizeof result);
    DType type = operation_.d;
    void *x = arena_.d.data(), *y = arena_.baseline_d.data(), *out = arena_.verdict.data();
    i64 count = shape_.m * shape_.n;
    gpu.launch("difference", gpu.info().sms * 8, 256, {&type, &x, &y, &count, &out});
    gpu.download(result, out, sizeof result);
    // Two roundings of the largest value may be one unit apart; fp32 sums differ by their order, and tf32 inputs by how they
    // are rounded.
    const double allowed = type == DType::bf16 || operation_.a == DType::tf32 ? 0x1p-7 : type == DType::fp16 ? 0x1p-10 : 0x1p-14;
    if (!(result[0] <= allowed * result[1])) text += fmt::format("differs from cuBLASLt's result by up to {} where the largest value is {}. ", result[0], result[1]);
  }
  return text;
}

std::vector<const Configuration*> configurations_for(const std::vector<Configuration>& asked, const Operation& operation, const Workload& w) {
  if (asked.empty()) return {nullptr};
  std::vector<const Configuration*> list;
  for (const Configuration& c : asked)
    if (!why_not(operation, c, w.problem())) list.push_back(&c);
  if (list.empty()) throw std::invalid_argument(fmt::format("{}: none of the configurations asked for can compute it; the first: {}", w.shape().name, why_not(operation, asked.front(), w.problem())));
  return list;
}

i64 launches_for(const Workload& w, double microseconds) { return std::clamp<i64>(std::max<i64>(w.copies(), i64(1e4 / microseconds)), 2, 1024); }

std::string today() {
  char text[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

std::string driver_text(const Gpu& gpu, const Nvml& nvml) {
  const int v = gpu.driver().version;
  const std::string name = nvml.driver_version();
  return fmt::format("{}CUDA {}.{}", name.empty() ? "" : name + ", ", v / 1000, v % 1000 / 10);
}

ArmTime time_arm(const Gpu& gpu, const Arm& arm, double seconds, const Nvml* nvml, double uncounted) {
  const Stopwatch watch(gpu);
  watch.start();
  arm.graph->launch();
  watch.stop();
  const double once = watch.seconds();
  const auto replays_in = [&](double time) { return i64(std::ceil(time / std::max(once, 1e-6))); };
  const i64 before_them = replays_in(uncounted), replays = std::max<i64>(1, replays_in(seconds));
  for (i64 i = 0; i < before_them; ++i) arm.graph->launch();
  ArmTime t;
  const GpuState before = nvml ? nvml->read() : GpuState{};
  gpu.clock_begin();
  watch.start();
  for (i64 i = 0; i < replays; ++i) arm.graph->launch();
  watch.stop();
  gpu.clock_end();
  if (nvml && once * double(replays) > 0.02) {
    usleep(useconds_t(1e6 * once * (double(before_them) + 0.6 * double(replays))));  // most of the arm is over, and the GPU still busy
    t.watts = nvml->read().watts;
  }
  const double elapsed = watch.seconds();
  t.microseconds = elapsed * 1e6 / double(replays * arm.launches);
  t.mhz = gpu.clock_mhz();
  if (nvml && elapsed > 0.1 && !before_them) t.joules = (nvml->read().joules - before.joules) / double(replays * arm.launches);
  return t;
}

}  // namespace foretile::bench
