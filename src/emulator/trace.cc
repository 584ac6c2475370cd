#include "emulator/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>
#include <string_view>
#include <utility>

#include "model/access.h"

namespace foretile::emulator {

namespace {

thread_local Trace* running = nullptr;

constexpr std::size_t kRecent = 4;  // two operands' accesses may alternate on one source line
constexpr u64 kAlignments = 4096;   // requests of a warp at one site whose alignment is compared

const char* name_of(Trace::Kind kind) {
  switch (kind) {
    case Trace::Kind::load_shared: return "load_shared";
    case Trace::Kind::store_shared: return "store_shared";
    case Trace::Kind::load_global: return "load_global";
    case Trace::Kind::store_global: return "store_global";
    case Trace::Kind::load_matrix_x4: return "load_matrix_x4";
    case Trace::Kind::load_matrix_x4_transposed: return "load_matrix_x4_transposed";
    case Trace::Kind::cp_async_read: return "cp_async from global";
    case Trace::Kind::cp_async_write: return "cp_async to shared";
    case Trace::Kind::store_matrix_x4: return "store_matrix_x4";
    case Trace::Kind::store_matrix_x2: return "store_matrix_x2";
  }
  return "?";
}

}  // namespace

Trace::Trace(u64 l2_bytes, const std::vector<Region>& memory) {
  if (l2_bytes == 0) return;
  l2_.emplace(l2_bytes);
  u64 next = 0;
  for (const Region& r : memory) {
    const u64 base = reinterpret_cast<std::uintptr_t>(r.base), first = base / kLineBytes * kLineBytes, end = base + r.bytes;
    if (std::any_of(places_.begin(), places_.end(), [&](const Place& p) { return p.first <= first && end <= p.end; })) continue;  // an operand of two kernels
    places_.push_back({first, end, next});
    next += u64(round_up(i64(end - first), kLineBytes));
  }
}

u64 Trace::place(u64 address) const {
  for (const Place& p : places_)
    if (p.first <= address && address < p.end) return p.at + address - p.first;
  return address;  // out of bounds: reported elsewhere
}

void Trace::row(u64 address, u64 bytes, bool store) {
  if (!l2_) return;
  const u64 first = place(address);
  for (u64 sector = first / kSectorBytes; sector * kSectorBytes < first + bytes; ++sector) l2_->access(sector, store);
}

Trace* Trace::current() { return running; }

TraceScope::TraceScope(Trace& trace) : before_(running) { running = &trace; }
TraceScope::~TraceScope() { running = before_; }

std::size_t Trace::site_index(Site site, const char* call, Kind kind, u32 bytes) {
  const auto [entry, fresh] = index_.try_emplace(SiteKey{site.file, site.line, kind, bytes}, sites_.size());
  if (fresh) {
    sites_.emplace_back();
    alignment_.emplace_back();
    sites_.back().site = site;
    sites_.back().call = call;
    sites_.back().bytes = int(bytes);
  }
  return entry->second;
}

void Trace::lane(Kind kind, u32 block, u32 thread, u64 address, u32 bytes, Site site) {
  const std::size_t index = site_index(site, name_of(kind), kind, bytes);
  Stream& s = streams_[u64(index) << 40 | u64(block) << 8 | thread / 32];  // at most 32 warps a block
  s.site = index, s.kind = kind, s.bytes = bytes;
  const u32 lane = thread % 32;
  const u64 at = s.count[lane]++ - s.closed;
  while (s.open.size() <= at) s.open.emplace_back();
  Request& r = s.open[at];
  r.active |= 1u << lane;
  r.address[lane] = address;
  // A lane that has come to the n-th request was at all those before: the oldest fills up first.
  while (!s.open.empty() && s.open.front().active == kEveryLane) close(s);
}

void Trace::close(Stream& s) {
  const Request r = s.open.front();
  s.open.pop_front();
  ++s.closed;
  AccessSite& out = sites_[s.site];
  ++out.requests;
  out.lanes += u64(std::popcount(r.active));
  if (s.kind == Kind::load_global || s.kind == Kind::store_global || s.kind == Kind::cp_async_read) {
    out.sectors += u64(global_sectors(r.address, int(s.bytes), r.active));
    out.ideal_sectors += u64(ideal_sectors(u32(std::popcount(r.active)), int(s.bytes)));
    out.lines += u64(global_lines(r.address, int(s.bytes), r.active));
    if (l2_) {
      access_detail::Distinct<u64> sectors;
      for (u32 i = 0; i < 32; ++i)
        if (r.active >> i & 1) sectors.add(place(r.address[i]) / kSectorBytes);
      for (u32 i = 0; i < sectors.count; ++i) l2_->access(sectors.value[i], s.kind == Kind::store_global);
    }
  } else {
    std::array<u32, 32> address;
    for (u32 i = 0; i < 32; ++i) address[i] = u32(r.address[i]);
    if (s.kind == Kind::load_shared || s.kind == Kind::store_shared || s.kind == Kind::cp_async_write) {
      const Direction direction = s.kind == Kind::load_shared ? Direction::load : Direction::store;
      out.wavefronts += u64(shared_wavefronts(address, int(s.bytes), r.active, direction));
      out.ideal_wavefronts += u64(ideal_wavefronts(address, int(s.bytes), r.active, direction));
    } else {
      const u32 matrices = s.kind == Kind::store_matrix_x2 ? 2 : 4;
      out.wavefronts += u64(matrix_wavefronts(std::span<const u32>(address).first(8 * matrices)));
      out.ideal_wavefronts += matrices;
      return;
    }
  }
  Alignment& alignment = alignment_[s.site];
  for (u32 lane = 0; lane < 32 && s.closed <= kAlignments && !alignment.varies; ++lane) {
    if (!(r.active >> lane & 1)) continue;
    const u8 now = u8(r.address[lane] % 16);
    if (alignment.of.size() < s.closed) alignment.of.resize(s.closed, now);
    alignment.varies = alignment.of[s.closed - 1] != now;
  }
  for (const Request& before : s.recent) {
    bool goes_on = before.active == r.active;
    for (u32 lane = 0; lane < 32 && goes_on; ++lane)
      if (r.active >> lane & 1) goes_on = r.address[lane] == before.address[lane] + s.bytes && r.address[lane] % 16 != 0;
    if (goes_on) {
      ++out.mergeable;
      break;
    }
  }
  s.recent.push_back(r);
  if (s.recent.size() > kRecent) s.recent.pop_front();
}

void Trace::box(const char* call, u64 bytes, u64 sectors, u64 delivered, Site site) {
  AccessSite& out = sites_[site_index(site, call, Kind::load_global, u32(bytes))];
  ++out.requests;
  out.sectors += sectors;
  out.delivered += delivered;
  out.ideal_sectors += bytes / kSectorBytes;
}

std::vector<AccessSite> Trace::finish() {
  for (auto& [key, s] : streams_)
    while (!s.open.empty()) close(s);
  for (std::size_t i = 0; i < sites_.size(); ++i)
    if (alignment_[i].varies) sites_[i].mergeable = 0;
  streams_.clear();
  index_.clear();
  alignment_.clear();
  return std::exchange(sites_, {});
}

std::string text_of(const std::vector<AccessSite>& sites) {
  std::string text = fmt::format("{:<40} {:<20} {:>5} {:>9} {:>10} {:>10} {:>10} {:>10} {:>9}\n", "call site", "call", "bytes", "requests", "wavefronts", "ideal", "sectors", "ideal", "mergeable");
  for (const AccessSite& a : sites) {
    std::string_view file = a.site.file ? a.site.file : "?";
    file = file.substr(file.find_last_of('/') + 1);
    const bool shared = a.wavefronts > 0;
    const auto number = [](bool shown, u64 value) { return shown ? fmt::format("{}", value) : std::string("-"); };
    text += fmt::format("{:<40} {:<20} {:>5} {:>9} {:>10} {:>10} {:>10} {:>10} {:>9}\n", fmt::format("{}:{}", file, a.site.line), a.call, a.bytes, a.requests,
                        number(shared, a.wavefronts), number(shared, a.ideal_wavefronts), number(!shared, a.sectors), number(!shared, a.ideal_sectors), a.mergeable);
  }
  return text;
}

}  // namespace foretile::emulator
