// Replays the recorded launches: their counters from tests/golden/counters_*.csv, and the same launches in the emulator.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "cases.h"
#include "emulator/library/gemm.h"
#include "emulator/record/trace.h"

namespace foretile::counters {

// One recorded launch: the text of every column by name.
using Row = std::map<std::string, std::string>;

// Empty where the file is missing. FORETILE_GOLDEN names another folder than tests/golden.
std::string recorded_path(List list);
std::vector<Row> recorded(List list);
// The counter's value; a failed test and NaN where the row has none.
double value_of(const Row& row, const std::string& counter);
bool has(const Row& row, const std::string& counter);

const Case& case_named(const std::string& name);
// The cases of a list.
std::vector<const Case*> cases_of(List list);

struct Emulated {
  std::vector<emulator::AccessSite> sites;
  // Sums over sites of one call; an empty name: of all.
  u64 wavefronts(const std::string& call) const;
  u64 conflicts(const std::string& call) const;
  u64 requests(const std::string& call) const;
  u64 sectors(const std::string& call) const;
  u64 lines(const std::string& call) const;
  u64 delivered(const std::string& call) const;
  u64 mergeable(const std::string& call) const;
};
// Throws std::runtime_error with the findings where the emulator has any (races apart: probes store where lanes collide).
Emulated emulated(const Case& c);

}  // namespace foretile::counters

#define RECORDED_OR_SKIP(rows, list)                                                                                                  \
  const std::vector<foretile::counters::Row> rows = foretile::counters::recorded(list);                                              \
  if (rows.empty()) GTEST_SKIP() << foretile::counters::recorded_path(list) << " is missing; record it with tools/counters/record.py on a Hopper GPU"
