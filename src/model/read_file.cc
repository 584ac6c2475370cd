#include "model/read_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace foretile {

std::string read_file(std::string_view what, const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) throw std::invalid_argument(fmt::format("{} '{}' is a folder; allowed: a .toml file", what, path));
  errno = 0;
  std::ifstream file(path);
  if (!file) throw std::invalid_argument(fmt::format("{} '{}' cannot be read: {}", what, path, std::strerror(errno)));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace foretile
