#include "runtime/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "runtime/digest.h"
#include "runtime/embedded_sources.h"
#include "runtime/source.h"

namespace foretile {

namespace {

constexpr std::string_view kMagic = "foretile kernel 1\n";
constexpr std::uint64_t kLargestEntry = 256u << 20;  // bytes: a file beyond it is no kernel of ours

bool is_key(std::string_view text) {
  return text.size() == 32 && std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// The whole file, or null. A file replaced on a network file system shows as stale: it is opened again.
std::optional<std::string> read_file(const std::string& path) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
      if (errno == ESTALE || errno == EINTR) continue;
      return std::nullopt;
    }
    std::string bytes;
    struct stat s;
    bool ok = fstat(file, &s) == 0 && S_ISREG(s.st_mode) && std::uint64_t(s.st_size) <= kLargestEntry;
    if (ok) {
      bytes.resize(std::size_t(s.st_size));
      std::size_t have = 0;
      while (have < bytes.size()) {
        const ssize_t n = ::read(file, bytes.data() + have, bytes.size() - have);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        have += std::size_t(n);
      }
      ok = have == bytes.size();
    }
    const int code = errno;
    close(file);
    if (ok) return bytes;
    if (code != ESTALE) return std::nullopt;
  }
  return std::nullopt;
}

// A line "name value\n" at the front of `text`, which is taken off it. False where it is not there.
bool take_line(std::string_view& text, std::string_view name, std::string& value) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || end < name.size() + 1 || text.substr(0, name.size()) != name || text[name.size()] != ' ') return false;
  value = text.substr(name.size() + 1, end - name.size() - 1);
  text.remove_prefix(end + 1);
  return true;
}
template <class Number> bool take_number(std::string_view& text, std::string_view name, Number& number) {
  std::string value;
  if (!take_line(text, name, value)) return false;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  return code == std::errc() && end == value.data() + value.size();
}

}  // namespace

const std::string& device_sources_digest() {
  static const std::string& digest = *new std::string([] {
    Digest d;
    for (const EmbeddedFile& file : embedded_device_sources()) d.add_part(file.name).add_part(file.text);
    return d.hex();
  }());
  return digest;
}

std::string cache_key(const Operation& o, const Configuration& c, std::string_view architecture) {
  // The translation unit spells out every field of the operation and the configuration.
  return Digest().add_part(device_sources_digest()).add_part(translation_unit(o, c)).add_part(architecture).hex().substr(0, 32);
}

std::string serialize(const CacheEntry& e) {
  const std::string body =
      fmt::format("key {}\noperation {}\nconfiguration {}\narchitecture {}\nsources {}\ncompiler {}\nflags {}\nregisters {}\nspill {}\nseconds {}\ncubin {}\n", e.key,
                  e.operation, e.configuration, e.architecture, e.sources, e.kernel.compiler, e.kernel.flags, e.kernel.registers,
                  e.kernel.spill_bytes, e.kernel.seconds, e.kernel.cubin.size()) +
      e.kernel.cubin;
  return std::string(kMagic) + "checksum " + digest_of(body) + "\n" + body;
}

std::optional<CacheEntry> deserialize(std::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic) return std::nullopt;
  bytes.remove_prefix(kMagic.size());
  std::string checksum;
  if (!take_line(bytes, "checksum", checksum) || digest_of(bytes) != checksum) return std::nullopt;
  CacheEntry e;
  std::size_t cubin = 0;
  if (!take_line(bytes, "key", e.key) || !take_line(bytes, "operation", e.operation) || !take_line(bytes, "configuration", e.configuration) ||
      !take_line(bytes, "architecture", e.architecture) || !take_line(bytes, "sources", e.sources) || !take_line(bytes, "compiler", e.kernel.compiler) ||
      !take_line(bytes, "flags", e.kernel.flags) || !take_number(bytes, "registers", e.kernel.registers) ||
      !take_number(bytes, "spill", e.kernel.spill_bytes) || !take_number(bytes, "seconds", e.kernel.seconds) || !take_number(bytes, "cubin", cubin))
    return std::nullopt;
  if (bytes.size() != cubin || cubin == 0) return std::nullopt;
  e.kernel.cubin = bytes;
  return e;
}

DiskCache::DiskCache(CacheHome home) : home_(std::move(home)) {
  while (home_.folder.size() > 1 && home_.folder.back() == '/') home_.folder.pop_back();
}

DiskCache& DiskCache::process() {
  static DiskCache& cache = *new DiskCache(cache_home());
  return cache;
}

std::optional<CacheEntry> DiskCache::read(const std::string& key) const {
  if (folder().empty()) return std::nullopt;
  const std::optional<std::string> bytes = read_file(path_of(key, ".kernel"));
  if (!bytes) return std::nullopt;
  std::optional<CacheEntry> entry = deserialize(*bytes);
  if (entry && entry->key != key) entry.reset();  // another kernel's, under this name
  return entry;
}

std::string DiskCache::write_file(const std::string& path, std::string_view bytes) const {
  // The process id is asked for each time and the random part comes from the kernel: forked processes never share a name.
  unsigned long long random = 0;
  if (getrandom(&random, sizeof random, 0) != ssize_t(sizeof random)) return error_text("cannot name a temporary file for", path);
  const std::string temporary = fmt::format("{}/.{}.{:016x}.tmp", folder(), getpid(), random);
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return error_text("cannot write to", folder());
  std::string fault;
  for (std::size_t done = 0; done < bytes.size() && fault.empty();) {
    const ssize_t n = ::write(file, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fault = error_text("cannot write to", folder());
    else done += std::size_t(n);
  }
  if (fault.empty() && fsync(file) != 0) fault = error_text("cannot flush a file in", folder());
  if (close(file) != 0 && fault.empty()) fault = error_text("cannot close a file in", folder());
  if (fault.empty() && rename(temporary.c_str(), path.c_str()) != 0) fault = error_text("cannot rename to", path);
  if (!fault.empty()) unlink(temporary.c_str());
  return fault;
}

bool DiskCache::write(const CacheEntry& entry, const std::string& source) {
  std::string fault;
  if (!folder().empty()) {
    fault = make_writable(folder());
    if (fault.empty()) fault = write_file(path_of(entry.key, ".kernel"), serialize(entry));
    if (fault.empty()) write_file(path_of(entry.key, ".cu"), source);  // for people: its loss is none
  }
  const bool kept = !folder().empty() && fault.empty();
  static std::atomic<bool> warned{false};
  if (!kept) warn_once(warned, "compiled kernels are kept in memory only: " + home_.fault(fault));
  return kept;
}

std::vector<DiskCache::Listed> DiskCache::list() const {
  std::vector<Listed> all;
  DIR* directory = folder().empty() ? nullptr : opendir(folder().c_str());
  if (!directory) return all;
  while (const dirent* item = readdir(directory)) {
    Listed l;
    l.file = item->d_name;
    if (!l.file.ends_with(".kernel")) continue;
    struct stat s;
    if (stat((folder() + "/" + l.file).c_str(), &s) == 0) l.bytes = std::uint64_t(s.st_size), l.modified = s.st_mtime;
    const std::string key = l.file.substr(0, l.file.size() - 7);
    if (is_key(key)) l.entry = read(key);
    all.push_back(std::move(l));
  }
  closedir(directory);
  std::sort(all.begin(), all.end(), [](const Listed& a, const Listed& b) { return a.file < b.file; });
  return all;
}

int DiskCache::clear(bool stale_only) {
  int removed = 0;
  for (const Listed& l : list()) {
    const std::string key = l.file.substr(0, l.file.size() - 7);
    if (!is_key(key)) continue;
    if (stale_only && l.entry && l.entry->sources == device_sources_digest()) continue;
    if (unlink(path_of(key, ".kernel").c_str()) == 0) ++removed;
    unlink(path_of(key, ".cu").c_str());
  }
  // Temporary files of processes that died while they wrote; a living one is done within the hour.
  DIR* directory = folder().empty() ? nullptr : opendir(folder().c_str());
  if (!directory) return removed;
  while (const dirent* item = readdir(directory)) {
    const std::string name = item->d_name;
    struct stat s;
    if (name.starts_with('.') && name.ends_with(".tmp") && stat((folder() + "/" + name).c_str(), &s) == 0 && std::time(nullptr) - s.st_mtime > 3600)
      unlink((folder() + "/" + name).c_str());
  }
  closedir(directory);
  return removed;
}

}  // namespace foretile
