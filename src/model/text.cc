#include "model/text.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>
#include <vector>

#include "foretile/device/kernels/family.h"

namespace foretile {

namespace {

constexpr std::pair<DType, std::string_view> kTypes[] = {
    {DType::fp32, "fp32"}, {DType::fp16, "fp16"}, {DType::bf16, "bf16"}, {DType::tf32, "tf32"},
    {DType::e4m3, "e4m3"}, {DType::e5m2, "e5m2"}, {DType::int8, "int8"}, {DType::int32, "int32"},
};
constexpr std::pair<Activation, std::string_view> kActivations[] = {
    {Activation::none, "none"},
    {Activation::relu, "relu"},
    {Activation::gelu_erf, "gelu_erf"},
    {Activation::gelu_tanh, "gelu_tanh"},
    {Activation::silu, "silu"},
};

constexpr std::pair<Gating, std::string_view> kGatings[] = {
    {Gating::none, "none"},
    {Gating::halves, "halves"},
    {Gating::interleaved, "interleaved"},
};

constexpr std::pair<Compute, std::string_view> kComputes[] = {{Compute::exact, "exact"}, {Compute::tf32, "tf32"}};

template <class Table, class Value>
std::string_view find_name(const Table& table, Value value) {
  for (const auto& [v, name] : table)
    if (v == value) return name;
  return "?";
}
template <class Value, class Table>
std::optional<Value> find_value(const Table& table, std::string_view name) {
  for (const auto& [v, n] : table)
    if (n == name) return v;
  return std::nullopt;
}
template <class Table>
std::string names(const Table& table) {
  std::string all;
  for (const auto& entry : table) all += (all.empty() ? "" : ", ") + std::string(entry.second);
  return all;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t i = text.find(at);
    parts.push_back(text.substr(0, i));
    if (i == std::string_view::npos) return parts;
    text.remove_prefix(i + 1);
  }
}

// A whole number from 1 to 2^20 and nothing after it.
bool number(std::string_view text, int& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() && value >= 1 && value <= (1 << 20);
}
bool numbers(std::string_view text, int& x, int& y) {
  const auto parts = split(text, 'x');
  return parts.size() == 2 && number(parts[0], x) && number(parts[1], y);
}
bool numbers(std::string_view text, int& x, int& y, int& z) {
  const auto parts = split(text, 'x');
  return parts.size() == 3 && number(parts[0], x) && number(parts[1], y) && number(parts[2], z);
}

constexpr std::string_view kForms = "sm90:128x256x64:s4:c2x1:coop:b2, decode:8x64x128:s6:k2, ffma:128x128x8:t16x8, gemv:1x4x128:k8, rows:32x64x64:t8x8:s6:k8:c2 or simt:64x64x16:t4x4";

}  // namespace

std::string_view name_of(DType type) { return find_name(kTypes, type); }
std::string_view name_of(Activation activation) { return find_name(kActivations, activation); }
std::string_view name_of(Family family) { return code_of(family).name; }
std::string_view name_of(Schedule schedule) { return schedule == Schedule::pingpong ? "pingpong" : "coop"; }
std::string_view name_of(Gating gating) { return find_name(kGatings, gating); }
std::optional<Gating> gating_from(std::string_view name) { return find_value<Gating>(kGatings, name); }
std::string gating_names() { return names(kGatings); }
std::string_view name_of(Compute compute) { return find_name(kComputes, compute); }
std::optional<Compute> compute_from(std::string_view name) { return find_value<Compute>(kComputes, name); }
std::string compute_names() { return names(kComputes); }
std::optional<DType> dtype_from(std::string_view name) { return find_value<DType>(kTypes, name); }
std::optional<Activation> activation_from(std::string_view name) { return find_value<Activation>(kActivations, name); }
std::string dtype_names() { return names(kTypes); }
std::string activation_names() { return names(kActivations); }

std::string text_of(const Configuration& c) {
  std::string text = fmt::format("{}:{}x{}x{}", name_of(c.family), c.tile_m, c.tile_n, c.tile_k);
  if (c.thread_m) text += fmt::format(":t{}x{}", c.thread_m, c.thread_n);
  if (c.family == Family::simt) return text;
  if (c.family == Family::rows) text += fmt::format(":s{}", c.stages);
  if (c.family == Family::ffma || c.family == Family::gemv || c.family == Family::rows) {
    if (c.split_k != 1) text += fmt::format(":k{}", c.split_k);
    return c.cluster_k == 1 ? text : text + fmt::format(":c{}", c.cluster_k);
  }
  text += fmt::format(":s{}", c.stages);
  if (c.family == Family::decode) return c.split_k == 1 ? text : text + fmt::format(":k{}", c.split_k);
  if (c.cluster_m != 1 || c.cluster_n != 1) text += fmt::format(":c{}x{}", c.cluster_m, c.cluster_n);
  text += fmt::format(":{}", name_of(c.schedule));
  if (c.store_buffers) text += fmt::format(":b{}", c.store_buffers);
  return text;
}

std::optional<Configuration> configuration_from(std::string_view text, std::string& error) {
  const auto fail = [&](std::string message) {
    error = fmt::format("configuration '{}': {} (like {})", text, message, kForms);
    return std::nullopt;
  };
  const auto parts = split(text, ':');
  Configuration c;
  if (parts[0] == "sm90") c.family = Family::sm90;
  else if (parts[0] == "simt") c.family = Family::simt;
  else if (parts[0] == "decode") c.family = Family::decode;
  else if (parts[0] == "ffma") c.family = Family::ffma;
  else if (parts[0] == "gemv") c.family = Family::gemv;
  else if (parts[0] == "rows") c.family = Family::rows;
  else return fail(fmt::format("family '{}' must be sm90, decode, ffma, gemv, rows or simt", parts[0]));
  if (parts.size() < 2 || !numbers(parts[1], c.tile_m, c.tile_n, c.tile_k))
    return fail(fmt::format("tile '{}' must be three positive numbers, MxNxK", parts.size() < 2 ? "" : parts[1]));

  bool stages = false, split = false, schedule = false, cluster = false, buffers = false, thread = false;
  const auto once = [](bool& seen) { return !std::exchange(seen, true); };
  for (size_t i = 2; i < parts.size(); ++i) {
    const std::string_view part = parts[i];
    const std::string_view rest = part.empty() ? part : part.substr(1);
    const auto bad = [&](std::string_view wanted) { return fail(fmt::format("part '{}' {}", part, wanted)); };
    if (c.family == Family::simt) {
      if (part.empty() || part[0] != 't' || !numbers(rest, c.thread_m, c.thread_n) || !once(thread))
        return bad("must be one register tile tMxN");
    } else if (c.family == Family::ffma || c.family == Family::rows) {
      const char which = part.empty() ? ' ' : part[0];
      const bool good = which == 't'   ? numbers(rest, c.thread_m, c.thread_n) && once(thread)
                        : which == 'k' ? number(rest, c.split_k) && once(split)
                        : which == 's' ? c.family == Family::rows && number(rest, c.stages) && once(stages)
                                       : which == 'c' && number(rest, c.cluster_k) && once(cluster);
      if (!good) return bad(fmt::format("must be one register tile tMxN, or one number of groups of warps along K, kN, or of blocks of a cluster along K, cN{}", c.family == Family::rows ? ", or of stages, sN" : ""));
    } else if (c.family == Family::gemv) {
      if (part.empty() || part[0] != 'k' || !number(rest, c.split_k) || !once(split)) return bad("must be one number of warps along K, kN");
    } else if (c.family == Family::decode) {
      if (!part.empty() && part[0] == 's' ? !number(rest, c.stages) || !once(stages) : part.empty() || part[0] != 'k' || !number(rest, c.split_k) || !once(split))
        return bad("must be one number of stages, sN, or of slices of K, kN");
    } else if (part == "coop" || part == "pingpong") {
      if (!once(schedule)) return bad("names a second schedule");
      c.schedule = part == "coop" ? Schedule::cooperative : Schedule::pingpong;
    } else if (!part.empty() && part[0] == 's') {
      if (!number(rest, c.stages) || !once(stages)) return bad("must be one number of stages, sN");
    } else if (!part.empty() && part[0] == 'c') {
      if (!numbers(rest, c.cluster_m, c.cluster_n) || !once(cluster)) return bad("must be one cluster, cMxN, or the schedule coop");
    } else if (!part.empty() && part[0] == 'b') {
      if (!number(rest, c.store_buffers) || !once(buffers)) return bad("must be one number of store buffers, bN");
    } else {
      return bad("must be sN (stages), cMxN (cluster), coop, pingpong or bN (store buffers)");
    }
  }
  if (!uses_tensor_cores(c.family) && c.family != Family::gemv && !thread) return fail("the register tile tMxN is missing");
  if (needs_hopper(c.family) && !stages) return fail("the number of stages sN is missing");
  if (c.family == Family::sm90 && !schedule) return fail("the schedule, coop or pingpong, is missing");
  return c;
}

std::string text_of(const Operation& o) {
  const auto alignment = [](Alignment a) { return a == Alignment::tma ? "tma" : "any"; };
  std::string text = fmt::format("{}x{}->{}:{}{}:{}:{}", name_of(o.a), name_of(o.b), name_of(o.d), o.transpose_a ? 't' : 'n',
                                 o.transpose_b ? 'n' : 't', alignment(o.inputs), alignment(o.output));
  if (o.has_c) text += fmt::format(":c={}", name_of(o.c));
  if (o.has_bias) text += fmt::format(":bias={}", name_of(o.bias));
  if (o.has_residual) text += fmt::format(":res={}", name_of(o.residual));
  if (o.activation != Activation::none) text += fmt::format(":{}", name_of(o.activation));
  if (o.gating != Gating::none) text += fmt::format(":gated={}", name_of(o.gating));
  return text;
}

std::optional<Operation> operation_from(std::string_view text, std::string& error) {
  const auto fail = [&](std::string message) {
    error = fmt::format("operation '{}': {} (like bf16xbf16->bf16:nt:tma:tma:bias=bf16:gelu_erf)", text, message);
    return std::nullopt;
  };
  Operation o;
  const auto parts = split(text, ':');
  const auto type = [&](std::string_view name, DType& into) {
    const auto found = dtype_from(name);
    if (found) into = *found;
    return found.has_value();
  };
  const size_t arrow = parts[0].find("->"), cross = parts[0].find('x');
  if (arrow == std::string_view::npos || cross >= arrow || !type(parts[0].substr(0, cross), o.a) ||
      !type(parts[0].substr(cross + 1, arrow - cross - 1), o.b) || !type(parts[0].substr(arrow + 2), o.d))
    return fail(fmt::format("types '{}' must be AxB->D, each of {}", parts[0], dtype_names()));
  if (parts.size() < 4) return fail("layouts and alignments are missing");
  if (parts[1].size() != 2 || (parts[1][0] != 'n' && parts[1][0] != 't') || (parts[1][1] != 'n' && parts[1][1] != 't'))
    return fail(fmt::format("layouts '{}' must be nt, nn, tt or tn", parts[1]));
  o.transpose_a = parts[1][0] == 't';
  o.transpose_b = parts[1][1] == 'n';
  const auto alignment = [&](std::string_view name, Alignment& into) {
    into = name == "tma" ? Alignment::tma : Alignment::any;
    return name == "tma" || name == "any";
  };
  if (!alignment(parts[2], o.inputs)) return fail(fmt::format("input alignment '{}' must be tma or any", parts[2]));
  if (!alignment(parts[3], o.output)) return fail(fmt::format("output alignment '{}' must be tma or any", parts[3]));
  for (size_t i = 4; i < parts.size(); ++i) {
    const std::string_view part = parts[i];
    const size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    if (equals == std::string_view::npos) {
      const auto activation = activation_from(part);
      if (!activation || o.activation != Activation::none)
        return fail(fmt::format("part '{}' must be one activation of {}, c=, bias= or res= with a type, or gated=", part, activation_names()));
      o.activation = *activation;
      continue;
    }
    if (key == "gated") {
      const auto gating = gating_from(part.substr(equals + 1));
      if (!gating || *gating == Gating::none || o.gating != Gating::none) return fail(fmt::format("part '{}' must be one gated= with halves or interleaved", part));
      o.gating = *gating;
      continue;
    }
    bool* has = key == "c" ? &o.has_c : key == "bias" ? &o.has_bias : key == "res" ? &o.has_residual : nullptr;
    DType& into = key == "c" ? o.c : key == "bias" ? o.bias : o.residual;
    if (!has) return fail(fmt::format("operand '{}' must be c, bias, res or gated", key));
    if (std::exchange(*has, true)) return fail(fmt::format("operand '{}' stands twice", key));
    if (!type(part.substr(equals + 1), into)) return fail(fmt::format("type '{}' must be one of {}", part.substr(equals + 1), dtype_names()));
  }
  return o;
}

}  // namespace foretile
