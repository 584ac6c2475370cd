// Compiled kernels on disk.
//
// One file an entry, <key>.kernel, beside it the generated source <key>.cu for people. The key is the hash of device
// sources, operation, configuration and architecture. Compiler and flags stand inside the entry, so that a warm hit
// loads no compiler. An entry is written to a temporary file in the same folder, flushed and renamed: a reader sees a
// whole entry or none, whatever many processes do at once. What does not carry the right checksum and key is not
// trusted: it counts as absent and is overwritten.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cache/home.h"
#include "runtime/compile.h"

namespace foretile {

struct CacheEntry {
  CompiledKernel kernel;
  std::string key;            // 32 hexadecimal digits
  std::string operation;      // text_of()
  std::string configuration;  // text_of()
  std::string architecture;
  std::string sources;  // digest of the device sources
};

// Digest of the embedded device sources, computed once.
const std::string& device_sources_digest();
std::string cache_key(const Operation& o, const Configuration& c, std::string_view architecture);

class DiskCache {
 public:
  // An empty folder stands for no cache.
  explicit DiskCache(CacheHome home);
  // The folder as the environment names it at the first call.
  static DiskCache& process();

  const std::string& folder() const { return home_.folder; }
  // The intact entry of this key, else null. Never warns: an absent folder is an empty one.
  std::optional<CacheEntry> read(const std::string& key) const;
  // False where it cannot be written (read-only, missing home, full disk); then one warning a process goes to standard error
  // and the kernel lives in memory alone.
  bool write(const CacheEntry& entry, const std::string& source);

  struct Listed {
    std::string file;                 // name within the folder
    std::optional<CacheEntry> entry;  // null: damaged, or not an entry
    std::uint64_t bytes = 0;
    std::int64_t modified = 0;        // seconds since 1970
  };
  std::vector<Listed> list() const;
  // Removes entries, their sources and abandoned temporary files; files that are not the cache's stay. The number of entries
  // removed. With `stale_only`, those alone that are damaged or made from other device sources.
  int clear(bool stale_only = false);

 private:
  std::string path_of(const std::string& key, const char* suffix) const { return home_.folder + "/" + key + suffix; }
  std::string write_file(const std::string& path, std::string_view bytes) const;  // empty, or what went wrong
  CacheHome home_;
};

// An entry as bytes and back; null where anything is off.
std::string serialize(const CacheEntry& entry);
std::optional<CacheEntry> deserialize(std::string_view bytes);

}  // namespace foretile
