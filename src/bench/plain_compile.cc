#include "bench/plain_compile.h"

#include <iterator>
#include <stdexcept>
#include <vector>

#include "runtime/embedded_sources.h"
#include "runtime/nvrtc.h"
#include "runtime/source.h"

namespace foretile::bench {

std::string compile_plain(const std::string& source, int compute_capability, const std::string& name) {
  const Nvrtc* nvrtc = nullptr;
  if (const Status s = load_nvrtc(nvrtc); !s) throw std::runtime_error(s.message());
  std::vector<std::string> terminated;
  std::vector<const char*> names, texts;
  const auto files = embedded_device_sources();
  terminated.reserve(2 * files.size());
  for (const EmbeddedFile& file : files) {
    names.push_back(terminated.emplace_back(file.name).c_str());
    texts.push_back(terminated.emplace_back(file.text).c_str());
  }
  Nvrtc::Program program = nullptr;
  const std::string architecture = "--gpu-architecture=" + architecture_for(compute_capability);
  const char* options[] = {"-std=c++20", "-default-device", architecture.c_str()};
  const auto fail = [&](const char* what, int code) {
    std::string log;
    std::size_t bytes = 0;
    if (program && nvrtc->log_size(program, &bytes) == 0) log.resize(bytes), nvrtc->log(program, log.data());
    if (program) nvrtc->destroy(&program);
    throw std::runtime_error(name + " do not compile: " + what + ": " + nvrtc->error(code) + "\n" + log);
  };
  if (const int code = nvrtc->create(&program, source.c_str(), "plain.cu", int(names.size()), texts.data(), names.data())) fail("nvrtcCreateProgram", code);
  if (const int code = nvrtc->compile(program, int(std::size(options)), options)) fail("nvrtcCompileProgram", code);
  std::size_t bytes = 0;
  if (const int code = nvrtc->cubin_size(program, &bytes)) fail("nvrtcGetCUBINSize", code);
  std::string cubin(bytes, '\0');
  if (const int code = nvrtc->cubin(program, cubin.data())) fail("nvrtcGetCUBIN", code);
  nvrtc->destroy(&program);
  return cubin;
}

}  // namespace foretile::bench
