#include "model/replaced_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

namespace foretile {

namespace fs = std::filesystem;

ReplacedFile::ReplacedFile(const std::string& path, std::error_code& error) {
  error.clear();
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) return;
  error.clear();  // of a file that is not there yet
  if (fs::exists(status) && !fs::is_regular_file(status)) return;
  fs::path place = path;  // status() has seen that links end
  std::error_code none;
  while (fs::is_symlink(fs::symlink_status(place, none))) place = place.parent_path() / fs::read_symlink(place);
  target = place.string(), temporary = fmt::format("{}.{}.tmp", target, getpid());
}

int replace_file(const std::string& path, const std::string& text) {
  std::error_code unreadable;
  const ReplacedFile place(path, unreadable);
  if (unreadable) return unreadable.value();
  const std::string& written = place.temporary.empty() ? path : place.temporary;
  std::FILE* const file = std::fopen(written.c_str(), "wb");
  if (!file) return errno;
  int error = std::fwrite(text.data(), 1, text.size(), file) == text.size() ? 0 : errno;
  if (std::fclose(file) != 0 && !error) error = errno;
  if (place.temporary.empty()) return error;
  if (!error && std::rename(written.c_str(), place.target.c_str()) != 0) error = errno;
  if (error) std::remove(written.c_str());
  return error;
}

}  // namespace foretile
