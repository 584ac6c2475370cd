#include "catalogue/compile_all.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <thread>

#include "foretile/device/catalogue.h"
#include "foretile/device/kernels/family.h"
#include "foretile/device/legality.h"
#include "model/text.h"
#include "runtime/compile.h"
#include "runtime/nvrtc.h"
#include "runtime/source.h"

namespace foretile::catalogue {

std::vector<Kernel> kernels() {
  std::vector<Kernel> list;
  std::set<std::string> seen;
  for (const NamedOperation& named : kOperations)
    for (const Configuration& c : kConfigurations) {
      if (why_not(named.operation, c)) continue;
      if (!seen.insert(translation_unit(named.operation, c)).second) continue;
      list.push_back({named.name, named.operation, c});
    }
  return list;
}

std::vector<Compiled> compile_all(const std::vector<Kernel>& list, const std::string& architecture, int threads, const std::function<void(int)>& progress) {
  std::vector<Compiled> results(list.size());
  std::atomic<std::size_t> next{0};
  std::atomic<int> done{0};
  std::mutex mutex;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < list.size();) {
      const Kernel& k = list[i];
      Compilation c = compile_kernel(k.operation, k.configuration, architecture);
      Compiled& r = results[i];
      r.kernel = k;
      r.status = c.status;
      r.cubin = std::move(c.kernel.cubin);
      r.compiler = c.kernel.compiler;
      r.registers = c.kernel.registers, r.spill_bytes = c.kernel.spill_bytes, r.seconds = c.kernel.seconds;
      r.shared_bytes = block_facts(k.operation, k.configuration).shared_bytes;
      const int count = ++done;
      if (progress) {
        const std::lock_guard lock(mutex);
        progress(count);
      }
    }
  };
  const unsigned wanted = threads > 0 ? unsigned(threads) : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> pool;
  for (unsigned i = 1; i < std::min<std::size_t>(wanted, list.size()); ++i) pool.emplace_back(work);
  work();
  pool.clear();
  return results;
}

void write_listing(const std::vector<Compiled>& compiled, const std::string& architecture, const std::string& version, const std::string& folder) {
  nlohmann::ordered_json json;
  json["nvrtc"] = version;
  json["architecture"] = architecture;
  json["kernels"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < compiled.size(); ++i) {
    const Compiled& c = compiled[i];
    if (!c.status) continue;
    const std::string name = std::to_string(i) + ".cubin";
    std::ofstream cubin(folder + "/" + name, std::ios::binary);
    if (!(cubin << c.cubin).flush()) throw std::runtime_error("cannot write " + folder + "/" + name);
    json["kernels"].push_back({{"operation", c.kernel.operation_name}, {"configuration", text_of(c.kernel.configuration)}, {"cubin", name}, {"registers", c.registers},
                               {"spill_bytes", c.spill_bytes}, {"shared_bytes", c.shared_bytes}, {"seconds", c.seconds}});
  }
  std::ofstream out(folder + "/list.json");
  if (!(out << json.dump(1) << "\n").flush()) throw std::runtime_error("cannot write " + folder + "/list.json");
}

Status nvrtc_version(std::string& text) {
  const Nvrtc* nvrtc = nullptr;
  if (const Status s = load_nvrtc(nvrtc); !s) return s;
  text = "NVRTC " + std::to_string(nvrtc->major) + "." + std::to_string(nvrtc->minor);
  return {};
}

}  // namespace foretile::catalogue
