#include "ladder/lessons.h"

#include <array>

#include "ladder/described.h"

namespace foretile::ladder {

namespace {

constexpr Lesson kSide = {
    "Plain fp32 sums lose up to half a unit in the last place at every addition; over thousands of terms the error grows with the square root of their number, or, where all have one sign, "
    "with the number itself.",
    "No counter: the difference from fp64. foretile_ladder_tool and the tests print it.",
    "Compensated (Kahan) sums keep what an addition rounded away and give it to the next one. Sums in fp64 hold the product of two fp32 values exactly.",
    "Compensation turns one instruction a multiply into four. fp64 runs at half the rate of fp32 on H100 and H200 and at 1/64 of it on cards for desktops.",
    "Tensor cores have their own rounding: tests/golden/accumulate_test.cc records it."};

constexpr std::array<Lesson, 12> kLessons = {{
    {"There is nothing below. A thread walks a row of A and a column of B and writes one element of D.",
     "Sectors a request of the load of A: 32. Each lane reads another row, so a warp's 32 elements lie in 32 sectors of 32 bytes, of which it uses 4 bytes each.",
     "Nothing yet. The kernel is right at any size, and it is the yardstick.",
     "32 sectors a request keep the load-store unit busy 16 times longer than the multiply they feed.",
     "Let neighbouring lanes read neighbouring addresses."},
    {"Lanes of a warp stood in different rows: the load of A took 32 sectors, the store of D as well.",
     "l1tex__t_sectors over l1tex__t_requests, of global loads: from 16.5 on average (32 of A, 1 of B) to 2.5 (1 of A, 4 of B).",
     "Lanes along a row of D read one element of A together, one sector for all 32, and 32 neighbours of B, four full sectors. Two lines change.",
     "Nothing. The same number of instructions, another order of threads.",
     "Two loads from global memory still feed one multiply. Neighbouring threads load the same values: load them once a block."},
    {"Every multiply needs two loads from global memory. L1 answers most of them, but the load-store unit has to take each.",
     "Global loads a multiply: from 2 to 2 / 32. The shared loads that replace them show in smsp__inst_executed_op_shared_ld.",
     "A block copies a tile of A and one of B to shared memory; each element is then read from there by 32 threads.",
     "Two barriers a step, and on an H200 more time than rung 2, forecast and measured (docs/ladder.md): L1 answered its loads at the same 32 lanes a clock, so that a load has become a load from shared "
     "memory and nothing is saved yet but the way to L1. What the step buys is a place where rungs 4 to 7 can use a value more than once. Two loads from shared memory feed one multiply: the ceiling is 32 lanes a clock, so at best one multiply for every two clocks of the load-store unit. "
     "On an H200 that is 8 TFLOP/s, an eighth of what the cores could do. An article that reports more of a kernel like this one, 15 TFLOP/s on an RTX 3090 say, whose ceiling is 2.2, "
     "has measured something else.",
     "Padding is not the next step: every access here is one wavefront already (foretile ladder explain 3 --tile 32x32x32:padded shows equal counters, 32x32x32:b_transposed the conflicts that "
     "storing B's tile turned makes). Use each loaded value more than once."},
    {"One output a thread: each multiply costs two loads from shared memory.",
     "Shared loads a multiply: from 2 to 1 + 1/8.",
     "A thread with 8 outputs below one another loads an element of B once for 8 multiplies.",
     "8 sums in registers, 8 times fewer threads for the same tile: fewer warps to hide latency behind, more independent multiplies in each.",
     "A's element is still loaded for every multiply. Reuse in both directions."},
    {"Outputs in one column share only B's element.",
     "Shared loads a multiply: from 1.125 to (8 + 8) / 64 = 0.25.",
     "In a rectangle of 8 x 8 outputs 16 loads feed 64 multiplies.",
     "64 sums and 16 operands a thread. The compiler hoists loads and takes more registers yet; above 128 a thread, two blocks of 256 threads no longer fit into an SM. "
     "And tiles of 128 x 128: at 1024 cubed 64 of them for the 132 SMs of an H200, where rung 4 is faster (--m 1024 --n 1024 --k 1024).",
     "The loads are single words. Ask for four at once. (Their conflicts, below, are rung 7's matter.)"},
    {"A quarter of a load a multiply is still one load instruction for four multiplies, and each takes a slot of the load-store unit.",
     "Shared loads a multiply: from 0.25 to 0.0625. Widths show in the machine code: LDS.128, LDG.E.128.",
     "An instruction that loads 16 bytes a lane moves what four did. A's tile is stored transposed, so that a thread's rows are neighbours in it.",
     "Alignment: K and N must be multiples of 4 for it, others take single words. The store that transposes A meets in the banks: see the conflicts of this rung. Compilers merge narrow loads "
     "by themselves where they can prove alignment, so without explicit widths this lesson may have happened in rung 5.",
     "Count the conflicts, access by access."},
    {"Lanes whose columns lie 32 bytes apart ask for 16 bytes each: eight of them want 64 different words and meet two by two. Lanes that store a column of A's transposed tile meet likewise.",
     "Bank conflicts a thousand multiplies (l1tex__data_bank_conflicts_pipe_lsu_mem_shared): to 0.",
     "Columns in groups of four, dealt out to neighbouring threads, make eight lanes cover 128 bytes side by side. A pad of four words behind each row of A's tile, or columns exchanged by the "
     "depth, put the transposing stores into different banks.",
     "The pad costs 3 % of the tile's memory. It serves tile_k = 8; at 16 it leaves two lanes to a bank, and the exchange does not (compare the variants 128x128x16:t8x8:padded and :swizzled).",
     "Copy, barrier, multiply, barrier: while the tile is on its way the cores wait. Overlap them."},
    {"An SM partition has two banks of registers, of even and odd numbers, and reads one register of each a clock; a multiply has three operands. Rung 7 stores its sums four at a time, which puts "
     "them into neighbouring registers, each in the bank of its column's operand: a multiply often waits for its second read: 1.35 clocks on average. And every step waits for its own copy.",
     "Clocks of the register file a multiply, counted in the machine code (tools/ladder_table.py): from 1.35; with everything else rung 7 takes 1.7 in all on an H200, this rung 1.28.",
     "The sums are scaled before they are stored, so that the compiler may place them where it likes. Multiplies run forth and back along a row of the register tile: each keeps one operand of the "
     "one before. A thread computes 16 x 8 outputs. Loads of the step after next are asked for before the barrier, and the operands of a depth are loaded while the depth before is multiplied, the "
     "first of a step under the last of the step before: neither a copy nor the barrier stops the multiplies. Lanes of a warp stand so that pairs ask for the same words: a 16-byte load takes two "
     "wavefronts instead of four. Where there are too few tiles for the SMs, the blocks of a cluster share out K and send each other their sums.",
     "128 sums a thread leave 256 threads an SM, and no register for an epilogue with operands: then the sums go through shared memory. Copies by cp.async, which need no registers, were tried: elements of four bytes, which can turn rows into columns, cost an instruction each, and "
     "ran at 0.85 of the library's speed where loads through registers reach 0.99.",
     "The fp32 cores are at their end. Tensor cores multiply 16-bit operands sixteen times faster."},
    {"One fp32 instruction of a warp makes 32 multiply-adds, and the issue slots are full.",
     "Multiply-adds an instruction of a warp: from 32 to 2,048 for mma.sync.m16n8k16.",
     "A warp hands 16 x 16 and 8 x 16 operands to the tensor core, which adds into fp32. ldmatrix deals 8 x 8 blocks out to the lanes as the instruction wants them.",
     "Operands of 16 bits: 8 bits of mantissa in bf16, 11 in fp16. Another layout: both operands along K. From here on B is stored as B[N,K], as weights are. "
     "The pad that keeps ldmatrix free of conflicts costs the stores into the tiles twice the wavefronts (rung 10 does without it). D leaves in pieces of 16 bytes, so that each sector is written twice, until rung 12.",
     "The copies wait again: a step is so short now that a load from memory takes as long as several of them."},
    {"Load, store, barrier, multiply, barrier: the tensor cores stand still while a tile comes.",
     "Stages in flight: from 1 to 3; barriers of the block a step: from 2 to 1.",
     "cp.async moves 16 bytes from global to shared memory past the registers. A ring of three stages gives each copy two steps of time. The exchange of 16-byte chunks by row keeps ldmatrix free of "
     "conflicts without a pad, which a row of 128 bytes could not afford.",
     "96 KiB of shared memory a block, and addresses for every chunk: a third of the instructions are address arithmetic.",
     "Hopper's copy engine needs one instruction a tile, and its matrix unit none of the fragments."},
    {"Threads compute addresses, copy chunks and load fragments, all to feed the tensor cores through registers.",
     "Multiply-adds an instruction of a warp.",
     "TMA fetches a box by one request of one thread and swizzles it; wgmma reads both operands from shared memory: an instruction of four warps makes 64 x 128 x 16 multiply-adds.",
     "Hopper alone, K a multiple of 8. All threads meet after each step before the stage can be asked for again.",
     "Let nobody meet: one warp asks, others multiply, barriers in shared memory pass the stages between them."},
    {"Every step ends with a barrier of the whole block, every tile with an epilogue during which the tensor cores idle.",
     "The tensor cores' share of the time.",
     "A producer warp runs ahead of the consumers; blocks stay for all their tiles; one consumer's epilogue hides under the other's product, or stores leave by TMA while the next tile runs.",
     "The contract at the head of gemm_sm90.cuh: who may release which stage when. foretile emulate checks it.",
     "foretile choose ranks its configurations for your sizes; docs/performance.md says what was tried."},
}};

}  // namespace

const Lesson& lesson(int rung) { return rung == 0 ? kSide : kLessons.at(std::size_t(rung - 1)); }

LoopCounters count_loop(const DescribedKernel& k, const DescribedForecast& f) {
  LoopCounters c;
  const double warps = k.threads_x * k.threads_y / 32.0, multiplies = f.multiply_adds * warps;  // of the block, in a step: warp-wide
  const double depth = k.multiplier == Multiplier::mma ? 2048.0 / 32 : 1;                      // multiply-adds a lane's share of one instruction
  double requests = 0, sectors = 0, global = 0, shared = 0, stores = 0, wavefronts = 0, conflicts = 0;
  for (std::size_t i = 0; i < k.step.size(); ++i) {
    const AccessCost& cost = f.step[i];
    if (k.step[i].space == Space::global) {
      requests += cost.requests, sectors += cost.sectors, global += cost.requests;
    } else {
      wavefronts += cost.wavefronts, conflicts += cost.conflicts();
      (k.step[i].direction == Direction::load ? shared : stores) += cost.requests;
    }
  }
  c.sectors_per_request = requests > 0 ? sectors / requests : 0;
  c.global_loads = global / multiplies * depth;
  c.shared_loads = shared / multiplies * depth;
  c.wavefronts = 1000 * wavefronts / multiplies;
  c.conflicts = 1000 * conflicts / multiplies;
  c.multiplies_per_instruction = 32 * f.multiply_adds / f.instructions;
  c.accesses = (global + shared + stores) / warps;
  c.stages = k.stages;
  c.barriers = k.barriers;
  return c;
}

Step step_of(const Rung& rung, const Variant* v, const Machine& machine) {
  if (rung.number < 2) return {};
  const Rung& below = *find_rung(rung.number - 1);
  const Problem p{.m = 768, .n = 768, .k = 768};  // a multiple of every tile
  const auto count = [&](const Rung& r, const Variant* which) {
    if (!which) which = &r.variants.front();
    const DescribedKernel k = describe(r, *which, p);
    const DescribedForecast f = forecast(machine, k, p);
    LoopCounters c = count_loop(k, f);
    // As compiled, where a table says so: what an instruction of the matrix unit covers is not the description's business.
    if (which->loop_multiplies) {
      const double warps = k.threads_x * k.threads_y / 32.0, accesses = k.copy == Copy::bulk ? 0 : c.accesses;
      c.multiplies_per_instruction = double(k.tile_m) * k.tile_n * k.tile_k / warps / (which->loop_multiplies + which->loop_other + accesses);
    }
    return c;
  };
  if (rung.number == 12) {
    const Problem large{.m = 4096, .n = 4096, .k = 4096};
    const DescribedForecast before = forecast(machine, describe(below, below.variants.front(), large), large);
    Operation o = operation_of(rung);
    o.inputs = o.output = Alignment::tma;
    const Forecast after = forecast(machine, o, pick(machine, o, large), large);
    return {"tensor cores' share of the time, 4096 cubed", "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active", before.compute / before.seconds, after.compute / after.seconds, false};
  }
  if (rung.number == 8)
    return {"clocks of the register file a multiply", "smsp__inst_executed_pipe_fma.avg.per_cycle_active, its inverse where nothing else binds", below.variants.front().register_clocks, rung.compiled.register_clocks, false};
  const LoopCounters after = count(rung, v);
  if (rung.number == 9) {
    // Two loads, and what stands beside the multiplies in the loop of the library's kernel.
    const Variant& fp32 = below.compiled;
    return {"multiply-adds an instruction", "smsp__inst_executed.sum", 32.0 * fp32.loop_multiplies / (fp32.loop_multiplies + fp32.loop_other + fp32.loop_accesses), after.multiplies_per_instruction, false};
  }
  const LoopCounters before = count(below, nullptr);
  switch (rung.number) {
    case 2: return {"sectors a global load", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum / l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", before.sectors_per_request, after.sectors_per_request};
    case 3: return {"global loads a multiply", "smsp__inst_executed_op_global_ld.sum / smsp__sass_thread_inst_executed_op_ffma_pred_on.sum x 32", before.global_loads, after.global_loads};
    case 4:
    case 5:
    case 6: return {"shared loads a multiply", "smsp__inst_executed_op_shared_ld.sum / smsp__sass_thread_inst_executed_op_ffma_pred_on.sum x 32", before.shared_loads, after.shared_loads};
    case 7: return {"bank conflicts in 1000 multiplies", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", before.conflicts, after.conflicts};
    case 10: return {"block barriers in a K of 64", "smsp__inst_executed_pipe_adu.sum", 64 / 32 * before.barriers, after.barriers};
    case 11: return {"multiply-adds an instruction", "smsp__inst_executed.sum", before.multiplies_per_instruction, after.multiplies_per_instruction, false};
    default: return {};
  }
}

}  // namespace foretile::ladder
