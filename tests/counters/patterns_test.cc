// One warp-wide access at a time: model/access.h against the emulator's trace, and both against the chip's counters.
#include <fmt/format.h>

#include <set>

#include "model/access.h"
#include "patterns.h"
#include "replay.h"

namespace foretile::counters {
namespace {

// What the rules of model/access.h say of a case with a table of offsets, summed over its launch.
struct Expected {
  u64 load_wavefronts = 0, store_wavefronts = 0, load_conflicts = 0, store_conflicts = 0;
  u64 load_requests = 0, store_requests = 0, load_sectors = 0, store_sectors = 0, load_lines = 0, store_lines = 0;
};

Expected expected(const Case& c) {
  std::vector<u32> shared;
  std::vector<u64> global;
  u32 active = 0;
  for (u32 lane = 0; lane < 32; ++lane) {
    const i32 offset = c.offsets[lane];
    if (offset >= 0) active |= 1u << lane;
    shared.push_back(offset < 0 ? 0 : u32(offset));
    global.push_back(offset < 0 ? 0 : u64(offset));
  }
  const u64 warps = u64(c.blocks) * c.threads / 32, accesses = warps * kProbeRepeats;
  Expected e;
  // The table and the result: 32 words of four sectors, one line.
  e.load_requests = e.store_requests = e.load_lines = e.store_lines = warps;
  e.load_sectors = e.store_sectors = 4 * warps;
  const bool store = c.probe.find("store") != std::string::npos;
  if (c.probe.find("shared") != std::string::npos || c.probe.find("matrix") != std::string::npos) {
    u64 wavefronts = 0, ideal = 0;
    if (c.probe.find("matrix") == std::string::npos) {
      wavefronts = u64(shared_wavefronts(shared, c.bytes, active, store ? Direction::store : Direction::load));
      ideal = u64(ideal_wavefronts(shared, c.bytes, active, store ? Direction::store : Direction::load));
    } else {
      const u64 matrices = c.probe.find('2') != std::string::npos ? 2 : 4;
      wavefronts = u64(matrix_wavefronts(std::span<const u32>(shared).first(8 * matrices)));
      ideal = matrices;
    }
    (store ? e.store_wavefronts : e.load_wavefronts) = accesses * wavefronts;
    (store ? e.store_conflicts : e.load_conflicts) = accesses * (wavefronts - ideal);
    if (!store) e.store_wavefronts += u64(c.blocks) * u64(c.arguments.shared_words) / 32;  // the fill
  } else {
    (store ? e.store_requests : e.load_requests) += accesses;
    (store ? e.store_sectors : e.load_sectors) += accesses * u64(global_sectors(global, c.bytes, active));
    (store ? e.store_lines : e.load_lines) += accesses * u64(global_lines(global, c.bytes, active));
  }
  return e;
}

TEST(Patterns, NamesAreUniqueAndEveryAddressIsInside) {
  std::set<std::string> names;
  for (List list : {List::shared, List::global, List::kernels, List::gemms})
    for (const Case* c : cases_of(list)) {
      EXPECT_TRUE(names.insert(c->name).second) << c->name << " twice";
      for (i32 offset : c->offsets) {
        EXPECT_LE(offset + c->bytes, list == List::shared ? i32(c->shared_bytes) : kGlobalSpan) << c->name;
      }
    }
  EXPECT_GE(cases_of(List::gemms).size(), 40u);
}

TEST(Patterns, TraceAgreesWithTheRules) {
  for (List list : {List::shared, List::global})
    for (const Case* c : cases_of(list)) {
      const Emulated run = emulated(*c);
      const Expected e = expected(*c);
      const auto loads = run.wavefronts("load_shared") + run.wavefronts("load_matrix_x4");
      const auto stores = run.wavefronts("store_shared") + run.wavefronts("store_matrix_x4") + run.wavefronts("store_matrix_x2");
      EXPECT_EQ(loads, e.load_wavefronts) << c->name;
      EXPECT_EQ(stores, e.store_wavefronts) << c->name;
      EXPECT_EQ(run.conflicts(""), e.load_conflicts + e.store_conflicts) << c->name;
      EXPECT_EQ(run.requests("load_global"), e.load_requests) << c->name;
      EXPECT_EQ(run.requests("store_global"), e.store_requests) << c->name;
      EXPECT_EQ(run.sectors("load_global"), e.load_sectors) << c->name;
      EXPECT_EQ(run.sectors("store_global"), e.store_sectors) << c->name;
      EXPECT_EQ(run.lines("load_global"), e.load_lines) << c->name;
    }
}

TEST(Recorded, SharedWavefronts) {
  RECORDED_OR_SKIP(rows, List::shared);
  ASSERT_EQ(rows.size(), cases_of(List::shared).size());
  for (const Row& row : rows) {
    const Case& c = case_named(row.at("case"));
    const Expected e = expected(c);
    EXPECT_EQ(value_of(row, "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"), double(e.load_wavefronts)) << c.name << ": " << c.shows;
    EXPECT_EQ(value_of(row, "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"), double(e.store_wavefronts)) << c.name << ": " << c.shows;
    EXPECT_EQ(value_of(row, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"), double(e.load_conflicts)) << c.name << ": " << c.shows;
    EXPECT_EQ(value_of(row, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"), double(e.store_conflicts)) << c.name << ": " << c.shows;
  }
}

TEST(Recorded, GlobalSectors) {
  RECORDED_OR_SKIP(rows, List::global);
  ASSERT_EQ(rows.size(), cases_of(List::global).size());
  for (const Row& row : rows) {
    const Case& c = case_named(row.at("case"));
    const Expected e = expected(c);
    const auto counter = [&](const char* what, const char* op) { return value_of(row, fmt::format("l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum", what, op)); };
    EXPECT_EQ(counter("requests", "ld"), double(e.load_requests)) << c.name << ": " << c.shows;
    EXPECT_EQ(counter("requests", "st"), double(e.store_requests)) << c.name << ": " << c.shows;
    EXPECT_EQ(counter("sectors", "ld"), double(e.load_sectors)) << c.name << ": " << c.shows;
    EXPECT_EQ(counter("sectors", "st"), double(e.store_sectors)) << c.name << ": " << c.shows;
    EXPECT_EQ(counter("set_accesses", "ld"), double(e.load_lines)) << c.name << ": " << c.shows;
  }
}

}  // namespace
}  // namespace foretile::counters
