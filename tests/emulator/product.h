// A product through the emulator, judged against the fp64 reference: what the tests of the production kernels share.
#pragma once
#include <string>

#include "emulator/library/gemm.h"
#include "reference/gemm_data.h"

namespace foretile::emulator_tests {

using namespace emulator;

struct ProductResult {
  Report report;
  reference::CheckResult check;
  std::string damage;

  // Empty when all is well; else in one line what is not.
  std::string failure() const {
    if (!report.clean()) return report.text();
    if (!check.passed()) return check.text();
    return damage;
  }
};

inline ProductResult run_product(const Operation& o, const Configuration& c, const Problem& p, const reference::GemmDataOptions& placement, const Options& options, int sms = 3, bool weights_ready = false) {
  reference::GemmData data = reference::make_gemm_data(o, p, placement);
  GemmRun run{data.operation, c, p, data.operands, {}, sms};
  run.weights_ready = weights_ready;
  for (const reference::HostOperand& x : data.list) run.regions.push_back({x.data(), x.data_bytes(), x.name == "D", x.name});
  ProductResult result;
  result.report = emulate_gemm(run, options);
  result.check = data.check({.threads = 1});
  result.damage = data.damage();
  return result;
}

}  // namespace foretile::emulator_tests
