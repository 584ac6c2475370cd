// The kernels of the golden dump tool. They assume as little as possible of what they are there to find out: shared
// memory is filled and read by plain 4-byte accesses, and everything else is decided on the host.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "hash.h"

namespace golden {

#define CUDA_CHECK(call)                                                                                 \
  do {                                                                                                   \
    const cudaError_t error_ = (call);                                                                   \
    if (error_ != cudaSuccess) {                                                                         \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_));    \
      std::exit(1);                                                                                      \
    }                                                                                                    \
  } while (0)

extern __shared__ uint8_t dynamic_shared[];

// First 1024-byte boundary of the dynamic shared memory, as an address in the shared window.
__device__ inline uint32_t shared_base() { return (uint32_t(__cvta_generic_to_shared(dynamic_shared)) + 1023) & ~1023u; }
__device__ inline void store32(uint32_t address, uint32_t v) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory"); }
__device__ inline uint32_t load32(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
__device__ inline void copy_in(uint32_t base, const uint32_t* image, int bytes) {
  for (int i = int(threadIdx.x); i < bytes / 4; i += int(blockDim.x)) store32(base + 4 * i, image[i]);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}
__device__ inline void copy_out(uint32_t* out, uint32_t base, int bytes) {
  for (int i = int(threadIdx.x); i < bytes / 4; i += int(blockDim.x)) out[i] = load32(base + 4 * i);
}
__device__ inline void barrier_init(uint32_t barrier) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Whether phase 0 completes within about two milliseconds; a wrong byte count must not hang the tool.
__device__ inline bool barrier_completes(uint32_t barrier) {
  for (const long long start = clock64(); clock64() - start < 4000000;) {
    uint32_t done;
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(barrier) : "memory");
    if (done) return true;
  }
  return false;
}

// ---- tensor memory accelerator -----------------------------------------------------------------------------
// One box into shared memory at base + destination. result[0]: completed with `expect` bytes; result[1]: base address.
__global__ void tma_load(const __grid_constant__ CUtensorMap map, int x, int y, int z, uint32_t destination, uint32_t expect,
                         const uint32_t* image, int bytes, uint32_t* out, uint32_t* result) {
  const uint32_t base = shared_base(), barrier = base + bytes;
  if (threadIdx.x == 0) barrier_init(barrier);
  copy_in(base, image, bytes);
  if (threadIdx.x == 0) {
    barrier_expect(barrier, expect);
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(base + destination),
                 "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z) : "memory");
    result[0] = barrier_completes(barrier);
    result[1] = base;
  }
  __syncthreads();
  copy_out(out, base, bytes);
}

// Block 0 of two loads one box into both, at the same address; each block waits on its own barrier.
__global__ void __cluster_dims__(2) tma_multicast(const __grid_constant__ CUtensorMap map, uint32_t expect, const uint32_t* image, int bytes,
                                                  uint32_t* out, uint32_t* result) {
  const uint32_t base = shared_base(), barrier = base + bytes;
  if (threadIdx.x == 0) {
    barrier_init(barrier);
    barrier_expect(barrier, expect);
  }
  copy_in(base, image, bytes);
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0) {
    if (blockIdx.x == 0)
      asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {0, 0, 0}], [%2], %3;" ::"r"(base),
                   "l"(&map), "r"(barrier), "h"(uint16_t(3)) : "memory");
    result[2 * blockIdx.x] = barrier_completes(barrier);
    result[2 * blockIdx.x + 1] = base;
  }
  __syncthreads();
  copy_out(out + blockIdx.x * (bytes / 4), base, bytes);
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

__global__ void tma_store(const __grid_constant__ CUtensorMap map, int x, int y, int z, const uint32_t* image, int bytes) {
  const uint32_t base = shared_base();
  copy_in(base, image, bytes);
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map), "r"(base), "r"(x), "r"(y), "r"(z) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// ---- 8x8 matrices ------------------------------------------------------------------------------------------
// Lane l passes address base + 16 * l (only the lanes an instruction reads matter). stmatrix stores registers whose
// 16-bit halves are 2 * (8 * lane + register) + half; ldmatrix loads words whose halves count 0, 1, 2...
__global__ void matrix_moves(uint32_t* store4, uint32_t* store2, uint32_t* load4) {
  const uint32_t base = shared_base(), lane = threadIdx.x, row = base + 16 * lane;
  uint32_t r[4];
  for (int i = 0; i < 4; ++i) r[i] = (2 * (8 * lane + i)) | (2 * (8 * lane + i) + 1) << 16;
  for (int i = 0; i < 4; ++i) store32(base + 4 * (lane + 32 * i), 0xEEEEEEEE);
  __syncwarp();
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
  __syncwarp();
  for (int i = 0; i < 4; ++i) store4[lane + 32 * i] = load32(base + 4 * (lane + 32 * i));
  __syncwarp();
  for (int i = 0; i < 4; ++i) store32(base + 4 * (lane + 32 * i), 0xEEEEEEEE);
  __syncwarp();
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(r[0]), "r"(r[1]) : "memory");
  __syncwarp();
  for (int i = 0; i < 4; ++i) store2[lane + 32 * i] = load32(base + 4 * (lane + 32 * i));
  __syncwarp();
  for (int i = 0; i < 4; ++i) store32(base + 4 * (lane + 32 * i), (2 * (lane + 32 * i)) | (2 * (lane + 32 * i) + 1) << 16);
  __syncwarp();
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
  for (int i = 0; i < 4; ++i) load4[4 * lane + i] = r[i];
}

// ---- wgmma -------------------------------------------------------------------------------------------------
template <int Type, int N, int TransposeA, int TransposeB> struct Wgmma;
#include "wgmma.inc"

// Fills shared memory with `image`, runs `steps` wgmmas on descriptors whose addresses count from the image's start, and
// writes every register: out[thread][register]. `init` null: the accumulator starts at zero.
template <int Type, int N, int TransposeA, int TransposeB>
__global__ void __launch_bounds__(128, 1) wgmma_probe(const uint32_t* image, int bytes, const uint64_t* descriptors, int steps, const uint32_t* init, uint32_t* out) {
  using Mma = Wgmma<Type, N, TransposeA, TransposeB>;
  using Register = typename Mma::Register;
  const uint32_t base = shared_base();
  copy_in(base, image, bytes);
  Register acc[N / 2];
  const int t = int(threadIdx.x);
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    const uint32_t bits = init ? init[t * (N / 2) + i] : 0;
    acc[i] = *reinterpret_cast<const Register*>(&bits);
  }
  for (int s = 0; s < steps; ++s) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    Mma::step(acc, descriptors[2 * s] + (base >> 4), descriptors[2 * s + 1] + (base >> 4));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
#pragma unroll
  for (int i = 0; i < N / 2; ++i) out[t * (N / 2) + i] = *reinterpret_cast<uint32_t*>(&acc[i]);
}

}  // namespace golden
