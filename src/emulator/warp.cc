// Calls of one warp that move or compute: stmatrix, ldmatrix, the shuffle, mma.sync.
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/chip/matrix.h"
#include "emulator/machine.h"

namespace foretile::emulator {

namespace {

// A lane's register holds two elements of an 8x8 matrix: neighbours in row lane / 4 or, transposed, down column lane / 4.
// Calls each(lane, byte in the row, byte in the register) for the eight elements of a row.
template <class Each> void for_elements(bool transposed, u32 row, Each&& each) {
  for (u32 k = 0; k < 8; ++k) {
    const u32 lane = transposed ? 4 * k + row / 2 : 4 * row + k / 2;
    each(lane, 2 * k, transposed ? row % 2 * 2 : k % 2 * 2);
  }
}

}  // namespace

// Row r of matrix i comes from the lanes' registers i and goes to the address that lane 8i+r gave.
void Machine::store_matrix(u32 row, const u32* fragments, u32 count, const char* call, bool transposed, Site site) {
  Thread& t = me();
  Warp& w = t.warp();
  tell([&](Observer& o) { o.access(count == 4 ? LaneAccess::four_matrices : LaneAccess::two_matrices, call, t, row, 16, site); });
  ++progress_;
  w.address[t.lane()] = row;
  check_poison(fragments, 4 * count, site);
  std::copy_n(fragments, count, w.data[t.lane()].begin());
  collective(w.rendezvous, kWarp, call, site, [&] {
    for (u32 lane = 0; lane < 8 * count; ++lane) {
      u8* const at = touch_own(*t.block->threads[t.index - t.lane() + lane], w.address[lane], 16, true, call, site);
      for_elements(transposed, lane % 8, [&](u32 holder, u32 in_row, u32 in_register) {
        std::memcpy(at + in_row, reinterpret_cast<const u8*>(&w.data[holder][lane / 8]) + in_register, 2);
      });
    }
  });
}

// The other way round, four matrices.
u32x4 Machine::load_matrix(u32 row, const char* call, bool transposed, Site site) {
  Thread& t = me();
  Warp& w = t.warp();
  tell([&](Observer& o) { o.access(LaneAccess::four_matrices, call, t, row, 16, site); });
  ++progress_;
  w.address[t.lane()] = row;
  collective(w.rendezvous, kWarp, call, site, [&] {
    for (u32 lane = 0; lane < kWarp; ++lane) {
      const u8* const at = touch_own(*t.block->threads[t.index - t.lane() + lane], w.address[lane], 16, false, call, site);
      for_elements(transposed, lane % 8, [&](u32 holder, u32 in_row, u32 in_register) {
        std::memcpy(reinterpret_cast<u8*>(&w.data[holder][lane / 8]) + in_register, at + in_row, 2);
      });
    }
  });
  // No lane can overwrite this before all 32 have come to the next collective call.
  return std::bit_cast<u32x4>(w.data[t.lane()]);
}

float Machine::shuffle_xor(float value, u32 mask, Site site) {
  ++progress_;
  Thread& t = me();
  Warp& w = t.warp();
  if (mask >= kWarp) fail("out-of-bounds", site, "shuffle_xor with mask {}: must be below 32", mask);
  w.address[t.lane()] = std::bit_cast<u32>(value);
  check_poison(&value, 4, site);
  // The values are taken when the last lane has come; a lane that runs on could otherwise overwrite its own first.
  const auto exchange = [&] {
    for (u32 lane = 0; lane < kWarp; ++lane) w.data[lane][0] = w.address[lane ^ mask];
  };
  collective(w.rendezvous, kWarp, "shuffle_xor", site, exchange, {mask, 0, 0});
  return std::bit_cast<float>(w.data[t.lane()][0]);
}

void Machine::mma_sync(DType type, float* d, const u32* a, const u32* b, Site site) {
  ++progress_;
  Thread& t = me();
  Warp& w = t.warp();
  std::copy_n(a, 4, w.data[t.lane()].begin());
  std::copy_n(b, 2, w.second[t.lane()].begin());
  w.registers_of[t.lane()] = d;
  collective(w.rendezvous, kWarp, "mma_sync", site, [&] { multiply_in_warp(type, w.data, w.second, w.registers_of); });
}

}  // namespace foretile::emulator
