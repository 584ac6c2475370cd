// Timing the microbenchmarks on the GPU. What follows from the numbers is in calibrate_file.cc.
#include "bench/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <stdexcept>
#include <thread>

#include "bench/bench.h"
#include "bench/calibrate_kernels.h"
#include "bench/gpu.h"
#include "bench/nvml.h"
#include "bench/plain_compile.h"
#include "model/text.h"

namespace foretile::bench {

namespace {

// CUdevice_attribute
enum Attribute : int {
  kThreadsPerBlock = 1, kClockRate = 13, kMemoryClockRate = 36, kMemoryBusWidth = 37, kL2Bytes = 38, kThreadsPerSm = 39, kSharedPerSm = 81, kRegistersPerSm = 82,
  kSharedPerBlockOptIn = 97, kBlocksPerSm = 106, kSharedReserved = 111
};

std::string today() {
  const std::time_t t = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::localtime(&t));
  return text;
}

class Bench {
 public:
  explicit Bench(const CalibrateOptions& options) : options_(options), gpu_(options.device), nvml_(gpu_.pci_bus_id()), clock_(gpu_) {
    const std::string cubin = compile_plain(kCalibrationSource, gpu_.info().compute_capability, "the calibration's kernels");
    gpu_.check(gpu_.driver().module_load(&module_, cubin.data()), "cuModuleLoadData");
    clocks_ = Buffer(gpu_, 8 * std::size_t(kMostBlocks));
    out_ = Buffer(gpu_, 64);
  }
  ~Bench() {
    if (module_) gpu_.driver().module_unload(module_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Calibration run() {
    c_.gpu = gpu_.info().name, c_.driver = nvml_.driver_version(), c_.date = today();
    c_.compute_capability = gpu_.info().compute_capability, c_.sms = gpu_.info().sms;
    if (c_.driver.empty()) c_.driver = fmt::format("CUDA {}.{}", gpu_.driver().version / 1000, gpu_.driver().version % 1000 / 10);
    step("facts of the driver"), driver_facts();
    step("launches"), launches();
    step("shared memory"), shared();
    step("multiply-adds"), cores();
    step("tensor cores"), tensor();
    step("L2"), l2();
    step("DRAM"), dram();
    if (options_.power && nvml_.present()) step("power, one load after the other"), power();
    return std::move(c_);
  }

 private:
  // Of the 0.93 that plain reads reach on an H200, its dram.efficiency (0.826) and library.dram_efficiency (0.817).
  static constexpr double kKernelsOfReads = 0.888, kLibraryOfReads = 0.878;
  static constexpr int kMostBlocks = 4096;
  static constexpr int kRepeats = 5;

  void step(const char* what) {
    if (options_.progress) options_.progress(what);
  }
  void fact(std::string key, double value, std::string how) { c_.facts.push_back({std::move(key), value, std::move(how)}); }
  void note(std::string key, double value, std::string how) { c_.notes.push_back({std::move(key), value, std::move(how)}); }

  int attribute(int which) const {
    cuda::Device device = 0;
    int value = 0;
    if (gpu_.driver().device_get(&device, options_.device) != cuda::kSuccess || gpu_.driver().device_attribute(&value, which, device) != cuda::kSuccess) return 0;
    return value;
  }
  int sms() const { return gpu_.info().sms; }

  void driver_facts() {
    const auto asked = [&](const char* key, int which, double scale = 1) {
      if (const int value = attribute(which); value > 0) fact(key, value * scale, "the driver");
    };
    asked("sm.threads_per_block", kThreadsPerBlock);
    asked("sm.warps", kThreadsPerSm, 1.0 / 32);
    asked("sm.blocks", kBlocksPerSm);
    asked("sm.registers", kRegistersPerSm);
    asked("sm.shared_bytes", kSharedPerSm);
    asked("sm.shared_bytes_per_block", kSharedPerBlockOptIn);
    asked("clock.boost", kClockRate, 1e-3);
    asked("l2.bytes", kL2Bytes);
    if (gpu_.info().compute_capability >= 80) asked("sm.shared_reserved", kSharedReserved);
    boost_ = attribute(kClockRate) * 1e3;
    l2_bytes_ = attribute(kL2Bytes);
    std::size_t free = 0, total = 0;
    gpu_.check(gpu_.driver().memory_info(&free, &total), "cuMemGetInfo");
    fact("dram.bytes", double(total), "the driver");
    memory_free_ = double(free);
    bandwidth_ = 2.0 * attribute(kMemoryClockRate) * 1e3 * attribute(kMemoryBusWidth) / 8;
    if (bandwidth_ > 0) fact("dram.bandwidth", bandwidth_, "the driver: twice the memory clock times the width of the bus");
    if (const double watts = nvml_.power_limit_watts(); watts > 0) fact("power.limit", watts, "NVML, the limit in force");
  }

  void launch(const char* kernel, int blocks, int threads, std::vector<void*> parameters) const {
    cuda::Function function = nullptr;
    gpu_.check(gpu_.driver().module_function(&function, module_, kernel), kernel);
    cuda::LaunchConfig config{};
    config.grid_x = unsigned(blocks), config.grid_y = config.grid_z = 1;
    config.block_x = unsigned(threads), config.block_y = config.block_z = 1;
    config.stream = gpu_.stream();
    gpu_.check(gpu_.driver().launch(&config, function, parameters.data(), nullptr), kernel);
  }

  struct Run {
    double seconds = 0, clocks = 0;  // clocks: of the slowest block
    double mhz() const { return clocks / seconds / 1e6; }
  };
  // The fastest of several launches, after one that warms up.
  Run timed(const char* kernel, int blocks, int threads, const std::vector<void*>& parameters, int repeats = kRepeats) {
    launch(kernel, blocks, threads, parameters);
    Run best;
    for (int i = 0; i < repeats; ++i) {
      clock_.start();
      launch(kernel, blocks, threads, parameters);
      clock_.stop();
      Run r;
      r.seconds = clock_.seconds();
      std::vector<u64> clocks(static_cast<std::size_t>(blocks));
      gpu_.download(clocks.data(), clocks_.data(), 8 * clocks.size());
      r.clocks = double(*std::max_element(clocks.begin(), clocks.end()));
      if (!(r.seconds > 0) || !(r.clocks > 0)) throw std::runtime_error(fmt::format("the microbenchmark {} left no time", kernel));
      if (best.clocks == 0 || r.clocks < best.clocks) best = r;
    }
    return best;
  }

  void launches() {
    const auto seconds_each = [&](auto&& go, int count) {
      double best = 1;
      for (int i = 0; i < kRepeats; ++i) {
        gpu_.synchronize();
        clock_.start();
        go();
        clock_.stop();
        best = std::min(best, clock_.seconds() / count);
      }
      return best;
    };
    constexpr int kChain = 1000;
    const GraphReplay graph(gpu_, [&] {
      for (int i = 0; i < kChain; ++i) launch("nothing", sms(), 128, {});
    });
    graph.launch();
    fact("launch.graph", seconds_each([&] { graph.launch(); }, kChain), "empty kernels back to back in a CUDA graph, a block an SM");
    note("launch in a stream, s", seconds_each([&] { for (int i = 0; i < kChain; ++i) launch("nothing", sms(), 128, {}); }, kChain), "the same without a graph");
  }

  void* clocks() { return clocks_pointer_ = clocks_.data(), &clocks_pointer_; }
  void* out() { return out_pointer_ = out_.data(), &out_pointer_; }

  void shared() {
    int iterations = 2000;
    const double loads = 8.0 * iterations * 1024;  // of threads, a block
    const Run words = timed("shared_words", sms(), 1024, {&iterations, out(), clocks()});
    fact("sm.lsu_lanes", std::round(loads / words.clocks), "32-bit loads of neighbouring words, 1,024 threads an SM");
    note("32-bit shared loads, lanes a clock", loads / words.clocks, "before rounding");
    const Run quads = timed("shared_quads", sms(), 1024, {&iterations, out(), clocks()});
    fact("sm.shared_bytes_per_clock", std::round(16 * loads / quads.clocks / 16) * 16, "128-bit loads of neighbouring quads, 1,024 threads an SM, to 16 B");
    note("128-bit shared loads, B a clock", 16 * loads / quads.clocks, "before rounding");
    int steps = 10000;
    fact("latency.shared", timed("chase_shared", 1, 32, {&steps, out(), clocks()}).clocks / steps, "pointer chase in shared memory");
  }

  void cores() {
    int iterations = 1000;
    const double multiply_adds = 64.0 * iterations * 1024;
    const Run fp32 = timed("fp32_multiply_adds", sms(), 1024, {&iterations, out(), clocks()});
    note("FFMA, FLOP a clock and SM", 2 * multiply_adds / fp32.clocks, "8 independent sums, 1,024 threads an SM");
    note("SM clock under FFMA, MHz", fp32.mhz(), "SM clocks over time");
    const Run half2 = timed("half2_multiply_adds", sms(), 1024, {&iterations, out(), clocks()});
    note("HFMA2, FLOP a clock and SM", 4 * multiply_adds / half2.clocks, "8 independent sums, 1,024 threads an SM");
    // Rates are whole powers of two; a loop reaches a few percent less.
    const auto rate = [](double reached) { return std::exp2(std::ceil(std::log2(reached * 0.98))); };
    fact("sm.fp32_rate", rate(2 * multiply_adds / fp32.clocks), fmt::format("FFMA reach {:.1f} FLOP/clk, the next power of two", 2 * multiply_adds / fp32.clocks));
    fact("sm.fp16_rate", rate(4 * multiply_adds / half2.clocks), fmt::format("HFMA2 reach {:.1f} FLOP/clk, the next power of two", 4 * multiply_adds / half2.clocks));
  }

  bool has(const char* kernel) const {
    cuda::Function function = nullptr;
    return gpu_.driver().module_function(&function, module_, kernel) == cuda::kSuccess;
  }
  double mma_flop(const char* kernel) const {  // of one instruction
    const std::string name = kernel;
    const double k = name == "mma_tf32" ? 8 : name == "mma_int8" || name == "mma_fp8" ? 32 : gpu_.info().compute_capability >= 80 ? 16 : 8;
    return 2 * 16 * 8 * k;
  }

  void tensor() {
    int iterations = 500, data = 1;
    const bool hopper = gpu_.info().compute_capability == 90;
    for (const auto& [kernel, key] : {std::pair{"mma_fp16", "sm.tensor_fp16"}, {"mma_bf16", "sm.tensor_bf16"}, {"mma_tf32", "sm.tensor_tf32"}, {"mma_fp8", "sm.tensor_fp8"}, {"mma_int8", "sm.tensor_int8"}}) {
      if (!has(kernel)) continue;
      const Run r = timed(kernel, sms(), 512, {&iterations, &data, out(), clocks()});
      const double reached = 16.0 * iterations * 16 * mma_flop(kernel) / r.clocks;  // 16 warps
      note(fmt::format("{}, FLOP a clock and SM", kernel), reached, fmt::format("mma.sync, four independent sums a warp, 16 warps an SM, at {:.0f} MHz", r.mhz()));
      // Hopper's mma.sync does not reach the rate: that comes from the data sheet's peak.
      if (!hopper) fact(key, std::exp2(std::ceil(std::log2(reached * 0.98))), fmt::format("mma.sync reach {:.0f} FLOP/clk, the next power of two", reached));
      else if (std::string(kernel) == "mma_bf16") mma_reached_ = reached;
    }
    if (hopper && mma_reached_ > 0) fact("sm.mma_sync", mma_reached_ / 4096, fmt::format("mma.sync in bf16 reach {:.0f} FLOP/clk of 4,096", mma_reached_));
  }

  struct Stream {
    double bytes_per_second = 0, bytes_per_clock = 0, mhz = 0;
  };
  // Reads of `bytes` over and over, `blocks` blocks of 512 threads.
  Stream stream(void* base, double bytes, double total, int blocks) {
    u64 count = u64(bytes / 16);
    int passes = int(std::max(1.0, total / bytes));
    const Run r = timed("read", blocks, 512, {&base, &count, &passes, out(), clocks()});
    const double all = double(count) * 16 * passes;
    return {all / r.seconds, all / r.clocks, r.mhz()};
  }

  // Of a load past L1 along a random chain through the first `bytes` of the buffer; what follows them, `flush` bytes, is
  // written first and pushes the chain out of L2 (none: the launch that warms up goes all around and brings it in).
  double latency(Buffer& buffer, double bytes, std::size_t stride_bytes, double flush) {
    const std::size_t count = std::max<std::size_t>(64, std::size_t(bytes) / stride_bytes);
    const std::vector<u32> table = chain(count, stride_bytes / 4, 7);
    gpu_.upload(buffer.data(), table.data(), 4 * table.size());
    if (flush > 0) gpu_.set_bytes(buffer.bytes_at(i64(bytes)), 0, std::size_t(flush));
    gpu_.set_bytes(out_.data(), 0, out_.size());
    void* base = buffer.data();
    int steps = flush > 0 ? 20000 : int(count);
    const double clocks_each = timed("chase_global", 1, 1, {&base, &steps, out(), clocks()}, 3).clocks / steps;
    gpu_.set_bytes(out_.data(), 0, out_.size());
    return clocks_each;
  }

  void l2() {
    if (l2_bytes_ <= 0) return;
    Buffer buffer(gpu_, std::size_t(l2_bytes_));
    gpu_.set_bytes(buffer.data(), 1, buffer.size());
    // A quarter of it fits whatever is copied between partitions.
    const Stream all = stream(buffer.data(), l2_bytes_ / 4, 4e9, 4 * sms()), one = stream(buffer.data(), l2_bytes_ / 4, 4e7, 1);
    fact("l2.bytes_per_clock", all.bytes_per_clock, fmt::format("reads of a quarter of L2 past L1 on all SMs at {:.0f} MHz", all.mhz));
    note("reads from L2 by one block of 512 threads, B a clock", one.bytes_per_clock, "one SM alone");
    fact("l2.port_bytes_per_clock", std::min(256.0, std::max(16.0, stream(buffer.data(), l2_bytes_ / 4, 1.6e8, std::min(4, sms())).bytes_per_clock / std::min(4, sms()))), "reads of a quarter of L2 past L1 by four SMs, each");
    fact("latency.l2", latency(buffer, std::min(1e6, l2_bytes_ / 4), 128, 0), "pointer chase through 1 MB past L1 that is in L2: near and far partition alike");
  }

  void dram() {
    const double bytes = std::min({std::max(1e9, 8 * l2_bytes_), 4e9, 0.5 * memory_free_});
    Buffer buffer(gpu_, std::size_t(bytes));
    gpu_.set_bytes(buffer.data(), 1, buffer.size());
    const Stream s = stream(buffer.data(), bytes, bytes, 8 * sms());
    note("reads from DRAM, B/s", s.bytes_per_second, fmt::format("{:.1f} GB past L1 on all SMs at {:.0f} MHz", bytes * 1e-9, s.mhz));
    if (bandwidth_ > 0) {
      fact("dram.efficiency", kKernelsOfReads * std::min(1.0, s.bytes_per_second / bandwidth_), fmt::format("plain reads of {:.1f} GB reach {:.3f}; times {}, what products reach of that on an H200", bytes * 1e-9, s.bytes_per_second / bandwidth_, kKernelsOfReads));
      fact("library.dram_efficiency", kLibraryOfReads * std::min(1.0, s.bytes_per_second / bandwidth_), fmt::format("as dram.efficiency, times {}: the vendor's library on an H200", kLibraryOfReads));
    }
    const double chased = std::min(0.6 * bytes, std::max(256e6, 6 * l2_bytes_));
    fact("latency.dram", latency(buffer, chased, 256, std::min(bytes - chased, 3 * l2_bytes_)), fmt::format("pointer chase in random order through {:.0f} MB that are not in L2", chased * 1e-6));
  }

  // A load held for a while, and the board's power over its last second.
  struct Held {
    double watts = 0, mhz = 0, work_per_second = 0;
  };
  Held hold(const char* kernel, int blocks, int threads, std::vector<void*> parameters, double work, double seconds = 3) {
    using Clock = std::chrono::steady_clock;
    launch(kernel, blocks, threads, parameters);
    gpu_.synchronize();
    const auto begin = Clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
    double watts = 0, mhz = 0, since = 0;
    int samples = 0;
    i64 launches = 0, before = 0;
    while (elapsed() < seconds) {
      for (int i = 0; i < 4; ++i) launch(kernel, blocks, threads, parameters), ++launches;
      gpu_.synchronize();
      if (elapsed() < seconds - 1) {
        since = elapsed(), before = launches;
        continue;
      }
      const GpuState s = nvml_.read();
      watts += s.watts, mhz += s.sm_mhz, ++samples;
    }
    const double time = elapsed() - since;
    if (!samples || !(time > 0)) return {};
    return {watts / samples, mhz / samples, double(launches - before) * work / time};
  }

  void power() {
    PowerReadings r;
    std::this_thread::sleep_for(std::chrono::seconds(3));
    for (int i = 0; i < 10; ++i) {
      r.idle += nvml_.read().watts / 10;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    u64 clocks_to_go = u64(0.02 * boost_);
    const Held spin = hold("spin", sms(), 512, {&clocks_to_go, clocks()}, 1);
    r.spin = spin.watts, r.spin_mhz = spin.mhz;
    int iterations = 20000;
    const Held fp32 = hold("fp32_multiply_adds", sms(), 1024, {&iterations, out(), clocks()}, 2.0 * 64 * iterations * 1024 * sms());
    r.fp32 = fp32.watts, r.fp32_flops = fp32.work_per_second, r.fp32_mhz = fp32.mhz;
    if (has("mma_fp16")) {
      for (int data : {1, 0}) {
        const Held mma = hold("mma_fp16", sms(), 512, {&iterations, &data, out(), clocks()}, 16.0 * iterations * 16 * mma_flop("mma_fp16") * sms());
        note(fmt::format("mma.sync on {}, FLOP/s", data ? "pseudo-random bits" : "zeros"), mma.work_per_second, fmt::format("held for 3 s: {:.0f} W at {:.0f} MHz", mma.watts, mma.mhz));
        if (data) r.mma = mma.watts, r.mma_flops = mma.work_per_second, r.mma_mhz = mma.mhz;
        else r.zeros = mma.watts, r.zeros_flops = mma.work_per_second, r.zeros_mhz = mma.mhz;
      }
    }
    const double bytes = std::min(2e9, 0.5 * memory_free_);
    Buffer buffer(gpu_, std::size_t(bytes));
    gpu_.set_bytes(buffer.data(), 0x5a, buffer.size());
    void* base = buffer.data();
    const auto reading = [&](double span, int passes) {
      u64 count = u64(span / 16);
      return hold("read", 8 * sms(), 512, {&base, &count, &passes, out(), clocks()}, double(count) * 16 * passes);
    };
    if (l2_bytes_ > 0) {
      const Held l2 = reading(l2_bytes_ / 4, 1000);
      r.l2 = l2.watts, r.l2_bytes = l2.work_per_second, r.l2_mhz = l2.mhz;
    }
    const Held dram = reading(bytes, 4);
    r.dram = dram.watts, r.dram_bytes = dram.work_per_second, r.dram_mhz = dram.mhz;
    note("DRAM stream held, W", dram.watts, fmt::format("{:.2f} TB/s at {:.0f} MHz", dram.work_per_second * 1e-12, dram.mhz));
    for (Measured& m : energies(r, sms(), boost_ * 1e-6, 1)) c_.facts.push_back(std::move(m));
  }

  const CalibrateOptions& options_;
  Gpu gpu_;
  Nvml nvml_;
  Stopwatch clock_;
  cuda::Module module_ = nullptr;
  Buffer clocks_, out_;
  void* clocks_pointer_ = nullptr;
  void* out_pointer_ = nullptr;
  Calibration c_;
  double boost_ = 0, l2_bytes_ = 0, memory_free_ = 0, bandwidth_ = 0, mma_reached_ = 0;  // Hz, B, B, B/s, FLOP/clk
};

}  // namespace

Calibration measure(const CalibrateOptions& options) {
  if (const std::string reason = Gpu::why_not(options.device); !reason.empty()) throw std::runtime_error(reason);
  return Bench(options).run();
}

std::vector<SetRow> measure_set(const CalibrateOptions& options) {
  BenchOptions b;
  b.device = options.device, b.progress = options.progress, b.baseline = false;
  for (const i64 m : {1, 32, 2048, 4096})
    for (const auto& [n, k] : {std::pair<i64, i64>{6144, 4096}, {4096, 14336}, {2112, 7168}, {8192, 1024}}) b.shapes.push_back({fmt::format("{}x{}x{}", m, n, k), m, n, k});
  std::vector<SetRow> rows;
  for (const ConfigurationRow& r : bench_configurations(b, 0).rows)
    rows.push_back({.shape = r.shape.name, .configuration = r.configuration, .m = r.shape.m, .n = r.shape.n, .k = r.shape.k, .burst = r.burst_microseconds * 1e-6, .sustained = r.sustained_microseconds * 1e-6});
  return rows;
}

}  // namespace foretile::bench
