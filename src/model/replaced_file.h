#pragma once
#include <string>
#include <system_error>

namespace foretile {

// A file that stands whole or not at all is written beside its place and then renamed.
struct ReplacedFile {
  // Of `path`, with links followed, which stay; both empty where it is a pipe or a device, which is written to. `error` where
  // its links do not end or a folder cannot be read.
  ReplacedFile(const std::string& path, std::error_code& error);
  std::string target, temporary;
};

// Writes `text` to `path`. Returns errno's number where that failed, which leaves what was there before and nothing else, or 0.
int replace_file(const std::string& path, const std::string& text);

}  // namespace foretile
