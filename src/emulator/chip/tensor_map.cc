#include "emulator/chip/tensor_map.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

#include "foretile/emulator.h"

namespace foretile::emulator {

// The rules of cuTensorMapEncodeTiled (CUDA driver API).
TensorMap encode_tensor_map(const TensorMapSpec& s) {
  const auto require = [](bool ok, const std::string& message) {
    if (!ok) throw std::invalid_argument("tensor map: " + message);
  };
  require(s.base && reinterpret_cast<std::uintptr_t>(s.base) % 16 == 0, "the base address must be a multiple of 16");
  for (int i = 0; i < 3; ++i) {
    require(s.extent[i] >= 1 && s.extent[i] <= (u64(1) << 32), fmt::format("extent {} is {}: must be 1 to 2^32", i, s.extent[i]));
    require(s.box[i] >= 1 && s.box[i] <= 256, fmt::format("box {} is {}: must be 1 to 256 elements", i, s.box[i]));
  }
  for (int i = 0; i < 2; ++i)
    require(s.stride_bytes[i] % 16 == 0 && s.stride_bytes[i] < (u64(1) << 40),
            fmt::format("stride {} is {} bytes: must be a multiple of 16, below 2^40", i, s.stride_bytes[i]));
  const u64 inner = s.box[0] * u64(size_of(s.type));
  require(inner % 16 == 0, fmt::format("the box's inner dimension has {} bytes: must be a multiple of 16", inner));
  if (s.swizzle != Swizzle::none) {
    const u64 span = u64(span_of(s.swizzle));
    require(inner <= span, fmt::format("the box's inner dimension has {} bytes: more than the swizzle's span of {}", inner, span));
    require(inner == span, fmt::format("the emulator models swizzled boxes that fill the span: {} bytes of {}", inner, span));
  }
  EncodedMap m{};
  m.magic = kTensorMapMagic;
  m.base = static_cast<const u8*>(s.base);
  for (int i = 0; i < 3; ++i) m.extent[i] = s.extent[i], m.box[i] = s.box[i];
  for (int i = 0; i < 2; ++i) m.stride[i] = s.stride_bytes[i];
  m.type = s.type;
  m.swizzle = s.swizzle;
  TensorMap map{};
  std::memcpy(&map, &m, sizeof(m));
  return map;
}

}  // namespace foretile::emulator
