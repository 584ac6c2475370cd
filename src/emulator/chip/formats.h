// Storage formats to fp32 and back.
#pragma once
#include "foretile/device/types.h"

namespace foretile::emulator {

// The 16 / size_of(type) elements in 16 bytes, as fp32. tf32 drops the 13 low bits, as the matrix unit does.
void decode_chunk(DType type, const u8* bytes, float* values);
float fp16_to_float(u16 bits);
float fp8_to_float(u8 bits, int exponent_bits);  // 4: e4m3 (no infinity), 5: e5m2

}  // namespace foretile::emulator
