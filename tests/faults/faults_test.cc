// Known faults of other libraries, on the CPU: named by their number in the collection of cases. The production kernels run
// in the emulator; what needs gigabytes or 65,536 tiles is in tests/gpu.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "api/check.h"
#include "faults/run.h"
#include "foretile/device/catalogue.h"
#include "foretile/device/layout/tile_order.h"
#include "foretile/device/legality.h"
#include "foretile/foretile.h"
#include "model/text.h"
#include "reference/convert.h"

namespace foretile {
namespace {

constexpr Configuration kHopper = catalogue::coop(128, 128, 6, 2);
constexpr Configuration kPortable = catalogue::simt(64, 64, 16, 4, 4);
const Operation kAligned = catalogue::product(DType::bf16, DType::bf16);
const Operation kUnaligned = catalogue::unaligned(kAligned);
const Operation kFp32 = catalogue::unaligned(catalogue::product(DType::fp32, DType::fp32));

// Address space without memory behind it, but for the rows that are touched.
class Sparse {
 public:
  explicit Sparse(std::size_t bytes) : bytes_(bytes) {
    base_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base_ == MAP_FAILED) base_ = nullptr;
  }
  ~Sparse() {
    if (base_) munmap(base_, bytes_);
  }
  bf16* data() const { return static_cast<bf16*>(base_); }

 private:
  void* base_;
  std::size_t bytes_;
};

// B01: rows that start beyond 2^31 and 2^32 elements, of A and of D.
TEST(Faults, B01_OffsetsBeyond32Bits) {
  constexpr i64 m = 2049, n = 16, k = 16;
  for (const i64 ld : {i64(1) << 20, i64(1) << 21}) {
    const std::size_t bytes = std::size_t((m - 1) * ld + 64) * 2;
    const Sparse a(bytes), d(bytes);
    if (!a.data() || !d.data()) GTEST_SKIP() << "no address space for " << bytes << " bytes twice";
    std::vector<bf16> b(n * k);
    for (i64 row = 0; row < m; ++row)
      for (i64 i = 0; i < k; ++i) reference::store(DType::bf16, a.data() + row * ld, i, double((row + 3 * i) % 5 - 2));
    for (i64 i = 0; i < n * k; ++i) reference::store(DType::bf16, b.data(), i, double(i % 7 - 3));
    for (const Configuration& c : {kHopper, kPortable}) {
      for (i64 row = 0; row < m; ++row)
        for (i64 i = 0; i < n; ++i) d.data()[row * ld + i].bits = 0x7FFF;
      emulator::GemmRun run{c.family == Family::sm90 ? kAligned : kUnaligned, c, {m, n, k, 1}, {}, {}, 2};
      run.operands.a = {a.data(), ld, 0}, run.operands.b = {b.data(), k, 0}, run.operands.epilogue.d = {d.data(), ld, 0};
      run.regions = {{a.data(), bytes, false, "A"}, {b.data(), b.size() * 2, false, "B"}, {d.data(), bytes, true, "D"}};
      const emulator::Report report = emulate_gemm(run, quick());
      ASSERT_TRUE(report.clean()) << report.text();
      const reference::CheckResult check = reference::check(run.operation, run.problem, run.operands);
      EXPECT_TRUE(check.passed()) << text_of(c) << " ld=" << ld << ": " << check.text();
    }
  }
}

// B02: an empty sum writes every element.
TEST(Faults, B02_KIsZero) {
  for (const i64 batch : {1, 3}) {
    EXPECT_EQ(run(kUnaligned, kPortable, {3, 3, 0, batch}), "");
    EXPECT_EQ(run(kFp32, kPortable, {3, 70, 0, batch}), "");
    reference::GemmDataOptions d;
    d.beta = 2, d.values = reference::Values::normal;
    EXPECT_EQ(run(catalogue::unaligned(catalogue::full(DType::bf16, DType::bf16, Activation::gelu_erf)), kPortable, {5, 66, 0, batch}, d), "");
  }
  EXPECT_NE(why_not(kAligned, kHopper, Problem{3, 3, 0, 1}), nullptr) << "a tensor map cannot be empty: the Hopper family must not be chosen";
}

// B04: beta = 0 never reads C, alpha = 0 keeps NaN of A and B out.
TEST(Faults, B04_BetaZeroDoesNotReadC) {
  for (const Configuration& c : {kHopper, kPortable})
    for (const double poison : {std::nan(""), double(INFINITY)})
      for (const bool alias : {false, true}) {
        // The operation with C alone that the emulator has built in: C in fp32.
        Operation o = kAligned;
        o.has_c = true, o.c = alias ? DType::bf16 : DType::fp32;
        if (alias) o = catalogue::full(DType::bf16, DType::bf16, Activation::gelu_erf);
        if (c.family == Family::simt) o = catalogue::unaligned(o);
        reference::GemmDataOptions options;
        options.beta = 0, options.c_is_d = alias;
        if (alias) options.values = reference::Values::normal;
        reference::GemmData data = reference::make_gemm_data(o, {64, 64, 64, 1}, options);
        spoil(data, alias ? "D" : "C", poison);
        EXPECT_EQ(run(data, c), "") << text_of(c) << " C = " << poison;
      }
}

// B05: batches, and tiles of M, beyond the 65,535 that a grid's y and z can count.
TEST(Faults, B05_LargeBatchesAndManyTiles) {
  for (const Configuration& c : {kHopper, kPortable})
    for (const Problem& p : {Problem{16, 16, 8, 65536}, Problem{16, 1, 8, 65536}, Problem{i64(65536) * 128 + 5, 8, 16, 1}}) {
      const Operation o = c.family == Family::sm90 ? kAligned : kUnaligned;
      EXPECT_EQ(why_not(o, c, p), nullptr);
      const LaunchShape shape = launch_shape(o, c, p, 132);
      EXPECT_LE(shape.blocks, 132u * 32u) << "a persistent launch: the number of blocks follows from the GPU, not from the problem";
      // The blocks' walk meets every tile once.
      const TileGrid grid = tile_grid(c, p, int(shape.blocks));
      const i64 count = tile_count(grid);
      EXPECT_EQ(count, ceil_div(p.m, c.tile_m) * ceil_div(p.n, c.tile_n) * p.batch);
      std::vector<bool> seen(std::size_t(count), false);
      for (i64 i = 0; i < count; ++i) {
        const TileCoordinate t = tile_at(i32(i), grid);
        ASSERT_TRUE(t.m >= 0 && t.m < grid.tiles_m && t.n >= 0 && t.n < grid.tiles_n && t.batch >= 0 && t.batch < grid.batch);
        const i64 at = (i64(t.batch) * grid.tiles_m + t.m) * grid.tiles_n + t.n;
        ASSERT_FALSE(seen[std::size_t(at)]);
        seen[std::size_t(at)] = true;
      }
    }
  EXPECT_EQ(run(kUnaligned, catalogue::simt(32, 32, 16, 4, 4), {3, 2, 2, 300}), "");
}

// B18: strides that TMA cannot take go another way, and are exact.
TEST(Faults, B18_UnalignedStrides) {
  const auto aligned = [](i64 extra_a, i64 extra_d) {
    reference::GemmDataOptions d;
    d.a.ld_padding = extra_a, d.d.ld_padding = extra_d;
    return reference::make_gemm_data(kUnaligned, {3, 132, 64, 1}, d).operation;
  };
  // N = 132 in bf16: rows of D of 264 bytes, which TMA cannot store.
  EXPECT_EQ(aligned(0, 0).inputs, Alignment::tma);
  EXPECT_EQ(aligned(0, 0).output, Alignment::any);
  EXPECT_EQ(aligned(0, 4).output, Alignment::tma);
  for (const i64 extra : {1, 2, 4}) {
    EXPECT_EQ(aligned(extra, 0).inputs, Alignment::any);
    EXPECT_NE(why_not(aligned(extra, 0), kHopper), nullptr);
    reference::GemmDataOptions d;
    d.a.ld_padding = extra, d.b.ld_padding = extra;
    EXPECT_EQ(run(kUnaligned, kPortable, {5, 132, 64, 1}, d), "");
  }
  Operation direct = kAligned;
  direct.output = Alignment::any;
  EXPECT_EQ(run(direct, kHopper, {3, 132, 192, 1}), "") << "TMA loads, direct stores";
  EXPECT_EQ(run(kFp32, kPortable, {9, 5, 21, 1}), "");
}

// B22: tails, with NaN just past each row of A and B: zeros must fill both operands (0 * NaN would show).
TEST(Faults, B22_Tails) {
  for (const i64 k : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 127, 129}) {
    reference::GemmDataOptions d;
    d.a.ld_padding = d.b.ld_padding = 8;  // NaN, as all that is not an element
    EXPECT_EQ(run(kUnaligned, kPortable, {17, 33, k, 1}, d), "");
    EXPECT_EQ(run(kFp32, kPortable, {65, 7, k, 1}, d), "");
    d.a.ld_padding = d.b.ld_padding = round_up(k, 8) - k + 8;  // rows on 16 bytes
    EXPECT_EQ(run(kAligned, kHopper, {k % 2 ? 129 : 63, k % 3 ? 136 : 24, k, 1}, d), "");
  }
  for (const i64 mn : {1, 2, 3, 7, 15, 17, 31, 33, 63, 65}) EXPECT_EQ(run(kUnaligned, kPortable, {mn, 66 - mn, 19, 1}), "");
}

// B26: the stride of a dimension of one is not looked at, whatever it is. The interface's check makes it canonical.
TEST(Faults, B26_StridesOfSizeOne) {
  const auto code = [](i64 m, i64 n, i64 k, i64 lda, i64 ldb, i64 ldd) {
    Matmul call;
    call.m = m, call.n = n, call.k = k;
    call.a = Matrix(reinterpret_cast<void*>(0x10000000), DType::bf16, lda), call.b = Matrix(reinterpret_cast<void*>(0x20000000), DType::bf16, ldb);
    call.d = Matrix(reinterpret_cast<void*>(0x30000000), DType::bf16, ldd);
    return prepare(call).code();
  };
  for (const i64 stride : {0, 1, 7, 1'000'000'000}) {
    EXPECT_NE(code(1, 64, 64, stride, 64, stride), Code::invalid_argument) << "M = 1, stride " << stride;
    EXPECT_NE(code(64, 1, 64, 64, stride, 1), Code::invalid_argument) << "N = 1, stride " << stride;
  }
  EXPECT_EQ(code(2, 64, 64, 7, 64, 64), Code::invalid_argument) << "two rows, and the stride is too small";
}

// B67: sizes that are no multiple of the tile, not square.
TEST(Faults, B67_AnySizeInThePortableKernel) {
  for (const Configuration& c : catalogue::kConfigurations) {
    if (c.family != Family::simt) continue;
    for (const Problem& p : {Problem{127, 127, 127, 1}, Problem{1, 1, 1, 1}, Problem{34, 34, 34, 1}, Problem{100, 70, 33, 1}}) EXPECT_EQ(run(kFp32, c, p), "");
  }
}

// B73: fp32 is fp32 on every path (edges of tiles, K split, a vector, batches), and tf32 is there for whom it asks for alone.
TEST(Faults, B73_Fp32IsNotTf32) {
  Matmul call;
  call.m = call.n = call.k = 64;
  call.a = Matrix(reinterpret_cast<void*>(0x10000000), DType::fp32), call.b = Matrix(reinterpret_cast<void*>(0x20000000), DType::fp32), call.d = Matrix(reinterpret_cast<void*>(0x30000000), DType::fp32);
  CheckedCall checked;
  ASSERT_TRUE(check_call(call, Pointers::real, checked));
  EXPECT_EQ(text_of(checked.operation), "fp32xfp32->fp32:nt:tma:tma");
  call.compute = Compute::tf32;
  ASSERT_TRUE(check_call(call, Pointers::real, checked));
  EXPECT_EQ(text_of(checked.operation), "tf32xtf32->fp32:nt:tma:tma");

  const auto product = [](const Operation& o, const Configuration& c) {
    std::vector<float> a = {1024.5f, 0, 0, 0}, b = {1, 0, 0, 0}, d = {-1, -1, -1, -1};
    emulator::GemmRun run{o, c, {1, 1, 1, 1}, {}, {}, 1};
    run.operands.a = {a.data(), 4, 0}, run.operands.b = {b.data(), 4, 0}, run.operands.epilogue.d = {d.data(), 4, 0};
    run.regions = {{a.data(), 4, false, "A"}, {b.data(), 4, false, "B"}, {d.data(), 4, true, "D"}};
    const emulator::Report report = emulate_gemm(run, quick());
    EXPECT_TRUE(report.clean()) << text_of(c) << ": " << report.text();
    return d[0];
  };
  const Operation exact = catalogue::product(DType::fp32, DType::fp32), cut = catalogue::product(DType::tf32, DType::fp32);
  int paths = 0, cut_paths = 0;
  for (const Configuration& c : catalogue::kConfigurations) {
    if (!why_not(exact, c)) {
      ++paths;
      EXPECT_FALSE(uses_tensor_cores(c.family)) << text_of(c) << " has no tensor cores for fp32";
      EXPECT_EQ(product(exact, c), 1024.5f) << text_of(c);
      const i64 k = c.family == Family::gemv ? 1500 : 500;
      for (const Problem& p : {Problem{c.tile_m + 1, c.tile_n + 3, k, 1}, Problem{1, 21, k, 3}}) EXPECT_EQ(run(exact, c, p, {.values = reference::Values::normal}), "");
    }
    if (!why_not(cut, c)) {
      ++cut_paths;
      EXPECT_EQ(product(cut, c), 1024.0f) << text_of(c) << ", asked for tf32: ten bits behind the first";
    }
  }
  EXPECT_GE(paths, 10);
  EXPECT_GE(cut_paths, 18);
}

// B90: odd sizes are taken, and only the contiguous dimension matters to alignment.
TEST(Faults, B90_OddSizes) {
  EXPECT_EQ(run(catalogue::unaligned(catalogue::product(DType::bf16, DType::bf16)), kPortable, {2, 4, 3, 1}), "");
  EXPECT_EQ(run(kUnaligned, kPortable, {1, 105, 107, 1}), "");
  const Operation odd_m = reference::make_gemm_data(catalogue::unaligned(catalogue::product(DType::fp16, DType::fp16)), {147, 64, 128, 1}).operation;
  EXPECT_EQ(odd_m.inputs, Alignment::tma) << "an odd M must not keep the Hopper kernel away";
  EXPECT_EQ(run(catalogue::product(DType::fp16, DType::fp16), kHopper, {147, 64, 128, 1}), "");
}

// B94: rectangular, every transpose that is built in, leading dimensions larger than needed; too small ones are refused.
TEST(Faults, B94_TransposesAndLeadingDimensions) {
  const auto transposed = [](Operation o, bool a, bool b) {
    o.transpose_a = a, o.transpose_b = b;
    return o;
  };
  for (const i64 padding : {0, 3}) {
    reference::GemmDataOptions d;
    d.a.ld_padding = d.b.ld_padding = d.d.ld_padding = padding;
    const Problem p{2, 3, 4, 1};
    EXPECT_EQ(run(kUnaligned, kPortable, p, d), "");
    EXPECT_EQ(run(transposed(kUnaligned, true, false), kPortable, p, d), "");
    EXPECT_EQ(run(transposed(catalogue::unaligned(catalogue::product(DType::fp16, DType::fp32)), false, true), kPortable, p, d), "");
    EXPECT_EQ(run(transposed(catalogue::unaligned(catalogue::full(DType::fp32, DType::fp32, Activation::relu)), true, true), kPortable, p, d), "");
  }
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      Matmul call;
      call.m = 2, call.n = 3, call.k = 4;
      call.a = Matrix(reinterpret_cast<void*>(0x10000000), DType::fp32, ta ? 2 : 4, 0, ta), call.b = Matrix(reinterpret_cast<void*>(0x20000000), DType::fp32, tb ? 3 : 4, 0, tb);
      call.d = Matrix(reinterpret_cast<void*>(0x30000000), DType::fp32, 3);
      EXPECT_NE(prepare(call).code(), Code::invalid_argument);
      for (Matrix* x : {&call.a, &call.b, &call.d}) {
        --x->ld;
        const Status s = prepare(call);
        ++x->ld;
        EXPECT_EQ(s.code(), Code::invalid_argument);
        const char* name = x == &call.a ? "ld of A" : x == &call.b ? "ld of B" : "ld of D";
        EXPECT_NE(s.message().find(name), std::string::npos) << s.message();
      }
    }
}

}  // namespace
}  // namespace foretile
