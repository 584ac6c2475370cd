// Whether a row of D keeps its bits when M changes: each layer's product with one number of rows, then with every smaller
// one; the rows that both have must be equal bit for bit.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bench/suites.h"
#include "foretile/foretile.h"

namespace foretile::bench {

struct InvariantOptions {
  std::vector<Shape> shapes;  // M of each not looked at; empty: the layers, and five more that are small, long or odd
  DType in = DType::bf16, out = DType::bf16;
  i64 rows = 96;              // the largest M
  bool batch_invariant = true;  // false: shows that the check can fail
  int device = 0;
  std::function<Status(const Matmul&)> product;      // what is looked at; empty: foretile::matmul(), prepared ahead
  std::function<void(const std::string&)> progress;  // may be empty
};

struct InvariantRow {
  Shape shape;
  std::vector<std::string> configurations;  // that the library chose, in the order of M; empty with a product of one's own
  i64 compared = 0;          // numbers of rows below the largest
  std::vector<i64> different;  // those whose bits differ
  std::string wrong;         // of a result against fp64, the first; empty where all are right
};

struct InvariantReport {
  std::string gpu, dtype;
  i64 rows = 0;
  bool batch_invariant = true;
  std::vector<InvariantRow> layers;
  bool passed() const;        // all right, and with batch_invariant all equal
  std::string text() const;   // a line a layer and a summary
};

// Throws std::runtime_error without a usable GPU or where a call is refused, std::invalid_argument for options that make no sense.
InvariantReport invariant(const InvariantOptions& options);

}  // namespace foretile::bench
