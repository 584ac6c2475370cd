// One GPU for the checks and benchmarks: memory, a stream, events, and the helper kernels. Errors are std::runtime_error
// with the driver's words: a benchmark has no caller that could go on.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "bench/kernels.h"
#include "runtime/driver.h"

namespace foretile::bench {

class Gpu;

// Device memory; frees itself. Empty when default-constructed.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Gpu& gpu, std::size_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  void* data() const { return reinterpret_cast<void*>(address_); }
  u8* bytes_at(i64 offset) const { return reinterpret_cast<u8*>(address_ + u64(offset)); }
  std::size_t size() const { return size_; }

 private:
  const Gpu* gpu_ = nullptr;
  cuda::DevicePointer address_ = 0;
  std::size_t size_ = 0;
};

class Gpu {
 public:
  // Why there is no usable GPU here (no driver, no device, no NVRTC for the helper kernels); empty when there is one.
  static std::string why_not(int device = 0);
  // Makes the device's primary context current on this thread and compiles the helper kernels. Throws.
  explicit Gpu(int device = 0);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const Driver& driver() const { return *driver_; }
  const DeviceInfo& info() const { return *info_; }
  int device() const { return device_; }
  std::string pci_bus_id() const;  // as NVML wants it; empty where the driver cannot say
  cuda::Stream stream() const { return stream_; }
  void bind_thread() const;  // makes the context current on another thread

  void check(cuda::Result result, const char* what) const;
  void synchronize() const;
  void upload(void* to, const void* from, std::size_t bytes) const;
  void download(void* to, const void* from, std::size_t bytes) const;
  void set_bytes(void* to, unsigned char value, std::size_t bytes) const;
  void copy(void* to, const void* from, std::size_t bytes) const;  // on the device

  // Launches a helper kernel on the stream; `parameters` are pointers to the arguments. `dependent`: while the kernel before
  // it may still run (only those that wait for it themselves). `shared_bytes`: dynamic shared memory a block.
  void launch(const char* kernel, int blocks, int threads, std::vector<void*> parameters, bool dependent = false, u32 shared_bytes = 0) const;

  void fill(FillArguments f) const;
  u64 checksum(const void* base, std::size_t bytes) const;

  // The SMs' mean clock between two points of the stream, from their own counters; 0 where no SM was seen at both.
  void clock_begin() const { read_clocks(0); }
  void clock_end() const { read_clocks(1); }
  double clock_mhz() const;  // waits for clock_end()

 private:
  void load_kernels();
  void read_clocks(int end) const;

  int device_;
  const Driver* driver_ = nullptr;
  const DeviceInfo* info_ = nullptr;
  cuda::Context context_ = nullptr;
  cuda::Stream stream_ = nullptr;
  cuda::Module module_ = nullptr;
  Buffer scratch_, clocks_;
};

// A pair of events around work on the stream.
class Stopwatch {
 public:
  explicit Stopwatch(const Gpu& gpu);
  ~Stopwatch();
  void start() const;
  void stop() const;
  double seconds() const;  // waits for stop()

 private:
  const Gpu& gpu_;
  cuda::Event from_ = nullptr, to_ = nullptr;
};

// An instantiated graph of what `record` put on the stream.
class GraphReplay {
 public:
  template <class F> GraphReplay(const Gpu& gpu, F&& record) : gpu_(gpu) {
    begin();
    try {
      record();
    } catch (...) {
      abandon();
      throw;
    }
    end();
  }
  ~GraphReplay();
  GraphReplay(const GraphReplay&) = delete;
  GraphReplay& operator=(const GraphReplay&) = delete;
  void launch() const;

 private:
  void begin();
  void abandon();
  void end();
  const Gpu& gpu_;
  cuda::GraphExec exec_ = nullptr;
};

}  // namespace foretile::bench
