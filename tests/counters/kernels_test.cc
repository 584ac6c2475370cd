// Whole small kernels: the emulator's trace against the chip's counters. Every difference between the source's accesses
// and the machine code's is listed here with its reason; anything else must be equal.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "foretile/device/probes/copy.cuh"
#include "model/access.h"
#include "replay.h"

namespace foretile::counters {
namespace {

// ---- what the trace must say, worked out by hand ----------------------------------------------------------------
TEST(Kernels, Transposes) {
  // 12 tiles of 8 warps; a warp loads 4 rows and stores 4: 32 requests a tile each way.
  const u64 requests = 12 * 8 * 4;
  for (const auto& [name, ways] : std::map<std::string, u64>{{"transpose/pitch-32", 32}, {"transpose/pitch-33", 1}, {"transpose/exchanged", 1}}) {
    const Emulated run = emulated(case_named(name));
    EXPECT_EQ(run.wavefronts("store_shared"), requests) << name;
    EXPECT_EQ(run.wavefronts("load_shared"), requests * ways) << name;
    EXPECT_EQ(run.conflicts("load_shared"), requests * (ways - 1)) << name;
    EXPECT_EQ(run.sectors("load_global"), 4 * requests) << name;
    EXPECT_EQ(run.sectors("store_global"), 4 * requests) << name;
  }
}

TEST(Kernels, Products) {
  const u64 n = 64, tiles = (n / 16) * (n / 16), warps = tiles * 8, steps = n / 16;
  {
    // A warp is two rows of 16 threads: A's element broadcast to each row, B's row twice the same.
    const Emulated run = emulated(case_named("product/tile-16"));
    EXPECT_EQ(run.wavefronts("load_shared"), warps * steps * 16 * 2);
    EXPECT_EQ(run.conflicts(""), 0u);
    EXPECT_EQ(run.mergeable("load_shared"), warps * steps * 12);  // 16 of A's values make four 16-byte loads
    EXPECT_EQ(run.sectors("load_global"), warps * steps * 2 * 4);  // two rows of 64 bytes, for A and for B
  }
  {
    const Emulated run = emulated(case_named("product/tile-16-transposed"));
    EXPECT_EQ(run.wavefronts("store_shared"), warps * steps * (1 + 8));        // B's tile written down its columns at a pitch of 16
    EXPECT_EQ(run.wavefronts("load_shared"), warps * steps * 16 * (1 + 8));
    EXPECT_EQ(run.mergeable("load_shared"), warps * steps * 24);
  }
  EXPECT_EQ(emulated(case_named("product/tile-32-padded")).mergeable("load_shared"), 0u) << "at a pitch of 33 words no two rows are aligned alike";
  {
    const Emulated run = emulated(case_named("product/naive"));
    const u64 all = n * n / 32;
    EXPECT_EQ(run.sectors("load_global"), all * n * (1 + 4));
    EXPECT_EQ(run.requests("load_global"), all * n * 2);
  }
}

TEST(Kernels, CopiesMoveTheBoxesInsideTheTensor) {
  const Emulated whole = emulated(case_named("copy/whole-boxes"));
  EXPECT_EQ(whole.sectors("tma_load"), 256u * 192 * 2 / 32);
  EXPECT_EQ(whole.sectors("tma_store"), 256u * 192 * 2 / 32);
  EXPECT_EQ(whole.requests("tma_load"), 12u);
  // 200 columns: 400 bytes a row, so rows begin anywhere in a sector by halves; boxes of 128 bytes and a rest of 16.
  const Emulated clipped = emulated(case_named("copy/clipped-boxes"));
  u64 sectors = 0;
  for (u64 row = 0; row < 136; ++row)
    for (u64 column = 0; column < 400; column += 128) sectors += u64(row_sectors(row * 400 + column, std::min<u64>(128, 400 - column)));
  EXPECT_EQ(clipped.sectors("tma_load"), sectors);
  EXPECT_EQ(clipped.sectors("tma_store"), sectors);
  // Zeros come for the rest: 112 bytes beside the last column's 16, and all 128 of the 3 x 64 - 136 rows below.
  EXPECT_EQ(clipped.delivered("tma_load"), sectors + 136 * 4 + (3 * 64 - 136) * 4 * 4);
  EXPECT_EQ(whole.delivered("tma_load"), whole.sectors("tma_load"));
}

TEST(Kernels, HopperKernelStoresWithoutConflicts) {
  const Emulated run = emulated(case_named("gemm/sm90-pingpong"));
  EXPECT_EQ(run.wavefronts("store_matrix_x4"), 256u * 384 * 2 / 128);  // 128 bytes a wavefront
  EXPECT_EQ(run.conflicts(""), 0u);
  EXPECT_EQ(run.sectors("tma_load"), 6u * (128 + 128) * 128 * 2 / 32);  // 6 tiles of 128 x 128 over a depth of 128
  EXPECT_EQ(run.sectors("tma_store"), 256u * 384 * 2 / 32);
  // The same tile, whoever of the pair fetches it, comes once.
  const Emulated pair = emulated(case_named("gemm/sm90-cluster"));
  EXPECT_EQ(pair.sectors("tma_load"), 2u * 2 * 2 * 128 * 128 * 2 / 32);  // 2 x 2 pairs of tiles of 128 rows
  EXPECT_EQ(pair.sectors("tma_load_multicast"), 2u * 2 * 256 * 128 * 2 / 32);
  EXPECT_EQ(pair.delivered("tma_load_multicast"), 2 * pair.sectors("tma_load_multicast"));
}

// ---- the chip ----------------------------------------------------------------------------------------------------
// Of the instructions. The data pipe's own counters (l1tex__data_pipe_...) add, as conflicts, the turns that a store lost to
// other traffic of the SM; those depend on the moment.
constexpr const char* kLoadWavefronts = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum";
constexpr const char* kStoreWavefronts = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum";
constexpr const char* kLoadMatrixWavefronts = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum";
constexpr const char* kStoreMatrixWavefronts = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_stsm.sum";

// Where the machine code's accesses are not the source's: what the counter reads instead, and why.
struct Difference {
  const char* name;
  const char* counter;
  u64 compiled;
  const char* why;
};
constexpr u64 kSteps16 = 16 * 8 * 4, kSteps32 = 4 * 32 * 2;  // warps times steps of the tiled products at 64 cubed
const Difference kDifferences[] = {
    {"product/tile-16", kLoadWavefronts, kSteps16 * (4 * 2 + 16),
     "ptxas makes one 16-byte load of four neighbours in A's row: 2 wavefronts for 4 values instead of 4; B's rows stay as they are"},
    {"product/tile-16-transposed", kLoadWavefronts, kSteps16 * (4 * 2 + 4 * 16),
     "both operands are merged into 16-byte loads: 2 wavefronts for A, and for B 4 in each quarter warp"},
    {"product/tile-32-transposed", kLoadWavefronts, kSteps32 * (8 * 2 + 8 * 32), "merged likewise: 2 wavefronts for A, 32 for B"},
    {"gemm/simt-edges", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", 2532,
     "lanes at the right edge leave stores in the middle out, so the trace pairs the next row's with the neighbours' (emulator/trace.h): 2564 there"},
};
const Difference* difference(const std::string& name, const char* counter) {
  for (const Difference& d : kDifferences)
    if (name == d.name && std::string(counter) == d.counter) return &d;
  return nullptr;
}

TEST(Recorded, SmallKernels) {
  RECORDED_OR_SKIP(rows, List::kernels);
  ASSERT_EQ(rows.size(), cases_of(List::kernels).size());
  int exact = 0;
  for (const Row& row : rows) {
    const Case& c = case_named(row.at("case"));
    const Emulated run = emulated(c);
    bool equal = true;
    const auto compare = [&](const char* counter, u64 trace) {
      const Difference* known = difference(c.name, counter);
      const double measured = value_of(row, counter);
      EXPECT_EQ(measured, double(known ? known->compiled : trace)) << c.name << ", " << counter << (known ? std::string(": ") + known->why : std::string());
      equal = equal && measured == double(trace);
    };
    compare(kLoadWavefronts, run.wavefronts("load_shared"));
    compare(kStoreWavefronts, run.wavefronts("store_shared"));
    compare(kLoadMatrixWavefronts, run.wavefronts("load_matrix_x4"));
    compare(kStoreMatrixWavefronts, run.wavefronts("store_matrix_x4") + run.wavefronts("store_matrix_x2"));
    for (const auto& [op, plain, matrix] : {std::tuple{"ld", kLoadWavefronts, kLoadMatrixWavefronts}, std::tuple{"st", kStoreWavefronts, kStoreMatrixWavefronts}}) {
      const double instructions = value_of(row, plain) + value_of(row, matrix), pipe = value_of(row, fmt::format("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum", op));
      EXPECT_GE(pipe, instructions) << c.name;
      EXPECT_LE(pipe - instructions, 0.03 * instructions) << c.name << ", op " << op;  // up to 2.6 % more are seen
    }
    for (const char* op : {"ld", "st"}) {
      const std::string call = op == std::string("ld") ? "load_global" : "store_global";
      compare(fmt::format("l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum", op).c_str(), run.requests(call));
      compare(fmt::format("l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum", op).c_str(), run.sectors(call));
    }
    if (run.requests("tma_load") + run.requests("tma_load_multicast")) {
      compare("l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum", 32 * (run.delivered("tma_load") + run.delivered("tma_load_multicast")));
      compare("l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum", 32 * run.sectors("tma_store"));
    }
    exact += equal;
  }
  // The bar is eight kernels equal in every counter, before any difference is explained.
  EXPECT_GE(exact, 8);
}

}  // namespace
}  // namespace foretile::counters
