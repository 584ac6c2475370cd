// fp32 and its products in tf32 on the GPU: which bits of the inputs count. The emulator's tests (tests/emulator/tf32_test.cc) say
// the same of the same kernels.
#include <cstring>
#include <random>

#include "foretile/foretile.h"
#include "gpu/placed.h"

namespace foretile::gpu_tests {
namespace {

using Bits = std::vector<u32>;

// D = A[m,k] x B[n,k]^T, all fp32 with rows of `ld` elements, as bits. Null configuration: the library's choice.
Bits product_of(const Bits& a, const Bits& b, i64 m, i64 n, i64 k, i64 ld, Compute compute, const Configuration* c) {
  DeviceMemory left, right, out;
  Bits d(std::size_t(m * n), 0xffffffffu);
  Matmul call;
  call.m = m, call.n = n, call.k = k, call.compute = compute, call.configuration = c;
  Status s;
  for (const auto& [memory, from] : {std::pair{&left, &a}, {&right, &b}, {&out, static_cast<const Bits*>(&d)}}) {
    if (s) s = memory->allocate(from->size() * 4);
    if (s) s = memory->upload(from->data(), from->size() * 4);
  }
  call.a = Matrix(left.data(), DType::fp32, ld), call.b = Matrix(right.data(), DType::fp32, ld), call.d = Matrix(out.data(), DType::fp32);
  if (s) s = matmul(call);
  if (s) s = out.download(d.data(), d.size() * 4);
  EXPECT_TRUE(s) << s.message();
  return d;
}

struct Path {
  Compute compute;
  const Configuration* configuration;
  std::string name;
};
std::vector<Path> paths(const bench::Gpu& gpu) {
  std::vector<Path> list;
  for (const Compute compute : {Compute::exact, Compute::tf32}) {
    list.push_back({compute, nullptr, std::string(name_of(compute)) + ", the library's choice"});
    for (const Configuration& c : catalogue::kConfigurations)
      if (!why_not(operation(input_type(DType::fp32, compute), DType::fp32), c) && (!needs_hopper(c.family) || gpu.info().compute_capability == 90))
        list.push_back({compute, &c, std::string(name_of(compute)) + ", " + text_of(c)});
  }
  return list;
}
u32 counted(u32 bits, Compute compute) { return compute == Compute::tf32 ? bits & ~0x1fffu : bits; }

// Each element of D is one product by 1, so that it shows what counted of the other factor.
TEST(GpuTf32, WhatCountsOfEachInput) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  constexpr i64 kSize = 160;
  std::mt19937 random(73);
  Bits values, one(kSize * kSize);
  for (i64 i = 0; i < kSize; ++i) one[std::size_t(i * kSize + i)] = 0x3f800000;
  for (i64 i = 0; i < kSize * kSize; ++i) {
    const u32 low = i % 3 == 0 ? 0x1fff : i % 3 == 1 ? 0x1000 : random() & 0x1fff, kept = i % 5 == 0 ? 0x7fe000 : random() & 0x7fe000;
    values.push_back((random() & 1) << 31 | (i == 0 ? 254 : i == 1 ? 1 : 64 + random() % 128) << 23 | kept | low);
  }
  for (const Path& path : paths(gpu)) {
    const Bits a = product_of(values, one, kSize, kSize, kSize, kSize, path.compute, path.configuration), b = product_of(one, values, kSize, kSize, kSize, kSize, path.compute, path.configuration);
    int wrong_a = 0, wrong_b = 0;
    std::string first;
    for (i64 row = 0; row < kSize; ++row)
      for (i64 column = 0; column < kSize; ++column) {
        const u32 value = values[std::size_t(row * kSize + column)], expected = counted(value, path.compute), got_a = a[std::size_t(row * kSize + column)], got_b = b[std::size_t(column * kSize + row)];
        wrong_a += got_a != expected, wrong_b += got_b != expected;
        char text[80];
        std::snprintf(text, sizeof text, "%08x became %08x (A) and %08x (B), should be %08x", value, got_a, got_b, expected);
        if (first.empty() && (got_a != expected || got_b != expected)) first = text;
      }
    EXPECT_EQ(wrong_a + wrong_b, 0) << path.name << ": " << wrong_a << " of A, " << wrong_b << " of B; first: " << first;
  }
}

// B73: [1024.5] x [1.0]. And what becomes of infinity and NaN, among them NaN whose set bits are all among those that tf32 drops.
TEST(GpuTf32, B73_OneElementAndWhatIsNoNumber) {
  GPU_OR_SKIP();
  const bench::Gpu gpu;
  for (const Path& path : paths(gpu))
    for (const u32 value : {0x44801000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f802000u, 0x7f801fffu, 0x7f800001u}) {
      const Bits a = {value, 0, 0, 0}, b = {0x3f800000, 0, 0, 0};
      const u32 got = product_of(a, b, 1, 1, 1, 4, path.compute, path.configuration)[0], expected = counted(value, path.compute);
      const bool nan = (expected & 0x7fffffff) > 0x7f800000;
      EXPECT_TRUE(nan ? (got & 0x7fffffff) > 0x7f800000 : got == expected) << path.name << ": " << std::hex << value << " became " << got << ", should be " << (nan ? "NaN" : "") << expected;
    }
}

}  // namespace
}  // namespace foretile::gpu_tests
