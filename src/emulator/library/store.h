// Kernels that the emulator had compiled, on disk.
//
// A file is named by what it was made from, <source><environment>.so, each 16 hexadecimal digits: the kernel's generated source;
// the compiler, its flags and every device header. It is written under a name of the process that makes it and renamed, and
// ends in a line that says what it is and a checksum. What a process leaves that dies in between carries that process's id.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "foretile/device/types.h"

namespace foretile::emulator {

// FNV-1a, 64 bits.
struct Hash {
  u64 value = 0xcbf29ce484222325;
  Hash& add(const std::string& text);
};

std::string read_file(const std::filesystem::path& path);

// Thrown where a folder takes no file (read-only, full).
struct Unwritable : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The library `file`, made where no intact one is there: in the subfolder emulator of the cache's folder, or where that is unusable,
// which is then said once on standard error, in a folder of this user's own under $TMPDIR. Throws std::runtime_error where neither
// takes it.
std::filesystem::path stored(const std::string& file, const std::function<void(const std::filesystem::path& library)>& make);
// Those of the two folders that are there.
std::vector<std::filesystem::path> present_store_folders();

// Appends the line and the checksum to a library that was just made; throws Unwritable. The loader does not look behind the library's end.
void seal(const std::filesystem::path& library, const std::string& label);
// The label of an intact file, else empty: loading half a file, as a full disk or a lost machine leaves it, can end the process.
std::string label_of(const std::filesystem::path& library);

struct StoredKernel {
  enum class State {
    current,    // would be loaded
    stale,      // made by another compiler or from other headers
    damaged,
    abandoned,  // of a process that ended while it compiled
  };
  std::filesystem::path folder;
  std::string file;    // name in the folder
  std::string label;   // "operation | configuration"
  std::uintmax_t bytes = 0;
  i64 modified = 0;    // seconds since 1970
  State state{};
};

// `environment`: the second half of the names that are current; empty where it cannot be told, and then none is stale.
// Files of a compilation under way are left out, as are files that are not the emulator's.
std::vector<StoredKernel> stored_kernels(const std::string& environment);
// How many were removed. With `stale_only`, those alone that are not current.
int clear_stored_kernels(const std::string& environment, bool stale_only);

}  // namespace foretile::emulator
