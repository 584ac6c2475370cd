// The embedded text files by name.
#pragma once
#include <string_view>

namespace foretile {

// The text of machines/NAME.toml ("h200"), or of a file given with its extension ("catalogue.csv"); empty where no
// such file was embedded.
std::string_view machine_file_text(std::string_view name);

}  // namespace foretile
