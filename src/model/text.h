// The one canonical text form of operations, configurations and types: cache keys, logs, CLI, tests and reports.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"

namespace foretile {

std::string_view name_of(DType type);            // "bf16"
std::string_view name_of(Activation activation); // "gelu_erf"
std::string_view name_of(Gating gating);         // "halves"
std::string_view name_of(Compute compute);       // "exact", "tf32"
std::string_view name_of(Family family);         // "sm90"
std::string_view name_of(Schedule schedule);     // "coop", "pingpong"
std::optional<DType> dtype_from(std::string_view name);
std::optional<Activation> activation_from(std::string_view name);
std::optional<Gating> gating_from(std::string_view name);
std::optional<Compute> compute_from(std::string_view name);
// "fp32, fp16, ...": for messages that name what is allowed.
std::string dtype_names();
std::string activation_names();
std::string gating_names();
std::string compute_names();

// sm90:128x256x64:s4:c2x1:coop:b2   decode:8x64x128:s6:k2   simt:64x64x16:t4x4
// c (cluster, along M x along N) is left out where it is 1x1, k (slices of K) where it is 1.
std::string text_of(const Configuration& c);
// Null optional and a message in `error` that names the bad part and the allowed values. Accepts the parts after the
// tile in any order; whether the configuration is legal for an operation is device/legality.h's business.
std::optional<Configuration> configuration_from(std::string_view text, std::string& error);

// "bf16xbf16->bf16:nt:tma:tma:c=bf16:bias=bf16:res=bf16:gelu_erf": types of A, B and D; layouts of A and B (A: n is
// [M,K], t is [K,M]; B: t is [N,K], n is [K,N]); alignment of the inputs, of the output; then the epilogue operands
// that are there, the activation, gated=halves or gated=interleaved. Types of operands that are not there do not show: equal text means equal computation.
std::string text_of(const Operation& o);
// Null optional and a message in `error`, as above.
std::optional<Operation> operation_from(std::string_view text, std::string& error);

}  // namespace foretile
