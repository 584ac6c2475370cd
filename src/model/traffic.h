// What a kernel moves between DRAM, L2 and the SMs. Closed form over waves of tiles; no allocation.
#pragma once
#include "foretile/device/arguments.h"
#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"
#include "model/machine.h"

namespace foretile {

struct Traffic {
  double a_bytes = 0, b_bytes = 0, d_bytes = 0, extra_bytes = 0;  // each operand once; extra: C, bias and residual
  double l2_load_bytes = 0;   // requested from L2 for A and B; a multicast counts once
  double l2_store_bytes = 0;  // D
  double dram_load_bytes = 0, dram_store_bytes = 0;
  double wave_bytes = 0;      // distinct bytes of A and B that one full wave reads: the reuse distance between waves
  double wave_rows = 0, wave_columns = 0;    // tile rows and columns of the first wave
  double band_bytes = 0;      // that lie between two bands' reads of a column; 0: one wave, or both operands fit into L2 whole
  double by_waves_bytes = 0, again_bytes = 0;  // of one batch, wave by wave: what is read first or found no longer; of it the latter
  double l2_hit_rate = 0;     // of the loads of A and B
  double dram_bytes() const { return dram_load_bytes + dram_store_bytes; }
  double l2_bytes() const { return l2_load_bytes + l2_store_bytes + extra_bytes; }
};

// `grid` and `concurrent`: the tile grid and how many of its tiles run at once (clusters for sm90). Every batch has
// matrices of its own. Nothing is assumed to be in L2 beforehand. Rows beyond the edge cost no traffic: TMA fills zeros.
Traffic traffic(const Machine& machine, const Operation& o, const Configuration& c, const Problem& p, const TileGrid& grid, i64 concurrent);

// How many blocks of an SM find A in its L1 once one of them has read it: gemv's walk along K together; the others take tiles of A
// past L1 to shared memory.
double sharers_of_a(const Machine& machine, const Configuration& c, i64 concurrent);

// How much of what the previous wave read is still in L2 when this wave wants it: 1 while the reuse distance is below
// 0.7 of the capacity, 0 above 1.5, a straight line between. The knee that streaming reads show on A100, H100 and H200
// (te42kyfo/gpu-benches): full speed to 0.65-0.8 of the capacity, DRAM speed from 1.4-1.6 on.
double l2_survival(double reuse_distance, double capacity);
// Of A and B, what a launch finds in L2 from the launch before it on the same operands: they and D lie between.
double warm_share(const Machine& machine, const Traffic& t);

// What L2's counters of lookups see of the SMs' reads. Neighbouring SMs that want the same line meet before they look it up, unless
// a multicast has joined them already. Each partition keeps its own copy of a line: where SMs on both sides want it, whoever is
// first in the far partition misses, and so does the home partition if its own SMs were not there before: one lookup in two.
struct L2Lookups {
  double sectors = 0, misses = 0;  // of 32 bytes
  double share = 1, again = 0;     // lookups a request; of what DRAM gives, how much is missed a second time
  double rows = 0, columns = 0, row_readers = 0, column_readers = 0;  // of A and B that a wave reads, and how many SMs read each of them
  double hit_rate() const { return sectors > 0 ? 1 - misses / sectors : 0; }
};
L2Lookups l2_lookups(const Machine& machine, const Configuration& c, const Problem& p, const TileGrid& grid, i64 concurrent, const Traffic& t);

}  // namespace foretile
