// The emulator against what the chip did. Emulator and headers share lines, so this is where an error common to both ends
// of a load and a multiply would show.
#include "golden_test.h"

#include <cmath>
#include <cstring>

#include "foretile/emulator.h"
#include "foretile/device/layout/descriptor.h"
#include "foretile/device/layout/fragment.h"
#include "foretile/device/vocabulary/vocabulary.h"

namespace {

using namespace foretile;
using emulator::Options;
using emulator::Region;
using emulator::Report;

// One warpgroup, everything behind a barrier: nothing to race with.
Options quick() {
  Options o;
  o.races = false;
  return o;
}

void copy_to_shared(SmemAddress to, const u32x4* from, u32 bytes) {
  for (u32 i = thread_index(); i < bytes / 16; i += 128) store_shared(to + 16 * i, load_global(from + i));
  fence_proxy_async();
  sync_block();
}

template <DType T, int N, bool TransposeA, bool TransposeB>
Report run(const std::vector<u32x4>& image, u64 a, u64 b, int steps, u32 advance, const float* init, std::vector<float>& out) {
  out.assign(std::size_t(64) * N, 0);
  const u32 bytes = u32(image.size() * 16);
  const auto body = [&] {
    const SmemAddress base = shared_base();
    copy_to_shared(base, image.data(), bytes);
    float acc[N / 2];
    const u32 t = thread_index();
    for (int i = 0; i < N / 2; ++i) {
      const Element e = wgmma_accumulator(int(t), i);
      acc[i] = init ? load_global(init + e.row * N + e.column) : 0;
    }
    wgmma_fence();
    for (int s = 0; s < steps; ++s) wgmma<T, N, TransposeA, TransposeB>(acc, a + (base.value >> 4) + u64(s) * (advance >> 4), b + (base.value >> 4) + u64(s) * (advance >> 4), true);
    wgmma_commit();
    wgmma_wait<0>();
    for (int i = 0; i < N / 2; ++i) {
      const Element e = wgmma_accumulator(int(t), i);
      store_global(out.data() + e.row * N + e.column, acc[i]);
    }
  };
  std::vector<Region> regions = {{image.data(), bytes, false, "image"}, {out.data(), out.size() * 4, true, "out"}};
  if (init) regions.push_back({init, out.size() * 4, false, "init"});
  return emulator::emulate({.blocks = 1, .threads = 128, .shared_bytes = bytes}, body, regions, quick());
}

using Run = Report (*)(const std::vector<u32x4>&, u64, u64, int, u32, const float*, std::vector<float>&);
template <DType T, bool TA, bool TB> Run run_of_width(int n) {
  switch (n) {
    case 8: return run<T, 8, TA, TB>;
    case 16: return run<T, 16, TA, TB>;
    case 32: return run<T, 32, TA, TB>;
    case 64: return run<T, 64, TA, TB>;
    case 96: return run<T, 96, TA, TB>;
    case 256: return run<T, 256, TA, TB>;
  }
  return nullptr;
}
template <DType T> Run run_of(int n, bool ta, bool tb) {
  if constexpr (size_of(T) == 2) {
    if (ta) return run_of_width<T, true, false>(n);
    if (tb) return run_of_width<T, false, true>(n);
  }
  return run_of_width<T, false, false>(n);
}
Run run_of(DType type, int n, bool ta, bool tb) {
  switch (type) {
    case DType::bf16: return run_of<DType::bf16>(n, ta, tb);
    case DType::fp16: return run_of<DType::fp16>(n, ta, tb);
    case DType::tf32: return run_of<DType::tf32>(n, ta, tb);
    case DType::e4m3: return run_of<DType::e4m3>(n, ta, tb);
    case DType::e5m2: return run_of<DType::e5m2>(n, ta, tb);
    default: return run_of<DType::int8>(n, ta, tb);
  }
}

struct Image {
  std::vector<u32x4> words;
  explicit Image(u32 bytes) : words(bytes / 16) { std::memset(words.data(), 0, bytes); }
  void put(u32 offset, int size, u32 bits) { std::memcpy(reinterpret_cast<u8*>(words.data()) + offset, &bits, std::size_t(size)); }
  void put_k_major(u32 tile, golden::Type t, u32 row, u32 k, u32 bits) {
    const int size = golden::kFormats[t].bytes;
    put(swizzle_address(tile + row * 128 + k * u32(size), Swizzle::bytes128), size, bits);
  }
};

double value_of(DType type, float register_bits) {
  if (type != DType::int8) return double(register_bits);
  i32 i;
  std::memcpy(&i, &register_bits, 4);
  return i;
}

TEST(GoldenEmulator, WgmmaTakesTheElementsTheChipTook) {
  READ_GOLDEN_OR_SKIP(file, "layout.golden");
  constexpr u32 kRegion = 64 * 1024;
  int checked = 0;
  for (const golden::Record& r : file.records) {
    if (r.kind != "wgmma-map") continue;
    const golden::Type t = golden::type_of(r.word("type"));
    const DType type = golden::dtype_of(r.word("type"));
    const bool operand_a = r.word("operand") == "A", mn = r.word("major") == "mn";
    const u32 size = u32(size_of(type)), depth = 32 / size, rows = operand_a ? 64 : u32(r.number("n"));
    const int n = operand_a ? int(depth < 8 ? 8 : depth) : int(r.number("n"));
    const auto map = r.as<u16>();
    const u64 probed = u64(r.number("start") >> 4) | u64(r.number("lbo") >> 4) << 16 | u64(r.number("sbo") >> 4) << 32 | u64(r.number("swizzle")) << 62;
    const u64 identity = k_major_descriptor(kRegion);
    std::vector<u32> got(rows * depth, 0);
    // Wide operands cost the most and say the least: two of the six digits are enough for them.
    for (int digit = 0; digit < 6; digit += rows > 96 ? 3 : 1) {
      Image image(kRegion + 8192);
      for (u32 e = 0; e < kRegion / size; ++e) image.put(e * size, int(size), golden::encode_integer(t, e >> 3 * digit & 7));
      for (u32 i = 0; i < depth; ++i) image.put_k_major(kRegion, t, i, i, golden::encode_integer(t, 1));
      std::vector<float> d;
      const Report report = run_of(type, n, operand_a && mn, !operand_a && mn)(image.words, operand_a ? probed : identity, operand_a ? identity : probed, 1, 0, nullptr, d);
      ASSERT_TRUE(report.clean()) << golden::describe(r) << "\n" << report.text();
      int wrong = 0;
      for (u32 row = 0; row < rows; ++row)
        for (u32 k = 0; k < depth; ++k) {
          const double v = value_of(type, operand_a ? d[row * u32(n) + k] : d[k * u32(n) + row]);
          if (!(v == (map[row * depth + k] >> 3 * digit & 7)) && wrong++ == 0)
            ADD_FAILURE() << golden::describe(r) << ": element (" << row << ", " << k << ") stands at byte " << map[row * depth + k] * size << " on the chip; base-8 digit " << digit << " of its index is " << v << " in the emulator";
        }
    }
    ++checked;
  }
  EXPECT_GE(checked, 100);
}

TEST(GoldenEmulator, TmaLoadsCompleteWithTheFullBox) {
  READ_GOLDEN_OR_SKIP(file, "tma.golden");
  int checked = 0;
  for (const golden::Record& r : file.records) {
    if (r.kind != "tma-load") continue;
    const long pitch = r.number("pitch"), rows = r.number("rows"), batches = r.number("batches");
    std::vector<u16> memory(std::size_t(pitch * rows * batches) + 8);
    u16* tensor = memory.data();
    while (reinterpret_cast<std::uintptr_t>(tensor) % 16) ++tensor;
    for (long i = 0; i < pitch * rows * batches; ++i) tensor[i] = u16(i + 1);
    TensorMapSpec spec;
    spec.base = tensor, spec.type = DType::bf16;
    spec.extent[0] = u64(r.number("inner")), spec.extent[1] = u64(rows), spec.extent[2] = u64(batches);
    spec.stride_bytes[0] = u64(pitch * 2), spec.stride_bytes[1] = u64(pitch * rows * 2);
    spec.box[0] = u32(r.number("box0")), spec.box[1] = u32(r.number("box1")), spec.box[2] = u32(r.number("box2"));
    constexpr Swizzle codes[] = {Swizzle::none, Swizzle::bytes32, Swizzle::bytes64, Swizzle::bytes128};
    spec.swizzle = codes[r.number("swizzle")];
    const TensorMap map = emulator::encode_tensor_map(spec);
    const u32 bytes = 8192;
    const auto load = [&](u32 expect, std::vector<u32>& out) {
      out.assign(bytes / 4, 0);
      const auto body = [&] {
        const SmemAddress base = shared_base();
        const Mbarrier barrier{base + bytes};
        for (u32 i = thread_index(); i < bytes / 4; i += 128) store_shared(base + 4 * i, u32(0xEEEEEEEE));
        if (thread_index() == 0) mbarrier_init(barrier, 1), fence_mbarrier_init();
        fence_proxy_async();
        sync_block();
        if (thread_index() == 0) {
          mbarrier_arrive_expect(barrier, expect);
          tma_load(base + u32(r.number("destination")), map, {i32(r.number("x")), i32(r.number("y")), i32(r.number("z"))}, barrier);
        }
        mbarrier_wait(barrier, 0);
        for (u32 i = thread_index(); i < bytes / 4; i += 128) store_global(out.data() + i, load_shared<u32>(base + 4 * i));
      };
      return emulator::emulate({.blocks = 1, .threads = 128, .shared_bytes = bytes + 8}, body, {{tensor, std::size_t(pitch * rows * batches * 2), false, "tensor"}, {out.data(), out.size() * 4, true, "out"}});
    };
    std::vector<u32> out;
    const Report full = load(u32(r.number("box_bytes")), out);
    EXPECT_EQ(full.clean(), r.number("completes_full") == 1) << golden::describe(r) << "\n" << full.text();
    EXPECT_EQ(std::memcmp(out.data(), r.data.data(), r.data.size()), 0) << golden::describe(r) << ": shared memory differs from the chip's";
    // With fewer bytes expected than the box has, the count of a barrier passes zero or not, as the bytes come in: on the
    // chip either was seen. A kernel that does so is wrong; the emulator says so whenever its barrier stays open.
    ++checked;
  }
  EXPECT_EQ(checked, 32);
}

TEST(GoldenEmulator, TmaStores) {
  READ_GOLDEN_OR_SKIP(file, "tma.golden");
  int checked = 0;
  for (const golden::Record& r : file.records) {
    if (r.kind != "tma-store") continue;
    const long pitch = r.number("pitch"), rows = r.number("rows"), batches = r.number("batches"), count = pitch * rows * batches;
    std::vector<u16> memory(std::size_t(count) + 8, 0xEEEE);
    u16* tensor = memory.data();
    while (reinterpret_cast<std::uintptr_t>(tensor) % 16) ++tensor;
    TensorMapSpec spec;
    spec.base = tensor, spec.type = DType::bf16;
    spec.extent[0] = u64(r.number("inner")), spec.extent[1] = u64(rows), spec.extent[2] = u64(batches);
    spec.stride_bytes[0] = u64(pitch * 2), spec.stride_bytes[1] = u64(pitch * rows * 2);
    spec.box[0] = u32(r.number("box0")), spec.box[1] = u32(r.number("box1")), spec.box[2] = u32(r.number("box2"));
    constexpr Swizzle codes[] = {Swizzle::none, Swizzle::bytes32, Swizzle::bytes64, Swizzle::bytes128};
    spec.swizzle = codes[r.number("swizzle")];
    const TensorMap map = emulator::encode_tensor_map(spec);
    const u32 bytes = 8192;
    const Report report = emulator::emulate({.blocks = 1, .threads = 128, .shared_bytes = bytes},
        [&] {
          const SmemAddress base = shared_base();
          for (u32 i = thread_index(); i < bytes / 4; i += 128) store_shared(base + 4 * i, u32((2 * i + 1) | (2 * i + 2) << 16));
          fence_proxy_async();
          sync_block();
          if (thread_index() == 0) {
            tma_store(map, {i32(r.number("x")), i32(r.number("y")), i32(r.number("z"))}, base);
            bulk_commit();
            bulk_wait<0>();
          }
        },
        {{tensor, std::size_t(count * 2), true, "tensor"}});
    ASSERT_TRUE(report.clean()) << golden::describe(r) << "\n" << report.text();
    std::vector<u16> written;
    for (long i = 0; i < count; ++i)
      if (tensor[i] != 0xEEEE) written.push_back(u16(i)), written.push_back(tensor[i]);
    EXPECT_EQ(written, r.as<u16>()) << golden::describe(r);
    ++checked;
  }
  EXPECT_EQ(checked, 16);
}

TEST(GoldenEmulator, MatrixMoves) {
  READ_GOLDEN_OR_SKIP(file, "tma.golden");
  int checked = 0;
  for (const golden::Record& r : file.records) {
    if (r.kind != "stmatrix") continue;
    std::vector<u32> out(128);
    const bool four = r.number("count") == 4;
    const Report report = emulator::emulate({.blocks = 1, .threads = 32, .shared_bytes = 512},
        [&] {
          const SmemAddress base = shared_base();
          const u32 lane = lane_index();
          const auto code = [&](u32 i) { return (2 * (8 * lane + i)) | (2 * (8 * lane + i) + 1) << 16; };
          for (u32 i = 0; i < 4; ++i) store_shared(base + 4 * (lane + 32 * i), u32(0xEEEEEEEE));
          sync_warp();
          if (four) store_matrix_x4(base + 16 * lane, {code(0), code(1), code(2), code(3)});
          else store_matrix_x2(base + 16 * lane, {code(0), code(1)});
          sync_warp();
          for (u32 i = 0; i < 4; ++i) store_global(out.data() + lane + 32 * i, load_shared<u32>(base + 4 * (lane + 32 * i)));
        },
        {{out.data(), 512, true, "out"}});
    ASSERT_TRUE(report.clean()) << report.text();
    EXPECT_EQ(out, r.as<u32>()) << golden::describe(r);
    ++checked;
  }
  EXPECT_EQ(checked, 2);
}

// The emulator adds in IEEE fp32; the chip aligns the addends of a step and cuts them. Both must lie within what
// src/reference/check.h allows: 18 units in the last place of the largest magnitude a step. int8 is exact. fp8 keeps fewer
// bits (accumulate_test.cc has how many): 2^-13 of the largest addend, each.
TEST(GoldenEmulator, RandomProducts) {
  READ_GOLDEN_OR_SKIP(file, "accumulate.golden");
  int checked = 0;
  for (const golden::Record& r : file.records) {
    if (r.kind != "random") continue;
    const golden::Type t = golden::type_of(r.word("type"));
    const DType type = golden::dtype_of(r.word("type"));
    const auto set = r.word("set") == "narrow" ? golden::narrow : golden::wide;
    const u32 depth = 32 / u32(size_of(type)), steps = u32(r.number("steps"));
    Image image(8192 + 1024);
    std::vector<double> a(64 * depth * steps), b(8 * depth * steps);
    for (u32 k = 0; k < depth * steps; ++k) {
      for (u32 m = 0; m < 64; ++m) {
        const u32 bits = golden::random_element(t, set, m * 4096 + k, u32(r.number("seed_a")));
        image.put_k_major(0, t, m, k, bits), a[m * depth * steps + k] = golden::decode(t, bits);
      }
      for (u32 n = 0; n < 8; ++n) {
        const u32 bits = golden::random_element(t, set, n * 4096 + k, u32(r.number("seed_b")));
        image.put_k_major(8192, t, n, k, bits), b[n * depth * steps + k] = golden::decode(t, bits);
      }
    }
    std::vector<float> d;
    const Report report = run_of(type, 8, false, false)(image.words, k_major_descriptor(0), k_major_descriptor(8192), int(steps), 32, nullptr, d);
    ASSERT_TRUE(report.clean()) << golden::describe(r) << "\n" << report.text();
    const auto chip = r.as<float>();
    int wrong = 0;
    for (u32 m = 0; m < 64; ++m)
      for (u32 n = 0; n < 8; ++n) {
        double sum = 0, error = 0;
        for (u32 s = 0; s < steps; ++s) {
          double largest = std::fabs(sum);
          for (u32 k = s * depth; k < (s + 1) * depth; ++k) {
            const double product = a[m * depth * steps + k] * b[n * depth * steps + k];
            sum += product;
            largest = std::fmax(largest, std::fmax(std::fabs(product), std::fabs(sum)));
          }
          error += (depth + 2) * largest * (type == DType::int8 ? 0 : size_of(type) == 1 ? 0x1p-13 : 0x1p-23);
        }
        for (const auto& [who, value] : {std::pair{"chip", value_of(type, chip[m * 8 + n])}, std::pair{"emulator", value_of(type, d[m * 8 + n])}})
          if (!(std::fabs(value - sum) <= error) && wrong++ == 0)
            ADD_FAILURE() << golden::describe(r) << ": D(" << m << ", " << n << ") is " << value << " in the " << who << ", " << sum << " +- " << error << " in fp64";
      }
    ++checked;
  }
  EXPECT_EQ(checked, 33);
}

}  // namespace
