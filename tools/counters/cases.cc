#include "cases.h"

#include <stdexcept>
#include <string_view>
#include <utility>

#include "foretile/device/catalogue.h"
#include "foretile/device/probes/copy.cuh"
#include "model/text.h"
#include "patterns.h"

namespace foretile::counters {

namespace {

// The Hopper kernel with one consumer, which the decode kernel has replaced in the catalogue.
constexpr Configuration few_rows(int n, int k, int stages) {
  return {.family = Family::sm90, .tile_m = 64, .tile_n = n, .tile_k = k, .stages = stages, .schedule = Schedule::cooperative, .store_buffers = 1};
}


constexpr u32 kTableBlocks = 2;
constexpr u32 kTableSharedBytes = 8192;

const char* type_of_width(int bytes) { return bytes == 2 ? "u16" : bytes == 4 ? "u32" : bytes == 8 ? "u32x2" : "u32x4"; }

Case table_case(const std::string& access, const Pattern& pattern, int bytes, std::vector<i32> offsets) {
  Case c;
  c.name = access + "/" + pattern.name;
  c.shows = pattern.shows;
  c.blocks = kTableBlocks, c.threads = kProbeThreads;
  c.offsets = std::move(offsets);
  c.bytes = bytes;
  c.output_bytes = kTableBlocks * kProbeThreads * 4;
  return c;
}

void add_shared(std::vector<Case>& all, const std::string& kind, int bytes, const std::vector<Pattern>& patterns) {
  for (const Pattern& p : patterns) {
    std::vector<i32> offsets = offsets_of(p, bytes);
    if (offsets.empty()) continue;
    Case c = table_case("shared-" + kind + "-" + std::to_string(bytes), p, bytes, std::move(offsets));
    c.probe = "probe_shared_" + kind + "<" + type_of_width(bytes) + ">";
    c.shared_bytes = kTableSharedBytes;
    c.arguments.shared_words = i32(kTableSharedBytes / 4);
    all.push_back(std::move(c));
  }
}

void add_matrix(std::vector<Case>& all, const std::string& access, const std::string& probe) {
  for (const Pattern& p : matrix_patterns()) {
    Case c = table_case(access, p, 16, offsets_of(p, 16));
    c.probe = probe;
    c.shared_bytes = kTableSharedBytes;
    c.arguments.shared_words = i32(kTableSharedBytes / 4);
    all.push_back(std::move(c));
  }
}

void add_global(std::vector<Case>& all, const std::string& kind, int bytes) {
  for (const Pattern& p : global_patterns()) {
    Case c = table_case("global-" + kind + "-" + std::to_string(bytes), p, bytes, offsets_of(p, bytes));
    c.probe = "probe_global_" + kind + "<" + type_of_width(bytes) + ">";
    c.list = List::global;
    c.arguments.span = kGlobalSpan;
    c.input_bytes = std::size_t(kTableBlocks) * (kProbeThreads / 32) * kProbeRepeats * kGlobalSpan;
    c.writes_input = kind == "store";
    all.push_back(std::move(c));
  }
}

Case kernel_case(const std::string& name, const std::string& probe, u32 blocks, u32 threads, u32 shared_bytes, i32 width, i32 height, const std::string& shows) {
  Case c;
  c.list = List::kernels;
  c.name = name, c.shows = shows, c.probe = probe;
  c.blocks = blocks, c.threads = threads, c.shared_bytes = shared_bytes;
  c.arguments.width = width, c.arguments.height = height;
  return c;
}

void add_transposes(std::vector<Case>& all) {
  const auto add = [&](const char* name, const char* probe, int pitch, const char* shows) {
    Case c = kernel_case(name, probe, 4 * 3, 256, u32(32 * pitch * 4), 128, 96, shows);
    c.input_bytes = c.output_bytes = 128 * 96 * 4;
    all.push_back(std::move(c));
  };
  add("transpose/pitch-32", "probe_transpose<32, false>", 32, "columns of a tile of 32 words: 32 wavefronts a load");
  add("transpose/pitch-33", "probe_transpose<33, false>", 33, "one word of padding: one wavefront");
  add("transpose/exchanged", "probe_transpose<32, true>", 32, "columns exchanged by row: one wavefront, no padding");
}

void add_products(std::vector<Case>& all) {
  constexpr i32 n = 64;
  const auto add = [&](const char* name, const char* probe, i32 tile, int pitch, const char* shows) {
    const bool tiled = tile > 0;
    Case c = kernel_case(name, probe, tiled ? u32(n / tile * (n / tile)) : n / 32 * (n / 8), tiled ? u32(tile * tile) : 256, tiled ? u32(2 * tile * pitch * 4) : 0, n, n, shows);
    c.input_bytes = 2 * n * n * 4;
    c.output_bytes = n * n * 4;
    all.push_back(std::move(c));
  };
  add("product/naive", "probe_naive_product", 0, 0, "a broadcast sector of A and a row of B for every multiply");
  add("product/tile-16", "probe_tiled_product<16, 16, false>", 16, 16, "no conflict without padding; the compiler merges four loads of A into one");
  add("product/tile-16-transposed", "probe_tiled_product<16, 16, true>", 16, 16, "B's tile stored transposed: 8-way conflicts where there were none");
  add("product/tile-32-padded", "probe_tiled_product<32, 33, false>", 32, 33, "padding that buys nothing, and keeps the compiler from merging");
  add("product/tile-32-transposed", "probe_tiled_product<32, 32, true>", 32, 32, "32-way conflicts");
}

void add_copies(std::vector<Case>& all) {
  const auto add = [&](const char* name, i32 width, i32 height, const char* shows) {
    const u32 blocks = u32(ceil_div(width, kCopyColumns) * ceil_div(height, kCopyRows));
    Case c = kernel_case(name, "probe_tma_copy", blocks, 32, kCopyBoxBytes + 8, width, height, shows);
    c.input_bytes = c.output_bytes = std::size_t(width) * std::size_t(height) * 2;
    all.push_back(std::move(c));
  };
  add("copy/whole-boxes", 256, 192, "boxes inside the tensor: their bytes, once in and once out");
  add("copy/clipped-boxes", 200, 136, "boxes over the edge: only what lies inside moves");
}

Case gemm_case(List list, std::string name, const Operation& o, const Configuration& c, Problem p, i32 group, std::string shows) {
  Case x;
  x.list = list;
  x.name = std::move(name), x.shows = std::move(shows);
  x.operation = o, x.configuration = c, x.problem = p, x.raster_group = group;
  return x;
}

Operation operation(const char* name) {
  for (const auto& known : catalogue::kOperations)
    if (known.name == std::string_view(name)) return known.operation;
  throw std::logic_error(std::string("the catalogue has no operation ") + name);
}

void add_small_gemms(std::vector<Case>& all) {
  using catalogue::coop, catalogue::pingpong, catalogue::simt;
  const auto add = [&](const char* name, const char* o, const Configuration& c, Problem p, const char* shows) {
    all.push_back(gemm_case(List::kernels, std::string("gemm/") + name, operation(o), c, p, 0, shows));
  };
  add("simt-128", "fp32", simt(128, 128, 8, 8, 8), {256, 128, 40}, "the portable kernel: its stores to shared memory and 16-byte fragments");
  add("simt-64", "bf16-unaligned", simt(64, 64, 16, 4, 4), {128, 192, 48}, "16-bit operands, element by element");
  add("simt-32", "fp32", simt(32, 32, 16, 4, 4), {96, 96, 64}, "a small tile");
  add("simt-edges", "fp32-unaligned", simt(64, 64, 16, 4, 4), {65, 70, 33}, "tiles over the edges: lanes that take no part");
  add("sm90-pingpong", "bf16", pingpong(128, 128, 6, 2), {256, 384, 128}, "operands by TMA, results by stmatrix: no conflict in the swizzle");
  add("sm90-edges", "bf16", coop(128, 192, 4, 3), {300, 520, 136}, "tiles over the edges");
  add("sm90-narrow", "bf16", coop(64, 32, 16, 1), {70, 96, 192}, "a tile of 32 columns: the 64-byte swizzle");
  add("sm90-cluster", "fp16", coop(128, 256, 4, 2, 2), {512, 512, 128}, "B multicast to a pair: fetched once for both");
  add("sm90-fp32", "bf16-fp32", pingpong(128, 128, 6, 2), {256, 256, 64}, "fp32 results: 8-byte stores to the staging buffer");
  add("sm90-epilogue", "bf16-full-gelu", pingpong(128, 128, 6, 2), {128, 256, 64}, "C, bias and residual by lane loads");
}

struct Layer { const char* name; i64 n, k; };
constexpr Layer kLayers[] = {{"llama8b.qkv", 6144, 4096}, {"llama8b.o", 4096, 4096}, {"llama8b.gateup", 28672, 4096}, {"llama8b.down", 4096, 14336},
                             {"llama70b.qkv", 1280, 8192}, {"llama70b.o", 8192, 1024}, {"llama70b.gateup", 7168, 8192}, {"llama70b.down", 8192, 3584},
                             {"dsv3.qkv_a", 2112, 7168}, {"dsv3.q_b", 24576, 1536}, {"dsv3.kv_b", 32768, 512}, {"dsv3.o", 7168, 16384},
                             {"dsv3.gateup", 4096, 7168}, {"dsv3.down", 7168, 2048}, {"square8k", 8192, 8192}};

void add_gemms(std::vector<Case>& all) {
  using catalogue::coop, catalogue::pingpong, catalogue::simt;
  const Operation bf16 = operation("bf16");
  const auto add = [&](const std::string& name, const Operation& o, const Configuration& c, i64 m, i64 n, i64 k, i32 group, const char* shows) {
    all.push_back(gemm_case(List::gemms, name, o, c, {m, n, k}, group, shows));
  };
  for (const Layer& l : kLayers) add(std::string("layer/") + l.name, bf16, coop(128, 256, 4, 2, 2), 4096, l.n, l.k, 0, "the layers of inference, 4096 tokens");
  for (i32 group : {1, 2, 4, 8, 16, 32, 64}) add("order/square-" + std::to_string(group), bf16, coop(128, 256, 4, 2), 8192, 8192, 8192, group, "tile order against the L2 cache");
  for (i32 group : {1, 4, 8, 16, 32}) add("order/wide-" + std::to_string(group), bf16, pingpong(128, 128, 6, 2), 4096, 28672, 4096, group, "tile order against the L2 cache");
  for (const Configuration& c : catalogue::kConfigurations)
    if (c.family == Family::sm90 && !why_not(bf16, c)) add("configuration/" + text_of(c), bf16, c, 4096, 4096, 4096, 0, "every configuration on one product");
  for (const Configuration& c : {few_rows(256, 64, 5), few_rows(224, 64, 6), few_rows(128, 64, 9), few_rows(64, 128, 6), few_rows(48, 128, 7), few_rows(32, 128, 9), few_rows(16, 256, 5)})
    add("configuration/" + text_of(c), bf16, c, 4096, 4096, 4096, 0, "every configuration on one product");
  for (i64 size : {512, 1024, 2048, 6144}) add("cube/" + std::to_string(size), bf16, pingpong(128, 128, 6, 2), size, size, size, 0, "waves and tails");
  for (i64 m : {16, 64})
    for (const Layer& l : {kLayers[0], kLayers[2], kLayers[3]}) add("decode/" + std::to_string(m) + "-" + l.name, bf16, few_rows(128, 64, 9), m, l.n, l.k, 0, "few rows: DRAM bound");
  add("simt/fp32-1024", operation("fp32"), simt(128, 128, 8, 8, 8), 1024, 1024, 1024, 0, "the fp32 cores");
  add("simt/fp32-2048", operation("fp32"), simt(128, 128, 8, 8, 8), 2048, 2048, 2048, 0, "the fp32 cores");
  add("simt/fp32-1024-small", operation("fp32"), simt(64, 64, 16, 4, 4), 1024, 1024, 1024, 0, "smaller tiles: more bytes a product");
  add("simt/bf16-1024", operation("bf16-unaligned"), simt(128, 128, 8, 8, 8), 1024, 1024, 1024, 0, "16-bit operands element by element");
  add("output/fp32", operation("bf16-fp32"), pingpong(128, 128, 6, 2), 4096, 4096, 4096, 0, "twice the bytes out");
  add("output/full-epilogue", operation("bf16-full-gelu"), pingpong(128, 128, 6, 2), 4096, 4096, 4096, 0, "C, bias, residual and GELU");
}

// Bytes of each operand in `input`, in order.
struct Parts {
  std::size_t a, b, c, bias, residual;
};
std::size_t padded(std::size_t bytes) { return std::size_t(round_up(i64(bytes), 256)); }
Parts parts_of(const Case& x) {
  const Problem& p = x.problem;
  const Operation& o = x.operation;
  const auto bytes = [](i64 elements, DType type) { return padded(std::size_t(elements) * std::size_t(size_of(type))); };
  return {bytes(p.m * p.k, o.a), bytes(p.n * p.k, o.b), o.has_c ? bytes(p.m * p.n, o.c) : 0, o.has_bias ? bytes(p.n, o.bias) : 0,
          o.has_residual ? bytes(p.m * p.n, o.residual) : 0};
}

}  // namespace

const char* name_of(List list) { return list == List::shared ? "shared" : list == List::global ? "global" : list == List::kernels ? "kernels" : "gemms"; }

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const char* kind : {"load", "store"}) {
    add_shared(all, kind, 2, half_patterns());
    for (int bytes : {4, 8, 16}) add_shared(all, kind, bytes, shared_patterns());
  }
  add_matrix(all, "load-matrix-4", "probe_load_matrix");
  add_matrix(all, "store-matrix-4", "probe_store_matrix<4>");
  add_matrix(all, "store-matrix-2", "probe_store_matrix<2>");
  for (const char* kind : {"load", "store"})
    for (int bytes : {2, 4, 8, 16}) add_global(all, kind, bytes);
  add_transposes(all);
  add_products(all);
  add_copies(all);
  add_small_gemms(all);
  add_gemms(all);
  return all;
}

Sizes sizes_of(const Case& c) {
  if (!c.probe.empty()) return {c.input_bytes, c.output_bytes};
  const Parts p = parts_of(c);
  return {p.a + p.b + p.c + p.bias + p.residual, std::size_t(c.problem.m * c.problem.n) * std::size_t(size_of(c.operation.d))};
}

ProbeArguments probe_arguments(const Case& c, const Memory& memory, const EncodeTensorMap& encode) {
  ProbeArguments x = c.arguments;
  x.input = memory.input, x.output = memory.output, x.offsets = memory.offsets;
  if (c.probe == "probe_tma_copy") {
    TensorMapSpec spec;
    spec.base = memory.input;
    spec.extent[0] = u64(x.width), spec.extent[1] = u64(x.height);
    spec.stride_bytes[0] = u64(x.width) * 2, spec.stride_bytes[1] = 16;
    spec.box[0] = kCopyColumns, spec.box[1] = kCopyRows;
    spec.swizzle = Swizzle::bytes128;
    x.from = encode(spec);
    spec.base = memory.output;
    x.to = encode(spec);
  }
  return x;
}

Operands operands_of(const Case& c, const Memory& memory) {
  const Parts p = parts_of(c);
  auto* at = static_cast<u8*>(memory.input);
  const auto take = [&](std::size_t bytes) { return static_cast<void*>(std::exchange(at, at + bytes)); };
  Operands x;
  x.a = {take(p.a), c.problem.k, 0};
  x.b = {take(p.b), c.problem.k, 0};
  if (p.c) x.epilogue.c = {take(p.c), c.problem.n, 0}, x.epilogue.beta = 0.5f;
  if (p.bias) x.epilogue.bias = {take(p.bias), 0, 0};
  if (p.residual) x.epilogue.residual = {take(p.residual), c.problem.n, 0};
  x.epilogue.d = {memory.output, c.problem.n, 0};
  return x;
}

}  // namespace foretile::counters
