#include "emulator/library/built_in.h"

namespace foretile::emulator {

void add_part_4(std::vector<BuiltIn>& to) { add_part<4>(to); }

}  // namespace foretile::emulator
