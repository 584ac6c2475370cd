#include "ladder/described.h"

#include <stdexcept>

#include "foretile/device/ladder/01_naive.cuh"
#include "foretile/device/ladder/02_coalesced.cuh"
#include "foretile/device/ladder/03_shared_tile.cuh"
#include "foretile/device/ladder/07_bank_aware.cuh"
#include "foretile/device/ladder/10_asynchronous_stages.cuh"
#include "foretile/device/ladder/11_tma_wgmma.cuh"

namespace foretile::ladder {

namespace {

using P = AccessPoint;

// The address of an element of a dense matrix, or no access beyond its edges.
i64 inside(i64 rows, i64 columns, i64 row, i64 column, int bytes) { return row < rows && column < columns ? (row * columns + column) * bytes : kNoAccess; }

using Place = std::function<std::pair<i64, i64>(const P&)>;  // row and column, within the block's tile and step

DescribedAccess global(const char* text, Direction direction, const char* array, int bytes, int times, AddressFunction address) {
  return {.text = text, .space = Space::global, .direction = direction, .array = array, .bytes = bytes, .times = times, .address = std::move(address)};
}
DescribedAccess shared(const char* text, Direction direction, const char* array, int bytes, int times, AddressFunction address) {
  return {.text = text, .space = Space::shared, .direction = direction, .array = array, .bytes = bytes, .times = times, .address = std::move(address)};
}

// `elements` neighbours of a row of a dense matrix, `times` a thread: one access where all rows stand on multiples of it, which
// `columns` decides, else one an element. `place` gives the first one's row and column; a row beyond the matrix: no access.
DescribedAccess neighbours(const char* text, Direction direction, const char* array, int bytes, int elements, int times, i64 rows, i64 columns, Place place) {
  const int each = columns % elements == 0 ? 1 : elements;
  return global(text, direction, array, bytes * elements / each, times * each, [=](P p) {
    const int element = p.repetition % each;
    p.repetition /= each;
    const auto [row, column] = place(p);
    return inside(rows, columns, row, column + element, bytes);
  });
}

// Rungs 1 and 2: one thread an output; `place` says where in the block's rectangle.
DescribedKernel one_output(const Variant& v, const Place& place) {
  const Tile t = v.tile;
  const int kUnrolled = v.loop_multiplies;  // the compiler's, of the loop along K
  DescribedKernel k{.tile_m = t.tile_m, .tile_n = t.tile_n, .tile_k = kUnrolled, .threads_x = v.threads, .multiply_adds = double(kUnrolled), .independent_sums = 1, .barriers = 0};
  k.step = {global("A[row, k]", Direction::load, "A", 4, kUnrolled,
                   [=](const P& p) { return inside(p.problem.m, p.problem.k, p.block_m * t.tile_m + place(p).first, p.step * kUnrolled + p.repetition, 4); }),
            global("B[k, column]", Direction::load, "B", 4, kUnrolled,
                   [=](const P& p) { return inside(p.problem.k, p.problem.n, p.step * kUnrolled + p.repetition, p.block_n * t.tile_n + place(p).second, 4); })};
  k.epilogue = {global("D[row, column]", Direction::store, "D", 4, 1, [=](const P& p) {
    const auto [row, column] = place(p);
    return inside(p.problem.m, p.problem.n, p.block_m * t.tile_m + row, p.block_n * t.tile_n + column, 4);
  })};
  return k;
}

DescribedKernel tiled(const Variant& v) {
  return {.tile_m = v.tile.tile_m, .tile_n = v.tile.tile_n, .tile_k = v.tile.tile_k, .threads_x = v.threads, .shared_bytes = v.shared_bytes};
}

DescribedKernel square_tile(const Variant& v) {
  const Tile t = v.tile;
  const i64 size = t.tile_k, pitch = shared_tile_pitch(t), b_tile = 4 * size * pitch;
  const bool turned = t.layout == Layout::b_transposed;
  DescribedKernel k = tiled(v);
  k.threads_x = t.tile_k, k.threads_y = t.tile_k;
  k.independent_sums = 1;
  k.step = {
      global("A[row, step + tx]", Direction::load, "A", 4, 1, [=](const P& p) { return inside(p.problem.m, p.problem.k, p.block_m * size + p.ty, p.step * size + p.tx, 4); }),
      shared("a(ty, tx) =", Direction::store, "a", 4, 1, [=](const P& p) { return 4 * (p.ty * pitch + p.tx); }),
      global("B[step + ty, column]", Direction::load, "B", 4, 1, [=](const P& p) { return inside(p.problem.k, p.problem.n, p.step * size + p.ty, p.block_n * size + p.tx, 4); }),
      shared(turned ? "b(tx, ty) =" : "b(ty, tx) =", Direction::store, "b", 4, 1, [=](const P& p) { return b_tile + 4 * (turned ? p.tx * pitch + p.ty : p.ty * pitch + p.tx); }),
      shared("a(ty, k)", Direction::load, "a", 4, int(size), [=](const P& p) { return 4 * (p.ty * pitch + p.repetition); }),
      shared(turned ? "b(tx, k)" : "b(k, tx)", Direction::load, "b", 4, int(size), [=](const P& p) { return b_tile + 4 * (turned ? p.tx * pitch + p.repetition : p.repetition * pitch + p.tx); })};
  k.epilogue = {global("D[row, column]", Direction::store, "D", 4, 1,
                       [=](const P& p) { return inside(p.problem.m, p.problem.n, p.block_m * size + p.ty, p.block_n * size + p.tx, 4); })};
  return k;
}

// Rungs 4 and 5: element by element.
DescribedKernel rectangle(const Variant& v) {
  const Tile t = v.tile;
  const i64 threads_ = v.threads, b_tile = 4 * t.tile_m * t.tile_k, across = t.tile_n / t.thread_n;
  const auto share = [=](const P& p, i64 columns) { return std::pair<i64, i64>((p.repetition * threads_ + p.thread) / columns, (p.repetition * threads_ + p.thread) % columns); };
  const auto row = [=](const P& p) { return p.thread / across * t.thread_m; };
  const auto column = [=](const P& p) { return p.thread % across * t.thread_n; };
  const int a_times = int(ceil_div(t.tile_m * t.tile_k, threads_)), b_times = int(ceil_div(t.tile_k * t.tile_n, threads_));
  const auto in_a = [=](const P& p) { return p.repetition * threads_ + p.thread < t.tile_m * t.tile_k; };
  const auto in_b = [=](const P& p) { return p.repetition * threads_ + p.thread < t.tile_k * t.tile_n; };
  DescribedKernel k = tiled(v);
  k.step = {
      global("A[row, step + k]", Direction::load, "A", 4, a_times,
             [=](const P& p) {
               const auto [r, c] = share(p, t.tile_k);
               return in_a(p) ? inside(p.problem.m, p.problem.k, p.block_m * t.tile_m + r, p.step * t.tile_k + c, 4) : kNoAccess;
             }),
      shared("a(row, k) =", Direction::store, "a", 4, a_times, [=](const P& p) { return in_a(p) ? 4 * (p.repetition * threads_ + p.thread) : kNoAccess; }),
      global("B[step + k, column]", Direction::load, "B", 4, b_times,
             [=](const P& p) {
               const auto [r, c] = share(p, t.tile_n);
               return in_b(p) ? inside(p.problem.k, p.problem.n, p.step * t.tile_k + r, p.block_n * t.tile_n + c, 4) : kNoAccess;
             }),
      shared("b(k, column) =", Direction::store, "b", 4, b_times, [=](const P& p) { return in_b(p) ? b_tile + 4 * (p.repetition * threads_ + p.thread) : kNoAccess; }),
      shared("a(row + i, k)", Direction::load, "a", 4, t.tile_k * t.thread_m,
             [=](const P& p) { return 4 * ((row(p) + p.repetition % t.thread_m) * t.tile_k + p.repetition / t.thread_m); }),
      shared("b(k, column + j)", Direction::load, "b", 4, t.tile_k * t.thread_n,
             [=](const P& p) { return b_tile + 4 * (p.repetition / t.thread_n * t.tile_n + column(p) + p.repetition % t.thread_n); })};
  k.epilogue = {global("D[row + i, column + j]", Direction::store, "D", 4, t.thread_m * t.thread_n, [=](const P& p) {
    return inside(p.problem.m, p.problem.n, p.block_m * t.tile_m + row(p) + p.repetition / t.thread_n, p.block_n * t.tile_n + column(p) + p.repetition % t.thread_n, 4);
  })};
  return k;
}

// Rungs 6 and 7: four elements an access. `aware`: a thread's rows and columns come in groups of four.
DescribedKernel fours(const Variant& v, const Problem& problem, bool aware) {
  const Tile t = v.tile;
  const i64 threads_ = v.threads, pitch = aware ? bank_aware_pitch(t) : t.tile_m, b_tile = 4 * t.tile_k * pitch;
  const i64 across = t.tile_n / t.thread_n, down = t.tile_m / t.thread_m;
  const auto row = [=](const P& p, i64 i) { return aware ? i / 4 * 4 * down + p.thread / across * 4 + i % 4 : p.thread / across * t.thread_m + i; };
  const auto column = [=](const P& p, i64 j) { return aware ? j / 4 * 4 * across + p.thread % across * 4 + j % 4 : p.thread % across * t.thread_n + j; };
  const auto at = [=](i64 k, i64 c) { return t.layout == Layout::swizzled ? c ^ (k / 4 * (128 / t.tile_k)) : c; };
  const int a_times = int(ceil_div(t.tile_m * t.tile_k / 4, threads_)), b_times = int(ceil_div(t.tile_k * t.tile_n / 4, threads_));
  const auto a_place = [=](i64 index) { return std::pair<i64, i64>(index / (t.tile_k / 4), index % (t.tile_k / 4) * 4); };
  const auto b_place = [=](i64 index) { return std::pair<i64, i64>(index / (t.tile_n / 4), index % (t.tile_n / 4) * 4); };
  DescribedKernel k = tiled(v);
  k.step = {
      neighbours("A[row, step + k .. +3]", Direction::load, "A", 4, 4, a_times, problem.m, problem.k,
                 [=](const P& p) {
                   const i64 index = p.repetition * threads_ + p.thread;
                   const auto [r, c] = a_place(index);
                   return std::pair<i64, i64>(index < t.tile_m * t.tile_k / 4 ? p.block_m * t.tile_m + r : problem.m, p.step * t.tile_k + c);
                 }),
      shared("a(k .. k+3, row) =", Direction::store, "a", 4, 4 * a_times,
             [=](const P& p) {
               const i64 index = p.repetition / 4 * threads_ + p.thread;
               const auto [r, c] = a_place(index);
               return index < t.tile_m * t.tile_k / 4 ? 4 * ((c + p.repetition % 4) * pitch + at(c, r)) : kNoAccess;
             }),
      neighbours("B[step + k, column .. +3]", Direction::load, "B", 4, 4, b_times, problem.k, problem.n,
                 [=](const P& p) {
                   const i64 index = p.repetition * threads_ + p.thread;
                   const auto [r, c] = b_place(index);
                   return std::pair<i64, i64>(index < t.tile_k * t.tile_n / 4 ? p.step * t.tile_k + r : problem.k, p.block_n * t.tile_n + c);
                 }),
      shared("b(k, column .. +3) =", Direction::store, "b", 16, b_times,
             [=](const P& p) {
               const i64 index = p.repetition * threads_ + p.thread;
               const auto [r, c] = b_place(index);
               return index < t.tile_k * t.tile_n / 4 ? b_tile + 4 * (r * t.tile_n + c) : kNoAccess;
             }),
      shared("a(k, row .. +3)", Direction::load, "a", 16, t.tile_k * t.thread_m / 4,
             [=](const P& p) {
               const i64 depth = p.repetition / (t.thread_m / 4), i = p.repetition % (t.thread_m / 4) * 4;
               return 4 * (depth * pitch + at(depth, row(p, i)));
             }),
      shared("b(k, column .. +3)", Direction::load, "b", 16, t.tile_k * t.thread_n / 4, [=](const P& p) {
        const i64 depth = p.repetition / (t.thread_n / 4), j = p.repetition % (t.thread_n / 4) * 4;
        return b_tile + 4 * (depth * t.tile_n + column(p, j));
      })};
  k.epilogue = {neighbours("D[row + i, column + j .. +3]", Direction::store, "D", 4, 4, t.thread_m * t.thread_n / 4, problem.m, problem.n, [=](const P& p) {
    const i64 i = p.repetition / (t.thread_n / 4), j = p.repetition % (t.thread_n / 4) * 4;
    return std::pair<i64, i64>(p.block_m * t.tile_m + row(p, i), p.block_n * t.tile_n + column(p, j));
  })};
  return k;
}

// Rungs 9 and 10: chunks of eight 16-bit elements, ldmatrix, mma.sync.
DescribedKernel mma(const Variant& v, const Problem& problem, bool ring) {
  const i64 depth = ring ? kRingDepth : kMmaDepth, chunks = depth / kChunk, threads_ = v.threads;
  const auto at = [=](i64 row, i64 chunk) { return ring ? row * 128 + (chunk ^ row % 8) * 16 : 2 * (row * kMmaPitch + chunk * kChunk); };
  const int times = int(kMmaTile * chunks / threads_);
  const auto operand = [=](const char* text, const char* array, i64 first_row, bool of_a) {
    const auto place = [=](const P& p) { return std::pair<i64, i64>((p.repetition * threads_ + p.thread) / chunks, (p.repetition * threads_ + p.thread) % chunks); };
    return std::vector<DescribedAccess>{
        neighbours(text, Direction::load, of_a ? "A" : "B", 2, kChunk, times, of_a ? problem.m : problem.n, problem.k,
                   [=](const P& p) {
                     const auto [r, c] = place(p);
                     return std::pair<i64, i64>((of_a ? p.block_m : p.block_n) * kMmaTile + r, p.step * depth + c * kChunk);
                   }),
        shared(of_a ? "a(row, chunk) =" : "b(row, chunk) =", Direction::store, array, 16, times, [=](const P& p) {
          const auto [r, c] = place(p);
          return at(first_row + r, c);
        })};
  };
  const auto load = [=](const char* text, const char* array, i64 first_row, int warp_rows, bool down) {
    const int fragments = warp_rows / 16;
    DescribedAccess x = shared(text, Direction::load, array, 16, int(depth / 16) * fragments, [=](const P& p) {
      const i64 warp = p.thread / 32, lane = p.thread % 32, first = down ? warp / 4 * kWarpRows : warp % 4 * kWarpColumns;
      return down ? at(first_row + first + p.repetition % fragments * 16 + lane % 16, p.repetition / fragments * 2 + lane / 16)
                  : at(first_row + first + p.repetition % fragments * 16 + lane / 16 * 8 + lane % 8, p.repetition / fragments * 2 + lane / 8 % 2);
    });
    x.matrix = true;
    return x;
  };
  DescribedKernel k = tiled(v);
  k.input = k.output = DType::bf16;
  k.multiplier = Multiplier::mma;
  k.step = operand("A[row, chunk]", "a", 0, true);
  for (DescribedAccess& x : operand("B[row, chunk]", "b", kMmaTile, false)) k.step.push_back(std::move(x));
  k.step.push_back(load("ldmatrix a", "a", 0, kWarpRows, true));
  k.step.push_back(load("ldmatrix b", "b", kMmaTile, kWarpColumns, false));
  // Rows that do not stand on multiples of 16 bytes pass through registers: no copy is in flight.
  if (ring) k.barriers = 1;
  if (ring && problem.k % kChunk == 0) k.stages = kRingStages, k.copy = Copy::async;
  k.epilogue = {neighbours("D[row, column .. +1]", Direction::store, "D", 2, 2, kWarpRows / 16 * kWarpColumns / 8 * 2, problem.m, problem.n, [=](const P& p) {
    const i64 warp = p.thread / 32, half = p.repetition % 2, j = p.repetition / 2 % (kWarpColumns / 8), i = p.repetition / 2 / (kWarpColumns / 8);
    const Element e = mma_accumulator(p.thread % 32, int(2 * half));
    return std::pair<i64, i64>(p.block_m * kMmaTile + warp / 4 * kWarpRows + 16 * i + e.row, p.block_n * kMmaTile + warp % 4 * kWarpColumns + 8 * j + e.column);
  })};
  return k;
}

DescribedKernel bulk(const Variant& v, const Problem& problem) {
  DescribedKernel k = tiled(v);
  k.input = k.output = DType::bf16;
  k.multiplier = Multiplier::wgmma;
  k.copy = Copy::bulk;
  k.stages = kTmaStages;
  k.barriers = 1;
  k.epilogue = {neighbours("D[row, column .. +1]", Direction::store, "D", 2, 2, kTmaColumns / 4, problem.m, problem.n, [=](const P& p) {
    const Element e = wgmma_accumulator(p.thread % 128, 2 * p.repetition);
    return std::pair<i64, i64>(p.block_m * kTmaRows + p.thread / 128 * 64 + e.row, p.block_n * kTmaColumns + e.column);
  })};
  return k;
}

}  // namespace

DescribedKernel describe(const Rung& rung, const Variant& v, const Problem& p) {
  DescribedKernel k;
  switch (rung.number) {
    case 0: k = square_tile(v); break;
    case 1: k = one_output(v, [](const P& p) { return std::pair<i64, i64>(p.thread % kNaiveRows, p.thread / kNaiveRows); }); break;
    case 2: k = one_output(v, [](const P& p) { return std::pair<i64, i64>(p.thread / kCoalescedColumns, p.thread % kCoalescedColumns); }); break;
    case 3: k = square_tile(v); break;
    case 4:
    case 5: k = rectangle(v); break;
    case 6: k = fours(v, p, false); break;
    case 7: k = fours(v, p, true); break;
    case 9: k = mma(v, p, false); break;
    case 10: k = mma(v, p, true); break;
    case 11: k = bulk(v, p); break;
    default: throw std::invalid_argument("a production rung has no description: its forecast is the library's own");
  }
  k.name = rung.name;
  k.registers = v.registers;
  k.other_instructions = v.loop_other;  // a loop is a step in every rung
  k.register_clocks = v.register_clocks;
  k.raster_group = 8;  // block_corner()
  return k;
}

}  // namespace foretile::ladder
