// foretile_catalogue_tool FOLDER: compiles every catalogue kernel for sm_90a and writes FOLDER/NNN.cubin and
// FOLDER/list.json, from which tools/catalogue.py makes tests/golden/catalogue.csv. Exit code 1 where a kernel does not
// compile, spills, or draws a C75xx remark; 3 without NVRTC.
#include <cstdio>
#include <exception>

#include "catalogue/compile_all.h"
#include "model/text.h"

int main(int argc, char** argv) {
  using namespace foretile;
  if (argc != 2) return std::fprintf(stderr, "usage: foretile_catalogue_tool FOLDER\n"), 2;
  const std::string folder = argv[1];
  std::string version;
  if (const Status s = catalogue::nvrtc_version(version); !s) return std::fprintf(stderr, "%s\n", s.message().c_str()), 3;
  const auto list = catalogue::kernels();
  const auto compiled = catalogue::compile_all(list, "sm_90a", 0, [&](int done) {
    if (done % 10 == 0 || done == int(list.size())) std::fprintf(stderr, "compiled %d of %zu\n", done, list.size());
  });
  int failed = 0;
  for (const catalogue::Compiled& c : compiled)
    if (!c.status) ++failed, std::fprintf(stderr, "%s %s: %s\n", c.kernel.operation_name.c_str(), text_of(c.kernel.configuration).c_str(), c.status.message().c_str());
  try {
    catalogue::write_listing(compiled, "sm_90a", version, folder);
  } catch (const std::exception& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
  }
  return failed != 0;
}
