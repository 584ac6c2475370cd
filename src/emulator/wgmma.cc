// The matrix unit: descriptors, groups, and accumulators that hold a NaN while a wgmma owns them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/collective.h"
#include "emulator/machine.h"
#include "emulator/numeric.h"
#include "foretile/device/layout/fragment.h"
#include "foretile/device/layout/swizzle.h"

namespace foretile::emulator {

namespace {

constexpr u32 kPoisonBits = 0x7fc0dead;  // see Machine::check_poison
constexpr int kRows = 64;
constexpr int kStepBytes = 32;  // of the operands along K, for every type

struct Descriptor {
  u32 start, leading, stride, base_offset;
  Swizzle swizzle;

  explicit Descriptor(u64 d)
      : start(u32(d & 0x3FFF) << 4), leading(u32(d >> 16 & 0x3FFF) << 4), stride(u32(d >> 32 & 0x3FFF) << 4), base_offset(u32(d >> 49 & 7)) {
    constexpr Swizzle codes[] = {Swizzle::none, Swizzle::bytes128, Swizzle::bytes64, Swizzle::bytes32};
    swizzle = codes[d >> 62];
  }
  // Address of the 16 bytes that begin at row r and byte 16 * chunk along K, of a K-major operand. Core matrices are 8
  // rows of 16 bytes; without a swizzle each is contiguous.
  u32 k_major(u32 r, u32 chunk) const {
    const u32 pitch = swizzle == Swizzle::none ? 16 : u32(span_of(swizzle));
    return swizzle_address(start + r / 8 * stride + r % 8 * pitch + chunk * (swizzle == Swizzle::none ? leading : 16), swizzle);
  }
  // Address of eight 16-bit neighbours along M (or N), from 8 * group, at depth k, of an MN-major operand. A swizzle atom
  // is 8 values of K, one row of `span` bytes each; atoms follow along MN by `leading`, along K by `stride`. Without a
  // swizzle the atom is one group wide and the two strides change places.
  u32 mn_major(u32 group, u32 k) const {
    if (swizzle == Swizzle::none) return start + group * stride + k % 8 * 16 + k / 8 * leading;
    const u32 span = u32(span_of(swizzle)), groups = span / 16;
    return swizzle_address(start + group / groups * leading + group % groups * 16 + k % 8 * span + k / 8 * stride, swizzle);
  }
};

int depth_of(DType type) { return kStepBytes / size_of(type); }

// d[m][n] += sum over k of a[m][k] * b[k][n]; n a multiple of 8. Eight columns at a time in the compilers' vector type.
template <class T> void multiply(const T* a, const T* b, T* d, int n, int depth) {
  constexpr int kM = 4, kN = 8;
  using Vector __attribute__((vector_size(kN * sizeof(T)), aligned(alignof(T)))) = T;
  for (int m0 = 0; m0 < kRows; m0 += kM)
    for (int n0 = 0; n0 < n; n0 += kN) {
      Vector sum[kM];
      for (int m = 0; m < kM; ++m) std::memcpy(&sum[m], d + (m0 + m) * n + n0, sizeof(Vector));
      for (int k = 0; k < depth; ++k) {
        Vector row;
        std::memcpy(&row, b + k * n + n0, sizeof(Vector));
        for (int m = 0; m < kM; ++m) sum[m] += a[(m0 + m) * depth + k] * row;
      }
      for (int m = 0; m < kM; ++m) std::memcpy(d + (m0 + m) * n + n0, &sum[m], sizeof(Vector));
    }
}

void poison(Accumulator& acc) {
  float nan;
  std::memcpy(&nan, &kPoisonBits, 4);
  for (float* r : acc.registers) std::fill_n(r, acc.columns / 2, nan);
}

// Calls each(register, value in the 64 x columns matrix) of every thread.
template <class Each> void for_fragments(Accumulator& acc, Each&& each) {
  for (int t = 0; t < int(kWarpgroup); ++t)
    for (int i = 0; i < acc.columns / 2; ++i) {
      const Element e = wgmma_accumulator(t, i);
      each(acc.registers[t][i], acc.values[std::size_t(e.row) * std::size_t(acc.columns) + std::size_t(e.column)]);
    }
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, 4) == 0; }

}  // namespace

Warpgroup& Machine::my_warpgroup(Site site) {
  Thread& t = me();
  if ((t.index / kWarpgroup + 1) * kWarpgroup > t.block->grid->shape.threads)
    fail("wgmma", site, fmt::format("{} at {} is not in a whole warpgroup of 128 threads", name_thread(t), name_site(site)));
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
  collective(g.rendezvous, kWarpgroup, "wgmma_fence", site, {}, true, [&] { g.fenced = true; });
}

void Machine::wgmma(DType type, int columns, bool transpose_a, bool transpose_b, float* registers, u64 a, u64 b, bool accumulate, Site site) {
  Warpgroup& g = my_warpgroup(site);
  Block& block = *me().block;
  g.registers_of[me().index % kWarpgroup] = registers;
  collective(g.rendezvous, kWarpgroup, "wgmma", site, {a, b, accumulate}, true, [&] {
    const bool whole = columns >= 8 && columns <= 256 && columns % 8 == 0;
    if (!whole || (type == DType::int8 && columns > 32 && columns % 16) || (type == DType::int8 && (columns == 40 || columns == 56)))
      fail("wgmma", site, fmt::format("wgmma of {} columns at {}: must be a multiple of 8 (int8 beyond 32: of 16) up to 256", columns, name_site(site)));
    if (type == DType::fp32 || type == DType::int32) fail("wgmma", site, "wgmma takes fp16, bf16, tf32, e4m3, e5m2 or int8");
    if ((transpose_a || transpose_b) && size_of(type) != 2) fail("wgmma", site, "wgmma takes M- or N-major operands of 16-bit types only");
    for (u64 d : {a, b})
      if (Descriptor(d).base_offset) fail("descriptor", site, fmt::format("descriptor {:#x} at {}: the emulator does not model a base offset; align the pattern instead", d, name_site(site)));

    const auto owner = std::find_if(g.live.begin(), g.live.end(), [&](const auto& x) { return x->registers[0] == g.registers_of[0]; });
    Accumulator* acc = owner != g.live.end() ? owner->get() : nullptr;
    if (!acc) {
      auto fresh = std::make_unique<Accumulator>();
      fresh->columns = columns;
      fresh->integer = type == DType::int8;
      std::copy(g.registers_of.begin(), g.registers_of.end(), fresh->registers);
      fresh->values.resize(std::size_t(kRows * columns));
      for_fragments(*fresh, [](float& reg, float& value) { value = reg; });
      const auto known = std::find_if(g.left.begin(), g.left.end(), [&](const auto& x) { return x->registers[0] == g.registers_of[0]; });
      if (!g.fenced && (known == g.left.end() || (*known)->columns != columns ||
                        !std::equal(fresh->values.begin(), fresh->values.end(), (*known)->values.begin(), same_bits)))
        report("wgmma", site, fmt::format("wgmma at {} without wgmma_fence() after its accumulator registers were written", name_site(site)));
      if (known != g.left.end()) g.left.erase(known);
      poison(*fresh);
      acc = fresh.get();
      g.live.push_back(std::move(fresh));
    } else if (acc->columns != columns || acc->integer != (type == DType::int8)) {
      fail("wgmma", site, fmt::format("wgmma at {} on an accumulator that a wgmma of another shape or type still owns", name_site(site)));
    }
    MatrixMultiply op{type, columns, transpose_a, transpose_b, accumulate, a, b, acc, g.committed + 1, site_id(site), {}};
    if (options_.races) {
      op.view = warpgroup_view(g);
      for (Thread* t : g.rendezvous.members) ++t->epoch;
    }
    acc->last_group = op.group;
    if (timeline_) show_multiply(block, g, op);
    g.open_used = true;
    g.queue.push_back(std::move(op));
    ++report_.counters.wgmmas;
    if (options_.async == Async::eager) execute(block, g);
    if (options_.async == Async::random)
      operations_.push_back({[this, &block, &g] {
        if (!g.queue.empty()) execute(block, g);
      }});
  });
}

void Machine::load_operand(Block& block, u64 bits, int rows, bool transposed, const MatrixMultiply& op, const Access& a, float* out) {
  const Descriptor d(bits);
  const int depth = depth_of(op.type), width = size_of(op.type), per_chunk = 16 / width;
  const Site site = sites_[a.site];
  float values[16];
  const auto fetch = [&](u32 address) {
    const u8* p = shared_bytes(block, address, 16, 16, "wgmma", site);
    if (options_.races) touch_shared(block, address - kSharedBase, 16, a, op.view);
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
  const int n = op.columns, depth = depth_of(op.type);
  const Access access{g.agent, op.group, op.site, false, true, 4};
  thread_local std::vector<float> a(kRows * 32), b(256 * 32), bt(256 * 32);
  load_operand(block, op.a, kRows, op.transpose_a, op, access, a.data());
  load_operand(block, op.b, n, op.transpose_b, op, access, b.data());
  for (int j = 0; j < n; ++j)
    for (int k = 0; k < depth; ++k) bt[std::size_t(k * n + j)] = b[std::size_t(j * depth + k)];
  float* d = op.accumulator->values.data();
  if (!op.accumulate) std::fill_n(d, kRows * n, 0.0f);
  if (op.type != DType::int8) return multiply(a.data(), bt.data(), d, n, depth);
  thread_local std::vector<i32> ia(kRows * 32), ibt(256 * 32), id(kRows * 256);
  std::transform(a.begin(), a.begin() + kRows * depth, ia.begin(), [](float x) { return i32(x); });
  std::transform(bt.begin(), bt.begin() + n * depth, ibt.begin(), [](float x) { return i32(x); });
  std::memcpy(id.data(), d, sizeof(i32) * std::size_t(kRows * n));
  multiply(ia.data(), ibt.data(), id.data(), n, depth);
  std::memcpy(d, id.data(), sizeof(i32) * std::size_t(kRows * n));
}

void Machine::wgmma_commit(Site site) {
  Warpgroup& g = my_warpgroup(site);
  collective(g.rendezvous, kWarpgroup, "wgmma_commit", site, {}, true, [&] {
    ++g.committed;
    g.open_used = false;
  });
}

void Machine::wgmma_wait(u32 pending, Site site) {
  Warpgroup& g = my_warpgroup(site);
  Block& block = *me().block;
  collective(g.rendezvous, kWarpgroup, "wgmma_wait", site, {pending, 0, 0}, true, [&] {
    const u32 upto = g.committed > pending ? g.committed - pending : 0;
    while (!g.queue.empty() && g.queue.front().group <= upto) execute(block, g);
    retire(g, upto, site);
    g.fenced = false;
    if (!options_.races || upto == 0) return;
    // A warp that has waited knows of its own part only: the hardware promises no more.
    ClockRef done[4];
    for (u32 w = 0; w < 4; ++w) advance(done[w], g.agent + w, upto);
    for (Thread* t : g.rendezvous.members) t->knowledge.seen = joins_.join(t->knowledge.seen, done[t->index / kWarp % 4]);
  });
}

// Gives the accumulators back whose last group is done. One that a younger group still uses stays poisoned.
void Machine::retire(Warpgroup& g, u32 upto, Site site) {
  g.retired = std::max(g.retired, upto);
  if (timeline_) show_retired(g, upto);
  for (std::size_t i = 0; i < g.live.size();) {
    Accumulator& acc = *g.live[i];
    if (acc.last_group > upto) {
      ++i;
      continue;
    }
    float nan;
    std::memcpy(&nan, &kPoisonBits, 4);
    bool touched = false;
    for_fragments(acc, [&](float& reg, float& value) {
      touched |= !same_bits(reg, nan);
      reg = value;
    });
    if (touched) report("wgmma", site, fmt::format("accumulator registers were written while a wgmma owned them, before the wgmma_wait() at {}", name_site(site)));
    g.left.push_back(std::move(g.live[i]));
    g.live.erase(g.live.begin() + std::ptrdiff_t(i));
    if (g.left.size() > 4) g.left.erase(g.left.begin());
  }
}

}  // namespace foretile::emulator
