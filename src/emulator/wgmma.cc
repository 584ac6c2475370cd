// The matrix unit: groups of multiplies, and accumulators that hold a NaN while a wgmma owns them.
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/chip/formats.h"
#include "emulator/chip/matrix.h"
#include "emulator/machine.h"
#include "foretile/device/layout/fragment.h"

namespace foretile::emulator {

namespace {

// Calls each(register, value in the 64 x columns matrix) of every thread.
template <class Each> void for_fragments(Accumulator& acc, Each&& each) {
  for (int t = 0; t < int(kWarpgroup); ++t)
    for (int i = 0; i < acc.columns / 2; ++i) {
      const Element e = wgmma_accumulator(t, i);
      each(acc.registers[std::size_t(t)][i], acc.values[std::size_t(e.row) * std::size_t(acc.columns) + std::size_t(e.column)]);
    }
}

bool same_bits(float a, float b) { return std::bit_cast<u32>(a) == std::bit_cast<u32>(b); }

}  // namespace

Warpgroup& Machine::my_warpgroup(Site site) {
  Thread& t = me();
  if ((t.index / kWarpgroup + 1) * kWarpgroup > t.block->grid->shape.threads)
    fail("wgmma", site, "{} at {} is not in a whole warpgroup of 128 threads", name_thread(t), name_site(site));
  return t.block->warpgroups[t.index / kWarpgroup];
}

// Each warp's part of a wgmma begins when that warp issues it: what happened before must have happened before all four.
View Machine::warpgroup_view(const Warpgroup& g) const {
  const auto& members = g.rendezvous.members;
  View view;
  const bool equal = std::all_of(members.begin(), members.end(), [&](const Thread* t) {
    return t->knowledge.seen == members[0]->knowledge.seen && t->knowledge.fenced == members[0]->knowledge.fenced;
  });
  if (equal) {
    // What a thread did itself after the clock they share is unknown to the other warps.
    view.knowledge = members[0]->knowledge;
    return view;
  }
  std::array<Release, 4> warps;
  for (Thread* t : members) warps[t->index / kWarp % 4].add(*t);
  view.knowledge = warps[0].gathered;
  for (int w = 1; w < 4; ++w) {
    view.knowledge.seen = meet(view.knowledge.seen, warps[w].gathered.seen);
    view.knowledge.fenced = meet(view.knowledge.fenced, warps[w].gathered.fenced);
  }
  return view;
}

void Machine::wgmma_fence(Site site) {
  Warpgroup& g = my_warpgroup(site);
  collective(g.rendezvous, kWarpgroup, "wgmma_fence", site, [&] { g.fenced = true; });
}

void Machine::wgmma(DType type, int columns, bool transpose_a, bool transpose_b, float* registers, u64 a, u64 b, bool accumulate, Site site) {
  Warpgroup& g = my_warpgroup(site);
  Block& block = *me().block;
  g.registers_of[me().index % kWarpgroup] = registers;
  const auto multiply = [&] {
    const bool whole = columns >= 8 && columns <= 256 && columns % 8 == 0;
    if (!whole || (type == DType::int8 && ((columns > 32 && columns % 16) || columns == 40 || columns == 56)))
      fail("wgmma", site, "wgmma of {} columns at {}: must be a multiple of 8 (int8 beyond 32: of 16) up to 256", columns, name_site(site));
    if (type == DType::fp32 || type == DType::int32) fail("wgmma", site, "wgmma takes fp16, bf16, tf32, e4m3, e5m2 or int8");
    if ((transpose_a || transpose_b) && size_of(type) != 2) fail("wgmma", site, "wgmma takes M- or N-major operands of 16-bit types only");
    for (u64 d : {a, b})
      if (Descriptor(d).base_offset)
        fail("descriptor", site, "descriptor {:#x} at {}: the emulator does not model a base offset; align the pattern instead", d, name_site(site));
    Accumulator& accumulator = take_accumulator(g, type, columns, site);
    MatrixMultiply op{type, columns, transpose_a, transpose_b, accumulate, a, b, &accumulator, g.committed + 1, site_id(site), {}};
    if (options_.races) {
      op.view = warpgroup_view(g);
      for (Thread* t : g.rendezvous.members) ++t->epoch;
    }
    accumulator.last_group = op.group;
    tell([&](Observer& o) { o.multiply_issued(block, g, op); });
    g.open_used = true;
    g.queue.push_back(std::move(op));
    ++report_.counters.wgmmas;
    if (options_.async == Async::eager) execute(block, g);
    if (options_.async == Async::random)
      submit([this, &block, &g] {
        if (!g.queue.empty()) execute(block, g);
      });
  };
  collective(g.rendezvous, kWarpgroup, "wgmma", site, multiply, {a, b, accumulate});
}

// The accumulator in these registers: the one in flight there, or a fresh one, which the unit owns from here on.
Accumulator& Machine::take_accumulator(Warpgroup& g, DType type, int columns, Site site) {
  const bool integer = type == DType::int8;
  const auto here = [&](const auto& x) { return x->registers[0] == g.registers_of[0]; };
  if (const auto owner = std::find_if(g.live.begin(), g.live.end(), here); owner != g.live.end()) {
    if ((*owner)->columns != columns || (*owner)->integer != integer)
      fail("wgmma", site, "wgmma at {} on an accumulator that a wgmma of another shape or type still owns", name_site(site));
    return **owner;
  }
  g.live.push_back(std::make_unique<Accumulator>());
  Accumulator& fresh = *g.live.back();
  fresh.columns = columns;
  fresh.integer = integer;
  fresh.registers = g.registers_of;
  fresh.values.resize(std::size_t(kMultiplyRows * columns));
  for_fragments(fresh, [](float& reg, float& value) { value = std::exchange(reg, std::bit_cast<float>(kPoison)); });
  // Without a fence only what the last wait left may stand there.
  const auto left = std::find_if(g.left.begin(), g.left.end(), here);
  const bool untouched = left != g.left.end() && std::ranges::equal(fresh.values, (*left)->values, same_bits);
  if (!g.fenced && !untouched)
    report("wgmma", site, "wgmma at {} without wgmma_fence() after its accumulator registers were written", name_site(site));
  if (left != g.left.end()) g.left.erase(left);
  return fresh;
}

// Rows of an operand as fp32, K values each.
void Machine::load_operand(Block& block, u64 bits, int rows, bool transposed, const MatrixMultiply& op, const Access& a, float* out) {
  const Descriptor d(bits);
  const int depth = depth_of(op.type), per_chunk = 16 / size_of(op.type);
  float values[16];
  const auto fetch = [&](u32 address) {
    const u8* p = shared_bytes(block, address, 16, 16, "wgmma", site(a.site));
    touch_shared(block, address, 16, a, op.view);
    decode_chunk(op.type, p, values);
  };
  if (!transposed) {
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < 2; ++c) {
        fetch(d.k_major(u32(r), u32(c)));
        std::copy_n(values, per_chunk, out + r * depth + c * per_chunk);
      }
  } else {
    for (int k = 0; k < depth; ++k)
      for (int group = 0; group < rows / 8; ++group) {
        fetch(d.mn_major(u32(group), u32(k)));
        for (int i = 0; i < 8; ++i) out[(group * 8 + i) * depth + k] = values[i];
      }
  }
}

// The oldest multiply of the warpgroup.
void Machine::execute(Block& block, Warpgroup& g) {
  const MatrixMultiply op = std::move(g.queue.front());
  g.queue.pop_front();
  const Access access{g.agent, op.group, op.site, false, true, 4};
  thread_local std::vector<float> a(kMultiplyRows * 32), b(256 * 32);
  load_operand(block, op.a, kMultiplyRows, op.transpose_a, op, access, a.data());
  load_operand(block, op.b, op.columns, op.transpose_b, op, access, b.data());
  std::vector<float>& d = op.accumulator->values;
  if (!op.accumulate) std::fill(d.begin(), d.end(), 0.0f);
  multiply(op.type, a.data(), b.data(), d.data(), op.columns);
}

void Machine::wgmma_commit(Site site) {
  Warpgroup& g = my_warpgroup(site);
  collective(g.rendezvous, kWarpgroup, "wgmma_commit", site, [&] {
    ++g.committed;
    g.open_used = false;
  });
}

void Machine::wgmma_wait(u32 pending, Site site) {
  Warpgroup& g = my_warpgroup(site);
  Block& block = *me().block;
  const auto finish = [&] {
    const u32 upto = g.committed > pending ? g.committed - pending : 0;
    while (!g.queue.empty() && g.queue.front().group <= upto) execute(block, g);
    tell([&](Observer& o) { o.multiplies_retired(block, g, upto); });
    retire(g, upto, site);
    g.fenced = false;
    if (!options_.races || upto == 0) return;
    // A warp that has waited knows of its own part only: the hardware promises no more.
    ClockRef done[4];
    for (u32 w = 0; w < 4; ++w) advance(done[w], g.agent + w, upto);
    for (Thread* t : g.rendezvous.members) t->knowledge.seen = joins_.join(t->knowledge.seen, done[t->index / kWarp % 4]);
  };
  collective(g.rendezvous, kWarpgroup, "wgmma_wait", site, finish, {pending, 0, 0});
}

// Gives the accumulators back whose last group is done. One that a younger group still uses stays poisoned.
void Machine::retire(Warpgroup& g, u32 upto, Site site) {
  constexpr std::size_t kRemembered = 4;
  g.retired = std::max(g.retired, upto);
  for (std::unique_ptr<Accumulator>& acc : g.live) {
    if (acc->last_group > upto) continue;
    bool touched = false;
    for_fragments(*acc, [&](float& reg, float& value) {
      touched |= std::bit_cast<u32>(reg) != kPoison;
      reg = value;
    });
    if (touched) report("wgmma", site, "accumulator registers were written while a wgmma owned them, before the wgmma_wait() at {}", name_site(site));
    g.left.push_back(std::move(acc));
    if (g.left.size() > kRemembered) g.left.erase(g.left.begin());
  }
  std::erase(g.live, nullptr);
}

}  // namespace foretile::emulator
