#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
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
  const std::size_t limit = std::size_t(std::min(width, 110));
  std::string out, line;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > limit) out += line + '\n', line.clear();
    if (!line.empty()) line += ' ';
    line += word;
    at = end + 1;
  }
  return out + line + '\n';
}

Table& Table::column(std::string heading, Align align, bool optional) {
  columns_.push_back({std::move(heading), align, optional});
  return *this;
}

void Table::row(std::vector<Cell> cells) {
  cells.resize(columns_.size(), Cell(""));
  rows_.push_back({false, std::move(cells)});
}

void Table::section(std::string title) { rows_.push_back({true, {Cell(std::move(title), Style::bold)}}); }

std::string Table::text(int width) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t w = columns_[i].heading.size();
    for (const Row& row : rows_)
      if (!row.is_section) w = std::max(w, row.cells[i].text.size());
    widths.push_back(w);
  }
  std::vector<bool> kept(columns_.size(), true);
  const auto total = [&](std::size_t gap) {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (kept[i]) sum += widths[i] + (sum ? gap : 0);
    return sum;
  };
  // Narrow terminals: first a smaller gap, then fewer columns.
  std::size_t gap = total(2) <= std::size_t(width) ? 2 : 1;
  for (std::size_t i = columns_.size(); i-- > 0 && total(gap) > std::size_t(width);)
    if (columns_[i].optional) kept[i] = false;
  if (total(2) <= std::size_t(width)) gap = 2;

  std::size_t last_kept = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (kept[i]) last_kept = i;
  std::string out;
  const auto line = [&](const std::vector<Cell>& cells, bool heading) {
    bool first = true;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!kept[i]) continue;
      if (!first) out.append(gap, ' ');
      first = false;
      const std::string& text = cells[i].text;
      const std::string pad(widths[i] - text.size(), ' ');
      const std::string shown = styled(text, heading ? Style::dim : cells[i].style);
      if (columns_[i].align == Align::right) out += pad + shown;
      else out += shown + (i == last_kept ? "" : pad);
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  };
  std::vector<Cell> headings;
  for (const Column& c : columns_) headings.emplace_back(c.heading);
  line(headings, true);
  for (const Row& row : rows_) {
    if (row.is_section) out += "\n" + styled(row.cells[0].text, row.cells[0].style) + "\n";
    else line(row.cells, false);
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
