#include "model/traffic.h"

#include <algorithm>
#include <cmath>

#include "model/access.h"

namespace foretile {

namespace {

// What one wave touches: an interval of tile rows, and of tile columns one interval or, where the wave runs over the
// end of a band, a head [0, first_hi) and a tail [lo, tiles_n).
struct Footprint {
  i32 row_lo = 0, row_hi = 0;
  i32 head = 0;                       // columns [0, head)
  i32 column_lo = 0, column_hi = 0;   // disjoint from the head
  i32 band = 0;                       // of the first tile
  i32 rows() const { return row_hi - row_lo; }
  i32 columns() const { return head + column_hi - column_lo; }
};

i32 overlap(i32 a_lo, i32 a_hi, i32 b_lo, i32 b_hi) { return std::max(0, std::min(a_hi, b_hi) - std::max(a_lo, b_lo)); }

// Quotients of non-negative 32-bit numbers by one divisor. Exact: x + 1/2 is half a divisor's share away from the next
// integer, a double's error is far less. Divisions would be most of what a forecast costs.
class Quotient {
 public:
  explicit Quotient(i32 divisor) : inverse_(1.0 / divisor) {}
  i32 operator()(i32 x) const { return i32((x + 0.5) * inverse_); }

 private:
  double inverse_;
};

// Tiles [first, last) of one batch, in the order of device/layout/tile_order.h.
class Waves {
 public:
  explicit Waves(const TileGrid& grid)
      : grid_(grid), per_band_(grid.group * grid.tiles_n), last_band_((grid.tiles_m - 1) / grid.group), last_height_(grid.tiles_m - last_band_ * grid.group),
        by_band_(per_band_), by_group_(grid.group), by_last_height_(last_height_) {}

  Footprint footprint(i32 first, i32 last) const {
    Footprint f;
    const i32 band0 = by_band_(first), band1 = by_band_(last - 1);
    const i32 h0 = height(band0), from = first - band0 * per_band_, column = by_height(band0, from);
    f.band = band0;
    f.row_lo = band0 * grid_.group, f.row_hi = band1 * grid_.group + height(band1);
    if (band0 == band1) {
      const i32 to = last - 1 - band0 * per_band_;
      f.column_lo = column, f.column_hi = by_height(band0, to) + 1;
      const i32 length = last - first;
      if (length < h0) {  // less than a column: rows of one, or of two neighbouring columns
        if (f.column_hi - f.column_lo == 1) f.row_lo += from - column * h0, f.row_hi = f.row_lo + length;
        else f.row_hi = f.row_lo + length;  // two pieces; their number is what counts
      }
      return f;
    }
    f.column_lo = column, f.column_hi = grid_.tiles_n;
    f.head = by_height(band1, last - 1 - band1 * per_band_) + 1;
    // A wave that just reaches into the next band touches some of its rows only.
    const i32 into = last - band1 * per_band_;
    if (into < height(band1)) f.row_hi = band1 * grid_.group + into;
    if (column == grid_.tiles_n - 1) f.row_lo += from - column * h0;
    if (band1 - band0 > 1 || f.head >= f.column_lo) f.head = 0, f.column_lo = 0, f.column_hi = grid_.tiles_n;
    return f;
  }

 private:
  i32 height(i32 band) const { return band == last_band_ ? last_height_ : grid_.group; }
  i32 by_height(i32 band, i32 x) const { return band == last_band_ ? by_last_height_(x) : by_group_(x); }

  const TileGrid& grid_;
  i32 per_band_, last_band_, last_height_;
  Quotient by_band_, by_group_, by_last_height_;
};

i32 new_rows(const Footprint& now, const Footprint& before) { return now.rows() - overlap(now.row_lo, now.row_hi, before.row_lo, before.row_hi); }
i32 new_columns(const Footprint& now, const Footprint& before) {
  const i32 old = overlap(0, now.head, 0, before.head) + overlap(0, now.head, before.column_lo, before.column_hi) +
                  overlap(now.column_lo, now.column_hi, 0, before.head) + overlap(now.column_lo, now.column_hi, before.column_lo, before.column_hi);
  return std::max(0, now.columns() - old);
}

constexpr i32 kExactWaves = 8;     // more waves than this are counted by the band,
constexpr i32 kSampledWaves = 24;  // and where waves reach over bands, by up to so many samples

}  // namespace

double l2_survival(double reuse_distance, double capacity) {
  return std::clamp((1.5 * capacity - reuse_distance) / (0.8 * capacity), 0.0, 1.0);
}

double warm_share(const Machine& machine, const Traffic& t) { return l2_survival(t.a_bytes + t.b_bytes + t.d_bytes, machine.l2_bytes / machine.l2_copies); }

Traffic traffic(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const TileGrid& grid, i64 concurrent) {
  Traffic t;
  const double m = double(p.m), n = double(p.n), k = double(p.k), batch = double(p.batch);
  t.a_bytes = m * k * size_of(o.a) * batch;
  t.b_bytes = n * k * size_of(o.b) * batch;
  const double d_columns = double(output_columns(o, p.n));
  t.d_bytes = m * d_columns * size_of(o.d) * batch;
  t.extra_bytes = m * batch * ((o.has_c ? n * size_of(o.c) : 0) + (o.has_residual ? d_columns * size_of(o.residual) : 0)) + (o.has_bias ? n * size_of(o.bias) * batch : 0);
  t.l2_store_bytes = t.d_bytes;
  t.dram_store_bytes = t.d_bytes;
  if (p.m == 0 || p.n == 0 || p.batch == 0) return t;

  // Every block column reads A once, every block row reads B once; a cluster's shared tile comes once by multicast.
  t.l2_load_bytes = t.a_bytes * grid.tiles_n / sharers_of_a(machine, c, concurrent) + t.b_bytes * grid.tiles_m;

  const double row_bytes = double(c.tile_m) * c.cluster_m * k * size_of(o.a), column_bytes = double(c.tile_n) * c.cluster_n * k * size_of(o.b);
  const i64 per_batch = i64(grid.tiles_m) * grid.tiles_n;
  // Tiles that share a row or a column run on SMs everywhere, so each partition comes to hold what they read.
  const double capacity = machine.l2_bytes / machine.l2_copies;
  double reads = t.a_bytes + t.b_bytes;
  if (concurrent < per_batch) {
    const i32 tiles = i32(per_batch), wave = i32(concurrent);
    const i32 waves = (tiles + wave - 1) / wave;
    // A last row or column of tiles that hangs over the edge reads less.
    const double row_scale = m / (double(grid.tiles_m) * c.tile_m * c.cluster_m), column_scale = n / (double(grid.tiles_n) * c.tile_n * c.cluster_n);
    // Columns come again in every band: the rows of both bands and all columns lie between.
    const double band_distance = std::min<double>(2 * grid.group, grid.tiles_m) * row_bytes * row_scale + double(grid.tiles_n) * column_bytes * column_scale;
    const double band_survival = l2_survival(band_distance, capacity);
    Footprint before;  // of the wave before the one at hand
    const Waves all(grid);
    const auto of_wave = [&](i32 w) { return all.footprint(w * wave, std::min(tiles, (w + 1) * wave)); };
    const auto cost = [&](i32 w, double& distance) {
      const Footprint now = of_wave(w);
      const double a = now.rows() * row_bytes * row_scale, b = now.columns() * column_bytes * column_scale;
      distance = a + b;
      if (w == 0) {
        t.wave_rows = now.rows(), t.wave_columns = now.columns();
        return before = now, a + b;
      }
      const i32 columns = new_columns(now, before);
      const double seen = now.band > 0 ? columns : std::min(columns, now.head);  // in an earlier band
      const double fresh = new_rows(now, before) * row_bytes * row_scale + (columns - seen * band_survival) * column_bytes * column_scale;
      before = now;
      const double again = (1 - l2_survival(distance, capacity)) * (a + b - fresh);
      t.again_bytes += again;
      return fresh + again;
    };
    // Operands that fit in L2 whole are read once, however the waves fall.
    const double once = (t.a_bytes + t.b_bytes) / batch;
    const double resident = l2_survival(once, capacity);
    if (resident < 1) t.band_bytes = band_distance;
    double total = cost(0, t.wave_bytes), distance;
    if (resident >= 1) {
      total = once;
    } else if (waves <= kExactWaves) {
      for (i32 w = 1; w < waves; ++w) total += cost(w, distance);
    } else {
      // A band of h rows is an interval of h x tiles_n tiles cut into waves. Each piece touches all h rows and its columns;
      // a cut through a column, as all but one in h are, makes two pieces touch it.
      const double survives = l2_survival(t.wave_bytes, capacity), row = row_bytes * row_scale, column = column_bytes * column_scale;
      const i32 full_bands = grid.tiles_m / grid.group, rest = grid.tiles_m % grid.group;
      double touched = 0, fresh = 0;
      const auto add_band = [&](double h, double bands, double seen) {
        const double pieces = (h * grid.tiles_n - 1) / wave + 1;
        touched += bands * (pieces * h * row + (grid.tiles_n + (pieces - 1) * (1 - 1 / h)) * column);
        fresh += bands * (h * row + (1 - seen) * grid.tiles_n * column);
      };
      add_band(grid.group, 1, 0);
      add_band(grid.group, full_bands - 1, band_survival);
      if (rest) add_band(rest, 1, band_survival);
      if (i64(grid.group) * grid.tiles_n < 2 * i64(wave)) {  // bands meet within waves and share their columns
        touched = 0;
        const i32 samples = std::min(waves, kSampledWaves);
        for (i32 i = 0; i < samples; ++i) {
          const Footprint f = of_wave(i32(i64(i) * waves / samples));
          touched += (f.rows() * row + f.columns() * column) * waves / samples;
        }
      }
      t.again_bytes = (1 - survives) * (touched - fresh);
      total = fresh + t.again_bytes;
    }
    t.by_waves_bytes = total;
    reads = batch * std::max(once, resident * once + (1 - resident) * total);
  } else {
    t.wave_bytes = t.by_waves_bytes = t.a_bytes + t.b_bytes;
    t.wave_rows = grid.tiles_m, t.wave_columns = grid.tiles_n;
  }
  t.dram_load_bytes = std::min(reads, t.l2_load_bytes);
  t.l2_hit_rate = t.l2_load_bytes > 0 ? 1 - t.dram_load_bytes / t.l2_load_bytes : 0;
  t.dram_load_bytes += t.extra_bytes;
  return t;
}

double sharers_of_a(const Machine& machine, const Configuration& c, i64 concurrent) {
  return c.family == Family::gemv ? std::max(1.0, double(concurrent) / machine.sms) : 1;
}

L2Lookups l2_lookups(const Machine& machine, const Configuration& c, const Problem& p, const TileGrid& grid, i64 concurrent, const Traffic& t) {
  if (grid.tiles_m == 0 || grid.tiles_n == 0) return {};
  // Tile rows and columns of a wave.
  const double group = grid.group, across = grid.tiles_n, wave = double(concurrent);
  const double rows = std::min<double>(grid.tiles_m, group * std::max(1.0, std::ceil(wave / (group * across)))), columns = std::min(across, std::ceil(wave / rows));
  // Of the lines that `readers` SMs want, those that SMs of both partitions do.
  const auto on_both_sides = [&](double readers) { return machine.l2_copies > 1 ? 1 - 2 * std::exp2(-readers) : 0; };
  const double a = rows * std::min<double>(double(c.tile_m) * c.cluster_m, double(p.m)), b = columns * std::min<double>(double(c.tile_n) * c.cluster_n, double(p.n));
  const double both = (a * on_both_sides(columns) + b * on_both_sides(rows)) / (a + b);
  const bool alone = c.cluster_m * c.cluster_n > 1 || rows == 1;
  L2Lookups l;
  l.share = alone ? 1 : machine.l2_lookups, l.again = 0.5 * both;
  l.rows = a, l.columns = b, l.row_readers = columns, l.column_readers = rows;
  l.sectors = t.l2_load_bytes * l.share / kSectorBytes;
  l.misses = std::min(l.sectors, (t.dram_load_bytes - t.extra_bytes) * (1 + l.again) / kSectorBytes);
  return l;
}

}  // namespace foretile
