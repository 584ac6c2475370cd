#include "model/expression.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <utility>

namespace foretile {

namespace {
constexpr std::size_t kDeepest = 64;  // values waiting at once; far more than a formula that people read
}

// Precedence climbing; definitions are parsed where their name stands.
class Expression::Parser {
 public:
  Parser(std::span<const std::string> names, const std::map<std::string, std::string>& definitions, std::vector<Step>& steps)
      : names_(names), definitions_(definitions), steps_(steps) {}

  void whole(std::string_view text) {
    const std::string_view outer = std::exchange(text_, text);
    const std::size_t place = std::exchange(at_, 0);
    selection();
    skip();
    if (at_ != text_.size()) fail(fmt::format("'{}' is left over", text_.substr(at_)));
    text_ = outer, at_ = place;
  }

 private:
  struct Operator {
    std::string_view text;
    Code code;
    int rank;
  };
  static constexpr std::array<Operator, 18> kOperators = {{{"||", Code::either, 1}, {"&&", Code::both, 2}, {"==", Code::equal, 6}, {"!=", Code::unequal, 6}, {"<=", Code::less_equal, 7},
                                                           {">=", Code::greater_equal, 7}, {"<<", Code::shift_left, 8}, {">>", Code::shift_right, 8}, {"|", Code::bit_or, 3}, {"^", Code::bit_xor, 4},
                                                           {"&", Code::bit_and, 5}, {"<", Code::less, 7}, {">", Code::greater, 7}, {"+", Code::add, 9}, {"-", Code::subtract, 9},
                                                           {"*", Code::multiply, 10}, {"/", Code::divide, 10}, {"%", Code::remainder, 10}}};

  [[noreturn]] void fail(const std::string& what) const { throw std::invalid_argument(fmt::format("expression '{}': {}", text_, what)); }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void need(std::string_view token) {
    if (!take(token)) fail(at_ < text_.size() ? fmt::format("'{}' is missing before '{}'", token, text_.substr(at_)) : fmt::format("'{}' is missing at the end", token));
  }
  void put(Code code, i64 value = 0) { steps_.push_back({code, value}); }

  void selection() {
    binary(1);
    if (!take("?")) return;
    selection();
    need(":");
    selection();
    put(Code::select);
  }
  const Operator* next_operator() {
    skip();
    for (const Operator& o : kOperators)
      if (text_.substr(at_).starts_with(o.text)) return &o;
    return nullptr;
  }
  void binary(int lowest) {
    unary();
    for (const Operator* o; (o = next_operator()) && o->rank >= lowest;) {
      at_ += o->text.size();
      binary(o->rank + 1);
      put(o->code);
    }
  }
  void unary() {
    if (++depth_ > kDeepest) fail("it is nested too deeply");
    if (take("-")) unary(), put(Code::negate);
    else if (take("~")) unary(), put(Code::complement);
    else if (take("!")) unary(), put(Code::logical_not);
    else primary();
    --depth_;
  }
  void primary() {
    skip();
    if (take("(")) {
      selection();
      need(")");
      return;
    }
    if (at_ == text_.size()) fail("a number or a name is missing at the end");
    const char c = text_[at_];
    if (c >= '0' && c <= '9') return constant();
    const auto letter = [](char x) { return x == '_' || (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z') || (x >= '0' && x <= '9'); };
    std::size_t end = at_;
    while (end < text_.size() && letter(text_[end])) ++end;
    const std::string name(text_.substr(at_, end - at_));
    if (name.empty()) fail(fmt::format("a number or a name is missing before '{}'", text_.substr(at_)));
    at_ = end;
    const std::pair<std::string_view, Code> functions[] = {{"min", Code::least}, {"max", Code::most}, {"ceil_div", Code::ceiling}};
    for (const auto& [function, code] : functions) {
      if (name != function) continue;
      need("(");
      selection();
      need(",");
      selection();
      need(")");
      return put(code);
    }
    if (const auto i = std::find(names_.begin(), names_.end(), name); i != names_.end()) return put(Code::name, i - names_.begin());
    const auto definition = definitions_.find(name);
    if (definition == definitions_.end()) {
      std::vector<std::string> known(names_.begin(), names_.end());
      for (const auto& [defined, text] : definitions_) known.push_back(defined);
      fail(fmt::format("'{}' is not known; known: {}", name, fmt::join(known, ", ")));
    }
    if (std::find(open_.begin(), open_.end(), name) != open_.end()) fail(fmt::format("'{}' is defined by itself", name));
    open_.push_back(name);
    whole(definition->second);
    open_.pop_back();
  }
  void constant() {
    i64 value = 0;
    const bool hexadecimal = text_.substr(at_).starts_with("0x");
    const char* first = text_.data() + at_ + (hexadecimal ? 2 : 0);
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value, hexadecimal ? 16 : 10);
    if (error != std::errc()) fail(fmt::format("'{}' is no whole number", text_.substr(at_)));
    at_ = std::size_t(end - text_.data());
    put(Code::constant, value);
  }

  std::span<const std::string> names_;
  const std::map<std::string, std::string>& definitions_;
  std::vector<Step>& steps_;
  std::string_view text_;
  std::size_t at_ = 0, depth_ = 0;
  std::vector<std::string> open_;  // definitions that are being parsed
};

Expression::Expression(std::string_view text, std::span<const std::string> names, const std::map<std::string, std::string>& definitions) {
  steps_.clear();
  Parser(names, definitions, steps_).whole(text);
  std::size_t depth = 0, deepest = 0;
  for (const Step& s : steps_) {
    const bool unary = s.code == Code::negate || s.code == Code::logical_not || s.code == Code::complement;
    if (s.code == Code::constant || s.code == Code::name) ++depth;
    else depth -= s.code == Code::select ? 2 : unary ? 0 : 1;
    deepest = std::max(deepest, depth);
  }
  if (deepest > kDeepest) throw std::invalid_argument(fmt::format("expression '{}': it is nested too deeply", text));
}

bool Expression::uses(std::size_t name) const {
  return std::any_of(steps_.begin(), steps_.end(), [&](const Step& s) { return s.code == Code::name && s.value == i64(name); });
}

i64 Expression::operator()(std::span<const i64> values) const {
  i64 stack[kDeepest];
  std::size_t top = 0;  // one past the last value
  const auto beyond = [] [[noreturn]] { throw std::domain_error("a value is beyond 64 bits"); };
  const auto divisor = [](i64 x, i64 y) {
    if (y == 0) throw std::domain_error("a division by 0");
    if (y == -1 && x == INT64_MIN) throw std::domain_error("a value is beyond 64 bits");
    return y;
  };
  for (const Step& s : steps_) {
    switch (s.code) {
      case Code::constant: stack[top++] = s.value; continue;
      case Code::name: stack[top++] = values[std::size_t(s.value)]; continue;
      case Code::negate:
        if (__builtin_sub_overflow(i64(0), stack[top - 1], &stack[top - 1])) beyond();
        continue;
      case Code::logical_not: stack[top - 1] = !stack[top - 1]; continue;
      case Code::complement: stack[top - 1] = ~stack[top - 1]; continue;
      case Code::select:
        top -= 2;
        stack[top - 1] = stack[top - 1] ? stack[top] : stack[top + 1];
        continue;
      default: break;
    }
    const i64 y = stack[--top];
    i64& x = stack[top - 1];
    switch (s.code) {
      case Code::multiply:
        if (__builtin_mul_overflow(x, y, &x)) beyond();
        break;
      case Code::add:
        if (__builtin_add_overflow(x, y, &x)) beyond();
        break;
      case Code::subtract:
        if (__builtin_sub_overflow(x, y, &x)) beyond();
        break;
      case Code::divide: x /= divisor(x, y); break;
      case Code::remainder: x %= divisor(x, y); break;
      case Code::ceiling: x = x / divisor(x, y) + (x % y != 0 && (x < 0) == (y < 0)); break;
      case Code::shift_left:
      case Code::shift_right:
        if (y < 0 || y > 62) throw std::domain_error("a shift by less than 0 or more than 62");
        if (s.code == Code::shift_right) x >>= y;
        else if (__builtin_mul_overflow(x, i64(1) << y, &x)) beyond();
        break;
      case Code::less: x = x < y; break;
      case Code::less_equal: x = x <= y; break;
      case Code::greater: x = x > y; break;
      case Code::greater_equal: x = x >= y; break;
      case Code::equal: x = x == y; break;
      case Code::unequal: x = x != y; break;
      case Code::bit_and: x &= y; break;
      case Code::bit_xor: x ^= y; break;
      case Code::bit_or: x |= y; break;
      case Code::both: x = x && y; break;
      case Code::either: x = x || y; break;
      case Code::least: x = std::min(x, y); break;
      case Code::most: x = std::max(x, y); break;
      default: break;
    }
  }
  return stack[0];
}

}  // namespace foretile
