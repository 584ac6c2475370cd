#include "emulator/library/built_in.h"

namespace foretile::emulator {

void add_part_1(std::vector<BuiltIn>& to) { add_part<1>(to); }

}  // namespace foretile::emulator
