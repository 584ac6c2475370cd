#include "bench/invariant.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "api/check.h"
#include "api/launch_plan.h"
#include "bench/workload.h"
#include "model/text.h"

namespace foretile::bench {

namespace {

// Few columns, few sums, more columns than SMs have tiles for, a K and an N that no tile divides.
const Shape kMoreShapes[] = {{"few columns", 0, 256, 2048}, {"short", 0, 8192, 512}, {"narrow", 0, 1024, 3072}, {"odd", 0, 1001, 5000}, {"vocabulary", 0, 32000, 4096}};

std::string chosen(const Gpu& gpu, const Workload& w, const Matmul& call) {
  CheckedCall checked;
  Configuration configuration;
  Status s = check_call(call, Pointers::real, checked);
  if (s) s = choose_configuration(gpu.info(), call, checked, configuration);
  if (!s) throw std::runtime_error(w.shape().name + ": " + s.message());
  return text_of(configuration);
}

InvariantRow look_at(const InvariantOptions& options, Arena& arena, Shape shape) {
  const Gpu& gpu = arena.gpu;
  InvariantRow row;
  shape.m = options.rows;
  row.shape = shape;
  // A's rows are the same for every M: a shape's A is the first elements of the arena's.
  const auto run = [&](i64 m) {
    Shape s = shape;
    s.m = m;
    const Workload w(arena, s, options.in, options.out);
    Matmul call = w.call(0, nullptr);
    call.batch_invariant = options.batch_invariant;
    w.poison();
    if (const Status status = options.product ? options.product(call) : matmul(call); !status) throw std::runtime_error(fmt::format("{} at {} rows: {}", shape.name, m, status.message()));
    gpu.synchronize();
    if (!options.product) {
      const std::string c = chosen(gpu, w, call);
      if (std::find(row.configurations.begin(), row.configurations.end(), c) == row.configurations.end()) row.configurations.push_back(c);
    }
    double bound_used = 0;
    if (const std::string wrong = w.judge(0, false, bound_used); !wrong.empty() && row.wrong.empty()) row.wrong = fmt::format("{} rows: {}", m, wrong);
  };
  const auto checksum = [&](i64 m) { return gpu.checksum(arena.d.data(), std::size_t(m * shape.n * size_of(options.out))); };
  if (!options.product) {
    Matmul all = Workload(arena, shape, options.in, options.out).call(0, nullptr);
    all.batch_invariant = options.batch_invariant;
    if (const Status s = prepare(all, 1, options.rows); !s) throw std::runtime_error(shape.name + ": " + s.message());
  }
  run(options.rows);
  std::vector<u64> expected{0};
  for (i64 m = 1; m < options.rows; ++m) expected.push_back(checksum(m));
  for (i64 m = 1; m < options.rows; ++m) {
    run(m);
    ++row.compared;
    if (checksum(m) != expected[std::size_t(m)]) row.different.push_back(m);
  }
  return row;
}

}  // namespace

InvariantReport invariant(const InvariantOptions& options) {
  if (options.rows < 2 || options.rows > 4096) throw std::invalid_argument(fmt::format("rows is {}; allowed: 2 to 4096", options.rows));
  std::vector<Shape> shapes = options.shapes;
  if (shapes.empty()) {
    shapes = suite_shapes("layers", {options.rows});
    shapes.insert(shapes.end(), std::begin(kMoreShapes), std::end(kMoreShapes));
  }
  const Gpu gpu(options.device);
  InvariantReport report;
  report.gpu = gpu.info().name, report.rows = options.rows, report.batch_invariant = options.batch_invariant;
  report.dtype = fmt::format("{}->{}", name_of(options.in), name_of(options.out));
  for (Shape& s : shapes) s.m = options.rows;
  Arena arena(gpu, shapes, options.in, options.out, false, false);
  for (const Shape& s : shapes) {
    report.layers.push_back(look_at(options, arena, s));
    const InvariantRow& r = report.layers.back();
    if (options.progress) options.progress(fmt::format("{} N={} K={}: {} of {} equal{}", s.name, s.n, s.k, r.compared - i64(r.different.size()), r.compared, r.wrong.empty() ? "" : ", WRONG"));
  }
  return report;
}

bool InvariantReport::passed() const {
  return !layers.empty() && std::all_of(layers.begin(), layers.end(), [&](const InvariantRow& r) { return r.compared > 0 && r.wrong.empty() && (!batch_invariant || r.different.empty()); });
}

std::string InvariantReport::text() const {
  std::string s = fmt::format("{}, {}, {}: rows of D at M = 1 to {}, bit for bit against those at M = {}\n", gpu, dtype, batch_invariant ? "batch-invariant" : "not batch-invariant", rows - 1, rows);
  i64 compared = 0, equal = 0;
  int layers_equal = 0, wrong = 0;
  for (const InvariantRow& r : layers) {
    compared += r.compared, equal += r.compared - i64(r.different.size());
    layers_equal += r.different.empty(), wrong += !r.wrong.empty();
    s += fmt::format("{:<20} {:>6} {:>6}  {:>3} of {:>3} equal{}  {}{}\n", r.shape.name, r.shape.n, r.shape.k, r.compared - i64(r.different.size()), r.compared,
                     r.different.empty() ? "" : fmt::format(", first different at M = {}", r.different.front()), fmt::join(r.configurations, " "), r.wrong.empty() ? "" : "  WRONG at " + r.wrong);
  }
  return s + fmt::format("{} of {} layers equal at every M ({} of {} products); {} with results that differ from fp64 by more than rounding\n", layers_equal, layers.size(), equal, compared, wrong);
}

}  // namespace foretile::bench
