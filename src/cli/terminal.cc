#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

namespace foretile::cli {

bool use_colour(std::FILE* stream) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(fileno(stream)) && !(no_colour && *no_colour) && !(term && std::string_view(term) == "dumb");
}

int terminal_width() {
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  if (const char* columns = std::getenv("COLUMNS"))
    if (const int n = std::atoi(columns); n > 0) return n;
  return 120;
}

std::string styled(std::string_view text, Style style) {
  static const bool colour = use_colour(stdout);
  if (!colour || style == Style::plain || text.empty()) return std::string(text);
  const char* code = style == Style::bold ? "1" : style == Style::dim ? "2" : style == Style::good ? "32" : "1;31";
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

namespace {

// Three significant digits, no exponent.
std::string three_digits(double v) {
  const int decimals = v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", v, decimals);
}

// Broken between words, but not between a number and what it counts; a word longer than `limit` has a line of its own. At least one line.
std::vector<std::string> broken(std::string_view text, std::size_t limit) {
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at && end < text.size() && std::isdigit(static_cast<unsigned char>(text[end - 1]))) end = std::min(text.find(' ', end + 1), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > limit) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
    at = end + 1;
  }
  return lines;
}

}  // namespace

std::string time_text(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds < 0.9995e-6) return three_digits(seconds * 1e9) + " ns";
  if (seconds < 0.9995e-3) return three_digits(seconds * 1e6) + " us";
  if (seconds < 0.9995) return three_digits(seconds * 1e3) + " ms";
  return three_digits(seconds) + " s";
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 999.5 && unit < 4) bytes /= 1000, ++unit;
  return (unit == 0 ? fmt::format("{:.0f}", bytes) : three_digits(bytes)) + " " + units[unit];
}

std::string count_text(double number) { return number < 1e6 ? fmt::format("{:.6g}", number) : fmt::format("{:.3g}", number); }

std::string wrapped(std::string_view text, int width) {
  std::string out;
  for (const std::string& line : broken(text, std::size_t(std::min(width, 110)))) out += line + '\n';
  return out;
}

std::string labelled(std::string_view label, std::string_view text, Style style, std::size_t indent) {
  std::string out;
  const std::size_t width = std::size_t(std::min(terminal_width(), 110));
  for (const std::string& line : broken(text, width - std::min(width, indent))) {
    out += fmt::format("{:<{}}{}\n", label, indent, styled(line, style));
    label = "";
  }
  return out;
}

Table& Table::column(std::string heading, Align align, Narrow narrow) {
  columns_.push_back({std::move(heading), align, narrow});
  return *this;
}

void Table::row(std::vector<Cell> cells) {
  cells.resize(columns_.size(), Cell(""));
  rows_.push_back({false, std::move(cells)});
}

void Table::section(std::string title) { rows_.push_back({true, {Cell(std::move(title), Style::bold)}}); }

std::string Table::below(const Row& row, const std::vector<bool>& in_line, std::size_t width) const {
  constexpr std::size_t kIndent = 4;
  std::string text, out;
  Style style = Style::plain;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Cell& cell = row.cells[i];
    if (in_line[i] || columns_[i].narrow != Narrow::wraps || cell.text.empty()) continue;
    if (text.empty()) style = cell.style;
    text += (text.empty() ? "" : ", ") + (columns_[i].align == Align::right ? columns_[i].heading + ' ' : "") + cell.text;
  }
  if (text.empty()) return out;
  for (const std::string& line : broken(text, width - std::min(width, kIndent))) out += std::string(kIndent, ' ') + styled(line, style) + '\n';
  return out;
}

std::string Table::text(int width) const {
  const std::size_t limit = std::size_t(std::max(width, 1));
  std::vector<std::size_t> natural, least;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t w = columns_[i].heading.size();
    for (const Row& row : rows_)
      if (!row.is_section) w = std::max(w, row.cells[i].text.size());
    natural.push_back(w);
    least.push_back(columns_[i].narrow == Narrow::wraps ? std::min(w, kLeastWrapped) : w);
  }
  std::vector<bool> kept(columns_.size(), true);
  const auto total = [&](const std::vector<std::size_t>& widths, std::size_t gap) {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (kept[i]) sum += widths[i] + (sum ? gap : 0);
    return sum;
  };
  // Narrow terminals: first a smaller gap, then fewer columns, then those that wrap share what is left.
  std::size_t gap = total(natural, 2) <= limit ? 2 : 1;
  for (std::size_t i = columns_.size(); i-- > 0 && total(least, gap) > limit;)
    if (columns_[i].narrow != Narrow::kept) kept[i] = false;
  if (total(natural, 2) <= limit) gap = 2;
  std::vector<std::size_t> widths = least;
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (const std::size_t used = total(widths, gap); kept[i] && used < limit) widths[i] = std::min(natural[i], widths[i] + limit - used);

  std::size_t last_kept = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (kept[i]) last_kept = i;
  std::string out;
  const auto line = [&](const std::vector<Cell>& cells, bool heading) {
    std::vector<std::vector<std::string>> parts;
    std::size_t lines = 1;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      parts.push_back(columns_[i].narrow == Narrow::wraps ? broken(cells[i].text, widths[i]) : std::vector<std::string>{cells[i].text});
      if (kept[i]) lines = std::max(lines, parts[i].size());
    }
    for (std::size_t l = 0; l < lines; ++l) {
      bool first = true;
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (!kept[i]) continue;
        if (!first) out.append(gap, ' ');
        first = false;
        const std::string text = l < parts[i].size() ? parts[i][l] : "";
        const std::string pad(widths[i] - std::min(widths[i], text.size()), ' ');
        const std::string shown = styled(text, heading ? Style::dim : cells[i].style);
        if (columns_[i].align == Align::right) out += pad + shown;
        else out += shown + (i == last_kept ? "" : pad);
      }
      while (!out.empty() && out.back() == ' ') out.pop_back();
      out += '\n';
    }
  };
  std::vector<Cell> headings;
  for (const Column& c : columns_) headings.emplace_back(c.heading);
  line(headings, true);
  for (const Row& row : rows_) {
    if (row.is_section) out += "\n" + styled(row.cells[0].text, row.cells[0].style) + "\n";
    else line(row.cells, false), out += below(row, kept, limit);
  }
  return out;
}

Progress::Progress(std::string label, int total)
    : label_(std::move(label)), total_(total), terminal_(isatty(STDERR_FILENO)), start_(std::chrono::steady_clock::now()), last_(start_) {}

Progress::~Progress() { finish(); }

void Progress::done(int count, std::string_view what) {
  show(total_ > 0 ? fmt::format("{} {}/{}: {}", label_, count, total_, what) : fmt::format("{} {}{}", label_, count, what));
}

void Progress::say(std::string_view text) { show(fmt::format("{}: {}", label_, text)); }

void Progress::show(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  const auto pause = terminal_ ? std::chrono::milliseconds(shown_ ? 80 : 1000) : std::chrono::milliseconds(5000);
  if (now - last_ < pause) return;
  last_ = now;
  shown_ = true;
  if (terminal_) fmt::print(stderr, "\r\033[2K{:.{}}", text, std::max(20, terminal_width() - 1));
  else fmt::print(stderr, "{}\n", text);
  std::fflush(stderr);
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  if (terminal_ && shown_) fmt::print(stderr, "\r\033[2K");
  shown_ = false;
  std::fflush(stderr);
}

}  // namespace foretile::cli
