// Findings in words: who, where, what waits for what.
#include <algorithm>
#include <cstring>

#include "emulator/machine.h"

namespace foretile::emulator {

namespace {

constexpr std::size_t kMaxFindings = 50;  // distinct ones; a run that breaks in more ways is stopped

}  // namespace

bool Report::has(const std::string& kind) const {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.kind == kind; });
}

std::string Report::text() const {
  if (clean()) return "no findings";
  std::string out;
  for (const Finding& f : findings) {
    out += fmt::format("{}: {}", f.kind, f.text);
    if (f.count > 1) out += fmt::format(" [{} times]", f.count);
    out += '\n';
  }
  out += fmt::format("(seed {})", seed);
  return out;
}

// Findings that differ in nothing but numbers (which element, which lane) are one.
std::size_t Machine::report_text(const char* kind, Site site, const std::string& text) {
  std::string key = fmt::format("{}:{}:", site.file ? site.file : "", site.line);
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] < '0' || text[i] > '9') key += text[i++];
    else i = std::min(text.find_first_not_of(text.compare(i, 2, "0x") == 0 ? "0123456789abcdefx" : "0123456789", i), text.size());
  }
  const auto [it, fresh] = finding_index_.try_emplace({kind, key}, report_.findings.size());
  if (!fresh) {
    ++report_.findings[it->second].count;
    return it->second;
  }
  report_.findings.push_back({kind, text, site, 1});
  if (current_) tell([&](Observer& o) { o.happened(*current_->block, kind, site, text); });
  if (report_.findings.size() == kMaxFindings)
    report_.findings.push_back({"stopped", fmt::format("{} different findings are enough: the run was stopped", kMaxFindings), {}, 1});
  if (report_.findings.size() > kMaxFindings) throw Failure();
  return it->second;
}

std::string Machine::name_site(Site site) {
  if (!site.file) return "no call site";
  const char* slash = std::strrchr(site.file, '/');
  return fmt::format("{}:{}", slash ? slash + 1 : site.file, site.line);
}

const Grid& Machine::grid_of(Agent a) const {
  const u32 block = a >> kAgentBits;
  std::size_t i = grids_.size() - 1;
  while (block < grids_[i]->first_block) --i;
  return *grids_[i];
}

std::string Machine::name_block(u32 index) const {
  const Grid& grid = grid_of(make_agent(index, 0));
  std::string name = fmt::format("block {}", index - grid.first_block);
  if (grids_.size() == 1) return name;
  const auto place = std::find_if(grids_.begin(), grids_.end(), [&](const auto& g) { return g.get() == &grid; }) - grids_.begin();
  return fmt::format("kernel {} {}", place + 1, name);
}

std::string Machine::name_role(const Grid& grid, u32 warp) const {
  const std::string role = grid.launch->name_role ? grid.launch->name_role(warp) : "";
  return role.empty() ? role : " (" + role + ")";
}

std::string Machine::name_agent(Agent a) const {
  const u32 index = a & ((1u << kAgentBits) - 1);
  const Grid& grid = grid_of(a);
  const std::string block = name_block(a >> kAgentBits);
  if (index < grid.shape.threads) return fmt::format("{} warp {} lane {}{}", block, index / kWarp, index % kWarp, name_role(grid, index / kWarp));
  const EngineName& e = engine_names_[a >> kAgentBits][index - grid.shape.threads];
  switch (e.engine) {
    case Engine::copies: return fmt::format("{}'s copy engine for {}", block, name_shared(grid, e.detail));
    case Engine::matrix: return fmt::format("{} warpgroup {}'s matrix unit", block, e.detail);
    case Engine::bulk_reads: return fmt::format("the bulk store of {} thread {} (reading its source)", block, e.detail);
    case Engine::bulk_writes: return fmt::format("the bulk store of {} thread {} (writing)", block, e.detail);
    case Engine::cp_async: return fmt::format("a cp_async of {} warp {} lane {}", block, e.detail / kWarp, e.detail % kWarp);
    case Engine::grid: return "the kernel before";
  }
  return "?";
}

std::string Machine::name_shared(const Grid& grid, u32 address) const {
  const u32 offset = address - kSharedBase;
  const std::string name = grid.launch->name_shared ? grid.launch->name_shared(offset) : "";
  return fmt::format("shared+0x{:x}{}", offset, name.empty() ? "" : " (" + name + ")");
}

// "warps 4-7" where whole warps are meant, threads otherwise.
std::string Machine::name_threads(const Block& block, const std::vector<u32>& threads) const {
  const auto ranges = [](const std::vector<u32>& sorted) {
    std::string out;
    for (std::size_t i = 0, last; i < sorted.size(); i = last + 1) {
      for (last = i; last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1;) ++last;
      out += fmt::format("{}{}{}", i ? "," : "", sorted[i], last == i ? "" : fmt::format("-{}", sorted[last]));
    }
    return out;
  };
  std::map<u32, u32> lanes;  // by warp
  for (u32 t : threads) ++lanes[t / kWarp];
  std::vector<u32> warps;
  for (const auto& [warp, count] : lanes) warps.push_back(warp);
  const bool whole = std::all_of(lanes.begin(), lanes.end(), [](const auto& warp) { return warp.second == kWarp; });
  return fmt::format("{} {} {}{}", name_block(block), whole ? "warp" : "thread", ranges(whole ? warps : threads), name_role(*block.grid, threads.front() / kWarp));
}

std::string Machine::describe(const Wait& wait, const Block& block) const {
  switch (wait.kind) {
    case Wait::Kind::mbarrier: {
      const auto it = block.barriers.find(wait.address);
      if (it == block.barriers.end()) return "wait for an mbarrier that is gone";
      const MbarrierState& b = it->second;
      std::string out = fmt::format("wait for phase {} (parity {}) of the mbarrier at {}, which is in phase {}: {} of {} arrivals pending", wait.detail,
                                    wait.detail & 1, name_shared(b), b.phase, b.pending, b.expected);
      if (b.transaction > 0) out += fmt::format(", {} bytes missing", b.transaction);
      if (b.transaction < 0) out += fmt::format(", {} bytes more than expected", -b.transaction);
      return out;
    }
    case Wait::Kind::named_barrier: {
      const NamedBarrier& b = block.named[wait.address];
      return fmt::format("wait at named barrier {}: {} of {} threads arrived", wait.address, b.arrived, b.expected);
    }
    case Wait::Kind::cluster: return fmt::format("wait at the cluster barrier: {} of {} threads arrived", block.cluster->arrived, block.cluster->live);
    case Wait::Kind::collective: return fmt::format("wait for the rest of their {} at {}", wait.detail == kWarp ? "warp" : "warpgroup", wait.call);
    case Wait::Kind::bulk: return fmt::format("wait until at most {} bulk store groups are pending", wait.detail);
    case Wait::Kind::cp_async: return fmt::format("wait until at most {} groups of cp_async are pending", wait.detail);
    case Wait::Kind::registers:
      return fmt::format("wait for {} registers a thread: the block's pool has {} left for a warpgroup", wait.address, block.register_pool / kWarpgroup);
    case Wait::Kind::grid: {
      const Grid& before = *block.grid->before;
      const u32 left = (before.cluster_count - before.next_cluster + before.resident) * before.shape.cluster;
      return fmt::format("wait for the kernel before to complete: {} of its {} blocks have not returned", left, before.shape.blocks);
    }
    case Wait::Kind::testing: {
      Wait mbarrier = wait;
      mbarrier.kind = Wait::Kind::mbarrier;
      return "test again and again: they " + describe(mbarrier, block);
    }
    case Wait::Kind::polling: return "load the same value from global memory again and again";
    case Wait::Kind::nothing: break;
  }
  return "are ready";
}

void Machine::report_stuck(const char* kind) {
  struct Group { const Block* block; Site site; std::string what; std::vector<u32> threads; };
  std::vector<Group> groups;
  std::size_t stuck = 0;
  for (const auto& t : threads_) {
    if (t->state == Thread::State::done || t->wait.kind == Wait::Kind::nothing) continue;
    ++stuck;
    const std::string what = describe(t->wait, *t->block);
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.block == t->block && g.what == what && g.site == t->wait.site;
    });
    if (same != groups.end()) same->threads.push_back(t->index);
    else groups.push_back({t->block, t->wait.site, what, {t->index}});
  }
  std::string text = fmt::format("{} threads can never go on", stuck);
  for (const auto& g : grids_)
    if (g->next_cluster > 0 && g->next_cluster < g->cluster_count)
      text += fmt::format(" (blocks {} to {}{} have not started: only {} are resident at once)", g->next_cluster * g->shape.cluster, g->shape.blocks - 1,
                          grids_.size() > 1 ? fmt::format(" of kernel {}", &g - &grids_[0] + 1) : "", resident_blocks_);
  constexpr std::size_t kShown = 12;
  for (std::size_t i = 0; i < groups.size() && i < kShown; ++i) {
    const Group& g = groups[i];
    text += fmt::format("\n    {} at {}: {}", name_threads(*g.block, g.threads), name_site(g.site), g.what);
  }
  if (groups.size() > kShown) text += fmt::format("\n    and {} more groups of threads", groups.size() - kShown);
  report_text(kind, groups.empty() ? Site{} : groups[0].site, text);
}

// What is wrong with an access; `place` names the bytes.
void Machine::on_hazard(Hazard hazard, const Record* before, const Access& now, const std::function<std::string()>& place) {
  const auto known = hazard_index_.try_emplace({u32(hazard), now.site, before ? before->access.site : ~0u});
  std::size_t& finding = known.first->second;
  if (!known.second) {
    ++report_.findings[finding].count;
    return;
  }
  const auto side = [&](const Access& a) { return fmt::format("{} by {} at {}", a.write ? "written" : "read", name_agent(a.agent), name_site(a.site)); };
  const auto say = [&](const char* kind, const std::string& what) {
    finding = report_text(kind, site(now.site), fmt::format("{} is {}{}", place(), side(now), what));
  };
  switch (hazard) {
    case Hazard::race: return say("race", ", not ordered after being " + side(before->access));
    case Hazard::partial_release:
      return say("partial-release", ", but ordered after only some of the four warps' parts of being " + side(before->access) +
                                        ": every warp of the warpgroup has to release what its wgmma read");
    case Hazard::missing_proxy_fence:
      return say("missing-proxy-fence", " through the asynchronous proxy; it was " + side(before->access) +
                                            " and no fence_proxy_async() by the writing side stands between");
    case Hazard::uninitialised: return say("uninitialised", ", but nothing wrote it");
    case Hazard::live_barrier: return say("mbarrier", ", but a live mbarrier stands there");
  }
}

}  // namespace foretile::emulator
