#include "model/counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "foretile/device/kernels/family.h"
#include "model/described_access.h"
#include "model/page.h"

namespace foretile {

namespace {

using Counters = std::vector<ExpectedCounter>;

// Sums over a launch of what its accesses cost.
void add_accesses(Counters& list, const DescribedKernel& k, const std::vector<AccessCost>& step, const std::vector<AccessCost>& epilogue, double tiles, double steps) {
  struct Sums {
    double instructions = 0, requests = 0, wavefronts = 0, conflicts = 0, sectors = 0;
  } shared[2], shared_matrix[2], global[2];
  const auto sum = [&](const std::vector<DescribedAccess>& accesses, const std::vector<AccessCost>& costs, double times) {
    for (std::size_t i = 0; i < costs.size(); ++i) {
      const DescribedAccess& a = accesses[i];
      Sums& s = (a.space == Space::global ? global : a.matrix ? shared_matrix : shared)[a.direction == Direction::store];
      const AccessCost& c = costs[i];
      s.instructions += times * c.instructions, s.requests += times * c.requests, s.wavefronts += times * c.wavefronts, s.conflicts += times * c.conflicts(), s.sectors += times * c.sectors;
    }
  };
  sum(k.step, step, tiles * steps);
  sum(k.epilogue, epilogue, tiles);
  for (int store = 0; store < 2; ++store) {
    const char* op = store ? "st" : "ld";
    const char* matrix = store ? "stsm" : "ldsm";
    list.push_back({fmt::format("sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum", op), shared[store].wavefronts, "wavefronts", true, "distinct words of the most crowded bank, request by request"});
    if (shared_matrix[store].requests > 0)
      list.push_back({fmt::format("sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum", matrix), shared_matrix[store].wavefronts, "wavefronts", true, "eight rows of 16 bytes a wavefront where none share banks"});
    list.push_back({fmt::format("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum", op), shared[store].conflicts + shared_matrix[store].conflicts, "wavefronts", false,
                    "wavefronts beyond one for each group of lanes served together; the counter adds turns lost to other traffic of the SM"});
    list.push_back({fmt::format("l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum", op), global[store].requests, "requests", true, "warp-wide instructions with a thread taking part"});
    list.push_back({fmt::format("l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum", op), global[store].sectors, "sectors", true, "distinct 32-byte sectors, request by request"});
  }
}

void add_launch(Counters& list, const Occupancy& q, double waves, int registers, bool registers_exact) {
  list.push_back({"launch__registers_per_thread", double(registers), "registers", registers_exact, registers_exact ? "as compiled, or as described" : "estimated"});
  list.push_back({"launch__occupancy_limit_registers", double(q.by_registers), "blocks", registers_exact, "registers of an SM over a block's"});
  list.push_back({"launch__occupancy_limit_warps", double(q.by_warps), "blocks", true, "warps of an SM over a block's"});
  list.push_back({"launch__waves_per_multiprocessor", waves, "waves", registers_exact, "blocks over blocks resident at once"});
  list.push_back({"sm__maximum_warps_per_active_cycle_pct", 100 * q.warps_fraction, "%", registers_exact, "theoretical occupancy"});
}

void add_memory(Counters& list, const Machine& machine, const Traffic& t, double seconds) {
  list.push_back({"dram__bytes_read.sum", t.dram_load_bytes, "B", false, "waves of tiles against the size of L2, cold"});
  list.push_back({"dram__bytes_write.sum", t.dram_store_bytes, "B", false, "D, written back"});
  list.push_back({"dram__throughput.avg.pct_of_peak_sustained_elapsed", 100 * t.dram_bytes() / (machine.dram_bandwidth * seconds), "%", false, "those bytes over the data sheet's bandwidth"});
}

}  // namespace

std::vector<ExpectedCounter> expected_counters(const DescribedKernel& k, const DescribedForecast& f) {
  Counters list;
  if (f.tiles == 0) return list;
  add_accesses(list, k, f.step, f.epilogue_accesses, double(f.tiles), double(f.steps));
  list.push_back({"l1tex__m_xbar2l1tex_read_bytes.sum", f.l2_request_bytes, "B", false, "sectors that a block has not brought to its L1 before"});
  list.push_back({"dram__bytes_read.sum", f.traffic.dram_load_bytes, "B", false, "waves of tiles against the size of L2, cold"});
  list.push_back({"dram__bytes_write.sum", f.traffic.dram_store_bytes, "B", false, "D, written back"});
  add_launch(list, f.occupancy, f.waves, k.registers, true);
  list.push_back({"gpu__time_duration.sum", f.seconds - f.launch, "s", false, "the forecast without the launch"});
  return list;
}

DescribedKernel describe_simt(const Operation& o, const Configuration& c, const TileGrid& grid) {
  DescribedKernel k{.name = "simt", .input = o.a, .output = o.d, .tile_m = c.tile_m, .tile_n = c.tile_n, .tile_k = c.tile_k, .threads_x = simt::threads(c)};
  k.shared_bytes = simt::shared_bytes(c), k.raster_group = grid.group;
  const int threads = simt::threads(c), across = c.tile_n / c.thread_n;
  // fetch and deposit: element i of a thread's share of a tile of `rows` by tile_k.
  const auto operand = [&](bool is_a) {
    const bool transposed = is_a ? o.transpose_a : o.transpose_b;
    const int rows = is_a ? c.tile_m : c.tile_n, pitch = is_a ? simt::a_pitch(c) : simt::b_pitch(c), size = size_of(is_a ? o.a : o.b);
    const int times = int(ceil_div(i64(rows) * c.tile_k, threads));
    const i64 base = is_a ? 0 : simt::a_bytes(c);
    const auto place = [=](const AccessPoint& p, int& r, int& depth) {
      const int index = p.repetition * threads + p.thread;
      r = transposed ? index % rows : index / c.tile_k, depth = transposed ? index / rows : index % c.tile_k;
      return index < rows * c.tile_k;
    };
    k.step.push_back({.text = is_a ? "A" : "B", .array = is_a ? "A" : "B", .bytes = size, .times = times, .address = [=](const AccessPoint& p) {
                        int r, depth;
                        const bool mine = place(p, r, depth);
                        const i64 row = (is_a ? p.block_m : p.block_n) * rows + r, at = p.step * c.tile_k + depth, all = is_a ? p.problem.m : p.problem.n;
                        if (!mine || row >= all || at >= p.problem.k) return kNoAccess;
                        return (transposed ? at * all + row : row * p.problem.k + at) * size;
                      }});
    k.step.push_back({.text = is_a ? "A's tile =" : "B's tile =", .space = Space::shared, .direction = Direction::store, .array = "tile", .times = times, .address = [=](const AccessPoint& p) {
                        int r, depth;
                        return place(p, r, depth) ? base + 4 * (i64(depth) * pitch + r) : kNoAccess;
                      }});
    const int groups = (is_a ? c.thread_m : c.thread_n) / 4, apart = 4 * (is_a ? c.tile_m / c.thread_m : across);
    k.step.push_back({.text = is_a ? "A's tile" : "B's tile", .space = Space::shared, .array = "tile", .bytes = 16, .times = c.tile_k * groups, .address = [=](const AccessPoint& p) {
                        const int depth = p.repetition / groups, group = p.repetition % groups;
                        return base + 4 * (i64(depth) * pitch + group * apart + (is_a ? p.thread / across : p.thread % across) * 4);
                      }});
  };
  operand(true), operand(false);
  const int size = size_of(o.d);
  k.epilogue.push_back({.text = "D", .direction = Direction::store, .array = "D", .bytes = size, .times = c.thread_m * c.thread_n, .address = [=](const AccessPoint& p) {
                          const int i = p.repetition / c.thread_n, j = p.repetition % c.thread_n;
                          const i64 row = p.block_m * c.tile_m + i / 4 * 4 * (c.tile_m / c.thread_m) + p.thread / across * 4 + i % 4;
                          const i64 column = p.block_n * c.tile_n + j / 4 * 4 * across + p.thread % across * 4 + j % 4;
                          return row < p.problem.m && column < p.problem.n ? (row * p.problem.n + column) * size : kNoAccess;
                        }});
  return k;
}

std::vector<ExpectedCounter> expected_counters(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Anatomy& x) {
  Counters list;
  const Forecast& f = x.forecast;
  if (x.tiles == 0) return list;
  const double kernel_seconds = f.seconds - f.launch;
  if (c.family == Family::sm90) {
    const double blocks = double(x.tiles) * c.cluster_m * c.cluster_n, steps = double(x.steps);  // tiles of one block
    const double line = double(c.tile_k) * size_of(o.a), a_lines = double(sm90::a_box_rows(c, p.m)) * c.cluster_n, b_lines = c.tile_n;
    list.push_back({"l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum", blocks * steps * (a_lines + b_lines) * line, "B", true,
                    fmt::format("{} x {} x ({} + {}) x {} B = {}: tiles of one block by steps by boxes of A and B, zeros beyond the edges included; a multicast counts at each receiver", blocks, steps, a_lines, b_lines, line,
                                megabytes(blocks * steps * (a_lines + b_lines) * line))});
    if (c.cluster_m * c.cluster_n > 1)
      list.push_back({"l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld_dest_multicast.sum", blocks * steps * ((c.cluster_n > 1 ? a_lines : 0) + (c.cluster_m > 1 ? b_lines : 0)) * line, "B", true, "of these, boxes that a cluster shares"});
    if (sm90::stores_by_tma(o)) {
      const bool whole = output_columns(o, p.n) * size_of(o.d) % kSectorBytes == 0;
      list.push_back({"l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum", x.traffic.d_bytes, "B", whole, whole ? "D" : "D; where rows do not end on sectors a little more"});
    }
    list.push_back({"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 100 * x.flops_executed / (machine.tensor_rate(o.a) * machine.sm90.mma_efficiency * machine.sms * x.clock * kernel_seconds), "%", false,
                    "multiplied with padding, over what all SMs sustain in the time (the clock falls while tensor cores are busy: sm90.mma_efficiency)"});
  } else if (c.family == Family::decode) {
    const double columns = x.tile_columns, steps = double(ceil_div(p.k, i64(c.tile_k)));  // of all slices of K
    list.push_back({"l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum", double(x.tiles) * steps * (columns + c.tile_m) * c.tile_k * size_of(o.a), "B", true,
                    fmt::format("{} x {} x ({} + {}) x {} x {} B = {}: tiles by steps along all of K by boxes of weights and tokens, zeros beyond the edges included", x.tiles, steps, columns, c.tile_m, c.tile_k, size_of(o.a),
                                megabytes(double(x.tiles) * steps * (columns + c.tile_m) * c.tile_k * size_of(o.a)))});
    list.push_back({"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 100 * x.flops_executed / (machine.tensor_rate(o.a) * machine.sms * x.clock * kernel_seconds), "%", false,
                    "multiplied with padding, over what all SMs could in the time"});
  } else if (c.family == Family::ffma || c.family == Family::gemv || c.family == Family::rows) {
    list.push_back({"sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed", 100 * x.flops_executed / (machine.fp32_rate * machine.sms * x.clock * kernel_seconds), "%", false, "multiply-adds with padding over the rate of all SMs"});
  } else {
    const DescribedKernel k = describe_simt(o, c, x.grid);
    const auto step = access_costs(machine, k, p, false), epilogue = access_costs(machine, k, p, true);
    if (is_plain(o)) add_accesses(list, k, step, epilogue, double(x.tiles), double(x.steps));
    double sectors = 0;
    for (const AccessCost& cost : step) sectors += cost.new_sectors;
    list.push_back({"l1tex__m_xbar2l1tex_read_bytes.sum", sectors * kSectorBytes * double(x.tiles) * double(x.steps), "B", false, "sectors that a block has not brought to its L1 before"});
    list.push_back({"sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed", 100 * x.flops_executed / (machine.fp32_rate * machine.sms * x.clock * kernel_seconds), "%", false, "multiply-adds with padding over the rate of all SMs"});
  }
  add_launch(list, x.occupancy, double(x.launch.blocks) / (double(machine.sms) * x.occupancy.blocks_per_sm), x.registers.count, !x.registers.estimated);
  const L2Lookups lookups = l2_lookups(machine, c, p, x.grid, x.concurrent, x.traffic);
  const std::string misses = number(lookups.misses), rows = number(lookups.rows), columns = number(lookups.columns);
  list.push_back({"lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum", std::round(lookups.sectors - lookups.misses), "sectors", false,
                  fmt::format("{} x {} / 32 B = {} lookups{}, less the misses", megabytes(x.traffic.l2_load_bytes), number(lookups.share), number(lookups.sectors), lookups.share < 1 ? ", of requests that met nobody on their way" : "")});
  const std::string again = machine.l2_copies > 1 ? fmt::format(", and again half of what both partitions want, all but 2 / 2 ^ n of the lines that n SMs of a wave read: 0.5 x ({} x (1 - 2 ^ (1 - {})) + {} x (1 - 2 ^ (1 - {}))) / ({} + {}) = {}", rows,
                                                                number(lookups.row_readers), columns, number(lookups.column_readers), rows, columns, number(lookups.again))
                                                  : "";
  list.push_back({"lts__t_sectors_srcunit_tex_op_read_lookup_miss.sum", std::round(lookups.misses), "sectors", false,
                  fmt::format("min({}, {} x (1 + {}) / 32 B) = {}: what DRAM gives{}", number(lookups.sectors), megabytes(x.traffic.dram_load_bytes - x.traffic.extra_bytes), number(lookups.again), misses, again)});
  add_memory(list, machine, x.traffic, kernel_seconds);
  list.push_back({"gpu__time_duration.sum", kernel_seconds, "s", false, "the forecast without the launch"});
  return list;
}

std::string counter_line(const ExpectedCounter& c) {
  const std::string value = c.unit == "s"   ? microseconds(c.value)
                            : c.unit == "%" ? percent(c.value / 100)
                            : c.unit == "B" ? megabytes(c.value)
                            : std::abs(c.value) < 1e15 && c.value == std::floor(c.value) ? fmt::format("{:.0f}", c.value)
                                                                                          : number(c.value);
  return fmt::format("  {} {:>11}  {}\n", c.exact ? '=' : '~', value, c.name);
}

}  // namespace foretile
