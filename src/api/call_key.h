// What a launch plan depends on, as plain bytes: everything of a call but the addresses (their alignment counts) and the
// values of alpha and beta (whether they are 0 counts).
#pragma once
#include <cstring>
#include <type_traits>

#include "foretile/foretile.h"

namespace foretile {

struct CallKey {
  u64 context;  // cuCtxGetId
  i64 m, n, k, batch;
  i64 ld[5];            // A, B, D, C, residual
  i64 batch_stride[6];  // A, B, D, C, residual, bias
  u64 types;            // dtypes and transposes
  u64 kinds;            // activation, which of C and the scalars count
  u64 addresses;        // their low four bits, and whether they are null
  i32 sm_budget;
  i32 configuration[13];

  friend bool operator==(const CallKey& x, const CallKey& y) { return std::memcmp(&x, &y, sizeof x) == 0; }
};
static_assert(std::has_unique_object_representations_v<CallKey> && sizeof(CallKey) % 8 == 0, "compared and hashed as bytes: no padding");

inline CallKey make_key(u64 context, const Matmul& call) {
  CallKey key;
  key.context = context;
  key.m = call.m, key.n = call.n, key.k = call.k, key.batch = call.batch;
  const bool reads_c = call.beta.pointer || call.beta.value != 0;
  const Matrix* const matrices[6] = {&call.a, &call.b, &call.d, &call.c, &call.residual, &call.bias};
  key.kinds = u64(call.activation) | u64(reads_c) << 8 | u64(call.alpha.pointer != nullptr) << 9 | u64(call.beta.pointer != nullptr) << 10 |
              u64(call.alpha.pointer || call.alpha.value != 0) << 11 | u64(call.gating) << 16 | u64(call.dependent) << 24 | u64(call.weights_ready) << 25 |
              u64(call.batch_invariant) << 26 | u64(call.configuration != nullptr) << 27 | u64(call.compute) << 32;
  key.types = key.addresses = 0;
  for (int i = 0; i < 6; ++i) {
    const Matrix& x = *matrices[i];
    const bool ignored = i == 3 && !reads_c;
    if (i < 5) key.ld[i] = ignored ? 0 : x.ld;
    key.batch_stride[i] = ignored ? 0 : x.batch_stride;
    if (ignored) continue;
    key.types |= u64(x.dtype) << (8 * i) | u64(x.transposed) << (48 + i);
    key.addresses |= ((reinterpret_cast<u64>(x.data) & 15) | u64(x.data != nullptr) << 4) << (5 * i);
  }
  key.kinds |= (reinterpret_cast<u64>(call.alpha.pointer) & 3) << 12 | (reinterpret_cast<u64>(call.beta.pointer) & 3) << 14;
  key.sm_budget = call.sm_budget;
  std::memset(key.configuration, 0, sizeof key.configuration);
  if (const Configuration* c = call.configuration) {
    const i32 fields[] = {i32(c->family), c->tile_m,        c->tile_n,        c->tile_k,  c->stages,    c->cluster_m,
                          c->cluster_n,   i32(c->schedule), c->store_buffers, c->split_k, c->cluster_k, c->thread_m, c->thread_n};
    static_assert(sizeof fields == sizeof key.configuration);
    std::memcpy(key.configuration, fields, sizeof fields);
  }
  return key;
}

struct CallKeyHash {
  std::size_t operator()(const CallKey& key) const {
    u64 words[sizeof(CallKey) / 8];
    std::memcpy(words, &key, sizeof key);
    u64 h = 0x9e3779b97f4a7c15u;
    for (const u64 w : words) {
      const auto product = static_cast<unsigned __int128>(h ^ w) * 0xd6e8feb86659fd93u;
      h = u64(product) ^ u64(product >> 64) ^ w;
    }
    return h;
  }
};

}  // namespace foretile
