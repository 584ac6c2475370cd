// The tensor memory accelerator: tensor maps, box loads and stores, bulk groups.
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <stdexcept>

#include "emulator/machine.h"
#include "emulator/trace.h"
#include "foretile/device/layout/swizzle.h"
#include "model/access.h"

namespace foretile::emulator {

namespace {

constexpr u64 kMagic = 0x70616d726f736e65;
constexpr u32 kBoxAlignment = 128;  // of the box in shared memory (PTX ISA, "cp.async.bulk.tensor")

// What encode_tensor_map() leaves in the 128 opaque bytes.
struct EncodedMap {
  u64 magic;
  const u8* base;
  u64 extent[3];
  u64 stride[2];
  u32 box[3];
  DType type;
  Swizzle swizzle;
};
static_assert(sizeof(EncodedMap) <= sizeof(TensorMap));

}  // namespace

struct Machine::Box {
  EncodedMap map;
  i64 corner[3];
  u64 element, row_bytes, bytes;

  Box(const EncodedMap& m, BoxCorner c) : map(m), corner{c.inner, c.row, c.batch} {
    element = u64(size_of(m.type));
    row_bytes = m.box[0] * element;
    bytes = row_bytes * m.box[1] * m.box[2];
  }
  // Calls each(linear offset in the box, global address, bytes) for the part of every row inside the tensor. A store
  // writes whole units of 16 bytes where a row of the tensor ends inside one (tests/golden/tma.golden).
  template <class Each> void inside(Each&& each, bool whole_units = false) const {
    const i64 unit = whole_units ? i64(16 / element) : 1;
    const i64 first = max_of(0, corner[0]), last = min_of(corner[0] + map.box[0], round_up(i64(map.extent[0]), unit));
    if (first >= last) return;
    for (u32 z = 0; z < map.box[2]; ++z)
      for (u32 y = 0; y < map.box[1]; ++y) {
        const i64 batch = corner[2] + z, row = corner[1] + y;
        if (batch < 0 || batch >= i64(map.extent[2]) || row < 0 || row >= i64(map.extent[1])) continue;
        const u64 offset = (u64(z) * map.box[1] + y) * row_bytes + u64(first - corner[0]) * element;
        each(offset, map.base + u64(batch) * map.stride[1] + u64(row) * map.stride[0] + u64(first) * element, u64(last - first) * element);
      }
  }
  // blocks: how many a load goes to; 0 for a store.
  void trace(const char* call, u64 blocks, Site site) const {
    Trace* const trace = Trace::current();
    if (!trace) return;
    u64 sectors = 0, filled = 0, rows = 0;
    inside([&](u64, const u8* address, u64 count) {
      sectors += u64(row_sectors(reinterpret_cast<std::uintptr_t>(address), count));
      trace->row(reinterpret_cast<std::uintptr_t>(address), count, blocks == 0);
      filled += u64(fill_sectors(row_bytes - count));
      ++rows;
    });
    filled += (u64(map.box[1]) * map.box[2] - rows) * u64(fill_sectors(row_bytes));
    trace->box(call, bytes, sectors, blocks * (sectors + filled), site);
  }
};

// The rules of cuTensorMapEncodeTiled (CUDA driver API).
TensorMap encode_tensor_map(const TensorMapSpec& s) {
  const auto require = [](bool ok, const std::string& message) {
    if (!ok) throw std::invalid_argument("tensor map: " + message);
  };
  const u64 element = u64(size_of(s.type));
  require(s.base && reinterpret_cast<std::uintptr_t>(s.base) % 16 == 0, "the base address must be a multiple of 16");
  for (int i = 0; i < 3; ++i) {
    require(s.extent[i] >= 1 && s.extent[i] <= (u64(1) << 32), fmt::format("extent {} is {}: must be 1 to 2^32", i, s.extent[i]));
    require(s.box[i] >= 1 && s.box[i] <= 256, fmt::format("box {} is {}: must be 1 to 256 elements", i, s.box[i]));
  }
  for (int i = 0; i < 2; ++i)
    require(s.stride_bytes[i] % 16 == 0 && s.stride_bytes[i] < (u64(1) << 40), fmt::format("stride {} is {} bytes: must be a multiple of 16, below 2^40", i, s.stride_bytes[i]));
  const u64 inner = s.box[0] * element;
  require(inner % 16 == 0, fmt::format("the box's inner dimension has {} bytes: must be a multiple of 16", inner));
  if (s.swizzle != Swizzle::none) {
    const u64 span = u64(span_of(s.swizzle));
    require(inner <= span, fmt::format("the box's inner dimension has {} bytes: more than the swizzle's span of {}", inner, span));
    require(inner == span, fmt::format("the emulator models swizzled boxes that fill the span: {} bytes of {}", inner, span));
  }
  EncodedMap m{};
  m.magic = kMagic;
  m.base = static_cast<const u8*>(s.base);
  for (int i = 0; i < 3; ++i) m.extent[i] = s.extent[i], m.box[i] = s.box[i];
  for (int i = 0; i < 2; ++i) m.stride[i] = s.stride_bytes[i];
  m.type = s.type;
  m.swizzle = s.swizzle;
  TensorMap map{};
  std::memcpy(&map, &m, sizeof(m));
  return map;
}

void Machine::prefetch_tensor_map(const TensorMap& map, Site site) { box_of(map, {0, 0, 0}, false, "prefetch_tensor_map", site); }

// Refuses what is no tensor map, and corners that trap on the chip (seen on an H200 by tools/golden, 2026-11-30).
Machine::Box Machine::box_of(const TensorMap& map, BoxCorner corner, bool store, const char* call, Site site) {
  EncodedMap m;
  std::memcpy(&m, &map, sizeof(m));
  if (m.magic != kMagic) fail("tensor-map", site, fmt::format("{} at {}: not a tensor map", call, name_site(site)));
  const Box box(m, corner);
  if (box.corner[0] * i64(box.element) % 16 != 0)
    fail("tensor-map", site, fmt::format("{} at {}: the box starts {} bytes into a row, which must be a multiple of 16", call, name_site(site), box.corner[0] * i64(box.element)));
  if (store && (box.corner[0] < 0 || box.corner[1] < 0 || box.corner[2] < 0))
    fail("tensor-map", site, fmt::format("{} at {}: the corner {}, {}, {} is negative", call, name_site(site), box.corner[0], box.corner[1], box.corner[2]));
  return box;
}

// Gathers the box, zeros outside of the tensor.
void Machine::read_box(const Box& box, u8* buffer, const Access& a, const View& view, Site site) {
  std::memset(buffer, 0, box.bytes);
  box.inside([&](u64 offset, const u8* address, u64 bytes) {
    if (!check_global(address, bytes, false, view, "tma_load", site)) return;
    if (options_.races) touch_global(address, bytes, a, view);
    std::memcpy(buffer + offset, address, bytes);
  });
}

void Machine::write_box(const Box& box, const u8* buffer, const Access& a, const View& view, Site site) {
  box.inside([&](u64 offset, const u8* address, u64 bytes) {
    if (!check_global(address, bytes, true, view, "tma_store", site)) return;
    if (options_.races) touch_global(address, bytes, a, view);
    std::memcpy(const_cast<u8*>(address), buffer + offset, bytes);
    report_.counters.tma_store_bytes += bytes;
  }, true);
}

void Machine::tma_load(u32 destination, const TensorMap& map, BoxCorner corner, u32 barrier, u32 blocks, const char* call, Site site) {
  Thread& t = me();
  const Box box = box_of(map, corner, false, call, site);
  box.trace(call, u64(std::popcount(blocks)), site);
  if (blocks == 0 || blocks >> t.cluster->blocks.size()) fail("tensor-map", site, fmt::format("{} to blocks {:#x} of a cluster of {}", call, blocks, t.cluster->blocks.size()));
  const u32 offset = barrier - kSharedBase;
  std::vector<Block*> targets;
  for (u32 rank = 0; rank < t.cluster->blocks.size(); ++rank) {
    if (!(blocks >> rank & 1)) continue;
    Block& target = *t.cluster->blocks[rank];
    if (target.live == 0) fail("exit", site, fmt::format("{} at {} into {}, all of whose threads have returned", call, name_site(site), name_block(target)));
    shared_bytes(target, destination, u32(box.bytes), kBoxAlignment, call, site);
    check_barrier_ready(find_barrier(target, barrier, call, site), t.view(), true, site);
    ++target.copies;
    targets.push_back(&target);
  }
  View view = t.view();
  ++t.epoch;
  const u32 id = site_id(site);
  const u32 span = timeline_ ? show_write(*t.block, call, destination, targets[0]->barriers.at(offset), box.bytes,
                                          box_arguments(*t.block, destination, corner, site).add("blocks", std::popcount(blocks))) : 0;
  submit([this, box, view = std::move(view), targets, destination, offset, id, site, call, span, from = t.block] {
    thread_local std::vector<u8> buffer;
    buffer.resize(box.bytes);
    ++report_.counters.tma_loads;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      Block& target = *targets[i];
      // Whoever knows that this phase is complete knows that the copy has landed.
      MbarrierState& b = target.barriers.at(offset);
      Access a{b.agent, b.first_epoch + b.phase + 1, id, false, true};
      b.last_copy = a.epoch;
      if (i == 0) read_box(box, buffer.data(), a, view, site);
      if (target.live == 0) fail("exit", site, fmt::format("{} at {} lands in {}, all of whose threads have returned", call, name_site(site), name_block(target)));
      a.write = true;
      if (options_.races) touch_shared(target, destination - kSharedBase, u32(box.bytes), a, view);
      u8* shared = target.shared.data() - kSharedBase;
      for (u32 k = 0; k < box.bytes; k += 16) std::memcpy(shared + swizzle_address(destination + k, box.map.swizzle), buffer.data() + k, 16);
      report_.counters.tma_load_bytes += box.bytes;
      --target.copies;
      complete_transaction(target, offset, i64(box.bytes), site);
    }
    if (span) show_landed(*from, span);
  });
}

void Machine::tma_store(const TensorMap& map, BoxCorner corner, u32 source, Site site) {
  Thread& t = me();
  Block& block = *t.block;
  const Box box = box_of(map, corner, true, "tma_store", site);
  box.trace("tma_store", 0, site);
  shared_bytes(block, source, u32(box.bytes), kBoxAlignment, "tma_store", site);
  if (!t.bulk) {
    t.bulk = std::make_unique<BulkGroups>();
    t.bulk->reads = new_agent(block, Engine::bulk_reads, t.index);
    t.bulk->writes = new_agent(block, Engine::bulk_writes, t.index);
  }
  BulkGroups& bulk = *t.bulk;
  const u32 group = bulk.open;
  bulk.open_used = true;
  ++bulk.reading[group];
  ++bulk.writing[group];
  ++report_.counters.tma_stores;
  View view = t.view();
  ++t.epoch;
  const u32 id = site_id(site);
  const auto finish = [](std::map<u32, u32>& pending, u32 g) {
    if (--pending[g] == 0) pending.erase(g);
  };
  const u32 span = timeline_ ? show_store(block, source, corner, group, box.bytes, site) : 0;
  // Two completions: the source may be reused; the write is done.
  submit([this, &t, &block, &bulk, box, view = std::move(view), source, group, id, site, finish, span] {
    std::vector<u8> buffer(box.bytes);
    if (options_.races) touch_shared(block, source - kSharedBase, u32(box.bytes), {bulk.reads, group, id, false, true}, view);
    const u8* shared = block.shared.data() - kSharedBase;
    for (u32 k = 0; k < box.bytes; k += 16) std::memcpy(buffer.data() + k, shared + swizzle_address(source + k, box.map.swizzle), 16);
    finish(bulk.reading, group);
    wake_bulk(t);
    submit([this, &t, &bulk, box, view, group, id, site, finish, span, source_free = progress_, buffer = std::move(buffer)] {
      write_box(box, buffer.data(), {bulk.writes, group, id, true, true}, view, site);
      finish(bulk.writing, group);
      if (span) timeline_->close(span, progress_, EventArguments().add("source free at step", i64(source_free)));
      wake_bulk(t);
    });
  });
}

void Machine::wake_bulk(Thread& t) {
  if (t.wait.kind == Wait::Kind::bulk) wake(t);
}

void Machine::bulk_commit() {
  Thread& t = me();
  if (!t.bulk) return;  // an empty group
  ++t.bulk->open;
  t.bulk->open_used = false;
}

void Machine::bulk_wait(u32 pending, bool read_only, Site site) {
  Thread& t = me();
  if (!t.bulk) return;
  BulkGroups& bulk = *t.bulk;
  const u32 upto = bulk.open > pending ? bulk.open - pending : 0;  // groups before this one must be done
  while ((read_only ? bulk.first_reading() : bulk.first_writing()) < upto)
    block_on({Wait::Kind::bulk, read_only ? "bulk_wait_read" : "bulk_wait", site, 0, pending});
  bulk.read_waited = std::max(bulk.read_waited, upto);
  if (!options_.races || upto == 0) return;
  advance(t.knowledge.seen, bulk.reads, upto - 1);
  if (!read_only) advance(t.knowledge.seen, bulk.writes, upto - 1);
}

}  // namespace foretile::emulator
