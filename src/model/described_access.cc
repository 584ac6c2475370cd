// Exact costs of a described kernel's accesses: every thread of a block, at a few places of the grid and of K.
#include "model/described_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

namespace foretile {

namespace {

// Places along one dimension at which accesses are looked at, and for how many places each stands: both ends, where
// bounds matter, and for global memory two between, which may begin at different places of a sector.
struct Place {
  i64 at = 0;
  double share = 0;
};
std::vector<Place> places(i64 count, bool whole, Space space) {
  if (space == Space::shared) {  // the same everywhere, but for threads that bounds leave out
    if (whole || count == 1) return {{0, 1}};
    return {{0, double(count - 1) / double(count)}, {count - 1, 1 / double(count)}};
  }
  std::vector<i64> at = {0};
  if (count > 1) at.push_back(1);
  if (!whole) {  // the last tile is cut off somewhere
    if (count > 3) at.push_back(2);
    if (count > 2) at.push_back(count - 1);
  }
  std::vector<Place> found;
  if (whole || count <= 2) {
    for (const i64 x : at) found.push_back({x, 1.0 / double(at.size())});
  } else {
    const double inner = double(count - 1) / double(count) / double(at.size() - 1);
    for (const i64 x : at) found.push_back({x, x == count - 1 ? 1 / double(count) : inner});
  }
  return found;
}

struct Warp {
  u64 address[kWarpLanes] = {};
  u32 active = 0;
};

[[noreturn]] void bad(const DescribedAccess& a, const AccessPoint& p, const std::string& what) {
  throw std::invalid_argument(fmt::format("'{}': thread {} of block ({}, {}), repetition {} of step {}: {}", a.text, p.thread, p.block_m, p.block_n, p.repetition, p.step, what));
}

// Fills in the warp's addresses; `p` says where.
Warp look(const DescribedKernel& k, const DescribedAccess& a, AccessPoint& p, int warp, int threads) {
  Warp w;
  for (u32 lane = 0; lane < kWarpLanes; ++lane) {
    p.thread = warp * int(kWarpLanes) + int(lane);
    if (p.thread >= threads) break;
    p.tx = p.thread % k.threads_x, p.ty = p.thread / k.threads_x;
    i64 address = 0;
    try {
      address = a.address(p);
    } catch (const std::domain_error& e) {
      bad(a, p, e.what());
    }
    if (address == kNoAccess) continue;
    if (address < 0) bad(a, p, fmt::format("address {} is negative", address));
    if (address % a.bytes != 0) bad(a, p, fmt::format("address {} is no multiple of the access's {} bytes", address, a.bytes));
    if (a.space == Space::shared && address + a.bytes > k.shared_bytes)
      bad(a, p, fmt::format("bytes {} to {} are beyond the block's {} bytes of shared memory", address, address + a.bytes - 1, k.shared_bytes));
    w.address[lane] = u64(address), w.active |= 1u << lane;
  }
  return w;
}

void add_shared(const Machine& machine, const DescribedAccess& a, const Warp& w, double share, AccessCost& cost) {
  u32 address[kWarpLanes];
  for (u32 lane = 0; lane < kWarpLanes; ++lane) address[lane] = u32(w.address[lane]);
  int wavefronts, ideal;
  if (a.matrix) {
    wavefronts = matrix_wavefronts(address), ideal = int(kWarpLanes / 8);
  } else {
    wavefronts = shared_wavefronts(address, a.bytes, w.active, a.direction), ideal = ideal_wavefronts(address, a.bytes, w.active, a.direction);
  }
  cost.wavefronts += share * wavefronts, cost.ideal_wavefronts += share * ideal;
  cost.worst_wavefronts = std::max(cost.worst_wavefronts, wavefronts);
  cost.clocks += share * std::max<double>(wavefronts, a.matrix ? 0 : kWarpLanes / machine.lsu_lanes);
}

void add_global(const Machine& machine, const DescribedAccess& a, const Warp& w, double share, AccessCost& cost) {
  const int lanes = __builtin_popcount(w.active), lines = global_lines(w.address, a.bytes, w.active);
  cost.sectors += share * global_sectors(w.address, a.bytes, w.active);
  cost.ideal_sectors += share * ideal_sectors(u32(lanes), a.bytes);
  cost.lines += share * lines;
  cost.clocks += share * std::max({double(lines), double(lanes) * a.bytes / kLineBytes, kWarpLanes / machine.lsu_lanes});
}

}  // namespace

std::vector<AccessCost> access_costs(const Machine& machine, const DescribedKernel& k, const Problem& problem, bool epilogue) {
  const std::vector<DescribedAccess>& accesses = epilogue ? k.epilogue : k.step;
  const int threads = k.threads_x * k.threads_y, warps = int(ceil_div(threads, kWarpLanes));
  const i64 tiles_m = ceil_div(problem.m, k.tile_m), tiles_n = ceil_div(problem.n, k.tile_n), steps = max_of(1, ceil_div(problem.k, k.tile_k));
  std::vector<AccessCost> costs(accesses.size());
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const DescribedAccess& a = accesses[i];
    const auto in_m = places(tiles_m, problem.m % k.tile_m == 0, a.space), in_n = places(tiles_n, problem.n % k.tile_n == 0, a.space);
    const auto in_k = epilogue ? std::vector<Place>{{0, 1}} : places(steps, problem.k % k.tile_k == 0, a.space);
    AccessPoint p{.problem = problem};
    for (const Place& m : in_m)
      for (const Place& n : in_n)
        for (const Place& s : in_k) {
          p.block_m = m.at, p.block_n = n.at, p.step = s.at;
          const double share = m.share * n.share * s.share;
          for (p.repetition = 0; p.repetition < a.times; ++p.repetition)
            for (int warp = 0; warp < warps; ++warp) {
              const Warp w = look(k, a, p, warp, threads);
              costs[i].instructions += share;
              if (!w.active) continue;
              costs[i].requests += share;
              a.space == Space::shared ? add_shared(machine, a, w, share, costs[i]) : add_global(machine, a, w, share, costs[i]);
            }
        }
  }
  // What a block brings to its L1: sectors that it has not touched before, over the first steps of a block inside. An
  // array's later accesses find what its earlier ones brought, and the next step what the step before it brought.
  constexpr i64 kLooked = 8;
  const i64 looked = epilogue ? 1 : std::min(steps, kLooked);
  std::set<std::pair<std::string, u64>> seen;
  for (i64 step = 0; step < looked; ++step)
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      const DescribedAccess& a = accesses[i];
      if (a.space != Space::global) continue;
      AccessPoint p{.step = step, .problem = problem};
      double fresh = 0;
      for (p.repetition = 0; p.repetition < a.times; ++p.repetition)
        for (int warp = 0; warp < warps; ++warp) {
          const Warp w = look(k, a, p, warp, threads);
          for (u32 lane = 0; lane < kWarpLanes; ++lane) {
            if (!(w.active >> lane & 1)) continue;
            for (u64 sector = w.address[lane] / kSectorBytes; sector <= (w.address[lane] + u64(a.bytes) - 1) / kSectorBytes; ++sector)
              fresh += seen.emplace(a.array + (a.direction == Direction::store ? ">" : "<"), sector).second;
          }
        }
      costs[i].new_sectors += fresh / double(looked);
    }
  return costs;
}

}  // namespace foretile
