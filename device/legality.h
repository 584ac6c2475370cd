// Why a configuration cannot compute an operation on a problem. The one home of legality: kernels assert it, the
// choice filters with it, messages print it.
#pragma once
#include "foretile/device/configuration.h"
#include "foretile/device/kernels/family.h"
#include "foretile/device/operation.h"

namespace foretile {

constexpr bool is_float(DType t) { return t == DType::fp32 || t == DType::fp16 || t == DType::bf16; }
constexpr bool is_input(DType t) { return is_float(t) || t == DType::tf32; }     // of A and B
constexpr bool is_single_width(DType t) { return t == DType::fp32 || t == DType::tf32; }
constexpr bool is_half_width(DType t) { return t == DType::fp16 || t == DType::bf16; }

// The reason in words, or null where the configuration is legal. `o` and `c` alone decide it.
constexpr const char* why_not(const Operation& o, const Configuration& c) {
  if (!is_input(o.a) || !is_input(o.b)) return "A and B must be fp32, fp16, bf16 or tf32";
  if (!is_float(o.d)) return "D must be fp32, fp16 or bf16";
  if ((o.has_c && !is_float(o.c)) || (o.has_bias && !is_float(o.bias)) || (o.has_residual && !is_float(o.residual)))
    return "C, bias and residual must be fp32, fp16 or bf16";
  if (c.tile_m <= 0 || c.tile_n <= 0 || c.tile_k <= 0) return "tile sizes must be positive";
  if ((c.family == Family::simt || c.family == Family::sm90) && c.split_k != 1) return "only the decode, ffma, gemv and rows families split K";
  if (c.family != Family::ffma && c.family != Family::rows && c.cluster_k != 1) return "only the ffma and rows families name blocks of a cluster along K apart from split_k";
  if (c.family != Family::decode && c.family != Family::sm90 && o.gating != Gating::none) return "gated products take the decode and sm90 families";

  if (c.family == Family::ffma) {
    if (!is_single_width(o.a) || o.a != o.b) return "the ffma family takes A and B both fp32 or both tf32";
    if (c.stages || c.store_buffers || c.cluster_m != 1 || c.cluster_n != 1) return "the ffma family has no stages, store buffers or multicast";
    if (c.thread_m <= 0 || c.thread_n <= 0 || c.thread_m % 4 || c.thread_n % 4) return "ffma register tiles must be multiples of 4 both ways";
    if (c.thread_m * c.thread_n > 128) return "an ffma register tile of more than 128 values would spill";
    if (c.split_k < 1 || c.split_k > 8 || c.tile_k % (2 * c.split_k)) return "one to eight groups of warps share out the ffma tile's depths evenly, an even number each";
    if (c.cluster_k < 1 || c.cluster_k > 8) return "a cluster has at most 8 blocks to split K over";
    if (c.tile_n % (4 * c.cluster_k)) return "each block of the cluster must own a multiple of 4 columns of the tile";
    if (c.tile_m % c.thread_m || (c.tile_m / c.thread_m > 2 && c.tile_m / c.thread_m % 4)) return "an ffma tile has one, two or a multiple of four register tiles along M";
    if (c.tile_n % ffma::warp_columns(c)) return "the ffma tile's columns must be a multiple of a warp's: 32 lanes less those along M, a register tile each";
    if (!ffma::whole_units(c, o.transpose_a, c.tile_m) || !ffma::whole_units(c, o.transpose_b, c.tile_n)) return "a warp cannot copy the ffma tile in whole units of 128 elements";
    if (c.thread_m * c.thread_n > 112 && c.split_k == 1 && o.inputs != Alignment::tma && !is_plain(o))
      return "unaligned A or B and an epilogue with operands leave an ffma register tile of 128 values too few registers";
    if (ffma::threads(c) > 1024) return "the ffma tile must give at most 1024 threads";
    if (ffma::shared_bytes(o, c) > sm90::kSharedMemoryLimit) return "the ffma tile and its partial sums need more than 227 KiB of shared memory";
    return nullptr;
  }

  if (c.family == Family::gemv) {
    if (!is_single_width(o.a) || o.a != o.b) return "the gemv family takes A and B both fp32 or both tf32";
    if (o.transpose_a || o.transpose_b) return "the gemv family takes A[M,K] and B[N,K], not transposed";
    if (o.inputs != Alignment::tma) return "the gemv family needs the base address and every row of A and B on a multiple of 16 bytes";
    if (c.stages || c.store_buffers || c.cluster_m != 1 || c.cluster_n != 1 || c.thread_m || c.thread_n) return "the gemv family has a tile and a number of warps, nothing else";
    if (c.tile_m < 1 || c.tile_m > 8 || c.tile_n < 1 || c.tile_n > 8) return "a gemv tile has one to eight rows of A and of B";
    if (c.tile_k != gemv::kStep || c.split_k < 1 || c.split_k > 16) return "a gemv tile is 128 elements deep, and one to sixteen warps share out K";
    return nullptr;
  }

  if (c.family == Family::rows) {
    if (!is_single_width(o.a) || o.a != o.b) return "the rows family takes A and B both fp32 or both tf32";
    if (o.transpose_a || o.transpose_b) return "the rows family takes A[M,K] and B[N,K], not transposed";
    if (o.inputs != Alignment::tma) return "TMA needs the base address and every row of A and B on a multiple of 16 bytes";
    if (c.store_buffers || c.cluster_m != 1 || c.cluster_n != 1) return "the rows family has no multicast and no store buffers";
    if (c.tile_m != 1 && c.tile_m != 4 && (c.tile_m % 8 || c.tile_m > 64)) return "rows tiles have 1, 4 or a multiple of 8 rows, at most 64";
    if (!(c.thread_m == 1 && c.tile_m == 1) && (c.thread_m <= 0 || c.thread_m % 4)) return "rows register tiles must have a multiple of 4 rows, or one where the tile has";
    if (c.thread_n <= 0 || c.thread_m * c.thread_n > 64) return "a rows register tile has at most 64 values";
    if (c.tile_m != c.thread_m && c.tile_m != 2 * c.thread_m && c.tile_m != 4 * c.thread_m) return "a rows tile has one, two or four register tiles along M";
    if (c.tile_n > 256 || c.tile_n % rows::warp_columns(c)) return "the rows tile's columns, at most 256, must be a multiple of a warp's: 32 lanes less those along M, a register tile each";
    if (c.tile_k % rows::kSlab || c.tile_k > 4 * rows::kSlab) return "a rows tile is 32, 64, 96 or 128 elements deep along K";
    if (c.split_k < 1 || c.split_k > 16 || (c.split_k & (c.split_k - 1)) || c.tile_k / rows::kChunk % (2 * c.split_k)) return "1, 2, 4, 8 or 16 groups of warps share out the rows tile's chunks of four depths evenly, in pairs";
    if (rows::consumer_warps(c) > 16) return "a rows block has at most 16 warps that multiply";
    if (c.stages < 2) return "the ring needs at least two stages";
    if (c.cluster_k < 1 || c.cluster_k > 8 || rows::share_runs(c, c.cluster_k - 1) < 1) return "one to eight blocks of a cluster own the rows tile's runs of four columns, each some";
    if (rows::shared_bytes(c) > sm90::kSharedMemoryLimit) return "the ring and the sums need more than 227 KiB of shared memory";
    return nullptr;
  }

  if (c.family == Family::simt) {
    if (c.stages || c.store_buffers || c.cluster_m != 1 || c.cluster_n != 1) return "the simt family has no stages, store buffers or clusters";
    if (c.thread_m <= 0 || c.thread_n <= 0 || c.thread_m % 4 || c.thread_n % 4) return "simt register tiles must be multiples of 4 both ways";
    if (c.tile_m % c.thread_m || c.tile_n % c.thread_n) return "the simt tile must be a multiple of the register tile";
    if (c.thread_m * c.thread_n > 128) return "a simt register tile of more than 128 values would spill";
    if (simt::threads(c) % 32 || simt::threads(c) > 1024) return "the simt tile must give a multiple of 32 threads, at most 1024";
    if (simt::shared_bytes(c) > 48 * 1024) return "the simt tile needs more than 48 KiB of shared memory";
    return nullptr;
  }

  if (c.family == Family::decode && (!is_half_width(o.a) || o.a != o.b)) return "the decode family takes A and B both bf16 or both fp16";
  if ((!is_half_width(o.a) && o.a != DType::tf32) || o.a != o.b) return "the sm90 family takes A and B both bf16, both fp16 or both tf32";
  if (o.transpose_a || o.transpose_b) return "the sm90 and decode families take A[M,K] and B[N,K], not transposed";
  if (o.inputs != Alignment::tma) return "TMA needs the base address and every row of A and B on a multiple of 16 bytes";
  if (c.thread_m || c.thread_n) return "the sm90 and decode families have no register tile: it follows from the warpgroups";
  if (c.tile_k % sm90::slab_elements(o) || c.tile_k > 4 * sm90::slab_elements(o)) return "the tile must be one to four lines of 128 bytes deep along K: 64 to 256 elements of 16 bits, 32 to 128 of tf32";
  if (c.stages < 2) return "the ring needs at least two stages";

  if (c.family == Family::decode) {
    if (c.cluster_m != 1 || c.cluster_n != 1 || c.store_buffers) return "the decode family has no multicast and no store buffers";
    if (decode::kSliceUnit % c.tile_k) return "decode tiles are 64 or 128 elements deep along K";
    if (c.tile_m % 8 || c.tile_m > 128) return "decode tiles have a multiple of 8 rows, at most 128";
    if (c.tile_n != 64 && c.tile_n != 128 && c.tile_n != 256) return "decode tiles have 64, 128 or 256 columns";
    if (c.split_k < 1 || c.split_k > 8) return "a cluster has at most 8 blocks to split K over";
    if (decode::share_of_half(o, c) * c.split_k != decode::half_columns(o, c) || decode::share_of_half(o, c) % 8)
      return "each block of the cluster must own a multiple of 8 columns of the tile";
    if (decode::accumulators_per_thread(c) > 144) return "more than 144 accumulators a thread would spill";
    if (decode::shared_bytes(o, c) > sm90::kSharedMemoryLimit) return "the ring and the partial sums need more than 227 KiB of shared memory";
    return nullptr;
  }
  if (c.tile_m != 64 && c.tile_m != 128 && c.tile_m != 192 && c.tile_m != 256) return "sm90 tiles have 64, 128, 192 or 256 rows";
  if (c.tile_n % 16 || c.tile_n > 256) return "sm90 tiles have a multiple of 16 columns, at most 256";
  if (o.gating == Gating::interleaved) return "the sm90 family gates halves: of pairs side by side one thread has both, but not the neighbour to store them with";
  if (o.gating != Gating::none && (has_operands(o) || o.output != Alignment::tma)) return "the sm90 family gates products without C, bias and residual, whose D obeys TMA's rules";
  if (o.gating != Gating::none && (c.tile_n % 32 || c.tile_n / 2 % c.cluster_m)) return "a gated sm90 tile has a multiple of 32 columns";
  if (c.schedule == Schedule::pingpong && c.tile_m > 128) return "a ping-pong tile has 64 or 128 rows: one warpgroup holds all of it";
  if (sm90::accumulators_per_thread(c) > 160) return "more than 160 accumulators a thread would spill";
  if (c.cluster_m < 1 || c.cluster_n < 1 || c.cluster_m * c.cluster_n > 2) return "sm90 clusters have one or two blocks";
  if (c.tile_m / c.cluster_n % 8 || c.tile_n / c.cluster_m % 8) return "a multicast share of a tile must be a multiple of 8 rows";
  if (c.store_buffers < 1) return "the sm90 family stages D in at least one store buffer";
  if (sm90::consumer_registers(c) < sm90::accumulators_per_thread(c) + 32) return "the register split leaves a consumer fewer than 32 registers beside its accumulators";
  if (sm90::shared_bytes(o, c) > sm90::kSharedMemoryLimit) return "the ring and the store buffers need more than 227 KiB of shared memory";
  return nullptr;
}

constexpr i64 cluster_tiles(const Configuration& c, const Problem& p) {
  return ceil_div(p.m, i64(c.tile_m) * c.cluster_m) * ceil_div(p.n, i64(c.tile_n) * c.cluster_n) * p.batch;
}

constexpr const char* why_not(const Operation& o, const Configuration& c, const Problem& p) {
  if (c.family != Family::simt && p.k == 0) return "a tensor map cannot be empty: K = 0 takes the simt family";  // nor are its operands aligned
  if (const char* reason = why_not(o, c)) return reason;
  constexpr i64 limit = 0x7fffffff - 4096;  // tile origins and tile counts are 32-bit in the kernels
  if (p.m > limit || p.n > limit || p.k > limit || p.batch > limit) return "M, N, K and the batch must stay below 2^31 - 4096";
  if (cluster_tiles(c, p) > limit) return "D has too many tiles; allowed: M, N and a batch that give fewer than 2^31 - 4096";
  if (o.gating != Gating::none && p.n % 2) return "a gated product needs an even N";
  if (c.family == Family::decode && p.k > 0 && ceil_div(p.k, i64(decode::kSliceUnit)) < c.split_k) return "K has fewer slices of 128 elements than there are blocks to split it over";
  return nullptr;
}

}  // namespace foretile
