// Shadow memory: for every 16 bytes, who wrote and read them since they were last ordered, and which are initialised.
#pragma once
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "emulator/clock.h"

namespace foretile::emulator {

constexpr u32 kCellBytes = 16;

struct Access {
  Agent agent = kNobody;
  u32 epoch = 0;
  u32 site = 0;  // Machine::site_id
  bool write = false;
  bool async = false;  // through the asynchronous proxy
  // A wgmma is four agents, one behind the other: the parts of the four warps, each known when its warp has waited.
  u8 parts = 1;
};

// How many of the access's parts happened before, as the view knows.
inline u32 known_parts(const View& view, const Access& a) {
  u32 n = 0;
  for (u32 i = 0; i < a.parts; ++i) n += view.knows(a.agent + i, a.epoch);
  return n;
}

struct Record {
  Access access;
  u16 mask = 0;  // bytes of the cell
};

enum class Hazard { race, partial_release, missing_proxy_fence, uninitialised, live_barrier };

// A few records in place, more on the heap: most cells have one writer and one reader.
class Cell {
 public:
  u16 initialised = 0;
  u16 barrier = 0;  // bytes of a live mbarrier

  Cell() = default;
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;
  ~Cell() { delete[] heap_; }
  u32 size() const { return size_; }
  Record& operator[](u32 i) { return data()[i]; }
  void clear() { size_ = 0; }
  void erase(u32 i) { data()[i] = data()[--size_]; }
  void push(const Record& r) {
    if (size_ == capacity_) grow();
    data()[size_++] = r;
  }

 private:
  static constexpr u32 kInline = 2;
  Record* data() { return heap_ ? heap_ : inline_; }
  void grow() {
    auto* larger = new Record[capacity_ * 2u];
    std::memcpy(larger, data(), size_ * sizeof(Record));
    delete[] heap_;
    heap_ = larger;
    capacity_ = u16(capacity_ * 2);
  }

  u16 size_ = 0, capacity_ = kInline;
  Record* heap_ = nullptr;
  Record inline_[kInline];
};

// Checks one access against a cell and enters it. `hazard(kind, previous record or null)` is called for each conflict.
template <class OnHazard>
void touch_cell(Cell& cell, u16 mask, const Access& a, const View& view, OnHazard&& hazard) {
  if (cell.barrier & mask) hazard(Hazard::live_barrier, static_cast<const Record*>(nullptr));
  if (!a.write && (cell.initialised & mask) != mask) {
    hazard(Hazard::uninitialised, static_cast<const Record*>(nullptr));
    cell.initialised |= mask;  // once is enough
  }
  bool merged = false;
  for (u32 i = 0; i < cell.size();) {
    Record& r = cell[i];
    const u16 common = r.mask & mask;
    if (!a.write && !r.access.write && r.access.agent == a.agent && r.access.epoch == a.epoch) {
      r.mask |= mask;
      merged = true;
      ++i;
      continue;
    }
    if (!common) {
      ++i;
      continue;
    }
    const u32 parts = known_parts(view, r.access);
    const bool known = parts == r.access.parts;
    bool replaced = a.write;
    if (!a.write && !r.access.write) {
      // Whoever is ordered after this read is ordered after the older one too.
      replaced = known || (r.access.agent == a.agent && r.access.epoch <= a.epoch);
    } else if (!known) {
      hazard(parts ? Hazard::partial_release : Hazard::race, static_cast<const Record*>(&r));
    } else if (r.access.write && !r.access.async && a.async && !view.knows_fenced(r.access.agent, r.access.epoch)) {
      hazard(Hazard::missing_proxy_fence, static_cast<const Record*>(&r));
    }
    if (replaced && (r.mask &= u16(~mask)) == 0) {
      cell.erase(i);
    } else {
      ++i;
    }
  }
  if (a.write) cell.initialised |= mask;
  if (!merged) cell.push({a, mask});
}

// Calls `each(cell index, byte mask)` for the cells of [offset, offset + bytes).
template <class Each> void for_cells(u64 offset, u64 bytes, Each&& each) {
  const u64 end = offset + bytes;
  for (u64 at = offset; at < end;) {
    const u64 index = at / kCellBytes, first = at % kCellBytes;
    const u64 count = kCellBytes - first < end - at ? kCellBytes - first : end - at;
    each(index, u16(((1u << count) - 1) << first));
    at += count;
  }
}

// Cells of the pages of global memory that the launch may write.
class GlobalShadow {
 public:
  Cell& cell(u64 index) {
    const u64 page = index / kCellsPerPage;
    if (page != last_page_ || !last_) {
      std::unique_ptr<Cell[]>& cells = pages_[page];
      if (!cells) {
        cells = std::make_unique<Cell[]>(kCellsPerPage);
        // Global memory is the caller's: what it holds counts as written.
        for (u64 i = 0; i < kCellsPerPage; ++i) cells[i].initialised = 0xFFFF;
      }
      last_ = cells.get();
      last_page_ = page;
    }
    return last_[index % kCellsPerPage];
  }

 private:
  static constexpr u64 kCellsPerPage = 256;
  std::unordered_map<u64, std::unique_ptr<Cell[]>> pages_;
  u64 last_page_ = 0;
  Cell* last_ = nullptr;
};

}  // namespace foretile::emulator
