// The vocabulary: everything a kernel may do besides plain arithmetic on its registers.
//
// Kernels hold no pointer to shared memory and no inline PTX. They call these functions on strong types, so the
// emulator sees every access; on the GPU each is one instruction or two (ptx.h, the only home of inline PTX).
// On the host the functions are defined by src/emulator. One page of documentation: docs/vocabulary.md.
#pragma once
#include "foretile/device/arguments.h"
#include "foretile/device/types.h"
#include "foretile/device/vocabulary/site.h"

#if FORETILE_GPU
#define FORETILE_VOCABULARY __device__ __forceinline__
#else
#define FORETILE_VOCABULARY
#endif

namespace foretile {

// A byte address in the block's shared-memory window. It cannot be dereferenced, only passed on. Swizzle
// patterns act on the absolute address, so the emulator's addresses equal the device's modulo 1024.
struct SmemAddress {
  u32 value;
  friend constexpr SmemAddress operator+(SmemAddress a, u32 bytes) { return {a.value + bytes}; }
};

// An 8-byte mbarrier object in shared memory.
struct Mbarrier {
  SmemAddress address;
};

// A byte of the shared memory of a block of the cluster, this one or a peer.
struct ClusterAddress {
  u32 value;
  friend constexpr ClusterAddress operator+(ClusterAddress a, u32 bytes) { return {a.value + bytes}; }
};

// What the L2 cache does with the lines of a load: a hint.
struct L2Policy {
  u64 value;
};

struct Index3 { u32 x, y, z; };
struct alignas(8) f32x2 { float x, y; };
struct alignas(16) f32x4 { float x, y, z, w; };
struct alignas(8) u32x2 { u32 x, y; };
struct alignas(16) u32x4 { u32 x, y, z, w; };

// ---- who am I -------------------------------------------------------------------------------------------
FORETILE_VOCABULARY u32 thread_index();          // in the block; blocks are one-dimensional
FORETILE_VOCABULARY u32 warp_index();            // in the block, uniform over the warp
FORETILE_VOCABULARY u32 lane_index();            // in the warp
FORETILE_VOCABULARY Index3 block_index();        // in the grid
FORETILE_VOCABULARY Index3 grid_size();          // in blocks
FORETILE_VOCABULARY u32 cluster_rank();          // of this block in its cluster
// First byte of the block's dynamic shared memory, 1024-byte aligned.
FORETILE_VOCABULARY SmemAddress shared_base();

// ---- synchronisation within a block and a cluster -------------------------------------------------------
FORETILE_VOCABULARY void sync_block(Site site = Site::here());                                   // all threads
FORETILE_VOCABULARY void sync_warp(Site site = Site::here());                                    // all 32 lanes
FORETILE_VOCABULARY void named_barrier_sync(u32 id, u32 threads, Site site = Site::here());      // id 0..15
FORETILE_VOCABULARY void named_barrier_arrive(u32 id, u32 threads, Site site = Site::here());    // does not wait
FORETILE_VOCABULARY void cluster_arrive(Site site = Site::here());  // all threads of all blocks; release
FORETILE_VOCABULARY void cluster_arrive_relaxed(Site site = Site::here());  // releases nothing but fenced mbarrier_init()s of this thread
FORETILE_VOCABULARY void cluster_wait(Site site = Site::here());    // acquire

// ---- mbarriers ------------------------------------------------------------------------------------------
// A phase completes when `arrivals` arrivals came and the transaction bytes expected equal those that landed.
FORETILE_VOCABULARY void mbarrier_init(Mbarrier barrier, u32 arrivals, Site site = Site::here());
FORETILE_VOCABULARY void mbarrier_invalidate(Mbarrier barrier, Site site = Site::here());
FORETILE_VOCABULARY void mbarrier_arrive(Mbarrier barrier, Site site = Site::here());  // releases this thread's accesses
FORETILE_VOCABULARY void mbarrier_arrive_expect(Mbarrier barrier, u32 bytes, Site site = Site::here());
// Arrives at the barrier at the same address in block `rank` of the cluster. Orders no generic access to the
// peer's memory: it says that this thread has finished with data that the asynchronous proxy wrote and read.
FORETILE_VOCABULARY void mbarrier_arrive_cluster(Mbarrier barrier, u32 rank, Site site = Site::here());
// Waits until the phase of the given parity has completed. A fresh barrier satisfies parity 1.
FORETILE_VOCABULARY void mbarrier_wait(Mbarrier barrier, u32 parity, Site site = Site::here());
FORETILE_VOCABULARY bool mbarrier_test(Mbarrier barrier, u32 parity, Site site = Site::here());  // may be falsely false
// Makes initialised barriers visible to the asynchronous proxy and to the cluster.
FORETILE_VOCABULARY void fence_mbarrier_init(Site site = Site::here());
// Orders this thread's earlier generic accesses to shared memory before later ones of the asynchronous proxy.
FORETILE_VOCABULARY void fence_proxy_async(Site site = Site::here());

// ---- tensor memory accelerator --------------------------------------------------------------------------
// Boxes of three-dimensional tensor maps (inner, row, batch). Elements outside the tensor load as zero and
// are not stored; a load counts the bytes of the full box on its barrier.
struct BoxCorner { i32 inner, row, batch; };
FORETILE_VOCABULARY void prefetch_tensor_map(const TensorMap& map, Site site = Site::here());
FORETILE_VOCABULARY void tma_load(SmemAddress destination, const TensorMap& map, BoxCorner corner, Mbarrier barrier,
                                  Site site = Site::here());
FORETILE_VOCABULARY void tma_load(SmemAddress destination, const TensorMap& map, BoxCorner corner, Mbarrier barrier, L2Policy policy,
                                  Site site = Site::here());
// The box comes to L2, at some time or never: nothing is read as the program sees it, and nothing waits for it.
FORETILE_VOCABULARY void tma_prefetch(const TensorMap& map, BoxCorner corner, L2Policy policy, Site site = Site::here());
FORETILE_VOCABULARY L2Policy evict_first();  // read once: make room for others
FORETILE_VOCABULARY L2Policy evict_last();   // read again and again: stay
FORETILE_VOCABULARY L2Policy evict_normal();
// The box lands at the same address, and counts on the barrier at the same address, in each block of the cluster
// whose bit is set in `blocks`.
FORETILE_VOCABULARY void tma_load_multicast(SmemAddress destination, const TensorMap& map, BoxCorner corner,
                                            Mbarrier barrier, u16 blocks, Site site = Site::here());
FORETILE_VOCABULARY void tma_store(const TensorMap& map, BoxCorner corner, SmemAddress source, Site site = Site::here());
FORETILE_VOCABULARY void bulk_commit(Site site = Site::here());  // closes a group of this thread's bulk stores
template <int Pending> FORETILE_DEVICE void bulk_wait_read(Site site = Site::here());  // sources of older groups may be reused
template <int Pending> FORETILE_DEVICE void bulk_wait(Site site = Site::here());       // older groups are complete

// ---- warpgroup matrix multiply --------------------------------------------------------------------------
// acc[64 x N] (+)= A[64 x Kstep] * B[N x Kstep]^T from shared-memory descriptors (device/layout/descriptor.h),
// where Kstep is 32 bytes of the input type. All 128 threads call together. The accumulator's fragment map is in
// device/layout/fragment.h. TransposeA/B (16-bit types only): the operand stands M- or N-major.
FORETILE_VOCABULARY void wgmma_fence(Site site = Site::here());   // before the first wgmma and after register writes
template <DType T, int N, bool TransposeA = false, bool TransposeB = false>
FORETILE_DEVICE void wgmma(float (&acc)[N / 2], u64 descriptor_a, u64 descriptor_b, bool accumulate, Site site = Site::here());
FORETILE_VOCABULARY void wgmma_commit(Site site = Site::here());
template <int Pending> FORETILE_DEVICE void wgmma_wait(Site site = Site::here());
// Hands this warpgroup's registers back to the block's pool, or takes them from it. Multiples of 8 in 24..256.
template <int Registers> FORETILE_DEVICE void register_release(Site site = Site::here());
template <int Registers> FORETILE_DEVICE void register_acquire(Site site = Site::here());

// ---- shared memory: each access says its width (sizeof T: 1, 2, 4, 8 or 16, naturally aligned) ----------
template <class T> FORETILE_DEVICE T load_shared(SmemAddress address, Site site = Site::here());
template <class T> FORETILE_DEVICE void store_shared(SmemAddress address, T value, Site site = Site::here());
// A load of four bytes that stays one: ptxas makes one wide load of neighbouring narrow ones where it can prove alignment.
FORETILE_VOCABULARY float load_shared_alone(SmemAddress address, Site site = Site::here());
// 8x8 matrices of 16-bit elements; lane 8i+r gives the address of row r of matrix i (16 bytes, aligned).
FORETILE_VOCABULARY void store_matrix_x4(SmemAddress row, u32x4 fragments, Site site = Site::here());
FORETILE_VOCABULARY void store_matrix_x2(SmemAddress row, u32x2 fragments, Site site = Site::here());
// Transposed: lane 8i+r gives the address of column r of matrix i.
FORETILE_VOCABULARY void store_matrix_x4_transposed(SmemAddress column, u32x4 fragments, Site site = Site::here());
FORETILE_VOCABULARY void store_matrix_x2_transposed(SmemAddress column, u32x2 fragments, Site site = Site::here());
FORETILE_VOCABULARY u32x4 load_matrix_x4(SmemAddress row, Site site = Site::here());
// The same, each 8x8 matrix transposed on its way.
FORETILE_VOCABULARY u32x4 load_matrix_x4_transposed(SmemAddress row, Site site = Site::here());

// ---- shared memory of the cluster -----------------------------------------------------------------------
FORETILE_VOCABULARY ClusterAddress cluster_address(SmemAddress address, u32 rank);  // the same address in block `rank`
// Sends four, eight or sixteen bytes to a block of the cluster, whose barrier counts them. Who waits for that phase there sees them. The
// receiving block must have initialised the barrier (a cluster barrier since then says so) and must not exit before.
FORETILE_VOCABULARY void store_cluster_async(ClusterAddress destination, float value, ClusterAddress barrier, Site site = Site::here());
FORETILE_VOCABULARY void store_cluster_async(ClusterAddress destination, f32x2 value, ClusterAddress barrier, Site site = Site::here());
FORETILE_VOCABULARY void store_cluster_async(ClusterAddress destination, f32x4 value, ClusterAddress barrier, Site site = Site::here());

// ---- global memory --------------------------------------------------------------------------------------
template <class T> FORETILE_DEVICE T load_global(const T* address, Site site = Site::here());
template <class T> FORETILE_DEVICE void store_global(T* address, T value, Site site = Site::here());

// ---- asynchronous copies of single elements ---------------------------------------------------------------
// Copies 4, 8 or 16 bytes, both addresses multiples of that, from global to shared memory: the first `valid` bytes, then
// zeros; nothing beyond `valid` bytes is read, and with 0 the source may be any address. The write comes at some time
// before cp_async_wait says that its group is complete, for this thread; the others learn of it by a barrier. It is of
// the generic proxy. Before compute capability 8.0 the copy goes through a register, at once.
template <int Bytes> FORETILE_DEVICE void cp_async(SmemAddress destination, const void* source, u32 valid = Bytes, Site site = Site::here());
FORETILE_VOCABULARY void cp_async_commit(Site site = Site::here());  // closes a group of this thread's copies, empty or not
template <int Pending> FORETILE_DEVICE void cp_async_wait(Site site = Site::here());  // all but the youngest groups are complete

// ---- warp ------------------------------------------------------------------------------------------------
FORETILE_VOCABULARY bool elect_one(Site site = Site::here());  // true in one lane of a converged warp, unspecified which
// The value of lane `lane_index() ^ mask`; all 32 lanes call together.
FORETILE_VOCABULARY float shuffle_xor(float value, u32 mask, Site site = Site::here());
// d[16 x 8] += a[16 x 16] * b[8 x 16]^T by one warp. T: bf16, fp16. Which element stands where: device/layout/fragment.h.
// From compute capability 8.0.
template <DType T> FORETILE_DEVICE void mma_sync(float (&d)[4], const u32x4& a, const u32x2& b, Site site = Site::here());

// ---- dependent launch (PDL) ------------------------------------------------------------------------------
FORETILE_VOCABULARY void grid_dependency_wait(Site site = Site::here());     // earlier kernels of the chain are complete
FORETILE_VOCABULARY void grid_dependency_launch(Site site = Site::here());   // the next kernel may start its prologue

// ---- registers -------------------------------------------------------------------------------------------
// Says of registers (a variable, an array) that nothing has set them yet. On the GPU it is nothing; on the host they become
// NaN, so that a kernel that uses one shows it.
template <class T> FORETILE_DEVICE void unset(T& registers);
// Arithmetic in front of it stays in front of arithmetic behind it: ptxas reorders hundreds of independent multiplies at will, and its
// choice of registers depends on their order. The value, which must not be 0, is not to be known when compiling; no instruction is left.
FORETILE_VOCABULARY void keep_order(u32 not_zero);
// The value is worked out here, in front of everything behind it, and not where it is first used. A pointer or an integer.
template <class T> FORETILE_DEVICE void compute_now(T& value);

// ---- arithmetic that the two sides must agree on ---------------------------------------------------------
FORETILE_VOCABULARY float multiply_add(float a, float b, float c);  // fused: one rounding
FORETILE_VOCABULARY float exponential(float x);
FORETILE_VOCABULARY float error_function(float x);
FORETILE_VOCABULARY float reciprocal(float x);           // at most 1 ulp from 1 / x; 0 where that is subnormal
FORETILE_VOCABULARY float maximum(float a, float b);     // the other one where one is NaN

// ---- conversions: round to nearest even, NaN stays NaN ---------------------------------------------------
FORETILE_VOCABULARY float to_float(bf16 x);
FORETILE_VOCABULARY float to_float(fp16 x);
FORETILE_DEVICE float to_float(float x) { return x; }
FORETILE_VOCABULARY float cut_to_tf32(float x);  // the 13 low bits cleared: toward zero, as wgmma reads tf32
template <class T> FORETILE_DEVICE T round_to(float x);  // T: float, bf16, fp16
// Two neighbours rounded into one 32-bit register, the first in the low half. T: bf16, fp16.
template <class T> FORETILE_DEVICE u32 pack_pair(float low, float high);

}  // namespace foretile

#if FORETILE_GPU
#include "foretile/device/vocabulary/ptx.h"
#else
#include "foretile/device/vocabulary/host.h"
#endif
