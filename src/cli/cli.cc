#include "cli/cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "cli/options.h"

namespace foretile::cli {

namespace {

constexpr const char* kAbout = "Foretile: matrix products for LLM inference that know their own speed before they run.\n"
                               "Forecast a product, see why it takes that long, run the kernel's own source on the CPU,\n"
                               "check it, and on a GPU measure it.";

constexpr const char* kFooter = R"(Start here:
  foretile demo                                       real models' layers: forecast, and every kernel checked
  foretile explain --m 32 --n 6144 --k 4096           how long on an H200, what bounds it, and why
  foretile choose --m 32 --n 6144 --k 4096            every configuration ranked, and what rules the others out
  foretile emulate --m 100 --n 200 --k 320            run it on the CPU; races, deadlocks and bad addresses are found

Exit codes: 0 done; 1 a check failed; 2 bad input; 3 not possible on this machine (no GPU, no compiler).
Results go to standard output (--json for programs), everything else to standard error. NO_COLOR is honoured.)";

// The flags that a mistyped one may have meant.
std::string nearest(const CLI::App& app, const std::string& given) {
  const auto distance = [](const std::string& a, const std::string& b) {
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
      size_t diagonal = row[0]++;
      for (size_t j = 1; j <= b.size(); ++j) {
        const size_t above = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
        diagonal = above;
      }
    }
    return row[b.size()];
  };
  std::string best;
  size_t best_distance = 3;
  const auto look_at = [&](const std::string& name) {
    if (const size_t d = distance(given, name); d < best_distance) best_distance = d, best = name;
  };
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) look_at("--" + name);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) look_at(command->get_name());
  return best;
}

// An empty value, of a variable that is not set say, would pass for an option that was not given.
void refuse_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    for (const std::string& value : option->results())
      if (value.empty()) throw BadInput(fmt::format("{} is empty; give it a value or leave it out", option->get_name()));
}

// CLI11 leaves two empty lines between groups.
std::string help_of(const CLI::App& app, const std::string& before) {
  std::string text = app.help(before);
  for (size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  return text;
}

}  // namespace

int run(const std::vector<std::string>& arguments) {
  CLI::App app(kAbout, "foretile");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("foretile ") + FORETILE_VERSION);
  app.require_subcommand(0, 1);
  app.get_formatter()->column_width(28);
  Action action;
  add_demo(app, action);
  add_explain(app, action);
  add_choose(app, action);
  add_emulate(app, action);
  add_verify(app, action);
  add_run(app, action);
  add_bench(app, action);
  add_ladder(app, action);
  add_machines(app, action);
  add_calibrate(app, action);
  add_cache(app, action);

  std::string command = "foretile";
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
    for (const CLI::App* sub : app.get_subcommands()) {
      command += " " + sub->get_name();
      refuse_empty_values(*sub);
    }
    if (!action) {
      fmt::print("{}", help_of(app, ""));
      return kOk;
    }
    const int code = action();
    // What is still in the buffer would be lost without a word at exit, on a full disk say.
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw NotPossible(fmt::format("standard output cannot be written: {}", std::strerror(errno)));
    return code;
  } catch (const CLI::ParseError& e) {
    const CLI::App* at = &app;
    for (const CLI::App* sub : app.get_subcommands()) at = sub, command += " " + sub->get_name();
    if (e.get_name() == "CallForHelp") {
      fmt::print("{}", help_of(*at, at == &app ? "" : "foretile"));
      return kOk;
    }
    if (e.get_exit_code() == 0) return app.exit(e);  // --version
    std::string hint;
    const auto extras = app.remaining(true);
    if (!extras.empty()) {
      const std::string name = extras.front().substr(0, extras.front().find('='));
      if (const std::string meant = nearest(*at, name); !meant.empty()) hint = fmt::format(" Did you mean {}?", meant);
    }
    fmt::print(stderr, "{}: {}.{}\n{} --help lists what is allowed.\n", command, e.what(), hint, command);
    return kBadInput;
  } catch (const BadInput& e) {
    fmt::print(stderr, "{}: {}\n", command, e.what());
    return kBadInput;
  } catch (const std::invalid_argument& e) {  // of a layer below: such as a product of too many tiles
    fmt::print(stderr, "{}: {}\n", command, e.what());
    return kBadInput;
  } catch (const NotPossible& e) {
    fmt::print(stderr, "{}: {}\n", command, e.what());
    return kNotPossible;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", command, e.what());
    return kNotPossible;
  }
}

int run(int argc, const char* const* argv) { return run(std::vector<std::string>(argv + 1, argv + argc)); }

}  // namespace foretile::cli
