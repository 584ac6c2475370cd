#include "emulator/record/trace.h"

#include <algorithm>
#include <bit>
#include <span>

#include "model/access.h"

namespace foretile::emulator {

namespace {

constexpr std::size_t kRecent = 4;  // two operands' accesses may alternate on one source line
constexpr u64 kAlignments = 4096;   // requests of a warp at one site whose alignment is compared

}  // namespace

Trace::Trace(const std::vector<Launch>& chain, u64 l2_bytes) {
  if (l2_bytes == 0) return;
  l2_.emplace(l2_bytes);
  u64 next = 0;
  for (const Launch& launch : chain)
    for (const Region& r : launch.regions) {
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

std::size_t Trace::site_index(Site site, const char* call, u32 bytes) {
  const auto [entry, fresh] = index_.try_emplace({site.file, site.line, call, bytes}, sites_.size());
  if (fresh) {
    sites_.push_back({.site = site, .call = call, .bytes = int(bytes)});
    alignment_.emplace_back();
  }
  return entry->second;
}

void Trace::access(LaneAccess kind, const char* call, const Thread& thread, u64 address, u32 bytes, Site site) {
  const std::size_t index = site_index(site, call, bytes);
  Stream& s = streams_[u64(index) << 40 | u64(thread.block->index) << 8 | thread.warp_index()];  // at most 32 warps a block
  s.site = index, s.kind = kind, s.bytes = bytes;
  const u32 lane = thread.lane();
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
  std::array<u32, 32> shared;
  for (u32 i = 0; i < 32; ++i) shared[i] = u32(r.address[i]);
  switch (s.kind) {
    case LaneAccess::load_global:
    case LaneAccess::store_global:
      out.sectors += u64(global_sectors(r.address, int(s.bytes), r.active));
      out.ideal_sectors += u64(ideal_sectors(u32(std::popcount(r.active)), int(s.bytes)));
      out.lines += u64(global_lines(r.address, int(s.bytes), r.active));
      if (l2_) {
        access_detail::Distinct<u64> sectors;
        for (u32 i = 0; i < 32; ++i)
          if (r.active >> i & 1) sectors.add(place(r.address[i]) / kSectorBytes);
        for (u32 i = 0; i < sectors.count; ++i) l2_->access(sectors.value[i], s.kind == LaneAccess::store_global);
      }
      break;
    case LaneAccess::load_shared:
    case LaneAccess::store_shared: {
      const Direction direction = s.kind == LaneAccess::load_shared ? Direction::load : Direction::store;
      out.wavefronts += u64(shared_wavefronts(shared, int(s.bytes), r.active, direction));
      out.ideal_wavefronts += u64(ideal_wavefronts(shared, int(s.bytes), r.active, direction));
      break;
    }
    case LaneAccess::two_matrices:
    case LaneAccess::four_matrices: {
      const u32 matrices = s.kind == LaneAccess::two_matrices ? 2 : 4;
      out.wavefronts += u64(matrix_wavefronts(std::span<const u32>(shared).first(8 * matrices)));
      out.ideal_wavefronts += matrices;
      return;
    }
  }
  count_mergeable(s, r);
}

void Trace::count_mergeable(Stream& s, const Request& r) {
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
      ++sites_[s.site].mergeable;
      break;
    }
  }
  s.recent.push_back(r);
  if (s.recent.size() > kRecent) s.recent.pop_front();
}

// The sectors of a box's rows inside the tensor, once whatever number of blocks it goes to, and what is delivered to all of
// them together: zeros come for the rest.
void Trace::count_box(const Box& box, const char* call, Site site, bool store, u32 blocks) {
  u64 sectors = 0, filled = 0, rows = 0;
  box.inside([&](u64, const u8* at, u64 count) {
    const u64 address = reinterpret_cast<std::uintptr_t>(at);
    sectors += u64(row_sectors(address, count));
    filled += u64(fill_sectors(box.row_bytes - count));
    ++rows;
    if (!l2_) return;
    const u64 first = place(address);
    for (u64 sector = first / kSectorBytes; sector * kSectorBytes < first + count; ++sector) l2_->access(sector, store);
  });
  filled += (box.rows() - rows) * u64(fill_sectors(box.row_bytes));
  AccessSite& out = sites_[site_index(site, call, u32(box.bytes))];
  ++out.requests;
  out.sectors += sectors;
  out.delivered += blocks * (sectors + filled);
  out.ideal_sectors += box.bytes / kSectorBytes;
}

void Trace::copy_issued(const Copy& copy) {
  if (copy.box) count_box(*copy.box, copy.call, copy.site, copy.blocks == 0, copy.blocks);
}

void Trace::box_prefetched(const Box& box, Site site) { count_box(box, "tma_prefetch", site, false, 0); }

void Trace::finish(Report& report) {
  for (auto& [key, s] : streams_)
    while (!s.open.empty()) close(s);
  for (std::size_t i = 0; i < sites_.size(); ++i)
    if (alignment_[i].varies) sites_[i].mergeable = 0;
  report.accesses = std::move(sites_);
  if (l2_) report.l2 = l2_->traffic();
}

}  // namespace foretile::emulator
