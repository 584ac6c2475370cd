#include "emulator/library/store.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace foretile::emulator {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigits = 16;

fs::path folder_at_home() {
  if (const std::string given = environment("FORETILE_CACHE"); !given.empty()) return fs::path(given) / "emulator";
  fs::path root = environment("XDG_CACHE_HOME");
  if (root.empty() && !environment("HOME").empty()) root = fs::path(environment("HOME")) / ".cache";
  return root.empty() ? root : root / "foretile" / "emulator";
}

fs::path folder_for_strangers() {
  std::error_code error;
  const fs::path root = fs::temp_directory_path(error);
  return error ? fs::path() : root / fmt::format("foretile-emulator-{}", getuid());
}

// What lies there is run, and anyone may write to the folder above.
bool mine_alone(const fs::path& folder) {
  struct stat s;
  return lstat(folder.c_str(), &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == getuid() && !(s.st_mode & 022);
}

std::string checksum_of(const std::string& bytes) { return fmt::format("foretile{:016x}", Hash().add(bytes).value); }

bool is_hexadecimal(std::string_view text) { return text.size() == 2 * kDigits && text.find_first_not_of("0123456789abcdef") == text.npos; }

// The process that a file's name says is making it; 0: none.
pid_t maker_of(const fs::path& file) {
  const std::string stem = file.stem().string();
  const std::string_view digits = std::string_view(stem).substr(std::min(stem.size(), 2 * kDigits + 1));
  pid_t process = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), process);
  return error == std::errc() && end == digits.data() + digits.size() ? process : 0;
}

}  // namespace

Hash& Hash::add(const std::string& text) {
  for (const char c : text) value = (value ^ u8(c)) * 0x100000001b3;
  value = (value ^ 0xFF) * 0x100000001b3;
  return *this;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

fs::path store_folder() {
  fs::path folder = folder_at_home();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (!folder.empty() && !error && access(folder.c_str(), W_OK) == 0) return folder;
  folder = folder_for_strangers();  // no home, or a read-only one
  if (folder.empty()) throw std::runtime_error("no folder to compile in: set XDG_CACHE_HOME, HOME or TMPDIR");
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) throw std::runtime_error(fmt::format("no folder to compile in: {}: {}", folder.string(), std::strerror(errno)));
  if (!mine_alone(folder)) throw std::runtime_error(fmt::format("no folder to compile in: {} is not a folder that this user alone can write to", folder.string()));
  return folder;
}

fs::path present_store_folder() {
  const fs::path home = folder_at_home(), other = folder_for_strangers();
  std::error_code error;
  if (!home.empty() && fs::is_directory(home, error)) return home;
  return !other.empty() && mine_alone(other) ? other : fs::path();
}

void seal(const fs::path& library, const std::string& label) {
  const std::string bytes = read_file(library), line = "\n" + label + "\n";
  std::ofstream out(library, std::ios::binary | std::ios::app);
  if (!(out << line << checksum_of(bytes + line) << std::flush)) throw std::runtime_error(fmt::format("{} cannot be written", library.string()));
}

std::string label_of(const fs::path& library) {
  const std::string bytes = read_file(library), sum = checksum_of("");
  if (bytes.size() <= sum.size()) return {};
  const std::string before = bytes.substr(0, bytes.size() - sum.size());
  if (checksum_of(before) != bytes.substr(before.size())) return {};
  const std::size_t begin = before.rfind('\n', before.size() - 2);
  return begin == before.npos ? std::string() : before.substr(begin + 1, before.size() - begin - 2);
}

std::vector<StoredKernel> stored_kernels(const std::string& current) {
  std::vector<StoredKernel> list;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(present_store_folder(), error)) {
    const std::string name = entry.path().filename().string();
    const std::string extension = entry.path().extension().string();
    struct stat s;
    if (lstat(entry.path().c_str(), &s) != 0 || !S_ISREG(s.st_mode) || !is_hexadecimal(name.substr(0, 2 * kDigits))) continue;
    StoredKernel k;
    k.file = name, k.bytes = std::uintmax_t(s.st_size), k.modified = s.st_mtime;
    if (name.size() == 2 * kDigits + 3 && extension == ".so") {
      k.label = label_of(entry.path());
      k.state = k.label.empty() ? StoredKernel::State::damaged : current.empty() || name.substr(kDigits, kDigits) == current ? StoredKernel::State::current : StoredKernel::State::stale;
    } else if (const pid_t maker = maker_of(entry.path()); maker > 0 && (extension == ".so" || extension == ".cc" || extension == ".log")) {
      if (kill(maker, 0) == 0 || errno == EPERM) continue;
      k.state = StoredKernel::State::abandoned;
    } else {
      continue;
    }
    list.push_back(std::move(k));
  }
  std::sort(list.begin(), list.end(), [](const StoredKernel& a, const StoredKernel& b) { return a.file < b.file; });
  return list;
}

int clear_stored_kernels(const std::string& current, bool stale_only) {
  int removed = 0;
  const fs::path folder = present_store_folder();
  for (const StoredKernel& k : stored_kernels(current)) {
    std::error_code error;
    if (!stale_only || k.state != StoredKernel::State::current) removed += fs::remove(folder / k.file, error);
  }
  return removed;
}

}  // namespace foretile::emulator
