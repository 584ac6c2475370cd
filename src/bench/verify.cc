#include "bench/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <stdexcept>

#include "bench/parallel.h"
#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "model/text.h"
#include "reference/check.h"
#include "reference/convert.h"

namespace foretile::bench {

namespace {

constexpr i64 kGuardBytes = 4096;
constexpr u32 kGuardSeed = 77;
constexpr i64 kSmall = 4'000'000;  // multiply-adds of a case that the host checks too

Matrix matrix_of(const OperandPlan& x, void* data, bool transposed = false) { return {data, stored_type(x.type), x.told_ld, x.told_batch_stride, transposed}; }

Matmul describe(const VerifyCase& v) {
  Matmul call;
  call.m = v.problem.m, call.n = v.problem.n, call.k = v.problem.k, call.batch = v.problem.batch;
  call.activation = v.operation.activation, call.gating = v.operation.gating;
  call.compute = v.operation.a == DType::tf32 ? Compute::tf32 : Compute::exact;
  call.batch_invariant = v.batch_invariant;
  call.dependent = v.chain != Chain::none, call.weights_ready = v.weights_ready;
  call.sm_budget = v.sm_budget;
  call.alpha = Scalar(v.alpha), call.beta = Scalar(v.beta);
  return call;
}

// A product of zeros that writes its residual, laid out like the case's A, into that A.
constexpr i64 kFeedDepth = 64;
Matmul describe_feed(const VerifyCase& v, void* zeros, void* values, void* a) {
  Matmul call;
  call.m = v.a.rows, call.n = v.a.columns, call.k = kFeedDepth, call.batch = v.a.batch_stride ? v.a.batches : 1;
  call.dependent = true;
  call.a = call.b = Matrix(zeros, stored_type(v.a.type));
  call.residual = matrix_of(v.a, values), call.d = matrix_of(v.a, a);
  return call;
}

bool small(const VerifyCase& v) { return v.problem.m * v.problem.n * std::max<i64>(1, v.problem.k) * v.problem.batch <= kSmall; }

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Matmul call_of(const VerifyCase& v, int device) {
  const auto pointer = [](const OperandPlan& x) { return reinterpret_cast<void*>((u64(1) << 40) + u64(x.offset * size_of(x.type))); };
  Matmul call = describe(v);
  call.device = device;
  call.a = matrix_of(v.a, pointer(v.a), v.operation.transpose_a);
  call.b = matrix_of(v.b, pointer(v.b), v.operation.transpose_b);
  call.d = matrix_of(v.d, pointer(v.d));
  if (v.operation.has_c) call.c = matrix_of(v.c, pointer(v.c));
  if (v.operation.has_bias) call.bias = matrix_of(v.bias, pointer(v.bias));
  if (v.operation.has_residual) call.residual = matrix_of(v.residual, pointer(v.residual));
  // Apart from each other, so that no check for overlap objects: placeholders of one address would.
  u64 apart = 0;
  for (Matrix* x : {&call.a, &call.b, &call.d, &call.c, &call.bias, &call.residual}) {
    if (x->data) x->data = static_cast<u8*>(x->data) + (apart << 36);
    ++apart;
  }
  if (v.c_is_d) call.c.data = call.d.data;
  if (v.alpha_on_device) call.alpha = Scalar::on_device(reinterpret_cast<float*>(u64(1) << 39));
  if (v.beta_on_device) call.beta = Scalar::on_device(reinterpret_cast<float*>((u64(1) << 39) + 4));
  if (v.configuration) call.configuration = &*v.configuration;
  return call;
}

Matmul feed_of(const VerifyCase& v, int device) {
  const auto pointer = [&](u64 number, i64 offset) { return reinterpret_cast<void*>((u64(1) << 40) + (number << 36) + u64(offset * size_of(v.a.type))); };
  Matmul call = describe_feed(v, pointer(0, 0), pointer(1, v.a.offset), pointer(2, v.a.offset));
  call.device = device;
  return call;
}

void PlacedCase::place(DeviceOperand& x, const OperandPlan& plan, bool exact, PlacedCase* reuse, DeviceOperand PlacedCase::*member) {
  x.plan = plan;
  x.data_offset = kGuardBytes + plan.offset * size_of(plan.type);
  x.bytes = x.data_offset + plan.span() * size_of(plan.type) + (exact ? 0 : kGuardBytes);
  if (reuse && !exact && (reuse->*member).buffer.size() >= std::size_t(x.bytes)) x.buffer = std::move((reuse->*member).buffer);
  else x.buffer = Buffer(gpu_, std::size_t(exact ? x.bytes : x.bytes + x.bytes / 4));
}

PlacedCase::PlacedCase(const Gpu& gpu, const VerifyCase& c, bool exact_allocations, PlacedCase* reuse) : gpu_(gpu), case_(c) {
  const Operation& o = case_.operation;
  const Problem& p = case_.problem;
  const auto fill = [&](const DeviceOperand& x, u64 salt, bool nan) {
    FillArguments f{};
    f.x = {x.data(), x.plan.ld, x.plan.batch_stride};
    f.rows = x.plan.rows, f.columns = x.plan.columns, f.batch = x.plan.batch_stride ? x.plan.batches : std::min<i64>(x.plan.batches, 1);
    f.seed = case_.seed + salt, f.type = x.plan.type;
    f.values = nan ? 2 : case_.integers ? 1 : 0, f.limit = salt <= 2 ? 3 : 8;
    gpu_.fill(f);
  };
  const auto input = [&](DeviceOperand PlacedCase::*member, const OperandPlan& plan, u64 salt, bool nan) {
    DeviceOperand& x = this->*member;
    place(x, plan, exact_allocations, reuse, member);
    gpu_.set_bytes(x.buffer.data(), 0xFF, std::size_t(x.bytes));  // NaN in every float type: before, behind and between the rows
    fill(x, salt, nan);
    x.checksum = gpu_.checksum(x.buffer.data(), std::size_t(x.bytes));
  };
  // What must not be read holds NaN: A and B where alpha is 0, C where beta is 0.
  input(&PlacedCase::a_, case_.a, 1, case_.alpha == 0);
  input(&PlacedCase::b_, case_.b, 2, case_.alpha == 0);
  if (o.has_c && !case_.c_is_d) input(&PlacedCase::c_, case_.c, 3, case_.beta == 0);
  if (o.has_bias) input(&PlacedCase::bias_, case_.bias, 4, false);
  if (o.has_residual) input(&PlacedCase::residual_, case_.residual, 5, false);

  if (case_.chain != Chain::none) {
    const std::size_t zeros = std::size_t(std::max(case_.a.rows, case_.a.columns) * kFeedDepth * size_of(o.a)), bytes = std::size_t(a_.bytes);
    zeros_ = Buffer(gpu_, zeros), values_ = Buffer(gpu_, bytes), nan_ = Buffer(gpu_, bytes);
    gpu_.set_bytes(zeros_.data(), 0, zeros);
    gpu_.set_bytes(nan_.data(), 0xFF, bytes);
    gpu_.copy(values_.data(), a_.buffer.data(), bytes);
  }

  place(d_, case_.d, exact_allocations, reuse, &PlacedCase::d_);
  const float scalars[2] = {case_.alpha, case_.beta};
  scalars_ = Buffer(gpu_, sizeof scalars);
  gpu_.upload(scalars_.data(), scalars, sizeof scalars);
  verdict_ = Buffer(gpu_, sizeof(Verdict));
  const Verdict fresh{0, ~u64(0), 0, 0, 0, ~u64(0)};
  gpu_.upload(verdict_.data(), &fresh, sizeof fresh);
  GuardArguments guard{d_.buffer.bytes_at(0), d_.bytes, d_.data_offset, p.m, d_.plan.columns, d_.plan.ld, p.batch, d_.plan.batch_stride, size_of(o.d), kGuardSeed, static_cast<Verdict*>(verdict_.data())};
  gpu_.launch("guard_write", gpu_.info().sms * 8, 256, {&guard});
  fill(d_, 6, !(case_.c_is_d && case_.beta != 0));
  if (case_.c_is_d && small(case_)) {
    d_before_.resize(std::size_t(d_.bytes));
    gpu_.download(d_before_.data(), d_.buffer.data(), d_before_.size());
  }

  if (case_.outputs() == 0) return;
  const std::size_t bytes = std::size_t(p.m * p.n * p.batch) * sizeof(double);
  for (Buffer PlacedCase::*member : {&PlacedCase::sum_, &PlacedCase::error_}) {
    if (reuse && (reuse->*member).size() >= bytes) this->*member = std::move(reuse->*member);
    else this->*member = Buffer(gpu_, bytes + bytes / 4);
  }
  ReferenceArguments r{p.m, p.n, case_.alpha == 0 ? 0 : p.k, p.batch, a_.argument(), b_.argument(), o.a, o.b, o.transpose_a, o.transpose_b, case_.integers, static_cast<double*>(sum_.data()), static_cast<double*>(error_.data())};
  const i64 tiles = ceil_div(p.m, 64) * ceil_div(p.n, 64) * p.batch;
  gpu_.launch("reference", int(std::min<i64>(tiles, 65536)), 256, {&r});
  ExpectArguments e = expectation();
  gpu_.launch("expect", gpu_.info().sms * 8, 256, {&e});
}

ExpectArguments PlacedCase::expectation() const {
  ExpectArguments e{};
  e.m = case_.problem.m, e.n = case_.problem.n, e.batch = case_.problem.batch;
  e.operation = case_.operation;
  e.d = d_.argument();
  if (case_.operation.has_c) e.c = case_.c_is_d ? d_.argument() : c_.argument();
  if (case_.operation.has_bias) e.bias = bias_.argument();
  if (case_.operation.has_residual) e.residual = residual_.argument();
  e.alpha = double(case_.alpha), e.beta = double(case_.beta);
  e.sum = static_cast<double*>(sum_.data()), e.error = static_cast<double*>(error_.data());
  return e;
}

Matmul PlacedCase::call() const {
  Matmul call = describe(case_);
  call.device = gpu_.device();
  call.stream = gpu_.stream();
  call.a = matrix_of(case_.a, a_.data(), case_.operation.transpose_a);
  call.b = matrix_of(case_.b, b_.data(), case_.operation.transpose_b);
  call.d = matrix_of(case_.d, d_.data());
  if (case_.operation.has_c) call.c = matrix_of(case_.c, case_.c_is_d ? d_.data() : c_.data());
  if (case_.operation.has_bias) call.bias = matrix_of(case_.bias, bias_.data());
  if (case_.operation.has_residual) call.residual = matrix_of(case_.residual, residual_.data());
  const float* scalars = static_cast<const float*>(scalars_.data());
  if (case_.alpha_on_device) call.alpha = Scalar::on_device(scalars);
  if (case_.beta_on_device) call.beta = Scalar::on_device(scalars + 1);
  if (case_.configuration) call.configuration = &*case_.configuration;
  return call;
}

Matmul PlacedCase::feed(const Buffer& values) const {
  Matmul call = describe_feed(case_, zeros_.data(), values.bytes_at(a_.data_offset), a_.data());
  call.device = gpu_.device();
  call.stream = gpu_.stream();
  return call;
}

Status PlacedCase::run(const std::function<Status(const Matmul&)>& product) const {
  if (case_.chain == Chain::none) return product(call());
  Status s;
  if (s) s = product(feed(nan_));
  gpu_.synchronize();  // B and all else that is read is complete
  if (s) s = product(feed(values_));
  if (s) s = product(call());
  if (s && case_.chain == Chain::between) {
    s = product(feed(nan_));
    gpu_.synchronize();
    if (s) s = product(feed(values_));
  }
  return s;
}

std::string PlacedCase::judge(double& worst) {
  const Problem& p = case_.problem;
  const Operation& o = case_.operation;
  Verdict* verdict = static_cast<Verdict*>(verdict_.data());
  GuardArguments guard{d_.buffer.bytes_at(0), d_.bytes, d_.data_offset, p.m, d_.plan.columns, d_.plan.ld, p.batch, d_.plan.batch_stride, size_of(o.d), kGuardSeed, verdict};
  gpu_.launch("guard_check", gpu_.info().sms * 8, 256, {&guard});
  ExpectArguments e = expectation();
  if (case_.outputs() > 0) gpu_.launch("compare", gpu_.info().sms * 8, 256, {&e, &verdict});
  Verdict v;
  gpu_.download(&v, verdict, sizeof v);

  std::string text;
  if (v.wrong) {
    const i64 columns = d_.plan.columns, column = i64(v.first) % columns, row = i64(v.first) / columns % p.m, batch = i64(v.first) / (columns * p.m);
    const i64 of_product = (batch * p.m + row) * p.n + (o.gating == Gating::interleaved ? 2 * column : column);
    double low = 0, high = 0;
    u8 bits[8] = {};
    const i64 at = batch * d_.argument().batch_stride + row * d_.plan.ld + column;
    gpu_.download(&low, e.sum + of_product, sizeof low);
    gpu_.download(&high, e.error + of_product, sizeof high);
    gpu_.download(bits, d_.buffer.bytes_at(d_.data_offset + at * size_of(o.d)), std::size_t(size_of(o.d)));
    text += fmt::format("{} of {} elements wrong; first: D[batch {}, row {}, column {}] is {:.9g}, should lie in [{:.9g}, {:.9g}]. ", v.wrong, case_.outputs(), batch, row, column,
                        reference::load(o.d, bits, 0), low, high);
  }
  if (v.touched) text += fmt::format("{} bytes around D's elements were written; first: byte {} from D's first element. ", v.touched, i64(v.first_touched) - d_.data_offset);
  for (const DeviceOperand* x : {&a_, &b_, &c_, &bias_, &residual_})
    if (x->buffer.data() && gpu_.checksum(x->buffer.data(), std::size_t(x->bytes)) != x->checksum) text += fmt::format("{} was written. ", x->plan.name);
  worst = std::max(worst, double(v.worst));
  return text;
}

std::string PlacedCase::judge_on_cpu() {
  std::vector<std::vector<u8>> copies;
  copies.reserve(8);
  const auto host = [&](const DeviceOperand& x) {
    MatrixArgument m = x.argument();
    std::vector<u8>& copy = copies.emplace_back(std::size_t(x.bytes));
    gpu_.download(copy.data(), x.buffer.data(), copy.size());
    m.data = copy.data() + x.data_offset;
    return m;
  };
  Operands x;
  x.a = host(a_), x.b = host(b_), x.epilogue.d = host(d_);
  if (case_.operation.has_c) {
    if (case_.c_is_d) x.epilogue.c = x.epilogue.d, x.epilogue.c.data = d_before_.data() + d_.data_offset;
    else x.epilogue.c = host(c_);
  }
  if (case_.operation.has_bias) x.epilogue.bias = host(bias_);
  if (case_.operation.has_residual) x.epilogue.residual = host(residual_);
  x.epilogue.alpha = case_.alpha, x.epilogue.beta = case_.beta;
  const reference::CheckResult r = reference::check(case_.operation, case_.problem, x);
  return r.passed() ? std::string() : "by the host reference: " + r.text();
}

VerifyResult verify(const VerifyOptions& options) {
  if (options.count < 1) throw std::runtime_error(fmt::format("count is {}; at least 1", options.count));
  if (options.max_size < 1 || options.max_size > 16384) throw std::runtime_error(fmt::format("max_size is {}; allowed: 1 to 16384", options.max_size));
  const Gpu gpu(options.device);
  const auto say = [&](const std::string& line) {
    if (options.progress) options.progress(line);
  };
  VerifyShape shape;
  shape.max_size = options.max_size, shape.integers = options.integers, shape.sms = gpu.info().sms;
  shape.configuration = options.configuration, shape.hopper = gpu.info().compute_capability == 90;
  shape.gating = options.gating, shape.compute = options.compute;
  if (options.gating.value_or(Gating::none) != Gating::none && options.compute != Compute::exact) throw std::runtime_error("gated products are of 16-bit types: gating does not go with compute tf32");
  if (options.gating.value_or(Gating::none) != Gating::none && !shape.hopper)
    throw std::runtime_error(fmt::format("gated products need compute capability 9.0 (Hopper); {} has {:.1f}", gpu.info().name, gpu.info().compute_capability / 10.0));
  if (options.gating && options.configuration)
    if (const char* reason = why_not(catalogue::gated(DType::bf16, DType::bf16, *options.gating), *options.configuration))
      throw std::runtime_error(fmt::format("configuration {} with gated products ({}): {}", text_of(*options.configuration), name_of(*options.gating), reason));
  std::vector<VerifyCase> cases;
  for (int i = 0; i < options.count; ++i)
    if (options.only < 0 || options.only == i) cases.push_back(draw_case(options.seed, i, shape));
  if (cases.empty()) throw std::runtime_error(fmt::format("only is {}; allowed: 0 to {}", options.only, options.count - 1));

  VerifyResult result;
  const double begin = now();
  double told = begin;
  if (!options.product) {  // Compile everything ahead, on all cores.
    std::mutex mutex;
    std::string trouble;
    std::size_t ready = 0;
    in_parallel(cases.size(), options.threads, [&](std::size_t i) {
      Status s = prepare(call_of(cases[i], gpu.device()));
      if (s && cases[i].chain != Chain::none) s = prepare(feed_of(cases[i], gpu.device()));
      const std::lock_guard lock(mutex);
      ++ready;
      if (!s && trouble.empty()) trouble = cases[i].text() + ": prepare: " + s.message();
      if (now() - told > 2) told = now(), say(fmt::format("compiling: {} of {} cases ready, {:.0f} s", ready, cases.size(), told - begin));
    });
    if (!trouble.empty()) result.failures.push_back({-1, trouble, "prepare failed"});
  }
  result.compile_seconds = now() - begin;

  std::unique_ptr<PlacedCase> placed;
  for (const VerifyCase& v : cases) {
    auto fresh = std::make_unique<PlacedCase>(gpu, v, options.exact_allocations, placed.get());
    placed = std::move(fresh);
    std::string what;
    if (const Status s = placed->run(options.product ? options.product : [](const Matmul& call) { return matmul(call); }); !s) {
      what = "refused: " + s.message();
    } else {
      gpu.synchronize();
      what = placed->judge(result.worst);
      if (small(v) && v.outputs() > 0) {
        ++result.checked_on_cpu;
        what += placed->judge_on_cpu();
      }
    }
    if (!what.empty()) {
      result.failures.push_back({v.index, v.text(), what});
      say("FAILED " + v.text() + ": " + what);
    }
    ++result.cases;
    result.empty += v.outputs() == 0;
    result.exact += v.integers;
    result.gated += v.operation.gating != Gating::none, result.chained += v.chain != Chain::none, result.batch_invariant += v.batch_invariant;
    ++(!v.configuration ? result.chosen : v.configuration->family == Family::sm90 ? result.sm90_forced : v.configuration->family == Family::decode ? result.decode_forced : result.simt_forced);
    if (now() - told > 2) told = now(), say(fmt::format("verified {} of {}, {} failed, {:.0f} s", result.cases, cases.size(), result.failures.size(), told - begin));
    if (int(result.failures.size()) >= options.stop_after) break;
  }
  result.seconds = now() - begin;
  return result;
}

std::string VerifyResult::text() const {
  std::string s = fmt::format("{} random products in {:.0f} s ({:.0f} s of it compiling): {}\n", cases, seconds, compile_seconds, passed() ? "all right" : fmt::format("{} FAILED", failures.size()));
  s += fmt::format("  {} empty, {} exact (integers), {} compared with the host reference too; configuration: {} chosen by the model, {} sm90, {} decode and {} simt forced\n", empty, exact, checked_on_cpu, chosen,
                   sm90_forced, decode_forced, simt_forced);
  s += fmt::format("  {} gated, {} in chains of dependent launches, {} batch-invariant\n", gated, chained, batch_invariant);
  s += fmt::format("  {}\n", reference::rounding_text(worst));
  for (const VerifyFailure& f : failures) s += fmt::format("  {}\n    {}\n", f.problem, f.what);
  return s;
}

}  // namespace foretile::bench
