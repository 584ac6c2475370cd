#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstring>

#include "model/page.h"
#include "model/replaced_file.h"
#include "model/text.h"
#include "plan/plan.h"

namespace foretile::cli {

namespace {

constexpr i64 kLargest = 0x7fffffff - 4096;  // of M, N, K: see why_not() in device/legality.h
constexpr DType kTypes[] = {DType::bf16, DType::fp16, DType::fp32};

DType parse_type(const std::string& option, const std::string& text) {
  std::string allowed;
  for (DType t : kTypes) {
    if (text == name_of(t)) return t;
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", name_of(t));
  }
  throw BadInput(fmt::format("{} is \"{}\"; allowed: {}", option, text, allowed));
}

Activation parse_activation(const std::string& text) {
  if (const auto a = activation_from(text)) return *a;
  throw BadInput(fmt::format("--activation is \"{}\"; allowed: {}", text, activation_names()));
}

}  // namespace

Gating parse_gating(const std::string& text) {
  if (text.empty()) return Gating::none;
  if (const auto g = gating_from(text); g && *g != Gating::none) return *g;
  throw BadInput(fmt::format("--gated is \"{}\"; allowed: halves (all gates, then all up columns), interleaved (gate, up, gate, up)", text));
}

Compute parse_compute(const std::string& text, const std::string& dtype) {
  const auto c = compute_from(text);
  if (!c) throw BadInput(fmt::format("--compute is \"{}\"; allowed: {}", text, compute_names()));
  if (*c == Compute::tf32 && dtype != "fp32") throw BadInput(fmt::format("--compute is tf32 with --dtype {}; allowed: tf32 with --dtype fp32", dtype));
  return *c;
}

i64 whole_number(const std::string& option, const std::string& text, i64 low, i64 high) {
  i64 value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    throw BadInput(fmt::format("{} is \"{}\"; allowed: a whole number from {} to {}", option, text, low, high));
  return value;
}

double number(const std::string& option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(float(value)))
    throw BadInput(fmt::format("{} is \"{}\"; allowed: a finite fp32 number", option, text));
  return value;
}

void ProductOptions::add_to(CLI::App& app) {
  app.add_option("--m", m, "rows of A and D: tokens")->group("Product")->type_name("N");
  app.add_option("--n", n, "columns of D: output features, rows of the weights B")->group("Product")->type_name("N");
  app.add_option("--k", k, "input features: the length of each sum")->group("Product")->type_name("N");
  app.add_option("--batch", batch, "products of this shape in one call [1]")->group("Product")->type_name("N");
  app.add_option("--dtype", dtype, "of A and B: bf16, fp16 or fp32 [bf16]")->group("Product")->type_name("TYPE");
  app.add_option("--out-dtype", out_dtype, "of D, C, bias and residual [as A and B]")->group("Product")->type_name("TYPE");
  app.add_option("--compute", compute, "of fp32: exact, or tf32, in which ten bits of each input count [exact]")->group("Product")->type_name("NAME");
  app.add_flag("--transpose-a", transpose_a, "A stands as [K,M]")->group("Product");
  app.add_flag("--transpose-b", transpose_b, "B stands as [K,N]")->group("Product");
  app.add_flag("--unaligned", unaligned, "addresses and rows off TMA's 16-byte boundaries")->group("Product");
  app.add_option("--alpha", alpha, "factor of the product [1]")->group("Epilogue")->type_name("X");
  app.add_option("--beta", beta, "factor of C; 0 means no C [0]")->group("Epilogue")->type_name("X");
  app.add_flag("--bias", bias, "add a value a column")->group("Epilogue");
  app.add_option("--activation", activation, "none, relu, gelu_erf, gelu_tanh or silu [none]")->group("Epilogue")->type_name("NAME");
  app.add_option("--gated", gated, "D = activation(gate) * up with N/2 columns; gate and up columns are halves or interleaved")->group("Epilogue")->type_name("LAYOUT");
  app.add_flag("--residual", residual, "add a matrix after the activation")->group("Epilogue");
}

Problem ProductOptions::problem() const {
  for (const auto& [option, text] : {std::pair{"--m", &m}, {"--n", &n}, {"--k", &k}})
    if (text->empty()) throw BadInput(fmt::format("{} is missing; a product needs --m (rows of A), --n (rows of B) and --k (columns of both)", option));
  Problem p;
  p.m = whole_number("--m", m, 0, kLargest);
  p.n = whole_number("--n", n, 0, kLargest);
  p.k = whole_number("--k", k, 0, kLargest);
  p.batch = whole_number("--batch", batch, 0, kLargest);
  if (parse_gating(gated) != Gating::none && p.k == 0) throw BadInput(fmt::format("--k is 0 with --gated {}; allowed: from 1 on, a gated product needs something to multiply", gated));
  if (parse_gating(gated) != Gating::none && p.n % 2) throw BadInput(fmt::format("--n is {} with --gated {}; allowed: an even number, gate and up columns together", p.n, gated));
  return p;
}

Operation ProductOptions::operation() const {
  const Problem p = problem();
  Operation o;
  o.a = o.b = parse_type("--dtype", dtype);
  o.d = out_dtype.empty() ? o.a : parse_type("--out-dtype", out_dtype);
  o.c = o.bias = o.residual = o.d;
  o.a = o.b = input_type(o.a, parse_compute(compute, dtype));
  o.transpose_a = transpose_a, o.transpose_b = transpose_b;
  o.has_c = beta_value() != 0, o.has_bias = bias, o.has_residual = residual;
  o.activation = parse_activation(activation);
  o.gating = parse_gating(gated);
  (void)alpha_value();
  // Dense matrices at aligned addresses: what is left to decide is whether their rows are multiples of 16 bytes.
  Operands x;
  x.a.ld = o.transpose_a ? p.m : p.k, x.a.batch_stride = p.batch > 1 ? p.m * p.k : 0;
  x.b.ld = o.transpose_b ? p.n : p.k, x.b.batch_stride = p.batch > 1 ? p.n * p.k : 0;
  x.epilogue.d.ld = output_columns(o, p.n), x.epilogue.d.batch_stride = p.batch > 1 ? p.m * x.epilogue.d.ld : 0;
  o.inputs = unaligned ? Alignment::any : input_alignment(o, p, x);
  o.output = unaligned ? Alignment::any : output_alignment(o, p, x);
  return o;
}

float ProductOptions::alpha_value() const { return float(number("--alpha", alpha)); }
float ProductOptions::beta_value() const { return float(number("--beta", beta)); }

void CallOptions::add_to(CLI::App& app) {
  app.add_flag("--dependent", dependent, "one of a chain of dependent launches (PDL) whose weights are ready: starts while the one before it ends")->group("Machine");
  app.add_flag("--batch-invariant", batch_invariant, "a row's bits do not depend on M: K is cut as N and K alone say")->group("Machine");
}

Conditions CallOptions::with(Conditions c) const {
  c.dependent = dependent, c.batch_invariant = batch_invariant;
  return c;
}

void MachineOptions::add_to(CLI::App& app) {
  app.add_option("--machine", machine, "a listed GPU (foretile machines) or a .toml file [h200]")->group("Machine")->type_name("NAME");
  app.add_option("--regime", regime, "sustained (at the power limit), burst, or an SM clock such as mhz=1500 [sustained]")->group("Machine")->type_name("NAME");
  app.add_option("--data", data, "random or zeros: zeros take less power [random]")->group("Machine")->type_name("NAME");
  app.add_option("--sms", sms, "fill only so many SMs [all]")->group("Machine")->type_name("N");
}

Machine MachineOptions::load() const {
  try {
    return load_machine(machine);
  } catch (const std::invalid_argument& e) {
    throw BadInput(fmt::format("--machine: {}", e.what()));
  }
}

Conditions MachineOptions::conditions(i64 most_sms) const {
  Conditions c;
  if (regime == "burst") {
    c.regime = Regime::burst;
  } else if (regime == "sustained") {
    c.regime = Regime::sustained;
  } else {
    std::string_view text = regime;
    bool unit = false;
    if (text.starts_with("mhz=")) unit = true, text.remove_prefix(4);
    else if (text.ends_with("MHz")) unit = true, text.remove_suffix(3);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), c.mhz);
    if (!unit || error != std::errc() || end != text.data() + text.size() || !(c.mhz >= 100 && c.mhz <= 10000))
      throw BadInput(fmt::format("--regime is \"{}\"; allowed: sustained, burst, or a clock from 100MHz to 10000MHz such as mhz=1500 or 1500MHz", regime));
    c.regime = Regime::fixed_clock;
  }
  if (data == "zeros") c.data = Data::zeros;
  else if (data != "random") throw BadInput(fmt::format("--data is \"{}\"; allowed: random, zeros", data));
  if (!sms.empty()) c.sm_budget = int(whole_number("--sms", sms, 1, most_sms));
  return c;
}

void ConfigurationOption::add_to(CLI::App& app) {
  app.add_option("--config", text, "such as sm90:128x256x64:s4:coop:b2 [the model's choice]")->group("Machine")->type_name("TEXT");
}

std::optional<Configuration> ConfigurationOption::parse(const Machine& machine, const Operation& o, const Problem& p) const {
  if (text.empty()) return std::nullopt;
  std::string error;
  const auto c = configuration_from(text, error);
  if (!c) throw BadInput(fmt::format("--config: {} (foretile choose lists configurations)", error));
  if (const char* reason = why_not_on(machine, o, *c, p)) throw BadInput(fmt::format("--config {} cannot compute this product on {}: {}", text, machine.name, reason));
  return c;
}

void Output::add_to(CLI::App& app) { app.add_flag("--json", json, "machine-readable output"); }

nlohmann::ordered_json envelope(const std::string& command) { return {{"schema", "foretile." + command}, {"version", 1}, {"foretile", FORETILE_VERSION}}; }

nlohmann::ordered_json json_of(const Trust& trust) {
  nlohmann::ordered_json json;
  if (trust.alike) json = {{"times", trust.alike->times}, {"median_error", trust.alike->median}, {"nine_in_ten", trust.alike->ninth}};
  json["beyond"] = trust.beyond;
  return json;
}

void say_nothing(nlohmann::ordered_json& json, const Problem& p) {
  std::string nothing = nothing_to_compute(p);
  if (nothing.empty()) return;
  nothing.pop_back();  // the end of its line
  json["nothing_to_compute"] = nothing;
}

nlohmann::ordered_json json_of(const Operation& o, const Problem& p) {
  return {{"m", p.m}, {"n", p.n}, {"k", p.k}, {"batch", p.batch}, {"operation", text_of(o)}};
}

nlohmann::ordered_json json_of(const Forecast& f) {
  return {{"seconds", f.seconds},
          {"bound", name_of(f.bound)},
          {"parts_seconds", {{"dram", f.dram}, {"l2", f.l2}, {"shared_memory", f.shared_memory}, {"compute", f.compute}, {"issue", f.issue}, {"latency", f.latency}, {"launch", f.launch}, {"epilogue", f.epilogue}}},
          {"waves", f.waves},
          {"clock_mhz", f.clock_mhz},
          {"watts", f.watts},
          {"dram_bytes", f.dram_bytes},
          {"l2_bytes", f.l2_bytes},
          {"l2_hit_rate", f.l2_hit_rate},
          {"blocks_per_sm", f.blocks_per_sm},
          {"registers", f.registers},
          {"registers_estimated", f.registers_estimated},
          {"shared_bytes", f.shared_bytes}};
}

void print_json(const nlohmann::ordered_json& value) { fmt::print("{}\n", value.dump(2)); }

void write_file(const std::string& option, const std::string& path, const std::string& text) {
  if (const int error = replace_file(path, text)) throw NotPossible(fmt::format("{}: {} cannot be written: {}", option, path, std::strerror(error)));
}

std::string shape_text(const Problem& p) {
  std::string text = fmt::format("{} x {} x {}", p.m, p.n, p.k);
  return p.batch == 1 ? text : fmt::format("{} of {}", p.batch, text);
}

std::string operation_line(const Operation& o) {
  std::string text = fmt::format("{} x {} -> {}", name_of(stored_type(o.a)), name_of(stored_type(o.b)), name_of(o.d));
  if (o.a == DType::tf32) text += " in TF32";
  if (o.transpose_a) text += ", A transposed";
  if (o.transpose_b) text += ", B transposed";
  if (o.inputs == Alignment::any) text += ", inputs not aligned for TMA";
  if (o.output == Alignment::any) text += ", output not aligned for TMA";
  if (o.has_c) text += ", + beta C";
  if (o.has_bias) text += ", + bias";
  if (o.gating != Gating::none) text += fmt::format(", {} * up ({})", o.activation == Activation::none ? "gate" : fmt::format("{}(gate)", name_of(o.activation)), name_of(o.gating));
  else if (o.activation != Activation::none) text += fmt::format(", {}", name_of(o.activation));
  if (o.has_residual) text += ", + residual";
  return text;
}

std::string regime_text(const Conditions& c) {
  std::string text = c.regime == Regime::burst ? "in a short burst" : c.regime == Regime::sustained ? "sustained at the power limit" : fmt::format("at {:.0f} MHz", c.mhz);
  if (c.data == Data::zeros) text += ", all-zero data";
  if (c.dependent) text += ", in a chain of dependent launches with ready weights";
  if (c.batch_invariant) text += ", bits independent of M";
  return c.sm_budget > 0 ? fmt::format("{}, on {} SMs", text, c.sm_budget) : text;
}

}  // namespace foretile::cli
