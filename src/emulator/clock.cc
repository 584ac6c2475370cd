#include "emulator/clock.h"

#include <algorithm>
#include <cstdint>

namespace foretile::emulator {

namespace {

Chunk& own_chunk(ClockRef& clock, u32 block) {
  if (!clock) {
    clock = ClockRef(new Clock);
  } else if (clock->uses > 1) {
    ClockRef copy(new Clock);
    copy->blocks = clock->blocks;
    clock = copy;
  }
  if (clock->blocks.size() <= block) clock->blocks.resize(block + 1);
  Ref<Chunk>& chunk = clock->blocks[block];
  if (!chunk) {
    chunk = Ref<Chunk>(new Chunk);
  } else if (chunk->uses > 1) {
    Ref<Chunk> copy(new Chunk);
    copy->epoch = chunk->epoch;
    chunk = copy;
  }
  return *chunk;
}

// Whether a knows everything that b knows.
bool covers(const Chunk* a, const Chunk* b) {
  if (!b || a == b) return true;
  const u32* y = b->epoch.data();
  const std::size_t nb = b->epoch.size(), na = a ? a->epoch.size() : 0, both = std::min(na, nb);
  u32 behind = 0;
  if (both) {
    const u32* x = a->epoch.data();
    for (std::size_t i = 0; i < both; ++i) behind |= u32(x[i] < y[i]);
  }
  for (std::size_t i = both; i < nb; ++i) behind |= u32(y[i] > 0);
  return behind == 0;
}

bool covers(const Clock& a, const Clock& b) {
  for (std::size_t i = 0; i < b.blocks.size(); ++i)
    if (!covers(i < a.blocks.size() ? a.blocks[i].get() : nullptr, b.blocks[i].get())) return false;
  return true;
}

}  // namespace

void advance(ClockRef& clock, Agent a, u32 epoch) {
  if (epoch_of(clock, a) >= epoch) return;
  Chunk& chunk = own_chunk(clock, a >> kAgentBits);
  const u32 index = a & ((1u << kAgentBits) - 1);
  if (chunk.epoch.size() <= index) chunk.epoch.resize(index + 1);
  chunk.epoch[index] = epoch;
}

ClockRef join(const ClockRef& a, const ClockRef& b) {
  if (!b || a == b) return a;
  if (!a) return b;
  if (covers(*a, *b)) return a;
  if (covers(*b, *a)) return b;
  ClockRef result(new Clock);
  result->blocks = a->blocks;
  if (result->blocks.size() < b->blocks.size()) result->blocks.resize(b->blocks.size());
  for (std::size_t i = 0; i < b->blocks.size(); ++i) {
    const Ref<Chunk>& y = b->blocks[i];
    if (!y || covers(result->blocks[i].get(), y.get())) continue;
    if (covers(y.get(), result->blocks[i].get())) {
      result->blocks[i] = y;
      continue;
    }
    Chunk& x = own_chunk(result, u32(i));
    if (x.epoch.size() < y->epoch.size()) x.epoch.resize(y->epoch.size());
    for (std::size_t k = 0; k < y->epoch.size(); ++k) x.epoch[k] = std::max(x.epoch[k], y->epoch[k]);
  }
  return result;
}

ClockRef meet(const ClockRef& a, const ClockRef& b) {
  if (a == b) return a;
  if (!a || !b) return {};
  ClockRef result(new Clock);
  const std::size_t n = std::min(a->blocks.size(), b->blocks.size());
  result->blocks.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Ref<Chunk>&x = a->blocks[i], &y = b->blocks[i];
    if (!x || !y) continue;
    if (x == y) {
      result->blocks[i] = x;
      continue;
    }
    Ref<Chunk> low(new Chunk);
    low->epoch.resize(std::min(x->epoch.size(), y->epoch.size()));
    for (std::size_t k = 0; k < low->epoch.size(); ++k) low->epoch[k] = std::min(x->epoch[k], y->epoch[k]);
    result->blocks[i] = low;
  }
  return result;
}

ClockRef everything_of(u32 first_block, u32 blocks, u32 agents) {
  Ref<Chunk> all(new Chunk);
  all->epoch.assign(agents, ~0u);
  ClockRef result(new Clock);
  result->blocks.resize(first_block + blocks);
  for (u32 b = first_block; b < first_block + blocks; ++b) result->blocks[b] = all;
  return result;
}

ClockRef without_threads(const ClockRef& clock, u32 threads) {
  if (!clock) return clock;
  ClockRef result(new Clock);
  result->blocks.resize(clock->blocks.size());
  for (std::size_t i = 0; i < clock->blocks.size(); ++i) {
    if (!clock->blocks[i]) continue;
    Ref<Chunk> chunk(new Chunk);
    chunk->epoch = clock->blocks[i]->epoch;
    std::fill_n(chunk->epoch.begin(), std::min<std::size_t>(threads, chunk->epoch.size()), 0u);
    result->blocks[i] = chunk;
  }
  return result;
}

ClockRef JoinCache::join(const ClockRef& a, const ClockRef& b) {
  if (!b || a == b) return a;
  if (!a) return b;
  const auto mix = reinterpret_cast<std::uintptr_t>(a.get()) * 3 + reinterpret_cast<std::uintptr_t>(b.get());
  Entry& e = entries_[(mix >> 5) % 64];
  if (!(e.a == a && e.b == b)) e = {a, b, emulator::join(a, b)};
  return e.result;
}

}  // namespace foretile::emulator
