#include "runtime/compile.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <chrono>
#include <vector>

#include "foretile/device/legality.h"
#include "runtime/embedded_sources.h"
#include "runtime/source.h"

namespace foretile {

namespace {

constexpr const char* kOptions[] = {"-std=c++20", "-default-device", "--ptxas-options=-v"};

// The number that stands before `words` in the line, -1 where they do not occur: "0 bytes spill stores".
int number_before(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == std::string_view::npos) return -1;
  std::size_t begin = at;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
  int value = -1;
  std::from_chars(line.data() + begin, line.data() + at, value);
  return value;
}

// "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized ..."
bool is_c75xx(std::string_view line) {
  for (std::size_t at = line.find("C75"); at != std::string_view::npos; at = line.find("C75", at + 1))
    if (at + 5 <= line.size() && std::isdigit(static_cast<unsigned char>(line[at + 3])) && std::isdigit(static_cast<unsigned char>(line[at + 4])))
      return true;
  return false;
}

struct Program {
  const Nvrtc& nvrtc;
  Nvrtc::Program handle = nullptr;
  ~Program() {
    if (handle) nvrtc.destroy(&handle);
  }
};

}  // namespace

std::string compile_flags() {
  std::string text;
  for (const char* option : kOptions) text += (text.empty() ? "" : " ") + std::string(option);
  return text;
}

Status judge_log(std::string_view log, CompiledKernel& kernel) {
  std::string faults;
  bool registers_seen = false, spills_seen = false;
  kernel.spill_bytes = 0;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (is_c75xx(line)) faults += fmt::format("\n  {}", line);
    if (const int registers = number_before(line, " registers"); registers >= 0 && line.find("Used ") != std::string_view::npos)
      kernel.registers = registers, registers_seen = true;
    const int stores = number_before(line, " bytes spill stores"), loads = number_before(line, " bytes spill loads");
    if (stores >= 0 && loads >= 0) {
      spills_seen = true;
      kernel.spill_bytes += stores + loads;
      if (stores + loads > 0) faults += fmt::format("\n  spills registers: {} bytes stored, {} bytes loaded", stores, loads);
    }
  }
  if (!registers_seen || !spills_seen) faults += "\n  the log does not say how many registers and spills there are";
  return faults.empty() ? Status{} : Status{Code::compile_error, "the compiled kernel is not accepted:" + faults};
}

namespace {

// One run of the compiler. Beside a driver NVRTC 13 keeps a cache of its own and answers from it without a log; then it
// runs again with that cache off (an option that older ones, which have no such cache, do not know).
Compilation compile_source(std::string source, std::string_view architecture, const Nvrtc& nvrtc, bool past_its_cache = false) {
  Compilation result;
  result.source = std::move(source);
  std::vector<const char*> names, texts;
  std::vector<std::string> terminated;  // the embedded texts are views: NVRTC wants C strings
  const auto files = embedded_device_sources();
  terminated.reserve(2 * files.size());
  for (const EmbeddedFile& file : files) {
    names.push_back(terminated.emplace_back(file.name).c_str());
    texts.push_back(terminated.emplace_back(file.text).c_str());
  }
  const std::string arch = fmt::format("--gpu-architecture={}", architecture);
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  options.push_back(arch.c_str());
  if (past_its_cache) options.push_back("--no-cache");

  const auto fail = [&](int code, const char* what) {
    result.status = {Code::compile_error, fmt::format("{} for {}: {}\n{}{}", what, architecture, nvrtc.error(code), result.log, result.source)};
    return result;
  };
  const auto begin = std::chrono::steady_clock::now();
  Program program{nvrtc};
  if (const int code = nvrtc.create(&program.handle, result.source.c_str(), "foretile_kernel.cu", int(names.size()), texts.data(), names.data()))
    return fail(code, "nvrtcCreateProgram");
  const int compiled = nvrtc.compile(program.handle, int(options.size()), options.data());
  std::size_t bytes = 0;
  if (nvrtc.log_size(program.handle, &bytes) == 0 && bytes > 1) {
    result.log.resize(bytes);
    nvrtc.log(program.handle, result.log.data());
    result.log.resize(std::min(result.log.find('\0'), bytes));
  }
  if (compiled) return fail(compiled, "NVRTC");
  if (!past_its_cache && result.log.find("registers") == std::string::npos) return compile_source(std::move(result.source), architecture, nvrtc, true);
  if (const int code = nvrtc.cubin_size(program.handle, &bytes)) return fail(code, "nvrtcGetCUBINSize");
  result.kernel.cubin.resize(bytes);
  if (const int code = nvrtc.cubin(program.handle, result.kernel.cubin.data())) return fail(code, "nvrtcGetCUBIN");
  result.kernel.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.kernel.compiler = nvrtc.identity;
  result.kernel.flags = compile_flags();
  result.status = judge_log(result.log, result.kernel);
  return result;
}

}  // namespace

Compilation compile_translation_unit(std::string source, std::string_view architecture, const Nvrtc* nvrtc) {
  Compilation refused;
  if (!nvrtc)
    if (refused.status = load_nvrtc(nvrtc); !refused.status) return refused;
  return compile_source(std::move(source), architecture, *nvrtc);
}

Compilation compile_kernel(const Operation& o, const Configuration& c, std::string_view architecture, const Nvrtc* nvrtc) {
  Compilation refused;
  if (const char* reason = why_not(o, c)) {
    refused.status = {Code::unsupported, reason};
    return refused;
  }
  if (needs_hopper(c.family) && architecture != "sm_90a") {
    refused.status = {Code::unsupported, fmt::format("the {} family runs on sm_90a alone, not on {}", code_of(c.family).name, architecture)};
    return refused;
  }
  if (!nvrtc)
    if (refused.status = load_nvrtc(nvrtc); !refused.status) return refused;

  Compilation made = compile_source(translation_unit(o, c), architecture, *nvrtc);
  if (!needs_hopper(c.family) && made.kernel.spill_bytes > 0) {
    const double seconds = made.kernel.seconds;
    made = compile_source(translation_unit(o, c, Residency::fewest_blocks), architecture, *nvrtc);
    made.kernel.seconds += seconds;
  }
  return made;
}

}  // namespace foretile
