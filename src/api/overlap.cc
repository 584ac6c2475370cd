#include "api/overlap.h"

#include <algorithm>
#include <array>
#include <utility>

namespace foretile {

namespace {

// One term of a sum: stride times an integer in [low, high].
struct Term { i64 stride, low, high; };

constexpr i64 floor_div(i64 a, i64 b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// Is there a sum of the terms within [low, high]? Terms from the largest stride down: what the smaller ones can add bounds how
// far off the larger ones may be, which for nested layouts leaves one or two values each.
class Search {
 public:
  void add(i64 stride, i64 low, i64 high) {
    if (stride == 0 || (low == 0 && high == 0)) return;
    for (int i = 0; i < count_; ++i)
      if (terms_[i].stride == stride) {  // equal strides act as one
        terms_[i].low += low, terms_[i].high += high;
        return;
      }
    terms_[count_++] = {stride, low, high};
  }
  Overlap run(i64 low, i64 high) {
    for (int i = 1; i < count_; ++i)
      for (int j = i; j > 0 && terms_[j].stride > terms_[j - 1].stride; --j) std::swap(terms_[j], terms_[j - 1]);
    return step(0, low, high);
  }

 private:
  Overlap step(int first, i64 low, i64 high) {
    if (low > high) return Overlap::none;
    if (first == count_) return low <= 0 && 0 <= high ? Overlap::some : Overlap::none;
    i64 rest_low = 0, rest_high = 0;
    for (int i = first + 1; i < count_; ++i) rest_low += terms_[i].stride * terms_[i].low, rest_high += terms_[i].stride * terms_[i].high;
    const Term& t = terms_[first];
    const i64 from = std::max(t.low, -floor_div(-(low - rest_high), t.stride)), to = std::min(t.high, floor_div(high - rest_low, t.stride));
    if (first + 1 == count_) return from <= to ? Overlap::some : Overlap::none;
    bool undecided = false;
    for (i64 v = from; v <= to; ++v) {
      if (++steps_ > kSteps) return Overlap::undecided;
      const Overlap o = step(first + 1, low - v * t.stride, high - v * t.stride);
      if (o == Overlap::some) return o;
      undecided |= o == Overlap::undecided;
    }
    return undecided ? Overlap::undecided : Overlap::none;
  }

  static constexpr int kSteps = 1 << 20;
  std::array<Term, 4> terms_{};
  int count_ = 0, steps_ = 0;
};

}  // namespace

Overlap overlap(const void* x_base, const Extent& x, const void* y_base, const Extent& y) {
  const u64 xb = reinterpret_cast<u64>(x_base), yb = reinterpret_cast<u64>(y_base);
  const i64 xs = x.span(), ys = y.span();
  if (xs == 0 || ys == 0 || xb + u64(xs) <= yb || yb + u64(ys) <= xb) return Overlap::none;
  // Rows [p, p + x.row_bytes) and [q, q + y.row_bytes) meet where -x.row_bytes < p - q < y.row_bytes.
  Search search;
  search.add(x.row_stride, 0, x.rows - 1);
  search.add(x.batch_stride, 0, x.batches - 1);
  search.add(y.row_stride, -(y.rows - 1), 0);
  search.add(y.batch_stride, -(y.batches - 1), 0);
  const i64 offset = i64(xb - yb);
  return search.run(1 - x.row_bytes - offset, y.row_bytes - 1 - offset);
}

Overlap batches_overlap(const Extent& x) {
  if (x.span() == 0 || x.batches == 1) return Overlap::none;
  if (x.batch_stride >= (x.rows - 1) * x.row_stride + x.row_bytes) return Overlap::none;                       // one after the other
  if (x.row_stride >= (x.batches - 1) * x.batch_stride + x.row_bytes && x.batch_stride >= x.row_bytes) return Overlap::none;  // side by side in a row
  if (x.batch_stride == 0) return Overlap::some;
  Search search;
  search.add(x.row_stride, -(x.rows - 1), x.rows - 1);
  search.add(x.batch_stride, 1, x.batches - 1);
  return search.run(1 - x.row_bytes, x.row_bytes - 1);
}

}  // namespace foretile
