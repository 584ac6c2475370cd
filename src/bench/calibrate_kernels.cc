#include "bench/calibrate_kernels.h"

namespace foretile::bench {

const char* const kCalibrationSource = R"CUDA(
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ inline u64 now() {
  u64 t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory");
  return t;
}
struct Quad { u32 x, y, z, w; };
// Past L1: what is measured is L2 or DRAM.
__device__ inline Quad load_past_l1(const Quad* p) {
  Quad v;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}
__device__ inline u32 load_word_past_l1(const u32* p) {
  u32 v;
  asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
// The result goes out only for a value that never comes, so that nothing is dead code and nothing is stored.
__device__ inline void keep(u32 v, u32* out) {
  if (v == 0x12345679u) *out = v;
}
__device__ inline void finish(u64 start, u64* clocks) {
  __syncthreads();
  if (threadIdx.x == 0) clocks[blockIdx.x] = now() - start;
}

extern "C" __global__ void nothing() {}

// All SMs busy and nothing else: `clocks_to_go` SM clocks.
extern "C" __global__ void spin(u64 clocks_to_go, u64* clocks) {
  const u64 start = now();
  while (now() - start < clocks_to_go) {}
  finish(start, clocks);
}

// Reads `count` times 16 bytes, `passes` times, all blocks together.
extern "C" __global__ void __launch_bounds__(512) read(const Quad* in, u64 count, int passes, u32* out, u64* clocks) {
  const u64 start = now(), stride = u64(gridDim.x) * blockDim.x;
  u32 sum = 0;
  for (int pass = 0; pass < passes; ++pass) {
    u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < count; i += 4 * stride) {
      const Quad a = load_past_l1(in + i), b = load_past_l1(in + i + stride), c = load_past_l1(in + i + 2 * stride), d = load_past_l1(in + i + 3 * stride);
      sum ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
    }
    for (; i < count; i += stride) sum ^= load_past_l1(in + i).x;
  }
  keep(sum, out);
  finish(start, clocks);
}

// A chain of dependent loads: table[j] is the next j. One thread. It goes on where the last launch stopped (*place), so that a
// chain longer than L2 never comes back to a line that is still there.
extern "C" __global__ void chase_global(const u32* table, int steps, u32* place, u64* clocks) {
  u32 j = *place;
  const u64 start = now();
  for (int i = 0; i < steps; ++i) j = load_word_past_l1(table + j);
  const u64 end = now();
  *place = j;
  clocks[blockIdx.x] = end - start;
}
extern "C" __global__ void chase_shared(int steps, u32* out, u64* clocks) {
  __shared__ u32 table[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) table[i] = u32((i + 33) % 1024);
  __syncthreads();
  u32 address, j = 0;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(address) : "l"(table));
  const u64 start = now();
  for (int i = 0; i < steps; ++i) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(j) : "r"(address + 4 * j));
  const u64 end = now();
  keep(j, out);
  if (threadIdx.x == 0) clocks[blockIdx.x] = end - start;
}

// Neighbouring threads, neighbouring words or quads: no conflicts. 8 loads an iteration, volatile, or the assembler would make
// one of two that read the same place.
extern "C" __global__ void __launch_bounds__(1024) shared_words(int iterations, u32* out, u64* clocks) {
  __shared__ u32 tile[8192];
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) tile[i] = u32(i);
  __syncthreads();
  u32 address, sum = 0;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(address) : "l"(tile + threadIdx.x));
  const u64 start = now();
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      u32 v;
      asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(address + 4096 * (j & 3)));
      sum ^= v;
    }
  }
  keep(sum, out);
  finish(start, clocks);
}
extern "C" __global__ void __launch_bounds__(1024) shared_quads(int iterations, u32* out, u64* clocks) {
  __shared__ Quad tile[2048];
  for (int i = threadIdx.x; i < 2048; i += blockDim.x) tile[i] = Quad{u32(i), u32(i), u32(i), u32(i)};
  __syncthreads();
  u32 address, sum = 0;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(address) : "l"(tile + threadIdx.x));
  const u64 start = now();
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      Quad v;
      asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address + 16384 * (j & 1)));
      sum ^= v.x ^ v.y ^ v.z ^ v.w;
    }
  }
  keep(sum, out);
  finish(start, clocks);
}

// 64 multiply-adds a thread and iteration, 8 independent sums.
extern "C" __global__ void __launch_bounds__(1024) fp32_multiply_adds(int iterations, u32* out, u64* clocks) {
  float a[8], x = 1.0f + float(threadIdx.x) * 1e-7f, y = float(blockIdx.x) * 1e-9f;
#pragma unroll
  for (int j = 0; j < 8; ++j) a[j] = float(j);
  const u64 start = now();
  for (int i = 0; i < iterations; ++i)
#pragma unroll
    for (int j = 0; j < 64; ++j) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(a[j & 7]) : "f"(x), "f"(y));
  float sum = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) sum += a[j];
  keep(__float_as_uint(sum), out);
  finish(start, clocks);
}
extern "C" __global__ void __launch_bounds__(1024) half2_multiply_adds(int iterations, u32* out, u64* clocks) {
  u32 a[8], x = 0x3c003c00u + threadIdx.x % 3, y = 0x00010001u;
#pragma unroll
  for (int j = 0; j < 8; ++j) a[j] = u32(j);
  const u64 start = now();
  for (int i = 0; i < iterations; ++i)
#pragma unroll
    for (int j = 0; j < 64; ++j) asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(a[j & 7]) : "r"(x), "r"(y));
  u32 sum = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) sum ^= a[j];
  keep(sum, out);
  finish(start, clocks);
}

__device__ inline u32 bits_of(float v) { return __float_as_uint(v); }
__device__ inline u32 bits_of(int v) { return u32(v); }

// mma.sync with fp32 (int32) sums: four independent tiles a warp, four products an iteration and tile. Operands are
// pseudo-random bits, or zeros, as `data` says.
#define MMA_KERNEL(name, registers_a, registers_b, instruction, sum_type, constraint)                                        \
  extern "C" __global__ void __launch_bounds__(512) name(int iterations, int data, u32* out, u64* clocks) {                  \
    u32 a[4], b[2], h = (threadIdx.x + blockIdx.x * 977u) * 2654435761u;                                                     \
    for (int j = 0; j < 4; ++j) a[j] = data ? (h = h * 1664525u + 1013904223u) & 0xbfffbfffu : 0;                            \
    for (int j = 0; j < 2; ++j) b[j] = data ? (h = h * 1664525u + 1013904223u) & 0xbfffbfffu : 0;                            \
    sum_type c[4][4] = {};                                                                                                   \
    const u64 start = now();                                                                                                 \
    for (int i = 0; i < iterations; ++i)                                                                                     \
      _Pragma("unroll") for (int j = 0; j < 16; ++j) {                                                                       \
        sum_type* s = c[j & 3];                                                                                              \
        asm volatile(instruction " {%0, %1, %2, %3}, " registers_a ", " registers_b ", {%0, %1, %2, %3};"                    \
                     : "+" constraint(s[0]), "+" constraint(s[1]), "+" constraint(s[2]), "+" constraint(s[3])                \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                    \
      }                                                                                                                      \
    u32 sum = 0;                                                                                                             \
    for (int j = 0; j < 4; ++j)                                                                                              \
      for (int k = 0; k < 4; ++k) sum ^= bits_of(c[j][k]);                                                                   \
    keep(sum, out);                                                                                                          \
    finish(start, clocks);                                                                                                   \
  }
#define FOUR "{%4, %5, %6, %7}"
#define TWO "{%8, %9}"
#if __CUDA_ARCH__ >= 800
MMA_KERNEL(mma_fp16, FOUR, TWO, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", float, "f")
MMA_KERNEL(mma_bf16, FOUR, TWO, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", float, "f")
MMA_KERNEL(mma_tf32, FOUR, TWO, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", float, "f")
MMA_KERNEL(mma_int8, FOUR, TWO, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", int, "r")
#elif __CUDA_ARCH__ >= 750
MMA_KERNEL(mma_fp16, "{%4, %5}", "{%8}", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", float, "f")
#endif
#if __CUDA_ARCH__ >= 890 && __CUDA_ARCH__ != 900  // Hopper's mma.sync has no fp8 of its own: it is taken apart into fp16
MMA_KERNEL(mma_fp8, FOUR, TWO, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", float, "f")
#endif
)CUDA";

}  // namespace foretile::bench
