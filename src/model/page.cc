#include "model/page.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace foretile {

namespace {
constexpr const char* kMark = "[@";  // a citation before it is numbered
}

std::string number(double x) {
  if (x == 0) return "0";
  const double size = std::abs(x);
  if (size >= 1e7 || size < 1e-3) return fmt::format("{:.3e}", x);
  std::string s = fmt::format("{:.{}f}", x, std::clamp(3 - int(std::floor(std::log10(size))), 0, 6));
  if (s.find('.') != std::string::npos) {
    s.erase(s.find_last_not_of('0') + 1);
    if (s.back() == '.') s.pop_back();
  }
  return s;
}
std::string microseconds(double seconds) { return number(seconds * 1e6) + " us"; }
std::string megabytes(double bytes) { return number(bytes / 1e6) + " MB"; }
std::string percent(double part) { return fmt::format("{:.1f} %", 100 * part); }
std::string counted(const std::string& number, std::string_view noun) { return fmt::format("{} {}{}", number, noun, number == "1" ? "" : "s"); }
std::string counted(i64 n, std::string_view noun) { return counted(std::to_string(n), noun); }
std::string waves(double count) { return counted(number(count), "wave"); }
std::string comparison(double gain) {
  if (std::abs(gain) < 5e-4) return "just as fast";
  if (gain >= 1) return fmt::format("{} times as fast", number(1 + gain));
  if (gain <= -0.5) return fmt::format("{} times as slow", number(1 / (1 + gain)));
  return fmt::format("{} by {}", gain > 0 ? "faster" : "slower", percent(std::abs(gain)));
}
std::string nothing_to_compute(const Problem& p) {
  if (p.m > 0 && p.n > 0 && p.batch > 0) return "";
  return fmt::format("M = {}, N = {}, batch = {}: nothing to compute, nothing is launched.\n", p.m, p.n, p.batch);
}

// Numbers the citations in the order they are read.
void Page::add(std::string_view text) {
  const size_t indent = std::min(text.find_first_not_of(" \n"), text.size());
  const std::string margin(text.starts_with('\n') ? 2 : indent + 2, ' ');
  size_t column = 0;
  while (!text.empty()) {
    size_t end = std::min(text.find(' ', std::max<size_t>(1, column ? 1 : indent)), text.size());
    std::string word(text.substr(0, end));
    text.remove_prefix(end);
    for (size_t at; (at = word.find(kMark)) != std::string::npos;) {
      const size_t close = word.find(']', at);
      word.replace(at, close - at, fmt::format("[{}", index_of(word.substr(at + 2, close - at - 2))));
    }
    if (column + word.size() > columns_ && column > margin.size()) {
      out_ += "\n" + margin;
      column = margin.size();
      word.erase(0, word.find_first_not_of(' '));
    }
    out_ += word;
    column += word.size();
  }
  out_ += "\n";
}

size_t Page::index_of(std::string key) {
  const auto seen = std::find(cited_.begin(), cited_.end(), key);
  const size_t index = size_t(seen - cited_.begin()) + 1;
  if (seen == cited_.end()) cited_.push_back(std::move(key));
  return index;
}

std::string Page::cite(const char* key) {
  const Fact* fact = machine_.fact(key);
  return fmt::format("{}{}{}]", fact ? number(fact->value) : "?", kMark, key);
}

void Page::constants() {
  line("\nConstants of {} (machines/{}.toml). What has no number in brackets above is counted in the kernel, or stands in src/model with its reason.", machine_.full_name, machine_.name.substr(0, machine_.name.find('~')));
  for (size_t i = 0; i < cited_.size(); ++i)
    if (const Fact* f = machine_.fact(cited_[i])) line("  [{}] {} = {} {}: {}", i + 1, f->key, number(f->value), f->unit, f->source);
}

}  // namespace foretile
