#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "bench/bench.h"
#include "bench/gpu.h"
#include "bench/statistics.h"

namespace foretile::bench {

namespace {

// Stands in for the driver's launch function: what is left of a call is the library's own part.
cuda::Result no_launch(const cuda::LaunchConfig*, cuda::Function, void**, void**) { return cuda::kSuccess; }

class ReplacedLaunch {
 public:
  explicit ReplacedLaunch(const Driver& driver) : driver_(const_cast<Driver&>(driver)), original_(driver.launch) { driver_.launch = no_launch; }
  ~ReplacedLaunch() { driver_.launch = original_; }

 private:
  Driver& driver_;
  decltype(Driver::launch) original_;
};

// `between` runs after each batch, outside the time.
template <class F, class G> double median_us(F&& batch, int calls, G&& between) {
  std::vector<double> times;
  for (int i = 0; i < 101; ++i) {
    between();
    const auto begin = std::chrono::steady_clock::now();
    batch();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() * 1e6 / calls);
  }
  return median(times);
}

}  // namespace

HostTime host_time(int device) {
  const Gpu gpu(device);
  constexpr i64 m = 16, n = 512, k = 512;
  constexpr int calls = 200, addresses = 8;
  Buffer a(gpu, m * k * 2), b(gpu, addresses * n * k * 2), d(gpu, m * n * 2);
  FillArguments f{};
  f.rows = f.batch = 1, f.type = DType::bf16;
  f.x.data = a.data(), f.columns = m * k, f.seed = 1;
  gpu.fill(f);
  f.x.data = b.data(), f.columns = addresses * n * k, f.seed = 2;
  gpu.fill(f);
  gpu.synchronize();
  Matmul call;
  call.m = m, call.n = n, call.k = k;
  call.a = Matrix(a.data(), DType::bf16), call.b = Matrix(b.data(), DType::bf16), call.d = Matrix(d.data(), DType::bf16);
  call.stream = gpu.stream();
  const auto launch = [&](int i) {
    call.b.data = b.bytes_at(i64(i) * n * k * 2);
    if (const Status s = matmul(call); !s) throw std::runtime_error(s.message());
  };
  for (int i = 0; i < addresses; ++i) launch(i);  // compiles, loads, makes the plan
  gpu.synchronize();
  HostTime t;
  t.whole_call_us = median_us(
      [&] {
        for (int i = 0; i < calls; ++i) launch(0);
      },
      calls, [&] { gpu.synchronize(); });
  const ReplacedLaunch replaced(gpu.driver());
  t.entry_to_launch_us = median_us(
      [&] {
        for (int i = 0; i < calls; ++i) launch(0);
      },
      calls, [] {});
  t.changing_pointers_us = median_us(
      [&] {
        for (int i = 0; i < calls; ++i) launch(i % addresses);
      },
      calls, [] {});
  return t;
}

}  // namespace foretile::bench
