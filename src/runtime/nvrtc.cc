#include "runtime/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <glob.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include "cache/home.h"
#include "runtime/driver.h"

namespace foretile {

namespace {

bool is_file(const std::string& path) {
  struct stat s;
  return stat(path.c_str(), &s) == 0 && S_ISREG(s.st_mode);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string real_path(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) ? resolved : path;
}

// Newest first: "cuda-13.0" stands before "cuda-12.4".
void add_matches(std::vector<std::string>& folders, const std::string& pattern) {
  glob_t found;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (std::size_t i = found.gl_pathc; i-- > 0;) folders.push_back(found.gl_pathv[i]);
  globfree(&found);
}

void add_python(std::vector<std::string>& folders, const std::string& prefix) {
  if (prefix.empty()) return;
  for (const char* lib : {"/lib/python3.*/site-packages", "/lib/python3*/dist-packages", "/lib64/python3.*/site-packages"})
    for (const char* wheel : {"/nvidia/cu[0-9]*/lib", "/nvidia/cuda_nvrtc/lib"}) add_matches(folders, prefix + lib + wheel);
}

std::vector<std::string> search_folders() {
  std::vector<std::string> folders = split(environment("LD_LIBRARY_PATH"), ':');
  add_python(folders, environment("VIRTUAL_ENV"));
  add_python(folders, environment("CONDA_PREFIX"));
  for (const std::string& bin : split(environment("PATH"), ':'))
    if (access((bin + "/python3").c_str(), X_OK) == 0) {
      add_python(folders, folder_of(bin));                                     // as called: a virtual environment's
      add_python(folders, folder_of(folder_of(real_path(bin + "/python3"))));  // where it really stands
      break;
    }
  add_python(folders, folder_of(folder_of(real_path("/proc/self/exe"))));
  add_python(folders, "/usr/local");
  add_python(folders, environment("HOME").empty() ? "" : environment("HOME") + "/.local");
  for (const char* home : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string prefix = environment(home); !prefix.empty()) folders.push_back(prefix + "/lib64"), folders.push_back(prefix + "/lib");
  folders.push_back("/usr/local/cuda/lib64");
  add_matches(folders, "/usr/local/cuda-*/lib64");
  add_matches(folders, "/opt/cuda*/lib64");
  for (const char* system : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"}) folders.push_back(system);
  return folders;
}

struct State {
  std::mutex mutex;
  std::map<std::string, Nvrtc*> loaded;                      // by path; never unloaded
  std::map<std::string, std::optional<std::string>> found;  // by what the search depends on
};
State& state() {
  static State& s = *new State;
  return s;
}

}  // namespace

std::optional<std::string> find_nvrtc() {
  if (const std::string named = environment("FORETILE_NVRTC"); !named.empty())
    return is_file(named) ? std::optional(named) : std::nullopt;
  const Driver* driver = loaded_driver();
  const int driver_major = driver ? driver->version / 1000 : 0;
  const std::string key = fmt::format("{}|{}|{}", driver_major, environment("LD_LIBRARY_PATH"), environment("CUDA_HOME"));
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (const auto known = s.found.find(key); known != s.found.end()) return known->second;
  // A cubin of a newer major version than the driver's cannot be loaded, so the driver's own comes first.
  std::vector<std::string> names;
  for (const int major : {driver_major, 13, 12})
    if (major >= 12) names.push_back(fmt::format("libnvrtc.so.{}", major));
  names.push_back("libnvrtc.so");
  const std::vector<std::string> folders = search_folders();
  for (const std::string& name : names)
    for (const std::string& folder : folders)
      if (is_file(folder + "/" + name)) return s.found[key] = folder + "/" + name;
  return std::nullopt;  // not remembered: it may be installed while this process runs
}

std::string nvrtc_identity(const std::string& path) {
  const std::string real = real_path(path);
  struct stat s;
  if (stat(real.c_str(), &s) != 0) return "";
  return fmt::format("{} ({} bytes)", real.substr(real.rfind('/') + 1), s.st_size);
}

Status open_nvrtc(const std::string& path, Nvrtc& n) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    return {Code::no_compiler, fmt::format("NVRTC could not be loaded: {}", reason ? reason : path)};
  }
  std::string missing;
  const auto resolve = [&](auto& member, const char* symbol) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(handle, symbol));
    if (!member) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  };
  resolve(n.get_version, "nvrtcVersion");
  resolve(n.create, "nvrtcCreateProgram");
  resolve(n.destroy, "nvrtcDestroyProgram");
  resolve(n.compile, "nvrtcCompileProgram");
  resolve(n.cubin_size, "nvrtcGetCUBINSize");
  resolve(n.cubin, "nvrtcGetCUBIN");
  resolve(n.log_size, "nvrtcGetProgramLogSize");
  resolve(n.log, "nvrtcGetProgramLog");
  resolve(n.error, "nvrtcGetErrorString");
  if (!missing.empty()) return {Code::no_compiler, fmt::format("{} lacks {}: NVRTC 12 or 13 is needed", path, missing)};
  if (const int result = n.get_version(&n.major, &n.minor)) return {Code::no_compiler, fmt::format("nvrtcVersion of {}: {}", path, n.error(result))};
  n.path = path;
  n.identity = nvrtc_identity(path);
  return {};
}

Status load_nvrtc(const Nvrtc*& nvrtc) {
  const std::optional<std::string> path = find_nvrtc();
  if (!path) {
    if (const std::string named = environment("FORETILE_NVRTC"); !named.empty())
      return {Code::no_compiler, fmt::format("FORETILE_NVRTC names {}, which is not a file", named)};
    return {Code::no_compiler,
            "NVRTC (libnvrtc.so.13 or .12) was not found in LD_LIBRARY_PATH, beside Python, in CUDA_HOME, /usr/local/cuda* or the system's folders: "
            "install it (pip install nvidia-cuda-nvrtc) or name the file in FORETILE_NVRTC"};
  }
  State& s = state();
  const std::lock_guard lock(s.mutex);
  Nvrtc*& known = s.loaded[*path];
  if (!known) {
    Nvrtc fresh;
    if (Status status = open_nvrtc(*path, fresh); !status) return status;
    known = new Nvrtc(std::move(fresh));
  }
  nvrtc = known;
  return {};
}

}  // namespace foretile
