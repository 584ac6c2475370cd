// Machine::collective: a call that all lanes of a warp, or all threads of a warpgroup, make together.
#pragma once
#include <fmt/format.h>

#include "emulator/machine.h"

namespace foretile::emulator {

// The last thread to arrive calls `last`. `one_site`: all must come from the same call site (.aligned instructions).
template <class Last>
void Machine::collective(Rendezvous& r, u32 members, const char* call, Site site, std::array<u64, 3> operands, bool one_site, Last&& last) {
  Thread& t = me();
  if (r.members.empty()) {
    r.call = call;
    r.site = site;
    r.operands = operands;
  } else if (r.call != std::string_view(call) || (one_site && (r.site.line != site.line || r.site.file != site.file))) {
    fail("divergence", site, fmt::format("{} calls {} at {}, while {} is at {} ({}): the {} must make the call together", name_thread(t), call, name_site(site),
                                         name_thread(*r.members.front()), r.call, name_site(r.site), members == kWarpgroup ? "warpgroup" : "warp"));
  } else if (r.operands != operands) {
    fail("divergence", site, fmt::format("{} calls {} at {} with operands {:#x} {:#x} {:#x}, {} with {:#x} {:#x} {:#x}: they must be the same", name_thread(t), call, name_site(site),
                                         operands[0], operands[1], operands[2], name_thread(*r.members.front()), r.operands[0], r.operands[1], r.operands[2]));
  }
  r.members.push_back(&t);
  if (r.members.size() < members) {
    block_on({Wait::Kind::collective, call, site, 0, members});
    return;
  }
  last();
  for (Thread* other : r.members)
    if (other != &t) wake(*other);
  r.members.clear();
}

}  // namespace foretile::emulator
