// Mutation of the production kernels while they run: each synchronising call dropped, each count one off. The emulator must
// object, or the call is listed here with the reason why the kernel is right without it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "product.h"
#include "foretile/device/catalogue.h"
#include "kernels.h"

namespace foretile::emulator_tests {

using namespace emulator;

namespace {

struct Subject {
  const char* name;
  Operation operation;
  Configuration configuration;
  Problem problem;
  int sms;
  bool weights_ready = false;
};

constexpr Operation unstaged(Operation o) {
  o.output = Alignment::any;
  return o;
}

// Several tiles a block and more steps along K than the ring has stages, so that every wait has something to wait for.
// Of rows fewer steps a tile, or the ring alone would keep a warp from storing sums that others still read.
const Subject kSubjects[] = {
    {"cooperative", catalogue::product(DType::bf16, DType::bf16), catalogue::coop(128, 128, 6, 2), {.m = 200, .n = 256, .k = 600}, 2},
    {"pingpong", catalogue::product(DType::bf16, DType::bf16), catalogue::pingpong(128, 128, 6, 2), {.m = 200, .n = 256, .k = 600}, 1},
    {"cluster", catalogue::product(DType::bf16, DType::bf16), catalogue::pingpong(128, 160, 5, 2, 2), {.m = 250, .n = 480, .k = 400}, 2},
    {"few_rows", catalogue::product(DType::bf16, DType::bf16), catalogue::coop(64, 64, 12, 1), {.m = 20, .n = 128, .k = 904}, 1},
    {"tf32", catalogue::product(DType::tf32, DType::fp32), catalogue::tf32(catalogue::coop(128, 128, 6, 2)), {.m = 200, .n = 256, .k = 300}, 2},
    {"tf32_pair", catalogue::product(DType::tf32, DType::fp32), catalogue::tf32(catalogue::coop(128, 256, 4, 2, 2)), {.m = 300, .n = 512, .k = 220}, 2},
    {"direct_store", unstaged(catalogue::product(DType::bf16, DType::bf16)), catalogue::coop(128, 128, 6, 2), {.m = 130, .n = 136, .k = 504}, 2},
    {"decode", catalogue::product(DType::bf16, DType::bf16), catalogue::decode(64, 64, 64, 5), {.m = 20, .n = 224, .k = 520}, 2, true},
    {"decode_epilogue", catalogue::full(DType::bf16, DType::bf16, Activation::gelu_erf), catalogue::decode(32, 64, 128, 4), {.m = 20, .n = 224, .k = 904}, 2, true},
    {"decode_split", catalogue::product(DType::bf16, DType::bf16), catalogue::decode(32, 64, 128, 4, 2), {.m = 20, .n = 112, .k = 1672}, 2, true},
    {"decode_split_plain", catalogue::product(DType::bf16, DType::bf16), catalogue::decode(32, 64, 128, 4, 2), {.m = 20, .n = 112, .k = 1672}, 2},
    {"simt", catalogue::unaligned(catalogue::product(DType::fp32, DType::fp32)), catalogue::simt(64, 64, 16, 4, 4), {.m = 70, .n = 70, .k = 40}, 1},
    {"ffma", catalogue::product(DType::fp32, DType::fp32), catalogue::ffma(64, 64, 8, 8, 8), {.m = 70, .n = 68, .k = 40}, 1},
    {"ffma_groups", catalogue::product(DType::fp32, DType::fp32), catalogue::ffma(32, 64, 32, 8, 8, 4), {.m = 40, .n = 68, .k = 100}, 1},
    {"ffma_cluster", catalogue::product(DType::fp32, DType::fp32), catalogue::ffma(32, 64, 32, 8, 8, 4, 2), {.m = 40, .n = 68, .k = 100}, 2},
    {"ffma_epilogue", catalogue::full(DType::fp32, DType::fp32, Activation::relu), catalogue::ffma(64, 64, 8, 16, 8), {.m = 70, .n = 300, .k = 24}, 1},
    {"rows", catalogue::product(DType::fp32, DType::fp32), catalogue::rows(8, 64, 32, 4, 4, 3, 2), {.m = 12, .n = 200, .k = 60}, 1},
    {"rows_cluster", catalogue::full(DType::fp32, DType::fp32, Activation::relu), catalogue::rows(16, 64, 64, 4, 8, 3, 8, 2), {.m = 12, .n = 100, .k = 1212}, 2},
    {"gemv", catalogue::product(DType::fp32, DType::fp32), catalogue::gemv(8, 4, 8), {.m = 5, .n = 12, .k = 700}, 1},
};

struct Reason {
  const char* call;
  std::optional<Mutation::Kind> kind;  // none: every kind
  const char* proof;
  const char* line = nullptr;     // as it stands in the source
  const char* subject = nullptr;  // the only one it holds for
};

// By call and kind of change; each holds for every site of that call in the kernels, or for the one line given.
const Reason kRedundant[] = {
    {"grid_dependency_launch", Mutation::Kind::drop, "only lets the next kernel start earlier: without it that one starts when this one ends"},
    {"register_acquire", Mutation::Kind::drop, "registers are the compiler's: the emulator knows counts, not what a thread needs; ptxas refuses or spills (catalogue test)"},
    {"register_acquire", Mutation::Kind::less, "takes fewer registers than the pool holds: no thread waits, the compiler's need is checked by the catalogue test"},
    {"register_release", Mutation::Kind::less, "gives more registers back than needed: the pool only grows"},
    {"wgmma_wait", Mutation::Kind::less, "waits for more groups than needed: stronger"},
    {"bulk_wait_read", Mutation::Kind::less, "waits for more groups than needed: stronger"},
    {"bulk_wait", Mutation::Kind::less, "waits for more groups than needed: stronger"},
    {"sync_warp", Mutation::Kind::drop,
     "brings a producer warp of the decode or rows kernel together again before cluster_wait(), which a GPU executes for whole warps; it orders no access, and the emulator lets each lane wait by itself",
     "sync_warp();"},
    {"cluster_wait", Mutation::Kind::drop,
     "the decode kernel's producer warp touches nothing of a peer and no peer anything of it: its arrival, which says that the barriers are initialised, is needed (dropping that is reported), "
     "its wait is the other half of the pair that PTX asks for",
     "if constexpr (C.split_k > 1) cluster_wait();"},
    {"mbarrier_init", {}, "of a launch without early weights nobody waits for them to land", "mbarrier_init(landed(s), decode::landed_arrivals());", "decode_split_plain"},
    {"cluster_wait", Mutation::Kind::drop, "the same of the rows kernel's warps that load", "if constexpr (C.cluster_k > 1) cluster_wait();"},
};

// The line of a call in the kernels' source, without the blanks around it and without a comment.
std::string source_line(const Site& site) {
  const std::string name = site.file;
  std::ifstream in(FORETILE_SOURCE_DIR "/device/kernels/" + name.substr(name.rfind('/') + 1));
  std::string line;
  for (int i = 0; i < int(site.line); ++i) std::getline(in, line);
  line = line.substr(0, line.find("//"));
  const auto blank = [](char c) { return c == ' '; };
  line.erase(line.begin(), std::find_if_not(line.begin(), line.end(), blank));
  line.erase(std::find_if_not(line.rbegin(), line.rend(), blank).base(), line.end());
  return line;
}

const char* why_redundant(const Subject& s, const CallSite& call, Mutation::Kind kind) {
  for (const Reason& r : kRedundant)
    if (call.call == r.call && kind == r.kind.value_or(kind) && (!r.line || source_line(call.site) == r.line) && (!r.subject || std::string(s.name) == r.subject)) return r.proof;
  return nullptr;
}

// Calls that several threads make where one would do: each may be missing, but not all of them.
const Reason kOneIsEnough[] = {
    {"grid_dependency_wait", Mutation::Kind::drop,
     "one thread's wait keeps its block from ending early, and what the others touch is ordered after that wait by the barriers between: the check follows them"},
};

bool one_is_enough(const CallSite& call) {
  return std::any_of(std::begin(kOneIsEnough), std::end(kOneIsEnough), [&](const Reason& r) { return call.call == r.call; });
}

// Whether some mode objects to the mutant: a finding, a wrong result or damage.
bool detected(const Subject& s, const std::vector<Mutation>& mutations) {
  for (Options o : every_mode(7)) {
    o.dependent_launch = true;
    o.mutations = mutations;
    if (!run_product(s.operation, s.configuration, s.problem, {}, o, s.sms, s.weights_ready).failure().empty()) return true;
  }
  return false;
}

class Mutants : public testing::TestWithParam<Subject> {};

TEST_P(Mutants, AreReportedOrProvenRedundant) {
  const Subject& s = GetParam();
  Options plain;
  plain.dependent_launch = true;
  const ProductResult correct = run_product(s.operation, s.configuration, s.problem, {}, plain, s.sms, s.weights_ready);
  ASSERT_EQ(correct.failure(), "");
  int mutants = 0, redundant = 0;
  std::vector<Mutation> together;
  for (const CallSite& call : correct.report.calls)
    for (const auto kind : {Mutation::Kind::drop, Mutation::Kind::more, Mutation::Kind::less}) {
      if (kind != Mutation::Kind::drop && !call.counted) continue;
      ++mutants;
      if (why_redundant(s, call, kind)) {
        ++redundant;
        continue;
      }
      const Mutation m{call.site.file, call.site.line, kind};
      if (one_is_enough(call)) together.push_back(m);
      else
        EXPECT_TRUE(detected(s, {m}))
          << call.call << " at " << call.site.file << ":" << call.site.line << ", " << (kind == Mutation::Kind::drop ? "dropped" : kind == Mutation::Kind::more ? "one more" : "one less");
    }
  EXPECT_TRUE(detected(s, together)) << "all " << together.size() << " calls of which one is enough, dropped";
  fmt::print("{}: {} mutants, {} of them redundant\n", s.name, mutants, redundant);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Mutants, testing::ValuesIn(kSubjects), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace foretile::emulator_tests
