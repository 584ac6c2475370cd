// What a run looks like from its tracks: Machine's hooks, and the file they write.
#include "emulator/timeline.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "emulator/machine.h"

namespace foretile::emulator {

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (u8(c) < 0x20) out += fmt::format("\\u{:04x}", int(c));
    else out += c;
  }
  return out + '"';
}

}  // namespace

EventArguments& EventArguments::add(std::string_view name, std::string_view text) {
  json_ += fmt::format("{}{}:{}", json_.empty() ? "" : ",", quoted(name), quoted(text));
  return *this;
}
EventArguments& EventArguments::add(std::string_view name, i64 number) {
  json_ += fmt::format("{}{}:{}", json_.empty() ? "" : ",", quoted(name), number);
  return *this;
}

// ---- the file --------------------------------------------------------------------------------------------

Timeline::Writer::Writer(std::string path) : path_(std::move(path)), temporary_(fmt::format("{}.{}.tmp", path_, getpid())) {
  file_ = std::fopen(temporary_.c_str(), "wb");
  if (!file_) throw std::runtime_error(fmt::format("the timeline {} cannot be written: {}", path_, std::strerror(errno)));
  write(R"({"displayTimeUnit":"ns","otherData":{"time":"1 us is one emulated step: a call of the vocabulary by one thread"},"traceEvents":[)");
}

Timeline::Writer::~Writer() {
  if (!file_) return;
  std::fclose(file_);
  std::remove(temporary_.c_str());
}

void Timeline::Writer::write(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() && !error_) error_ = errno;
}

void Timeline::Writer::finish() {
  write("\n]}\n");
  if (std::fflush(file_) != 0 && !error_) error_ = errno;
  if (!error_ && std::rename(temporary_.c_str(), path_.c_str()) != 0) error_ = errno;
  std::fclose(file_);
  file_ = nullptr;
  if (!error_) return;
  std::remove(temporary_.c_str());
  throw std::runtime_error(fmt::format("the timeline {} cannot be written: {}", path_, std::strerror(error_)));
}

// ---- tracks and spans ------------------------------------------------------------------------------------

u32 Timeline::Writer::add_process(const std::string& name) {
  const u32 process = ++processes_;
  for (const auto& [what, value] : {std::pair{"process_name", "\"name\":" + quoted(name)}, std::pair{"process_sort_index", fmt::format("\"sort_index\":{}", process)}}) {
    write(fmt::format("{}\n{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"args\":{{{}}}}}", any_ ? "," : "", what, process, value));
    any_ = true;
  }
  return process;
}

u32 Timeline::Writer::add_track(u32 process, const std::string& name) {
  tracks_.push_back({process, name, {}, {}});
  return u32(tracks_.size());
}

u32 Timeline::Writer::open(u32 track, u64 step, const std::string& name, const char* category, const EventArguments& arguments, bool base) {
  Track& t = tracks_[track - 1];
  std::size_t row = std::size_t(std::find(t.busy.begin(), t.busy.end(), false) - t.busy.begin());
  if (row == t.rows.size()) {
    const u32 id = ++rows_;
    t.rows.push_back(id);
    t.busy.push_back(false);
    constexpr u32 kRowsShown = 64;  // of a track, before the next track's
    for (const auto& [what, value] : {std::pair{"thread_name", "\"name\":" + quoted(t.name)}, std::pair{"thread_sort_index", fmt::format("\"sort_index\":{}", track * kRowsShown + row)}})
      write(fmt::format(",\n{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{{}}}}}", what, t.process, id, value));
  }
  t.busy[row] = !base;
  u32 index;
  if (unused_.empty()) {
    spans_.emplace_back();
    index = u32(spans_.size());
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  Span& s = spans_[index - 1];
  s = {track, u32(row), origin + step, base,
       fmt::format("\"ph\":\"X\",\"name\":{},\"cat\":{},\"pid\":{},\"tid\":{},\"ts\":{},\"args\":{{{}", quoted(name), quoted(category), t.process, t.rows[row], origin + step, arguments.json())};
  return index;
}

void Timeline::Writer::close(u32 span, u64 step, const EventArguments& more) {
  Span& s = spans_[span - 1];
  latest = std::max(latest, origin + step);
  const bool comma = !more.json().empty() && s.text.back() != '{';
  write(fmt::format(",\n{{{}{}{}}},\"dur\":{}}}", s.text, comma ? "," : "", more.json(), origin + step - s.begin));
  if (!s.base) tracks_[s.track - 1].busy[s.row] = false;
  s.track = 0;
  unused_.push_back(span);
}

void Timeline::Writer::mark(u32 process, u64 step, const std::string& name, const EventArguments& arguments) {
  latest = std::max(latest, origin + step);
  write(fmt::format(",\n{{\"ph\":\"i\",\"s\":\"p\",\"name\":{},\"pid\":{},\"tid\":0,\"ts\":{},\"args\":{{{}}}}}", quoted(name), process, origin + step, arguments.json()));
}

void Timeline::Writer::end_run(u64 step) {
  for (u32 i = 0; i < spans_.size(); ++i)
    if (spans_[i].track) close(i + 1, step, EventArguments().add("unfinished", "the run ended first"));
  tracks_.clear();
}

Timeline::Timeline(std::string path) : writer_(std::make_unique<Writer>(std::move(path))) {}
Timeline::~Timeline() = default;
void Timeline::finish() { writer_->finish(); }

// ---- the machine's hooks ---------------------------------------------------------------------------------

void Machine::show_block(Block& b) {
  b.process = timeline_->add_process(b.grid->shape.cluster > 1 ? fmt::format("{} (cluster {})", name_block(b), b.index_in_grid() / b.grid->shape.cluster) : name_block(b));
  for (Warp& w : b.warps) {
    const std::string role = b.grid->launch->name_role ? b.grid->launch->name_role(w.index) : "";
    w.track = timeline_->add_track(b.process, fmt::format("{}{}warp {}", role, role.empty() ? "" : ", ", w.index));
    w.life = timeline_->open(w.track, progress_, role.empty() ? "runs" : role, "warp", {}, true);
  }
  for (Warpgroup& g : b.warpgroups) g.track = timeline_->add_track(b.process, fmt::format("wgmma, warpgroup {}", g.index));
  b.load_track = timeline_->add_track(b.process, "TMA loads");
  b.store_track = timeline_->add_track(b.process, "TMA stores");
  b.cluster_track = timeline_->add_track(b.process, "stores to peers");
}

void Machine::show_exit(Thread& t) {
  const auto first = t.block->threads.begin() + t.warp_index() * kWarp;
  if (std::all_of(first, first + kWarp, [](const Thread* x) { return x->state == Thread::State::done; })) timeline_->close(t.warp().life, progress_);
}

// Lanes of a warp that wait for the same thing at the same call are one span, from the first that comes to the last that
// is let go. That lanes of a fiber each come to a warp-wide call one by one is not shown: on the chip they come together.
void Machine::show_wait(Thread& t) {
  const Wait& w = t.wait;
  if (w.kind == Wait::Kind::collective && w.call != std::string_view("wgmma_wait")) return;
  std::vector<WarpWait>& waits = t.warp().waits;
  const auto same = std::find_if(waits.begin(), waits.end(), [&](const WarpWait& x) { return x.wait.same_as(w); });
  if (same != waits.end()) {
    ++same->lanes;
    same->most = std::max(same->most, same->lanes);
    return;
  }
  std::string name = w.call;
  EventArguments arguments;
  arguments.add("at", name_site(w.site));
  switch (w.kind) {
    case Wait::Kind::mbarrier:
      name = fmt::format("wait: {}", name_of_shared(*t.block, w.address));
      arguments.add("call", w.call).add("barrier", name_shared(*t.block, w.address - kSharedBase)).add("phase", i64(w.detail)).add("parity", i64(w.detail & 1));
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
  waits.push_back({w, timeline_->open(t.warp().track, progress_, name, "wait", arguments), 1, 1});
}

void Machine::show_wake(Thread& t) {
  std::vector<WarpWait>& waits = t.warp().waits;
  const auto mine = std::find_if(waits.begin(), waits.end(), [&](const WarpWait& x) { return x.wait.same_as(t.wait); });
  if (mine == waits.end() || --mine->lanes > 0) return;
  timeline_->close(mine->span, progress_, EventArguments().add("lanes", mine->most));
  waits.erase(mine);
}

// What stands at an address by name, by offset where it has none.
std::string Machine::name_of_shared(const Block& block, u32 address) const {
  const auto& name = block.grid->launch->name_shared;
  const std::string given = name ? name(address - kSharedBase) : "";
  return given.empty() ? name_shared(block, address - kSharedBase) : given;
}

EventArguments Machine::box_arguments(const Block& block, u32 address, BoxCorner corner, Site site) const {
  return EventArguments().add("at", name_site(site)).add("shared memory", name_shared(block, address - kSharedBase)).add("inner", corner.inner).add("row", corner.row).add("batch", corner.batch);
}

// Writes into one named place that signal one phase, such as the boxes of a tile, are one span while any of them is in flight.
u32 Machine::show_write(Block& from, const char* call, u32 destination, const MbarrierState& barrier, u64 bytes, EventArguments arguments) {
  const std::string name = fmt::format("{}: {}", call, name_of_shared(from, destination));
  for (Block::ShownWrite& s : from.writes)
    if (s.barrier == &barrier && s.phase == barrier.phase && s.name == name) return ++s.count, ++s.in_flight, s.bytes += bytes, s.span;
  arguments.add("barrier", name_shared(barrier)).add("phase", barrier.phase);
  if (barrier.block != &from) arguments.add("to", name_block(*barrier.block));
  const u32 span = timeline_->open(call == std::string_view("store_cluster_async") ? from.cluster_track : from.load_track, progress_, name, "copy", arguments);
  from.writes.push_back({name, &barrier, barrier.phase, span, 1, 1, bytes});
  return span;
}

void Machine::show_landed(Block& block, u32 span) {
  const auto written = std::find_if(block.writes.begin(), block.writes.end(), [&](const Block::ShownWrite& s) { return s.span == span; });
  if (--written->in_flight > 0) return;
  timeline_->close(span, progress_, EventArguments().add("writes", written->count).add("bytes", i64(written->bytes)));
  block.writes.erase(written);
}

u32 Machine::show_store(Block& block, u32 source, BoxCorner corner, u32 group, u64 bytes, Site site) {
  return timeline_->open(block.store_track, progress_, fmt::format("tma_store: {}", name_of_shared(block, source)), "copy",
                         box_arguments(block, source, corner, site).add("group", group).add("bytes", i64(bytes)));
}

void Machine::show_multiply(Block& block, Warpgroup& g, const MatrixMultiply& op) {
  if (!g.groups.empty() && g.groups.back().group == op.group) {
    ++g.groups.back().multiplies;
    return;
  }
  const auto place = [&](u64 descriptor) { return name_shared(block, (u32(descriptor & 0x3FFF) << 4) - kSharedBase); };
  EventArguments arguments;
  arguments.add("at", name_site(sites_[op.site])).add("group", op.group).add("columns", op.columns).add("A from", place(op.a)).add("B from", place(op.b));
  g.groups.push_back({op.group, timeline_->open(g.track, progress_, fmt::format("wgmma group {}", op.group), "multiply", arguments), 1});
}

void Machine::show_retired(Warpgroup& g, u32 upto) {
  for (; !g.groups.empty() && g.groups.front().group <= upto; g.groups.pop_front())
    timeline_->close(g.groups.front().span, progress_, EventArguments().add("wgmmas", g.groups.front().multiplies));
}

}  // namespace foretile::emulator
