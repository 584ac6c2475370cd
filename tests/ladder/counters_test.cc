// The rungs' counters, as Nsight Compute recorded them on an H200 (tests/golden/counters_ladder.csv, tools/ladder_counters.py),
// against the emulator's trace of the same launch and against the description that the forecast is made from.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <sstream>

#include "foretile/emulator.h"
#include "ladder/described.h"
#include "ladder/rungs.h"
#include "model/described_access.h"
#include "model/occupancy.h"
#include "model/machine.h"

namespace foretile::ladder {
namespace {

constexpr Problem kRecorded{.m = 384, .n = 384, .k = 192};

struct Recorded {
  const Rung* rung = nullptr;
  const Variant* variant = nullptr;
  std::map<std::string, double> counters;
};

std::vector<Recorded> recorded() {
  std::vector<Recorded> rows;
  std::ifstream file(FORETILE_SOURCE_DIR "/tests/golden/counters_ladder.csv");
  std::string line;
  std::vector<std::string> names;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> cells;
    std::stringstream parts(line);
    for (std::string cell; std::getline(parts, cell, ',');) cells.push_back(cell);
    if (names.empty()) {
      names = cells;
      continue;
    }
    Recorded r;
    const int number = std::stoi(cells[0]);
    r.rung = number == 0 ? &accuracy_rung() : find_rung(number);
    if (!r.rung || r.rung->production) continue;
    r.variant = find_variant(*r.rung, cells[1]);
    if (!r.variant) continue;
    for (std::size_t i = 2; i < cells.size(); ++i) r.counters[names[i]] = std::stod(cells[i]);
    rows.push_back(std::move(r));
  }
  return rows;
}

// What the launch costs in all, by the counters' names.
std::map<std::string, double> emulated(const Rung& rung, const Variant& v) {
  const std::size_t size = std::size_t(size_of(rung.type));
  const auto bytes = [&](i64 elements) { return std::vector<u64>(std::size_t(elements) * size / 8 + 32, 0); };
  std::vector<u64> a = bytes(kRecorded.m * kRecorded.k), b = bytes(kRecorded.n * kRecorded.k), d = bytes(kRecorded.m * kRecorded.n);
  const auto aligned = [](std::vector<u64>& x) { return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(x.data()) + 255) / 256 * 256); };
  const Arguments x = arguments_of(rung, kRecorded, aligned(a), aligned(b), aligned(d), emulator::encode_tensor_map);
  emulator::Options o;
  o.trace = true, o.races = false;
  const emulator::Report report = emulator::emulate(launch_shape(rung, v, kRecorded), [&] { v.body(x); },
                                                    {{x.a, std::size_t(kRecorded.m * kRecorded.k) * size, false, "A"},
                                                     {x.b, std::size_t(kRecorded.n * kRecorded.k) * size, false, "B"},
                                                     {x.d, std::size_t(kRecorded.m * kRecorded.n) * size, true, "D"}},
                                                    o);
  EXPECT_TRUE(report.clean()) << report.text();
  std::map<std::string, double> sum;
  for (const emulator::AccessSite& s : report.accesses) {
    const bool load = s.call.rfind("load", 0) == 0;
    if (s.call.rfind("tma", 0) == 0) continue;
    if (s.call == "cp_async from global") {
      // cp.async counts among the loads.
      sum["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] += double(s.requests), sum["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] += double(s.sectors);
    } else if (s.wavefronts == 0) {
      sum[fmt::format("l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum", load ? "ld" : "st")] += double(s.requests);
      sum[fmt::format("l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum", load ? "ld" : "st")] += double(s.sectors);
    } else if (s.call != "cp_async to shared") {
      sum[fmt::format("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum", load ? "ld" : "st")] += double(s.wavefronts);
      sum[fmt::format("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum", load ? "ld" : "st")] += double(s.bank_conflicts());
    }
  }
  return sum;
}

constexpr const char* kCompared[] = {
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"};

// One rung each: its kernels are emulated, which takes a while. 0: the side rung.
class LadderCounters : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Rung, LadderCounters, testing::Values(0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11));

// Everything is equal but for one thing: where stores and loads of several warps meet at the pipe, the chip counts another
// wavefront and calls it a conflict, which depends on timing: below 0.2 % of the loads' wavefronts, 15 % of the stores'.
TEST_P(LadderCounters, EqualNsightComputes) {
  int found_rows = 0;
  for (const Recorded& r : recorded()) {
    if (r.rung->number != GetParam()) continue;
    ++found_rows;
    const auto ours = emulated(*r.rung, *r.variant);
    for (const char* name : kCompared) {
      const auto theirs = r.counters.find(name);
      if (theirs == r.counters.end()) continue;
      const auto found = ours.find(name);
      const double expected = found == ours.end() ? 0 : found->second;
      const std::string who = fmt::format("rung {} {}: {}", r.rung->number, r.variant->text, name);
      const bool load = std::string_view(name).ends_with("_ld.sum"), shared = std::string_view(name).find("mem_shared") != std::string_view::npos;
      const auto wavefronts = ours.find(load ? "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum" : "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum");
      const double met = shared && wavefronts != ours.end() ? (load ? 0.002 : 0.15) * wavefronts->second : 0;
      EXPECT_GE(theirs->second, expected) << who;
      EXPECT_LE(theirs->second, expected + met) << who;
    }
  }
  EXPECT_GE(found_rows, 1);
}

TEST(LadderOccupancy, IsTheRecordedOne) {
  const Machine machine = load_machine("h200");
  for (const Recorded& r : recorded()) {
    const Occupancy o = occupancy(machine, r.variant->threads, int(r.counters.at("launch__registers_per_thread")), r.variant->shared_bytes);
    EXPECT_NEAR(100 * o.warps_fraction, r.counters.at("sm__maximum_warps_per_active_cycle_pct"), 0.01) << r.rung->number << " " << r.variant->text;
  }
}

// What the forecast counts is what the source does.
TEST_P(LadderCounters, DescriptionsEqualTheEmulator) {
  const Machine machine = load_machine("h200");
  std::vector<const Rung*> all = {&accuracy_rung()};
  for (const Rung& r : rungs()) all.push_back(&r);
  for (const Rung* rung : all)
    for (const Variant& v : rung->variants) {
      if (rung->number != GetParam()) continue;
      const auto ours = emulated(*rung, v);
      const DescribedKernel k = describe(*rung, v, kRecorded);
      double wavefronts[2] = {}, conflicts[2] = {}, requests[2] = {}, sectors[2] = {};
      const double tiles = double(ceil_div(kRecorded.m, k.tile_m) * ceil_div(kRecorded.n, k.tile_n)), steps = double(ceil_div(kRecorded.k, k.tile_k));
      for (bool epilogue : {false, true}) {
        const auto& list = epilogue ? k.epilogue : k.step;
        const auto costs = access_costs(machine, k, kRecorded, epilogue);
        for (std::size_t i = 0; i < list.size(); ++i) {
          const int store = list[i].direction == Direction::store;
          const double times = tiles * (epilogue ? 1 : steps);
          if (list[i].space == Space::global) requests[store] += times * costs[i].requests, sectors[store] += times * costs[i].sectors;
          else if (!(store && k.copy == Copy::async)) wavefronts[store] += times * costs[i].wavefronts, conflicts[store] += times * costs[i].conflicts();
        }
      }
      const auto at = [&](const char* name) {
        const auto found = ours.find(name);
        return found == ours.end() ? 0.0 : found->second;
      };
      const std::string who = fmt::format("rung {} {}", rung->number, v.text);
      EXPECT_NEAR(wavefronts[0], at("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"), 1e-6) << who;
      EXPECT_NEAR(wavefronts[1], at("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"), 1e-6) << who;
      EXPECT_NEAR(conflicts[0] + conflicts[1], at("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum") + at("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"), 1e-6) << who;
      EXPECT_NEAR(requests[0], at("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"), 1e-6) << who;
      EXPECT_NEAR(sectors[0], at("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"), 1e-6) << who;
      EXPECT_NEAR(requests[1], at("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"), 1e-6) << who;
      EXPECT_NEAR(sectors[1], at("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"), 1e-6) << who;
    }
}

}  // namespace
}  // namespace foretile::ladder
