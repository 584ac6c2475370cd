#include "emulator/library/built_in.h"

namespace foretile::emulator {

void add_part_2(std::vector<BuiltIn>& to) { add_part<2>(to); }

}  // namespace foretile::emulator
