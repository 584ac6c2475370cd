#include "emulator/library/built_in.h"

namespace foretile::emulator {

void add_part_5(std::vector<BuiltIn>& to) { add_part<5>(to); }

}  // namespace foretile::emulator
