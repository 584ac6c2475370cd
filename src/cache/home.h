// The folder of compiled kernels, which the runtime and the emulator (in its subfolder emulator) share.
#pragma once
#include <atomic>
#include <string>

namespace foretile {

// A variable's value, or nothing.
std::string environment(const char* name);

struct CacheHome {
  std::string folder;    // empty: none
  std::string variable;  // that names it: FORETILE_CACHE, XDG_CACHE_HOME or HOME
  // What is wrong with it, for a message: "FORETILE_CACHE: cannot write to /x: Permission denied".
  std::string fault(const std::string& what) const { return folder.empty() ? "none of FORETILE_CACHE, XDG_CACHE_HOME and HOME is set" : variable + ": " + what; }
};
// FORETILE_CACHE, else $XDG_CACHE_HOME/foretile, else ~/.cache/foretile.
CacheHome cache_home();

// Makes the folder and those above it, for this user alone. What keeps files from being written there, or nothing.
std::string make_writable(const std::string& folder);
// "cannot write to /x: Permission denied", by errno.
std::string error_text(const char* what, const std::string& path);

// A line on standard error, unless `warned` says that it was there before.
void warn_once(std::atomic<bool>& warned, const std::string& text);

}  // namespace foretile
