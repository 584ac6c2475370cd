#include "emulator/library/built_in.h"

namespace foretile::emulator {

void add_part_3(std::vector<BuiltIn>& to) { add_part<3>(to); }

}  // namespace foretile::emulator
