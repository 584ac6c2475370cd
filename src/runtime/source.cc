#include "runtime/source.h"

#include <fmt/format.h>

#include "foretile/device/kernels/family.h"

namespace foretile {

namespace {

const char* enumerator(DType t) {
  switch (t) {
    case DType::fp32: return "DType::fp32";
    case DType::fp16: return "DType::fp16";
    case DType::bf16: return "DType::bf16";
    case DType::tf32: return "DType::tf32";
    case DType::e4m3: return "DType::e4m3";
    case DType::e5m2: return "DType::e5m2";
    case DType::int8: return "DType::int8";
    case DType::int32: return "DType::int32";
  }
  return "?";
}
const char* enumerator(Activation a) {
  switch (a) {
    case Activation::none: return "Activation::none";
    case Activation::relu: return "Activation::relu";
    case Activation::gelu_erf: return "Activation::gelu_erf";
    case Activation::gelu_tanh: return "Activation::gelu_tanh";
    case Activation::silu: return "Activation::silu";
  }
  return "?";
}
const char* enumerator(Alignment a) { return a == Alignment::tma ? "Alignment::tma" : "Alignment::any"; }
std::string enumerator(Family f) { return std::string("Family::") + code_of(f).name; }
const char* enumerator(Gating g) { return g == Gating::halves ? "Gating::halves" : g == Gating::interleaved ? "Gating::interleaved" : "Gating::none"; }
const char* enumerator(Schedule s) { return s == Schedule::pingpong ? "Schedule::pingpong" : "Schedule::cooperative"; }

// A field that is added to a struct and forgotten below would compile kernels with its default: count them.
struct Any {
  template <class T> constexpr operator T() const;
};
template <class T, int N> constexpr bool takes() {
  return []<int... I>(std::integer_sequence<int, I...>) { return requires { T{(void(I), Any{})...}; }; }(std::make_integer_sequence<int, N>{});
}
static_assert(takes<Operation, 15>() && !takes<Operation, 16>(), "translation_unit() names every field of Operation: add the new one");
static_assert(takes<Configuration, 13>() && !takes<Configuration, 14>(), "translation_unit() names every field of Configuration: add the new one");

}  // namespace

Operation canonical(const Operation& original, const Configuration& c) {
  Operation o = original;
  const Operation defaults;
  if (!o.has_c) o.c = defaults.c;
  if (!o.has_bias) o.bias = defaults.bias;
  if (!o.has_residual) o.residual = defaults.residual;
  if (c.family == Family::simt) o.inputs = o.output = Alignment::any;  // it tests nothing of the sort
  return o;
}

std::string translation_unit(const Operation& original, const Configuration& c, Residency residency) {
  const Operation o = canonical(original, c);
  const FamilyCode code = code_of(c.family);
  std::string text = fmt::format("#include \"foretile/device/kernels/{}.cuh\"\n\nnamespace foretile {{\nnamespace {{\n\n", code.kernel);
  text += fmt::format(
      "constexpr Operation kOperation{{.a = {}, .b = {}, .d = {},\n"
      "                               .transpose_a = {}, .transpose_b = {}, .inputs = {}, .output = {},\n"
      "                               .has_c = {}, .has_bias = {}, .has_residual = {},\n"
      "                               .c = {}, .bias = {}, .residual = {}, .activation = {}, .gating = {}}};\n",
      enumerator(o.a), enumerator(o.b), enumerator(o.d), o.transpose_a, o.transpose_b, enumerator(o.inputs), enumerator(o.output), o.has_c,
      o.has_bias, o.has_residual, enumerator(o.c), enumerator(o.bias), enumerator(o.residual), enumerator(o.activation), enumerator(o.gating));
  text += fmt::format(
      "constexpr Configuration kConfiguration{{.family = {}, .tile_m = {}, .tile_n = {}, .tile_k = {},\n"
      "                                       .stages = {}, .cluster_m = {}, .cluster_n = {}, .schedule = {},\n"
      "                                       .store_buffers = {}, .split_k = {}, .cluster_k = {}, .thread_m = {}, .thread_n = {}}};\n\n}}  // namespace\n}}  // namespace foretile\n\n",
      enumerator(c.family), c.tile_m, c.tile_n, c.tile_k, c.stages, c.cluster_m, c.cluster_n, enumerator(c.schedule), c.store_buffers, c.split_k, c.cluster_k, c.thread_m, c.thread_n);
  text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}, {}) {}(const __grid_constant__ foretile::{} arguments) {{\n"
      "  foretile::{}<foretile::kOperation, foretile::kConfiguration>(arguments);\n}}\n",
      block_facts(o, c).threads, residency == Residency::fewest_blocks ? 1 : block_facts(o, c).promised_blocks, kKernelName, code.arguments, code.kernel);
  return text;
}

std::string architecture_for(int compute_capability) {
  return fmt::format("sm_{}{}", compute_capability, compute_capability == 90 ? "a" : "");
}

}  // namespace foretile
