// What goes to people: colour, aligned tables, progress. Data goes to standard output, all else to standard error.
#pragma once
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace foretile::cli {

// Colour only on a terminal, and not where NO_COLOR is set (no-color.org) or TERM is "dumb".
bool use_colour(std::FILE* stream);
// Columns of the terminal on standard output; else COLUMNS; else 120.
int terminal_width();

enum class Style { plain, bold, dim, good, bad };
std::string styled(std::string_view text, Style style);  // for standard output

// "12.3 us": three digits and the unit that fits. Not a number or infinite: "-".
std::string time_text(double seconds);
std::string bytes_text(double bytes);    // "33.6 MB", decimal
std::string count_text(double number);   // "650", "1.23e+06"

// Broken between words to fit the terminal, at most 110 columns; ends with a newline. For prose.
std::string wrapped(std::string_view text, int width = terminal_width());

// "label     text", the text broken as wrapped() breaks it and every line of it in the same style; it begins at column `indent`.
std::string labelled(std::string_view label, std::string_view text, Style style = Style::plain, std::size_t indent = 10);

enum class Align { left, right };

class Table {
 public:
  // Where the terminal is too narrow, the last first: an optional column is left out; one that wraps is broken between words or, where
  // less than kLeastWrapped columns remain for it, told in a line below its row (a number with its heading).
  enum class Narrow { kept, optional, wraps };
  static constexpr std::size_t kLeastWrapped = 30;
  Table& column(std::string heading, Align align = Align::left, Narrow narrow = Narrow::kept);
  struct Cell {
    std::string text;
    Style style = Style::plain;
    Cell(std::string t, Style s = Style::plain) : text(std::move(t)), style(s) {}
    Cell(const char* t) : text(t) {}
  };
  void row(std::vector<Cell> cells);
  // A line of its own across the table.
  void section(std::string title);
  std::string text(int width = terminal_width()) const;

 private:
  struct Column {
    std::string heading;
    Align align;
    Narrow narrow;
  };
  struct Row {
    bool is_section = false;
    std::vector<Cell> cells;
  };
  std::string below(const Row& row, const std::vector<bool>& in_line, std::size_t width) const;
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// "label 3/42: what" on standard error: rewritten in place on a terminal, elsewhere a line every five seconds. Silent in
// the first second, so that quick work shows nothing. Safe from many threads.
class Progress {
 public:
  Progress(std::string label, int total);
  ~Progress();
  void done(int count, std::string_view what);
  void say(std::string_view text);  // instead of a count
  void finish();  // clears the line

 private:
  void show(const std::string& text);
  std::string label_;
  int total_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_, last_;
  std::mutex mutex_;
};

}  // namespace foretile::cli
