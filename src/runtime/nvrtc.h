// NVIDIA's run-time compiler, loaded at run time: only a kernel that is not in the cache needs it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "foretile/foretile.h"

namespace foretile {

struct Nvrtc {
  using Program = struct NvrtcProgramOpaque*;
  int (*get_version)(int* major, int* minor) = nullptr;
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const* texts, const char* const* names) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int options, const char* const* texts) = nullptr;
  int (*cubin_size)(Program, std::size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  const char* (*error)(int) = nullptr;

  std::string path;      // the file that was loaded
  std::string identity;  // nvrtc_identity(path)
  int major = 0, minor = 0;
};

// The file that load_nvrtc() would load, without loading it; null where none is found. In this order:
//   FORETILE_NVRTC (a file, and then the only candidate);
//   in LD_LIBRARY_PATH, beside a Python (of VIRTUAL_ENV, CONDA_PREFIX, the python3 of PATH, the running program:
//   site-packages/nvidia/cu13/lib and nvidia/cuda_nvrtc/lib), in CUDA_HOME, CUDA_PATH, /usr/local/cuda*, the system's
//   library folders: libnvrtc.so of the loaded driver's major version first, then .13, .12 and the unversioned name.
std::optional<std::string> find_nvrtc();

// What tells one compiler from another without loading it: the real file's name and size,
// "libnvrtc.so.13.0.88 (104857600 bytes)". Recorded with every cache entry.
std::string nvrtc_identity(const std::string& path);

// Loads it once a process (never unloaded); no_compiler says where was looked.
Status load_nvrtc(const Nvrtc*& nvrtc);
// A given file, for tests; not kept.
Status open_nvrtc(const std::string& path, Nvrtc& nvrtc);

}  // namespace foretile
