// The operands of one product on the host, ready to be run and judged: random values, guard bytes around every operand,
// a poisoned D. Used by the demo, the emulator's commands and the GPU tests.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "foretile/device/operation.h"
#include "plan/plan.h"
#include "reference/check.h"

namespace foretile::reference {

enum class Values {
  integers,  // small integers: the right result is exact
  normal,    // standard normal, rounded to the operand's type
};

// How one matrix stands in memory. Counted in elements.
struct Placement {
  i64 ld_padding = 0;      // beyond the dense leading dimension
  i64 pointer_offset = 0;  // from a 256-byte boundary
  bool broadcast = false;  // batch stride 0: one matrix for all batches (inputs only)
};

struct GemmDataOptions {
  Values values = Values::integers;
  u64 seed = 1;
  float alpha = 1, beta = 0;
  bool c_is_d = false;  // C and D are one buffer
  Placement a, b, c, bias, residual, d;
};

// One operand: the matrix and the guard bytes around and between its rows.
struct HostOperand {
  std::string name;  // "A", "B", "C", "bias", "residual", "D"
  DType type = DType::bf16;
  i64 rows = 0, columns = 0, ld = 0, batch_stride = 0, batches = 0;
  std::size_t size = 0;         // bytes of the whole buffer, guards included; its base is 256-byte aligned
  std::size_t data_offset = 0;  // bytes from the base to element 0
  std::shared_ptr<std::byte[]> base;
  std::vector<std::byte> before;  // the buffer as it was made

  void* data() const { return base.get() + data_offset; }
  std::size_t data_bytes() const;  // from the first element to the end of the last
  MatrixArgument argument() const { return {data(), ld, batch_stride}; }
};

struct GemmData {
  Operation operation;  // with the alignment classes that the placements give
  Problem problem;
  Operands operands;              // host pointers
  std::vector<HostOperand> list;  // those the operation has; D last. With c_is_d, D stands for C too
  std::vector<std::byte> c_before;  // c_is_d only

  const HostOperand* find(const std::string& name) const;
  // Compares D with the fp64 reference.
  CheckResult check(const CheckOptions& options = {}) const;
  // Bytes changed that no kernel may change: all but D's elements. Empty when there are none, else in words.
  std::string damage() const;
};

// Sizes may be 0. Throws std::invalid_argument for types the reference does not know, and for C in D's place with another type.
GemmData make_gemm_data(Operation o, const Problem& p, const GemmDataOptions& options = {});

}  // namespace foretile::reference
