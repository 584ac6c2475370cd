// What `foretile explain` prints and writes besides sentences: comparisons, rooflines, kernels from a file.
#pragma once
#include <string>
#include <vector>

#include "cli/options.h"
#include "model/anatomy.h"
#include "model/described_kernel_file.h"

namespace foretile::cli {

// Two configurations of one product side by side, part by part.
void print_comparison(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions, const std::vector<Configuration>& configurations);
nlohmann::ordered_json comparison_json(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions, const std::vector<Configuration>& configurations);

// Writes the picture; .svg or .html decides what. NotPossible where the file cannot be written.
void write_roofline(const std::string& path, const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions);
void write_roofline(const std::string& path, const Machine& machine, const DescribedKernel& k, const Problem& p, const Conditions& conditions);

// explain --kernel FILE, with the --set options as they were given.
int explain_kernel(const std::string& path, const std::vector<std::string>& set, const Problem& p, const MachineOptions& machine_options, const std::string& roofline, bool json);

nlohmann::ordered_json counters_json(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Anatomy& x);

}  // namespace foretile::cli
