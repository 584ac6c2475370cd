#include "bench/gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "bench/plain_compile.h"
#include "runtime/nvrtc.h"

namespace foretile::bench {

namespace {
void require(const Status& status) {
  if (!status) throw std::runtime_error(status.message());
}
}  // namespace

Buffer::Buffer(const Gpu& gpu, std::size_t bytes) : gpu_(&gpu), size_(bytes) {
  gpu.check(gpu.driver().memory_allocate(&address_, std::max<std::size_t>(bytes, 16)), "cuMemAlloc");
}
Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }
Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}
Buffer::~Buffer() {
  if (address_) gpu_->driver().memory_free(address_);
}

std::string Gpu::why_not(int device) {
  const Driver* driver = nullptr;
  if (const Status s = load_driver(driver); !s) return s.message();
  const DeviceInfo* info = nullptr;
  if (const Status s = driver->device(device, info); !s) return s.message();
  const Nvrtc* nvrtc = nullptr;
  if (const Status s = load_nvrtc(nvrtc); !s) return s.message();
  return {};
}

Gpu::Gpu(int device) : device_(device) {
  require(load_driver(driver_));
  require(driver_->device(device, info_));
  require(driver_->primary_context(device, context_));
  bind_thread();
  constexpr unsigned kNonBlocking = 1;  // does not synchronise with the legacy default stream
  check(driver_->stream_create(&stream_, kNonBlocking), "cuStreamCreate");
  load_kernels();
  scratch_ = Buffer(*this, 64);
  clocks_ = Buffer(*this, static_cast<std::size_t>(info_->sms) * sizeof(ClockReading));
  set_bytes(clocks_.data(), 0, clocks_.size());
}

Gpu::~Gpu() {
  scratch_ = Buffer();
  clocks_ = Buffer();
  if (module_) driver_->module_unload(module_);
  if (stream_) driver_->stream_destroy(stream_);
  cuda::Context popped = nullptr;
  driver_->context_pop(&popped);
}

void Gpu::bind_thread() const { check(driver_->context_push(context_), "cuCtxPushCurrent"); }

std::string Gpu::pci_bus_id() const {
  char text[64] = {};
  void* library = dlopen(driver_->path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (!library) return {};
  const auto get = reinterpret_cast<cuda::Result (*)(char*, int, cuda::Device)>(dlsym(library, "cuDeviceGetPCIBusId"));
  cuda::Device handle = 0;
  const bool ok = get && driver_->device_get(&handle, device_) == cuda::kSuccess && get(text, int(sizeof text), handle) == cuda::kSuccess;
  dlclose(library);
  return ok ? text : "";
}

void Gpu::check(cuda::Result result, const char* what) const { require(driver_->check(result, what)); }
void Gpu::synchronize() const { check(driver_->stream_synchronize(stream_), "cuStreamSynchronize"); }

void Gpu::upload(void* to, const void* from, std::size_t bytes) const {
  if (!bytes) return;
  check(driver_->copy_to_device(reinterpret_cast<cuda::DevicePointer>(to), from, bytes), "cuMemcpyHtoD");
  check(driver_->context_synchronize(), "cuCtxSynchronize");  // the call may return before the last piece has arrived
}
// The copies run on the legacy stream, which the non-blocking stream does not wait for.
void Gpu::download(void* to, const void* from, std::size_t bytes) const {
  synchronize();
  if (!bytes) return;
  check(driver_->copy_to_host(to, reinterpret_cast<cuda::DevicePointer>(from), bytes), "cuMemcpyDtoH");
}
void Gpu::set_bytes(void* to, unsigned char value, std::size_t bytes) const {
  if (!bytes) return;
  synchronize();
  check(driver_->memory_set(reinterpret_cast<cuda::DevicePointer>(to), value, bytes), "cuMemsetD8");
  check(driver_->context_synchronize(), "cuCtxSynchronize");  // memset is asynchronous towards the host
}

void Gpu::copy(void* to, const void* from, std::size_t bytes) const {
  if (!bytes) return;
  synchronize();
  check(driver_->copy_on_device(reinterpret_cast<cuda::DevicePointer>(to), reinterpret_cast<cuda::DevicePointer>(from), bytes), "cuMemcpyDtoD");
  check(driver_->context_synchronize(), "cuCtxSynchronize");
}

void Gpu::load_kernels() {
  const std::string cubin = compile_plain(helper_source(), info_->compute_capability, "the benchmark's own kernels");
  check(driver_->module_load(&module_, cubin.data()), "cuModuleLoadData");
}

void Gpu::launch(const char* kernel, int blocks, int threads, std::vector<void*> parameters, bool dependent, u32 shared_bytes) const {
  cuda::Function function = nullptr;
  check(driver_->module_function(&function, module_, kernel), kernel);
  cuda::LaunchConfig config{};
  config.grid_x = unsigned(blocks), config.grid_y = config.grid_z = 1;
  config.block_x = unsigned(threads), config.block_y = config.block_z = 1;
  config.stream = stream_;
  config.shared_bytes = shared_bytes;
  if (shared_bytes) check(driver_->function_set(function, cuda::kMaxDynamicSharedBytes, int(shared_bytes)), "cuFuncSetAttribute");
  cuda::LaunchAttribute attribute{};
  attribute.id = cuda::kProgrammaticStreamSerialization;
  attribute.value.programmatic_stream_serialization = 1;
  if (dependent) config.attributes = &attribute, config.attribute_count = 1;
  check(driver_->launch(&config, function, parameters.data(), nullptr), kernel);
}

void Gpu::fill(FillArguments f) const {
  if (f.rows * f.columns * f.batch == 0) return;
  launch("fill", info_->sms * 8, 256, {&f});
}

u64 Gpu::checksum(const void* base, std::size_t bytes) const {
  u64 sum = 0;
  set_bytes(scratch_.data(), 0, sizeof sum);
  void* result = scratch_.data();
  i64 count = i64(bytes);
  launch("checksum", info_->sms * 4, 256, {&base, &count, &result});
  download(&sum, result, sizeof sum);
  return sum;
}

// Several small blocks an SM, so that each SM runs one.
void Gpu::read_clocks(int end) const {
  void* readings = clocks_.data();
  i64 sms = info_->sms;
  launch("read_clocks", info_->sms * 8, 32, {&readings, &sms, &end});
}

double Gpu::clock_mhz() const {
  std::vector<ClockReading> of_sm(static_cast<std::size_t>(info_->sms));
  download(of_sm.data(), clocks_.data(), of_sm.size() * sizeof of_sm[0]);
  double clocks = 0, nanoseconds = 0;
  for (const ClockReading& r : of_sm)
    if (r.nanoseconds[0] > 0 && r.nanoseconds[1] > r.nanoseconds[0]) clocks += double(r.clocks[1] - r.clocks[0]), nanoseconds += double(r.nanoseconds[1] - r.nanoseconds[0]);
  return nanoseconds > 0 ? clocks / nanoseconds * 1e3 : 0;
}

Stopwatch::Stopwatch(const Gpu& gpu) : gpu_(gpu) {
  gpu.check(gpu.driver().event_create(&from_, 0), "cuEventCreate");
  gpu.check(gpu.driver().event_create(&to_, 0), "cuEventCreate");
}
Stopwatch::~Stopwatch() {
  if (from_) gpu_.driver().event_destroy(from_);
  if (to_) gpu_.driver().event_destroy(to_);
}
void Stopwatch::start() const { gpu_.check(gpu_.driver().event_record(from_, gpu_.stream()), "cuEventRecord"); }
void Stopwatch::stop() const { gpu_.check(gpu_.driver().event_record(to_, gpu_.stream()), "cuEventRecord"); }
double Stopwatch::seconds() const {
  float milliseconds = 0;
  gpu_.check(gpu_.driver().event_synchronize(to_), "cuEventSynchronize");
  gpu_.check(gpu_.driver().event_elapsed(&milliseconds, from_, to_), "cuEventElapsedTime");
  return milliseconds * 1e-3;
}

void GraphReplay::begin() { gpu_.check(gpu_.driver().capture_begin(gpu_.stream(), cuda::kCaptureRelaxed), "cuStreamBeginCapture"); }
void GraphReplay::abandon() {
  cuda::Graph graph = nullptr;
  gpu_.driver().capture_end(gpu_.stream(), &graph);
  if (graph) gpu_.driver().graph_destroy(graph);
}
void GraphReplay::end() {
  cuda::Graph graph = nullptr;
  gpu_.check(gpu_.driver().capture_end(gpu_.stream(), &graph), "cuStreamEndCapture");
  const cuda::Result result = gpu_.driver().graph_instantiate(&exec_, graph, 0);
  gpu_.driver().graph_destroy(graph);
  gpu_.check(result, "cuGraphInstantiate");
}
GraphReplay::~GraphReplay() {
  if (exec_) gpu_.driver().graph_exec_destroy(exec_);
}
void GraphReplay::launch() const { gpu_.check(gpu_.driver().graph_launch(exec_, gpu_.stream()), "cuGraphLaunch"); }

}  // namespace foretile::bench
