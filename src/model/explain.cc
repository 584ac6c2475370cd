#include "model/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "model/banks.h"
#include "model/counters.h"
#include "model/page.h"
#include "model/remedy.h"
#include "model/speed_of_light.h"
#include "model/text.h"
#include "model/trust.h"

namespace foretile {

namespace {

const char* why_threads_store(const Operation& o) {
  return is_plain(o) ? "its base address or a row of it is not on a multiple of 16 bytes" : "the epilogue has operands or an activation";
}

// How units that work side by side add up: see norm() in anatomy.h.
constexpr const char* kBeside = "the eighth root of the sum of eighth powers";
constexpr const char* kNorm = "the sixteenth root of the sum of sixteenth powers: the longest, or a little more";

class Explanation : private Page {
 public:
  Explanation(const Machine& m, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions, size_t columns)
      : Page(m, columns), machine_(m), o_(o), c_(c), p_(p), conditions_(conditions), x_(anatomy(m, o, c, p, conditions)) {}

  std::string text() {
    if (const std::string nothing = nothing_to_compute(p_); !nothing.empty()) return nothing;
    headline();
    help();
    line("\nKernel. {}", path_text(machine_, o_, c_, p_));
    work();
    occupancy();
    traffic();
    if (c_.family == Family::decode) {
      decode_step();
      decode_epilogue();
      clock();
      decode_together();
    } else if (c_.family == Family::rows) {
      rows_step();
      rows_epilogue();
      clock();
      rows_together();
    } else {
      c_.family == Family::sm90 ? sm90_step() : c_.family == Family::ffma ? ffma_step() : c_.family == Family::gemv ? gemv_step() : simt_step();
      epilogue();
      clock();
      together();
    }
    alternatives();
    counters();
    line("\nHow far to trust it. {} All that forecasts for this GPU were held against: {}.{}", trust(machine_, o_, c_, p_, conditions_).text(), machine_.validation,
         x_.registers.estimated ? " Registers are estimated: this operation and configuration are not in the checked-in table." : "");
    constants();
    return Page::text();
  }

 private:
  void headline() {
    const Forecast& f = x_.forecast;
    const char* regime = conditions_.regime == Regime::burst ? "short bursts" : conditions_.regime == Regime::sustained ? "sustained load" : "a fixed clock";
    line("{} on {}: {}, M = {}, N = {}, K = {}{}", text_of(c_), machine_.name, text_of(o_), p_.m, p_.n, p_.k, p_.batch > 1 ? fmt::format(", batch {}", p_.batch) : "");
    line("Forecast {}: {} TFLOP/s (2 M N K over it), {} GB/s of DRAM, for {} and {} data{}.", microseconds(f.seconds), number(flop_count(p_) / f.seconds / 1e12),
         number(f.dram_bytes / f.seconds / 1e9), regime, conditions_.data == Data::zeros ? "all-zero" : "random", conditions_.dependent ? ", in a chain of dependent launches whose weights are ready" : "");
    std::vector<std::pair<double, std::string>> parts = {{f.dram, "DRAM"},       {f.l2, "L2"},           {f.shared_memory, "shared memory"},
                                                         {f.compute, uses_tensor_cores(c_.family) ? "tensor cores" : "FP32 cores"},
                                                         {f.issue, "issue and barriers"}, {f.latency, "latency"}, {f.launch, "launch"}};
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string list;
    for (const auto& [seconds, name] : parts) list += fmt::format("{}{} {}", list.empty() ? "" : ", ", name, microseconds(seconds));
    const SpeedOfLight units = speed_of_light(machine_, o_, c_, p_, x_, x_.traffic);
    const UnitShare *first = units.begin(), *second = first + 1;
    if (units.top() != Bound::latency)
      line("Bound by {}: it is busy for {} of the kernel, over all SMs; next comes {} with {}.", name_of(f.bound), percent(first->percent / 100), name_of(second->unit), percent(second->percent / 100));
    else
      line("Bound by {}: no unit is busy for 60 % of the kernel, over all SMs ({} is for {}, {} for {}). The longest part, of the busiest SM: {}, {} of the time{}.", name_of(f.bound), name_of(first->unit),
           percent(first->percent / 100), name_of(second->unit), percent(second->percent / 100), parts[0].second, percent(parts[0].first / f.seconds),
           parts[0].first == f.l2 && x_.empty_lines > 0 ? ", with the lines beyond the last row of A, which the share above leaves out" : "");
    line("Parts of the busiest SM, a step's clocks times its steps and tiles over the clock (of L2 that or its time below, the longer); they overlap, so they do not add up: {}. Latency is what nothing hides: the start, fixed parts of tiles, epilogues ({}){}, and a step's wait where that is its longest part.",
         list, microseconds(f.epilogue), x_.behind_seconds > 0 ? ", SMs that end later than others" : "");
  }

  void work() {
    if (c_.family == Family::decode) return decode_work();
    const bool sm90 = c_.family == Family::sm90;
    const int cluster = c_.cluster_m * c_.cluster_n;
    const int columns = x_.tile_columns * c_.cluster_n;
    line("\nWork. Tiles of {} x {}{}{}: ceil({} / {}) x ceil({} / {}){} = {}.", c_.tile_m * c_.cluster_m, columns,
         cluster > 1 ? " a cluster of two blocks" : "", columns < c_.tile_n ? fmt::format(" (of {} columns: so that SMs share B evenly)", c_.tile_n) : "", p_.m, c_.tile_m * c_.cluster_m, p_.n, columns,
         p_.batch > 1 ? fmt::format(" x {}", p_.batch) : "", x_.tiles);
    line("  {} run at once ({}), so {} / {} = {}; the busiest block walks {}, and {} of the tiles come in full rounds.", x_.concurrent,
         sm90 ? fmt::format("one block an SM, {} of {} SMs", x_.busy_sms, machine_.sms) : fmt::format("{} a SM on {} of {} SMs", x_.blocks_on_sm, x_.busy_sms, machine_.sms),
         x_.tiles, x_.concurrent, waves(x_.forecast.waves), counted(x_.rounds, "tile"), percent(x_.full_share));
    const i64 depth = c_.family == Family::gemv ? i64(gemv::kStep) * c_.split_k : c_.tile_k;
    const std::string steps = fmt::format("ceil({} / {})", p_.k, depth);
    line("  They are walked in bands of {}, with which a wave reads the fewest rows of A and B. Each tile takes {} = {} along K.", counted(x_.grid.group, "tile row"), steps, counted(ceil_div(p_.k, depth), "step"));
    if (c_.cluster_k > 1)
      line("  {} blocks of a cluster share them out: ceil({} / {}) = {} each. So many clusters run at once as the SMs of each GPC have room for.", c_.cluster_k, steps, c_.cluster_k, x_.steps);
    multiplied(fmt::format("{} x {} x 2 x {} x {} x {} FLOP", x_.tiles * cluster, ceil_div(p_.k, depth), c_.tile_m, c_.tile_n, depth));
  }

  void multiplied(const std::string& formula) {
    line("  Multiplied with its padding: {} = {} GFLOP, of which {} are asked for (2 M N K).", formula, number(x_.flops_executed / 1e9), percent(x_.flops_executed > 0 ? flop_count(p_) / x_.flops_executed : 1));
  }

  void occupancy() {
    const Occupancy& q = x_.occupancy;
    line("\nOccupancy. A block has {} threads in {} warps, {} registers a thread{}, {} B of shared memory.", x_.launch.threads, q.warps_per_block,
         x_.registers.count, x_.registers.estimated ? " (estimated)" : "", x_.launch.shared_bytes);
    if (const std::string map = shared_map(); !map.empty()) line("  Shared memory: {} = {} B.", map, x_.launch.shared_bytes);
    const int unit = int(round_up(i64(x_.registers.count) * 32, i64(machine_.register_unit)));
    line("  Blocks an SM by registers, 32 x {} a warp rounded up to a multiple of {}, by schedulers: floor(floor({} / {} / {}) x {} / {}) = {}.", x_.registers.count, cite("sm.register_unit"), cite("sm.registers"), cite("sm.schedulers"), unit,
         machine_.schedulers, q.warps_per_block, q.by_registers);
    const i64 shared = round_up(i64(x_.launch.shared_bytes) + i64(machine_.shared_reserved), 128);
    line("  By shared memory, with {} reserved and rounded up to a multiple of 128: floor({} / {}) = {}. By warps: floor({} / {}) = {}. By blocks: {}.", cite("sm.shared_reserved"), cite("sm.shared_bytes"), shared, q.by_shared_memory,
         cite("sm.warps"), q.warps_per_block, q.by_warps, cite("sm.blocks"));
    std::string limits;
    for (const auto& [blocks, limiter] : {std::pair{q.by_registers, Limiter::registers}, std::pair{q.by_shared_memory, Limiter::shared_memory},
                                          std::pair{q.by_warps, Limiter::warps}, std::pair{q.by_blocks, Limiter::blocks}})
      if (blocks == q.blocks_per_sm) limits += (limits.empty() ? "" : " and ") + std::string(name_of(limiter));
    line("  So {} an SM, limited by {}. Of the warps an SM can hold: {} x {} / {} = {}.", counted(q.blocks_per_sm, "block"), limits, q.blocks_per_sm, q.warps_per_block, cite("sm.warps"), percent(q.warps_fraction));
  }

  // Where a block's shared memory goes, by the map in the facts of its family.
  std::string shared_map() const {
    if (c_.family == Family::sm90)
      return fmt::format("stages of A and B, D on its way out, barriers: {} x ({} + {}) x {} B + {} x {} x {} B + {} B", c_.stages, c_.tile_m, c_.tile_n, sm90::slabs(o_, c_) * sm90::kTileRowBytes, sm90::consumer_warpgroups(c_), c_.store_buffers,
                         sm90::d_chunk_bytes(o_, c_), sm90::barrier_bytes(c_));
    if (c_.family == Family::decode)
      return fmt::format("stages of weights and tokens, partial sums of the other blocks, D on its way out, barriers: {} x ({} + {}) x {} x 2 B + {} B + {} B + {} B", c_.stages, c_.tile_n, c_.tile_m, c_.tile_k, decode::exchange_bytes(o_, c_),
                         decode::staged_bytes(o_, c_), decode::barrier_bytes(c_));
    if (c_.family == Family::ffma) {
      const std::string stages = fmt::format("{} x {} x ({} + {}) x 4 B", ffma::kStages, c_.tile_k, ffma::a_pitch(c_), ffma::b_pitch(c_)), sums = fmt::format("{} x {} x {} x 4 B", ffma::parts(c_), c_.tile_m, ffma::share_columns(c_));
      return c_.cluster_k > 1                   ? fmt::format("stages of A and B with their pads, sums, a barrier: {} + {} + 8 B", stages, sums)
             : ffma::finishes_shared(o_, c_) ? fmt::format("stages of A and B with their pads, then sums in their place: max({}, {})", stages, sums)
                                                : fmt::format("stages of A and B with their pads: {}", stages);
    }
    return {};
  }

  void traffic() {
    const Traffic& t = x_.traffic;
    const std::string batch = p_.batch > 1 ? fmt::format(" x {}", p_.batch) : "";
    line("\nTraffic, what has to move at least once. A: {} x {} x {} B{} = {}. B: {} x {} x {} B{} = {}. D: {} x {} x {} B{} = {}.{}", p_.m, p_.k, size_of(o_.a), batch, megabytes(t.a_bytes), p_.n, p_.k, size_of(o_.b), batch,
         megabytes(t.b_bytes), p_.m, output_columns(o_, p_.n), size_of(o_.d), batch, megabytes(t.d_bytes), t.extra_bytes > 0 ? fmt::format(" C, bias and residual: {}.", megabytes(t.extra_bytes)) : "");
    const double sharers = sharers_of_a(machine_, c_, x_.concurrent);
    line("  SMs ask L2 for A once a tile column{} and for B once a tile row: {} x {}{} + {} x {} = {}.", sharers > 1 ? " (the blocks of an SM share what its L1 holds)" : "", x_.grid.tiles_n, megabytes(t.a_bytes),
         sharers > 1 ? fmt::format(" / {}", number(sharers)) : "", x_.grid.tiles_m, megabytes(t.b_bytes), megabytes(t.l2_load_bytes));
    const double capacity = machine_.l2_bytes / machine_.l2_copies, once = (t.a_bytes + t.b_bytes) / double(p_.batch);
    line("  One full wave reads {} and {} of tiles: {} of distinct bytes. L2 holds, with its copies of each line, {} B / {} = {}; at that distance min(1, max(0, (1.5 x {} - {}) / (0.8 x {}))) = {} of what was read is found again.",
         counted(i64(t.wave_rows), "row"), counted(i64(t.wave_columns), "column"), megabytes(t.wave_bytes), cite("l2.bytes"), cite("l2.copies"), megabytes(capacity), megabytes(capacity), megabytes(t.wave_bytes), megabytes(capacity),
         percent(l2_survival(t.wave_bytes, capacity)));
    const double resident = l2_survival(once, capacity);
    const i64 bands = ceil_div(i64(x_.grid.tiles_m), i64(x_.grid.group));
    const std::string again = t.band_bytes > 0 && bands > 1 ? fmt::format(": A's once, B's in each of {} bands, but for the {} that L2 still has of them over the {} between two,", bands, percent(l2_survival(t.band_bytes, capacity)), megabytes(t.band_bytes)) : "";
    line("  Wave by wave, rows and columns that are new{} and those of the wave before that are found no longer: {} + {} = {}. Both operands whole ({}) are found again to {}, so DRAM gives min({}, {}max({}, {:.3f} x {} + (1 - {:.3f}) x {})){} = {}: L2 answers {} of what is asked. DRAM takes {} of D.",
         again, megabytes(t.by_waves_bytes - t.again_bytes), megabytes(t.again_bytes), megabytes(t.by_waves_bytes), megabytes(once), percent(resident), megabytes(t.l2_load_bytes), p_.batch > 1 ? fmt::format("{} x ", p_.batch) : "", megabytes(once), resident, megabytes(once), resident,
         megabytes(t.by_waves_bytes), t.extra_bytes > 0 ? fmt::format(" + {}", megabytes(t.extra_bytes)) : "", megabytes(t.dram_load_bytes), percent(t.l2_hit_rate), megabytes(t.dram_store_bytes));
    line("  DRAM time{}: {} / ({} B/s x {}){} = {}.", x_.missed_again > 0 ? ", with what clusters that want the same weights miss once more, every second of two, of many all but one" : "", megabytes(t.dram_bytes()), cite("dram.bandwidth"),
         c_.family == Family::decode ? cite_decode("dram_efficiency") : c_.family == Family::rows ? number(kRowsDramEfficiency) : cite("dram.efficiency"), x_.missed_again > 0 ? fmt::format(" x (1 + {} x (1 - 2 ^ (1 - {})))", cite_decode("missed_again"), x_.grid.tiles_m) : "", microseconds(x_.dram_seconds));
    if (c_.family == Family::rows) {
      line("  L2's time, at its own clock: {} / ({} B/clk x {} MHz) = {}.", megabytes(x_.l2_requested), cite("l2.bytes_per_clock"), cite("clock.boost"), microseconds(x_.l2_seconds));
    } else if (c_.family == Family::sm90) {
      line("  L2's time, neighbours' requests for a line answered together, at its own clock: {} / {} / ({} B/clk x {} MHz x {}) = {}.", megabytes(t.l2_load_bytes), cite("l2.coalescing"), cite("l2.bytes_per_clock"), cite("clock.boost"),
           cite("sm90.l2_efficiency"), microseconds(x_.l2_seconds));
    } else if (c_.family == Family::decode) {
      const bool together = x_.side_by_side;
      line("  L2's time{}, at its own clock: ({} x {} + {} x {}{}{}) / ({} B/clk x {} MHz x {}){} = {}.", together ? ", neighbours' requests for a line of A answered together" : "", x_.grid.tiles_m, megabytes(t.b_bytes), x_.grid.tiles_n,
           megabytes(t.a_bytes), together ? " / " + cite("l2.coalescing") : "", x_.empty_lines > 0 ? fmt::format(" + {} x {} x {} x {} x {} B x {}", x_.tiles, c_.split_k, x_.steps, number(x_.empty_lines), cite_decode("empty_line_bytes"), number(x_.empty_share)) : "",
           cite("l2.bytes_per_clock"), cite("clock.boost"), cite_decode("l2_efficiency"), x_.crowded > 1 ? fmt::format(" x ({} / {}) ^ {}", x_.sms, x_.concurrent * c_.split_k, cite_decode("crowding")) : "", microseconds(x_.l2_seconds));
      if (x_.empty_lines > 0)
        line("  For of a stage's box of A {} lines lie beyond its last row, {} x ({} - {} / {}): they are filled with zeros, but slowly, and the faster the more slabs are under way: ({} / ({} x {} x {})) ^ {} = {}.", number(x_.empty_lines), decode::slabs(o_, c_), decode::token_box_rows(c_), p_.m, x_.grid.tiles_m,
             number(kSlabsUnderWay), x_.concurrent * c_.split_k, decode::stages_in_flight(c_), decode::slabs(o_, c_), cite_decode("empty_line_power"), number(x_.empty_share));
      if (x_.crowded > 1) line("  The kernels of such a chain start where the one before left room, so that some GPCs fill up while others have SMs to spare: hence the power of SMs over blocks.");
    }
  }

  std::string tensor_key() const { return fmt::format("sm.tensor_{}", name_of(o_.a)); }
  std::string longer_of_l2(const std::string& bytes, double clocks) {
    return fmt::format("max({} / {} B/clk, {} x {} / ({} B/clk x {})) = {}", bytes, cite("l2.port_bytes_per_clock"), bytes, x_.busy_sms, cite("l2.bytes_per_clock"), cite("l2.coalescing"), number(clocks));
  }

  void sm90_step() {
    const auto slabs = sm90::slabs(o_, c_);
    const double rows = std::min<double>(c_.tile_m, double(p_.m)) / c_.cluster_n, columns = std::min<double>(c_.tile_n, double(p_.n)) / c_.cluster_m;
    const bool cluster = c_.cluster_m * c_.cluster_n > 1;
    line("\nOne step of {} along K on one SM, in SM clocks.", c_.tile_k);
    line("  Tensor cores: 2 x {} x {} x {} FLOP / ({} x {}) = {}.", c_.tile_m, c_.tile_n, c_.tile_k, cite(tensor_key().c_str()),
         cite("sm90.mma_efficiency"), number(x_.step_math));
    line("  Shared memory: each of {} of 64 rows reads 64 + {} lines of {} B, TMA writes {} + {} beside them; the longer: max({} x (64 + {}), {} + {}) x {} B / {} B/clk = {}.", counted(c_.tile_m / 64, "band"), c_.tile_n,
         128 * slabs, sm90::a_box_rows(c_, p_.m) * c_.cluster_n, c_.tile_n, c_.tile_m / 64, c_.tile_n, sm90::a_box_rows(c_, p_.m) * c_.cluster_n, c_.tile_n, 128 * slabs, cite("sm.shared_bytes_per_clock"), number(x_.step_shared));
    line("  L2, by the SM's port{}: ({} + {}) x {} B / {} B/clk = {}.", cluster ? " (the shared tile comes once, by multicast)" : "", number(rows), number(columns), c_.tile_k * size_of(o_.a), cite("l2.port_bytes_per_clock"), number(x_.step_l2));
    line("  Latency, of a load under load, covered by all stages but one: ({} + {}) x {} / {} = {}.", cite("latency.dram"), cite("latency.tma"), cite("latency.load"), c_.stages - 1, number(x_.step_latency));
    line("  Barriers and issue, with {} of 128 B: {} + {} x {} = {}.", counted(slabs, "slab"), cite("sm90.step_clocks"), slabs, cite("sm90.slab_clocks"), number(x_.step_issue));
    line("  Together{}: norm({}, {}, {}, {}, {}){} = {}. norm() is {}.", cluster ? ", and to meet in the cluster" : "", number(x_.step_math), number(x_.step_shared), number(x_.step_l2), number(x_.step_latency), number(x_.step_issue),
         cluster ? fmt::format(" + {}", cite("sm90.cluster_step_clocks")) : "", number(x_.step), kNorm);
  }

  // Of the constants for plain or for dependent launch.
  std::string cite_decode(const char* name) { return cite(fmt::format("{}.{}", conditions_.dependent ? "decode_dependent" : "decode", name).c_str()); }
  const decltype(Machine::decode)& decode_constants() const { return conditions_.dependent ? machine_.decode_dependent : machine_.decode; }

  void decode_work() {
    line("\nWork. Tiles of {} rows by {} columns{}: ceil({} / {}) x ceil({} / {}){} = {}.", c_.tile_m, x_.tile_columns,
         x_.tile_columns < c_.tile_n ? fmt::format(" (of {} that fit: with so many the busiest SM reads the fewest rows of B)", c_.tile_n) : "", p_.m, c_.tile_m, p_.n, x_.tile_columns,
         p_.batch > 1 ? fmt::format(" x {}", p_.batch) : "", x_.tiles);
    if (c_.split_k > 1)
      line("  A cluster of {} blocks takes a tile, each a slice of K. {} clusters run at once on {} SMs, in {}.", c_.split_k, x_.concurrent, machine_.sms, counted(x_.rounds, "wave"));
    else
      line("  {} run at once, {}{} an SM on {} of {} SMs; the busiest walks {}.", counted(x_.concurrent, "block"), x_.concurrent < i64(x_.blocks_on_sm) * x_.busy_sms ? "up to " : "", x_.blocks_on_sm, x_.busy_sms, machine_.sms, counted(x_.rounds, "tile"));
    line("  The steps of {} that a block takes along K: ceil(ceil({} / {}) / {}) x {} = {}.", c_.tile_k, p_.k, decode::kSliceUnit, c_.split_k, decode::kSliceUnit / c_.tile_k, x_.steps);
    multiplied(fmt::format("{} x {} x {} x 2 x {} x {} x {} FLOP", x_.tiles, c_.split_k, x_.steps, c_.tile_m, c_.tile_n, c_.tile_k));
  }

  void decode_step() {
    line("\nOne step of {} along K of the {} on one SM, in SM clocks{}.", c_.tile_k, counted(x_.blocks_on_sm, "block"),
         conditions_.dependent ? " (a chain of dependent launches, weights ready)" : "");
    const std::string lines = fmt::format("{} x ({} + {} / {})", decode::slabs(o_, c_), x_.tile_columns, p_.m, x_.grid.tiles_m), port = fmt::format("{} B / {} B/clk", decode::kTileRowBytes, cite("l2.port_bytes_per_clock"));
    line("  L2, a block's lines of {} B by the SM's port: {} x {} x {} = {}.", decode::kTileRowBytes, x_.blocks_on_sm, lines, port, number(x_.step_l2));
    line("  Latency, of a stage from its load to its release and of its lines, over the stages under way: ({} + {} x {}) / {} = {}.", cite_decode("latency_clocks"), lines, port, decode::stages_in_flight(c_), number(x_.step_latency));
    line("  Tensor cores: {} x 2 x {} x {} x {} FLOP / {} = {}.", x_.blocks_on_sm, c_.tile_m, c_.tile_n, c_.tile_k, cite(tensor_key().c_str()), number(x_.step_math));
    line("  A warpgroup alone, {} of its multiplies one after the other: {} x {} x {} / {} = {}.", counted(decode::bands_per_warpgroup(c_), "band"), cite_decode("step_clocks"), decode::bands_per_warpgroup(c_), c_.tile_k, decode::kSliceUnit, number(x_.step_issue));
    line("  Shared memory: {} x ({} + {} x {}) x {} x {} B / {} B/clk = {}.", x_.blocks_on_sm, c_.tile_n, decode::bands(c_), c_.tile_m, c_.tile_k, size_of(o_.a), cite("sm.shared_bytes_per_clock"), number(x_.step_shared));
    step_together();
  }

  void decode_epilogue() {
    const bool operands = o_.has_c || o_.has_bias || o_.has_residual;
    const double rounds = x_.epilogue_issue / decode_constants().round_clocks;
    line("\nThe way out, in SM clocks: {}{} of as many rows as the threads finish at once: {}{} x {} = {}.", operands ? "the epilogue's operands, and " : "", counted(number(rounds), "round"),
         operands ? fmt::format("{} + ", cite("latency.dram")) : "", cite_decode("round_clocks"), number(rounds), number(x_.epilogue));
    if (c_.split_k > 1)
      line("  Partial sums to their owners, by the KiB that a block sends: {} + {} x min({}, {}) x {} x 4 x ({} - 1) / {} / 1024 = {}.", cite_decode("exchange_clocks"), cite_decode("exchange_clocks_per_kib"), p_.m, c_.tile_m, c_.tile_n,
           c_.split_k, c_.split_k, number(x_.exchange));
  }

  void decode_together() {
    const std::string clock = number(x_.clock / 1e6), p = number(x_.power), of_memory = number(x_.memory_power), busiest = microseconds(decode_busiest(x_) / x_.clock);
    const i64 between = x_.rounds / x_.waves - 1;
    line("\nTogether. The busiest SM over all steps{}{}: ({}) / {} MHz = {}.", x_.rounds > 1 ? " of all tiles of a block" : "", between ? ", with the barriers and the epilogue between two" : "", busiest_clocks(), clock, busiest);
    std::string waves;
    if (x_.waves > 1)
      waves = x_.uneven ? fmt::format(" + {} s + {} x {} s", cite_decode("uneven_waves"), x_.waves - 1, cite_decode("uneven_wave")) : fmt::format(" x {} + {} x {} s", x_.waves, x_.waves - 1, cite_decode("wave"));
    const std::string behind = x_.behind_seconds > 0 ? fmt::format(" + {} x {}", cite_decode("run_ahead"), microseconds(x_.held_seconds)) : "";
    line("  DRAM and L2 overlap, the sum of their powers of {} to the power of 1/{}, and both with the busiest SM, with {} in its place; before it {}, after it the way out{}{}: {} s + (({} ^ {} + {} ^ {}) ^ ({} / {}) + {} ^ {}) ^ (1 / {}) + {} clk / {} MHz{}{} = {}.",
         cite_decode("memory_power"), of_memory, cite_decode("power"),
         x_.early ? "what is left of the launch, since a block asks for all of its weights, and has room on an SM, while the kernel before still runs" : "the launch",
         x_.waves == 1 ? "" : x_.uneven ? fmt::format(", and {} of clusters, some SMs holding two blocks and some one, so that other clusters stream while one starts", counted(x_.waves - 1, "further wave"))
                                        : fmt::format(" of each wave of clusters, and {} start", x_.waves == 2 ? "another" : fmt::format("{} more", x_.waves - 1)),
         x_.behind_seconds > 0 ? "; SMs that L2 is near to end earlier than others by a part of the time that DRAM takes for what rings hold" : "",
         cite_decode("launch") + (x_.early ? " x " + cite_decode("early_launch") : ""), microseconds(x_.dram_seconds), of_memory, microseconds(x_.l2_seconds), of_memory, p, of_memory, busiest, p, p, number(x_.epilogue + x_.exchange), clock, waves, behind, microseconds(x_.forecast.seconds));
  }

  // Of the busiest block, without its way out.
  std::string busiest_clocks() {
    std::string sum = fmt::format("{} x {} x {}", x_.rounds, x_.steps, number(x_.step));
    if (x_.paired > 1) sum += " x " + cite_decode("paired");
    if (const i64 between = x_.rounds / x_.waves - 1) sum += fmt::format(" + {} x ({} + {})", between, cite_decode("tile_clocks"), number(x_.epilogue_issue));
    return sum;
  }

  // What a step takes of each unit, all in one.
  void step_together() {
    line("  Together: norm({}, {}, {}, {}, {}) = {}. norm() is {}.", number(x_.step_math), number(x_.step_shared), number(x_.step_issue), number(x_.step_l2), number(x_.step_latency), number(x_.step), kNorm);
  }
  // Bytes that one block's step asks of L2.
  std::string step_bytes() const { return fmt::format("{} x (min({}, {}) x {} + min({}, {}) x {}) x {} B", x_.blocks_on_sm, c_.tile_m, p_.m, size_of(o_.a), c_.tile_n, p_.n, size_of(o_.b), c_.tile_k); }

  void ffma_step() {
    const FfmaWarp w = ffma_warp(machine_, o_, c_);
    const int warps = ffma::warps(c_), each = int(ceil_div(i64(x_.blocks_on_sm) * warps, i64(machine_.schedulers)));
    line("\nOne step of {} along K of the {} on one SM, in SM clocks. Each of {} schedulers has {}.", c_.tile_k, counted(x_.blocks_on_sm, "block"), cite("sm.schedulers"), counted(each, "warp"));
    line("  FP32 cores, {} a thread: {} x {} x {} x {} / {} = {}.", counted(i64(w.multiplies), "multiply-add"), each, number(w.multiplies), 64, machine_.schedulers, cite("sm.fp32_rate"), number(x_.step_math));
    line("  A warp's multiply-add, by the banks of the register file or by the lanes: max({:.3f}, 64 x {} / {}) = {:.3f}.", ffma::register_clocks(c_), machine_.schedulers, cite("sm.fp32_rate"), w.multiply_clocks);
    const std::string of_all = each > 1    ? fmt::format("Of all: {} x {}", each, number(w.clocks))
                               : w.kept ? fmt::format("Nobody hides from a warp alone a step's barriers and its first load: {} + {} + {}", number(w.clocks), cite("simt.step_clocks"), cite("latency.shared"))
                                        : fmt::format("They are more than the {} instructions that an SM partition keeps, so a warp alone gets one every {} clocks: {} x {}", kKeptInstructions, kFetchedClocks, kFetchedClocks, number(w.clocks));
    line("  Issue and registers: of a warp its multiply-adds, {} clk each, {} from and {} to shared memory, {} from global memory with its addresses, and the loop: {} x {} + {} + {} + {} x {} + {} = {}. {} = {}.",
         fmt::format("{:.3f}", w.multiply_clocks), counted(number(w.loads), "load"), counted(number(w.stores), "store"), counted(number(w.units), "load"), number(w.multiplies), fmt::format("{:.3f}", w.multiply_clocks), number(w.loads), number(w.stores),
         number(w.units), number(w.unit_clocks), number(w.loop_clocks), number(w.clocks), of_all, number(x_.step_issue));
    line("  Shared memory and L1, of a warp two wavefronts a load from shared memory; four and a line for each of {} rows, of what a load from global memory brings: {} x {} x ({} x 2 + {} x (4 + {})) x 32 / {} = {}.", number(w.lines / w.units), x_.blocks_on_sm, warps,
         number(w.loads), number(w.units), number(w.lines / w.units), cite("sm.lsu_lanes"), number(x_.step_shared));
    line("  L2, by the SM's port or by all {} busy SMs together: {}.", x_.busy_sms, longer_of_l2(step_bytes(), x_.step_l2));
    std::string wait = fmt::format("{} x {}", cite("latency.dram"), fp32_latency_load(c_));
    if (x_.warm > 0) wait = fmt::format("{} x {} x {} + (1 - {}) x {}", number(x_.warm), cite("latency.l2"), kBusyL2, number(x_.warm), wait);
    line("  What a step asks for must have come when the next one ends, with half a step's barriers: {} + {} / 2 = {}.", wait, cite("simt.step_clocks"), number(x_.step_latency));
    step_together();
  }

  void gemv_step() {
    const int warps = c_.split_k, sums = c_.tile_m * c_.tile_n, loads = c_.tile_m + c_.tile_n;
    const std::string multiply = fmt::format("4 x {} x 64 x {} / {}", sums, machine_.schedulers, cite("sm.fp32_rate"));
    line("\nOne step of {} along K of the {} on one SM, in SM clocks.", gemv::kStep * warps, counted(x_.blocks_on_sm, "block"));
    line("  FP32 cores: {} x {} x {} / {} = {}.", x_.blocks_on_sm, warps, multiply, cite("sm.schedulers"), number(x_.step_math));
    line("  Instructions, of a lane its multiply-adds, {} of 16 bytes with their addresses, and the loop: {} x {} x ({} + {} x {} + {}) / {} = {}.", counted(i64(loads), "load"), x_.blocks_on_sm, warps, multiply, loads, number(1 + kAddressInstructions),
         number(kGemvLoopInstructions), cite("sm.schedulers"), number(x_.step_issue));
    line("  L1, those loads: {} x {} x {} x 4 x 32 / {} = {}.", x_.blocks_on_sm, warps, loads, cite("sm.lsu_lanes"), number(x_.step_shared));
    line("  L2, by the SM's port or, B alone, by all {} busy SMs together: {} x max({} x 4 B x {} / {} B/clk, {} x 4 B x {} x {} / ({} B/clk x {})) = {}.", x_.busy_sms, x_.blocks_on_sm, loads, gemv::kStep * warps, cite("l2.port_bytes_per_clock"), c_.tile_n,
         gemv::kStep * warps, x_.busy_sms, cite("l2.bytes_per_clock"), cite("l2.coalescing"), number(x_.step_l2));
    line("  One load under load, the multiply, and rows of A one after the other: {} x {} + 4 x {} + ({} - 1) x {} = {}.", cite("latency.dram"), cite("latency.load"), sums, c_.tile_m, number(kGemvRowClocks), number(x_.step_latency));
    step_together();
  }

  void rows_step() {
    const RowsWarp w = rows_warp(machine_, c_);
    const int warps = x_.blocks_on_sm * rows::consumer_warps(c_);
    line("\nOne step of {} along K of the {} on one SM, in SM clocks; {} multiply.", c_.tile_k, counted(x_.blocks_on_sm, "block"), counted(i64(warps), "warp"));
    line("  FP32 cores, {} a thread: {} x {} x 64 / {} = {}.", counted(i64(w.multiplies), "multiply-add"), warps, number(w.multiplies), cite("sm.fp32_rate"), number(x_.step_math));
    line("  Issue and registers: of a warp its multiply-adds, {:.3f} clk of the register file each, {} of A and {} of B from shared memory, and the loop: {} x {:.3f} + ({} + {}) x {} + {} = {}. Of all: {} x {} / {} = {}.", w.multiply_clocks,
         counted(number(w.row_loads), "load"), counted(number(w.column_loads), "load"), number(w.multiplies), w.multiply_clocks, number(w.row_loads), number(w.column_loads), number(kRowsLoadClocks), number(kRowsStepInstructions), number(w.clocks), warps, number(w.clocks),
         cite("sm.schedulers"), number(x_.step_issue));
    line("  Shared memory, wavefronts of a warp, and what is written: {} x {} x 32 / {} + {} x ({} + {}) x {} x 4 B / {} B/clk = {}.", warps, number(w.wavefronts), cite("sm.lsu_lanes"), x_.blocks_on_sm, x_.tile_columns, c_.tile_m, c_.tile_k,
         cite("sm.shared_bytes_per_clock"), number(x_.step_shared));
    line("  L2, by the SM's port: {} x ({} + {} / {}) x {} x 4 B / {} B/clk = {}.", x_.blocks_on_sm, x_.tile_columns, p_.m, x_.grid.tiles_m, c_.tile_k, cite("l2.port_bytes_per_clock"), number(x_.step_l2));
    line("  Latency, of a stage from its load to its release, over the stages: {} / {} = {}.", number(kRowsLatencyClocks), c_.stages, number(x_.step_latency));
    step_together();
  }

  void rows_epilogue() {
    const bool operands = o_.has_c || o_.has_bias || o_.has_residual;
    const int blocks = x_.blocks_on_sm, values = c_.tile_m * c_.tile_n;
    line("\nThe way out of one tile{}, in SM clocks.", blocks > 1 ? " of each block of an SM" : "");
    line("  Instructions{}: {} x {} / 32 / {} x {} / {} = {}.", c_.cluster_k > 1 ? ", of a block's share of its cluster's tile" : "", blocks, values, c_.cluster_k, number(epilogue_instructions(o_)), cite("sm.schedulers"), number(x_.epilogue_issue));
    line("  Sums of every group of warps, to shared memory and back: 2 x {} x {} / 32 x {} x {} = {}.", blocks, values, c_.split_k, number(kRowsSumClocks), number(x_.epilogue_shared));
    line("  Barriers, and the multiplies' start behind them{}: {}{} = {}.", operands ? "; operands" : "", number(kRowsTileClocks), operands ? " + " + cite("latency.dram") : "", number(x_.epilogue_fixed));
    line("  Together: norm({}, {}) + {} = {}.", number(x_.epilogue_issue), number(x_.epilogue_shared), number(x_.epilogue_fixed), number(x_.epilogue));
    if (c_.cluster_k > 1) line("  A cluster meets and exchanges its sums: {}.", number(kRowsClusterClocks));
  }

  void rows_together() {
    const double busiest = rows_busiest(x_) / x_.clock;
    const std::string clock = number(x_.clock / 1e6), p = number(kRowsPower), steps = fmt::format("{} x {} x {}", x_.rounds, x_.steps, number(x_.step));
    const bool more = x_.rounds > 1;
    line("\nTogether. The busiest SM over all steps{}: {} clk / {} MHz = {}.", more ? ", and the way out of all tiles but the last" : "", more ? fmt::format("({} + ({} - 1) x {})", steps, x_.rounds, number(x_.epilogue)) : steps, clock,
         microseconds(busiest));
    line("  With DRAM and L2 it overlaps: the sum of their powers of {} to the power of 1/{}; before it the launch, after it the way out{}: {} s + ({} ^ {} + {} ^ {} + {} ^ {}) ^ (1 / {}) + {} clk / {} MHz{} = {}.", p, p,
         x_.waves > 1 ? fmt::format(", and {} of clusters", counted(x_.waves - 1, "further wave")) : "", number(kRowsLaunchSeconds), microseconds(x_.dram_seconds), p, microseconds(x_.l2_seconds), p, microseconds(busiest), p, p,
         number(x_.epilogue + x_.exchange), clock, x_.waves > 1 ? fmt::format(" + {} x {} s", x_.waves - 1, number(kRowsWaveSeconds)) : "", microseconds(x_.forecast.seconds));
  }

  void simt_step() {
    const int threads = simt::threads(c_), warps = threads / 32;
    const i64 of_a = ceil_div(i64(c_.tile_m) * c_.tile_k, i64(threads)), of_b = ceil_div(i64(c_.tile_n) * c_.tile_k, i64(threads)), wide = i64(c_.tile_k) * (c_.thread_m + c_.thread_n) / 4;
    const double deposit = simt_deposit_wavefronts(c_, o_.transpose_a, c_.tile_m, simt::a_pitch(c_)) * double(of_a) + simt_deposit_wavefronts(c_, o_.transpose_b, c_.tile_n, simt::b_pitch(c_)) * double(of_b);
    line("\nOne step of {} along K of the {} on one SM, in SM clocks. A warp loads {} times from global memory, deposits that in shared memory in {} and reads {} of 16 bytes a thread.", c_.tile_k, counted(x_.blocks_on_sm, "block"), of_a + of_b,
         counted(number(deposit), "wavefront"), counted(wide, "piece"));
    line("  FP32 cores: {} x 2 x {} x {} x {} FLOP / ({} x {}) = {}.", x_.blocks_on_sm, c_.tile_m, c_.tile_n, c_.tile_k, cite("sm.fp32_rate"), cite("simt.efficiency"), number(x_.step_math));
    line("  Shared memory and L1: {} x {} x ({} x 4 + {} + {}) x 32 / {} = {}.", x_.blocks_on_sm, warps, wide, number(deposit), of_a + of_b, cite("sm.lsu_lanes"), number(x_.step_shared));
    line("  Instructions: {} x {} x ({} x {} x {} + {} + {} x ({} + 2)) / {} / {} = {}.", x_.blocks_on_sm, warps, c_.thread_m, c_.thread_n, c_.tile_k, wide, of_a + of_b, cite("simt.load_instructions"), cite("sm.schedulers"), cite("simt.issue_efficiency"),
         number(x_.step_issue));
    line("  L2, by the SM's port or by all {} busy SMs together: {}.", x_.busy_sms, longer_of_l2(step_bytes(), x_.step_l2));
    const double share = simt_new_lines(o_, c_);
    const std::string latency = share == 1 ? cite("latency.dram") : fmt::format("({} x {} + (1 - {}) x {})", number(share), cite("latency.dram"), number(share), cite("latency.l2"));
    if (share < 1) line("  Of what a step takes of a row {} comes from DRAM, where the {} B of a fetch begin; the rest is in L2.", percent(share), number(kDramFetch));
    const i64 each = ceil_div(i64(warps), i64(machine_.schedulers));
    line("  One block alone, its barriers; the loads of its warps with their addresses, {}; the longest of a load under load, {} and its reads of shared memory; its deposit and a read of shared memory: {} + {} x {} x max({}, {}) + max({} x {}, {} x ({} x {} x {} + {}) / {}, {} x {} x 4 x 32 / {}) + {} x {} x 32 / {} + {} = {}.",
         each > 1 ? fmt::format("{} warps of a scheduler in turn", each) : "of a warp alone an instruction every other clock", each > 1 ? "those warps' multiply" : "the warp's multiply", cite("simt.step_clocks"), of_a + of_b, cite("simt.load_instructions"), each, kChainClocks, latency,
         cite("latency.load"), each, c_.thread_m, c_.thread_n, c_.tile_k, wide, cite("simt.issue_efficiency"), warps, wide, cite("sm.lsu_lanes"), warps, number(deposit), cite("sm.lsu_lanes"), cite("latency.shared"), number(x_.step_latency));
    step_together();
  }

  // By which unit the epilogue of one tile takes how long.
  void epilogue() {
    const bool sm90 = c_.family == Family::sm90, tma = sm90 && sm90::stores_by_tma(o_);
    const double instructions = epilogue_instructions(o_);
    const int outputs = sm90 ? sm90::tile_outputs(o_, c_) : c_.tile_n;
    const std::string d = fmt::format("min({}, {}) x min({}, {}) x {} B", c_.tile_m, p_.m, outputs, output_columns(o_, p_.n), size_of(o_.d)), schedulers = cite("sm.schedulers");
    const int blocks = x_.blocks_on_sm, values = c_.tile_m * c_.tile_n;
    line("\nEpilogue of one tile{}, in SM clocks.", sm90 || blocks == 1 ? "" : " of each block of an SM");
    if (sm90) {
      const int warps = 4 * (c_.schedule == Schedule::pingpong ? 1 : sm90::consumer_warpgroups(c_)), each = sm90::accumulators_per_thread(c_) / sm90::tile_halves(o_);
      line("  Instructions: {} x {} x {} / {} = {}.", each, number(instructions), warps, schedulers, number(x_.epilogue_issue));
      if (tma) {
        line("  Shared memory, in and out: 2 x {} x {} x {} B / {} B/clk = {}.", c_.tile_m, outputs, size_of(o_.d), cite("sm.shared_bytes_per_clock"), number(x_.epilogue_shared));
        line("  Stores, of the SM or of all: max({} / {} B/clk, {} x {} / {} B/clk) = {}.", d, cite("sm90.store_bytes_per_clock"), d, x_.busy_sms, cite("l2.bytes_per_clock"), number(x_.epilogue_store));
        line("  Fixed, for {} of D of 64 rows by {} columns: {} x {} = {}.", counted(sm90::bands_per_warpgroup(c_) * sm90::d_chunks_per_band(o_, c_), "chunk"), sm90::d_chunk_columns(o_, c_), sm90::bands_per_warpgroup(c_) * sm90::d_chunks_per_band(o_, c_), cite("sm90.chunk_clocks"), number(x_.epilogue_fixed));
      } else {
        line("  Threads write D, because {}: {} x {} x {} = {}.", why_threads_store(o_), each, warps, cite("sm90.direct_store_clocks"), number(x_.epilogue_store));
        if (x_.epilogue_fixed > 0) line("  Its operands: {} x {} = {}.", sm90::bands_per_warpgroup(c_), cite("sm90.operand_clocks"), number(x_.epilogue_fixed));
      }
    } else if (c_.family == Family::simt) {
      line("  Instructions: {} x {} x {} x ({} + 6) x {} / {} = {}.", blocks, c_.thread_m, c_.thread_n, number(instructions), simt::threads(c_) / 32, schedulers, number(x_.epilogue_issue));
      line("  Stores, a sector each or by all SMs: {} x max({} x {} x {} x 4, {} x {} / {} B/clk) = {}.", blocks, c_.thread_m, c_.thread_n, simt::threads(c_) / 32, d, x_.busy_sms, cite("l2.bytes_per_clock"), number(x_.epilogue_store));
    } else if (c_.family == Family::ffma) {
      const std::string share = c_.cluster_k > 1 ? fmt::format(" / {}", c_.cluster_k) : "";
      line("  Instructions{}: {} x {} / 32{} x ({} + {}) / {} = {}.", c_.cluster_k > 1 ? ", of a block's share of its cluster's tile" : "", blocks, values, share, number(instructions), number(kFfmaStoreInstructions), schedulers, number(x_.epilogue_issue));
      if (x_.epilogue_shared > 0) line("  Sums through shared memory, of each group of warps: {} x {} / 32 x {} x {} = {}.", blocks, values, number(kSumClocks), c_.split_k, number(x_.epilogue_shared));
      line("  Stores, of the SM or of all at the end of a round, by DRAM: {} x max({} / 32 x 2, {} x {} x {} MHz / ({} B/s x {})){} = {}.", blocks, values, d, x_.busy_sms, cite("clock.boost"), cite("dram.bandwidth"), cite("dram.efficiency"), share, number(x_.epilogue_store));
    } else {
      line("  Instructions: {} x {} x (2 x {} + 12 + {}) / {} = {}.", blocks, values, c_.split_k, number(instructions), schedulers, number(x_.epilogue_issue));
      line("  Sums over warps and lanes, through shared memory: {} x {} x (2 x {} + 5) = {}.", blocks, values, c_.split_k, number(x_.epilogue_shared));
    }
    if (!sm90 && x_.epilogue_fixed > 0) {
      const bool barriers = (c_.family == Family::ffma && ffma::finishes_shared(o_, c_)) || c_.family == Family::gemv, operands = o_.has_c || o_.has_residual;
      line("  Fixed, for {}: {}{}{} = {}.", barriers ? operands ? "barriers and operands" : "barriers" : "operands", barriers ? cite("simt.step_clocks") : "", barriers && operands ? " + " : "", operands ? cite("latency.dram") : "", number(x_.epilogue_fixed));
    }
    if (c_.family == Family::ffma) line("  Together: norm({}, {}) + {} + {} = {}.", number(x_.epilogue_issue), number(x_.epilogue_store), number(x_.epilogue_shared), number(x_.epilogue_fixed), number(x_.epilogue));
    else line("  Together: norm({}, {}, {}) + {} = {}.", number(x_.epilogue_issue), number(x_.epilogue_shared), number(x_.epilogue_store), number(x_.epilogue_fixed), number(x_.epilogue));
    shown();
  }

  std::string rounds_taken() const { return number(x_.rounds_taken); }
  // How much of the epilogue shows, and the busiest block.
  void shown() {
    const std::string whole = number(x_.epilogue), fixed = number(x_.epilogue_fixed);
    std::string tile = c_.family == Family::gemv ? "0" : fmt::format("{}{}", c_.family == Family::ffma ? "2 x " : "", cite("latency.dram")), start = c_.family == Family::gemv ? "" : ", the first loads of a tile";
    double each = x_.epilogue_exposed;  // in each tile's time below
    if (x_.exchange > 0) tile += " + " + number(x_.exchange), start += ", a cluster's start, its meeting and its slowest block";
    if (c_.family == Family::sm90) {
      const bool cluster = c_.cluster_m * c_.cluster_n > 1;
      tile = cite("sm90.tile_clocks") + (cluster ? " + " + cite("sm90.cluster_tile_clocks") : ""), start = cluster ? ", a tile's fixed part and its meeting of the cluster" : ", a tile's fixed part";
      const std::string multiply = fmt::format("{} x {} + {}", x_.steps, number(x_.step), tile);
      if (c_.schedule == Schedule::pingpong) {
        each = x_.epilogue_exposed - x_.epilogue / double(x_.rounds);
        line("  Ping-pong: it runs under the other warpgroup's multiply, {} ({}); a pair of tiles takes the longer of two multiplies and of one with its epilogue. A tile shows max(0, ({} - {}) / 2) = {}, the last one all.", number(double(x_.steps) * x_.step + x_.tile_clocks),
             multiply, whole, number(double(x_.steps) * x_.step + x_.tile_clocks), number(each));
      } else {
        const double gain = x_.step - norm(x_.step_math, x_.step_shared, x_.step_issue) - (cluster ? machine_.sm90.cluster_step_clocks : 0);
        line("  It shows but for what the ring gains meanwhile, {} a step with its tiles already there: {} - min({}, {} x min({}, {})) x ({} - 1) / {} = {}.", number(gain), whole, whole, number(gain), c_.stages, x_.steps, x_.rounds, x_.rounds, number(each));
      }
    } else if (c_.family != Family::simt && x_.blocks_on_sm > 1) {
      line("  Half of what is not fixed runs beside another block's multiply, so it shows {} + ({} - {}) / 2 = {}.", fixed, whole, fixed, number(each));
    }
    const bool last = c_.schedule == Schedule::pingpong && c_.family == Family::sm90;
    const std::string round = fmt::format("({} x {} + {} + {})", x_.steps, number(x_.step), tile, number(each));
    if (const Anatomy::LastRound& l = x_.last; l.blocks_on_sm > 0)
      line("  The last round has {} an SM. The same of it: a step takes norm({}, {}, {}, {}, {}) = {}, the round {} x {} + {} + {} = {} clk, which is {} of a full one's: {} / {} = {}.", counted(l.blocks_on_sm, "block"), number(l.math), number(l.shared), number(l.issue), number(l.l2),
           number(l.latency), number(l.step), x_.steps, number(l.step), tile, number(l.epilogue), number(l.clocks), percent(x_.rounds_taken - double(x_.rounds - 1)), number(l.clocks), round, number(x_.rounds_taken - double(x_.rounds - 1)));
    line("  The busiest block, {}{} and what shows of the epilogue{}: {} x {}{} = {} clk.", counted(x_.rounds, "tile"), start, last ? ", and the last one's" : "", rounds_taken(), round, last ? " + " + whole : "", number(x_.core_clocks));
  }

  void clock() {
    const bool tensor = uses_tensor_cores(c_.family), burst = conditions_.regime == Regime::burst;
    if (tensor && conditions_.regime != Regime::fixed_clock) line("\nClock. {} MHz of at most {} x {} MHz, tensor cores at work.", number(x_.clock / 1e6), cite("clock.tensor"), cite("clock.boost"));
    else line("\nClock. {} MHz of at most {} MHz.", number(x_.clock / 1e6), cite("clock.boost"));
    if (conditions_.regime == Regime::fixed_clock || (burst && !tensor)) return;
    const Energy e = energy_of(machine_, o_, p_, conditions_, c_.family, x_);
    const double real = flop_count(p_), padding = std::max(0.0, x_.flops_executed - real), voltage = 1 - machine_.voltage_slope * (1 - x_.clock / (machine_.boost_mhz * 1e6));
    const std::string block = c_.family == Family::decode ? fmt::format("({} + {})", busiest_clocks(), number(x_.epilogue + x_.exchange)) : number(x_.core_clocks);
    line("  Clocks of busy SMs: {} x {} x {} / ({} x {}) = {}.", block, x_.busy_sms, x_.tiles, rounds_taken(), x_.concurrent, number(x_.busy_clocks()));
    const std::string wide = o_.a == DType::tf32 ? fmt::format("{} x ", number(flop_energy_ratio(machine_, o_.a))) : "";  // of a FLOP in tf32
    line("  Energy at boost, of {}{}, L2 and busy SMs: {}{} x {} J + {} x {} J = {} mJ.", tensor ? "products, products of padding" : "multiply-adds (little: none counted)",
         tensor && !wide.empty() ? fmt::format(" (a FLOP in TF32 counts as {} in 16 bits)", number(flop_energy_ratio(machine_, o_.a))) : "",
         tensor ? fmt::format("{} GFLOP x {}{} J + {} GFLOP x {}{} J + ", number(real / 1e9), wide, cite(conditions_.data == Data::zeros ? "power.zero_flop" : "power.flop"), number(padding / 1e9), wide, cite("power.zero_flop")) : std::string(),
         megabytes(x_.traffic.l2_bytes()), cite("power.l2"), number(x_.busy_clocks()), cite("power.clock"), number(e.on_chip * 1e3));
    line("  It goes with the square of the voltage, whose share of boost's is 1 - {} x (1 - {} MHz / {} MHz) = {:.4f}; beside it DRAM: {} x {} J = {} mJ.", cite("power.voltage_slope"), number(x_.clock / 1e6), number(machine_.boost_mhz), voltage,
         megabytes(x_.traffic.dram_bytes()), cite("power.dram"), number(e.off_chip * 1e3));
    line("  Board power, with what idles: {} W + ({} mJ x {:.4f} x {:.4f} + {} mJ) / {} = {} W, limit {} W{}. {}", cite("power.idle"), number(e.on_chip * 1e3), voltage, voltage, number(e.off_chip * 1e3), microseconds(x_.forecast.seconds), number(x_.watts),
         cite("power.limit"), burst ? fmt::format(" x {} in a burst", cite("power.burst")) : "", x_.watts >= 0.995 * machine_.power_limit * (burst ? machine_.burst_power : 1) ? "The limit binds: the clock is where it is just met." : "The limit does not bind.");
  }

  void together() {
    const std::string clock = number(x_.clock / 1e6), block = microseconds(x_.core_seconds), dram = microseconds(x_.dram_seconds), fill = microseconds(x_.fill_seconds);
    line("\nTogether. The start of the kernel and its first load: ({} + {}{}) / {} MHz = {}. The busiest block: {} clk / {} MHz = {}.", cite(c_.family == Family::sm90 ? "sm90.fill_clocks" : "simt.fill_clocks"), cite("latency.dram"),
         c_.family == Family::sm90 ? " + " + cite("latency.tma") : "", clock, fill, number(x_.core_clocks), clock, block);
    std::string saved;
    if (conditions_.dependent && c_.family == Family::sm90) {
      saved += fmt::format(" - {} s", cite("sm90.dependent_saves"));
      line("  In a chain of dependent launches {} s of launch and start lie beside the kernel before.", cite("sm90.dependent_saves"));
    }
    if (c_.family == Family::sm90 && x_.warm > 0) {
      saved += fmt::format(" - {} x {} s", number(x_.warm), cite("sm90.warm_saves"));
      line("  Operands in L2 from the launch before save {} s of the start; {} of them are.", cite("sm90.warm_saves"), percent(x_.warm));
    }
    const std::string ahead = fmt::format("{} s + {}{}", cite("launch.graph"), fill, saved), last = number(1 - x_.full_share), l2 = microseconds(x_.l2_seconds);
    const bool has_l2 = x_.l2_seconds > 0;
    const auto all = [&](const std::string& of_block, const std::string& share) { return fmt::format("{}({}{}, {}{}{})", has_l2 ? "beside" : "norm", block, of_block, dram, share, has_l2 ? fmt::format(", {}{}", l2, share) : ""); };
    const char* units = has_l2 ? "Block, DRAM and L2" : "Block and DRAM";
    const std::string meaning = has_l2 ? fmt::format(" beside() is {}.", kBeside) : "";
    if (x_.full_share < 1 && x_.rounds > 1)
      line("  {} overlap, in the rounds that fill the machine and apart from them in the last one: {} + {} + {} = {}.{}", units, ahead, all(fmt::format(" x ({} - 1) / {}", x_.rounds, rounds_taken()), fmt::format(" x (1 - {})", last)),
           all(fmt::format(" x (1 - ({} - 1) / {})", x_.rounds, rounds_taken()), fmt::format(" x {}", last)), microseconds(x_.forecast.seconds), meaning);
    else line("  {} overlap: {} + {} = {}.{}", units, ahead, all("", ""), microseconds(x_.forecast.seconds), meaning);
  }

  void help() {
    const auto list = remedies(machine_, o_, c_, p_, conditions_, x_);
    if (list.empty()) line("\nWhat would help. Nothing that is tried here: no other configuration, size or clock gains half a percent.");
    else line("\nWhat would help, by forecast:");
    for (size_t i = 0; i < list.size(); ++i) line("  {}. {}: {}, {} ({}).", i + 1, list[i].what, microseconds(list[i].seconds), comparison(x_.forecast.seconds / list[i].seconds - 1), list[i].because);
  }

  void alternatives() {
    const Choice choice = choose(machine_, o_, p_, conditions_);
    line("\nOther configurations of the catalogue, by forecast:");
    int shown = 0;
    for (const Candidate& other : choice.ranked) {
      if (other.configuration == c_ || ++shown > 3) continue;
      line("  {}: {}, {}, {}, bound by {}.", text_of(other.configuration), microseconds(other.forecast.seconds), comparison(x_.forecast.seconds / other.forecast.seconds - 1), waves(other.forecast.waves), name_of(other.forecast.bound));
    }
    if (!choice.ruled_out.empty()) line("  {} ruled out; the first: {}: {}.", choice.ruled_out.size(), text_of(choice.ruled_out[0].configuration), choice.ruled_out[0].reason);
  }

  void counters() {
    busy();
    line("\nCounters that Nsight Compute would show for one cold launch (= exact, ~ forecast):");
    for (const ExpectedCounter& c : expected_counters(machine_, o_, c_, p_, x_)) verbatim(counter_line(c)), line("      {}", c.how);
  }

  // Each unit's work over what all of it could do in the kernel's time, as Nsight Compute's speed of light shows it.
  void busy() {
    const SpeedOfLight units = speed_of_light(machine_, o_, c_, p_, x_, x_.traffic);
    const std::string kernel = microseconds(units.seconds()), mhz = number(x_.clock / 1e6), sms = cite("sm.count");
    const Forecast& f = x_.forecast;
    line("\nBusy units, over all SMs and the {} of the kernel without its launch, as Nsight Compute's speed of light would show them. One above 60 % is what bounds the kernel.", kernel);
    const std::string share = fmt::format("{} / ({} x {}) x {} / {}", x_.tiles, rounds_taken(), x_.concurrent, x_.busy_sms, sms);
    for (const UnitShare& u : units) {
      const std::string result = percent(u.percent / 100);
      switch (u.unit) {
        case Bound::dram: line("  DRAM: {} / ({} B/s x {}) = {}.", megabytes(x_.traffic.dram_bytes()), cite("dram.bandwidth"), kernel, result); break;
        case Bound::l2: {
          const double share = l2_lookups(machine_, c_, p_, x_.grid, x_.concurrent, x_.traffic).share;
          line("  L2{}: {}{} / ({} B/clk x {} MHz x {}) = {}.", share < 1 ? ", requests that met nobody on their way" : "", megabytes(x_.traffic.l2_load_bytes), share < 1 ? " x " + cite("l2.lookups") : "", cite("l2.bytes_per_clock"), cite("clock.boost"), kernel, result);
          break;
        }
        case Bound::tensor_cores:
          line("  Tensor cores: {} GFLOP / ({}{} x {} x {} MHz x {}) = {}.", number(x_.flops_executed / 1e9), cite(tensor_key().c_str()), c_.family == Family::sm90 ? " x " + cite("sm90.mma_efficiency") : "", sms, mhz, kernel, result);
          break;
        case Bound::fp32_cores: line("  FP32 cores: {} GFLOP / ({} x {} x {} MHz x {}) = {}.", number(x_.flops_executed / 1e9), cite("sm.fp32_rate"), sms, mhz, kernel, result); break;
        case Bound::issue: line("  Issue: {} / {} x {}{} = {}.", microseconds(f.issue), kernel, share, c_.family == Family::simt ? " x " + cite("simt.issue_efficiency") : "", result); break;
        default: line("  Shared memory: {} / {} x {} = {}.", microseconds(f.shared_memory), kernel, share, result); break;
      }
    }
  }

  const Machine& machine_;
  const Operation& o_;
  const Configuration& c_;
  const Problem& p_;
  const Conditions& conditions_;
  const Anatomy x_;
};

}  // namespace

std::string path_text(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p) {
  const char* const cut = o.a == DType::tf32 ? " in TF32 (ten bits of each input count)" : "";
  if (c.family == Family::sm90)
    return sm90::stores_by_tma(o) ? fmt::format("sm90: A and B come by TMA, wgmma multiplies{}, D leaves by TMA.", cut)
                                  : fmt::format("sm90: A and B come by TMA, wgmma multiplies{}; D is written by threads, because {}.", cut, why_threads_store(o));
  if (c.family == Family::decode)
    return fmt::format("decode: weights stream through a ring by TMA, wgmma multiplies{}; D is written by threads.",
                       c.split_k > 1 ? fmt::format(", K is split over {} blocks of a cluster", c.split_k) : "");
  if (c.family == Family::rows)
    return fmt::format("rows: weights stream through a ring by TMA, tokens beside them, FFMA{}; K is shared out over {} of warps{}.", cut, counted(c.split_k, "group"),
                       c.cluster_k > 1 ? fmt::format(" of each of {} blocks of a cluster", c.cluster_k) : "");
  if (c.family == Family::gemv) return fmt::format("gemv: {} of B a block stream past {} of A, K shared out over {}, FFMA{}.", counted(c.tile_n, "row"), counted(c.tile_m, "row"), counted(c.split_k, "warp"), cut);
  if (c.family == Family::ffma)
    return fmt::format("ffma: fp32 through registers into shared memory, {} of {} at a time, FFMA{}.", o.inputs == Alignment::tma ? "four elements" : "one element", o.inputs == Alignment::tma ? "a row" : "unaligned rows", cut);
  const char* reason = nullptr;
  for (const Configuration& fast : catalogue::kConfigurations) {
    if (fast.family == Family::simt || (!uses_tensor_cores(fast.family) && !is_single_width(o.a))) continue;
    reason = why_not_on(machine, o, fast, p);
    if (!reason) return "simt, the portable kernel, by request: a faster family could run this too.";
  }
  return fmt::format("simt, the portable kernel: {}.", reason ? reason : "there is no other");
}

std::string explain_text(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions, size_t columns) {
  return Explanation(machine, o, c, p, conditions, columns).text();
}

}  // namespace foretile
