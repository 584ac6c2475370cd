#include "cache/home.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace foretile {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

CacheHome cache_home() {
  if (const std::string named = environment("FORETILE_CACHE"); !named.empty()) return {named, "FORETILE_CACHE"};
  // The XDG specification has relative paths ignored.
  if (const std::string xdg = environment("XDG_CACHE_HOME"); xdg.starts_with('/')) return {xdg + "/foretile", "XDG_CACHE_HOME"};
  if (const std::string home = environment("HOME"); !home.empty()) return {home + "/.cache/foretile", "HOME"};
  return {};
}

std::string error_text(const char* what, const std::string& path) { return std::string(what) + ' ' + path + ": " + std::strerror(errno); }

std::string make_writable(const std::string& folder) {
  for (std::size_t at = folder.find('/', 1);; at = folder.find('/', at + 1)) {
    const std::string part = folder.substr(0, at);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      struct stat s;  // a read-only parent that is there already is no obstacle
      if (const int code = errno; stat(part.c_str(), &s) != 0) return errno = code, error_text("cannot create", part);
    }
    if (at == std::string::npos) break;
  }
  struct stat s;
  if (stat(folder.c_str(), &s) == 0 && !S_ISDIR(s.st_mode)) return errno = ENOTDIR, error_text("cannot write to", folder);
  return faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? "" : error_text("cannot write to", folder);
}

void warn_once(std::atomic<bool>& warned, const std::string& text) {
  if (warned.exchange(true)) return;
  const std::string line = "foretile: " + text + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace foretile
