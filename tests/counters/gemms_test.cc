// Products of real sizes: what the model expects against the chip's counters. Occupancy and waves exactly; L2 hit rate,
// DRAM bytes and the unit that bounds the kernel within stated bars.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "foretile/device/layout/tile_order.h"
#include "model/anatomy.h"
#include "replay.h"

namespace foretile::counters {
namespace {

const Machine& machine() {
  static const Machine m = load_machine("h200");
  return m;
}

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + std::ptrdiff_t(x.size() / 2), x.end());
  return x[x.size() / 2];
}

// The recorded launch's tile order may not be the plan's.
Traffic traffic_of(const Row& row, const Case& c, const Anatomy& a) {
  TileGrid grid = a.grid;
  grid.group = i32(value_of(row, "raster_group"));
  return traffic(machine(), c.operation, c.configuration, c.problem, grid, a.concurrent);
}

Anatomy anatomy_of(const Case& c) {
  Conditions conditions;
  conditions.regime = Regime::burst;  // one launch at a time
  return anatomy(machine(), c.operation, c.configuration, c.problem, conditions);
}

TEST(Recorded, OccupancyAndWaves) {
  int rows_seen = 0;
  for (List list : {List::kernels, List::gemms}) {
    for (const Row& row : recorded(list)) {
      const Case& c = case_named(row.at("case"));
      ++rows_seen;
      const int threads = int(value_of(row, "threads")), registers = int(value_of(row, "launch__registers_per_thread"));
      const Occupancy o = occupancy(machine(), threads, registers, int(value_of(row, "dynamic_shared_bytes")));
      EXPECT_EQ(value_of(row, "registers"), registers) << c.name;
      EXPECT_EQ(o.by_registers, value_of(row, "launch__occupancy_limit_registers")) << c.name;
      EXPECT_EQ(o.by_shared_memory, value_of(row, "launch__occupancy_limit_shared_mem")) << c.name;
      EXPECT_EQ(o.by_warps, value_of(row, "launch__occupancy_limit_warps")) << c.name;
      EXPECT_EQ(o.by_blocks, value_of(row, "launch__occupancy_limit_blocks")) << c.name;
      EXPECT_NEAR(100 * o.warps_fraction, value_of(row, "sm__maximum_warps_per_active_cycle_pct"), 0.01) << c.name;
      const double waves = value_of(row, "blocks") / (double(machine().sms) * o.blocks_per_sm);
      EXPECT_NEAR(waves, value_of(row, "launch__waves_per_multiprocessor"), 0.005) << c.name;
      const Registers table = registers_of(c.operation, c.configuration);
      if (c.probe.empty() && !table.estimated) {
        EXPECT_EQ(table.count, registers) << c.name;
      }
    }
  }
  if (!rows_seen) GTEST_SKIP() << recorded_path(List::gemms) << " is missing; record it with tools/counters/record.py on a Hopper GPU";
  EXPECT_GE(rows_seen, 12);
}

TEST(Recorded, L2AndDram) {
  RECORDED_OR_SKIP(rows, List::gemms);
  std::vector<double> hit_errors, byte_errors;
  std::string table = fmt::format("{:<36} {:>6} {:>7} {:>7} {:>9} {:>9} {:>7}\n", "launch", "group", "hit %", "model", "DRAM MB", "model", "error %");
  for (const Row& row : rows) {
    const Case& c = case_named(row.at("case"));
    const Traffic t = traffic_of(row, c, anatomy_of(c));
    const double hits = value_of(row, "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum"), misses = value_of(row, "lts__t_sectors_srcunit_tex_op_read_lookup_miss.sum");
    const double hit = hits / (hits + misses);
    const double bytes = value_of(row, "dram__bytes_read.sum") + value_of(row, "dram__bytes_write.sum");
    hit_errors.push_back(std::fabs(hit - t.l2_hit_rate));
    byte_errors.push_back(std::fabs(t.dram_bytes() / bytes - 1));
    table += fmt::format("{:<36} {:>6} {:>7.1f} {:>7.1f} {:>9.1f} {:>9.1f} {:>7.1f}\n", c.name, row.at("raster_group"), 100 * hit, 100 * t.l2_hit_rate, bytes / 1e6, t.dram_bytes() / 1e6,
                         100 * (t.dram_bytes() / bytes - 1));
  }
  ASSERT_GE(rows.size(), 40u);
  EXPECT_LE(median(hit_errors), 0.03) << table;
  EXPECT_LE(median(byte_errors), 0.08) << table;
}

// The busiest unit by Nsight Compute's speed of light; below 60 % of every peak the kernel waits: latency.
std::string top_unit(const Row& row) {
  const auto percent = [&](const char* counter) { return value_of(row, std::string(counter) + ".pct_of_peak_sustained_elapsed"); };
  const std::pair<std::string, double> units[] = {
      {"dram", percent("dram__throughput.avg")},
      {"l2", percent("lts__throughput.avg")},
      {"shared_memory", percent("l1tex__data_pipe_lsu_wavefronts.avg")},
      {"tensor_cores", percent("sm__pipe_tensor_cycles_active.avg")},
      {"fp32_cores", percent("sm__pipe_fma_cycles_active.avg")},
      {"issue", percent("sm__inst_issued.avg")},
  };
  const auto top = std::max_element(std::begin(units), std::end(units), [](auto& a, auto& b) { return a.second < b.second; });
  return top->second < 60 ? "latency" : top->first;
}

std::string unit_of(Bound bound) {
  switch (bound) {
    case Bound::dram: return "dram";
    case Bound::l2: return "l2";
    case Bound::shared_memory: return "shared_memory";
    case Bound::tensor_cores: return "tensor_cores";
    case Bound::fp32_cores: return "fp32_cores";
    case Bound::issue: return "issue";
    case Bound::latency:
    case Bound::launch: return "latency";
  }
  return "?";
}

TEST(Recorded, Bottleneck) {
  RECORDED_OR_SKIP(rows, List::gemms);
  int equal = 0;
  std::string table;
  for (const Row& row : rows) {
    const Case& c = case_named(row.at("case"));
    const std::string chip = top_unit(row), model = unit_of(anatomy_of(c).forecast.bound);
    // Where no unit is near its peak, the chip has no top unit to agree with.
    equal += chip == model || chip == "latency";
    if (chip != model) table += fmt::format("{:<36} chip {:<14} model {}\n", c.name, chip, model);
  }
  EXPECT_GE(equal, 0.9 * double(rows.size())) << table;
}

}  // namespace
}  // namespace foretile::counters
