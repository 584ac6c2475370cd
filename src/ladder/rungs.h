// The ladder: from the naive kernel to the production ones, one idea a rung. What each rung is, how it is launched, and its
// body for the emulator. The kernels stand in device/ladder; rungs 8 and 12 are the library's own.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "foretile/device/configuration.h"
#include "foretile/device/ladder/ladder.h"
#include "foretile/device/operation.h"
#include "plan/plan.h"

namespace foretile::ladder {

// One instantiation of a rung: a tile that the kernel is compiled for.
struct Variant {
  Tile tile;
  std::string text;        // "128x128x8:t8x8:padded", what --tile takes; empty where a rung has one form only
  int threads = 0;         // a block
  int min_blocks = 1;      // an SM that the launch bounds promise
  int shared_bytes = 0;    // a block
  void (*body)(const Arguments&) = nullptr;  // one thread, for the emulator; null for the production rungs
  std::string expression;  // the same in CUDA C++: "foretile::ladder::bank_aware<foretile::ladder::Tile{...}>"
  int registers = 0;             // a thread, as compiled for sm_90a (compiled.inc); another GPU's compiler may differ
  int loop_multiplies = 0, loop_accesses = 0, loop_other = 0;  // instructions of the loop along K: multiplies; accesses and barriers; the rest
  double register_clocks = 0;    // of the register file, a multiply
  bool lesson = false;     // a counter-example: shown to learn from, never picked
};

struct Rung {
  int number = 0;            // 1 to 12; 0 for the side rung
  const char* name = "";     // "bank-aware layout"
  const char* file = "";     // under device/
  const char* idea = "";     // in a line
  DType type = DType::fp32;  // of A and B, and of D
  bool weights_layout = false;  // B[N,K], as frameworks store weights; else B[K,N]
  std::vector<Variant> variants;  // the first is the one that is shown
  bool production = false;   // the library's kernel, chosen by the model
  Variant compiled;          // of a production rung: what the compiler made of its large configuration, where compiled.inc says so
  int first_capability = 75; // of the GPU
};

// Rungs 1 to 12, in order.
const std::vector<Rung>& rungs();
// The side rung: rung 3's kernel with fp32, compensated and fp64 sums, in this order.
const Rung& accuracy_rung();
// The rung of a number, or null.
const Rung* find_rung(int number);
const Variant* find_variant(const Rung& rung, std::string_view text);  // null where it has none of that name

// The product that a rung computes: types and transposes.
Operation operation_of(const Rung& rung);
// Why the rung cannot compute this problem, or null. Rungs 1 to 10 take any sizes.
const char* why_not(const Rung& rung, const Problem& p);
// Blocks, threads and shared memory of one launch. Not for production rungs.
LaunchShape launch_shape(const Rung& rung, const Variant& v, const Problem& p);
// The arguments of one launch; `encode` is asked where the rung wants tensor maps (rung 11).
Arguments arguments_of(const Rung& rung, const Problem& p, const void* a, const void* b, void* d, const EncodeTensorMap& encode);

}  // namespace foretile::ladder
