// A product run by the library's own kernel source in the CPU emulator and judged against the fp64 reference.
#pragma once
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "emulator/library/gemm.h"
#include "foretile/device/configuration.h"
#include "reference/gemm_data.h"

namespace foretile::cli {

struct EmulatedCheck {
  Operation operation;  // with the alignment classes it really ran with
  Configuration configuration;
  Problem problem;
  int sms = 0;
  emulator::Report report;
  reference::CheckResult result;
  std::string damage;  // bytes overwritten that no kernel may touch
  double seconds = 0;  // in the emulator
  std::vector<EmulatedCheck> after;  // kernels of the chain behind this one, run together with it: `report` is about all of them

  bool passed() const { return report.clean() && right(); }
  bool right() const { return result.passed() && damage.empty() && std::all_of(after.begin(), after.end(), [](const EmulatedCheck& c) { return c.right(); }); }
  std::string failure() const;  // one line: why passed() is false
};

// Runs in the calling thread. `o`'s alignment classes are kept: where `any` is wanted and the sizes would give TMA
// alignment, the pointers are moved off it. `sms`: how many SMs are pretended.
EmulatedCheck emulate_and_check(const Operation& o, const Configuration& c, const Problem& p, const reference::GemmDataOptions& data, const emulator::Options& options, int sms);

// A smaller problem of the same kind that takes about `budget` multiply-adds: the remainders of M, N and K against the
// tile stay what they are, and where the budget allows there are several tiles and more steps of K than the ring is deep.
Problem cut(const Configuration& c, const Problem& p, double budget);

// Multiply-adds the emulator does for it, whole tiles counted.
double emulated_work(const Configuration& c, const Problem& p);
// Seconds it is expected to take: a rough figure, for progress and for `cut`.
double expected_seconds(const Configuration& c, const Problem& p);

// A kernel of a chain: it takes the D of the kernel before it as its A.
struct ChainLink {
  Operation operation;
  Configuration configuration;
  Problem problem;
};
// The chain's kernels run as dependent launches, each while the one before it still runs. `weights_ready`: their B may be
// read before that one is complete.
EmulatedCheck emulate_and_check(const std::vector<ChainLink>& chain, bool weights_ready, const reference::GemmDataOptions& data, const emulator::Options& options, int sms);

nlohmann::ordered_json json_of(const EmulatedCheck& check);

}  // namespace foretile::cli
