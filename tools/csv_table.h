// Tables of recorded figures: comma-separated, comment lines begin with '#', the first other line names the columns.
#pragma once
#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace foretile {

// Calls row(cell) for every row, where cell("name") is what stands in that column, empty where there is no such column.
// Throws std::runtime_error for a file that is missing.
template <class Row> void read_csv(const std::string& path, Row&& row) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + " is missing");
  std::vector<std::string> columns;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> cells;
    std::stringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
    if (columns.empty()) {
      columns = cells;
      continue;
    }
    row([&](const std::string& column) {
      const auto at = std::find(columns.begin(), columns.end(), column);
      return at == columns.end() ? std::string() : cells.at(size_t(at - columns.begin()));
    });
  }
}

}  // namespace foretile
