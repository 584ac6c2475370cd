#include "ladder/rungs.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "foretile/device/ladder/01_naive.cuh"
#include "foretile/device/ladder/02_coalesced.cuh"
#include "foretile/device/ladder/03_shared_tile.cuh"
#include "foretile/device/ladder/04_column_of_outputs.cuh"
#include "foretile/device/ladder/05_register_tile.cuh"
#include "foretile/device/ladder/06_vector_loads.cuh"
#include "foretile/device/ladder/07_bank_aware.cuh"
#include "foretile/device/ladder/09_tensor_cores.cuh"
#include "foretile/device/ladder/10_asynchronous_stages.cuh"
#include "foretile/device/ladder/11_tma_wgmma.cuh"
#include "foretile/device/ladder/side_accuracy.cuh"

namespace foretile::ladder {

namespace {

const char* name_of(Layout l) {
  switch (l) {
    case Layout::plain: return "plain";
    case Layout::padded: return "padded";
    case Layout::swizzled: return "swizzled";
    case Layout::b_transposed: return "b_transposed";
  }
  return "?";
}

std::string text_of(const Tile& t) {
  std::string text = fmt::format("{}x{}x{}", t.tile_m, t.tile_n, t.tile_k);
  if (t.thread_m * t.thread_n > 1) text += fmt::format(":t{}x{}", t.thread_m, t.thread_n);
  if (t.layout != Layout::plain) text += fmt::format(":{}", name_of(t.layout));
  return text;
}
std::string expression_of(const char* function, const Tile& t) {
  return fmt::format("foretile::ladder::{}<foretile::ladder::Tile{{{}, {}, {}, {}, {}, foretile::ladder::Layout::{}}}>", function, t.tile_m, t.tile_n, t.tile_k, t.thread_m, t.thread_n,
                     name_of(t.layout));
}

constexpr Tile square(int size, Layout layout = Layout::plain) { return {size, size, size, 1, 1, layout}; }
constexpr Tile tile(int m, int n, int k, int tm, int tn, Layout layout = Layout::plain) { return {m, n, k, tm, tn, layout}; }

constexpr std::array kSharedTiles{square(32), square(16), square(24), square(32, Layout::padded), square(32, Layout::b_transposed), square(16, Layout::b_transposed)};
constexpr std::array kColumns{tile(64, 64, 8, 8, 1), tile(64, 64, 16, 8, 1), tile(64, 64, 8, 16, 1), tile(128, 64, 8, 16, 1), tile(32, 32, 32, 4, 1)};
constexpr std::array kRectangles{tile(128, 128, 8, 8, 8), tile(64, 64, 8, 8, 8), tile(64, 64, 8, 4, 4), tile(64, 64, 16, 4, 4), tile(128, 64, 8, 8, 4), tile(128, 128, 16, 8, 8)};
constexpr std::array kAwareTiles{tile(128, 128, 8, 8, 8, Layout::padded), tile(128, 128, 8, 8, 8, Layout::swizzled), tile(128, 128, 16, 8, 8, Layout::swizzled),
                                 tile(128, 128, 16, 8, 8, Layout::padded), tile(64, 64, 16, 4, 4, Layout::swizzled), tile(128, 64, 8, 8, 4, Layout::padded),
                                 tile(128, 128, 8, 8, 8), tile(64, 64, 8, 8, 8, Layout::padded)};

int one_block(const Tile&) { return 1; }
// Of rungs 6 and 7: 512 threads an SM leave each 128 registers, 384 leave 168, for sums and the pieces of the next tiles.
int as_registers_allow(const Tile& t) {
  const int pieces = (t.tile_m + t.tile_n) * t.tile_k / 4 / threads(t), resident = t.thread_m * t.thread_n + 4 * pieces < 80 ? 512 : 384;
  return resident > threads(t) ? resident / threads(t) : 1;
}

// One variant a tile; `kernel.template operator()<T>()` gives its body, `bytes` its shared memory.
template <const auto& Tiles, class Kernel>
std::vector<Variant> variants(const char* function, int (*bytes)(const Tile&), Kernel kernel, int (*blocks)(const Tile&) = one_block) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::vector<Variant>{Variant{.tile = Tiles[I], .text = text_of(Tiles[I]), .threads = threads(Tiles[I]), .min_blocks = blocks(Tiles[I]), .shared_bytes = bytes(Tiles[I]),
                                        .body = kernel.template operator()<Tiles[I]>(), .expression = expression_of(function, Tiles[I]),
                                        .lesson = Tiles[I].layout == Layout::b_transposed}...};
  }(std::make_index_sequence<std::size(Tiles)>{});
}

Variant only(Tile t, int thread_count, int bytes, void (*body)(const Arguments&), const char* expression, int min_blocks = 1) {
  return {.tile = t, .text = "", .threads = thread_count, .min_blocks = min_blocks, .shared_bytes = bytes, .body = body, .expression = std::string("foretile::ladder::") + expression};
}

struct Compiled {
  int rung;
  const char* variant;
  int registers, spilled, multiplies, accesses, other;
  double register_clocks;
};
constexpr Compiled kCompiled[] = {
#include "ladder/compiled.inc"
};

// What the compiler made of each variant. The loop in the table may cover several steps, or a part of one.
void add_compiled(Rung& r) {
  const auto add = [&](Variant& v) {
    for (const Compiled& c : kCompiled)
      if (c.rung == r.number && v.text == c.variant) {
        v.registers = c.registers;
        v.loop_multiplies = c.multiplies;
        v.loop_accesses = c.accesses;
        v.loop_other = c.other;
        v.register_clocks = c.register_clocks;
      }
  };
  for (Variant& v : r.variants) add(v);
  if (r.production) add(r.compiled);
}

std::vector<Rung> make_rungs() {
  using enum DType;
  std::vector<Rung> list;
  list.push_back({1, "naive", "ladder/01_naive.cuh", "one thread an output, neighbouring lanes in different rows", fp32, false,
                  {only({kNaiveRows, kNaiveColumns, 1}, 256, 0, naive, "naive")}});
  list.push_back({2, "coalesced", "ladder/02_coalesced.cuh", "neighbouring lanes in neighbouring columns", fp32, false,
                  {only({kCoalescedRows, kCoalescedColumns, 1}, 256, 0, coalesced, "coalesced")}});
  list.push_back({3, "shared tile", "ladder/03_shared_tile.cuh", "a block shares its tiles of A and B", fp32, false,
                  variants<kSharedTiles>("shared_tile", shared_tile_bytes, []<Tile T> { return &shared_tile<T>; })});
  list.push_back({4, "column of outputs", "ladder/04_column_of_outputs.cuh", "a thread keeps one element of B for several outputs", fp32, false,
                  variants<kColumns>("column_of_outputs", tiles_bytes, []<Tile T> { return &column_of_outputs<T>; })});
  list.push_back({5, "register tile", "ladder/05_register_tile.cuh", "a thread computes a rectangle of outputs", fp32, false,
                  variants<kRectangles>("register_tile", tiles_bytes, []<Tile T> { return &register_tile<T>; })});
  list.push_back({6, "vector loads", "ladder/06_vector_loads.cuh", "16 bytes an access, A's tile transposed", fp32, false,
                  variants<kRectangles>("vector_loads", vector_bytes, []<Tile T> { return &vector_loads<T>; }, as_registers_allow)});
  list.push_back({7, "bank-aware layout", "ladder/07_bank_aware.cuh", "no two lanes of an access meet in a bank", fp32, false,
                  variants<kAwareTiles>("bank_aware", bank_aware_bytes, []<Tile T> { return &bank_aware<T>; }, as_registers_allow)});
  list.push_back({.number = 8, .name = "production fp32", .file = "kernels/gemm_ffma.cuh", .idea = "loads under the multiply, 16 x 8 outputs a thread, registers read once", .type = fp32, .production = true});
  list.push_back({9, "tensor cores", "ladder/09_tensor_cores.cuh", "16-bit operands, one instruction a 16x8x16 product", bf16, true,
                  {only({kMmaTile, kMmaTile, kMmaDepth}, kMmaThreads, kMmaBytes, tensor_cores<bf16>, "tensor_cores<foretile::DType::bf16>", 2)}, false, 80});
  list.push_back({10, "asynchronous stages", "ladder/10_asynchronous_stages.cuh", "a ring of copies in flight, swizzled", bf16, true,
                  {only({kMmaTile, kMmaTile, kRingDepth}, kMmaThreads, kRingBytes, asynchronous_stages<bf16>, "asynchronous_stages<foretile::DType::bf16>", 2)}, false, 80});
  list.push_back({11, "TMA and wgmma", "ladder/11_tma_wgmma.cuh", "tiles by one request, products out of shared memory", bf16, true,
                  {only({kTmaRows, kTmaColumns, kTmaDepth}, kTmaThreads, kTmaBytes, tma_wgmma<bf16>, "tma_wgmma<foretile::DType::bf16>", 2)}, false, 90});
  list.push_back({.number = 12, .name = "production Hopper", .file = "kernels/gemm_sm90.cuh", .idea = "a warp that only copies, tiles without end, stores by TMA", .type = bf16, .weights_layout = true,
                  .production = true, .first_capability = 90});
  for (Rung& r : list) add_compiled(r);
  return list;
}

constexpr std::array kAccuracyTiles{square(32)};

template <Accumulation S> Variant accuracy_variant(const char* name) {
  Variant v = variants<kAccuracyTiles>("accuracy", shared_tile_bytes, []<Tile T> { return &accuracy<T, S>; })[0];
  v.text = name;
  v.expression = fmt::format("foretile::ladder::accuracy<foretile::ladder::Tile{{32, 32, 32, 1, 1, foretile::ladder::Layout::plain}}, foretile::ladder::Accumulation::{}>", name);
  return v;
}

}  // namespace

const std::vector<Rung>& rungs() {
  static const std::vector<Rung> list = make_rungs();
  return list;
}

const Rung& accuracy_rung() {
  static const Rung side = [] {
    Rung rung{0, "accuracy", "ladder/side_accuracy.cuh", "rung 3 with other sums: what rounding costs, and what it costs not to round", DType::fp32, false,
                         {accuracy_variant<Accumulation::fp32>("fp32"), accuracy_variant<Accumulation::compensated>("compensated"), accuracy_variant<Accumulation::fp64>("fp64")}};
    add_compiled(rung);
    return rung;
  }();
  return side;
}

const Rung* find_rung(int number) { return number >= 1 && number <= int(rungs().size()) ? &rungs()[std::size_t(number - 1)] : nullptr; }

const Variant* find_variant(const Rung& rung, std::string_view text) {
  for (const Variant& v : rung.variants)
    if (v.text == text) return &v;
  return nullptr;
}

Operation operation_of(const Rung& r) {
  return {.a = r.type, .b = r.type, .d = r.type, .transpose_b = !r.weights_layout, .c = r.type, .bias = r.type, .residual = r.type};
}

const char* why_not(const Rung& rung, const Problem& p) {
  constexpr i64 limit = 0x7fffffff - 4096;
  if (p.m > limit || p.n > limit || p.k > limit) return "M, N and K must stay below 2^31 - 4096";
  if (rung.number == 11 && (p.k % 8 || p.k == 0)) return "TMA needs rows of A and B on multiples of 16 bytes: K must be a multiple of 8, and not 0";
  return nullptr;
}

LaunchShape launch_shape(const Rung&, const Variant& v, const Problem& p) {
  return {.blocks = u32(ceil_div(p.m, v.tile.tile_m) * ceil_div(p.n, v.tile.tile_n)), .cluster = 1, .threads = u32(v.threads), .shared_bytes = u32(v.shared_bytes)};
}

Arguments arguments_of(const Rung& rung, const Problem& p, const void* a, const void* b, void* d, const EncodeTensorMap& encode) {
  Arguments x{.a = a, .b = b, .d = d, .m = i32(p.m), .n = i32(p.n), .k = i32(p.k)};
  if (rung.number != 11) return x;
  const auto map = [&](const void* base, i64 rows, int box_rows) {
    TensorMapSpec spec;
    spec.base = base;
    spec.type = rung.type;
    spec.extent[0] = u64(p.k), spec.extent[1] = u64(rows);
    spec.stride_bytes[0] = u64(p.k) * 2, spec.stride_bytes[1] = spec.stride_bytes[0] * u64(rows);
    spec.box[0] = kTmaDepth, spec.box[1] = u32(box_rows);
    spec.swizzle = Swizzle::bytes128;
    return encode(spec);
  };
  x.a_map = map(a, p.m, kTmaRows);
  x.b_map = map(b, p.n, kTmaColumns);
  return x;
}

}  // namespace foretile::ladder
