// A page of explanation: sentences broken to a width, numbers as people write them, constants cited by number with their
// sources at the end.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "foretile/device/operation.h"
#include "model/machine.h"

namespace foretile {

std::string number(double x);  // four significant digits, no trailing zeros
std::string microseconds(double seconds);
std::string megabytes(double bytes);
std::string percent(double part);
std::string counted(const std::string& number, std::string_view noun);  // "1 wave", "3.88 waves"
std::string counted(i64 n, std::string_view noun);
std::string waves(double count);
// Of another way whose speed is 1 + gain of this one's: "faster by 3.1 %", "just as fast", "2.5 times as slow".
std::string comparison(double gain);
std::string nothing_to_compute(const Problem& p);  // the whole page of a product without outputs; empty where it has some

class Page {
 public:
  // Lines up to `columns` wide.
  explicit Page(const Machine& machine, size_t columns = 118) : machine_(machine), columns_(columns) {}

  // Broken between words, further lines indented by two more.
  template <class... T>
  void line(fmt::format_string<T...> format, T&&... args) {
    add(fmt::format(format, std::forward<T>(args)...));
  }
  void add(std::string_view text);
  void verbatim(std::string_view text) { out_ += text; }  // a table: whole lines as they are
  // A constant of the machine file, with the number under which its source stands at the end.
  std::string cite(const char* key);
  // What was cited, each with its value, unit and source.
  void constants();
  std::string text() { return std::move(out_); }

 private:
  size_t index_of(std::string key);

  const Machine& machine_;
  size_t columns_;
  std::string out_;
  std::vector<std::string> cited_;  // keys, in the order of their first use
};

}  // namespace foretile
