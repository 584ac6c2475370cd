// Every launch whose counters are recorded, by name. The recorder launches them on a GPU, the tests replay them.
#pragma once
#include <string>
#include <vector>

#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"
#include "foretile/device/probes/arguments.h"
#include "plan/plan.h"

namespace foretile::counters {

// shared, global: one warp-wide access each. kernels: small ones of all kinds, with every counter of memory. gemms:
// products of real sizes, for the caches, DRAM and what bounds them.
enum class List { shared, global, kernels, gemms };
const char* name_of(List list);

struct Case {
  std::string name;   // "shared-load-16/pairs"
  std::string shows;  // what its counters teach
  List list = List::shared;

  // A probe: the instantiation as device/probes/probes.cuh names it. Empty: a product by one of the library's kernels.
  std::string probe;
  u32 blocks = 0, threads = 0, shared_bytes = 0;
  std::vector<i32> offsets;  // of the lanes, where the probe takes a table
  int bytes = 0;             // of one lane's access, with a table
  std::size_t input_bytes = 0, output_bytes = 0;
  bool writes_input = false;
  ProbeArguments arguments;  // without pointers and maps

  Operation operation;
  Configuration configuration;
  Problem problem;
  i32 raster_group = 0;      // tiles of M walked together; 0: as the plan says
};

std::vector<Case> all_cases();

// Pointers to a case's memory on the machine that runs it. For products, `input` holds A, then B, then C, bias and residual.
struct Memory {
  void* input = nullptr;
  void* output = nullptr;
  i32* offsets = nullptr;
};
struct Sizes {
  std::size_t input = 0, output = 0;
};
Sizes sizes_of(const Case& c);

ProbeArguments probe_arguments(const Case& c, const Memory& memory, const EncodeTensorMap& encode);
Operands operands_of(const Case& c, const Memory& memory);

}  // namespace foretile::counters
