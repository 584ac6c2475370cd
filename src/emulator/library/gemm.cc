#include "emulator/library/gemm.h"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "emulator/library/built_in.h"
#include "emulator/library/compile.h"
#include "foretile/device/legality.h"

namespace foretile::emulator {

namespace {

KernelBody find_kernel(const Operation& o, const Configuration& c) {
  for (const BuiltIn& k : built_in_kernels())
    if (k.operation == o && k.configuration == c) return k.body;
  return compile_kernel(o, c);
}

// What stands at a byte of the Hopper kernel's shared memory.
std::string name_sm90_shared(const Operation& o, const Configuration& c, u32 offset) {
  const int at = int(offset), barriers = at - sm90::barrier_offset(o, c);
  if (barriers >= 0) {
    const int index = barriers / 8;
    if (index < c.stages) return fmt::format("full barrier of stage {}", index);
    if (index < 2 * c.stages) return fmt::format("empty barrier of stage {}", index - c.stages);
    return fmt::format("turn barrier of consumer {}", index - 2 * c.stages);
  }
  if (at >= sm90::d_offset(o, c)) {
    const int buffer = (at - sm90::d_offset(o, c)) / sm90::d_chunk_bytes(o, c);
    return fmt::format("store buffer {} of consumer {}", buffer % c.store_buffers, buffer / c.store_buffers);
  }
  if (at >= sm90::b_offset(o, c)) return fmt::format("B tile of stage {}", (at - sm90::b_offset(o, c)) / sm90::b_stage_bytes(o, c));
  return fmt::format("A tile of stage {}", at / sm90::a_stage_bytes(o, c));
}

std::string name_decode_shared(const Operation& o, const Configuration& c, u32 offset) {
  const int at = int(offset), barriers = at - decode::barrier_offset(o, c);
  if (barriers >= 0) {
    const int index = barriers / 8;
    if (index < c.stages) return fmt::format("full barrier of stage {}", index);
    if (index < 2 * c.stages) return fmt::format("empty barrier of stage {}", index - c.stages);
    if (index < 3 * c.stages) return fmt::format("landed barrier of stage {}", index - 2 * c.stages);
    return "barrier of the partial sums";
  }
  if (at >= decode::staged_offset(o, c)) return decode::packs(o, c) ? "tile of D" : "sums of the tile";
  if (at >= decode::exchange_offset(c)) return fmt::format("partial sums from peer {} of the cluster", (at - decode::exchange_offset(c)) / decode::share_bytes(o, c));
  if (at >= decode::tokens_offset(c)) return fmt::format("tokens of stage {}", (at - decode::tokens_offset(c)) / decode::token_stage_bytes(c));
  return fmt::format("weights of stage {}", at / decode::weight_stage_bytes(c));
}

std::string name_rows_shared(const Configuration& c, u32 offset) {
  const int at = int(offset), barriers = at - rows::barrier_offset(c);
  if (barriers >= 0) {
    const int index = barriers / 8;
    if (index < c.stages) return fmt::format("full barrier of stage {}", index);
    if (index < 2 * c.stages) return fmt::format("empty barrier of stage {}", index - c.stages);
    return "barrier of the partial sums";
  }
  if (at >= rows::exchange_offset(c)) return fmt::format("partial sums from block {} of the cluster", (at - rows::exchange_offset(c)) / rows::share_bytes(c));
  if (at >= rows::sums_offset(c)) return fmt::format("sums of group {}", (at - rows::sums_offset(c)) / rows::sum_bytes(c));
  if (at >= rows::tokens_offset(c)) return fmt::format("tokens of stage {}", (at - rows::tokens_offset(c)) / rows::token_stage_bytes(c));
  return fmt::format("weights of stage {}", at / rows::weight_stage_bytes(c));
}

std::string name_simt_shared(const Configuration& c, u32 offset) {
  if (c.family == Family::simt) return int(offset) < simt::a_bytes(c) ? "A tile" : "B tile";
  if (c.family == Family::gemv) return fmt::format("partial sums of warp {}", int(offset) / (4 * c.tile_m * c.tile_n * gemv::kLanePitch));
  const int at = int(offset);
  if (c.cluster_k > 1 && at >= ffma::barrier_offset(c)) return "barrier of the partial sums";
  if (c.cluster_k > 1 && at >= ffma::partial_offset(c)) {
    const int part = (at - ffma::partial_offset(c)) / ffma::share_bytes(c);
    return fmt::format("partial sums of group {} of block {} of the cluster", part % c.split_k, part / c.split_k);
  }
  const int stage = at / ffma::stage_bytes(c);  // the sums of split_k groups follow where the stages stood
  return fmt::format("{} tile of stage {}", at % ffma::stage_bytes(c) < ffma::a_bytes(c) ? "A" : "B", stage);
}

}  // namespace

const std::vector<BuiltIn>& built_in_kernels() {
  static const std::vector<BuiltIn> kernels = [] {
    std::vector<BuiltIn> list;
    for (auto* add : {add_part_0, add_part_1, add_part_2, add_part_3, add_part_4, add_part_5, add_more_operations}) add(list);
    return list;
  }();
  return kernels;
}

namespace {

struct Prepared {
  Launch launch;
  GemmSm90Arguments sm90;
  GemmDecodeArguments decode;
  GemmSimtArguments simt;
};

// Null where nothing is launched.
std::unique_ptr<Prepared> prepare(const GemmRun& run) {
  const Operation& o = run.operation;
  const Configuration& c = run.configuration;
  const Problem& p = run.problem;
  if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch < 0) throw std::invalid_argument(fmt::format("M, N, K and batch are {}, {}, {}, {}: none may be negative", p.m, p.n, p.k, p.batch));
  if (p.m == 0 || p.n == 0 || p.batch == 0) return nullptr;
  if (run.sms < 1) throw std::invalid_argument(fmt::format("sms is {}: must be at least 1", run.sms));
  if (const char* reason = why_not(o, c, p)) throw std::invalid_argument(reason);
  if (o.inputs == Alignment::tma && input_alignment(o, p, run.operands) != Alignment::tma)
    throw std::invalid_argument("the operation says that A and B are aligned for TMA, but a pointer or leading dimension is not a multiple of 16 bytes");
  if (o.output == Alignment::tma && output_alignment(o, p, run.operands) != Alignment::tma)
    throw std::invalid_argument("the operation says that D is aligned for TMA, but its pointer or leading dimension is not a multiple of 16 bytes");

  const KernelBody body = find_kernel(o, c);
  auto made = std::make_unique<Prepared>();
  Launch& launch = made->launch;
  launch.shape = launch_shape(o, c, p, run.sms);
  launch.regions = run.regions;
  launch.dependent = true;
  if (c.family == Family::sm90) {
    launch.name_shared = [o, c](u32 offset) { return name_sm90_shared(o, c, offset); };
    launch.name_role = [](u32 warp) { return warp < 4 ? std::string("producer") : fmt::format("consumer {}", warp / 4 - 1); };
    made->sm90 = sm90_arguments(o, c, p, run.operands, launch.shape, encode_tensor_map);
    made->sm90.weights_ready = run.weights_ready;
    launch.body = [body, arguments = &made->sm90] { body(arguments); };
  } else if (c.family == Family::decode || c.family == Family::rows) {
    if (c.family == Family::decode) {
      launch.name_shared = [o, c](u32 offset) { return name_decode_shared(o, c, offset); };
      const u32 consumers = u32(decode::consumer_threads(c)) / 32;
      launch.name_role = [consumers](u32 warp) { return warp < consumers ? fmt::format("consumer {}", warp / 4) : std::string(warp == consumers ? "producer" : "first tokens"); };
    } else {
      launch.name_shared = [c](u32 offset) { return name_rows_shared(c, offset); };
      const u32 consumers = u32(rows::consumer_warps(c));
      launch.name_role = [consumers](u32 warp) { return warp < consumers ? fmt::format("consumer {}", warp) : warp == consumers ? "weights" : warp == consumers + 1 ? "tokens" : "idle"; };
    }
    made->decode = decode_arguments(o, c, p, run.operands, run.sms, encode_tensor_map);
    made->decode.weights_ready = run.weights_ready;
    launch.body = [body, arguments = &made->decode] { body(arguments); };
  } else {
    launch.name_shared = [c](u32 offset) { return name_simt_shared(c, offset); };
    made->simt = simt_arguments(c, p, run.operands, launch.shape);
    launch.body = [body, arguments = &made->simt] { body(arguments); };
  }
  for (Region& r : launch.regions) r.ready |= run.weights_ready && r.base == run.operands.b.data;
  return made;
}

}  // namespace

Report emulate_gemm(const GemmRun& run, const Options& options) { return emulate_gemms({run}, options); }

Report emulate_gemms(const std::vector<GemmRun>& runs, const Options& options) {
  std::vector<std::unique_ptr<Prepared>> kernels;
  std::vector<Launch> chain;
  for (const GemmRun& run : runs)
    if (auto kernel = prepare(run)) {
      if (chain.empty()) kernel->launch.dependent = false;  // of what stands before the chain, Options speaks
      chain.push_back(kernel->launch);
      kernels.push_back(std::move(kernel));
    }
  return emulate(chain, options);
}

}  // namespace foretile::emulator
