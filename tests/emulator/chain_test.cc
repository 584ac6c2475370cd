// Dependent launch: kernels of a chain that run at once, and what they may touch before the grid wait.
#include <fmt/format.h>

#include "foretile/device/catalogue.h"
#include "kernels.h"
#include "product.h"

namespace foretile::emulator_tests {

using namespace emulator;

namespace {

// The Hopper kernel with one consumer, which the decode kernel has replaced in the catalogue.
constexpr Configuration few_rows(int n, int k, int stages) {
  return {.family = Family::sm90, .tile_m = 64, .tile_n = n, .tile_k = k, .stages = stages, .schedule = Schedule::cooperative, .store_buffers = 1};
}

constexpr u32 kCount = 64;  // elements of each buffer, a thread each

// first: y = x + 1. second: z = y * w. Both keep running sums in `workspace`.
struct Buffers {
  Aligned<float> x{kCount, 3}, y{kCount, -1}, w{kCount, 5}, z{kCount, -1}, workspace{kCount, 0};
  Region region(Aligned<float>& of, const char* name, bool writable = false, bool ready = false) {
    Region r = of.region(name, writable);
    r.ready = ready;
    return r;
  }
};

enum class Fault {
  nothing,
  a_early,             // y is read before the grid wait
  b_early,             // w is read before the grid wait, and nobody promised it
  b_early_but_promised,
  promise_broken,      // w was promised, but the first kernel writes it
  d_early,             // z is written before the grid wait; here the first kernel reads it
  workspace_early,
  no_wait,
  one_block_without_wait,
  no_trigger,          // correct: the second kernel starts late
};

Report run_chain(Fault fault, const Options& o, bool dependent = true) {
  Buffers b;
  const auto is = [&](Fault f) { return f == fault; };
  const auto at = [](Aligned<float>& v) { return v.data + block_index().x * 32 + lane_index(); };
  LaunchShape shape = one_block(32);
  shape.blocks = 2;
  const bool promised = is(Fault::b_early_but_promised) || is(Fault::promise_broken);
  const Launch first{shape, [&] {
    if (!is(Fault::no_trigger)) grid_dependency_launch();
    for (int i = 0; i < 20; ++i) sync_warp();
    const float before = is(Fault::d_early) ? load_global(at(b.z)) : 0;
    store_global(at(b.y), load_global(at(b.x)) + 1 + 0 * before);
    store_global(at(b.workspace), 7.0f);
    if (is(Fault::promise_broken)) store_global(at(b.w), 5.0f);
  }, {b.region(b.x, "x"), b.region(b.y, "y", true), b.region(b.workspace, "workspace", true), b.region(b.w, "w", is(Fault::promise_broken)), b.region(b.z, "z")}};
  const Launch second{shape, [&] {
    float y = 0, w = 0;
    if (is(Fault::a_early)) y = load_global(at(b.y));
    if (is(Fault::b_early) || promised) w = load_global(at(b.w));
    if (is(Fault::d_early)) store_global(at(b.z), 0.0f);
    if (is(Fault::workspace_early)) load_global(at(b.workspace));
    if (is(Fault::no_wait) || (is(Fault::one_block_without_wait) && block_index().x == 1)) return;
    grid_dependency_wait();
    if (!is(Fault::a_early)) y = load_global(at(b.y));
    if (w == 0) w = load_global(at(b.w));
    store_global(at(b.z), y * w + 0 * load_global(at(b.workspace)));
  }, {b.region(b.y, "y"), b.region(b.w, "w", false, promised), b.region(b.z, "z", true), b.region(b.workspace, "workspace", true)}, dependent};
  const Report report = emulate({first, second}, o);
  const bool whole = !is(Fault::no_wait) && !is(Fault::one_block_without_wait) && !is(Fault::a_early);
  for (u32 i = 0; whole && report.clean() && i < kCount; ++i) EXPECT_EQ(b.z[i], 20.0f);
  return report;
}

struct Broken {
  const char* name;
  Fault fault;
  std::vector<std::string> kinds;  // all of them expected
};

class ChainDefects : public testing::TestWithParam<Broken> {};

TEST_P(ChainDefects, AreReportedInEveryMode) {
  for (const Options& o : every_mode()) {
    const Report r = run_chain(GetParam().fault, o);
    for (const std::string& kind : GetParam().kinds) EXPECT_TRUE(r.has(kind)) << kind << ", " << mode_name(o) << ": " << r.text();
  }
}

INSTANTIATE_TEST_SUITE_P(All, ChainDefects, testing::Values(
  Broken{"a_read_early", Fault::a_early, {"dependent-launch", "race"}},
  Broken{"b_read_early_without_the_promise", Fault::b_early, {"dependent-launch"}},
  Broken{"b_promised_but_written", Fault::promise_broken, {"race"}},
  Broken{"d_written_early", Fault::d_early, {"dependent-launch", "race"}},
  Broken{"workspace_touched_early", Fault::workspace_early, {"dependent-launch", "race"}},
  Broken{"no_wait", Fault::no_wait, {"dependent-launch"}},
  Broken{"one_block_without_the_wait", Fault::one_block_without_wait, {"dependent-launch"}}),
  [](const auto& info) { return std::string(info.param.name); });

TEST(Chain, CorrectPairsAreCleanInEveryModeAndManySchedules) {
  for (const Fault fault : {Fault::nothing, Fault::b_early_but_promised, Fault::no_trigger})
    for (u64 seed = 0; seed < 10; ++seed)
      for (const Options& o : every_mode(seed)) ASSERT_EQ(run_chain(fault, o).text(), "no findings") << int(fault) << ", " << mode_name(o) << ", seed " << seed;
}

TEST(Chain, WithoutDependentLaunchKernelsFollowOneAnotherAndMayTouchAnything) {
  for (const Fault fault : {Fault::a_early, Fault::b_early, Fault::d_early, Fault::no_wait})
    for (const Options& o : every_mode()) ASSERT_EQ(run_chain(fault, o, false).text(), "no findings") << int(fault) << ", " << mode_name(o);
}

TEST(Chain, FindingsNameTheKernel) {
  const std::string text = run_chain(Fault::a_early, {}).text();
  EXPECT_NE(text.find("kernel 2 block 0 warp 0"), std::string::npos) << text;
  EXPECT_NE(text.find("kernel 1 block 0 warp 0"), std::string::npos) << text;
}

// What ran when: letters in the order in which the blocks came to them.
std::string order(bool trigger, u32 blocks_that_trigger = 2) {
  std::string log;
  LaunchShape shape = one_block(32);
  shape.blocks = 2;
  const auto note = [&log](char c) {
    if (lane_index() == 0) log += c;
  };
  const Launch first{shape, [&, trigger] {
    if (trigger && block_index().x < blocks_that_trigger) grid_dependency_launch();
    for (int i = 0; i < 50; ++i) sync_warp();
    note('f');
  }, {}};
  const Launch second{shape, [&] {
    note('s');
    grid_dependency_wait();
    note('w');
  }, {}, true};
  EXPECT_EQ(emulate({first, second}).text(), "no findings");
  return log;
}

TEST(Chain, TheSecondKernelStartsAtTheTriggerAndPassesItsWaitAtTheEnd) {
  EXPECT_EQ(order(true), "ssffww");
  EXPECT_EQ(order(false), "ffswsw");     // no trigger: it starts when the first is complete
  EXPECT_EQ(order(true, 1), "ffswsw");   // every block has to
}

// A middle kernel that does not wait is complete before the first one is: the third, which waits, still races with it.
TEST(Chain, AMissingWaitBreaksTheKernelAfterTheNext) {
  for (const bool waits : {true, false}) {
    Aligned<float> x(32), out(32);
    const LaunchShape shape = one_block(32);
    const Launch first{shape, [&] {
      grid_dependency_launch();
      for (int i = 0; i < 100; ++i) sync_warp();
      store_global(x.data + lane_index(), 1.0f);
    }, {x.region("x", true)}};
    const Launch middle{shape, [&] {
      grid_dependency_launch();
      if (waits) grid_dependency_wait();
    }, {}, true};
    const Launch last{shape, [&] {
      grid_dependency_wait();
      store_global(out.data + lane_index(), load_global(x.data + lane_index()));
    }, {x.region("x"), out.region("out", true)}, true};
    const Report r = emulate({first, middle, last});
    EXPECT_EQ(r.has("dependent-launch"), !waits) << r.text();
    EXPECT_EQ(r.has("race"), !waits) << r.text();
  }
}

// An ordinary launch waits for everything before it, whatever the kernels between have left out.
TEST(Chain, AnOrdinaryLaunchWaitsForAllBeforeIt) {
  Aligned<float> x(32), out(32);
  const LaunchShape shape = one_block(32);
  const Launch first{shape, [&] {
    grid_dependency_launch();
    for (int i = 0; i < 100; ++i) sync_warp();
    store_global(x.data + lane_index(), 1.0f);
  }, {x.region("x", true)}};
  const Launch last{shape, [&] { store_global(out.data + lane_index(), load_global(x.data + lane_index())); }, {x.region("x"), out.region("out", true)}};
  const Report r = emulate({first, {shape, [] {}, {}, true}, last});
  EXPECT_EQ(r.findings.size(), 1u) << r.text();  // the middle one did not wait
  EXPECT_FALSE(r.has("race")) << r.text();
  EXPECT_EQ(out[5], 1.0f);
}

// ---- the library's kernels -------------------------------------------------------------------------------

struct Pair {
  const char* name;
  Operation operation;
  Configuration first, second;
  i64 m, n, k;
};

// D[m,k] = (A[m,k] B1[n,k]^T) B2[k,n]^T, in two kernels at once.
struct TwoProducts {
  reference::GemmData one, two;
  std::vector<GemmRun> runs;

  TwoProducts(const Pair& p, bool weights_ready)
      : one(reference::make_gemm_data(p.operation, {.m = p.m, .n = p.n, .k = p.k}, offsets(p.operation))),
        two(reference::make_gemm_data(p.operation, {.m = p.m, .n = p.k, .k = p.n}, offsets(p.operation))) {
    for (const auto* data : {&one, &two}) {
      GemmRun run{data->operation, data == &one ? p.first : p.second, data->problem, data->operands, {}, 2};
      for (const reference::HostOperand& x : data->list) run.regions.push_back({x.data(), x.data_bytes(), x.name == "D", x.name});
      runs.push_back(std::move(run));
    }
    runs[1].operands.a = two.operands.a = one.operands.epilogue.d;
    for (Region& r : runs[1].regions)
      if (r.name == "A") r.base = one.find("D")->data(), r.bytes = one.find("D")->data_bytes();
    runs[1].weights_ready = weights_ready;
  }
  static reference::GemmDataOptions offsets(const Operation& o) {
    reference::GemmDataOptions d;
    if (o.inputs == Alignment::any) d.a.pointer_offset = d.d.pointer_offset = 1;
    return d;
  }
  std::string failure(const Options& o, Report& report) {
    report = emulate_gemms(runs, o);
    if (!report.clean()) return report.text();
    for (const auto* data : {&one, &two})
      if (const auto check = data->check({.threads = 1}); !check.passed()) return check.text();
    return one.damage() + two.damage();
  }
};

const Pair kPairs[] = {
    {"cooperative", catalogue::product(DType::bf16, DType::bf16), catalogue::coop(128, 128, 6, 2), catalogue::coop(128, 128, 6, 2), 150, 256, 328},
    {"pingpong", catalogue::product(DType::fp16, DType::fp16), catalogue::pingpong(128, 128, 6, 2), catalogue::pingpong(128, 128, 6, 2), 150, 256, 264},
    {"few_rows", catalogue::product(DType::bf16, DType::bf16), few_rows(64, 128, 6), few_rows(32, 128, 9), 20, 200, 520},
    {"decode", catalogue::product(DType::bf16, DType::bf16), catalogue::decode(32, 64, 128, 8), catalogue::decode(32, 64, 128, 4), 20, 200, 520},
    {"decode_split", catalogue::product(DType::bf16, DType::bf16), catalogue::decode(32, 64, 128, 4, 4), catalogue::decode(32, 64, 128, 4, 2), 20, 392, 520},
    {"decode_after_hopper", catalogue::product(DType::bf16, DType::bf16), catalogue::coop(128, 128, 6, 2), catalogue::decode(64, 128, 64, 7, 2), 40, 264, 328},
    {"rows", catalogue::product(DType::fp32, DType::fp32), catalogue::rows(8, 64, 128, 4, 4, 4, 8), catalogue::rows(16, 32, 128, 4, 4, 6, 8), 12, 136, 264},
    {"rows_split", catalogue::product(DType::fp32, DType::fp32), catalogue::rows(8, 64, 128, 4, 4, 4, 8, 2), catalogue::rows(16, 32, 128, 4, 4, 6, 8, 2), 12, 72, 392},
    {"cluster", catalogue::product(DType::bf16, DType::bf16), catalogue::coop(128, 256, 4, 2, 2), catalogue::coop(128, 256, 4, 2, 2), 200, 256, 328},
    {"epilogue", catalogue::full(DType::bf16, DType::bf16, Activation::gelu_erf), catalogue::coop(128, 128, 6, 2), catalogue::coop(128, 128, 6, 2), 70, 136, 200},
    {"simt", catalogue::unaligned(catalogue::product(DType::fp32, DType::fp32)), catalogue::simt(64, 64, 16, 4, 4), catalogue::simt(32, 32, 16, 4, 4), 70, 50, 40},
};

class Pairs : public testing::TestWithParam<Pair> {};

TEST_P(Pairs, AreCleanAndRightWithAndWithoutReadyWeights) {
  for (const bool ready : {false, true})
    for (const Options& o : every_mode(3)) {
      Report report;
      TwoProducts products(GetParam(), ready);
      ASSERT_EQ(products.failure(o, report), "") << mode_name(o) << (ready ? ", weights ready" : "");
    }
}

// Reading B early is what the promise is for: where B is not promised after all, the same kernel is at fault.
TEST_P(Pairs, BReadEarlyWithoutThePromiseIsReported) {
  if (GetParam().second.family == Family::simt) GTEST_SKIP() << "reads nothing before its wait";
  TwoProducts products(GetParam(), true);
  // The region's base is not B's, so that nothing marks it as ready: it begins one element earlier.
  for (Region& r : products.runs[1].regions)
    if (r.name == "B") r.base = static_cast<const char*>(r.base) - 16, r.bytes += 16;
  Report report;
  products.failure({}, report);
  EXPECT_TRUE(report.has("dependent-launch")) << report.text();
}

TEST_P(Pairs, EveryGridWaitThatGuardsSomethingIsMissed) {
  TwoProducts plain(GetParam(), true);
  Report report;
  ASSERT_EQ(plain.failure({}, report), "");
  Options all;
  for (const CallSite& call : report.calls)
    if (call.call == "grid_dependency_wait") all.mutations.push_back({call.site.file, call.site.line, Mutation::Kind::drop});
  ASSERT_FALSE(all.mutations.empty());
  TwoProducts broken(GetParam(), true);
  EXPECT_NE(broken.failure(all, report), "");
  EXPECT_TRUE(report.has("dependent-launch")) << report.text();
  EXPECT_TRUE(report.has("race")) << report.text();
}

// The decode and the rows kernel read weights ahead; one thread waits, then reads tokens: without that wait the tokens come too
// early, while the kernel before still writes them.
TEST(Chain, TokensReadBeforeTheGridWaitAreReported) {
  for (const Pair& pair : kPairs) {
    if (pair.second.family != Family::decode && pair.second.family != Family::rows) continue;
    const char* const file = pair.second.family == Family::decode ? "gemm_decode.cuh" : "gemm_rows.cuh";
    TwoProducts plain(pair, true);
    Report report;
    ASSERT_EQ(plain.failure({}, report), "");
    int early = 0;
    for (const CallSite& call : report.calls) {
      if (call.call != "grid_dependency_wait" || !std::string_view(call.site.file).ends_with(file)) continue;
      Options one;
      one.mutations.push_back({call.site.file, call.site.line, Mutation::Kind::drop});
      TwoProducts broken(pair, true);
      Report r;
      broken.failure(one, r);
      const std::string text = r.text();
      early += r.has("dependent-launch") && r.has("race") && text.find("tma_load touches A ") != std::string::npos;
    }
    EXPECT_EQ(early, 1) << pair.name << ": one of the waits stands before the tokens";
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Pairs, testing::ValuesIn(kPairs), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace foretile::emulator_tests
