// Whole-number expressions as a kernel's designer writes them in a description: "ty * pitch + (tx ^ (ty & 7))".
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foretile/device/types.h"

namespace foretile {

// C's operators with C's precedence on 64-bit whole numbers: ?: || && | ^ & == != < <= > >= << >> + - * / % and unary
// - ! ~, parentheses, min(a, b), max(a, b), ceil_div(a, b). Comparisons give 0 or 1. Values of names are given at
// evaluation, by their place in the list of names; evaluation allocates nothing.
class Expression {
 public:
  Expression() = default;  // the number 0
  // `definitions`: names that stand for further expressions, in which they may be used in turn. Throws
  // std::invalid_argument that says what is wrong and where: bad syntax, an unknown name (with those that are known),
  // a definition that needs itself.
  Expression(std::string_view text, std::span<const std::string> names, const std::map<std::string, std::string>& definitions = {});
  // A division or a remainder by 0, a shift by less than 0 or more than 62, a result beyond 64 bits: std::domain_error.
  i64 operator()(std::span<const i64> values) const;
  // Whether the value can depend on the name at this place in the list.
  bool uses(std::size_t name) const;

 private:
  enum class Code : u8 { constant, name, negate, logical_not, complement, multiply, divide, remainder, add, subtract, shift_left, shift_right,
                         less, less_equal, greater, greater_equal, equal, unequal, bit_and, bit_xor, bit_or, both, either, select, least, most, ceiling };
  struct Step {
    Code code;
    i64 value;  // constant: the number; name: its place
  };
  class Parser;
  std::vector<Step> steps_{{Code::constant, 0}};  // postfix; no jumps: both sides of ?:, && and || are evaluated
};

}  // namespace foretile
