#include "emulator/library/compile.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>

#include "cache/home.h"
#include "emulator/library/store.h"
#include "model/text.h"

namespace foretile::emulator {

namespace {

namespace fs = std::filesystem;

fs::path include_directory() {
  std::vector<fs::path> places;
  if (const std::string given = environment("FORETILE_INCLUDE_DIR"); !given.empty()) places.push_back(given);
  std::error_code none;
  if (const fs::path program = fs::read_symlink("/proc/self/exe", none); !program.empty()) places.push_back(program.parent_path() / ".." / "include");  // an installed copy's own
  places.insert(places.end(), {FORETILE_SOURCE_INCLUDE_DIR, FORETILE_INSTALLED_INCLUDE_DIR, "/usr/local/include", "/usr/include"});
  for (const fs::path& p : places)
    if (fs::exists(p / "foretile" / "device" / "types.h")) return fs::weakly_canonical(p);
  throw std::runtime_error("the device headers (foretile/device/types.h) were not found: set FORETILE_INCLUDE_DIR");
}

std::string find_compiler() {
  std::vector<std::string> names;
  const std::string asked = environment("FORETILE_CXX");
  if (!asked.empty()) {
    names = {asked};  // that one or none
  } else {
    if (const std::string given = environment("CXX"); !given.empty()) names.push_back(given);
    names.insert(names.end(), {"c++", "g++", "clang++"});
  }
  for (const std::string& name : names) {
    if (name.find('/') != std::string::npos) {
      if (access(name.c_str(), X_OK) == 0) return name;
      continue;
    }
    std::istringstream path(environment("PATH"));
    for (std::string folder; std::getline(path, folder, ':');)
      if (access((folder + "/" + name).c_str(), X_OK) == 0) return folder + "/" + name;
  }
  throw std::runtime_error(asked.empty() ? "no C++ compiler was found on the PATH: set FORETILE_CXX" : "FORETILE_CXX names " + asked + ", which is no program that can be run");
}

// The kernel depends on every header below foretile/device.
void add_headers(Hash& hash, const fs::path& include) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(include / "foretile" / "device", fs::directory_options::follow_directory_symlink))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& f : files) hash.add(f.lexically_relative(include).string()), hash.add(read_file(f));
}

std::vector<std::string> command_of(const std::string& compiler, const fs::path& include) {
  return {compiler, "-std=c++20", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-I" + include.string()};
}

// What a compiled kernel depends on besides its own source, as 16 hexadecimal digits.
std::string environment_of(const std::vector<std::string>& command, const fs::path& include) {
  Hash hash;
  for (const std::string& word : command) hash.add(word);
  add_headers(hash, include);
  return fmt::format("{:016x}", hash.value);
}

// Runs a program without a shell; its messages go to `log`. Returns its exit code.
int run_program(const std::vector<std::string>& words, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  pid_t child;
  const int error = posix_spawn(&child, arguments[0], &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error) throw std::runtime_error(fmt::format("{} cannot be started: {}", words[0], std::strerror(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

// Of a folder in which a compiler just failed: too full for a kernel of some ten kilobytes.
bool full(const fs::path& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  return !error && space.available < 1'000'000;
}

// Under a name of this process, then renamed: another that compiles the same never sees half a file.
void make(std::vector<std::string> command, const std::string& source, const fs::path& library, const std::string& label) {
  const fs::path folder = library.parent_path();
  const std::string stem = (folder / library.stem()).string() + fmt::format(".{}", getpid());
  const fs::path text = stem + ".cc", log = stem + ".log", made = stem + ".so";
  struct Remove {
    std::vector<fs::path> files;
    ~Remove() {
      std::error_code ignored;
      for (const fs::path& f : files) fs::remove(f, ignored);
    }
  } const remove{{text, log, made}};
  if (!(std::ofstream(text) << source << std::flush)) throw Unwritable(error_text("cannot write to", folder));
  const std::string compiler = command.front();
  command.insert(command.end(), {text.string(), "-o", made.string()});
  const int code = run_program(command, log);
  if (code != 0 && full(folder)) throw Unwritable(fmt::format("cannot write to {}: {}", folder.string(), std::strerror(ENOSPC)));
  if (code != 0) throw std::runtime_error(fmt::format("{} could not compile the kernel (exit code {}): {}", compiler, code, read_file(log).substr(0, 2000)));
  if (!fs::exists(made)) throw std::runtime_error(fmt::format("{} ended well but made no file", compiler));
  seal(made, label);
  fs::rename(made, library);
}

KernelBody load(const fs::path& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw std::runtime_error(fmt::format("the compiled kernel cannot be loaded: {} (a program that emulates kernels outside of the catalogue must export its symbols: link with -rdynamic)", dlerror()));
  void* body = dlsym(handle, "foretile_kernel_body");
  if (!body) throw std::runtime_error(fmt::format("{} holds no kernel", library.string()));
  return reinterpret_cast<KernelBody>(body);
}

std::string text_of(DType t) { return fmt::format("foretile::DType({})", int(t)); }

}  // namespace

std::string kernel_source(const Operation& o, const Configuration& c) {
  const FamilyCode code = code_of(c.family);
  return fmt::format(
      "#include \"foretile/device/kernels/{}.cuh\"\n"
      "using namespace foretile;\n"
      "constexpr Operation operation{{{}, {}, {}, {}, {}, Alignment({}), Alignment({}), {}, {}, {}, {}, {}, {}, Activation({}), Gating({})}};\n"
      "constexpr Configuration configuration{{Family({}), {}, {}, {}, {}, {}, {}, Schedule({}), {}, {}, {}, {}, {}}};\n"
      "extern \"C\" void foretile_kernel_body(const void* p) {{ {}<operation, configuration>(*static_cast<const {}*>(p)); }}\n",
      code.kernel, text_of(o.a), text_of(o.b), text_of(o.d), o.transpose_a, o.transpose_b, int(o.inputs), int(o.output), o.has_c, o.has_bias,
      o.has_residual, text_of(o.c), text_of(o.bias), text_of(o.residual), int(o.activation), int(o.gating), int(c.family), c.tile_m, c.tile_n, c.tile_k, c.stages, c.cluster_m, c.cluster_n,
      int(c.schedule), c.store_buffers, c.split_k, c.cluster_k, c.thread_m, c.thread_n, code.kernel, code.arguments);
}

std::string compile_environment() {
  try {
    const fs::path include = include_directory();
    return environment_of(command_of(find_compiler(), include), include);
  } catch (const std::runtime_error&) {
    return {};  // no compiler, no headers
  }
}

KernelBody compile_kernel(const Operation& operation, const Configuration& configuration) {
  static std::mutex mutex;
  static std::map<std::string, KernelBody> loaded;
  const std::string source = kernel_source(operation, configuration);
  const std::lock_guard lock(mutex);
  if (const auto it = loaded.find(source); it != loaded.end()) return it->second;

  const fs::path include = include_directory();
  const std::vector<std::string> command = command_of(find_compiler(), include);
  const std::string file = fmt::format("{:016x}{}.so", Hash().add(source).value, environment_of(command, include));
  const KernelBody body = load(stored(file, [&](const fs::path& library) { make(command, source, library, fmt::format("{} | {}", foretile::text_of(operation), foretile::text_of(configuration))); }));
  loaded.emplace(source, body);
  return body;
}

}  // namespace foretile::emulator
