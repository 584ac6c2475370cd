// The options that commands share, and from them the operation, the problem and the machine.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"
#include "model/machine.h"
#include "model/model.h"
#include "model/trust.h"

namespace CLI {
class App;
}

namespace foretile::cli {

// Exit codes, as --help lists them.
constexpr int kOk = 0;
constexpr int kCheckFailed = 1;   // a result was wrong, or the emulator found a fault
constexpr int kBadInput = 2;      // the message names the argument and what is allowed
constexpr int kNotPossible = 3;   // this machine lacks what the command needs (a GPU, a compiler)

// Ends the command with kBadInput.
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Ends the command with kNotPossible.
struct NotPossible : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A whole number within [low, high], else BadInput naming `option`.
i64 whole_number(const std::string& option, const std::string& text, i64 low, i64 high);
double number(const std::string& option, const std::string& text);
Gating parse_gating(const std::string& text);  // of --gated; empty: none
Compute parse_compute(const std::string& text, const std::string& dtype);  // of --compute; tf32 goes with --dtype fp32 alone

// What is computed. Texts as the user gave them; parsed by the functions below.
struct ProductOptions {
  std::string m, n, k, batch = "1";
  std::string dtype = "bf16", out_dtype, compute = "exact", activation = "none", gated;
  std::string alpha = "1", beta = "0";
  bool transpose_a = false, transpose_b = false, bias = false, residual = false, unaligned = false;

  void add_to(CLI::App& app);
  // With sizes and alignment classes of dense matrices, or of none with --unaligned.
  Operation operation() const;
  Problem problem() const;
  float alpha_value() const, beta_value() const;
};

// How the library is called, besides.
struct CallOptions {
  bool dependent = false, batch_invariant = false;

  void add_to(CLI::App& app);
  Conditions with(Conditions c) const;
};

// Where and how it runs.
struct MachineOptions {
  std::string machine = "h200", regime = "sustained", data = "random", sms;

  void add_to(CLI::App& app);
  Machine load() const;
  Conditions conditions(i64 most_sms = 100000) const;
};

struct ConfigurationOption {
  std::string text;
  void add_to(CLI::App& app);
  // Null where none was given. A configuration that cannot compute the operation on the machine is BadInput with the reason.
  std::optional<Configuration> parse(const Machine& machine, const Operation& o, const Problem& p) const;
};

// --json, and the envelope of what it prints: schema and version first, then what was asked.
struct Output {
  bool json = false;
  void add_to(CLI::App& app);
};
nlohmann::ordered_json envelope(const std::string& command);
nlohmann::ordered_json json_of(const Operation& o, const Problem& p);
nlohmann::ordered_json json_of(const Trust& trust);
void say_nothing(nlohmann::ordered_json& json, const Problem& p);  // of a product without outputs, that there is nothing to compute
nlohmann::ordered_json json_of(const Forecast& f);
void print_json(const nlohmann::ordered_json& value);
// The file that `option` names. NotPossible, with the reason, where it cannot be written: it is then what it was before.
void write_file(const std::string& option, const std::string& path, const std::string& text);

std::string shape_text(const Problem& p);         // "32 x 6144 x 4096", a batch in front where there is one
std::string operation_line(const Operation& o);   // "bf16 x bf16 -> bf16, + bias, gelu_erf"
std::string regime_text(const Conditions& c);

}  // namespace foretile::cli
