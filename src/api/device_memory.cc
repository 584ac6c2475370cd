#include <fmt/format.h>

#include <utility>

#include "api/launch_plan.h"
#include "foretile/foretile.h"
#include "runtime/driver.h"

namespace foretile {

namespace {
cuda::DevicePointer address(const void* p) { return reinterpret_cast<cuda::DevicePointer>(p); }

Status check_size(const char* who, std::size_t wanted, std::size_t there) {
  if (wanted <= there) return {};
  return {Code::invalid_argument, fmt::format("{}: bytes is {}; allowed: up to the {} allocated", who, wanted, there)};
}
}  // namespace

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_), std::swap(bytes_, other.bytes_), std::swap(device_, other.device_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  const Driver* driver = loaded_driver();
  if (!data_ || !driver) return;
  const CallContext context(*driver, device_);
  if (context.status()) driver->memory_free(address(data_));
}

Status DeviceMemory::allocate(std::size_t bytes, int device) {
  *this = DeviceMemory();
  const Driver* driver = nullptr;
  if (Status s = load_driver(driver); !s) return s;
  const CallContext context(*driver, device);
  if (!context.status()) return context.status();
  cuda::DevicePointer pointer = 0;
  if (Status s = driver->check(driver->memory_allocate(&pointer, bytes ? bytes : 1), "cuMemAlloc"); !s) return {s.code(), fmt::format("{} of {} bytes", s.message(), bytes)};
  data_ = reinterpret_cast<void*>(pointer), bytes_ = bytes, device_ = context.device();
  return {};
}

Status DeviceMemory::upload(const void* from, std::size_t bytes) {
  if (Status s = check_size("upload", bytes, bytes_); !s || bytes == 0) return s;
  const CallContext context(*loaded_driver(), device_);
  if (!context.status()) return context.status();
  return loaded_driver()->check(loaded_driver()->copy_to_device(address(data_), from, bytes), "cuMemcpyHtoD");
}

Status DeviceMemory::download(void* to, std::size_t bytes) const {
  if (Status s = check_size("download", bytes, bytes_); !s || bytes == 0) return s;
  const CallContext context(*loaded_driver(), device_);
  if (!context.status()) return context.status();
  return loaded_driver()->check(loaded_driver()->copy_to_host(to, address(data_), bytes), "cuMemcpyDtoH");
}

}  // namespace foretile
