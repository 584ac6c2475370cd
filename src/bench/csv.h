// A table on disk that grows with the run: a run that is cut keeps the rows it has.
#pragma once
#include <fstream>
#include <string>

namespace foretile::bench {

class CsvFile {
 public:
  // Replaces the file, or throws std::invalid_argument before anything is measured. An empty path: rows go nowhere.
  CsvFile(const std::string& path, const std::string& comment, const std::string& columns);
  void row(const std::string& cells);  // throws std::runtime_error where the disk is full

 private:
  std::string path_;
  std::ofstream out_;
};
// A cell that may hold commas.
std::string quoted(const std::string& text);

}  // namespace foretile::bench
