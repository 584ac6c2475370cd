// GPU back end of the vocabulary: the only home of inline PTX (with wgmma_ptx.h). Everything that orders memory is
// volatile and clobbers memory, so the compiler keeps it where it stands.
#pragma once

namespace foretile {

// ---- who am I -------------------------------------------------------------------------------------------
FORETILE_VOCABULARY u32 thread_index() { return threadIdx.x; }
// The shuffle tells the compiler that the value is uniform, so that branches on it stay convergent.
FORETILE_VOCABULARY u32 warp_index() { return __shfl_sync(0xffffffffu, threadIdx.x / 32, 0); }
FORETILE_VOCABULARY u32 lane_index() { return threadIdx.x % 32; }
FORETILE_VOCABULARY Index3 block_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
FORETILE_VOCABULARY Index3 grid_size() { return {gridDim.x, gridDim.y, gridDim.z}; }
FORETILE_VOCABULARY u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
FORETILE_VOCABULARY SmemAddress shared_base() {
  extern __shared__ __align__(1024) unsigned char foretile_shared[];
  return {static_cast<u32>(__cvta_generic_to_shared(foretile_shared))};
}

// ---- synchronisation ------------------------------------------------------------------------------------
FORETILE_VOCABULARY void sync_block(Site) { __syncthreads(); }
FORETILE_VOCABULARY void sync_warp(Site) { __syncwarp(); }
FORETILE_VOCABULARY void named_barrier_sync(u32 id, u32 threads, Site) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
FORETILE_VOCABULARY void named_barrier_arrive(u32 id, u32 threads, Site) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
FORETILE_VOCABULARY void cluster_arrive(Site) { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
FORETILE_VOCABULARY void cluster_arrive_relaxed(Site) { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
FORETILE_VOCABULARY void cluster_wait(Site) { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// ---- mbarriers ------------------------------------------------------------------------------------------
FORETILE_VOCABULARY void mbarrier_init(Mbarrier barrier, u32 arrivals, Site) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier.address.value), "r"(arrivals) : "memory");
}
FORETILE_VOCABULARY void mbarrier_invalidate(Mbarrier barrier, Site) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier.address.value) : "memory");
}
FORETILE_VOCABULARY void mbarrier_arrive(Mbarrier barrier, Site) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier.address.value) : "memory");
}
FORETILE_VOCABULARY void mbarrier_arrive_expect(Mbarrier barrier, u32 bytes, Site) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier.address.value), "r"(bytes) : "memory");
}
// Without .cluster scope on purpose: a cluster-scope release makes the compiler drain every outstanding access first,
// which costs a third of the kernel's speed. What it would order, generic accesses to the peer, this call excludes.
FORETILE_VOCABULARY void mbarrier_arrive_cluster(Mbarrier barrier, u32 rank, Site) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}"
      ::"r"(barrier.address.value), "r"(rank) : "memory");
}
FORETILE_VOCABULARY bool mbarrier_test(Mbarrier barrier, u32 parity, Site) {
  u32 done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done) : "r"(barrier.address.value), "r"(parity) : "memory");
  return done != 0;
}
FORETILE_VOCABULARY void mbarrier_wait(Mbarrier barrier, u32 parity, Site site) {
  while (!mbarrier_test(barrier, parity, site)) {
  }
}
FORETILE_VOCABULARY void fence_mbarrier_init(Site) { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
FORETILE_VOCABULARY void fence_proxy_async(Site) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- tensor memory accelerator --------------------------------------------------------------------------
FORETILE_VOCABULARY void prefetch_tensor_map(const TensorMap& map, Site) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
FORETILE_VOCABULARY void tma_load(SmemAddress destination, const TensorMap& map, BoxCorner corner, Mbarrier barrier, Site) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
      ::"r"(destination.value), "l"(&map), "r"(barrier.address.value), "r"(corner.inner), "r"(corner.row), "r"(corner.batch)
      : "memory");
}
FORETILE_VOCABULARY void tma_load(SmemAddress destination, const TensorMap& map, BoxCorner corner, Mbarrier barrier, L2Policy policy, Site) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;"
      ::"r"(destination.value), "l"(&map), "r"(barrier.address.value), "r"(corner.inner), "r"(corner.row), "r"(corner.batch),
      "l"(policy.value)
      : "memory");
}
FORETILE_VOCABULARY void tma_prefetch(const TensorMap& map, BoxCorner corner, L2Policy policy, Site) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile.L2::cache_hint [%0, {%1, %2, %3}], %4;"
               ::"l"(&map), "r"(corner.inner), "r"(corner.row), "r"(corner.batch), "l"(policy.value) : "memory");
}
FORETILE_VOCABULARY L2Policy evict_first() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return {policy};
}
FORETILE_VOCABULARY L2Policy evict_last() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return {policy};
}
FORETILE_VOCABULARY L2Policy evict_normal() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return {policy};
}
FORETILE_VOCABULARY void tma_load_multicast(SmemAddress destination, const TensorMap& map, BoxCorner corner, Mbarrier barrier,
                                            u16 blocks, Site) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;"
      ::"r"(destination.value), "l"(&map), "r"(barrier.address.value), "r"(corner.inner), "r"(corner.row), "r"(corner.batch),
      "h"(blocks)
      : "memory");
}
FORETILE_VOCABULARY void tma_store(const TensorMap& map, BoxCorner corner, SmemAddress source, Site) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
               ::"l"(&map), "r"(source.value), "r"(corner.inner), "r"(corner.row), "r"(corner.batch) : "memory");
}
FORETILE_VOCABULARY void bulk_commit(Site) { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int Pending> FORETILE_DEVICE void bulk_wait_read(Site) {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}
template <int Pending> FORETILE_DEVICE void bulk_wait(Site) { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory"); }

// ---- warpgroup matrix multiply --------------------------------------------------------------------------
FORETILE_VOCABULARY void wgmma_fence(Site) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FORETILE_VOCABULARY void wgmma_commit(Site) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending> FORETILE_DEVICE void wgmma_wait(Site) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
template <int Registers> FORETILE_DEVICE void register_release(Site) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers> FORETILE_DEVICE void register_acquire(Site) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

// ---- shared and global memory ---------------------------------------------------------------------------
namespace detail {
template <int Bytes> struct Word;
template <> struct Word<1> { using type = u8; };
template <> struct Word<2> { using type = u16; };
template <> struct Word<4> { using type = u32; };
template <> struct Word<8> { using type = u32x2; };
template <> struct Word<16> { using type = u32x4; };
template <class To, class From> FORETILE_DEVICE To bits_as(const From& from) { return __builtin_bit_cast(To, from); }
}  // namespace detail

template <class T> FORETILE_DEVICE T load_shared(SmemAddress address, Site) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16 || sizeof(T) == 2);
  if constexpr (sizeof(T) == 2) {
    u16 v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address.value) : "memory");
    return detail::bits_as<T>(v);
  } else if constexpr (sizeof(T) == 4) {
    u32 v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address.value) : "memory");
    return detail::bits_as<T>(v);
  } else if constexpr (sizeof(T) == 8) {
    u32x2 v;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address.value) : "memory");
    return detail::bits_as<T>(v);
  } else {
    u32x4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address.value) : "memory");
    return detail::bits_as<T>(v);
  }
}
template <class T> FORETILE_DEVICE void store_shared(SmemAddress address, T value, Site) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16 || sizeof(T) == 2);
  const auto v = detail::bits_as<typename detail::Word<sizeof(T)>::type>(value);
  if constexpr (sizeof(T) == 2) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(address.value), "h"(v) : "memory");
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address.value), "r"(v) : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address.value), "r"(v.x), "r"(v.y) : "memory");
  } else {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                 ::"r"(address.value), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
  }
}
FORETILE_VOCABULARY float load_shared_alone(SmemAddress address, Site) {
  float v;
  asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(v) : "r"(address.value) : "memory");
  return v;
}
FORETILE_VOCABULARY void store_matrix_x4(SmemAddress row, u32x4 f, Site) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(row.value), "r"(f.x), "r"(f.y), "r"(f.z), "r"(f.w) : "memory");
}
FORETILE_VOCABULARY void store_matrix_x2(SmemAddress row, u32x2 f, Site) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row.value), "r"(f.x), "r"(f.y) : "memory");
}

FORETILE_VOCABULARY void store_matrix_x4_transposed(SmemAddress column, u32x4 f, Site) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(column.value), "r"(f.x), "r"(f.y), "r"(f.z), "r"(f.w) : "memory");
}
FORETILE_VOCABULARY void store_matrix_x2_transposed(SmemAddress column, u32x2 f, Site) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(column.value), "r"(f.x), "r"(f.y) : "memory");
}
FORETILE_VOCABULARY u32x4 load_matrix_x4(SmemAddress row, Site) {
  u32x4 f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.x), "=r"(f.y), "=r"(f.z), "=r"(f.w) : "r"(row.value) : "memory");
  return f;
}

FORETILE_VOCABULARY ClusterAddress cluster_address(SmemAddress address, u32 rank) {
  u32 value;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(value) : "r"(address.value), "r"(rank));
  return {value};
}
FORETILE_VOCABULARY void store_cluster_async(ClusterAddress destination, float value, ClusterAddress barrier, Site) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
               ::"r"(destination.value), "r"(__float_as_uint(value)), "r"(barrier.value) : "memory");
}
FORETILE_VOCABULARY void store_cluster_async(ClusterAddress destination, f32x2 value, ClusterAddress barrier, Site) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%2, %3}, [%1];"
               ::"r"(destination.value), "r"(barrier.value), "f"(value.x), "f"(value.y) : "memory");
}
FORETILE_VOCABULARY void store_cluster_async(ClusterAddress destination, f32x4 value, ClusterAddress barrier, Site) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%2, %3, %4, %5}, [%1];"
               ::"r"(destination.value), "r"(barrier.value), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w) : "memory");
}
FORETILE_VOCABULARY u32x4 load_matrix_x4_transposed(SmemAddress row, Site) {
  u32x4 f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.x), "=r"(f.y), "=r"(f.z), "=r"(f.w) : "r"(row.value) : "memory");
  return f;
}

template <class T> FORETILE_DEVICE T load_global(const T* address, Site) {
  using W = typename detail::Word<sizeof(T)>::type;
  return detail::bits_as<T>(*reinterpret_cast<const W*>(address));
}
template <class T> FORETILE_DEVICE void store_global(T* address, T value, Site) {
  using W = typename detail::Word<sizeof(T)>::type;
  *reinterpret_cast<W*>(address) = detail::bits_as<W>(value);
}

// ---- asynchronous copies of single elements ---------------------------------------------------------------
template <int Bytes> FORETILE_DEVICE void cp_async(SmemAddress destination, const void* source, u32 valid, Site site) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
#if __CUDA_ARCH__ >= 800
  if constexpr (Bytes == 16) {  // past L1: whole lines come once a block
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination.value), "l"(source), "r"(valid) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(destination.value), "l"(source), "r"(valid), "n"(Bytes) : "memory");
  }
#else
  u32 words[Bytes / 4] = {};
  const auto* from = static_cast<const u8*>(source);
  if (valid == Bytes) {
    const auto whole = load_global(static_cast<const typename detail::Word<Bytes>::type*>(source), site);
    return store_shared(destination, whole, site);
  }
  for (u32 i = 0; i < valid; ++i) words[i / 4] |= u32(from[i]) << i % 4 * 8;
  store_shared(destination, detail::bits_as<typename detail::Word<Bytes>::type>(words), site);
#endif
}
FORETILE_VOCABULARY void cp_async_commit(Site) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int Pending> FORETILE_DEVICE void cp_async_wait(Site) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

// ---- warp, dependent launch -----------------------------------------------------------------------------
FORETILE_VOCABULARY bool elect_one(Site) {
  u32 elected;
  asm volatile(
      "{\n.reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(elected)::"memory");
  return elected != 0;
}
FORETILE_VOCABULARY float shuffle_xor(float value, u32 mask, Site) { return __shfl_xor_sync(0xffffffffu, value, mask); }
// Not volatile: it touches nothing but registers, and the compiler may move it among the loads that feed it.
template <DType T> FORETILE_DEVICE void mma_sync(float (&d)[4], const u32x4& a, const u32x2& b, Site) {
  static_assert(T == DType::bf16 || T == DType::fp16);
  const float c[4] = {d[0], d[1], d[2], d[3]};
  if constexpr (T == DType::bf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  }
}
// Dependent launch exists from compute capability 9.0: before, a kernel starts when its predecessors are complete.
FORETILE_VOCABULARY void grid_dependency_wait(Site) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
FORETILE_VOCABULARY void grid_dependency_launch(Site) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- arithmetic and conversions -------------------------------------------------------------------------
template <class T> FORETILE_DEVICE void unset(T&) {}
// A way out that is never taken ends a block of code. Behind the first one ptxas knows of the others, and drops them late.
FORETILE_VOCABULARY void keep_order(u32 not_zero) { asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %0, 0;\n@p exit;\n}" ::"r"(not_zero)); }
template <class T> FORETILE_DEVICE void compute_now(T& value) {
  if constexpr (sizeof(T) == 8) asm volatile("" : "+l"(value) : : "memory");
  else asm volatile("" : "+r"(value) : : "memory");
}

FORETILE_VOCABULARY float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
FORETILE_VOCABULARY float exponential(float x) { return expf(x); }
FORETILE_VOCABULARY float error_function(float x) { return erff(x); }
FORETILE_VOCABULARY float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
FORETILE_VOCABULARY float maximum(float a, float b) { return fmaxf(a, b); }

FORETILE_VOCABULARY float to_float(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }
FORETILE_VOCABULARY float to_float(fp16 x) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
  return f;
}
FORETILE_VOCABULARY float cut_to_tf32(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }
template <class T> FORETILE_DEVICE T round_to(float x);
template <> FORETILE_DEVICE float round_to<float>(float x) { return x; }
template <> FORETILE_DEVICE bf16 round_to<bf16>(float x) {
#if __CUDA_ARCH__ >= 800
  bf16 r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));
  return r;
#else  // no instruction before compute capability 8.0: round to nearest even by hand
  const u32 bits = __float_as_uint(x);
  if (x != x) return {u16(0x7fff)};
  return {u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
#endif
}
template <> FORETILE_DEVICE fp16 round_to<fp16>(float x) {
  fp16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));
  return r;
}
template <class T> FORETILE_DEVICE u32 pack_pair(float low, float high);
template <> FORETILE_DEVICE u32 pack_pair<bf16>(float low, float high) {
#if __CUDA_ARCH__ >= 800
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
#else
  return u32(round_to<bf16>(low).bits) | u32(round_to<bf16>(high).bits) << 16;
#endif
}
template <> FORETILE_DEVICE u32 pack_pair<fp16>(float low, float high) {
#if __CUDA_ARCH__ >= 800
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
#else
  return u32(round_to<fp16>(low).bits) | u32(round_to<fp16>(high).bits) << 16;
#endif
}

}  // namespace foretile

#include "foretile/device/vocabulary/wgmma_ptx.h"
