// Calls of one warp that compute: mma.sync and the shuffle.
#include <cstring>

#include "emulator/collective.h"
#include "emulator/numeric.h"
#include "foretile/device/layout/fragment.h"

namespace foretile::emulator {

float Machine::shuffle_xor(float value, u32 mask, Site site) {
  ++progress_;
  Thread& t = me();
  Warp& w = t.warp();
  if (mask >= kWarp) fail("out-of-bounds", site, "shuffle_xor with mask " + std::to_string(mask) + ": must be below 32");
  std::memcpy(&w.address[t.lane()], &value, 4);
  check_poison(&value, 4, site);
  // The values are taken when the last lane has come; a lane that runs on could otherwise overwrite its own first.
  collective(w.rendezvous, kWarp, "shuffle_xor", site, {mask, 0, 0}, true, [&] {
    for (u32 lane = 0; lane < kWarp; ++lane) w.data[lane][0] = w.address[lane ^ mask];
  });
  float result;
  std::memcpy(&result, &w.data[t.lane()][0], 4);
  return result;
}

void Machine::mma_sync(DType type, float* d, const u32* a, const u32* b, Site site) {
  ++progress_;
  Thread& t = me();
  Warp& w = t.warp();
  for (u32 i = 0; i < 4; ++i) w.data[t.lane()][i] = a[i];
  for (u32 i = 0; i < 2; ++i) w.second[t.lane()][i] = b[i];
  w.registers_of[t.lane()] = d;
  collective(w.rendezvous, kWarp, "mma_sync", site, {}, true, [&] {
    float left[16][16], right[8][16];
    const auto value = [&](u32 word, int half) {
      const u16 bits = u16(word >> 16 * half);
      return type == DType::bf16 ? to_float(bf16{bits}) : to_float(fp16{bits});
    };
    for (int lane = 0; lane < int(kWarp); ++lane)
      for (int half = 0; half < 2; ++half) {
        for (int r = 0; r < 4; ++r) {
          const Element e = mma_a(lane, r);
          left[e.row][e.column + half] = value(w.data[std::size_t(lane)][std::size_t(r)], half);
        }
        for (int r = 0; r < 2; ++r) {
          const Element e = mma_b(lane, r);
          right[e.row][e.column + half] = value(w.second[std::size_t(lane)][std::size_t(r)], half);
        }
      }
    for (int lane = 0; lane < int(kWarp); ++lane)
      for (int i = 0; i < 4; ++i) {
        const Element e = mma_accumulator(lane, i);
        float sum = 0;
        for (int k = 0; k < 16; ++k) sum += left[e.row][k] * right[e.column][k];
        w.registers_of[std::size_t(lane)][i] += sum;
      }
  });
}

}  // namespace foretile::emulator
