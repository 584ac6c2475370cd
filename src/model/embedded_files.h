// Text files that travel inside the library. The build generates the definitions from the files themselves.
#pragma once
#include <span>
#include <string_view>

namespace foretile {

struct EmbeddedFile {
  std::string_view name;  // file name without folder, "h200.toml"
  std::string_view text;  // the whole file
};

std::span<const EmbeddedFile> embedded_machine_files();  // machines/*.toml
std::span<const EmbeddedFile> embedded_data_files();     // data/*.toml, and tests/golden/catalogue.csv where it exists

}  // namespace foretile
