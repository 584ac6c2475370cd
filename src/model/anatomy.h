// A forecast with everything that went into it: what the explanation prints and tests check.
#pragma once
#include "model/model.h"
#include "model/occupancy.h"
#include "model/registers.h"
#include "model/traffic.h"
#include "plan/plan.h"

namespace foretile {

struct Anatomy {
  Forecast forecast;
  LaunchShape launch;
  TileGrid grid;
  Occupancy occupancy;
  Registers registers;
  Traffic traffic;
  int sms = 0;             // that the launch may fill
  int tile_columns = 0;    // of one block's tile; decode and rows: as their balance() has it
  i64 tiles = 0;           // units of work: cluster tiles for sm90, tiles for simt
  i64 concurrent = 0;      // of them resident at once
  i64 rounds = 0;          // tiles that the busiest block walks
  double rounds_taken = 0; // rounds, a last one with fewer blocks an SM as the part of a full one that it takes
  double full_share = 1;   // of the tiles that are walked in full rounds
  int busy_sms = 0;        // SMs with at least one block
  int blocks_on_sm = 0;    // blocks an SM holds in this launch
  i64 steps = 0;           // steps along K of one tile

  // One step along K of all the blocks of one SM, in SM clocks, by resource.
  double step_math = 0, step_shared = 0, step_l2 = 0, step_issue = 0, step_latency = 0;
  double step = 0;         // together: see norm()
  // One tile's epilogue, in SM clocks, by resource, and how much of it shows.
  double epilogue_issue = 0, epilogue_shared = 0, epilogue_store = 0, epilogue_fixed = 0;
  double epilogue = 0, epilogue_exposed = 0;
  double tile_clocks = 0;  // fixed, each tile
  double fill = 0;         // from the start of the kernel to the first multiply, and the last tile's way out, SM clocks
  double core_clocks = 0;  // of the busiest SM, without fill
  // The last round, where it has fewer blocks an SM than the others (else 0): a step of them as above, and all of it.
  struct LastRound {
    int blocks_on_sm = 0;
    double math = 0, shared = 0, issue = 0, l2 = 0, latency = 0, step = 0, epilogue = 0, clocks = 0;
  } last;

  double exchange = 0;     // K split over a cluster: the partial sums' way, SM clocks; ffma: what a cluster costs, each tile
  i64 waves = 1;           // decode with K split: of clusters
  bool uneven = false;     // decode with K split: some SMs hold two blocks and some one
  double ways_out = 1;     // decode: epilogues and exchanges that show, of waves one after the other
  double more_waves = 0;   // decode: further waves of clusters, seconds
  double held_seconds = 0, behind_seconds = 0;  // decode: DRAM's time for the weights that rings hold; the part of it that the last SM is behind
  double missed_again = 0; // decode: of DRAM's time
  double empty_share = 1;  // decode: of what a line beyond the matrix costs with 1,024 slabs under way
  bool early = false;      // decode, dependent launches: all weights of a block are asked for before its tokens, while the kernel before runs
  double crowded = 1, paired = 1;  // decode, dependent launches: L2's time and a step over what they would be with blocks spread out
  double between_tiles = 0;        // decode: of one block, SM clocks
  bool side_by_side = false;                // decode: L2 answers neighbours' requests for a line of A together
  double stage_lines = 0, empty_lines = 0;  // decode: of 128 bytes, a stage of one block; see decode_clocks.cc
  double power = 0, memory_power = 0;  // decode: of the norms; see decode_clocks.cc

  bool streams_rows = false;  // rows: the time is rows_seconds_at()

  double l2_requested = 0;  // bytes, of all SMs, as L2 counts them (Hopper's families: others in step_l2)
  double core_seconds = 0, dram_seconds = 0, l2_seconds = 0, fill_seconds = 0, launch_seconds = 0;
  double warm = 0;           // of the operands: in L2 from the launch before
  double saved_seconds = 0;  // of launch and fill: by dependent launch what lies beside the kernel before, and with warm operands
  double clock = 0;        // Hz
  double watts = 0;        // board, at that clock; power.limit where the limit binds
  double flops_executed = 0;  // padding included
  double shared_traffic = 0;  // bytes through shared memory, all SMs
  double busy_clocks() const { return core_clocks * busy_sms * (double(tiles) / (rounds_taken * double(concurrent))); }  // of all SMs
};

// Throws std::invalid_argument for conditions that make no sense (sm_budget, mhz). The configuration must be legal:
// see why_not_on.
Anatomy anatomy(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions);

// (x^16 + y^16 + ...)^(1/16): the longest part, or slightly more (4 % for two alike) where they get in each other's way.
// The power was fitted beside the constants: 8 explains the recorded times worse.
double norm(double x, double y, double z = 0, double w = 0, double v = 0);

// Energy of the whole kernel on the SMs' supply at boost voltage, and beside it.
struct Energy {
  double on_chip = 0, off_chip = 0;  // J
};
Energy energy_of(const Machine& machine, const Operation& o, const Problem& p, const Conditions& conditions, Family family, const Anatomy& x);

// Instructions of one output element: scale, epilogue, rounding.
double epilogue_instructions(const Operation& o);
// Energy of a FLOP of this type on tensor cores over that of one in 16 bits.
double flop_energy_ratio(const Machine& machine, DType type);

// The simt family: see simt_clocks() in forecast.cc.
constexpr double kDramFetch = 64;      // bytes that come from DRAM together
constexpr double kChainClocks = 2;     // an instruction of an address, of a warp alone: each waits for one before it
double simt_new_lines(const Operation& o, const Configuration& c);
double simt_latency(const Machine& machine, const Operation& o, const Configuration& c);

// Of L2's unloaded latency, while all SMs load: fitted to every tile of rungs 1 to 7 of the ladder on an H200, 512 to 8,192 cubed.
constexpr double kBusyL2 = 1.77;

// ffma_clocks.cc
// Of an unloaded load's latency from DRAM: fitted to 64x64 tiles on an H200, which have nothing to hide it under, and to tiles of
// 32 rows at M = 32, which take most of what they load from a busy DRAM (bench/results/ffma_few_rows_fp32_h200.csv).
constexpr double fp32_latency_load(const Configuration& c) { return c.tile_m <= 32 ? 3.0 : 1.6; }
// One step of a warp of the ffma family.
struct FfmaWarp {
  double multiplies = 0, multiply_clocks = 0;  // each: of the scheduler or of the register file, whichever takes longer
  double loads = 0, stores = 0;                // shared memory
  double units = 0, unit_clocks = 0;           // loads from global memory, with what each takes beside it
  double loop_clocks = 0;
  double clocks = 0;                           // of its scheduler, all of them together
  double alone = 0;                            // of a scheduler that has no other warp
  bool kept = false;                           // the loop's code, by the instruction cache of an SM partition
  double wavefronts = 0, lines = 0;            // shared memory, L1
};
FfmaWarp ffma_warp(const Machine& machine, const Operation& o, const Configuration& c);
constexpr double kKeptInstructions = 768;     // 12 KiB of code (V100: Jia et al., arXiv 1804.06826)
constexpr double kFetchedClocks = 2;          // beyond it a warp alone on its scheduler gets an instruction every other clock: loops of 38 KB took twice as long
constexpr double kSumClocks = 4;              // 32 partial sums: stored, loaded and added
constexpr double kClusterClocks = 5400;       // a cluster that splits K starts, meets and waits for its slowest block
constexpr double kFfmaStoreInstructions = 3;  // an element of D: scaled, masked, a quarter of a store
constexpr double kAddressInstructions = 3;    // a global load: its pointer moves on, half of a mask
constexpr double kGemvLoopInstructions = 6;
constexpr double kGemvRowClocks = 530;        // each row of A but the first comes after the one before: 15 layers at M = 8 on an H200
void ffma_clocks(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, Anatomy& x);
void gemv_clocks(const Machine& machine, const Operation& o, const Configuration& c, Anatomy& x, const Problem& p);
// rows_clocks.cc
// One step of a warp of the rows family.
struct RowsWarp {
  double multiplies = 0, multiply_clocks = 0;
  double row_loads = 0, column_loads = 0;  // from shared memory
  double wavefronts = 0;                   // of those
  double clocks = 0;                       // of its scheduler, all of them together
};
RowsWarp rows_warp(const Machine& machine, const Configuration& c);
void rows_clocks(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, Anatomy& x);
double rows_busiest(const Anatomy& x);  // SM clocks of the busiest block, without its last way out
double rows_seconds_at(const Anatomy& x, double clock);
void rows_parts(const Anatomy& x, Forecast& f);  // of the latency
constexpr double kRowsMultiplyClocks = 1.087;  // of its scheduler: of the register file, by the machine code too (tests/golden/catalogue.csv)
constexpr double kRowsLoadClocks = 2.17;       // a 16-byte load from shared memory, of its scheduler
constexpr double kRowsStepInstructions = 79.3;  // of a warp: barriers, addresses, the loop
constexpr double kRowsLatencyClocks = 191;     // of a stage, from its load to its release
constexpr double kRowsTileClocks = 114;        // barriers and the multiplies' start behind them
constexpr double kRowsSumClocks = 2.6;          // 32 sums to shared memory, or back
constexpr double kRowsClusterClocks = 1870;    // a cluster meets and exchanges its sums
constexpr double kRowsLaunchSeconds = 3.045e-6, kRowsWaveSeconds = 2.28e-6;  // in a plain chain; a further wave of clusters
constexpr double kRowsDramEfficiency = 0.943;
constexpr double kRowsPower = 6.52;            // of the norm of DRAM, L2 and the busiest SM
// decode_clocks.cc
void decode_clocks(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const Conditions& conditions, Anatomy& x);
constexpr double kSlabsUnderWay = 1024;  // of 128 bytes a row, of all blocks: for which decode.empty_line_bytes holds
double decode_busiest(const Anatomy& x);  // SM clocks of the busiest block, without its way out
double decode_seconds_at(const Anatomy& x, double clock);
void decode_parts(const Anatomy& x, Forecast& f);  // of the latency

}  // namespace foretile
