#pragma once
#include <string>
#include <string_view>

namespace foretile {

// The whole text of a file. Throws std::invalid_argument that says `what` it is ("machine file"), its path and why it cannot be read.
std::string read_file(std::string_view what, const std::string& path);

}  // namespace foretile
