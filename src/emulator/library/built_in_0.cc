#include "emulator/library/built_in.h"

namespace foretile::emulator {

void add_part_0(std::vector<BuiltIn>& to) { add_part<0>(to); }

}  // namespace foretile::emulator
