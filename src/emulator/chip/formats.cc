#include "emulator/chip/formats.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "foretile/device/vocabulary/vocabulary.h"

namespace foretile::emulator {

namespace {

u32 bits_of(float x) { return std::bit_cast<u32>(x); }
float from_bits(u32 b) { return std::bit_cast<float>(b); }

std::array<float, 256> fp8_table(int exponent_bits) {
  std::array<float, 256> table;
  for (int i = 0; i < 256; ++i) table[std::size_t(i)] = fp8_to_float(u8(i), exponent_bits);
  return table;
}

template <class Stored, class Decode> void decode_each(const u8* bytes, float* values, Decode&& decode) {
  Stored stored[16 / sizeof(Stored)];
  std::memcpy(stored, bytes, 16);
  for (const Stored x : stored) *values++ = decode(x);
}

}  // namespace

float fp16_to_float(u16 h) {
  const u32 sign = u32(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3FF;
  if (exponent == 31) return from_bits(sign | 0x7F800000 | mantissa << 13);
  if (exponent) return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  const float tiny = float(mantissa) * 0x1p-24f;
  return sign ? -tiny : tiny;
}

float fp8_to_float(u8 x, int exponent_bits) {
  const int mantissa_bits = 7 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = x >> mantissa_bits & ((1 << exponent_bits) - 1), mantissa = x & ((1 << mantissa_bits) - 1);
  float value;
  if (exponent_bits == 5 && exponent == 31) value = mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  else if (exponent_bits == 4 && (x & 0x7F) == 0x7F) value = std::numeric_limits<float>::quiet_NaN();
  else if (exponent == 0) value = std::ldexp(float(mantissa), 1 - bias - mantissa_bits);
  else value = std::ldexp(float(mantissa + (1 << mantissa_bits)), exponent - bias - mantissa_bits);
  return x & 0x80 ? -value : value;
}

void decode_chunk(DType type, const u8* bytes, float* values) {
  static const std::array<float, 256> e4m3_values = fp8_table(4), e5m2_values = fp8_table(5);
  switch (type) {
    case DType::bf16: return decode_each<u16>(bytes, values, [](u16 x) { return from_bits(u32(x) << 16); });
    case DType::fp16: return decode_each<u16>(bytes, values, fp16_to_float);
    case DType::tf32: return decode_each<float>(bytes, values, cut_to_tf32);
    case DType::e4m3: return decode_each<u8>(bytes, values, [](u8 x) { return e4m3_values[x]; });
    case DType::e5m2: return decode_each<u8>(bytes, values, [](u8 x) { return e5m2_values[x]; });
    case DType::int8: return decode_each<i8>(bytes, values, [](i8 x) { return float(x); });
    case DType::fp32:
    case DType::int32: return;
  }
}

u16 float_to_bf16(float x) {
  const u32 b = bits_of(x);
  if ((b & 0x7FFFFFFF) > 0x7F800000) return u16(b >> 16 | 0x40);  // NaN stays NaN, quiet
  return u16((b + 0x7FFF + (b >> 16 & 1)) >> 16);
}

u16 float_to_fp16(float x) {
  const u32 b = bits_of(x), sign = b >> 16 & 0x8000, magnitude = b & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return u16(sign | 0x7E00);
  if (magnitude >= 0x47800000) return u16(sign | 0x7C00);  // 65536 and beyond
  if (magnitude < 0x38800000) {                            // below the smallest normal number
    // Adding 0.5 puts the subnormal's last place at fp32's last place: the addition itself rounds to nearest even.
    return u16(sign | (bits_of(from_bits(magnitude) + 0.5f) - 0x3F000000));
  }
  const u32 rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
  return u16(sign | ((rounded - 0x38000000) >> 13));
}

}  // namespace foretile::emulator

namespace foretile {

float to_float(bf16 x) { return emulator::from_bits(u32(x.bits) << 16); }
float to_float(fp16 x) { return emulator::fp16_to_float(x.bits); }
float cut_to_tf32(float x) { return emulator::from_bits(emulator::bits_of(x) & ~0x1FFFu); }
float multiply_add(float a, float b, float c) { return std::fma(a, b, c); }
float exponential(float x) { return std::exp(x); }
float error_function(float x) { return std::erf(x); }
float reciprocal(float x) {
  const float y = 1 / x;
  return std::fpclassify(y) == FP_SUBNORMAL ? std::copysign(0.0f, y) : y;
}
float maximum(float a, float b) { return std::fmax(a, b); }

}  // namespace foretile
