#include "emulator/record/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "emulator/chip/matrix.h"
#include "emulator/machine.h"

namespace foretile::emulator {

Picture::Picture(Timeline& timeline, const Machine& machine) : writer_(*timeline.writer_), machine_(machine) { writer_.begin_run(); }
Picture::~Picture() { writer_.end_run(machine_.progress()); }

// What stands at an address by name, by offset where it has none.
std::string Picture::name_of_shared(const Block& b, u32 address) const {
  const auto& name = b.grid->launch->name_shared;
  const std::string given = name ? name(address - kSharedBase) : "";
  return given.empty() ? machine_.name_shared(b, address) : given;
}

EventArguments Picture::at(Site site) const { return EventArguments().add("at", Machine::name_site(site)); }

void Picture::block_starts(const Block& b) {
  BlockTracks& tracks = blocks_[b.index];
  const LaunchShape& shape = b.grid->shape;
  const std::string name = machine_.name_block(b);
  tracks.process = writer_.add_process(shape.cluster > 1 ? fmt::format("{} (cluster {})", name, b.index_in_grid() / shape.cluster) : name);
  tracks.warps.resize(b.warps.size());
  for (u32 w = 0; w < b.warps.size(); ++w) {
    const std::string role = b.grid->launch->name_role ? b.grid->launch->name_role(w) : "";
    tracks.warps[w].track = writer_.add_track(tracks.process, fmt::format("{}{}warp {}", role, role.empty() ? "" : ", ", w));
    tracks.warps[w].life = writer_.open(tracks.warps[w].track, machine_.progress(), role.empty() ? "runs" : role, "warp", {}, true);
  }
  tracks.warpgroups.resize(b.warpgroups.size());
  for (u32 g = 0; g < b.warpgroups.size(); ++g) tracks.warpgroups[g].track = writer_.add_track(tracks.process, fmt::format("wgmma, warpgroup {}", g));
  tracks.loads = writer_.add_track(tracks.process, "TMA loads");
  tracks.stores = writer_.add_track(tracks.process, "TMA stores");
  tracks.peers = writer_.add_track(tracks.process, "stores to peers");
}

void Picture::thread_returns(const Thread& t) {
  const auto first = t.block->threads.begin() + t.warp_index() * kWarp;
  if (std::all_of(first, first + kWarp, [](const Thread* x) { return x->state == Thread::State::done; }))
    writer_.close(of(*t.block).warps[t.warp_index()].life, machine_.progress());
}

// Lanes of a warp that wait for the same thing at the same call are one span, from the first that comes to the last that
// is let go. That lanes of a fiber each come to a warp-wide call one by one is not shown: on the chip they come together.
void Picture::thread_waits(const Thread& t) {
  const Wait& w = t.wait;
  if (w.kind == Wait::Kind::collective && w.call != std::string_view("wgmma_wait")) return;
  WarpTrack& warp = of(*t.block).warps[t.warp_index()];
  const auto same = std::find_if(warp.waits.begin(), warp.waits.end(), [&](const Waiting& x) { return x.wait.same_as(w); });
  if (same != warp.waits.end()) {
    ++same->lanes;
    same->most = std::max(same->most, same->lanes);
    return;
  }
  std::string name = w.call;
  EventArguments arguments = at(w.site);
  switch (w.kind) {
    case Wait::Kind::mbarrier:
      name = fmt::format("wait: {}", name_of_shared(*t.block, w.address));
      arguments.add("call", w.call).add("barrier", machine_.name_shared(*t.block, w.address)).add("phase", i64(w.detail)).add("parity", i64(w.detail & 1));
      break;
    case Wait::Kind::named_barrier:
      if (!t.block->named[w.address].whole_block) name = fmt::format("{} {}", w.call, w.address);
      arguments.add("threads", t.block->named[w.address].expected);
      break;
    case Wait::Kind::bulk:
    case Wait::Kind::cp_async: arguments.add("groups allowed to stay", i64(w.detail)); break;
    case Wait::Kind::registers: arguments.add("registers wanted", w.address); break;
    default: break;
  }
  warp.waits.push_back({w, writer_.open(warp.track, machine_.progress(), name, "wait", arguments), 1, 1});
}

void Picture::thread_goes_on(const Thread& t) {
  std::vector<Waiting>& waits = of(*t.block).warps[t.warp_index()].waits;
  const auto mine = std::find_if(waits.begin(), waits.end(), [&](const Waiting& x) { return x.wait.same_as(t.wait); });
  if (mine == waits.end() || --mine->lanes > 0) return;
  writer_.close(mine->span, machine_.progress(), EventArguments().add("lanes", mine->most));
  waits.erase(mine);
}

// Writes into one named place that signal one phase, such as the boxes of a tile, are one span while any of them is in flight.
void Picture::copy_issued(const Copy& c) {
  BlockTracks& tracks = of(*c.from);
  const std::string name = fmt::format("{}: {}", c.call, name_of_shared(*c.from, c.address));
  const auto same = std::find_if(tracks.copies.begin(), tracks.copies.end(), [&](const InFlight& x) {
    return c.barrier && x.barrier == c.barrier && x.phase == c.barrier->phase && x.name == name;
  });
  if (same != tracks.copies.end()) {
    ++same->count, ++same->in_flight, same->bytes += c.bytes;
    copies_[c.id] = {c.from->index, same->span, false};
    return;
  }
  EventArguments arguments = at(c.site);
  if (c.box) {
    const BoxCorner& corner = c.box->corner;
    arguments.add("shared memory", machine_.name_shared(*c.from, c.address)).add("inner", corner.inner).add("row", corner.row).add("batch", corner.batch);
  }
  if (!c.barrier) {
    arguments.add("group", c.group).add("bytes", i64(c.bytes));
  } else {
    if (c.box) arguments.add("blocks", c.blocks);
    arguments.add("barrier", machine_.name_shared(*c.barrier)).add("phase", c.barrier->phase);
    if (c.barrier->block != c.from) arguments.add("to", machine_.name_block(*c.barrier->block));
  }
  const u32 span = writer_.open(!c.barrier ? tracks.stores : c.box ? tracks.loads : tracks.peers, machine_.progress(), name, "copy", arguments);
  if (c.barrier) tracks.copies.push_back({name, c.barrier, c.barrier->phase, span, 1, 1, c.bytes});
  copies_[c.id] = {c.from->index, span, !c.barrier};
}

void Picture::copy_read(u64 id) { copies_.at(id).source_free = machine_.progress(); }

void Picture::copy_landed(u64 id) {
  const CopyPlace place = copies_.extract(id).mapped();
  if (place.store) return writer_.close(place.span, machine_.progress(), EventArguments().add("source free at step", i64(place.source_free)));
  std::vector<InFlight>& copies = blocks_.at(place.block).copies;
  const auto landed = std::find_if(copies.begin(), copies.end(), [&](const InFlight& x) { return x.span == place.span; });
  if (--landed->in_flight > 0) return;
  writer_.close(landed->span, machine_.progress(), EventArguments().add("writes", landed->count).add("bytes", i64(landed->bytes)));
  copies.erase(landed);
}

void Picture::multiply_issued(const Block& b, const Warpgroup& g, const MatrixMultiply& op) {
  WarpgroupTrack& unit = of(b).warpgroups[g.index];
  if (!unit.groups.empty() && unit.groups.back().group == op.group) {
    ++unit.groups.back().multiplies;
    return;
  }
  const auto place = [&](u64 descriptor) { return machine_.name_shared(b, Descriptor(descriptor).start); };
  EventArguments arguments = at(machine_.site(op.site));
  arguments.add("group", op.group).add("columns", op.columns).add("A from", place(op.a)).add("B from", place(op.b));
  unit.groups.push_back({op.group, writer_.open(unit.track, machine_.progress(), fmt::format("wgmma group {}", op.group), "multiply", arguments), 1});
}

void Picture::multiplies_retired(const Block& b, const Warpgroup& g, u32 upto) {
  std::erase_if(of(b).warpgroups[g.index].groups, [&](const Group& done) {
    if (done.group > upto) return false;
    writer_.close(done.span, machine_.progress(), EventArguments().add("wgmmas", done.multiplies));
    return true;
  });
}

void Picture::happened(const Block& b, const char* what, Site site, const std::string& text) {
  EventArguments arguments = at(site);
  if (!text.empty()) arguments.add("finding", text);
  writer_.mark(of(b).process, machine_.progress(), what, arguments);
}

}  // namespace foretile::emulator
