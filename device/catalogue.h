// The catalogue: the configurations the library chooses from, and the named operations they are crossed with in the
// checked-in table of registers and access widths (tests/golden/catalogue.csv) and in the emulator. Other
// configurations run too, compiled on first use and marked 'registers estimated'.
#pragma once
#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"

namespace foretile::catalogue {

constexpr Configuration coop(int m, int n, int stages, int buffers, int cluster_m = 1) {
  return {.family = Family::sm90, .tile_m = m, .tile_n = n, .tile_k = 64, .stages = stages, .cluster_m = cluster_m,
          .schedule = Schedule::cooperative, .store_buffers = buffers};
}
constexpr Configuration pingpong(int m, int n, int stages, int buffers, int cluster_m = 1) {
  return {.family = Family::sm90, .tile_m = m, .tile_n = n, .tile_k = 64, .stages = stages, .cluster_m = cluster_m,
          .schedule = Schedule::pingpong, .store_buffers = buffers};
}
constexpr Configuration few_rows(int n, int k, int stages) {
  return {.family = Family::sm90, .tile_m = 64, .tile_n = n, .tile_k = k, .stages = stages,
          .schedule = Schedule::cooperative, .store_buffers = 1};
}
constexpr Configuration simt(int m, int n, int k, int thread_m, int thread_n) {
  return {.family = Family::simt, .tile_m = m, .tile_n = n, .tile_k = k, .thread_m = thread_m, .thread_n = thread_n};
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
    few_rows(256, 64, 5),         // up to 64 rows: one consumer, as many columns as make about one wave
    few_rows(224, 64, 6),
    few_rows(128, 64, 9),
    few_rows(64, 128, 6),
    few_rows(48, 128, 7),
    few_rows(32, 128, 9),
    few_rows(16, 256, 5),
    simt(128, 128, 8, 8, 8),      // any type, any alignment, any GPU
    simt(64, 64, 16, 4, 4),
    simt(32, 32, 16, 4, 4),
};

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
    {"bf16-unaligned", unaligned(product(DType::bf16, DType::bf16))},
    {"fp32", unaligned(product(DType::fp32, DType::fp32))},
};

}  // namespace foretile::catalogue
