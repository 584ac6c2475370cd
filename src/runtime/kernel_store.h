// Kernels of this process: compiled ones by what they compute, loaded ones by context. Each is compiled once and loaded once a
// context, whatever number of threads ask; who asks for a kernel that is there never waits for another's compile.
#pragma once
#include <memory>
#include <string>

#include "runtime/cache.h"
#include "runtime/compile.h"
#include "runtime/driver.h"

namespace foretile {

struct LoadedKernel {
  cuda::Function function = nullptr;
  u32 shared_bytes = 0;  // dynamic shared memory it may be launched with
  int registers = 0;
};

// Where kernels came from, since the process began.
struct StoreCounts {
  u64 compiled = 0;
  u64 from_disk = 0;
  u64 loaded = 0;
};

class KernelStore {
 public:
  // One a process, never destroyed: modules are left to the driver at exit.
  static KernelStore& process();
  explicit KernelStore(DiskCache& disk);
  ~KernelStore();

  // Compiled code: from memory, else disk, else the compiler (and then to disk). Needs no driver. A failure is not kept: the
  // next call tries again.
  Status compiled(const Operation& o, const Configuration& c, const std::string& architecture, std::shared_ptr<const CompiledKernel>& kernel);

  // Loaded into the current context, of the given id (cuCtxGetId), whose device has this compute capability.
  // The object stays for the process.
  Status loaded(const Driver& driver, u64 context_id, int compute_capability, const Operation& o, const Configuration& c, const LoadedKernel*& kernel);
  // The same where it is loaded already, else null; never compiles, allocates on the device or waits for a compile.
  const LoadedKernel* find(u64 context_id, const Operation& o, const Configuration& c) const;

  StoreCounts counts() const;

 private:
  struct Private;
  std::unique_ptr<Private> p_;
};

}  // namespace foretile
