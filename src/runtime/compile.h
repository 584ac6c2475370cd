// From (operation, configuration, architecture) to machine code.
#pragma once
#include <string>
#include <string_view>

#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"
#include "foretile/foretile.h"
#include "runtime/nvrtc.h"

namespace foretile {

// What is kept of a compiled kernel, in memory and on disk.
struct CompiledKernel {
  std::string cubin;
  int registers = 0;       // a thread, as ptxas assigned them
  int spill_bytes = 0;     // stores and loads together; a kernel that spills is not accepted, see compile_kernel()
  std::string compiler;    // nvrtc_identity() of the NVRTC that made it
  std::string flags;       // compile_flags()
  double seconds = 0;      // in the compiler
};

struct Compilation {
  Status status;
  CompiledKernel kernel;
  std::string source;  // the generated translation unit
  std::string log;     // the compiler's, ptxas's verbose lines included
};

// The options of every compile besides the architecture, as one line.
std::string compile_flags();

// Compiles for the real architecture ("sm_90a"); no GPU and no driver is needed. `nvrtc` null: the process's own.
// Not ok when: the configuration is not legal (unsupported: the reason in words), NVRTC is missing (no_compiler), the
// compiler reports an error, a remark of the C75xx kind (serialised wgmma, ignored setmaxnreg), or any spill
// (compile_error; the log is in the message and in `log`). A simt kernel whose epilogue is too rich for the registers that its
// launch bounds leave is compiled once more with bounds that leave all: slower where occupancy counts, but without a spill.
Compilation compile_kernel(const Operation& o, const Configuration& c, std::string_view architecture, const Nvrtc* nvrtc = nullptr);

// One translation unit that defines kKernelName and includes nothing but the device headers (the ladder's rungs): compiled and
// judged as above, for the architecture as given.
Compilation compile_translation_unit(std::string source, std::string_view architecture, const Nvrtc* nvrtc = nullptr);

// The part that judges the log, for tests: ok, or compile_error with what it found. Fills registers and spill_bytes.
Status judge_log(std::string_view log, CompiledKernel& kernel);

}  // namespace foretile
