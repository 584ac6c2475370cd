// What the model knows of a GPU. Every number stands in machines/*.toml with its unit and source.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace foretile {

struct Machine {
  std::string name;       // "h200"
  std::string full_name;  // "NVIDIA H200 SXM 141 GB", as the driver prints it where known
  int compute_capability = 0;  // 90
  int sms = 0;
  // The model's owner adds the rest: clocks, rates, latencies, capacities.
};

// The machine files are embedded in the library; a path to a file of one's own works too.
// Throws std::invalid_argument that lists the known names.
Machine load_machine(std::string_view name_or_path);
std::vector<std::string> known_machines();

}  // namespace foretile
