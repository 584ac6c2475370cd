#include "model/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "model/counters.h"
#include "model/page.h"
#include "model/remedy.h"
#include "model/speed_of_light.h"
#include "model/text.h"

namespace foretile {

namespace {

const char* why_threads_store(const Operation& o) {
  return is_plain(o) ? "its base address or a row of it is not on a multiple of 16 bytes" : "the epilogue has operands or an activation";
}

class Explanation : private Page {
 public:
  Explanation(const Machine& m, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions, size_t columns)
      : Page(m, columns), machine_(m), o_(o), c_(c), p_(p), conditions_(conditions), x_(anatomy(m, o, c, p, conditions)) {}

  std::string text() {
    if (p_.m == 0 || p_.n == 0 || p_.batch == 0)
      return fmt::format("M = {}, N = {}, batch = {}: nothing to compute, nothing is launched.\n", p_.m, p_.n, p_.batch);
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
    } else {
      c_.family == Family::sm90 ? sm90_step() : c_.family == Family::ffma ? ffma_step() : c_.family == Family::gemv ? gemv_step() : simt_step();
      epilogue();
      clock();
      together();
    }
    alternatives();
    counters();
    line("\nHow far to trust it. Held against: {}.{}", machine_.validation,
         x_.registers.estimated ? " Registers are estimated: this operation and configuration are not in the checked-in table." : "");
    constants();
    return Page::text();
  }

 private:
  void headline() {
    const Forecast& f = x_.forecast;
    const char* regime = conditions_.regime == Regime::burst ? "short bursts" : conditions_.regime == Regime::sustained ? "sustained load" : "a fixed clock";
    line("{} on {}: {}, M = {}, N = {}, K = {}{}", text_of(c_), machine_.name, text_of(o_), p_.m, p_.n, p_.k, p_.batch > 1 ? fmt::format(", batch {}", p_.batch) : "");
    line("Forecast {}: {} TFLOP/s, {} GB/s of DRAM, for {} and {} data.", microseconds(f.seconds), number(flop_count(p_) / f.seconds / 1e12),
         number(f.dram_bytes / f.seconds / 1e9), regime, conditions_.data == Data::zeros ? "all-zero" : "random");
    std::vector<std::pair<double, std::string>> parts = {{f.dram, "DRAM"},       {f.l2, "L2"},           {f.shared_memory, "shared memory"},
                                                         {f.compute, needs_hopper(c_.family) ? "tensor cores" : "FP32 cores"},
                                                         {f.issue, "issue and barriers"}, {f.latency, "latency"}, {f.launch, "launch"}};
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string list;
    for (const auto& [seconds, name] : parts) list += fmt::format("{}{} {}", list.empty() ? "" : ", ", name, microseconds(seconds));
    const SpeedOfLight units = speed_of_light(machine_, o_, c_, p_, x_, x_.traffic);
    const UnitShare *first = units.begin(), *second = first + 1;
    if (units.top() != Bound::latency)
      line("Bound by {}: it is busy for {} of the kernel, over all SMs; next comes {} with {}.", name_of(f.bound), percent(first->percent / 100), name_of(second->unit), percent(second->percent / 100));
    else
      line("Bound by {}: no unit is busy for 60 % of the kernel, over all SMs ({} is for {}, {} for {}). The longest part, of the busiest SM: {}, {} of the time.", name_of(f.bound), name_of(first->unit),
           percent(first->percent / 100), name_of(second->unit), percent(second->percent / 100), parts[0].second, percent(parts[0].first / f.seconds));
    line("Parts (they overlap, so they do not add up): {}; of latency, epilogues take {}.", list, microseconds(f.epilogue));
  }

  void work() {
    if (c_.family == Family::decode) return decode_work();
    const bool sm90 = c_.family == Family::sm90;
    const int cluster = c_.cluster_m * c_.cluster_n;
    line("\nWork. Tiles of {} x {}{}: ceil({}/{}) x ceil({}/{}){} = {}.", c_.tile_m * c_.cluster_m, c_.tile_n * c_.cluster_n,
         cluster > 1 ? " a cluster of two blocks" : "", p_.m, c_.tile_m * c_.cluster_m, p_.n, c_.tile_n * c_.cluster_n,
         p_.batch > 1 ? fmt::format(" x {} batches", p_.batch) : "", x_.tiles);
    line("  {} run at once ({}), so {} / {} = {}; the busiest block walks {}, and {} of the tiles come in full rounds.", x_.concurrent,
         sm90 ? fmt::format("one block an SM, {} of {} SMs", x_.busy_sms, machine_.sms) : fmt::format("{} a SM on {} of {} SMs", x_.blocks_on_sm, x_.busy_sms, machine_.sms),
         x_.tiles, x_.concurrent, waves(x_.forecast.waves), counted(x_.rounds, "tile"), percent(x_.full_share));
    line("  They are walked in bands of {}. Each tile takes ceil({}/{}) = {} along K.", counted(x_.grid.group, "tile row"), p_.k, c_.tile_k, counted(x_.steps, "step"));
    line("  Multiplied with its padding: {} GFLOP, of which {} are asked for (2 M N K).", number(x_.flops_executed / 1e9), percent(x_.flops_executed > 0 ? flop_count(p_) / x_.flops_executed : 1));
  }

  void occupancy() {
    const Occupancy& q = x_.occupancy;
    line("\nOccupancy. A block has {} threads = {} warps, {} registers a thread{}, {} B of shared memory.", x_.launch.threads, q.warps_per_block,
         x_.registers.count, x_.registers.estimated ? " (estimated)" : "", x_.launch.shared_bytes);
    const int unit = int(round_up(i64(x_.registers.count) * 32, i64(machine_.register_unit)));
    line("  Blocks an SM by registers: {} / {} schedulers / {} a warp (rounded up to {}), down, x {} schedulers / {} warps = {}.", cite("sm.registers"),
         cite("sm.schedulers"), unit, cite("sm.register_unit"), machine_.schedulers, q.warps_per_block, q.by_registers);
    line("  By shared memory: {} / ({} + {} reserved, rounded up to 128) = {}. By warps: {} / {} = {}. By blocks: {}.", cite("sm.shared_bytes"), x_.launch.shared_bytes,
         cite("sm.shared_reserved"), q.by_shared_memory, cite("sm.warps"), q.warps_per_block, q.by_warps, cite("sm.blocks"));
    std::string limits;
    for (const auto& [blocks, limiter] : {std::pair{q.by_registers, Limiter::registers}, std::pair{q.by_shared_memory, Limiter::shared_memory},
                                          std::pair{q.by_warps, Limiter::warps}, std::pair{q.by_blocks, Limiter::blocks}})
      if (blocks == q.blocks_per_sm) limits += (limits.empty() ? "" : " and ") + std::string(name_of(limiter));
    line("  So {} an SM, limited by {}: {} of the warps an SM can hold.", counted(q.blocks_per_sm, "block"), limits, percent(q.warps_fraction));
  }

  void traffic() {
    const Traffic& t = x_.traffic;
    line("\nTraffic. A {}, B {}, D {}{}: what has to move at least once.", megabytes(t.a_bytes), megabytes(t.b_bytes), megabytes(t.d_bytes),
         t.extra_bytes > 0 ? fmt::format(", C, bias and residual {}", megabytes(t.extra_bytes)) : "");
    const double sharers = sharers_of_a(machine_, c_, x_.concurrent);
    line("  SMs ask L2 for A once a tile column ({} x {}{}) and for B once a tile row ({} x {}): {}.", x_.grid.tiles_n, megabytes(t.a_bytes),
         sharers > 1 ? fmt::format(" / {}: blocks of an SM share what its L1 holds", number(sharers)) : "", x_.grid.tiles_m, megabytes(t.b_bytes), megabytes(t.l2_load_bytes));
    const double once = (t.a_bytes + t.b_bytes) / double(p_.batch);
    line("  One full wave reads {} of distinct bytes. L2 holds {} B, {} copies of each line; at that distance {} of what was read is found again: (1.5 C - distance) / (0.8 C) "
         "with C = bytes / copies, from 0 to 1. Both operands whole ({}): {}.", megabytes(t.wave_bytes), cite("l2.bytes"), cite("l2.copies"), percent(l2_survival(t.wave_bytes, machine_.l2_bytes / machine_.l2_copies)),
         megabytes(once), percent(l2_survival(once, machine_.l2_bytes / machine_.l2_copies)));
    line("  Over all waves DRAM gives {}, so L2 answers {} of what is asked; DRAM takes {} of D.", megabytes(t.dram_load_bytes), percent(t.l2_hit_rate),
         megabytes(t.dram_store_bytes));
    line("  DRAM time: {} / ({} B/s x {}) = {}.", megabytes(t.dram_bytes()), cite("dram.bandwidth"), c_.family == Family::decode ? cite_decode("dram_efficiency") : cite("dram.efficiency"), microseconds(x_.dram_seconds));
  }

  void sm90_step() {
    const auto slabs = sm90::slabs(o_, c_);
    const double rows = std::min<double>(c_.tile_m, double(p_.m)) / c_.cluster_n, columns = std::min<double>(c_.tile_n, double(p_.n)) / c_.cluster_m;
    line("\nOne step of {} along K on one SM, in SM clocks.", c_.tile_k);
    line("  Tensor cores: 2 x {} x {} x {} FLOP / ({} x {}) = {}.", c_.tile_m, c_.tile_n, c_.tile_k, cite(o_.a == DType::fp16 ? "sm.tensor_fp16" : "sm.tensor_bf16"),
         cite("sm90.mma_efficiency"), number(x_.step_math));
    line("  Shared memory: each of {} of 64 rows reads 64 + {} lines of {} B, TMA writes {} + {} beside them; the longer at {} B/clk: {}.", counted(c_.tile_m / 64, "band"), c_.tile_n,
         128 * slabs, sm90::a_box_rows(c_, p_.m) * c_.cluster_n, c_.tile_n, cite("sm.shared_bytes_per_clock"), number(x_.step_shared));
    line("  L2: ({} + {}) x {} B{}; the SM's port gives {} B/clk, all {} SMs share {} x {} B/clk: {}.", number(rows), number(columns), c_.tile_k * size_of(o_.a),
         c_.cluster_m * c_.cluster_n > 1 ? " (the shared tile comes once, by multicast)" : "", cite("l2.port_bytes_per_clock"), x_.busy_sms, cite("l2.bytes_per_clock"),
         cite("l2.coalescing"), number(x_.step_l2));
    line("  Latency: a load takes ({} + {}) x {} under load, covered by {}: {}.", cite("latency.dram"), cite("latency.tma"), cite("latency.load"),
         counted(c_.stages - 1, "stage"), number(x_.step_latency));
    line("  Barriers and issue: {} + {} of 128 B x {} = {}.", cite("sm90.step_clocks"), counted(slabs, "slab"), cite("sm90.slab_clocks"), number(x_.step_issue));
    line("  Together {} (sixteenth root of the sum of sixteenth powers: the longest, or a little more){}.", number(x_.step),
         c_.cluster_m * c_.cluster_n > 1 ? fmt::format(" and {} to meet in the cluster", cite("sm90.cluster_step_clocks")) : "");
  }

  // Of the constants for plain or for dependent launch.
  std::string cite_decode(const char* name) { return cite(fmt::format("{}.{}", conditions_.dependent ? "decode_dependent" : "decode", name).c_str()); }

  void decode_work() {
    line("\nWork. Tiles of {} rows by {} columns{}: ceil({}/{}) x ceil({}/{}){} = {}.", c_.tile_m, x_.tile_columns,
         x_.tile_columns < c_.tile_n ? fmt::format(" (of {} that fit, so that SMs share B evenly)", c_.tile_n) : "", p_.m, c_.tile_m, p_.n, x_.tile_columns,
         p_.batch > 1 ? fmt::format(" x {} batches", p_.batch) : "", x_.tiles);
    if (c_.split_k > 1)
      line("  A cluster of {} blocks takes a tile, each a slice of K. {} clusters run at once on {} SMs, in {}.", c_.split_k, x_.concurrent, machine_.sms, counted(x_.rounds, "wave"));
    else
      line("  {} run at once, {} an SM on {} of {} SMs; the busiest walks {}.", counted(x_.concurrent, "block"), x_.blocks_on_sm, x_.busy_sms, machine_.sms, counted(x_.rounds, "tile"));
    line("  A block takes ceil(ceil({}/{})/{}) x {} = {} of {} along K.", p_.k, decode::kSliceUnit, c_.split_k, decode::kSliceUnit / c_.tile_k, counted(x_.steps, "step"), c_.tile_k);
  }

  void decode_step() {
    line("\nOne step of {} along K of the {} on one SM, in SM clocks{}.", c_.tile_k, counted(x_.blocks_on_sm, "block"),
         conditions_.dependent ? " (a chain of dependent launches, weights ready)" : "");
    line("  Latency: a stage is busy for {} from its load to its release, covered by {}: {}.", cite_decode("latency_clocks"), counted(c_.stages - 1, "stage"), number(x_.step_latency));
    line("  L2: {} x ({} + {}) x {} x {} B; the SM's port gives {} B/clk, all {} SMs share {} x {} B/clk: {}.", x_.blocks_on_sm, x_.tile_columns, c_.tile_m, c_.tile_k,
         size_of(o_.a), cite("l2.port_bytes_per_clock"), x_.busy_sms, cite("l2.bytes_per_clock"), cite("l2.coalescing"), number(x_.step_l2));
    line("  Tensor cores: {} x 2 x {} x {} x {} FLOP / {} = {}. Shared memory: {} x ({} + {} x {}) x {} x {} B at {} B/clk: {}.", x_.blocks_on_sm, c_.tile_m, c_.tile_n, c_.tile_k,
         cite(o_.a == DType::fp16 ? "sm.tensor_fp16" : "sm.tensor_bf16"), number(x_.step_math), x_.blocks_on_sm, c_.tile_n, decode::bands(c_), c_.tile_m, c_.tile_k,
         size_of(o_.a), cite("sm.shared_bytes_per_clock"), number(x_.step_shared));
  }

  void decode_epilogue() {
    line("\nThe way out, in SM clocks. {} fixed{}, {} for each of min({}, {}) stages of 128 elements that a full ring still has to multiply, and {} a round of as many rows as the threads finish at once ({} of it for tiles before a block's last): {}.",
         cite_decode("epilogue_clocks"), x_.epilogue_fixed > 0 && (o_.has_c || o_.has_bias || o_.has_residual) ? fmt::format(" and {} for the epilogue's operands", cite("latency.dram")) : "",
         cite_decode("stage_clocks"), c_.stages, x_.steps, cite_decode("round_clocks"), cite_decode("round_shown"), number(x_.epilogue));
    if (c_.split_k > 1)
      line("  Partial sums to their owners: {} and {} a KiB that a block sends: {}.", cite_decode("exchange_clocks"), cite_decode("exchange_clocks_per_kib"), number(x_.exchange));
  }

  void decode_together() {
    const double walked = double(x_.steps) * double(x_.rounds) / x_.clock;
    line("\nTogether. Launch {} s; then DRAM {}, latency {}, L2 {}, tensor cores {} and shared memory {}, which overlap: the sum of their powers of {}, to the power of 1/{}; then the way out {}{}: {} in all.",
         cite_decode("launch"), microseconds(x_.dram_seconds), microseconds(walked * x_.step_latency), microseconds(walked * x_.step_l2),
         microseconds(walked * x_.step_math), microseconds(walked * x_.step_shared), cite_decode("power"), number(x_.power), microseconds((x_.epilogue + x_.exchange) / x_.clock),
         x_.more_waves > 0 ? fmt::format(", and {} s for each further wave of clusters", cite_decode("wave")) : "", microseconds(x_.forecast.seconds));
  }

  void ffma_step() {
    line("\nOne step of {} along K of the {} on one SM, in SM clocks.", c_.tile_k, counted(x_.blocks_on_sm, "block"));
    line("  FP32 cores: {} x 2 x {} x {} x {} FLOP / {} = {}.", x_.blocks_on_sm, c_.tile_m, c_.tile_n, c_.tile_k, cite("sm.fp32_rate"), number(x_.step_math));
    line("  Issue and registers: {} multiply-adds a thread, {:.2f} clocks of the register file each, its loads and stores, from {} schedulers: {}.", c_.thread_m * c_.thread_n * c_.tile_k / c_.split_k,
         ffma::register_clocks(c_), cite("sm.schedulers"), number(x_.step_issue));
    line("  Shared memory: {}. L2: port {} B/clk, all SMs {} x {} B/clk: {}.", number(x_.step_shared), cite("l2.port_bytes_per_clock"), cite("l2.bytes_per_clock"), cite("l2.coalescing"), number(x_.step_l2));
    line("  One block alone: a barrier ({}) and the longer of its multiply and a load ({} clk x {}): {}.", cite("simt.step_clocks"), cite("latency.dram"), kFp32LatencyLoad, number(x_.step_latency));
    line("  Together {} (sixteenth root of the sum of sixteenth powers: the longest, or a little more).", number(x_.step));
  }

  void gemv_step() {
    line("\nOne step of {} along K of the {} on one SM, in SM clocks.", gemv::kStep * c_.split_k, counted(x_.blocks_on_sm, "block"));
    line("  Instructions: {} multiply-adds a lane and {} loads of 16 bytes, from {} schedulers: {}.", 4 * c_.tile_m * c_.tile_n, c_.tile_m + c_.tile_n, cite("sm.schedulers"), number(x_.step_issue));
    line("  L1: those loads through {} lanes a clock: {}. L2: port {} B/clk, all SMs {} x {} B/clk: {}.", cite("sm.lsu_lanes"), number(x_.step_shared), cite("l2.port_bytes_per_clock"), cite("l2.bytes_per_clock"),
         cite("l2.coalescing"), number(x_.step_l2));
    line("  One load: {} clk x {}: {}.", cite("latency.dram"), cite("latency.load"), number(x_.step_latency));
    line("  Together {} (sixteenth root of the sum of sixteenth powers: the longest, or a little more).", number(x_.step));
  }

  void simt_step() {
    line("\nOne step of {} along K of the {} on one SM, in SM clocks.", c_.tile_k, counted(x_.blocks_on_sm, "block"));
    line("  FP32 cores: {} x 2 x {} x {} x {} FLOP / ({} x {}) = {}.", x_.blocks_on_sm, c_.tile_m, c_.tile_n, c_.tile_k, cite("sm.fp32_rate"), cite("simt.efficiency"),
         number(x_.step_math));
    line("  Shared memory: {} 16-byte loads a thread, and the stores of both tiles, through {} lanes a clock: {}.", c_.tile_k * (c_.thread_m + c_.thread_n) / 4,
         cite("sm.lsu_lanes"), number(x_.step_shared));
    line("  Instructions: {} multiply-adds a thread, its loads, and {} for each global load, from {} schedulers: {}.", c_.thread_m * c_.thread_n * c_.tile_k,
         cite("simt.load_instructions"), cite("sm.schedulers"), number(x_.step_issue));
    line("  L2: port {} B/clk, all SMs {} x {} B/clk: {}.", cite("l2.port_bytes_per_clock"), cite("l2.bytes_per_clock"), cite("l2.coalescing"), number(x_.step_l2));
    const bool converts = size_of(o_.a) < 4 || size_of(o_.b) < 4;
    line("  One block alone: two barriers ({}), its stores, and {} a load in flight ({} clk x {}): {}.", cite("simt.step_clocks"),
         converts ? "its multiply after" : "the longer of its multiply and", cite("latency.dram"), cite("latency.load"), number(x_.step_latency));
    line("  Together {} (sixteenth root of the sum of sixteenth powers: the longest, or a little more).", number(x_.step));
  }

  void epilogue() {
    line("\nEpilogue of one tile, in SM clocks: {}.", number(x_.epilogue));
    line("  Instructions {}, shared memory {}, stores to L2 {}, and {} fixed{}.", number(x_.epilogue_issue), number(x_.epilogue_shared), number(x_.epilogue_store),
         number(x_.epilogue_fixed),
         c_.family == Family::sm90 && sm90::stores_by_tma(o_)
             ? fmt::format(" ({} of D, {} each)", counted(sm90::bands_per_warpgroup(c_) * sm90::d_chunks_per_band(o_, c_), "chunk"), cite("sm90.chunk_clocks"))
             : "");
    if (c_.family == Family::sm90 && !sm90::stores_by_tma(o_))
      line("  Threads write D, because {}: {} clk a warp-wide store.", why_threads_store(o_), cite("sm90.direct_store_clocks"));
    line("  {}", c_.schedule == Schedule::pingpong
                     ? fmt::format("Ping-pong: it runs under the other warpgroup's multiply; {} of it show, a tile.", number(x_.epilogue_exposed))
                     : fmt::format("{} of it show, a tile{}.", number(x_.epilogue_exposed),
                                   x_.epilogue_exposed < x_.epilogue ? ": under the rest the ring fills up for a loop that waits for its tiles" : ""));
    line("  The busiest block: {} x ({} x {} + {} + {}) = {} clk.", counted(x_.rounds, "tile"), counted(x_.steps, "step"), number(x_.step), number(x_.tile_clocks),
         number(x_.core_clocks / double(x_.rounds) - double(x_.steps) * x_.step - x_.tile_clocks), number(x_.core_clocks));
  }

  void clock() {
    line("\nClock. {} MHz of at most {} MHz.", number(x_.clock / 1e6), cite("clock.boost"));
    if (conditions_.regime != Regime::sustained) return;
    line("  Board power there: {} W, limit {} W: idle {} W, {} J a FLOP (padding {}), {} J a B of L2, {} J a clock of a busy SM, all "
         "three times V squared with V = 1 - {} (1 - f/boost), and {} J a B of DRAM. {}", number(x_.watts), cite("power.limit"),
         cite("power.idle"), cite(conditions_.data == Data::zeros ? "power.zero_flop" : "power.flop"), cite("power.zero_flop"), cite("power.l2"), cite("power.clock"), cite("power.voltage_slope"), cite("power.dram"),
         x_.watts >= 0.995 * machine_.power_limit ? "The limit binds: the clock is where it is just met." : "The limit does not bind.");
  }

  void together() {
    line("\nTogether. Launch {} s, start of the kernel and first load {} clk = {}, busiest block {}, DRAM {}.", cite("launch.graph"), number(x_.fill),
         microseconds(x_.fill_seconds), microseconds(x_.core_seconds), microseconds(x_.dram_seconds));
    if (x_.full_share < 1 && x_.rounds > 1)
      line("  Block and DRAM overlap, in the full rounds ({} of the block's time, {} of DRAM's) and in the last one apart: {} in all.", percent(1 - 1.0 / double(x_.rounds)),
           percent(x_.full_share), microseconds(x_.forecast.seconds));
    else line("  Block and DRAM overlap: {} in all.", microseconds(x_.forecast.seconds));
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
    std::string units;
    for (const UnitShare& u : speed_of_light(machine_, o_, c_, p_, x_, x_.traffic)) units += fmt::format("{}{} {:.0f} %", units.empty() ? "" : ", ", name_of(u.unit), u.percent);
    line("\nBusy units, over all SMs and the kernel without its launch, as Nsight Compute's speed of light would show them: {}. One above 60 % is what bounds the kernel.", units);
    line("\nCounters that Nsight Compute would show for one cold launch (= exact, ~ forecast):");
    for (const ExpectedCounter& c : expected_counters(machine_, o_, c_, p_, x_)) verbatim(counter_line(c));
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
  if (c.family == Family::sm90)
    return sm90::stores_by_tma(o) ? "sm90: A and B come by TMA, wgmma multiplies, D leaves by TMA."
                                  : fmt::format("sm90: A and B come by TMA, wgmma multiplies; D is written by threads, because {}.", why_threads_store(o));
  if (c.family == Family::decode)
    return fmt::format("decode: weights stream through a ring by TMA, wgmma multiplies{}; D is written by threads.",
                       c.split_k > 1 ? fmt::format(", K is split over {} blocks of a cluster", c.split_k) : "");
  if (c.family == Family::gemv) return fmt::format("gemv: {} of B a block stream past {} of A, K shared out over {}.", counted(c.tile_n, "row"), counted(c.tile_m, "row"), counted(c.split_k, "warp"));
  if (c.family == Family::ffma)
    return fmt::format("ffma: fp32 through registers into shared memory, {} of {} at a time, FFMA.", o.inputs == Alignment::tma ? "four elements" : "one element", o.inputs == Alignment::tma ? "a row" : "unaligned rows");
  const char* reason = nullptr;
  for (const Configuration& fast : catalogue::kConfigurations) {
    if (fast.family == Family::simt || (!needs_hopper(fast.family) && o.a != DType::fp32)) continue;
    reason = why_not_on(machine, o, fast, p);
    if (!reason) return "simt, the portable kernel, by request: a faster family could run this too.";
  }
  return fmt::format("simt, the portable kernel: {}.", reason ? reason : "there is no other");
}

std::string explain_text(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions, size_t columns) {
  return Explanation(machine, o, c, p, conditions, columns).text();
}

}  // namespace foretile
