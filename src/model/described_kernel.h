// The forecast of a kernel that nobody compiled: a tiled matrix product as its designer describes it before a line is
// written. What can be known exactly is (wavefronts, sectors, occupancy, counts of requests); the time follows from it.
//
//   DescribedKernel k{.name = "one output a thread", .tile_m = 32, .tile_n = 32, .tile_k = 32, .threads_x = 32, .threads_y = 32,
//                     .registers = 32, .shared_bytes = 2 * 32 * 32 * 4};
//   k.step = {{.text = "a[row * K + k]", .array = "a", .bytes = 4, .address = [](const AccessPoint& p) { return ...; }}, ...};
//   DescribedForecast f = forecast(machine, k, {4096, 4096, 4096});
//
// described_kernel_file.h reads one from a .toml file, described_kernel_text.h explains the forecast.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/access.h"
#include "model/model.h"
#include "model/occupancy.h"
#include "model/traffic.h"

namespace foretile {

// Where in its kernel a thread makes an access.
struct AccessPoint {
  int thread = 0;       // within its block; x runs fastest: thread = ty * threads_x + tx
  int tx = 0, ty = 0;
  int repetition = 0;   // 0 to DescribedAccess::times - 1
  i64 step = 0;         // of the loop along K: k from step * tile_k on
  i64 block_m = 0, block_n = 0;  // the block's tile row and tile column of D
  Problem problem;
};
// The byte address of the thread's access, counted from the start of the array (a multiple of the access's bytes), or
// kNoAccess where the thread makes none.
using AddressFunction = std::function<i64(const AccessPoint&)>;
inline constexpr i64 kNoAccess = -(i64(1) << 62);

enum class Space { global, shared };

// One line of the kernel's source that touches memory.
struct DescribedAccess {
  std::string text;    // as people read it: "As[ty][k]"
  Space space = Space::global;
  Direction direction = Direction::load;
  std::string array;   // which array: accesses to one global array share lines of L1
  int bytes = 4;       // of one thread: 1, 2, 4, 8 or 16
  int times = 1;       // how often each thread makes it, a step (or an epilogue)
  bool matrix = false; // shared only: ldmatrix or stmatrix; each lane's address is that of its row of 16 bytes (bytes = 16)
  AddressFunction address;
};

// What multiplies. fp32: FFMA. half: one fp16 product an instruction and lane. half2: two. mma: mma.sync on tensor cores.
// wgmma: four warps multiply both tiles out of shared memory, no access in `step` describes it, and wait before the next step.
enum class Multiplier { fp32, half, half2, mma, wgmma };
constexpr bool on_tensor_cores(Multiplier m) { return m == Multiplier::mma || m == Multiplier::wgmma; }
// How global tiles reach shared memory. registers: load, then store by the same thread. async: cp.async. bulk: TMA, no
// thread moves anything and no access in `step` describes it: whole tiles come in full sectors.
enum class Copy { registers, async, bulk };

struct DescribedKernel {
  std::string name;
  DType input = DType::fp32, output = DType::fp32;  // of A and B; of D
  int tile_m = 0, tile_n = 0, tile_k = 0;  // D[tile_m, tile_n] a block; K of one step of its loop, as unrolled: what is in flight together
  int threads_x = 0, threads_y = 1;
  int registers = 0;     // a thread, as the compiler reports them
  int shared_bytes = 0;  // a block, static and dynamic
  Multiplier multiplier = Multiplier::fp32;
  double multiply_adds = 0;  // a thread and step; 0: tile_m * tile_n * tile_k over the threads
  int independent_sums = 0;  // accumulators that a thread (mma: a warp) adds to in turn, which hides the latency of an addition; 0: its share of the tile
  double other_instructions = 0;  // a thread and step: addresses, bounds, loop
  // Clocks that one FFMA of a warp takes of its SM partition's register file, on average, as compiled (tools/ladder_table.py
  // counts them in the machine code): one where no two of its operands come from one bank, up to three. 0: not known.
  double register_clocks = 0;
  int stages = 1;        // tiles in shared memory; 1: load, barrier, multiply, barrier. More: the next ones load under the multiply
  Copy copy = Copy::registers;
  double barriers = 2;   // of the whole block, a step
  int raster_group = 1;  // tile rows of a band, walked column by column (device/layout/tile_order.h); 1: blockIdx.x along N. One block a tile
  std::vector<DescribedAccess> step, epilogue;
};

// What one access costs. Counts are of one block: a step's for DescribedKernel::step, the epilogue's for the others.
struct AccessCost {
  double requests = 0;          // warp-wide instructions with at least one thread taking part
  double instructions = 0;      // all that are issued
  double wavefronts = 0, ideal_wavefronts = 0;  // shared memory; ideal: no two words of a wavefront share a bank
  int worst_wavefronts = 0;     // of one request
  double sectors = 0, ideal_sectors = 0;        // global memory: of 32 bytes
  double lines = 0;             // of 128 bytes, summed over requests
  double new_sectors = 0;       // that no access to the array before it has brought to L1, within a block
  double clocks = 0;            // of the SM's load-store unit
  double conflicts() const { return wavefronts - ideal_wavefronts; }
};

struct DescribedForecast {
  double seconds = 0;
  Bound bound = Bound::latency;
  double dram = 0, l2 = 0, shared_memory = 0, compute = 0, issue = 0, latency = 0, launch = 0, epilogue = 0;  // s; they overlap
  Occupancy occupancy;
  Traffic traffic;
  std::vector<AccessCost> step, epilogue_accesses;  // beside DescribedKernel's lists
  i64 tiles = 0, steps = 0, concurrent = 0;
  double waves = 0;
  int blocks_on_sm = 0;    // in a full round
  // One step of all the blocks of one SM, in SM clocks, by resource, and together.
  double step_turns = 0;  // mma.sync: fragments and multiplies, which take turns
  double step_math = 0, step_shared = 0, step_l2 = 0, step_issue = 0, step_latency = 0, step_clocks = 0;
  double alone_memory = 0, alone_busy = 0, alone_deposits = 0;  // of step_latency, of one block: a load's latency, what it does with a tile, and its way to shared memory
  double epilogue_clocks = 0, fill_clocks = 0, full_clocks = 0, core_clocks = 0;  // full_clocks: of core_clocks, the rounds that fill the machine
  double full_share = 0;      // of the tiles, those in full rounds
  double multiply_adds = 0;   // a thread and step
  double instructions = 0;    // a warp and step
  double clock_mhz = 0;
  double l2_request_bytes = 0;  // what the SMs ask of L2 for A and B, in whole sectors
};

// Why the kernel cannot run on the machine or makes no sense, in words; empty where it can. Looks at every access of a
// few blocks: an address that is no multiple of the access's bytes, or beyond the shared memory, is named.
std::string why_not(const Machine& machine, const DescribedKernel& kernel, const Problem& problem);

// std::invalid_argument with that reason, or for conditions that make no sense. An empty problem takes no time.
DescribedForecast forecast(const Machine& machine, const DescribedKernel& kernel, const Problem& problem, const Conditions& conditions = {});
// The same with other costs of its accesses than they have: what if one of them had no conflicts. Beside the kernel's lists.
DescribedForecast forecast(const Machine& machine, const DescribedKernel& kernel, const Problem& problem, const Conditions& conditions, std::vector<AccessCost> step,
                           std::vector<AccessCost> epilogue);

}  // namespace foretile
