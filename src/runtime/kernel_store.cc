#include "runtime/kernel_store.h"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>

#include "foretile/device/kernels/family.h"
#include "model/text.h"
#include "runtime/source.h"

namespace foretile {

namespace {

// A slot is made under the map's lock and filled under its own, so that a compile holds up only those who want its result.
struct CodeSlot {
  std::mutex mutex;
  std::shared_ptr<const CompiledKernel> kernel;
};
struct LoadSlot {
  std::mutex mutex;
  LoadedKernel kernel;
  std::atomic<bool> ready{false};
};

template <class Slot> class Slots {
 public:
  Slot& at(const std::string& key) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Slot>& slot = slots_[key];
    if (!slot) slot = std::make_unique<Slot>();
    return *slot;
  }
  Slot* find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = slots_.find(key);
    return it == slots_.end() ? nullptr : it->second.get();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Slot>> slots_;
};

u32 dynamic_shared_bytes(const Operation& o, const Configuration& c) {
  return u32(block_facts(o, c).shared_bytes);
}

std::string load_key(u64 context_id, const Operation& o, const Configuration& c) { return fmt::format("{}\n{}", context_id, translation_unit(o, c)); }

}  // namespace

struct KernelStore::Private {
  DiskCache& disk;
  Slots<CodeSlot> code;
  Slots<LoadSlot> loads;
  std::atomic<u64> compiled{0}, from_disk{0}, loaded{0};

  // `distrust`: what memory and disk hold was refused by the driver; compile anew.
  Status obtain(const Operation& o, const Configuration& c, const std::string& architecture, bool distrust, std::shared_ptr<const CompiledKernel>& kernel,
                bool& fresh);
  Status load(const Driver& driver, const CompiledKernel& code, u32 shared_bytes, LoadedKernel& kernel, cuda::Result& refused);
};

KernelStore::KernelStore(DiskCache& disk) : p_(new Private{disk, {}, {}, {}, {}, {}}) {}
KernelStore::~KernelStore() = default;

KernelStore& KernelStore::process() {
  static KernelStore& store = *new KernelStore(DiskCache::process());
  return store;
}

StoreCounts KernelStore::counts() const { return {p_->compiled, p_->from_disk, p_->loaded}; }

Status KernelStore::Private::obtain(const Operation& o, const Configuration& c, const std::string& architecture, bool distrust,
                                    std::shared_ptr<const CompiledKernel>& kernel, bool& fresh) {
  CodeSlot& slot = code.at(architecture + "\n" + translation_unit(o, c));
  const std::lock_guard lock(slot.mutex);
  fresh = false;
  if (slot.kernel && !distrust) return kernel = slot.kernel, Status{};

  const std::string key = cache_key(o, c, architecture);
  std::optional<CacheEntry> entry;
  if (!distrust) entry = disk.read(key);
  const auto take_from_disk = [&] {
    ++from_disk;
    kernel = slot.kernel = std::make_shared<const CompiledKernel>(std::move(entry->kernel));
    return Status{};
  };
  if (entry) {
    // Made by another compiler or with other flags: made anew where there is a compiler to do it.
    const std::optional<std::string> compiler = find_nvrtc();
    if (!compiler || (entry->kernel.flags == compile_flags() && entry->kernel.compiler == nvrtc_identity(*compiler))) return take_from_disk();
  }
  const Nvrtc* nvrtc = nullptr;
  if (Status s = load_nvrtc(nvrtc); !s) {
    if (entry) return take_from_disk();
    return {s.code(), fmt::format("kernel {} for {} ({}) is not in the cache{} and must be compiled: {}", text_of(c), text_of(canonical(o, c)), architecture,
                                  disk.folder().empty() ? "" : " " + disk.folder(), s.message())};
  }
  ++compiled;
  Compilation made = compile_kernel(o, c, architecture, nvrtc);
  if (!made.status) return {made.status.code(), fmt::format("kernel {} for {}: {}", text_of(c), text_of(canonical(o, c)), made.status.message())};
  fresh = true;
  CacheEntry written{std::move(made.kernel), key, text_of(canonical(o, c)), text_of(c), architecture, device_sources_digest()};
  disk.write(written, made.source);
  kernel = slot.kernel = std::make_shared<const CompiledKernel>(std::move(written.kernel));
  return {};
}

Status KernelStore::compiled(const Operation& o, const Configuration& c, const std::string& architecture, std::shared_ptr<const CompiledKernel>& kernel) {
  bool fresh = false;
  return p_->obtain(o, c, architecture, false, kernel, fresh);
}

Status KernelStore::Private::load(const Driver& driver, const CompiledKernel& code, u32 shared_bytes, LoadedKernel& kernel, cuda::Result& refused) {
  cuda::Module module = nullptr;
  refused = driver.module_load(&module, code.cubin.data());
  if (refused != cuda::kSuccess)
    return {Code::driver_error,
            fmt::format("the driver ({}.{}) does not load a kernel compiled by {}: {}{}", driver.version / 1000, driver.version % 1000 / 10, code.compiler,
                        driver.describe(refused), "; an NVRTC of the driver's own major version, or a newer driver, is needed where their versions differ")};
  const auto fail = [&](Status s) {
    driver.module_unload(module);
    return s;
  };
  LoadedKernel fresh;
  if (Status s = driver.check(driver.module_function(&fresh.function, module, std::string(kKernelName).c_str()), "cuModuleGetFunction"); !s) return fail(s);
  // Belongs to this function in this context: another device's is another function.
  if (Status s = driver.check(driver.function_set(fresh.function, cuda::kMaxDynamicSharedBytes, int(shared_bytes)), "cuFuncSetAttribute"); !s)
    return fail({s.code(), fmt::format("{} of {} bytes of dynamic shared memory", s.message(), shared_bytes)});
  fresh.shared_bytes = shared_bytes;
  fresh.registers = code.registers;
  kernel = fresh;
  ++loaded;
  return {};
}

Status KernelStore::loaded(const Driver& driver, u64 context_id, int compute_capability, const Operation& o, const Configuration& c, const LoadedKernel*& kernel) {
  LoadSlot& slot = p_->loads.at(load_key(context_id, o, c));
  if (!slot.ready.load(std::memory_order_acquire)) {
    const std::lock_guard lock(slot.mutex);
    if (!slot.ready.load(std::memory_order_acquire)) {
      const RelaxedCapture relaxed(driver);
      const std::string architecture = architecture_for(compute_capability);
      std::shared_ptr<const CompiledKernel> code;
      bool fresh = false;
      if (Status s = p_->obtain(o, c, architecture, false, code, fresh); !s) return s;
      cuda::Result refused = cuda::kSuccess;
      Status status = p_->load(driver, *code, dynamic_shared_bytes(canonical(o, c), c), slot.kernel, refused);
      const bool bad_image = refused == cuda::kInvalidImage || refused == cuda::kNoBinaryForGpu || refused == cuda::kUnsupportedPtxVersion;
      if (!status && bad_image && !fresh) {
        // An old entry, perhaps of a compiler that this driver does not follow: compile it here and now.
        if (Status s = p_->obtain(o, c, architecture, true, code, fresh); !s) return {status.code(), status.message() + "; compiling it anew: " + s.message()};
        status = p_->load(driver, *code, dynamic_shared_bytes(canonical(o, c), c), slot.kernel, refused);
      }
      if (!status) return status;
      slot.ready.store(true, std::memory_order_release);
    }
  }
  kernel = &slot.kernel;
  return {};
}

const LoadedKernel* KernelStore::find(u64 context_id, const Operation& o, const Configuration& c) const {
  LoadSlot* slot = p_->loads.find(load_key(context_id, o, c));
  return slot && slot->ready.load(std::memory_order_acquire) ? &slot->kernel : nullptr;
}

}  // namespace foretile
