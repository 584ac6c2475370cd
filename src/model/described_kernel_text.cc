#include "model/described_kernel_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "model/counters.h"
#include "model/described_access.h"
#include "model/page.h"
#include "model/text.h"

namespace foretile {

namespace {

const char* name_of(Multiplier m) {
  switch (m) {
    case Multiplier::fp32: return "FP32 multiply-adds";
    case Multiplier::half: return "single fp16 multiply-adds";
    case Multiplier::half2: return "paired fp16 multiply-adds";
    case Multiplier::mma: return "mma.sync on tensor cores";
    case Multiplier::wgmma: return "wgmma on tensor cores";
  }
  return "?";
}

int threads_of(const DescribedKernel& k) { return k.threads_x * k.threads_y; }

// Two lanes of the access that want different words of one bank, in the first warp that has any.
std::string collision(const DescribedKernel& k, const DescribedAccess& a, const Problem& p) {
  const int threads = threads_of(k);
  for (int first = 0; first < threads; first += int(kWarpLanes)) {
    AccessPoint at{.problem = p};
    i64 words[kWarpLanes];
    for (int lane = 0; lane < int(kWarpLanes); ++lane) {
      words[lane] = kNoAccess;
      at.thread = first + lane, at.tx = at.thread % k.threads_x, at.ty = at.thread / k.threads_x;
      if (at.thread < threads) words[lane] = a.address(at);
      if (words[lane] != kNoAccess) words[lane] /= 4;
    }
    const int group = a.bytes <= 4 ? int(kWarpLanes) : int(kWarpLanes) * 4 / a.bytes;
    for (int x = 0; x < int(kWarpLanes); ++x)
      for (int y = x + 1; y < int(kWarpLanes) && y / group == x / group; ++y)
        if (words[x] != kNoAccess && words[y] != kNoAccess && words[x] != words[y] && words[x] % kSharedBanks == words[y] % kSharedBanks)
          return fmt::format("threads {} and {} want words {} and {}, both of bank {}", first + x, first + y, words[x], words[y], words[x] % kSharedBanks);
  }
  return {};
}

// Bytes between the first two neighbouring threads; nothing where they make no access together.
std::optional<i64> stride(const DescribedKernel& k, const DescribedAccess& a, const Problem& p) {
  if (threads_of(k) < 2) return std::nullopt;
  AccessPoint one{.problem = p}, two{.thread = 1, .tx = k.threads_x > 1 ? 1 : 0, .ty = k.threads_x > 1 ? 0 : 1, .problem = p};
  const i64 x = a.address(one), y = a.address(two);
  return x == kNoAccess || y == kNoAccess ? std::nullopt : std::optional(y - x);
}

// How many of a thread's repetitions one wide load brings: those that stand side by side, aligned for it in every thread.
int mergeable(const DescribedKernel& k, const DescribedAccess& a, const Problem& p) {
  if (a.matrix || a.bytes >= 16) return 1;
  for (const int wide : {16, 8}) {
    const int count = wide / a.bytes;
    if (count < 2 || a.times % count) continue;
    bool all = true;
    for (int thread = 0; all && thread < threads_of(k); ++thread)
      for (int i = 0; all && i < a.times; ++i) {
        AccessPoint first{.thread = thread, .tx = thread % k.threads_x, .ty = thread / k.threads_x, .repetition = i / count * count, .problem = p}, here = first;
        here.repetition = i;
        const i64 x = a.address(first), y = a.address(here);
        all = x != kNoAccess && x % wide == 0 && y == x + i % count * a.bytes;
      }
    if (all) return count;
  }
  return 1;
}

double bytes_of_arithmetic(const DescribedKernel& k) { return double(k.tile_m + k.tile_n) * k.tile_k * size_of(k.input); }

class DescribedExplanation : private Page {
 public:
  DescribedExplanation(const Machine& machine, const KernelFile& file, const Problem& p, const Conditions& conditions, const KernelWith& with, size_t columns)
      : Page(machine, columns), machine_(machine), file_(file), k_(file.kernel), p_(p), conditions_(conditions), with_(with), f_(forecast(machine, file.kernel, p, conditions)) {}

  std::string text() {
    if (const std::string nothing = nothing_to_compute(p_); !nothing.empty()) return nothing;
    headline();
    help();
    variations();
    accesses();
    occupancy();
    traffic();
    step();
    clock();
    launch();
    fusing();
    counters();
    line("\nHow far to trust it. Wavefronts, conflicts, sectors, requests and occupancy follow from the description; for five described kernels they equal an H200's counters. The time is "
         "a forecast; machine constants were held against: {}.", machine_.validation);
    constants();
    return Page::text();
  }

 private:
  void headline() {
    const char* regime = conditions_.regime == Regime::burst ? "short bursts" : conditions_.regime == Regime::sustained ? "sustained load" : "a fixed clock";
    line("{}", k_.name);
    line("on {}: {} x {} -> {}, M = {}, N = {}, K = {}{}; {} of {} threads, tiles of {} x {}, K in steps of {}.", machine_.name, foretile::name_of(k_.input), foretile::name_of(k_.input), foretile::name_of(k_.output), p_.m, p_.n, p_.k,
         p_.batch > 1 ? fmt::format(", batch {}", p_.batch) : "", counted(f_.tiles, "block"), threads_of(k_), k_.tile_m, k_.tile_n, k_.tile_k);
    line("Forecast {}: {} TFLOP/s, {} GB/s of DRAM, for {} and {} data.", microseconds(f_.seconds), number(flop_count(p_) / f_.seconds / 1e12), number(f_.traffic.dram_bytes() / f_.seconds / 1e9), regime,
         conditions_.data == Data::zeros ? "all-zero" : "random");
    std::vector<std::pair<double, std::string>> parts = {{f_.dram, "DRAM"}, {f_.l2, "L2"}, {f_.shared_memory, "load-store units and shared memory"}, {f_.compute, on_tensor_cores(k_.multiplier) ? "tensor cores" : "multiply-adds"},
                                                         {f_.issue, "issue"}, {f_.latency, "latency"}, {f_.launch, "launch"}};
    std::stable_sort(parts.begin(), parts.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
    std::string list;
    for (const auto& [seconds, name] : parts) list += fmt::format("{}{} {}", list.empty() ? "" : ", ", name, microseconds(seconds));
    line("Bound by {}: it alone takes {} of the time; next comes {} with {}.", parts[0].second, percent(parts[0].first / f_.seconds), parts[1].second, percent(parts[1].first / f_.seconds));
    line("Parts (they overlap, so they do not add up): {}; of latency, epilogues take {}.", list, microseconds(f_.epilogue));
  }

  void help() {
    const auto list = remedies(machine_, file_, p_, conditions_, with_);
    if (list.empty()) {
      line("\nWhat would help. Nothing that is tried here: no conflicts, no scattered sectors, no wait and no missing block costs half a percent.");
      return;
    }
    line("\nWhat would help, by forecast:");
    for (size_t i = 0; i < std::min<size_t>(list.size(), 8); ++i)
      line("  {}. {}: {}, {} ({}).", i + 1, list[i].what, microseconds(list[i].seconds), comparison(f_.seconds / list[i].seconds - 1), list[i].because);
  }

  // Every value of [vary], the worse ones too: what a padding gains in banks and costs in shared memory.
  void variations() {
    if (!with_ || file_.vary.empty()) return;
    line("\nVariations, one name at a time, the others as they are:");
    verbatim(fmt::format("  {:<16} {:>10} {:>8} {:>10} {:>11} {:>8} {:>6}\n", "", "forecast", "to now", "conflicts", "shared", "blocks", "warps"));
    for (const auto& [name, values] : file_.vary)
      for (const i64 value : values) {
        const std::string what = fmt::format("{} = {}", name, value);
        try {
          const DescribedKernel other = with_(name, value).kernel;
          const DescribedForecast f = forecast(machine_, other, p_, conditions_);
          double conflicts = 0;
          for (const AccessCost& c : f.step) conflicts += c.conflicts();
          verbatim(fmt::format("  {:<16} {:>10} {:>8} {:>10} {:>11} {:>8} {:>6}\n", what, microseconds(f.seconds), fmt::format("{:.2f}", f.seconds / f_.seconds), number(conflicts), fmt::format("{} B", other.shared_bytes),
                               fmt::format("{}/SM", f.occupancy.blocks_per_sm), fmt::format("{:.0f} %", 100 * f.occupancy.warps_fraction)));
        } catch (const std::invalid_argument& e) {
          line("  {:<16} cannot be: {}", what, e.what());
        }
      }
    verbatim("  conflicts: wavefronts lost a step and block; warps: of what an SM can hold\n");
  }

  void accesses() {
    line("\nAccesses, of one block and one step of K (of {}): ideal counts in brackets.", k_.tile_k);
    table(k_.step, f_.step);
    if (!k_.epilogue.empty()) {
      line("  Once at the end:");
      table(k_.epilogue, f_.epilogue_accesses);
    }
    for (size_t i = 0; i < k_.step.size(); ++i) remark(k_.step[i], f_.step[i]);
    for (size_t i = 0; i < k_.epilogue.size(); ++i) remark(k_.epilogue[i], f_.epilogue_accesses[i]);
  }

  void table(const std::vector<DescribedAccess>& list, const std::vector<AccessCost>& costs) {
    size_t width = 6;
    for (const DescribedAccess& a : list) width = std::max(width, std::min<size_t>(a.text.size(), 24));
    verbatim(fmt::format("  {:<{}}  {:<12} {:>5} {:>8} {:>17} {:>9}\n", "access", width, "", "bytes", "requests", "cost", "a request"));
    for (size_t i = 0; i < list.size(); ++i) {
      const DescribedAccess& a = list[i];
      const AccessCost& c = costs[i];
      const std::string kind = fmt::format("{} {}", a.direction == Direction::load ? "load" : "store", a.space == Space::global ? "global" : a.matrix ? "matrix" : "shared");
      const double cost = a.space == Space::global ? c.sectors : c.wavefronts, ideal = a.space == Space::global ? c.ideal_sectors : c.ideal_wavefronts;
      verbatim(fmt::format("  {:<{}}  {:<12} {:>5} {:>8} {:>17} {:>9}\n", a.text.substr(0, 24), width, kind, a.bytes, number(c.requests), fmt::format("{} ({}) {}", number(cost), number(ideal), a.space == Space::global ? "sec" : "wav"),
                           c.requests > 0 ? number(cost / c.requests) : "-"));
    }
    verbatim("  sec: sectors of 32 bytes; wav: wavefronts of shared memory\n");
  }

  void remark(const DescribedAccess& a, const AccessCost& c) {
    if (a.space == Space::shared) {
      const double each = c.requests > 0 ? c.ideal_wavefronts / c.requests : 1;
      if (c.conflicts() > 1e-9)
        line("  {}: bank conflicts, up to {} wavefronts a request where {} would do{}. Bank = (byte address / 4) mod 32; a wavefront gives one word a bank.", a.text, c.worst_wavefronts, number(each),
             a.matrix ? "" : (collision(k_, a, p_).empty() ? std::string() : ": " + collision(k_, a, p_)));
      if (const int count = mergeable(k_, a, p_); count > 1)
        line("  {}: a thread's {} repetitions stand side by side: one load of {} bytes brings {}, and compilers do merge them. Describe it so (elements = {}, times = {}) if yours does.", a.text, a.times, count * a.bytes, count, count,
             a.times / count);
      return;
    }
    if (c.sectors > 1.02 * c.ideal_sectors) {
      const auto apart = stride(k_, a, p_);
      line("  {}: {} of the bytes in the sectors it touches are asked for ({} sectors where {} would do){}.", a.text, percent(c.ideal_sectors / c.sectors), number(c.sectors), number(c.ideal_sectors),
           apart && std::abs(*apart) > a.bytes ? fmt::format("; neighbouring threads are {} bytes apart", *apart) : std::string("; its runs of neighbouring bytes are shorter than a sector, or do not begin at one"));
    } else if (c.sectors < 0.98 * c.ideal_sectors) {
      line("  {}: threads ask for the same words, which come once: a broadcast.", a.text);
    }
    if (c.new_sectors < 0.98 * c.sectors && a.direction == Direction::load)
      line("  {}: of its {} sectors {} are new to the block; L1 gives the others.", a.text, number(c.sectors), number(c.new_sectors));
  }

  void occupancy() {
    const Occupancy& q = f_.occupancy;
    line("\nOccupancy. {} = {}, {} registers a thread, {} B of shared memory.", counted(threads_of(k_), "thread"), counted(q.warps_per_block, "warp"), k_.registers, k_.shared_bytes);
    const int unit = int(round_up(i64(k_.registers) * 32, i64(machine_.register_unit)));
    const i64 shared = round_up(i64(k_.shared_bytes) + i64(machine_.shared_reserved), 128);
    line("  Blocks an SM by registers, 32 x {} a warp rounded up to a multiple of {}, by schedulers: floor(floor({} / {} / {}) x {} / {}) = {}. By shared memory, with {} reserved and rounded up to a multiple of 128: floor({} / {}) = {}. "
         "By warps: floor({} / {}) = {}. By blocks: {}.", k_.registers, cite("sm.register_unit"), cite("sm.registers"), cite("sm.schedulers"), unit, machine_.schedulers, q.warps_per_block, q.by_registers, cite("sm.shared_reserved"),
         cite("sm.shared_bytes"), shared, q.by_shared_memory, cite("sm.warps"), q.warps_per_block, q.by_warps, cite("sm.blocks"));
    line("  So {} an SM, limited by {}: {} of the warps an SM can hold (theoretical occupancy).", counted(q.blocks_per_sm, "block"), foretile::name_of(q.limiter), percent(q.warps_fraction));
    // Where the steps are.
    int fewer = k_.registers, more = k_.registers;
    const auto blocks = [&](int registers) { return foretile::occupancy(machine_, threads_of(k_), registers, k_.shared_bytes).blocks_per_sm; };
    while (more < int(machine_.registers_per_thread) && blocks(more + 1) == q.blocks_per_sm) ++more;
    while (fewer > 1 && blocks(fewer) == q.blocks_per_sm) --fewer;
    line("  Register pressure: up to {} a thread keep {} an SM{}{}.", more, counted(q.blocks_per_sm, "block"), more < int(machine_.registers_per_thread) ? fmt::format(", one more leaves {}", blocks(more + 1)) : "",
         fewer > 1 ? fmt::format("; {} and fewer give {}", fewer, blocks(fewer)) : "; no fewer would give another block");
  }

  void traffic() {
    const Traffic& t = f_.traffic;
    const double intensity = double(k_.tile_m) * k_.tile_n * k_.tile_k * 2 / bytes_of_arithmetic(k_);
    const double rate = on_tensor_cores(k_.multiplier) ? machine_.tensor_rate(k_.input) : k_.multiplier == Multiplier::fp32 ? machine_.fp32_rate : machine_.fp16_rate;
    const double ridge = rate * machine_.sms * f_.clock_mhz * 1e6 / (machine_.dram_bandwidth * machine_.dram_efficiency);
    line("\nTraffic. A {}, B {}, D {}: what has to move at least once, for {} FLOP a byte; DRAM keeps up with these cores from {} FLOP a byte on.", megabytes(t.a_bytes), megabytes(t.b_bytes), megabytes(t.d_bytes),
         number(flop_count(p_) / (t.a_bytes + t.b_bytes + t.d_bytes)), number(ridge));
    line("  SMs ask L2 for {} of A and B, in whole sectors (a tile of this shape has {} FLOP a byte). A full round of {} reads {} of distinct bytes; at that distance L2 ({} B in {} of each line) "
         "still has {} of it in the next round.", megabytes(f_.l2_request_bytes), number(intensity), counted(f_.concurrent, "block"), megabytes(t.wave_bytes), cite("l2.bytes"), cite("l2.copies") + (machine_.l2_copies == 1 ? " copy" : " copies"),
         percent(l2_survival(t.wave_bytes, machine_.l2_bytes / machine_.l2_copies)));
    line("  DRAM gives {} of A and B and takes {} of D; L2 answers {} of what tiles ask for. DRAM time: {} / ({} B/s x {}) = {}.", megabytes(t.dram_load_bytes), megabytes(t.dram_store_bytes), percent(t.l2_hit_rate), megabytes(t.dram_bytes()),
         cite("dram.bandwidth"), cite("dram.efficiency"), microseconds(f_.dram));
  }

  void step() {
    line("\nOne step of K of the {} on one SM, in SM clocks.", counted(f_.blocks_on_sm, "block"));
    const bool wgmma = k_.multiplier == Multiplier::wgmma;
    const std::string rate = on_tensor_cores(k_.multiplier) ? fmt::format("({} x {})", cite(k_.input == DType::bf16 ? "sm.tensor_bf16" : k_.input == DType::fp16 ? "sm.tensor_fp16" : k_.input == DType::int8 ? "sm.tensor_int8" : size_of(k_.input) == 1 ? "sm.tensor_fp8" : "sm.tensor_tf32"), cite(wgmma ? "sm90.mma_efficiency" : "sm.mma_sync"))
                             : k_.multiplier == Multiplier::fp32 ? fmt::format("({} x {})", cite("sm.fp32_rate"), cite("simt.efficiency"))
                                                                 : (k_.multiplier == Multiplier::half ? "(" + cite("sm.fp16_rate") + " / 2)" : cite("sm.fp16_rate"));
    line("  {}{}: {} x {} x {} x 2 FLOP / {} = {}.", name_of(k_.multiplier), k_.multiplier == Multiplier::half ? " of each thread, each half of a pair" : " of each thread", f_.blocks_on_sm, threads_of(k_), number(f_.multiply_adds), rate, number(f_.step_math));
    if (f_.step_turns > 0) line("  Fragments by ldmatrix and the multiplies they feed take turns, since all warps of a block load and then multiply: {} + {} = {}.", number(f_.step_turns - f_.step_math), number(f_.step_math), number(f_.step_turns));
    const int warps = f_.occupancy.warps_per_block;
    std::string loads, deposits;
    double accesses = 0;
    for (size_t n = 0; n < k_.step.size(); ++n) {
      const bool deposit = k_.step[n].space == Space::shared && k_.step[n].direction == Direction::store;
      std::string& sum = deposit ? deposits : loads;
      sum += (sum.empty() ? "" : " + ") + number(f_.step[n].clocks);
      if (!(deposit && k_.copy == Copy::async)) accesses += f_.step[n].instructions / warps;
    }
    const std::string deep = fmt::format("{} x {} B / {} B/clk", k_.tile_k, size_of(k_.input), cite("sm.shared_bytes_per_clock"));
    if (k_.copy == Copy::bulk) deposits += fmt::format("{}({} + {}) x {}", deposits.empty() ? "" : " + ", k_.tile_m, k_.tile_n, deep);
    if (wgmma) loads += fmt::format("{}{} / 64 x (64 + {}) x {}", loads.empty() ? "" : " + ", k_.tile_m, k_.tile_n, deep);
    if (loads.empty()) loads = "0";
    if (deposits.empty()) deposits = "0";
    line("  Load-store units and shared memory: every wavefront of shared memory, and every line of a global access, takes a clock; a warp's addresses pass {} lanes a clock. The accesses in their order, stores to shared memory last: {} x {}{}{}{}) = {}.",
         cite("sm.lsu_lanes"), f_.blocks_on_sm, wgmma ? "max(" : "(", loads, wgmma ? ", " : " + ", deposits, number(f_.step_shared));
    if (wgmma) line("  For wgmma reads both tiles out of shared memory, the columns once for each band of 64 rows, and TMA writes beside that.");
    line("  Issue, of a warp its multiplies, {} for accesses, {} others and {}: {} x {} x ({} + {} + {} + {}) / {} = {}.", number(accesses), number(k_.other_instructions), counted(number(k_.barriers), "barrier"), f_.blocks_on_sm, warps,
         number(f_.instructions - accesses - k_.other_instructions - k_.barriers), number(accesses), number(k_.other_instructions), number(k_.barriers), cite("sm.schedulers"), number(f_.step_issue));
    const std::string bytes = number(f_.l2_request_bytes / (double(f_.steps) * double(f_.tiles))) + " B";
    line("  L2, by the SM's port or by all busy SMs together: {} x max({} / {} B/clk, {} x {} / ({} B/clk x {})) = {}.", f_.blocks_on_sm, bytes, cite("l2.port_bytes_per_clock"), bytes,
         std::min(i64(conditions_.sm_budget ? conditions_.sm_budget : machine_.sms), f_.tiles), cite("l2.bytes_per_clock"), cite("l2.coalescing"), number(f_.step_l2));
    // What a block does with a tile: its longest unit, or one thing after the other.
    const char* busy = wgmma ? "its multiplies, which are waited for, and the round of a stage" : f_.step_turns > 0 ? "fragments, then multiplies" : "the longest of multiplies, loads, issue and a warp's own instructions in turn";
    const std::string memory = cite("latency.dram") + (k_.copy == Copy::bulk ? " + " + cite("latency.tma") : ""), took = wgmma ? fmt::format("max({}, {}) + {} + {} x {}", number(f_.step_math / f_.blocks_on_sm), number(f_.step_shared / f_.blocks_on_sm), cite("sm90.step_clocks"), number(double(k_.tile_k) * size_of(k_.input) / 128), cite("sm90.slab_clocks")) : number(f_.alone_busy),
                      tail = fmt::format("{} + {} x {} / 2", f_.alone_deposits > 0 ? fmt::format(" + {} + {}", number(f_.alone_deposits), cite("latency.shared")) : "", number(k_.barriers), cite("simt.step_clocks"));
    if (k_.stages > 1) line("  One block alone, loads covered by {}, under {}; stores to shared memory; barriers: max(({}) / {}, {}){} = {}.", counted(k_.stages - 1, "stage"), busy, memory, k_.stages - 1, took, tail, number(f_.step_latency));
    else line("  One block alone, nothing of it overlaps, other blocks must: a load; {}; stores to shared memory; barriers: {} + {}{} = {}.", busy, memory, took, tail, number(f_.step_latency));
    line("  Together: norm({}, {}, {}, {}, {}) = {}: the sixteenth root of the sum of sixteenth powers. {} of it, an epilogue of {}; {}.", number(f_.step_math), number(f_.step_shared), number(f_.step_issue), number(f_.step_l2), number(f_.step_latency),
         number(f_.step_clocks), counted(f_.steps, "step"), number(f_.epilogue_clocks), waves(f_.waves));
  }

  void clock() {
    const bool wgmma = k_.multiplier == Multiplier::wgmma;
    const double high = machine_.boost_mhz * (wgmma ? machine_.tensor_clock : machine_.burst_clock);
    line("\nClock. {} MHz of at most {}{} MHz{}.", number(f_.clock_mhz), wgmma ? cite("clock.tensor") + " x " : "", cite("clock.boost"),
         conditions_.regime == Regime::sustained && f_.clock_mhz < high * 0.999 ? fmt::format(", where {} W are just met", cite("power.limit")) : "");
  }

  void launch() {
    const std::string mhz = number(f_.clock_mhz) + " MHz", share = number(f_.full_share), dram = microseconds(f_.dram);
    std::string rounds;
    if (f_.full_share > 0) rounds += fmt::format(" + norm({} clk / {}, {} x {})", number(f_.full_clocks), mhz, dram, share);
    if (f_.full_share < 1) rounds += fmt::format(" + norm({} clk / {}, {} x (1 - {}))", number(f_.core_clocks - f_.full_clocks), mhz, dram, share);
    line("\nTogether. Launch, start and first load, and the rounds of blocks, full ones and a last, beside DRAM: {} s + ({} + {}) / {}{} = {}.", cite("launch.graph"), cite("simt.fill_clocks"), cite("latency.dram"), mhz, rounds, microseconds(f_.seconds));
    line("\nLaunch. {} s back to back in a graph is {} of the time.", cite("launch.graph"), percent(f_.launch / f_.seconds));
    const double one = f_.seconds;
    const double per_sm = double(f_.tiles) / machine_.sms;
    if (f_.launch / one < 0.02 && per_sm >= 1) return;
    std::string list;
    Problem several = p_;
    for (const i64 count : {4, 16, 64}) {
      several.batch = p_.batch * count;
      const double each = forecast(machine_, k_, several, conditions_).seconds / double(count);
      list += fmt::format("{}{} in one launch {} each", list.empty() ? "" : ", ", count, microseconds(each));
    }
    line("  {} on {} SMs. Batching saves it: one launch a product {}, {}.", counted(f_.tiles, "block"), machine_.sms, microseconds(one), list);
  }

  void fusing() {
    const KernelFile::Fuse& fuse = file_.fuse;
    const double bytes = 2.0 * double(p_.m) * double(p_.n) * double(p_.batch) * size_of(k_.output);
    // A pass of its own reads and writes D. Right behind the product D is still in L2 as far as it fits.
    const double in_l2 = l2_survival(bytes, machine_.l2_bytes / machine_.l2_copies);
    const double dram = bytes * (1 - in_l2) / (machine_.dram_bandwidth * machine_.dram_efficiency), l2 = bytes / (machine_.l2_bytes_per_clock * machine_.boost_mhz * 1e6);
    const double pass = machine_.launch_seconds + (machine_.simt.fill_clocks + machine_.dram_latency) / (machine_.boost_mhz * 1e6) + std::max(dram, l2);
    DescribedKernel fused = k_;
    fused.registers = int(std::min<double>(k_.registers + fuse.registers, machine_.registers_per_thread));
    double with_it = 0;
    int blocks = 0;
    if (foretile::occupancy(machine_, threads_of(fused), fused.registers, fused.shared_bytes).blocks_per_sm > 0) {
      const DescribedForecast g = forecast(machine_, fused, p_, conditions_, f_.step, f_.epilogue_accesses);
      const double values = double(p_.m) * double(p_.n) * double(p_.batch);
      const double instructions = values / kWarpLanes * fuse.instructions / (machine_.schedulers * machine_.sms * f_.clock_mhz * 1e6);
      with_it = g.seconds + instructions, blocks = g.occupancy.blocks_per_sm;
    }
    line("\nFusing {}. A pass of its own: launch, start, and {} read and written, {} of it in L2: {}; with the product {}.", fuse.name, megabytes(bytes), percent(in_l2), microseconds(pass), microseconds(f_.seconds + pass));
    if (with_it == 0) {
      line("  In the epilogue it takes {} more a thread, and no block fits on an SM then.", counted(fuse.registers, "register"));
      return;
    }
    line("  In the epilogue: {} more a thread ({} an SM, as before {}) and {} instructions a value: {} in all, {}.", counted(fuse.registers, "register"), counted(blocks, "block"), f_.occupancy.blocks_per_sm, number(fuse.instructions),
         microseconds(with_it), comparison((f_.seconds + pass) / with_it - 1));
  }

  void counters() {
    line("\nCounters that Nsight Compute would show (= exact from the description, ~ forecast):");
    for (const ExpectedCounter& c : expected_counters(k_, f_)) verbatim(counter_line(c));
  }

  const Machine& machine_;
  const KernelFile& file_;
  const DescribedKernel& k_;
  const Problem& p_;
  const Conditions& conditions_;
  const KernelWith& with_;
  const DescribedForecast f_;
};

}  // namespace

std::vector<Remedy> remedies(const Machine& machine, const KernelFile& file, const Problem& p, const Conditions& conditions, const KernelWith& with) {
  const DescribedKernel& k = file.kernel;
  const DescribedForecast now = forecast(machine, k, p, conditions);
  std::vector<Remedy> list;
  if (now.tiles == 0) return list;
  const auto offer = [&](std::string what, double seconds, std::string because) {
    if (now.seconds / seconds - 1 >= 0.005) list.push_back({std::move(what), seconds, std::move(because)});
  };
  const auto offer_kernel = [&](std::string what, const DescribedKernel& other) {
    DescribedForecast f;
    try {
      f = forecast(machine, other, p, conditions);
    } catch (const std::invalid_argument&) {
      return;  // it cannot be
    }
    double was = 0, is = 0;
    for (const AccessCost& c : now.step) was += c.conflicts();
    for (const AccessCost& c : f.step) is += c.conflicts();
    std::string because = fmt::format("bound by {}, {} an SM", name_of(f.bound), counted(f.occupancy.blocks_per_sm, "block"));
    if (was != is) because += fmt::format(", {} bank conflicts a step instead of {}", number(is), number(was));
    offer(std::move(what), f.seconds, std::move(because));
  };
  // What the description leaves open.
  if (with)
    for (const auto& [name, values] : file.vary)
      for (const i64 value : values) offer_kernel(fmt::format("{} = {}", name, value), with(name, value).kernel);
  // One access at a time, as if it were ideal.
  for (size_t i = 0; i < k.step.size(); ++i) {
    const AccessCost& c = now.step[i];
    auto better = now.step;
    AccessCost& b = better[i];
    if (k.step[i].space == Space::shared && c.conflicts() > 0) {
      b.wavefronts = c.ideal_wavefronts, b.clocks = std::max(c.ideal_wavefronts, k.step[i].matrix ? 0.0 : c.requests * kWarpLanes / machine.lsu_lanes);
      offer(fmt::format("{} without bank conflicts", k.step[i].text), forecast(machine, k, p, conditions, better, now.epilogue_accesses).seconds, "pad or swizzle the shared array");
    }
    if (k.step[i].space == Space::global && c.sectors > 1.02 * c.ideal_sectors && c.ideal_sectors > 0) {
      const double share = c.ideal_sectors / c.sectors;
      b.sectors = c.ideal_sectors, b.lines = std::max(c.requests, c.lines * share), b.new_sectors = c.new_sectors * share, b.clocks = std::max(c.requests * kWarpLanes / machine.lsu_lanes, c.clocks * share);
      offer(fmt::format("{} from whole sectors", k.step[i].text), forecast(machine, k, p, conditions, better, now.epilogue_accesses).seconds, "let neighbouring threads take neighbouring addresses");
    }
  }
  // Wider loads of what stands side by side.
  {
    auto better = now.step;
    std::string names;
    for (size_t i = 0; i < k.step.size(); ++i) {
      const int count = k.step[i].space == Space::shared && k.step[i].direction == Direction::load ? mergeable(k, k.step[i], p) : 1;
      if (count == 1) continue;
      DescribedKernel wide = k;
      DescribedAccess& a = wide.step[i];
      a.bytes *= count, a.times /= count;
      a.address = [narrow = k.step[i].address, count](const AccessPoint& at) {
        AccessPoint first = at;
        first.repetition *= count;
        return narrow(first);
      };
      better[i] = access_costs(machine, wide, p, false)[i];
      names += (names.empty() ? "" : ", ") + a.text;
    }
    if (!names.empty()) offer(fmt::format("{} in wide loads", names), forecast(machine, k, p, conditions, better, now.epilogue_accesses).seconds, "fewer instructions; compilers do this where alignment is plain");
  }
  // Several outputs a thread: each value that it loads from shared memory serves a row or a column of them.
  if (!on_tensor_cores(k.multiplier)) {
    double loads = 0;
    for (size_t i = 0; i < k.step.size(); ++i)
      if (k.step[i].space == Space::shared && k.step[i].direction == Direction::load) loads += double(k.step[i].times) * k.step[i].bytes / size_of(k.input);
    const double each = loads / now.multiply_adds;  // values loaded a multiply-add; 4 x 4 outputs take 1/2, in wide loads
    if (each > 0.75) {
      auto better = now.step;
      for (size_t i = 0; i < k.step.size(); ++i)
        if (k.step[i].space == Space::shared && k.step[i].direction == Direction::load)
          for (double AccessCost::*count : {&AccessCost::instructions, &AccessCost::requests, &AccessCost::wavefronts, &AccessCost::ideal_wavefronts, &AccessCost::clocks}) better[i].*count *= 0.5 / each;
      DescribedKernel wider = k;
      wider.registers = int(std::min(machine.registers_per_thread, k.registers + 24.0));
      if (occupancy(machine, threads_of(wider), wider.registers, wider.shared_bytes).blocks_per_sm > 0)
        offer("4 x 4 outputs a thread (about)", forecast(machine, wider, p, conditions, better, now.epilogue_accesses).seconds,
              fmt::format("{} values from shared memory a multiply-add instead of {}, for 24 registers more", number(0.5), number(each)));
    }
  }
  // Loads under the multiply.
  if (k.shared_bytes > 0 || k.stages > 1) {
    for (const int stages : {2, 3, 4}) {
      if (stages <= k.stages) continue;
      DescribedKernel deeper = k;
      deeper.shared_bytes = k.shared_bytes / k.stages * stages, deeper.stages = stages;
      if (k.copy == Copy::registers) {
        if (stages > 2) continue;
        double values = 0;  // in flight in registers
        for (size_t i = 0; i < k.step.size(); ++i)
          if (k.step[i].space == Space::global) values += k.step[i].bytes * k.step[i].times / 4.0;
        deeper.registers = int(std::min<double>(machine.registers_per_thread, k.registers + std::ceil(values)));
      }
      const size_t before = list.size();
      offer_kernel(fmt::format("{} buffers, {} B of shared memory{}", stages, deeper.shared_bytes, deeper.registers != k.registers ? fmt::format(" and {} registers", deeper.registers) : ""), deeper);
      if (list.size() > before) list.back().because += ", loads under the multiply";
    }
  }
  // One more block an SM.
  const auto blocks = [&](int registers, int shared) { return occupancy(machine, threads_of(k), registers, shared).blocks_per_sm; };
  if (now.occupancy.by_registers <= now.occupancy.by_shared_memory) {
    int registers = k.registers;
    while (registers > 24 && blocks(registers, k.shared_bytes) == now.occupancy.blocks_per_sm) --registers;
    if (blocks(registers, k.shared_bytes) > now.occupancy.blocks_per_sm) {
      DescribedKernel lean = k;
      lean.registers = registers;
      offer_kernel(fmt::format("{} registers instead of {}", registers, k.registers), lean);
    }
  }
  std::stable_sort(list.begin(), list.end(), [](const Remedy& x, const Remedy& y) { return x.seconds < y.seconds; });
  return list;
}

std::string explain_text(const Machine& machine, const KernelFile& file, const Problem& p, const Conditions& conditions, const KernelWith& with, size_t columns) {
  return DescribedExplanation(machine, file, p, conditions, with, columns).text();
}

}  // namespace foretile
