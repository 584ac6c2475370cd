// A product through the emulator for the tests of known faults: empty when it is clean and right, else what is not.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "emulator/kernels.h"
#include "emulator/product.h"
#include "model/text.h"
#include "reference/convert.h"

namespace foretile {

inline emulator::Options quick() {
  emulator::Options o;
  o.races = false;  // tests/emulator looks for races; here only results count
  return o;
}

inline std::string run(const Operation& o, const Configuration& c, const Problem& p, const reference::GemmDataOptions& d = {}) {
  const std::string failure = emulator_tests::run_product(o, c, p, d, quick()).failure();
  return failure.empty() ? failure : text_of(c) + " m=" + std::to_string(p.m) + " n=" + std::to_string(p.n) + " k=" + std::to_string(p.k) + ": " + failure;
}

// An operand already laid out, with every value made NaN (or infinite): what must not be read.
inline void spoil(const reference::GemmData& data, const char* name, double value) {
  const reference::HostOperand* x = data.find(name);
  ASSERT_NE(x, nullptr);
  for (i64 batch = 0; batch < x->batches; ++batch)
    for (i64 row = 0; row < x->rows; ++row)
      for (i64 column = 0; column < x->columns; ++column) reference::store(x->type, x->data(), batch * x->batch_stride + row * x->ld + column, value);
}

inline std::string run(reference::GemmData& data, const Configuration& c) {
  emulator::GemmRun run{data.operation, c, data.problem, data.operands, {}, 3};
  for (const reference::HostOperand& x : data.list) run.regions.push_back({x.data(), x.data_bytes(), x.name == "D", x.name});
  const emulator::Report report = emulate_gemm(run, quick());
  if (!report.clean()) return report.text();
  const reference::CheckResult check = data.check();
  return check.passed() ? std::string() : check.text();
}

}  // namespace foretile
