// The kernels that the emulator has compiled ahead: every legal pair of a catalogue configuration and a named operation,
// and more operations with one configuration a family so that every branch of the epilogue is at hand. Anything else goes
// through compile.h.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

#include "foretile/device/catalogue.h"
#include "foretile/device/kernels/gemm_decode.cuh"
#include "foretile/device/kernels/gemm_ffma.cuh"
#include "foretile/device/kernels/gemm_gemv.cuh"
#include "foretile/device/kernels/gemm_rows.cuh"
#include "foretile/device/kernels/gemm_simt.cuh"
#include "foretile/device/kernels/gemm_sm90.cuh"

namespace foretile::emulator {

using KernelBody = void (*)(const void* arguments);  // the struct of the family: code_of()

struct BuiltIn {
  Operation operation;
  Configuration configuration;
  KernelBody body;
};

template <Operation O, Configuration C> void kernel_body(const void* arguments) {
  if constexpr (C.family == Family::sm90) gemm_sm90<O, C>(*static_cast<const GemmSm90Arguments*>(arguments));
  else if constexpr (C.family == Family::decode) gemm_decode<O, C>(*static_cast<const GemmDecodeArguments*>(arguments));
  else if constexpr (C.family == Family::ffma) gemm_ffma<O, C>(*static_cast<const GemmSimtArguments*>(arguments));
  else if constexpr (C.family == Family::gemv) gemm_gemv<O, C>(*static_cast<const GemmSimtArguments*>(arguments));
  else if constexpr (C.family == Family::rows) gemm_rows<O, C>(*static_cast<const GemmDecodeArguments*>(arguments));
  else gemm_simt<O, C>(*static_cast<const GemmSimtArguments*>(arguments));
}

template <Operation O, Configuration C> void add_kernel(std::vector<BuiltIn>& to) {
  if constexpr (why_not(O, C) == nullptr) to.push_back({O, C, &kernel_body<O, C>});
}

// The pairs are dealt out to kParts translation units, built_in_0.cc and so on, which a build compiles side by side.
constexpr std::size_t kParts = 6;
constexpr std::size_t kConfigurationCount = std::size(catalogue::kConfigurations);
constexpr std::size_t kPairCount = kConfigurationCount * std::size(catalogue::kOperations);

template <std::size_t Pair> void add_pair(std::vector<BuiltIn>& to) {
  if constexpr (Pair < kPairCount)
    add_kernel<catalogue::kOperations[Pair / kConfigurationCount].operation, catalogue::kConfigurations[Pair % kConfigurationCount]>(to);
}
template <std::size_t Part, std::size_t... I> void add_part(std::vector<BuiltIn>& to, std::index_sequence<I...>) {
  (add_pair<I * kParts + Part>(to), ...);
}
template <std::size_t Part> void add_part(std::vector<BuiltIn>& to) {
  static_assert(Part < kParts);
  add_part<Part>(to, std::make_index_sequence<(kPairCount + kParts - 1) / kParts>());
}

void add_part_0(std::vector<BuiltIn>& to);
void add_part_1(std::vector<BuiltIn>& to);
void add_part_2(std::vector<BuiltIn>& to);
void add_part_3(std::vector<BuiltIn>& to);
void add_part_4(std::vector<BuiltIn>& to);
void add_part_5(std::vector<BuiltIn>& to);
void add_more_operations(std::vector<BuiltIn>& to);

// All of them, in a fixed order.
const std::vector<BuiltIn>& built_in_kernels();

}  // namespace foretile::emulator
