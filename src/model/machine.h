// What the model knows of a GPU. Every number stands in machines/*.toml with its unit and source.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "foretile/device/types.h"

namespace foretile {

// One number of a machine file, for people and for explanations.
struct Fact {
  std::string key;     // "l2.bytes_per_clock"
  double value = 0;
  std::string unit;    // "B/clk"
  std::string source;  // where the number comes from, and with what method if it was measured
};

// Recorded times on this GPU that forecasts were held against, of one family's kernels.
struct HeldAgainst {
  std::string kernels;             // "decode"
  std::vector<std::string> types;  // of A and B: "bf16"
  bool dependent = false;          // in chains of dependent launches
  std::string regime;              // "burst" or "sustained", where the two differ; else empty
  i64 first_row = 0, last_row = 0;
  i64 times = 0;
  double median = 0, ninth = 0;    // of |forecast / time - 1|: half and nine in ten stay within
  std::string source;
};

struct Machine {
  std::string name;       // "h200"; of a derived machine "h200~NVIDIA GH200 480GB (sm_90, 132 SMs)"
  std::string full_name;  // "NVIDIA H200 SXM 141 GB"
  std::vector<std::string> driver_names;  // parts of the name the driver prints for this GPU
  std::string validation;                 // what the forecasts for this GPU were held against, in words
  int compute_capability = 0;             // 90
  int sms = 0;
  bool derived = false;   // made by machine_for_device from the nearest machine file, not validated

  // Per SM. Rates count per SM clock; FLOP count a multiply-add as two. 0: the GPU does not have it.
  double warps = 0, blocks = 0, threads_per_block = 0, schedulers = 0;
  double registers = 0, register_unit = 0, registers_per_thread = 0;  // unit: registers a warp is rounded up to
  double shared_bytes = 0, shared_bytes_per_block = 0, shared_reserved = 0;  // reserved: by the system, each block
  double shared_bytes_per_clock = 0, lsu_lanes = 0;
  double fp32_rate = 0, fp16_rate = 0;
  double mma_sync = 0;  // of the tensor rates, what mma.sync reaches: Hopper's full rate needs wgmma
  double tensor_fp16 = 0, tensor_bf16 = 0, tensor_tf32 = 0, tensor_fp8 = 0, tensor_int8 = 0;

  double boost_mhz = 0;  // highest SM clock
  double burst_clock = 0, sustained_clock = 0;  // fractions of boost: the highest; floor under the power limit
  double tensor_clock = 0;  // of boost: the highest while wgmma runs

  double l2_bytes = 0, l2_bytes_per_clock = 0, l2_port_bytes_per_clock = 0;  // all of it; what one SM can draw
  double l2_copies = 0;      // of a line that SMs everywhere read: one a partition
  double l2_coalescing = 0;  // requests of neighbouring SMs for the same line that L2 answers with one transfer
  double l2_lookups = 0;     // lookups a request of an SM, where neighbours want the same lines
  double dram_bytes = 0, dram_bandwidth = 0, dram_efficiency = 0;            // bandwidth: B/s, data sheet
  double shared_latency = 0, l2_latency = 0, dram_latency = 0, tma_latency = 0;  // clocks; tma: on top of L2's or DRAM's
  double launch_seconds = 0;  // back-to-back launches of an empty kernel in a graph

  double power_limit = 0, power_idle = 0;  // W
  double burst_power = 0;  // of the limit: to which the clock of a burst of tensor work falls
  double flop_energy = 0, zero_flop_energy = 0;  // J a FLOP on tensor cores at boost clock, random data and zeros
  double fp32_flop_energy = 0;  // J a FLOP on FP32 (and fp16) cores at boost clock
  double dram_energy = 0, l2_energy = 0, shared_energy = 0;  // J a byte moved
  double clock_energy = 0;  // J a clock of a busy SM, whatever it does
  double voltage_slope = 0;  // how voltage follows the clock: V/Vmax = 1 - slope (1 - f/boost); energy goes with V squared

  // Constants of our kernels on this GPU, calibrated. sm90: only where the compute capability is 9.0.
  struct Sm90 {
    double mma_efficiency = 0;         // of the tensor rate, a steady multiply loop
    double step_clocks = 0;            // the barrier round of one stage, where nothing else takes as long
    double slab_clocks = 0;            // on top for each slab of 128 bytes along K: two TMA boxes and four wgmma
    double cluster_step_clocks = 0;    // a step in a cluster: both blocks must have freed the stage
    double tile_clocks = 0;            // a tile: the loop drains and starts again
    double cluster_tile_clocks = 0;    // the same in a cluster, on top
    double l2_efficiency = 0;          // of L2's rate at boost, coalesced, whatever the SMs' clock
    double chunk_clocks = 0;           // a staging chunk of D: two barriers, a fence, the issue of the store
    double store_bytes_per_clock = 0;  // what one SM stores to L2
    double operand_clocks = 0;         // a chunk with C or residual: their loads
    double direct_store_clocks = 0;    // a warp-wide store of D by threads, where TMA does not store it
    double fill_clocks = 0;            // start of the kernel to the first multiply, without the memory's latency
    double warm_saves = 0;             // s, of the start of a kernel that finds its operands in L2
    double dependent_saves = 0;        // s, of a kernel in a chain of dependent launches: what lies beside the kernel before
  } sm90;
  // The decode kernel, launched plainly and by dependent launch with its weights ready.
  struct Decode {
    double dram_efficiency = 0;     // of the bandwidth, weights passing L2 as evict-first
    double l2_efficiency = 0;       // of L2's rate at boost, whatever the SMs' clock: boxes without promotion
    double memory_power = 0;        // of the norm that DRAM and L2 are put together with
    double power = 0;               // of the norm that these two and the busiest SM are put together with
    double launch_seconds = 0;      // launch to launch, with the start and the end of the kernel
    double latency_clocks = 0;      // a stage from its load to its release, under load
    double step_clocks = 0;         // multiplying 128 elements along K, one wgmma after the other
    double empty_line_bytes = 0;    // what a line of a box beyond the matrix costs L2, in bytes, with 1,024 slabs under way: filled with zeros, but slowly
    double empty_line_power = 0;    // the more slabs are under way, the less by this power of their number
    double missed_again = 0;        // of DRAM's time, where K is split: the second of two clusters that read the same weights misses them once more
    double round_clocks = 0;        // a round of the epilogue: as many rows as the threads finish at once
    double tile_clocks = 0;         // between two tiles of a block, beside the rounds
    double exchange_clocks = 0;     // where K is split: the partial sums' way to their owners
    double exchange_clocks_per_kib = 0;
    double wave_seconds = 0;        // another wave of clusters, where all SMs hold as many blocks: they start and end together
    double uneven_waves_seconds = 0, uneven_wave_seconds = 0;  // where some hold two and some one: that there is a second wave, and each
    double run_ahead = 0;           // plain launches alone: of DRAM's time for what rings hold, by which the last SM is behind the first ones
    // Dependent launches alone. Blocks start where the kernel before left room.
    double crowding = 0;            // more than half of the SMs, not all: some GPCs fill up, and L2 takes longer by this power of SMs over blocks
    double early_launch = 0;        // of the launch, where a second block fits on an SM and asks for all of its weights before its tokens
    double paired = 0;              // of a step, where two blocks fit on an SM and there are no more blocks than SMs: some stand two on one
  } decode, decode_dependent;
  struct Simt {
    double efficiency = 0;        // of FFMA and shared-memory rates, a steady loop
    double issue_efficiency = 0;  // of what schedulers can issue, blocks whose warps meet at a barrier twice a step
    double step_clocks = 0;       // a step along K: two block-wide barriers
    double load_instructions = 0;  // a global load: addresses, bounds, conversion
    double fill_clocks = 0;
  } simt;
  // The vendor's library, as the best of the kernels it could plausibly run (library.h).
  struct Library {
    double launch_seconds = 0;         // back to back in a graph, the kernel's own start aside
    double fill_clocks = 0;            // start of the kernel
    double efficiency = 0;             // of the tensor rate
    double dram_efficiency = 0;        // of the bandwidth
    double dram_ramp_seconds = 0;      // before DRAM is up to speed
    double step_clocks = 0;            // a step of 128 bytes along K, at least
    double tile_clocks = 0;            // a tile, fixed
    double epilogue_clocks = 0;        // an epilogue, fixed
    double store_bytes_per_clock = 0;  // an SM's epilogue
    double epilogue_shown = 0;         // of an epilogue before another tile
    double split_seconds = 0;          // splitting K: its own launch or meeting
    double split_traffic = 0;          // rate of the partial sums over L2's
    double coalescing = 0;             // as Machine::l2_coalescing
    double latency_load = 0;           // memory latency over the unloaded one
    double l2_share = 0;               // of L2 that holds operands between uses
    double warm_inputs = 0;            // of activations that fit and stay from call to call
    double flop_energy = 0;            // J a FLOP
    double burst_power = 0, burst_seconds = 0;  // power above the limit in bursts, over the limit; how long it lasts
  } library;
  double latency_load = 0;  // memory latency under load over the unloaded one

  std::vector<HeldAgainst> held_against;  // of this very GPU; none: no time of our kernels is known

  std::vector<Fact> facts;  // all of the above as read, in the file's order

  // Tensor-core FLOP per SM and clock for operands of this type, fp32 (int32) accumulation; 0 where there is none.
  double tensor_rate(DType type) const;
  const Fact* fact(std::string_view key) const;  // null where the file has no such key
};

// The machine files are embedded in the library; a path to a file of one's own works too (anything that ends in
// ".toml"). Throws std::invalid_argument that lists the known names, or says what is wrong with the file.
Machine load_machine(std::string_view name_or_path);
// As load_machine, from the text of a file; `name` for messages and Machine::name.
Machine parse_machine(std::string_view name, std::string_view text);
std::vector<std::string> known_machines();

// The machine of a real GPU: the file whose name and SM count match, else one derived from the nearest architecture's
// file (same compute capability, else the closest one), scaled to the SM count; its name says so. Null below compute
// capability 7.0, which no kernel here runs on. The object lives as long as the process; equal arguments give the same.
const Machine* machine_for_device(std::string_view driver_name, int compute_capability, int sms);

}  // namespace foretile
