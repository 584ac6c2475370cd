// Inputs of the golden dumps: random-looking values derived from an integer hash, so that a dump stores results only.
// Shared by the dump tool (on the GPU host) and by the replay tests (anywhere).
#pragma once
#include <cstdint>

namespace golden {

// A 32-bit mix (two multiply-xorshift rounds). hash(0, 0) = 0 on purpose left as it is: no value is special to us.
constexpr std::uint32_t hash(std::uint32_t index, std::uint32_t seed) {
  std::uint32_t x = index * 0x9E3779B1u + seed * 0x85EBCA77u;
  x ^= x >> 15;
  x *= 0x2C1B3C6Du;
  x ^= x >> 12;
  x *= 0x297A2D39u;
  x ^= x >> 15;
  return x;
}

// Element types by name, with the layout of their bits. Biased exponents; int8 has none.
struct Format {
  const char* name;
  int bytes, exponent_bits, mantissa_bits, bias;
  int top;     // exponent of the power of two the accumulator probes use as the large term
  int bottom;  // smallest power of two the format holds, subnormals included
};
inline constexpr Format kFormats[] = {
    {"bf16", 2, 8, 7, 127, 0, -30},  {"fp16", 2, 5, 10, 15, 0, -24}, {"tf32", 4, 8, 10, 127, 0, -30},
    {"e4m3", 1, 4, 3, 7, 8, -9},     {"e5m2", 1, 5, 2, 15, 8, -16},  {"int8", 1, 0, 7, 0, 0, 0},
};
enum Type { bf16 = 0, fp16 = 1, tf32 = 2, e4m3 = 3, e5m2 = 4, int8 = 5 };

// Bit pattern of sign * 2^exponent * 1.mantissa (mantissa from the top bits of `fraction`, 32 bits). Exponents below the
// normal range give the subnormal power of two with no further mantissa bits. tf32 stands in the high bits of fp32.
constexpr std::uint32_t encode(Type type, bool negative, int exponent, std::uint32_t fraction) {
  const Format f = kFormats[type];
  const int biased = exponent + f.bias;
  std::uint32_t bits = 0;
  if (biased >= 1) {
    bits = std::uint32_t(biased) << f.mantissa_bits | fraction >> (32 - f.mantissa_bits);
  } else {
    const int position = f.mantissa_bits - 1 + biased;  // 2^(1 - bias) has weight 2^mantissa_bits
    bits = position >= 0 ? 1u << position : 0;
  }
  bits |= std::uint32_t(negative) << (f.exponent_bits + f.mantissa_bits);
  return type == tf32 ? bits << 13 : bits;
}

// Small non-negative integers 0..8, exact in every format.
constexpr std::uint32_t encode_integer(Type type, int value) {
  if (type == int8) return std::uint32_t(value) & 0xFF;
  if (value == 0) return 0;
  int exponent = 0;
  while (value >> (exponent + 1)) ++exponent;
  return encode(type, false, exponent, exponent ? std::uint32_t(value - (1 << exponent)) << (32 - exponent) : 0);
}

// Two data sets. narrow: magnitudes in [1/4, 4). wide: twelve binades, so that alignment and truncation show.
enum DataSet { narrow = 0, wide = 1 };
constexpr std::uint32_t random_element(Type type, DataSet set, std::uint32_t index, std::uint32_t seed) {
  const std::uint32_t h = hash(index, seed), g = hash(index, seed + 1000);
  if (type == int8) return h & 0xFF;
  const int exponent = set == narrow ? int(g % 4) - 2 : int(g % 12) - 6;
  return encode(type, h & 1, exponent, h);
}

// fp32 bits of a random initial accumulator: 16 binades, full mantissa.
constexpr std::uint32_t random_accumulator(std::uint32_t index) {
  return (hash(index, 3) & 1) << 31 | (123 + hash(index, 4) % 16) << 23 | (hash(index, 5) & 0x7FFFFF);
}

// The value of a bit pattern; exact in double.
inline double decode(Type type, std::uint32_t bits) {
  const Format f = kFormats[type];
  if (type == int8) return double(std::int8_t(bits));
  if (type == tf32) bits >>= 13;
  const bool negative = bits >> (f.exponent_bits + f.mantissa_bits) & 1;
  const int biased = int(bits >> f.mantissa_bits & ((1u << f.exponent_bits) - 1));
  double value = double(bits & ((1u << f.mantissa_bits) - 1)) + (biased ? double(1u << f.mantissa_bits) : 0);
  for (int e = (biased ? biased : 1) - f.bias - f.mantissa_bits; e != 0; e += e < 0 ? 1 : -1) value *= e < 0 ? 0.5 : 2.0;
  return negative ? -value : value;
}

}  // namespace golden
