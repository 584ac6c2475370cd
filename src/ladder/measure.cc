#include "ladder/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include "bench/baseline.h"
#include "bench/verify.h"
#include "bench/workload.h"
#include "foretile/foretile.h"
#include "model/text.h"
#include "runtime/driver.h"
#include "runtime/source.h"

namespace foretile::ladder {

namespace {

void require(const Status& s) {
  if (!s) throw std::runtime_error(s.message());
}

bench::OperandPlan dense(const char* name, DType type, i64 rows, i64 columns) {
  bench::OperandPlan x;
  x.name = name, x.type = type, x.rows = rows, x.columns = columns;
  x.ld = x.told_ld = std::max<i64>(1, columns);
  x.batch_stride = std::max<i64>(1, rows) * x.ld;
  return x;
}

bench::VerifyCase case_of(const Rung& rung, const Problem& p, u64 seed) {
  bench::VerifyCase v;
  v.seed = seed, v.operation = operation_of(rung), v.problem = p;
  v.a = dense("A", rung.type, p.m, p.k);
  v.b = rung.weights_layout ? dense("B", rung.type, p.n, p.k) : dense("B", rung.type, p.k, p.n);
  v.c = dense("C", rung.type, p.m, p.n), v.residual = dense("residual", rung.type, p.m, p.n), v.bias = dense("bias", rung.type, 1, p.n);
  v.d = dense("D", rung.type, p.m, p.n);
  return v;
}

}  // namespace

std::string translation_unit(const Rung& rung, const Variant& v) {
  return fmt::format(
      "#include \"foretile/device/{}\"\n\n"
      "extern \"C\" __global__ void __launch_bounds__({}, {}) {}(const __grid_constant__ foretile::ladder::Arguments arguments) {{\n"
      "  {}(arguments);\n}}\n",
      rung.file, v.threads, v.min_blocks, kKernelName, v.expression);
}

Compilation compile(const Rung& rung, const Variant& v, std::string_view architecture) {
  Compilation made = compile_translation_unit(translation_unit(rung, v), architecture);
  if (!made.status && !made.kernel.cubin.empty() && made.kernel.spill_bytes > 0) made.status = {};
  return made;
}

struct Bench::Loaded {
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  int registers = 0;
};
struct Bench::Private {
  std::map<std::string, Loaded> loaded;
  std::unique_ptr<bench::PlacedCase> placed;
  std::string placed_key;
};

Bench::Bench() : p_(std::make_unique<Private>()) {
  if (const std::string reason = bench::Gpu::why_not(); !reason.empty()) throw std::runtime_error("no usable GPU: " + reason);
}
Bench::~Bench() {
  for (auto& [key, l] : p_->loaded) gpu_.driver().module_unload(l.module);
}

const Bench::Loaded& Bench::load(const Rung& rung, const Variant& v) {
  const auto [at, fresh] = p_->loaded.try_emplace(v.expression);
  if (!fresh) return at->second;
  const Compilation made = compile(rung, v, architecture_for(gpu_.info().compute_capability));
  require(made.status);
  Loaded& l = at->second;
  gpu_.check(gpu_.driver().module_load(&l.module, made.kernel.cubin.data()), "cuModuleLoadData");
  gpu_.check(gpu_.driver().module_function(&l.function, l.module, std::string(kKernelName).c_str()), "cuModuleGetFunction");
  gpu_.check(gpu_.driver().function_set(l.function, cuda::kMaxDynamicSharedBytes, v.shared_bytes), "cuFuncSetAttribute");
  l.registers = made.kernel.registers;
  return l;
}

Measured Bench::run(const Rung& rung, const Variant* v, const Problem& p, int repeats, double arm_seconds, u64 seed, const std::string& configuration) {
  if (const char* reason = why_not(rung, p)) throw std::invalid_argument(reason);
  // Rungs of one type and layout share their operands: the large ones take longer to make than to multiply.
  const std::string key = fmt::format("{} {} {} {} {} {}", int(rung.type), rung.weights_layout, p.m, p.n, p.k, seed);
  if (key != p_->placed_key) {
    p_->placed.reset();
    p_->placed = std::make_unique<bench::PlacedCase>(gpu_, case_of(rung, p, seed), false);
    p_->placed_key = key;
  }
  bench::PlacedCase& placed = *p_->placed;
  Matmul call = placed.call();
  Measured m;
  Configuration chosen;
  std::function<void()> launch;
  Arguments arguments;
  if (rung.production) {
    if (!configuration.empty()) {
      std::string error;
      const std::optional<Configuration> parsed = configuration_from(configuration, error);
      if (!parsed) throw std::invalid_argument(error);
      chosen = *parsed;
      call.configuration = &chosen;
    }
    m.configuration = configuration;
    launch = [&] { require(matmul(call)); };
  } else {
    const Loaded& l = load(rung, *v);
    m.registers = l.registers;
    arguments = arguments_of(rung, p, call.a.data, call.b.data, call.d.data, [&](const TensorMapSpec& spec) {
      TensorMap map{};
      require(encode_tensor_map(gpu_.driver(), spec, map));
      return map;
    });
    const LaunchShape shape = launch_shape(rung, *v, p);
    launch = [this, &arguments, shape, function = l.function] {
      cuda::LaunchConfig config{};
      config.grid_x = shape.blocks, config.grid_y = config.grid_z = 1;
      config.block_x = shape.threads, config.block_y = config.block_z = 1;
      config.shared_bytes = shape.shared_bytes;
      config.stream = gpu_.stream();
      void* parameters[] = {&arguments};
      gpu_.check(gpu_.driver().launch(&config, function, parameters, nullptr), "cuLaunchKernelEx");
    };
  }
  gpu_.set_bytes(call.d.data, 0xFF, std::size_t(p.m * p.n) * std::size_t(size_of(rung.type)));
  launch();
  gpu_.synchronize();
  m.wrong = placed.judge(m.error);
  if (repeats <= 0 || !m.wrong.empty()) return m;
  const bench::Arm probe = bench::make_arm(gpu_, 1, [&](i64) { launch(); });
  const double once = bench::time_arm(gpu_, probe, 0, nullptr).microseconds * 1e-6;
  const bench::Arm arm = bench::make_arm(gpu_, std::clamp<i64>(i64(arm_seconds / 4 / std::max(once, 1e-6)), 1, 64), [&](i64) { launch(); });
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {
    const double t = bench::time_arm(gpu_, arm, arm_seconds, nullptr).microseconds * 1e-6;
    if (i > 0) times.push_back(t);
  }
  std::sort(times.begin(), times.end());
  m.seconds = times[times.size() / 2];
  m.spread = (times.back() - times.front()) / m.seconds;
  return m;
}

double Bench::library_seconds(DType type, const Problem& p, double arm_seconds) {
  const bench::CublasLt* lt = bench::CublasLt::load();
  if (!lt) return 0;
  p_->placed.reset(), p_->placed_key.clear();  // makes room
  const bench::Shape shape{.name = "ladder", .m = p.m, .n = p.n, .k = p.k};
  bench::Arena arena(gpu_, {shape}, type, type, true);
  const bench::Workload w(arena, shape, type, type);
  const bench::CublasLtProduct product(*lt, w.operation(), w.problem());
  bench::WinnersFile nothing("");
  const bench::BaselineChoice best = bench::choose_baseline(*lt, product, arena, w, nothing);
  const bench::Arm arm = bench::make_arm(gpu_, 4, [&](i64) { product.run(best.algorithm, arena.a.data(), w.weights(0), arena.baseline_d.data(), arena.workspace.data(), gpu_.stream()); });
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) times.push_back(bench::time_arm(gpu_, arm, arm_seconds, nullptr).microseconds * 1e-6);
  std::sort(times.begin(), times.end());
  return times[2];
}

}  // namespace foretile::ladder
