// Compiles and launches the kernels whose counters are recorded; record.py runs it under Nsight Compute.
//
//   foretile_counters compile FOLDER [LIST]  machine code of every case (of LIST) into FOLDER; needs NVRTC, no GPU
//   foretile_counters run FOLDER LIST FILE   launches the cases of LIST once each, in order, and describes them in FILE
//   foretile_counters device                 name and driver of the GPU
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string_view>

#include "cases.h"
#include "foretile/device/layout/tile_order.h"
#include "model/text.h"
#include "runtime/compile.h"
#include "runtime/digest.h"
#include "runtime/driver.h"
#include "runtime/embedded_sources.h"
#include "runtime/nvrtc.h"
#include "runtime/source.h"

namespace foretile::counters {
namespace {

constexpr const char* kArchitecture = "sm_90a";

void check(const Status& s) {
  if (!s) throw std::runtime_error(s.message());
}

// ---- compile ---------------------------------------------------------------------------------------------------
std::string probe_source(const Case& c) {
  return fmt::format(
      "#include \"foretile/device/probes/probes.cuh\"\n\n"
      "extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ foretile::ProbeArguments arguments) {{\n"
      "  using namespace foretile;\n  {}(arguments);\n}}\n",
      c.threads, kKernelName, c.probe);
}

std::string source_of(const Case& c) { return c.probe.empty() ? translation_unit(c.operation, c.configuration) : probe_source(c); }

// Named by everything that the compiler sees of it.
std::filesystem::path code_path(const std::filesystem::path& folder, const Case& c) {
  Digest digest;
  digest.add_part(source_of(c));
  for (const EmbeddedFile& f : embedded_device_sources()) digest.add_part(f.name).add_part(f.text);
  return folder / (digest.hex().substr(0, 16) + ".cubin");
}

std::string compile_probe(const Case& c, const Nvrtc& nvrtc) {
  std::vector<std::string> held;
  std::vector<const char*> names, texts;
  const auto files = embedded_device_sources();
  held.reserve(2 * files.size());
  for (const EmbeddedFile& f : files) {
    names.push_back(held.emplace_back(f.name).c_str());
    texts.push_back(held.emplace_back(f.text).c_str());
  }
  const std::string source = probe_source(c), architecture = fmt::format("--gpu-architecture={}", kArchitecture);
  const char* options[] = {"-std=c++20", "-default-device", architecture.c_str()};
  Nvrtc::Program program = nullptr;
  if (nvrtc.create(&program, source.c_str(), "probe.cu", int(names.size()), texts.data(), names.data())) throw std::runtime_error("nvrtcCreateProgram failed");
  const int result = nvrtc.compile(program, int(std::size(options)), options);
  std::string code, log;
  std::size_t bytes = 0;
  if (result == 0 && nvrtc.cubin_size(program, &bytes) == 0) {
    code.resize(bytes);
    nvrtc.cubin(program, code.data());
  } else if (nvrtc.log_size(program, &bytes) == 0) {
    log.resize(bytes);
    nvrtc.log(program, log.data());
  }
  nvrtc.destroy(&program);
  if (code.empty()) throw std::runtime_error(fmt::format("{} does not compile:\n{}", c.probe, log));
  return code;
}

void check_list(std::string_view list) {
  for (List known : {List::shared, List::global, List::kernels, List::gemms})
    if (list == name_of(known)) return;
  throw std::invalid_argument(fmt::format("LIST is {} (allowed: shared, global, kernels, gemms)", list));
}

// A product whose kernel the library itself would refuse (spills, say) is left out, and said so.
bool compile_all(const std::filesystem::path& folder, std::string_view list) {
  if (!list.empty()) check_list(list);
  std::filesystem::create_directories(folder);
  const Nvrtc* nvrtc = nullptr;
  check(load_nvrtc(nvrtc));
  bool complete = true;
  for (const Case& c : all_cases()) {
    const auto path = code_path(folder, c);
    if ((!list.empty() && name_of(c.list) != list) || std::filesystem::exists(path)) continue;
    std::string code;
    if (c.probe.empty()) {
      Compilation compiled = compile_kernel(c.operation, c.configuration, kArchitecture, nvrtc);
      if (!compiled.status) {
        fmt::print(stderr, "left out: {}: {}\n", c.name, compiled.status.message());
        complete = false;
        continue;
      }
      code = std::move(compiled.kernel.cubin);
    } else {
      code = compile_probe(c, *nvrtc);
    }
    std::ofstream out(path, std::ios::binary);
    if (!out.write(code.data(), std::streamsize(code.size()))) throw std::runtime_error(fmt::format("cannot write {}", path.string()));
    fmt::print("{} {}\n", path.filename().string(), c.probe.empty() ? text_of(c.configuration) : c.probe);
  }
  return complete;
}

// ---- run -------------------------------------------------------------------------------------------------------
class Gpu {
 public:
  Gpu() {
    check(load_driver(driver_));
    check(driver_->device(0, info_));
    cuda::Context context = nullptr;
    check(driver_->primary_context(0, context));
    check(driver_->check(driver_->context_push(context), "cuCtxPushCurrent"));
  }
  const Driver& driver() const { return *driver_; }
  const DeviceInfo& info() const { return *info_; }
  void check_call(cuda::Result r, const char* what) const { check(driver_->check(r, what)); }

 private:
  const Driver* driver_ = nullptr;
  const DeviceInfo* info_ = nullptr;
};

class Buffer {
 public:
  Buffer(const Gpu& gpu, std::size_t bytes) : gpu_(gpu) {
    if (bytes) gpu.check_call(gpu.driver().memory_allocate(&address_, bytes), "cuMemAlloc");
  }
  ~Buffer() {
    if (address_) gpu_.driver().memory_free(address_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  cuda::DevicePointer address() const { return address_; }
  void* pointer() const { return reinterpret_cast<void*>(address_); }

 private:
  const Gpu& gpu_;
  cuda::DevicePointer address_ = 0;
};

// bf16 values of magnitude 2^-4 to 2, both signs: as fp32 or fp16 numbers harmless, too.
std::vector<u16> random_values() {
  std::vector<u16> values(8 << 20);
  u64 state = 1;
  for (u16& v : values) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const u32 bits = u32(state >> 40);
    v = u16((bits & 0x8000) | (0x3d80 + (bits & 0x7fffu) * 0x280u / 0x8000u));
  }
  return values;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(fmt::format("cannot read {}", path.string()));
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Launched {
  LaunchShape shape;
  i32 group = 0;
  int registers = 0;
};

Launched launch(const Gpu& gpu, const Case& c, cuda::Function kernel, cuda::DevicePointer random, std::size_t random_bytes) {
  const Driver& d = gpu.driver();
  const Sizes sizes = sizes_of(c);
  const Buffer input(gpu, sizes.input), output(gpu, sizes.output), offsets(gpu, c.offsets.size() * sizeof(i32));
  for (std::size_t at = 0; at < sizes.input; at += random_bytes)
    gpu.check_call(d.copy_on_device(input.address() + at, random, std::min(random_bytes, sizes.input - at)), "cuMemcpyDtoD");
  if (!c.offsets.empty()) gpu.check_call(d.copy_to_device(offsets.address(), c.offsets.data(), c.offsets.size() * sizeof(i32)), "cuMemcpyHtoD");
  const Memory memory{input.pointer(), output.pointer(), static_cast<i32*>(offsets.pointer())};
  const EncodeTensorMap encode = [&](const TensorMapSpec& spec) {
    TensorMap map;
    check(encode_tensor_map(d, spec, map));
    return map;
  };

  Launched result;
  ProbeArguments probe;
  GemmSm90Arguments sm90;
  GemmSimtArguments simt;
  void* parameters[1] = {&probe};
  if (!c.probe.empty()) {
    result.shape.blocks = c.blocks, result.shape.threads = c.threads, result.shape.shared_bytes = c.shared_bytes;
    probe = probe_arguments(c, memory, encode);
  } else {
    result.shape = launch_shape(c.operation, c.configuration, c.problem, gpu.info().sms);
    const Operands x = operands_of(c, memory);
    TileGrid* grid = nullptr;
    if (c.configuration.family == Family::sm90) {
      sm90 = sm90_arguments(c.operation, c.configuration, c.problem, x, result.shape, encode);
      grid = &sm90.grid, parameters[0] = &sm90;
    } else {
      simt = simt_arguments(c.configuration, c.problem, x, result.shape);
      grid = &simt.grid, parameters[0] = &simt;
    }
    if (c.raster_group > 0) grid->group = std::min(c.raster_group, grid->tiles_m);
    result.group = grid->group;
  }
  gpu.check_call(d.function_set(kernel, cuda::kMaxDynamicSharedBytes, int(result.shape.shared_bytes)), "cuFuncSetAttribute");
  gpu.check_call(d.function_get(&result.registers, cuda::kRegisters, kernel), "cuFuncGetAttribute");
  cuda::LaunchAttribute attribute{};
  attribute.id = cuda::kClusterDimension;
  attribute.value.cluster = {result.shape.cluster, 1, 1};
  const cuda::LaunchConfig config{result.shape.blocks, 1, 1, result.shape.threads, 1, 1, result.shape.shared_bytes, nullptr, &attribute, result.shape.cluster > 1 ? 1u : 0u};
  gpu.check_call(d.launch(&config, kernel, parameters, nullptr), "cuLaunchKernelEx");
  gpu.check_call(d.context_synchronize(), c.name.c_str());
  return result;
}

void run(const std::filesystem::path& folder, std::string_view list, const std::string& file) {
  check_list(list);
  const Gpu gpu;
  const Driver& d = gpu.driver();
  const std::vector<u16> values = random_values();
  const Buffer random(gpu, values.size() * 2);
  gpu.check_call(d.copy_to_device(random.address(), values.data(), values.size() * 2), "cuMemcpyHtoD");

  std::ofstream out(file);
  out << "case,probe,operation,configuration,m,n,k,raster_group,blocks,threads,cluster,dynamic_shared_bytes,registers\n";
  std::map<std::filesystem::path, cuda::Function> loaded;
  int count = 0;
  for (const Case& c : all_cases()) {
    if (name_of(c.list) != list) continue;
    const auto path = code_path(folder, c);
    if (!std::filesystem::exists(path)) {
      fmt::print(stderr, "left out: {}: not compiled\n", c.name);
      continue;
    }
    cuda::Function& kernel = loaded[path];
    if (!kernel) {
      cuda::Module module = nullptr;
      gpu.check_call(d.module_load(&module, read_file(path).data()), "cuModuleLoadData");
      gpu.check_call(d.module_function(&kernel, module, std::string(kKernelName).c_str()), "cuModuleGetFunction");
    }
    const Launched l = launch(gpu, c, kernel, random.address(), values.size() * 2);
    const bool product = c.probe.empty();
    out << fmt::format("{},\"{}\",{},{},{},{},{},{},{},{},{},{},{}\n", c.name, c.probe, product ? text_of(c.operation) : "", product ? text_of(c.configuration) : "", c.problem.m,
                       c.problem.n, c.problem.k, l.group, l.shape.blocks, l.shape.threads, l.shape.cluster, l.shape.shared_bytes, l.registers);
    ++count;
  }
  if (!count) throw std::invalid_argument(fmt::format("nothing to launch: kernels are looked for in {} ('foretile_counters compile' puts them there)", folder.string()));
  if (!out.flush()) throw std::runtime_error(fmt::format("cannot write {}", file));
}

int main_or_throw(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "compile" && (argc == 3 || argc == 4)) return compile_all(argv[2], argc == 4 ? argv[3] : "") ? 0 : 3;
  if (command == "run" && argc == 5) return run(argv[2], argv[3], argv[4]), 0;
  if (command == "device" && argc == 2) {
    const Gpu gpu;
    fmt::print("{}\n", gpu.info().name);
    return 0;
  }
  fmt::print(stderr, "usage: foretile_counters compile FOLDER [LIST] | run FOLDER shared|global|kernels|gemms FILE | device\n");
  return 2;
}

}  // namespace
}  // namespace foretile::counters

int main(int argc, char** argv) {
  try {
    return foretile::counters::main_or_throw(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "foretile_counters: %s\n", e.what());
    return 1;
  }
}
