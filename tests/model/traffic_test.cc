#include "model/traffic.h"

#include <gtest/gtest.h>

#include <list>
#include <set>
#include <unordered_map>

#include "foretile/device/catalogue.h"
#include "foretile/device/layout/tile_order.h"
#include "foretile/device/legality.h"
#include "plan/plan.h"

namespace foretile {
namespace {

const Operation kOperation = catalogue::product(DType::bf16, DType::bf16);

struct Simulated {
  double reads = 0, requests = 0;
};

// Blocks in lock step along K, a fully associative least-recently-used cache of K slabs, tiles in the kernel's order.
Simulated simulate(const Configuration& c, const Problem& p, const TileGrid& grid, i64 wave, double capacity) {
  const i64 bk = 256, steps = p.k / bk;
  const double slab = double(c.tile_m) * double(bk) * 2;  // square tiles: A's and B's slabs are alike
  const size_t slots = size_t(capacity / slab);
  std::list<u64> order;
  std::unordered_map<u64, std::list<u64>::iterator> where;
  Simulated s;
  const auto touch = [&](u64 key) {
    s.requests += slab;
    if (const auto found = where.find(key); found != where.end()) {
      order.splice(order.begin(), order, found->second);
      return;
    }
    s.reads += slab;
    order.push_front(key);
    where[key] = order.begin();
    if (where.size() > slots) where.erase(order.back()), order.pop_back();
  };
  const i64 tiles = tile_count(grid);
  for (i64 first = 0; first < tiles; first += wave) {
    for (i64 k = 0; k < steps; ++k) {
      for (i64 i = first; i < std::min(tiles, first + wave); ++i) {
        const TileCoordinate t = tile_at(i32(i), grid);
        touch(u64(t.m) << 40 | u64(k) << 1);
        touch(u64(t.n) << 40 | u64(k) << 1 | 1);
      }
    }
  }
  return s;
}

// The closed form against the simulation, with a capacity far from the soft knee on either side.
TEST(Traffic, ClosedFormAgreesWithASimulatedCache) {
  Machine machine = load_machine("h200");
  machine.l2_copies = 1;  // the simulated cache has no partitions
  const Configuration c = catalogue::coop(128, 128, 6, 2);
  int compared = 0;
  for (const Problem& p : {Problem{4096, 4096, 2048}, Problem{8192, 8192, 2048}, Problem{8192, 4096, 4096}, Problem{2048, 16384, 2048}, Problem{1024, 8192, 4096}, Problem{32768, 2048, 2048}}) {
    for (i32 group : {1, 4, 8, 12, 32}) {
      TileGrid grid = tile_grid(c, p, 132);
      grid.group = std::min(group, grid.tiles_m);
      for (double share : {0.35, 3.0}) {
        // The wave's footprint decides: a cache a third of it, or three times it.
        machine.l2_bytes = 1;
        const double wave = traffic(machine, kOperation, c, p, grid, 132).wave_bytes;
        machine.l2_bytes = wave * share;
        const Traffic t = traffic(machine, kOperation, c, p, grid, 132);
        const Simulated s = simulate(c, p, grid, 132, machine.l2_bytes);
        EXPECT_DOUBLE_EQ(t.l2_load_bytes, s.requests);
        // A real cache has a soft knee, the simulated one a hard one: compare away from it, for both operands whole and
        // for what lies between two visits to a column.
        const auto in_knee = [&](double bytes) { return bytes > 0.7 * machine.l2_bytes && bytes < 1.5 * machine.l2_bytes; };
        if (in_knee(t.a_bytes + t.b_bytes) || in_knee((std::min(2 * grid.group, grid.tiles_m) + grid.tiles_n) * 128.0 * double(p.k) * 2)) continue;
        ++compared;
        EXPECT_NEAR(t.dram_load_bytes / s.reads, 1, 0.08) << p.m << "x" << p.n << "x" << p.k << " group " << grid.group << " cache " << share;
        EXPECT_NEAR(t.l2_hit_rate, 1 - s.reads / s.requests, 0.02) << p.m << "x" << p.n << "x" << p.k << " group " << grid.group << " cache " << share;
      }
    }
  }
  EXPECT_GE(compared, 30);
}

// One wave on a rectangle of g x h square tiles: every tile asks for its row and column, distinct are g + h of 2 g h.
TEST(Traffic, OneWaveByHand) {
  const Machine machine = load_machine("h200");
  const Configuration c = catalogue::coop(128, 128, 6, 2);
  const Problem p{12 * 128, 11 * 128, 4096};
  const Traffic t = traffic(machine, kOperation, c, p, tile_grid(c, p, 132), 132);
  EXPECT_DOUBLE_EQ(t.l2_hit_rate, 1 - (12.0 + 11) / (2 * 12 * 11));
  EXPECT_DOUBLE_EQ(t.dram_load_bytes, 2.0 * 4096 * (12 + 11) * 128);
}

TEST(Traffic, EdgesAndMulticast) {
  const Machine machine = load_machine("h200");
  const Configuration plain = catalogue::coop(128, 256, 4, 2), pair = catalogue::coop(128, 256, 4, 2, 2);
  const Problem p{1000, 3000, 512};
  const Traffic t = traffic(machine, kOperation, plain, p, tile_grid(plain, p, 132), 96);
  EXPECT_DOUBLE_EQ(t.a_bytes, 1000.0 * 512 * 2);
  EXPECT_DOUBLE_EQ(t.l2_load_bytes, t.a_bytes * 12 + t.b_bytes * 8) << "padding costs no traffic";
  const Traffic u = traffic(machine, kOperation, pair, p, tile_grid(pair, p, 132), 48);
  EXPECT_DOUBLE_EQ(u.l2_load_bytes, u.a_bytes * 12 + u.b_bytes * 4) << "a pair of blocks reads B once";
  EXPECT_DOUBLE_EQ(t.dram_load_bytes, t.a_bytes + t.b_bytes) << "operands smaller than L2 are read once";
}

TEST(Traffic, EpilogueOperandsCount) {
  const Machine machine = load_machine("h200");
  const Operation o = catalogue::full(DType::bf16, DType::bf16, Activation::relu);
  const Configuration c = catalogue::coop(128, 256, 4, 2);
  const Problem p{2048, 2048, 64};
  const Traffic t = traffic(machine, o, c, p, tile_grid(c, p, 128), 128);
  EXPECT_DOUBLE_EQ(t.extra_bytes, 2 * 2048.0 * 2048 * 2 + 2048 * 2);
  EXPECT_DOUBLE_EQ(t.dram_bytes(), t.a_bytes + t.b_bytes + t.d_bytes + t.extra_bytes);
}

TEST(Traffic, BoundsHoldEverywhere) {
  const Machine machine = load_machine("h200");
  for (const Configuration& c : catalogue::kConfigurations) {
    for (i64 m : {1, 100, 2048, 20000}) {
      for (i64 n : {16, 1000, 28672}) {
        for (i64 batch : {1, 3}) {
          const Problem p{m, n, 4096, batch};
          if (why_not(kOperation, c, p)) continue;
          const LaunchShape shape = launch_shape(kOperation, c, p, 132);
          const i64 concurrent = std::min<i64>(shape.blocks / shape.cluster, cluster_tiles(c, p));
          const Traffic t = traffic(machine, kOperation, c, p, tile_grid(c, p, int(shape.blocks)), concurrent);
          EXPECT_GE(t.dram_load_bytes, 0.999999 * (t.a_bytes + t.b_bytes));
          EXPECT_LE(t.dram_load_bytes, t.l2_load_bytes * 1.000001);
          EXPECT_GE(t.l2_hit_rate, 0);
          EXPECT_LT(t.l2_hit_rate, 1);
        }
      }
    }
  }
}

TEST(Traffic, TheKneeIsSoft) {
  EXPECT_EQ(l2_survival(0.5e6, 1e6), 1);
  EXPECT_EQ(l2_survival(1.6e6, 1e6), 0);
  EXPECT_DOUBLE_EQ(l2_survival(1.1e6, 1e6), 0.5);
}

}  // namespace
}  // namespace foretile
