// Testing a kernel of one's own on the CPU: written against Foretile's vocabulary, run in the emulator, right, and then with a
// wait left out. The same function compiles for the GPU by NVRTC or nvcc.
//   cmake: find_package(Foretile REQUIRED); target_link_libraries(emulate PRIVATE Foretile::foretile)
#include <foretile/device/vocabulary/vocabulary.h>
#include <foretile/emulator.h>

#include <cstdio>
#include <numeric>
#include <vector>

using namespace foretile;

namespace {

constexpr u32 kRows = 8, kColumns = 32, kTileBytes = kRows * kColumns * sizeof(float);

struct Arguments {
  TensorMap in;  // boxes of kRows x kColumns
  float* out;    // one sum a column and tile
  bool forget_to_wait;
};

// A block a tile: one thread has the tile copied into shared memory, then every thread adds up a column.
void add_columns(const Arguments& args) {
  const SmemAddress tile = shared_base();
  const Mbarrier full{tile + kTileBytes};
  if (thread_index() == 0) {
    mbarrier_init(full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(full, kTileBytes);
    tma_load(tile, args.in, {0, i32(block_index().x * kRows), 0}, full);
  }
  sync_block();
  if (!args.forget_to_wait) mbarrier_wait(full, 0);
  float sum = 0;
  for (u32 row = 0; row < kRows; ++row) sum += load_shared<float>(tile + 4 * (row * kColumns + thread_index()));
  store_global(args.out + block_index().x * kColumns + thread_index(), sum);
  if (args.forget_to_wait) mbarrier_wait(full, 0);
}

}  // namespace

int main() {
  constexpr u32 kTiles = 3;
  alignas(128) static float in[kTiles * kRows * kColumns];
  std::iota(std::begin(in), std::end(in), 0.0f);
  std::vector<float> out(kTiles * kColumns);

  TensorMapSpec map;
  map.base = in, map.type = DType::fp32;
  map.extent[0] = kColumns, map.extent[1] = kTiles * kRows;
  map.stride_bytes[0] = kColumns * sizeof(float), map.stride_bytes[1] = sizeof(in);
  map.box[0] = kColumns, map.box[1] = kRows;
  const LaunchShape grid{.blocks = kTiles, .threads = kColumns, .shared_bytes = kTileBytes + 8};
  const std::vector<emulator::Region> memory = {{in, sizeof(in), false, "in"}, {out.data(), out.size() * sizeof(float), true, "out"}};

  Arguments args{emulator::encode_tensor_map(map), out.data(), false};
  const emulator::Report right = emulate(add_columns, grid, args, memory);
  std::printf("the kernel: %s\n", right.text().c_str());
  int wrong = 0;
  for (u32 i = 0; i < out.size(); ++i) {
    float sum = 0;
    for (u32 row = 0; row < kRows; ++row) sum += in[(i / kColumns * kRows + row) * kColumns + i % kColumns];
    wrong += out[i] != sum;
  }
  std::printf("%d of %zu sums are wrong\n", wrong, out.size());

  args.forget_to_wait = true;
  const emulator::Report broken = emulate(add_columns, grid, args, memory, {.async = emulator::Async::eager});  // the copy is fast: a GPU may never show it
  std::printf("without the wait: %s\n", broken.text().c_str());
  return right.clean() && wrong == 0 && broken.has("race") ? 0 : 1;
}
