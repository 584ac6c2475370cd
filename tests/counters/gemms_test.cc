// Products of real sizes: what the model expects against the chip's counters. Occupancy and waves exactly; L2 hit rate,
// DRAM bytes and the unit that bounds the kernel within stated bars.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "foretile/device/layout/tile_order.h"
#include "model/anatomy.h"
#include "model/counters.h"
#include "model/speed_of_light.h"
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

// Nsight Compute's limit by shared memory is that of the split between L1 and shared memory that the driver picked for
// the launch, not of all the shared memory an SM can have. KiB, compute capability 9.0.
constexpr int kSplits[] = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};
// No thread is launched with fewer registers than this, whatever the code needs.
constexpr int kFewestRegisters = 16;

// The portable kernel converts elsewhere since the recording: what it accesses is what it was, its registers are not.
bool compiled_anew(const Case& c) { return c.configuration.family == Family::simt; }

TEST(Recorded, OccupancyAndWaves) {
  int rows_seen = 0;
  for (List list : {List::kernels, List::gemms}) {
    for (const Row& row : recorded(list)) {
      const Case& c = case_named(row.at("case"));
      ++rows_seen;
      const int threads = int(value_of(row, "threads")), registers = int(value_of(row, "launch__registers_per_thread"));
      const int shared = int(value_of(row, "dynamic_shared_bytes"));
      const Occupancy o = occupancy(machine(), threads, registers, shared);
      EXPECT_EQ(std::max<int>(int(value_of(row, "registers")), kFewestRegisters), registers) << c.name;
      EXPECT_EQ(o.by_registers, value_of(row, "launch__occupancy_limit_registers")) << c.name;
      const int limit = int(value_of(row, "launch__occupancy_limit_shared_mem"));
      const i64 block_shared = round_up(shared + i64(machine().shared_reserved), 128);
      EXPECT_EQ(shared + machine().shared_reserved, value_of(row, "launch__shared_mem_per_block")) << c.name;
      EXPECT_TRUE(std::any_of(std::begin(kSplits), std::end(kSplits), [&](int split) { return split * 1024 / block_shared == limit; })) << c.name << ": " << limit;
      EXPECT_LE(limit, o.by_shared_memory) << c.name;
      EXPECT_GE(limit, o.blocks_per_sm) << c.name << ": the split must not cost a block";
      if (o.limiter == Limiter::shared_memory) {
        EXPECT_EQ(limit, o.by_shared_memory) << c.name;
      }
      EXPECT_EQ(o.by_warps, value_of(row, "launch__occupancy_limit_warps")) << c.name;
      EXPECT_EQ(o.by_blocks, value_of(row, "launch__occupancy_limit_blocks")) << c.name;
      EXPECT_NEAR(100 * o.warps_fraction, value_of(row, "sm__maximum_warps_per_active_cycle_pct"), 0.01) << c.name;
      const double waves = value_of(row, "blocks") / (double(machine().sms) * o.blocks_per_sm);
      EXPECT_NEAR(waves, value_of(row, "launch__waves_per_multiprocessor"), 0.005) << c.name;
      if (!c.probe.empty()) continue;
      const Registers table = registers_of(c.operation, c.configuration);
      if (!table.estimated && !compiled_anew(c)) {
        EXPECT_EQ(table.count, registers) << c.name;
      }
    }
  }
  if (!rows_seen) GTEST_SKIP() << recorded_path(List::gemms) << " is missing; record it with tools/counters/record.py on a Hopper GPU";
  EXPECT_GE(rows_seen, 12);
}

TEST(Recorded, L2AndDram) {
  RECORDED_OR_SKIP(rows, List::gemms);
  std::vector<double> hit_errors, lookup_errors, byte_errors;
  std::string table = fmt::format("{:<36} {:>6} {:>8} {:>7} {:>7} {:>7} {:>9} {:>9} {:>7}\n", "launch", "group", "lookup %", "model", "hit %", "model", "DRAM MB", "model", "error %");
  for (const Row& row : rows) {
    const Case& c = case_named(row.at("case"));
    const Traffic t = traffic_of(row, c, anatomy_of(c));
    const double hits = value_of(row, "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum"), misses = value_of(row, "lts__t_sectors_srcunit_tex_op_read_lookup_miss.sum");
    const double lookups = hits / (hits + misses);
    // The model's hit rate: what of the SMs' requests DRAM does not have to serve. A multicast tile is requested once but
    // counted by both receivers.
    const double requested = value_of(row, "l1tex__m_xbar2l1tex_read_bytes.sum") - value_of(row, "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld_dest_multicast.sum") * (1 - 1 / value_of(row, "cluster"));
    const double hit = 1 - value_of(row, "dram__bytes_read.sum") / requested;
    const double bytes = value_of(row, "dram__bytes_read.sum") + value_of(row, "dram__bytes_write.sum");
    hit_errors.push_back(std::fabs(hit - t.l2_hit_rate));
    TileGrid grid = anatomy_of(c).grid;
    grid.group = i32(value_of(row, "raster_group"));
    const double forecast_lookups = l2_lookups(machine(), c.configuration, c.problem, grid, anatomy_of(c).concurrent, t).hit_rate();
    lookup_errors.push_back(std::fabs(lookups - forecast_lookups));
    byte_errors.push_back(std::fabs(t.dram_bytes() / bytes - 1));
    table += fmt::format("{:<36} {:>6} {:>8.1f} {:>7.1f} {:>7.1f} {:>7.1f} {:>9.1f} {:>9.1f} {:>7.1f}\n", c.name, row.at("raster_group"), 100 * lookups, 100 * forecast_lookups, 100 * hit, 100 * t.l2_hit_rate, bytes / 1e6, t.dram_bytes() / 1e6,
                         100 * (t.dram_bytes() / bytes - 1));
  }
  ASSERT_GE(rows.size(), 40u);
  EXPECT_LE(median(hit_errors), 0.03) << table;
  // The counter of lookups: requests that met on their way never look anything up, and one that the near partition passes on to
  // the far one counts as a miss.
  EXPECT_LE(median(lookup_errors), 0.03) << table;
  EXPECT_LE(median(byte_errors), 0.08) << table;
}

// What explain says Nsight Compute would show: what it calls exact equals the chip's counters.
TEST(Recorded, ExpectedCounters) {
  RECORDED_OR_SKIP(rows, List::gemms);
  int compared = 0;
  std::vector<double> tensor, fma;
  for (const Row& row : rows) {
    const Case& c = case_named(row.at("case"));
    const Anatomy a = anatomy_of(c);
    for (const ExpectedCounter& e : expected_counters(machine(), c.operation, c.configuration, c.problem, a)) {
      // The shared memory of the kernel's epilogue has changed since the recording (kernels_test.cc).
      if (!has(row, e.name) || c.name == "output/full-epilogue" || (compiled_anew(c) && e.name == "launch__registers_per_thread")) continue;
      const double measured = value_of(row, e.name);
      if (e.name.starts_with("sm__pipe_tensor")) tensor.push_back(std::fabs(e.value - measured));
      if (e.name.starts_with("sm__pipe_fma")) fma.push_back(std::fabs(e.value - measured));
      if (!e.exact) continue;
      ++compared;
      const double slack = e.name.starts_with("launch__waves") ? 0.005 : e.name.ends_with("_pct") ? 0.01 : 0;
      EXPECT_NEAR(e.value, measured, slack + 1e-9) << c.name << ", " << e.name;
    }
  }
  EXPECT_GE(compared, 350);
  // A share of a peak needs the time too: median distance in points.
  EXPECT_LE(median(tensor), 4);
  EXPECT_LE(median(fma), 10);
}

// The busiest unit by Nsight Compute's percentages of peak; below 60 % of every peak the kernel waits: latency. L2 is what it
// does for SMs: lts__throughput also has its fills from DRAM, which are DRAM's business.
std::string top_unit(const Row& row) {
  const auto percent = [&](const char* counter) { return value_of(row, std::string(counter) + ".pct_of_peak_sustained_elapsed"); };
  const std::pair<std::string, double> units[] = {
      {"dram", percent("dram__throughput.avg")},
      {"l2", std::max({percent("lts__lts2xbar_cycles_active.avg"), percent("lts__t_sectors.avg"), percent("lts__t_tag_requests.avg"), percent("l1tex__m_xbar2l1tex_read_sectors.avg")})},
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
  int equal = 0, bounded = 0, equal_of_all = 0;
  std::string table;
  for (const Row& row : rows) {
    const Case& c = case_named(row.at("case"));
    const Anatomy a = anatomy_of(c);
    const std::string model = unit_of(speed_of_light(machine(), c.operation, c.configuration, c.problem, a, traffic_of(row, c, a)).top());
    // What is printed is that, for the order of tiles that the plan takes.
    if (value_of(row, "raster_group") == a.grid.group) {
      EXPECT_EQ(unit_of(a.forecast.bound), model) << c.name;
    }
    const std::string chip = top_unit(row);
    equal_of_all += chip == model;
    // Where no unit is near its peak, the chip has no top unit to agree with.
    if (chip == "latency") continue;
    ++bounded;
    equal += chip == model;
    if (chip != model) table += fmt::format("{:<36} chip {:<14} model {}\n", c.name, chip, model);
  }
  EXPECT_GE(bounded, 45);
  // With those that wait counted too, where "latency" is the only right answer.
  EXPECT_GE(equal_of_all, 0.9 * double(rows.size())) << equal_of_all << " of " << rows.size() << "\n" << table;
  EXPECT_GE(equal, 0.9 * bounded) << equal << " of " << bounded << "\n" << table;
}

}  // namespace
}  // namespace foretile::counters
