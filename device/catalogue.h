// The catalogue: the configurations the library chooses from, and the named operations they are crossed with in the
// checked-in table of registers and access widths (tests/golden/catalogue.csv) and in the emulator. Other
// configurations run too, compiled on first use and marked 'registers estimated'.
#pragma once
#include "foretile/device/legality.h"

namespace foretile::catalogue {

constexpr Configuration coop(int m, int n, int stages, int buffers, int cluster_m = 1) {
  return {.family = Family::sm90, .tile_m = m, .tile_n = n, .tile_k = 64, .stages = stages, .cluster_m = cluster_m,
          .schedule = Schedule::cooperative, .store_buffers = buffers};
}
constexpr Configuration pingpong(int m, int n, int stages, int buffers, int cluster_m = 1) {
  return {.family = Family::sm90, .tile_m = m, .tile_n = n, .tile_k = 64, .stages = stages, .cluster_m = cluster_m,
          .schedule = Schedule::pingpong, .store_buffers = buffers};
}
// The same bytes a stage, of elements of 32 bits.
constexpr Configuration tf32(Configuration c) {
  c.tile_k /= 2;
  return c;
}
constexpr Configuration decode(int m, int n, int k, int stages, int split_k = 1) {
  return {.family = Family::decode, .tile_m = m, .tile_n = n, .tile_k = k, .stages = stages, .split_k = split_k};
}
constexpr Configuration simt(int m, int n, int k, int thread_m, int thread_n) {
  return {.family = Family::simt, .tile_m = m, .tile_n = n, .tile_k = k, .thread_m = thread_m, .thread_n = thread_n};
}

constexpr Configuration rows(int m, int n, int k, int thread_m, int thread_n, int stages, int split_k, int cluster_k = 1) {
  return {.family = Family::rows, .tile_m = m, .tile_n = n, .tile_k = k, .stages = stages, .split_k = split_k, .cluster_k = cluster_k, .thread_m = thread_m, .thread_n = thread_n};
}
constexpr Configuration ffma(int m, int n, int k, int thread_m, int thread_n, int split_k = 1, int cluster_k = 1) {
  return {.family = Family::ffma, .tile_m = m, .tile_n = n, .tile_k = k, .split_k = split_k, .cluster_k = cluster_k, .thread_m = thread_m, .thread_n = thread_n};
}

constexpr Configuration gemv(int m, int n, int warps) {
  return {.family = Family::gemv, .tile_m = m, .tile_n = n, .tile_k = 128, .split_k = warps};
}

inline constexpr Configuration kConfigurations[] = {
    pingpong(128, 128, 6, 2),     // the epilogue hides under the other tile: the best all-rounder of the three
    pingpong(128, 160, 5, 2),
    coop(128, 256, 4, 2),         // long K: the fewest bytes a product
    coop(128, 256, 3, 4),
    coop(128, 256, 4, 2, 2),
    coop(128, 192, 4, 3),
    coop(128, 128, 6, 2),
    coop(192, 176, 4, 2),         // three consumers: wave fits between those above
    tf32(pingpong(128, 128, 6, 2)),  // the same in tf32, where an SM takes as long for half the depth
    tf32(pingpong(128, 160, 5, 2)),
    tf32(pingpong(128, 144, 6, 2)),
    tf32(coop(128, 256, 4, 2)),
    tf32(coop(128, 256, 4, 2, 2)),
    tf32(coop(256, 128, 4, 2)),
    tf32(coop(128, 192, 4, 3)),
    tf32(coop(128, 128, 6, 2)),
    tf32(coop(192, 176, 4, 2)),
    tf32(coop(128, 224, 4, 2)),   // N = 7168
    tf32(coop(128, 64, 8, 2)),    // hundreds of rows: as many tiles as there are SMs
    tf32(coop(64, 96, 10, 2)),
    tf32(coop(64, 128, 8, 2)),
    tf32(coop(64, 64, 12, 2)),    // few rows
    // Few rows: a ring of all or half of an SM's shared memory (then two blocks an SM, or two kernels by dependent launch),
    // K whole or split where N alone has too few tiles for the SMs.
    decode(8, 64, 128, 12),
    decode(8, 64, 128, 12, 2),
    decode(8, 64, 128, 6),
    decode(8, 64, 128, 6, 2),
    decode(8, 64, 128, 6, 4),
    decode(8, 64, 128, 6, 8),
    decode(16, 64, 128, 10),
    decode(16, 64, 128, 10, 2),
    decode(16, 64, 128, 5),
    decode(16, 64, 128, 5, 2),
    decode(16, 64, 128, 5, 4),
    decode(16, 64, 128, 5, 8),
    decode(32, 64, 128, 8),
    decode(32, 64, 128, 8, 2),
    decode(32, 64, 128, 8, 4),
    decode(32, 64, 128, 4),
    decode(32, 64, 128, 4, 2),
    decode(32, 64, 128, 4, 4),
    decode(32, 64, 128, 4, 8),
    decode(64, 64, 128, 6),
    decode(64, 64, 128, 6, 2),
    decode(64, 64, 128, 6, 4),
    decode(64, 64, 64, 5),
    decode(64, 128, 64, 7),
    decode(64, 128, 64, 7, 2),
    decode(96, 64, 64, 9),
    decode(96, 64, 64, 9, 2),
    decode(96, 64, 64, 9, 4),
    decode(96, 64, 64, 4),
    decode(96, 128, 64, 5),
    decode(96, 128, 64, 6, 2),
    // fp32 in few rows: weights through a ring, their depths shared out over groups of warps and, where N has too few tiles for the
    // SMs, over a cluster.
    rows(1, 64, 128, 1, 2, 5, 8),
    rows(8, 64, 128, 4, 4, 4, 8),
    rows(8, 64, 128, 4, 4, 4, 8, 2),
    rows(8, 64, 128, 4, 4, 4, 8, 4),
    rows(16, 64, 128, 4, 8, 4, 8),
    rows(16, 64, 128, 4, 8, 4, 8, 2),
    rows(16, 64, 128, 4, 8, 4, 8, 4),
    rows(16, 48, 128, 4, 6, 5, 8),     // 6,144 columns: 128 tiles
    rows(16, 32, 128, 4, 4, 6, 8),     // 4,096
    rows(16, 32, 128, 4, 4, 6, 8, 2),  // 2,112: 66 clusters
    rows(32, 64, 128, 8, 8, 3, 8),     // bound by multiplies: tiles that fill whole waves of SMs
    rows(32, 64, 128, 8, 8, 3, 8, 2),
    rows(32, 64, 64, 8, 8, 5, 8, 4),
    rows(32, 56, 128, 8, 7, 3, 8),     // 7,168: 128
    rows(32, 48, 128, 8, 6, 3, 8),     // 6,144
    rows(32, 48, 128, 8, 6, 3, 8, 4),  // 1,280: 27 clusters
    rows(32, 32, 128, 8, 4, 5, 8, 2),  // 2,112
    rows(32, 112, 64, 8, 7, 4, 4),     // wide B: fewer sums
    rows(32, 128, 64, 8, 8, 4, 4),
    rows(32, 192, 32, 8, 6, 5, 2),
    rows(32, 224, 32, 8, 7, 5, 2),
    rows(32, 256, 32, 8, 8, 4, 2),
    gemv(1, 4, 8),                // fp32, one row: a vector
    gemv(8, 4, 8),                // and up to eight, narrow and wide B
    gemv(8, 8, 8),
    // fp32: tiles that fill whole waves of SMs, or K split over a cluster until they do.
    ffma(128, 256, 8, 16, 8),     // the fewest shared loads a multiply
    ffma(128, 224, 8, 4, 28),     // 7,168 columns
    ffma(128, 192, 8, 8, 12, 1, 2),
    ffma(128, 192, 8, 8, 12, 1, 4),
    ffma(128, 128, 16, 16, 8, 2),
    ffma(128, 64, 32, 16, 8, 4),  // 2,112 columns, a square of 1,024
    ffma(128, 64, 32, 16, 8, 4, 2),
    ffma(64, 64, 8, 8, 8),        // small products
    ffma(64, 64, 32, 8, 8, 4, 2),
    ffma(32, 64, 32, 8, 8, 4),    // few rows
    ffma(32, 64, 32, 8, 8, 4, 2),
    ffma(32, 64, 32, 8, 8, 4, 4),
    simt(128, 128, 8, 8, 8),      // any type, any alignment, any GPU
    simt(64, 64, 16, 4, 4),
    simt(32, 32, 16, 4, 4),
};

constexpr bool contains(const Configuration& c) {
  for (const Configuration& one : kConfigurations)
    if (one == c) return true;
  return false;
}

struct NamedOperation {
  const char* name;
  Operation operation;
};

constexpr Operation product(DType in, DType out) {
  return {.a = in, .b = in, .d = out, .inputs = Alignment::tma, .output = Alignment::tma, .c = out, .bias = out, .residual = out};
}
constexpr Operation full(DType in, DType out, Activation activation) {
  Operation o = product(in, out);
  o.has_c = o.has_bias = o.has_residual = true;
  o.activation = activation;
  return o;
}
constexpr Operation gated(DType in, DType out, Gating gating) {
  Operation o = product(in, out);
  o.activation = Activation::silu;
  o.gating = gating;
  return o;
}
constexpr Operation unaligned(Operation o) {
  o.inputs = o.output = Alignment::any;
  return o;
}

inline constexpr NamedOperation kOperations[] = {
    {"bf16", product(DType::bf16, DType::bf16)},
    {"fp16", product(DType::fp16, DType::fp16)},
    {"bf16-fp32", product(DType::bf16, DType::fp32)},
    {"bf16-full-gelu", full(DType::bf16, DType::bf16, Activation::gelu_erf)},
    {"fp16-full-silu", full(DType::fp16, DType::fp16, Activation::silu)},
    {"bf16-swiglu", gated(DType::bf16, DType::bf16, Gating::halves)},
    {"bf16-unaligned", unaligned(product(DType::bf16, DType::bf16))},
    {"fp32", product(DType::fp32, DType::fp32)},
    {"fp32-unaligned", unaligned(product(DType::fp32, DType::fp32))},
    {"tf32", product(DType::tf32, DType::fp32)},
};

// The first of them with a plain epilogue that a configuration computes, aligned: what it is in the catalogue for.
constexpr Operation plain_operation(const Configuration& c) {
  for (const NamedOperation& named : kOperations)
    if (is_plain(named.operation) && !why_not(named.operation, c)) return named.operation;
  return {};
}

}  // namespace foretile::catalogue
