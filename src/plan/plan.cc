#include "plan/plan.h"

#include <algorithm>
#include <cstdint>

#include "foretile/device/kernels/family.h"
#include "foretile/device/layout/tile_order.h"
#include "foretile/device/legality.h"

namespace foretile {

namespace {

// TMA: base and strides multiples of 16 bytes, strides below 2^40 (CUDA driver API, cuTensorMapEncodeTiled).
bool tma_can_address(const MatrixArgument& x, DType type, i64 rows, i64 batch) {
  const i64 size = size_of(type);
  const auto stride_fits = [&](i64 elements, i64 count) {
    return count <= 1 || (elements > 0 && elements * size % 16 == 0 && elements * size < (i64(1) << 40));
  };
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && stride_fits(x.ld, rows) &&
         (x.batch_stride == 0 || stride_fits(x.batch_stride, batch));
}

// A dimension of one element has no stride that matters; TMA still wants a legal one.
u64 legal_stride(i64 elements, DType type, i64 count) { return count <= 1 || elements == 0 ? 16 : u64(elements) * u64(size_of(type)); }

TensorMapSpec matrix_map(const MatrixArgument& x, DType type, i64 inner, i64 rows, i64 batch, u32 box_inner, u32 box_rows, Swizzle swizzle) {
  TensorMapSpec spec;
  spec.base = x.data;
  spec.type = type;
  const i64 batches = x.batch_stride == 0 ? 1 : batch;
  spec.extent[0] = u64(inner), spec.extent[1] = u64(rows), spec.extent[2] = u64(batches);
  spec.stride_bytes[0] = legal_stride(x.ld, type, rows);
  spec.stride_bytes[1] = legal_stride(x.batch_stride, type, batches);
  spec.box[0] = box_inner, spec.box[1] = box_rows, spec.box[2] = 1;
  spec.swizzle = swizzle;
  return spec;
}

}  // namespace

i32 raster_group(const Configuration& c, const Problem& p, int blocks) {
  const i64 tiles_m = ceil_div(p.m, i64(c.tile_m) * c.cluster_m), tiles_n = ceil_div(p.n, i64(c.tile_n) * c.cluster_n);
  const i64 wave = std::max<i64>(1, blocks / (c.cluster_m * c.cluster_n));
  i64 best = 1, best_rows = -1;
  for (i64 group = 1; group <= std::min<i64>(tiles_m, 32); ++group) {
    // One wave covers `group` tiles of M by as many columns as it takes.
    // Short of a whole band the division of 64-bit numbers is saved: the model asks for every configuration of a choice.
    const bool within = group * tiles_n >= wave;
    const i64 columns = within ? i64((u32(wave) + u32(group) - 1) / u32(group)) : tiles_n;
    const i64 bands = within ? 1 : ceil_div(wave, group * tiles_n);
    const i64 rows_read = std::min(tiles_m, bands * group) * c.tile_m * c.cluster_m + columns * c.tile_n * c.cluster_n;
    if (best_rows < 0 || rows_read < best_rows) best = group, best_rows = rows_read;
  }
  return i32(best);
}

TileGrid tile_grid(const Configuration& c, const Problem& p, int blocks) {
  return {.tiles_m = i32(ceil_div(p.m, i64(c.tile_m) * c.cluster_m)),
          .tiles_n = i32(ceil_div(p.n, i64(c.tile_n) * c.cluster_n)),
          .batch = i32(p.batch),
          .group = raster_group(c, p, blocks)};
}

// M within a column of tiles: weights that are read again are read soon.
TileGrid decode_grid(const Configuration& c, const Problem& p, int tile_columns) {
  const i32 tiles_m = i32(ceil_div(p.m, i64(c.tile_m)));
  return {.tiles_m = tiles_m, .tiles_n = i32(ceil_div(p.n, i64(tile_columns))), .batch = i32(p.batch), .group = tiles_m};
}

LaunchShape launch_shape(const Operation& o, const Configuration& c, const Problem& p, int sms) {
  LaunchShape s;
  s.threads = u32(block_facts(o, c).threads);
  s.shared_bytes = u32(block_facts(o, c).shared_bytes);
  if (c.family == Family::decode) {
    s.cluster = u32(c.split_k);
    s.blocks = u32(decode::balance(o, c, p, sms).units) * s.cluster;
  } else if (c.family == Family::rows) {
    s.cluster = u32(c.cluster_k);
    s.blocks = u32(rows::balance(c, p, sms).units) * s.cluster;
    if (rows::reallocates_registers(c)) s.registers = rows::launch_registers(c);
  } else if (c.family == Family::sm90) {
    s.cluster = u32(c.cluster_m * c.cluster_n);
    // Persistent: one block an SM, no more clusters than there are cluster tiles.
    const i64 clusters = std::max<i64>(1, std::min<i64>(sms / s.cluster, cluster_tiles(c, p)));
    s.blocks = u32(clusters) * s.cluster;
    s.registers = sm90::launch_registers(c);
  } else if (c.cluster_k > 1) {
    s.cluster = u32(c.cluster_k);
    s.blocks = u32(cluster_tiles(c, p)) * s.cluster;  // a cluster a tile: its partial sums are exchanged once
  } else {
    // Persistent as well: as many blocks as the launch bounds make resident.
    s.blocks = u32(std::max<i64>(1, std::min<i64>(i64(sms) * block_facts(o, c).promised_blocks, cluster_tiles(c, p))));
  }
  return s;
}

Alignment input_alignment(const Operation& o, const Problem& p, const Operands& x) {
  const bool ok = tma_can_address(x.a, o.a, o.transpose_a ? p.k : p.m, p.batch) && tma_can_address(x.b, o.b, o.transpose_b ? p.k : p.n, p.batch);
  return ok ? Alignment::tma : Alignment::any;
}

Alignment output_alignment(const Operation& o, const Problem& p, const Operands& x) {
  return tma_can_address(x.epilogue.d, o.d, p.m, p.batch) ? Alignment::tma : Alignment::any;
}

Sm90TensorMaps sm90_tensor_maps(const Operation& o, const Configuration& c, const Problem& p, const Operands& x) {
  Sm90TensorMaps maps;
  maps.a = matrix_map(x.a, o.a, p.k, p.m, p.batch, u32(sm90::slab_elements(o)), u32(sm90::a_box_rows(c, p.m)), Swizzle::bytes128);
  maps.b = matrix_map(x.b, o.b, p.k, p.n, p.batch, u32(sm90::slab_elements(o)), u32(sm90::b_box_rows(o, c)), Swizzle::bytes128);
  maps.d = matrix_map(x.epilogue.d, o.d, output_columns(o, p.n), p.m, p.batch, u32(sm90::d_chunk_columns(o, c)), sm90::kMmaRows, sm90::d_swizzle(o, c));
  return maps;
}

GemmSimtArguments simt_arguments(const Configuration& c, const Problem& p, const Operands& x, const LaunchShape& shape) {
  GemmSimtArguments args;
  args.m = i32(p.m), args.n = i32(p.n), args.k = i32(p.k);
  args.grid = tile_grid(c, p, int(shape.blocks));
  args.a = x.a, args.b = x.b, args.epilogue = x.epilogue;
  return args;
}

GemmSm90Arguments sm90_arguments(const Operation& o, const Configuration& c, const Problem& p, const Operands& x, const LaunchShape& shape, const EncodeTensorMap& encode) {
  GemmSm90Arguments args{};
  const Sm90TensorMaps maps = sm90_tensor_maps(o, c, p, x);
  args.a = encode(maps.a);
  args.b = encode(maps.b);
  if (sm90::stores_by_tma(o)) args.d = encode(maps.d);
  args.m = i32(p.m), args.n = i32(p.n), args.k = i32(p.k);
  args.a_box_rows = sm90::a_box_rows(c, p.m);
  args.a_batched = x.a.batch_stride != 0, args.b_batched = x.b.batch_stride != 0;
  args.grid = tile_grid(c, p, int(shape.blocks));
  args.epilogue = x.epilogue;
  return args;
}

DecodeTensorMaps decode_tensor_maps(const Operation& o, const Configuration& c, const Problem& p, const Operands& x, int tile_columns) {
  const bool rows = c.family == Family::rows;
  const u32 inner = u32(rows ? rows::kSlab : decode::slab_elements(o));
  DecodeTensorMaps maps;
  maps.a = matrix_map(x.a, o.a, p.k, p.m, p.batch, inner, u32(rows ? c.tile_m : decode::token_box_rows(c)), Swizzle::bytes128);
  maps.b = matrix_map(x.b, o.b, p.k, p.n, p.batch, inner, u32(rows ? tile_columns : decode::weight_box_rows(o, tile_columns)), Swizzle::bytes128);
  // Promotion to 256 bytes costs a tenth of the bandwidth (docs/performance.md): both boxes of a line ask for all of it.
  maps.a.l2_promotion = maps.b.l2_promotion = 0;
  return maps;
}

GemmDecodeArguments decode_arguments(const Operation& o, const Configuration& c, const Problem& p, const Operands& x, int sms, const EncodeTensorMap& encode) {
  GemmDecodeArguments args{};
  if (c.family == Family::rows) {
    args.tile_columns = rows::balance(c, p, sms).columns;
  } else {
    const decode::Balance balance = decode::balance(o, c, p, sms);
    args.tile_columns = balance.columns;
    args.paced_stages = decode::paced_stages(o, c, balance.units * c.split_k, sms);
  }
  const DecodeTensorMaps maps = decode_tensor_maps(o, c, p, x, args.tile_columns);
  args.a = encode(maps.a);
  args.b = encode(maps.b);
  args.m = i32(p.m), args.n = i32(p.n), args.k = i32(p.k);
  args.a_batched = x.a.batch_stride != 0, args.b_batched = x.b.batch_stride != 0;
  args.grid = decode_grid(c, p, args.tile_columns);
  args.epilogue = x.epilogue;
  return args;
}

}  // namespace foretile
