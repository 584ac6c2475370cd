// A kernel's description as a .toml file: docs/kernel-files.md has the format, examples/kernels/ has some.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/described_kernel.h"

namespace foretile {

struct KernelFile {
  DescribedKernel kernel;
  // [vary]: names of [let] and the values worth comparing.
  std::vector<std::pair<std::string, std::vector<i64>>> vary;
  // [fuse]: a step after the product that could go into the epilogue.
  struct Fuse {
    std::string name = "an elementwise step";
    int registers = 2;         // more a thread
    double instructions = 8;   // a value of D
  } fuse;
};

// `set`: names of [let] that take another value. Throws std::invalid_argument that names the file, the entry, what it was
// and what is allowed. `name` is for messages.
KernelFile parse_kernel_file(std::string_view name, std::string_view text, const std::map<std::string, std::string>& set = {});
KernelFile load_kernel_file(const std::string& path, const std::map<std::string, std::string>& set = {});

}  // namespace foretile
