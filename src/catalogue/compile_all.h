// Every kernel of the catalogue compiled for its architecture, with no GPU: what CI does on each change, and what the
// checked-in table tests/golden/catalogue.csv is made from (tools/catalogue.py).
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"
#include "foretile/foretile.h"

namespace foretile::catalogue {

struct Kernel {
  std::string operation_name;  // of kOperations
  Operation operation;
  Configuration configuration;
};

// The legal pairs of a catalogue configuration and a named operation. A pair that needs what the operation does not
// promise (the simt family on an aligned operation is one: it ignores alignment) is left out where another named
// operation gives the same code.
std::vector<Kernel> kernels();

struct Compiled {
  Kernel kernel;
  Status status;        // of compile_kernel(): a spill or a C75xx remark is an error
  std::string cubin;
  std::string compiler; // identity of the NVRTC
  int registers = 0, spill_bytes = 0;
  int shared_bytes = 0; // dynamic, as launched
  double seconds = 0;
};

// On `threads` threads (0: one a core); the result in the order of `kernels`. `progress` gets the number done.
std::vector<Compiled> compile_all(const std::vector<Kernel>& kernels, const std::string& architecture, int threads = 0, const std::function<void(int)>& progress = {});

// Writes FOLDER/0.cubin, 1.cubin... and FOLDER/list.json, which tools/catalogue.py reads. Those with an error status are
// left out. Throws std::runtime_error where the folder cannot be written.
void write_listing(const std::vector<Compiled>& compiled, const std::string& architecture, const std::string& version, const std::string& folder);

// What table rows are compared by: the NVRTC's version without its path and build, "NVRTC 13.0".
Status nvrtc_version(std::string& text);

}  // namespace foretile::catalogue
