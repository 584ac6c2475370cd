// From a caller's Matmul to what is computed: every argument checked, every default filled in.
#pragma once
#include "api/overlap.h"
#include "foretile/foretile.h"
#include "plan/plan.h"

namespace foretile {

struct CheckedCall {
  bool empty = false;    // M, N or batch is 0: there is nothing to compute
  Problem problem;       // k is 0 where a host alpha of 0 leaves A and B unread
  Operation operation;   // alignment classes included
  Operands operands;     // dense leading dimensions filled in; strides that do not matter are canonical
  Extent a, b, c, d, bias, residual;  // span 0 where the operand is not read
  bool c_like_d = false;  // dtype and strides of C are D's: C may be D
};

enum class Pointers { real, placeholders };  // placeholders: only their null-ness and alignment count

// invalid_argument names the argument, what it was and what is allowed; unsupported where no kernel computes it.
// No driver is needed.
Status check_call(const Matmul& call, Pointers pointers, CheckedCall& checked);

// The part that depends on the addresses themselves and is looked at in every call: D shares no element with an input.
Status check_overlap(const Matmul& call, const CheckedCall& checked);

}  // namespace foretile
