#include "bench/csv.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace foretile::bench {

CsvFile::CsvFile(const std::string& path, const std::string& comment, const std::string& columns) : path_(path) {
  if (path_.empty()) return;
  errno = 0;
  out_.open(path_);
  if (!out_)
    throw std::invalid_argument(
        fmt::format("csv is \"{}\", which cannot be written: {}; allowed: a file in a folder that exists", path_, std::strerror(errno)));
  row("# " + comment), row(columns);
}

void CsvFile::row(const std::string& cells) {
  if (path_.empty()) return;
  out_ << cells << '\n';
  if (!out_.flush()) throw std::runtime_error("writing " + path_ + " failed");
}

std::string quoted(const std::string& text) { return text.find(',') == std::string::npos ? text : '"' + text + '"'; }

}  // namespace foretile::bench
