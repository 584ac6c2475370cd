// The library's own kernels on host memory.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "emulator/built_in.h"
#include "emulator/compile.h"
#include "emulator/emulator.h"
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
  if (at >= sm90::d_offset(c)) {
    const int buffer = (at - sm90::d_offset(c)) / sm90::d_chunk_bytes(o, c);
    return fmt::format("store buffer {} of consumer {}", buffer % c.store_buffers, buffer / c.store_buffers);
  }
  if (at >= sm90::b_offset(c)) return fmt::format("B tile of stage {}", (at - sm90::b_offset(c)) / sm90::b_stage_bytes(c));
  return fmt::format("A tile of stage {}", at / sm90::a_stage_bytes(c));
}

std::string name_simt_shared(const Configuration& c, u32 offset) { return int(offset) < simt::a_bytes(c) ? "A tile" : "B tile"; }

}  // namespace

const std::vector<BuiltIn>& built_in_kernels() {
  static const std::vector<BuiltIn> kernels = [] {
    std::vector<BuiltIn> list;
    for (auto* add : {add_part_0, add_part_1, add_part_2, add_part_3, add_part_4, add_part_5, add_more_operations}) add(list);
    return list;
  }();
  return kernels;
}

Report emulate_gemm(const GemmRun& run, const Options& given) {
  const Operation& o = run.operation;
  const Configuration& c = run.configuration;
  const Problem& p = run.problem;
  if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch < 0) throw std::invalid_argument(fmt::format("M, N, K and batch are {}, {}, {}, {}: none may be negative", p.m, p.n, p.k, p.batch));
  if (p.m == 0 || p.n == 0 || p.batch == 0) return {};  // nothing is launched
  if (run.sms < 1) throw std::invalid_argument(fmt::format("sms is {}: must be at least 1", run.sms));
  if (const char* reason = why_not(o, c, p)) throw std::invalid_argument(reason);
  if (o.inputs == Alignment::tma && input_alignment(o, p, run.operands) != Alignment::tma)
    throw std::invalid_argument("the operation says that A and B are aligned for TMA, but a pointer or leading dimension is not a multiple of 16 bytes");
  if (o.output == Alignment::tma && output_alignment(o, p, run.operands) != Alignment::tma)
    throw std::invalid_argument("the operation says that D is aligned for TMA, but its pointer or leading dimension is not a multiple of 16 bytes");

  const KernelBody body = find_kernel(o, c);
  const LaunchShape shape = launch_shape(o, c, p, run.sms);
  Options options = given;
  if (c.family == Family::sm90) {
    if (!options.name_shared) options.name_shared = [o, c](u32 offset) { return name_sm90_shared(o, c, offset); };
    if (!options.name_role) options.name_role = [](u32 warp) { return warp < 4 ? std::string("producer") : fmt::format("consumer {}", warp / 4 - 1); };
    const GemmSm90Arguments arguments = sm90_arguments(o, c, p, run.operands, shape, encode_tensor_map);
    return emulate(shape, [&] { body(&arguments); }, run.regions, options);
  }
  if (!options.name_shared) options.name_shared = [c](u32 offset) { return name_simt_shared(c, offset); };
  const GemmSimtArguments arguments = simt_arguments(c, p, run.operands, shape);
  return emulate(shape, [&] { body(&arguments); }, run.regions, options);
}

}  // namespace foretile::emulator
