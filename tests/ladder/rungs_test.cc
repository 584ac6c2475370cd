// Every rung in the emulator: right at odd sizes, no finding, in several schedules; its counters are those the lessons state.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "foretile/emulator.h"
#include "ladder/rungs.h"

namespace foretile::ladder {
namespace {

using emulator::Async;
using emulator::Report;

// Small whole numbers: every sum is exact, in whatever order.
struct Case {
  Problem p;
  std::vector<float> a, b, want;
  std::vector<u16> a16, b16;
  std::vector<float> d;
  std::vector<u16> d16;

  Case(const Rung& rung, const Problem& problem, u32 seed) : p(problem) {
    std::mt19937 rng(seed);
    const auto fill = [&](std::vector<float>& x, i64 n) {
      x.resize(std::size_t(n));
      for (float& v : x) v = float(int(rng() % 5) - 2);
    };
    fill(a, p.m * p.k), fill(b, p.k * p.n);
    want.assign(std::size_t(p.m * p.n), 0);
    for (i64 m = 0; m < p.m; ++m)
      for (i64 n = 0; n < p.n; ++n)
        for (i64 k = 0; k < p.k; ++k) want[std::size_t(m * p.n + n)] += a[std::size_t(m * p.k + k)] * b[std::size_t(rung.weights_layout ? n * p.k + k : k * p.n + n)];
    if (rung.type == DType::fp32) {
      d.assign(want.size(), std::nanf(""));
    } else {
      for (float x : a) a16.push_back(round_to<bf16>(x).bits);
      for (float x : b) b16.push_back(round_to<bf16>(x).bits);
      d16.assign(want.size(), 0x7fff);
    }
  }
  i64 wrong() const {
    i64 count = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const float got = d16.empty() ? d[i] : to_float(bf16{d16[i]});
      const float right = d16.empty() ? want[i] : to_float(round_to<bf16>(want[i]));
      count += !(got == right);
    }
    return count;
  }
};

// Sixteen-byte aligned, as cudaMalloc's memory is.
template <class T> struct Placed {
  std::vector<T> storage;
  T* data;
  explicit Placed(const std::vector<T>& from) : storage(from.size() + 64 / sizeof(T)) {
    data = reinterpret_cast<T*>((reinterpret_cast<std::uintptr_t>(storage.data()) + 15) / 16 * 16);
    std::copy(from.begin(), from.end(), data);
  }
};

template <class T> Report run_on(const Rung& rung, const Variant& v, const Problem& p, const std::vector<T>& from_a, const std::vector<T>& from_b, std::vector<T>& d, const emulator::Options& o) {
  Placed<T> a(from_a), b(from_b), out(d);
  const Arguments x = arguments_of(rung, p, a.data, b.data, out.data, emulator::encode_tensor_map);
  const Report r = emulator::emulate(launch_shape(rung, v, p), [&] { v.body(x); },
                                     {{a.data, from_a.size() * sizeof(T), false, "A"}, {b.data, from_b.size() * sizeof(T), false, "B"}, {out.data, d.size() * sizeof(T), true, "D"}}, o);
  std::copy(out.data, out.data + d.size(), d.begin());
  return r;
}
Report run(const Rung& rung, const Variant& v, Case& c, const emulator::Options& o = {}) {
  return rung.type == DType::fp32 ? run_on(rung, v, c.p, c.a, c.b, c.d, o) : run_on(rung, v, c.p, c.a16, c.b16, c.d16, o);
}

struct Which {
  const Rung* rung;
  const Variant* variant;
};
std::ostream& operator<<(std::ostream& out, const Which& w) { return out << w.rung->number << " " << w.variant->text; }
std::vector<Which> all() {
  std::vector<Which> list;
  for (const Rung& r : rungs())
    for (const Variant& v : r.variants) list.push_back({&r, &v});
  for (const Variant& v : accuracy_rung().variants) list.push_back({&accuracy_rung(), &v});
  return list;
}
std::string name_of(const testing::TestParamInfo<Which>& info) {
  std::string name = (info.param.rung->number ? "rung_" + std::to_string(info.param.rung->number) : "accuracy") + (info.param.variant->text.empty() ? "" : "_" + info.param.variant->text);
  for (char& c : name)
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

class EveryRung : public testing::TestWithParam<Which> {};

TEST_P(EveryRung, IsRightAndCleanAtOddSizes) {
  const Rung& rung = *GetParam().rung;
  const int depth = std::max(8, GetParam().variant->tile.tile_k);
  // One output, less than a tile, more than one tile each way, sizes that vector loads refuse, K in the middle of a step.
  std::vector<Problem> problems = {{.m = 1, .n = 1, .k = 1}, {.m = 5, .n = 3, .k = 7}, {.m = 130, .n = 36, .k = 2 * depth + 4}, {.m = 33, .n = 131, .k = depth + 3}, {.m = 7, .n = 132, .k = 0}};
  if (rung.variants.size() > 1 && GetParam().variant != &rung.variants.front()) problems.erase(problems.begin() + 3, problems.end());  // the others share its edges
  if (rung.number == 11) problems = {{.m = 1, .n = 1, .k = 8}, {.m = 130, .n = 37, .k = 136}, {.m = 33, .n = 131, .k = 264}};
  for (const Problem& p : problems) {
    ASSERT_EQ(why_not(rung, p), nullptr);
    for (Async async : {Async::eager, Async::lazy, Async::random}) {
      if (async != Async::lazy && rung.number < 10) continue;  // nothing is asynchronous
      Case c(rung, p, 3);
      emulator::Options o;
      o.async = async;
      if (async == Async::random) o.scheduling = emulator::Scheduling::random;
      const Report r = run(rung, *GetParam().variant, c, o);
      EXPECT_EQ(r.text(), "no findings") << p.m << "x" << p.n << "x" << p.k;
      EXPECT_EQ(c.wrong(), 0) << p.m << "x" << p.n << "x" << p.k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ladder, EveryRung, testing::ValuesIn(all()), name_of);

TEST(Ladder, NumbersAreInOrderAndNamesTellVariantsApart) {
  ASSERT_EQ(rungs().size(), 12u);
  for (std::size_t i = 0; i < rungs().size(); ++i) {
    EXPECT_EQ(rungs()[i].number, int(i) + 1);
    EXPECT_EQ(rungs()[i].production, rungs()[i].variants.empty());
    for (const Variant& v : rungs()[i].variants) EXPECT_EQ(find_variant(rungs()[i], v.text), &v);
  }
  EXPECT_EQ(find_rung(0), nullptr);
  EXPECT_EQ(find_rung(13), nullptr);
}

TEST(Ladder, ABarrierLeftOutIsFound) {
  // B98 of the collection of faults: no barrier between the copy and the multiply, or before the next copy.
  const Rung& rung = *find_rung(3);
  for (int line = 0, barriers = 0; barriers < 2 && line < 100; ++line) {
    Case c(rung, {.m = 33, .n = 33, .k = 70}, 3);
    emulator::Options o;
    o.mutations = {{"03_shared_tile.cuh", line, emulator::Mutation::Kind::drop}};
    const Report r = run(rung, rung.variants[0], c, o);
    const bool hit = std::any_of(r.calls.begin(), r.calls.end(), [&](const emulator::CallSite& s) { return s.site.line == line; });
    if (!hit) continue;
    ++barriers;
    EXPECT_TRUE(r.has("race")) << r.text();
  }
}

TEST(Accuracy, CompensatedAndDoubleSumsAreRightWherePlainOnesAreNot) {
  const Rung& rung = accuracy_rung();
  const Problem p{.m = 1, .n = 1, .k = 4096};
  double errors[3];
  for (int s = 0; s < 3; ++s) {
    Case c(rung, p, 1);
    double sum = 0;
    for (i64 k = 0; k < p.k; ++k) {  // one large term and many that fp32 rounds away beside it
      c.a[std::size_t(k)] = k == 0 ? 1e7f : 0.3f;
      c.b[std::size_t(k)] = 1;
      sum += double(c.a[std::size_t(k)]) * c.b[std::size_t(k)];
    }
    EXPECT_EQ(run(rung, rung.variants[std::size_t(s)], c).text(), "no findings");
    errors[s] = std::abs(double(c.d[0]) - sum);
  }
  EXPECT_GT(errors[0], 100);
  EXPECT_LE(errors[1], 1);
  EXPECT_LE(errors[2], 0.5);
}

}  // namespace
}  // namespace foretile::ladder
