// The repeated call, devices and contexts, stream capture, faults of the driver. Against the pretended driver.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "api/launch_plan.h"
#include "runtime/kernel_store.h"
#include "support.h"

namespace foretile::test {
namespace {

using ::testing::HasSubstr;

class Launches : public FakeGpu {};

u64 now_ns() { return u64(std::chrono::steady_clock::now().time_since_epoch().count()); }

// From matmul()'s entry to the driver's launch function. The least of many calls: what the code takes when nothing interrupts it.
TEST_F(Launches, HotPathBelowThreeMicroseconds) {
  Matmul plain = product(4096, 4096, 4096), full = plain, unaligned = plain, elsewhere = plain;
  full.beta = 1, full.c = {address(3), DType::bf16}, full.bias = {address(4), DType::bf16}, full.residual = {address(5), DType::bf16};
  unaligned.a.ld = 4097;
  elsewhere.device = 2;
  for (const auto& [name, call] : {std::pair{"plain", &plain}, {"full epilogue", &full}, {"unaligned", &unaligned}, {"another device's context", &elsewhere}}) {
    ASSERT_TRUE(matmul(*call));
    fake_cuda().record = false;
    std::vector<u64> ns;
    for (int i = 0; i < 20000; ++i) {
      call->b.data = address(20 + i % 32);  // the next layer's weights: a tensor map changes
      const u64 begin = now_ns();
      ASSERT_TRUE(matmul(*call));
      ns.push_back(fake_cuda().launched_at_ns - begin);
    }
    fake_cuda().record = true;
    std::sort(ns.begin(), ns.end());
    std::printf("  %-25s median %4llu ns, 99th percentile %4llu ns\n", name, ns[ns.size() / 2], ns[ns.size() * 99 / 100]);
    EXPECT_LE(ns[ns.size() / 4], 3000u) << name;
  }
}

TEST_F(Launches, HotPathAllocatesCompilesAndEncodesNothing) {
  Matmul call = product(512, 512, 512);
  Matmul elsewhere = call, unaligned = call;
  elsewhere.device = 2, unaligned.a.ld = 513;
  for (Matmul* each : {&call, &elsewhere, &unaligned}) {
    ASSERT_TRUE(matmul(*each));
    fake_cuda().record = false;
    const int encodes = fake_cuda().encodes, modules = fake_cuda().modules, compiles = fake_cuda().compiles;
    const unsigned long long before = allocations();
    for (int i = 0; i < 100; ++i) {
      each->a.data = address(20 + i), each->b.data = address(200 + i), each->d.data = address(400 + i);
      each->alpha = float(i + 1);
      ASSERT_TRUE(matmul(*each));
    }
    EXPECT_EQ(allocations(), before);
    EXPECT_EQ(fake_cuda().encodes, encodes);
    EXPECT_EQ(fake_cuda().modules, modules);
    EXPECT_EQ(fake_cuda().compiles, compiles);
    fake_cuda().record = true;
  }
}

TEST_F(Launches, TensorMapsFollowThePointers) {
  Matmul call = product(512, 512, 512);
  ASSERT_TRUE(matmul(call));
  const int replaces = fake_cuda().replaces;
  ASSERT_TRUE(matmul(call));
  EXPECT_EQ(fake_cuda().replaces, replaces);  // nothing moved
  for (int i = 0; i < 5; ++i) {
    call.b.data = address(30 + i);
    if (i == 3) call.a.data = address(60), call.d.data = address(61);
    const fake::Launch l = launch_of(call);
    EXPECT_EQ(map_of(l.sm90.a).address, reinterpret_cast<u64>(call.a.data));
    EXPECT_EQ(map_of(l.sm90.b).address, reinterpret_cast<u64>(call.b.data));
    EXPECT_EQ(map_of(l.sm90.d).address, reinterpret_cast<u64>(call.d.data));
    EXPECT_EQ(l.sm90.epilogue.d.data, call.d.data);
  }
  EXPECT_EQ(fake_cuda().replaces, replaces + 5 + 2);
}

TEST_F(Launches, ThreadsShareAPlanWithoutMixingTheirPointers) {
  Matmul call = product(640, 512, 512);
  ASSERT_TRUE(matmul(call));
  fake_cuda().launches.clear();
  constexpr int kThreads = 4, kCalls = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      set_current(primary(0));
      for (int i = 0; i < kCalls; ++i) {
        Matmul mine = call;
        const int at = 3 * (t * kCalls + i);
        mine.a.data = address(100 + at), mine.b.data = address(101 + at), mine.d.data = address(102 + at);
        EXPECT_TRUE(matmul(mine));
      }
    });
  for (std::thread& t : threads) t.join();
  ASSERT_EQ(fake_cuda().launches.size(), std::size_t(kThreads * kCalls));
  for (const fake::Launch& l : fake_cuda().launches) {
    const u64 a = map_of(l.sm90.a).address;
    EXPECT_EQ(map_of(l.sm90.b).address, a + (u64(1) << 44));
    EXPECT_EQ(map_of(l.sm90.d).address, a + (u64(2) << 44));
  }
}

TEST_F(Launches, AThreadThatFindsThePlansMapsTakenMakesItsOwn) {
  Matmul first = product(648, 512, 512), second = first, third = first;
  ASSERT_TRUE(matmul(first));
  second.a.data = address(10), second.b.data = address(11), second.d.data = address(12);
  ASSERT_TRUE(matmul(second));  // the latest maps are the second call's
  third.a.data = address(20);
  fake_cuda().hold_next_replace = true;
  std::thread holder([&] {
    set_current(primary(0));
    EXPECT_TRUE(matmul(third));
  });
  while (!fake_cuda().replace_held) std::this_thread::yield();
  const fake::Launch l = launch_of(second);  // does not wait
  EXPECT_TRUE(fake_cuda().replace_held);
  EXPECT_EQ(map_of(l.sm90.a).address, reinterpret_cast<u64>(address(10)));
  EXPECT_EQ(map_of(l.sm90.b).address, reinterpret_cast<u64>(address(11)));
  EXPECT_EQ(map_of(l.sm90.d).address, reinterpret_cast<u64>(address(12)));
  fake_cuda().replace_held = false;
  holder.join();
}

// B60: what is set of a function is set on each device, and the shared memory is enough for the launch.
TEST_F(Launches, B60_EveryDeviceHasItsOwnFunction) {
  Matmul call = product(768, 768, 768);
  for (const int device : {0, 2, 0, 2}) {
    call.device = device;
    const fake::Launch l = launch_of(call);
    EXPECT_EQ(l.context, primary(device));
    EXPECT_GT(l.shared, 48u * 1024);  // so the pretended driver has seen the opt-in for this very function
    EXPECT_EQ(current(), primary(0));
  }
  EXPECT_EQ(fake_cuda().pushes, fake_cuda().pops);
  std::thread([&] {  // a thread without a context
    EXPECT_TRUE(matmul(call));
    EXPECT_EQ(current(), nullptr);
  }).join();
}

TEST_F(Launches, TheCurrentDeviceIsTheDefault) {
  const Matmul call = product(777, 776, 776);
  set_current(primary(2));
  EXPECT_EQ(launch_of(call).context, primary(2));
  fake::Context* const own = new_context(2);  // not the primary one
  set_current(own);
  EXPECT_EQ(launch_of(call).context, own);
  EXPECT_EQ(current(), own);
  set_current(nullptr);
  EXPECT_EQ(launch_of(call).context, primary(0));
  EXPECT_EQ(current(), nullptr);
}

TEST_F(Launches, OtherGpusTakeThePortableFamily) {
  Matmul call = product(512, 512, 512);
  call.device = 1;  // A100
  const fake::Launch l = launch_of(call);
  EXPECT_FALSE(is_hopper(l));
  EXPECT_THAT(l.image, HasSubstr("sm_80 "));
  EXPECT_EQ(l.context, primary(1));
}

TEST_F(Launches, AStreamOfAnotherDeviceIsNamed) {
  Matmul call = product(520, 512, 512);
  call.stream = new_stream(primary(2));
  for (int round = 0; round < 2; ++round) {
    const Status s = matmul(call);
    EXPECT_EQ(s.code(), Code::invalid_argument);
    EXPECT_THAT(s.message(), HasSubstr("stream belongs to device 2"));
    EXPECT_THAT(s.message(), HasSubstr("runs on device 0"));
    Matmul without = call;  // makes the plan: in the second round the driver's refusal must be explained as well
    without.stream = nullptr;
    EXPECT_TRUE(matmul(without));
  }
  call.device = 2;
  EXPECT_EQ(launch_of(call).stream, call.stream);
}

TEST_F(Launches, InsideACaptureOnlyWhatIsPrepared) {
  auto* const stream = new_stream(primary(0));
  Matmul call = product(896, 896, 896);
  call.bias = {address(4), DType::fp16};
  call.activation = Activation::silu;
  call.stream = stream;
  stream->capturing = 1;
  const int modules = fake_cuda().modules, compiles = fake_cuda().compiles, launches = fake_cuda().launch_count;
  for (const Status& s : {matmul(call), prepare(call), prepare(call, 1, 64)}) {
    EXPECT_EQ(s.code(), Code::not_prepared) << s.message();
    EXPECT_THAT(s.message(), HasSubstr("prepare"));
  }
  EXPECT_EQ(fake_cuda().modules, modules);
  EXPECT_EQ(fake_cuda().compiles, compiles);
  EXPECT_EQ(fake_cuda().launch_count, launches);
  stream->capturing = 0;
  ASSERT_TRUE(prepare(call));
  EXPECT_EQ(fake_cuda().launch_count, launches);
  stream->capturing = 1;
  call.a.data = address(50), call.alpha = 0.5f;  // addresses and values are free
  EXPECT_EQ(launch_of(call).stream, stream);
  // Another M whose kernel is loaded already needs no preparation: a plan is host memory alone.
  stream->capturing = 0;
  ASSERT_TRUE(prepare(call, 880, 910));
  stream->capturing = 1;
  const int loaded = fake_cuda().modules;
  for (call.m = 880; call.m <= 910; ++call.m) EXPECT_TRUE(matmul(call));
  EXPECT_EQ(fake_cuda().modules, loaded);
}

// B64: kernels do not depend on M; a range of M compiles a few of them, once.
TEST_F(Launches, B64_ARangeOfMCompilesAFewKernels) {
  Matmul call = product(0, 1024, 512);
  call.d.dtype = DType::fp32;
  const StoreCounts before = KernelStore::process().counts();
  ASSERT_TRUE(prepare(call, 1, 4096));
  const StoreCounts after = KernelStore::process().counts();
  EXPECT_GE(after.compiled, before.compiled + 1);
  EXPECT_LE(after.compiled, before.compiled + 16);
  std::printf("  %llu kernels for 4096 values of M\n", after.compiled - before.compiled);
  fake_cuda().record = false;
  for (call.m = 1; call.m <= 4096; ++call.m) ASSERT_TRUE(matmul(call));
  EXPECT_EQ(KernelStore::process().counts().compiled, after.compiled);
  EXPECT_EQ(KernelStore::process().counts().loaded, after.loaded);
  EXPECT_EQ(prepare(call, 5, 4).code(), Code::invalid_argument);
}

TEST_F(Launches, FaultsOfTheDriverCarryItsWords) {
  Matmul call = product(904, 896, 896);
  ASSERT_TRUE(matmul(call));  // from now on there are plans to look among
  const auto fail_once = [&](const char* name, int code) {
    // Whether there is a plan is asked first, and its failure to ask is no failure yet.
    fake_cuda().fail_name = name, fake_cuda().fail_code = code, fake_cuda().fail_times = std::string(name) == "cuCtxGetCurrent" ? 2 : 1;
  };
  for (const char* name : {"cuCtxGetCurrent", "cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute", "cuTensorMapEncodeTiled", "cuLaunchKernelEx"}) {
    fail_once(name, 2);
    call.k += 8;  // no plan, and with the tile perhaps no kernel yet
    call.activation = Activation::gelu_tanh;
    call.bias = {address(4), DType::fp32};
    const bool needs_load = std::string(name).find("Module") != std::string::npos || std::string(name).find("Func") != std::string::npos;
    if (needs_load) call.device = -1, set_current(new_context(0));  // nothing is loaded in a new context
    const Status s = matmul(call);
    EXPECT_EQ(s.code(), Code::driver_error) << name;
    EXPECT_THAT(s.message(), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY")) << name;
    EXPECT_EQ(fake_cuda().fail_times, 0) << name;
    EXPECT_TRUE(matmul(call)) << "a failure is not kept: " << name;
  }
  fail_once("cuLaunchKernelEx", 719);  // in the repeated call
  const Status s = matmul(call);
  EXPECT_EQ(s.code(), Code::driver_error);
  EXPECT_THAT(s.message(), HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
}

// B87: a driver that cannot load the code: both versions are named, and the next call tries again.
TEST_F(Launches, B87_CodeThatTheDriverDoesNotLoad) {
  Matmul call = product(64, 72, 80);
  call.d.dtype = DType::fp16;
  call.activation = Activation::relu;
  fake_cuda().fail_name = "cuModuleLoadData", fake_cuda().fail_code = 209, fake_cuda().fail_times = 1;
  const Status s = matmul(call);
  EXPECT_EQ(s.code(), Code::driver_error);
  EXPECT_THAT(s.message(), HasSubstr("13.0"));
  EXPECT_THAT(s.message(), HasSubstr("compiled by"));
  EXPECT_THAT(s.message(), HasSubstr("CUDA_ERROR_NO_BINARY_FOR_GPU"));
  EXPECT_TRUE(matmul(call));
  // Code from the cache that the driver refuses is compiled anew.
  set_current(new_context(0));
  const int compiles = fake_cuda().compiles;
  fake_cuda().fail_times = 1;
  EXPECT_TRUE(matmul(call));
  EXPECT_EQ(fake_cuda().compiles, compiles + 1);
}

TEST_F(Launches, CompileErrorsCarryTheLog) {
  Matmul call = product(64, 72, 88);
  call.residual = {address(4), DType::fp16};
  fake_cuda().compile_fails = true;
  Status s = matmul(call);
  EXPECT_EQ(s.code(), Code::compile_error);
  EXPECT_THAT(s.message(), HasSubstr("as the test asked"));
  fake_cuda().compile_fails = false;
  fake_cuda().compile_log = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n";
  s = matmul(call);
  EXPECT_EQ(s.code(), Code::compile_error);
  EXPECT_THAT(s.message(), HasSubstr("C7510"));
  fake_cuda().compile_log = "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n";
  s = matmul(call);
  EXPECT_EQ(s.code(), Code::compile_error);
  EXPECT_THAT(s.message(), HasSubstr("spills registers"));
  fake_cuda().compile_log.clear();
  EXPECT_TRUE(matmul(call));
}

// Many threads, one kernel: one compile. Another kernel meanwhile: not held up.
TEST_F(Launches, ACompileHoldsUpOnlyThoseWhoWantIt) {
  Matmul slow = product(64, 80, 96), known = product(64, 80, 96);
  slow.bias = {address(4), DType::fp32}, slow.d.dtype = DType::fp32;
  ASSERT_TRUE(matmul(known));
  fake_cuda().compile_milliseconds = 500;
  const int compiles = fake_cuda().compiles, modules = fake_cuda().modules;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      set_current(primary(0));
      EXPECT_TRUE(matmul(slow));
    });
  while (fake_cuda().compiles == compiles) std::this_thread::yield();
  const u64 begin = now_ns();
  EXPECT_TRUE(matmul(known));
  Matmul new_plan = known;
  new_plan.m = 63;
  EXPECT_TRUE(matmul(new_plan));  // a known kernel under a new plan
  EXPECT_LT(now_ns() - begin, 250000000u);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(fake_cuda().compiles, compiles + 1);
  EXPECT_EQ(fake_cuda().modules, modules + 1);
}

TEST_F(Launches, AnSmBudgetIsKept) {
  Matmul call = product(8192, 8192, 512);
  EXPECT_GT(launch_of(call).grid[0], 120u);
  call.sm_budget = 40;
  EXPECT_LE(launch_of(call).grid[0], 40u);
}

TEST_F(Launches, DeviceMemoryHoldsWhatIsPutThere) {
  DeviceMemory memory;
  ASSERT_TRUE(memory.allocate(64, 2));
  const int numbers[4] = {1, 2, 3, 4};
  int back[4] = {};
  ASSERT_TRUE(memory.upload(numbers, sizeof numbers));
  DeviceMemory moved = std::move(memory);
  EXPECT_EQ(memory.data(), nullptr);
  ASSERT_TRUE(moved.download(back, sizeof back));
  EXPECT_EQ(back[3], 4);
  EXPECT_EQ(moved.upload(numbers, 65).code(), Code::invalid_argument);
  EXPECT_EQ(current(), primary(0));
}

}  // namespace
}  // namespace foretile::test
