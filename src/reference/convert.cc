#include "reference/convert.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace foretile::reference {

namespace {

struct Format {
  int precision;     // bits of the significand, the hidden one included
  int min_exponent;  // of the smallest normal number
  double largest;
};

Format format_of(DType type) {
  switch (type) {
    case DType::fp32: return {24, -126, std::numeric_limits<float>::max()};
    case DType::fp16: return {11, -14, 65504.0};
    case DType::bf16: return {8, -126, std::ldexp(255.0, 120)};
    default: throw std::invalid_argument("the reference knows fp32, fp16, bf16 and, of A and B, tf32");
  }
}

template <class T> T read(const void* data, i64 index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * i64(sizeof(T)), sizeof(T));
  return value;
}
template <class T> void write(void* data, i64 index, T value) {
  std::memcpy(static_cast<char*>(data) + index * i64(sizeof(T)), &value, sizeof(T));
}

double half_value(u16 bits) {
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 31) return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// `value` must be representable.
u16 half_bits(double value) {
  const u16 sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return 0x7e00;
  if (std::isinf(value)) return sign | 0x7c00;
  const double magnitude = std::fabs(value);
  if (magnitude < std::ldexp(1.0, -14)) return u16(sign | u16(std::ldexp(magnitude, 24)));
  const int exponent = std::ilogb(magnitude);
  return u16(sign | ((exponent + 15) << 10) | (u16(std::ldexp(magnitude, 10 - exponent)) & 1023));
}

}  // namespace

double load(DType type, const void* data, i64 index) {
  switch (type) {
    case DType::fp32: return read<float>(data, index);
    case DType::tf32: {
      const u32 bits = read<u32>(data, index) & 0xffffe000;
      float value;
      std::memcpy(&value, &bits, 4);
      return value;
    }
    case DType::fp16: return half_value(read<u16>(data, index));
    case DType::bf16: {
      const u32 bits = u32(read<u16>(data, index)) << 16;
      float value;
      std::memcpy(&value, &bits, 4);
      return value;
    }
    default: throw std::invalid_argument("the reference knows fp32, fp16, bf16 and, of A and B, tf32");
  }
}

double rounded(DType type, double value) {
  const Format format = format_of(type);
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), format.min_exponent) - (format.precision - 1);
  // nearbyint rounds to nearest even; scaling by powers of two is exact.
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
  return std::fabs(result) > format.largest ? std::copysign(HUGE_VAL, value) : result;
}

void store(DType type, void* data, i64 index, double value) {
  type = stored_type(type);
  const double result = rounded(type, value);
  switch (type) {
    case DType::fp32: return write(data, index, float(result));
    case DType::fp16: return write(data, index, half_bits(result));
    default: {  // bf16: rounded() refused every other type
      const float single = std::isnan(result) ? std::numeric_limits<float>::quiet_NaN() : float(result);
      u32 bits;
      std::memcpy(&bits, &single, 4);
      return write(data, index, u16(bits >> 16));
    }
  }
}

}  // namespace foretile::reference
