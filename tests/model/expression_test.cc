#include "model/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#pragma GCC diagnostic ignored "-Wparentheses"  // precedence is what is tested

namespace foretile {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kNames = {"x", "y"};

i64 value(const std::string& text, i64 x = 0, i64 y = 0, const std::map<std::string, std::string>& let = {}) {
  const i64 values[] = {x, y};
  return Expression(text, kNames, let)(values);
}

template <class Error> std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

// Against the compiler's own arithmetic.
TEST(Expression, MeansWhatCMeans) {
  for (i64 x : {-7, -1, 0, 1, 5, 33})
    for (i64 y : {-3, 1, 2, 31}) {
#define SAME(...) EXPECT_EQ(value(#__VA_ARGS__, x, y), i64(__VA_ARGS__)) << x << " " << y
      SAME(x + y * 3 - 2);
      SAME((x + y) * 3);
      SAME(x - y - 1);
      SAME(x / y % 7);
      SAME(x % y);
      SAME(x & 31 ^ y | 8);
      SAME(x < y == 1);
      SAME(x << 2 >> 1);
      SAME(-x + ~y);
      SAME(!x || y > 2 && x != y);
      SAME(x >= y ? x : y ? 1 : 2);
      SAME(0x1f & x);
#undef SAME
      EXPECT_EQ(value("min(x, y) + 2 * max(x, 3)", x, y), std::min(x, y) + 2 * std::max<i64>(x, 3));
    }
  EXPECT_EQ(value("ceil_div(7, 2) * 10 + ceil_div(6, 2)"), 43);
  EXPECT_EQ(value("ceil_div(0 - 7, 2)"), -3);
}

TEST(Expression, DefinitionsMayUseEachOther) {
  EXPECT_EQ(value("row * 100 + x", 5, 3, {{"row", "y * T"}, {"T", "4"}}), 1205);
  EXPECT_THAT(message<std::invalid_argument>([] { value("a", 0, 0, {{"a", "b + 1"}, {"b", "a"}}); }), HasSubstr("defined by itself"));
}

TEST(Expression, SaysWhatIsWrong) {
  const auto refused = [](const char* text) { return message<std::invalid_argument>([&] { value(text, 1, 1, {{"pitch", "33"}}); }); };
  EXPECT_THAT(refused("x + z"), HasSubstr("'z' is not known; known: x, y, pitch"));
  EXPECT_THAT(refused("x +"), HasSubstr("missing at the end"));
  EXPECT_THAT(refused("(x + 1"), HasSubstr("')' is missing at the end"));
  EXPECT_THAT(refused("x 1"), HasSubstr("'1' is left over"));
  EXPECT_THAT(refused("min(x)"), HasSubstr("',' is missing"));
  EXPECT_THAT(refused("x ? 1"), HasSubstr("':' is missing"));
  EXPECT_THAT(refused("99999999999999999999"), HasSubstr("no whole number"));
  EXPECT_THAT(refused(std::string(1000, '(').c_str()), HasSubstr("nested too deeply"));
  EXPECT_THAT(refused(""), HasSubstr("missing at the end"));
}

TEST(Expression, NeverComputesNonsense) {
  const auto undefined = [](const char* text) { return message<std::domain_error>([&] { value(text, 4611686018427387904, 0); }); };
  EXPECT_THAT(undefined("x / y"), HasSubstr("division by 0"));
  EXPECT_THAT(undefined("x % y"), HasSubstr("division by 0"));
  EXPECT_THAT(undefined("x * 2"), HasSubstr("64 bits"));
  EXPECT_THAT(undefined("x + x"), HasSubstr("64 bits"));
  EXPECT_THAT(undefined("1 << 63"), HasSubstr("shift"));
  EXPECT_THAT(undefined("1 >> -1"), HasSubstr("shift"));
}

}  // namespace
}  // namespace foretile
