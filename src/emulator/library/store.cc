#include "emulator/library/store.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>
#include <tuple>

#include "cache/home.h"

namespace foretile::emulator {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigits = 16;

fs::path home_folder() {
  const std::string home = cache_home().folder;
  return home.empty() ? fs::path() : fs::path(home) / "emulator";
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

// What the file is; null where it is not the emulator's, or is being made.
std::optional<StoredKernel> stored_kernel(const fs::path& path, const std::string& current) {
  const std::string name = path.filename().string(), extension = path.extension().string();
  struct stat s;
  if (lstat(path.c_str(), &s) != 0 || !S_ISREG(s.st_mode) || !is_hexadecimal(name.substr(0, 2 * kDigits))) return {};
  StoredKernel k{.folder = path.parent_path(), .file = name, .bytes = std::uintmax_t(s.st_size), .modified = s.st_mtime};
  if (name.size() == 2 * kDigits + 3 && extension == ".so") {
    k.label = label_of(path);
    k.state = k.label.empty() ? StoredKernel::State::damaged : current.empty() || name.substr(kDigits, kDigits) == current ? StoredKernel::State::current : StoredKernel::State::stale;
    return k;
  }
  const pid_t maker = maker_of(path);
  if (maker <= 0 || (extension != ".so" && extension != ".cc" && extension != ".log") || kill(maker, 0) == 0 || errno == EPERM) return {};
  k.state = StoredKernel::State::abandoned;
  return k;
}

}  // namespace

Hash& Hash::add(const std::string& text) {
  for (const char c : text) value = (value ^ u8(c)) * 0x100000001b3;
  value = (value ^ 0xFF) * 0x100000001b3;
  return *this;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<fs::path> present_store_folders() {
  std::vector<fs::path> folders;
  std::error_code error;
  if (const fs::path home = home_folder(); !home.empty() && fs::is_directory(home, error)) folders.push_back(home);
  if (const fs::path other = folder_for_strangers(); !other.empty() && mine_alone(other)) folders.push_back(other);
  return folders;
}

fs::path stored(const std::string& file, const std::function<void(const fs::path&)>& make) {
  const auto made_in = [&](const fs::path& folder) {
    if (label_of(folder / file).empty()) make(folder / file);
    return folder / file;
  };
  const CacheHome home = cache_home();
  std::string fault;
  if (!home.folder.empty()) {
    const fs::path folder = home_folder();
    if (!label_of(folder / file).empty()) return folder / file;  // a read-only one serves too
    fault = make_writable(folder);
    try {
      if (fault.empty()) return made_in(folder);
    } catch (const Unwritable& e) {
      fault = e.what();
    }
  }
  const fs::path other = folder_for_strangers();
  const auto refuse = [&](const std::string& why) { throw std::runtime_error(fmt::format("no folder to compile in: {}; {}", home.fault(fault), why)); };
  if (other.empty()) refuse("TMPDIR names none either");
  if (mkdir(other.c_str(), 0700) != 0 && errno != EEXIST) refuse(error_text("cannot create", other));
  if (!mine_alone(other)) refuse(fmt::format("{} is not a folder that this user alone can write to", other.string()));
  static std::atomic<bool> warned{false};
  warn_once(warned, fmt::format("kernels compiled for the emulator are kept in {}: {}", other.string(), home.fault(fault)));
  return made_in(other);
}

void seal(const fs::path& library, const std::string& label) {
  const std::string bytes = read_file(library), line = "\n" + label + "\n";
  std::ofstream out(library, std::ios::binary | std::ios::app);
  if (!(out << line << checksum_of(bytes + line) << std::flush)) throw Unwritable(error_text("cannot write to", library.parent_path()));
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
  for (const fs::path& folder : present_store_folders()) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (std::optional<StoredKernel> k = stored_kernel(entry.path(), current)) list.push_back(std::move(*k));
  }
  std::sort(list.begin(), list.end(), [](const StoredKernel& a, const StoredKernel& b) { return std::tie(a.folder, a.file) < std::tie(b.folder, b.file); });
  return list;
}

int clear_stored_kernels(const std::string& current, bool stale_only) {
  int removed = 0;
  for (const StoredKernel& k : stored_kernels(current)) {
    std::error_code error;
    if (!stale_only || k.state != StoredKernel::State::current) removed += fs::remove(k.folder / k.file, error);
  }
  return removed;
}

}  // namespace foretile::emulator
