// The shapes that speed is claimed on.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "foretile/device/types.h"

namespace foretile::bench {

// How our products are called.
struct CallMode {
  bool dependent = false;        // a chain of dependent launches, weights ready
  bool batch_invariant = false;
  // "plain", "dependent", "dependent, batch-invariant"
  std::string text() const { return std::string(dependent ? "dependent" : "plain") + (batch_invariant ? ", batch-invariant" : ""); }
};

struct Shape {
  std::string name;  // "llama8b.qkv"
  i64 m = 0, n = 0, k = 0;
};

// "layers": the layers of data/models.toml and square8k (N = K = 8192), each at every M of `ms`; "squares": M = N = K for
// each of `ms`; "catalogue": those layers at 1, 16 and 64 or 8, 32 and 96 rows in turn, at one of 128 to 1024, at 2048 and at 4096, then
// M = N = K of 2048, 4096 and 8192 (`ms` not looked at); or shapes spelled out, "4096x6144x4096,1x4096x4096" (M x N x K; `ms` not looked at). Throws
// std::invalid_argument that names the part it does not understand.
std::vector<Shape> suite_shapes(std::string_view suite, const std::vector<i64>& ms);

// Those layers whose product is gated: gate and up columns in one product.
std::vector<Shape> gated_layers(const std::vector<i64>& ms);

// "2048,4096"; throws std::invalid_argument.
std::vector<i64> parse_sizes(std::string_view text);

}  // namespace foretile::bench
