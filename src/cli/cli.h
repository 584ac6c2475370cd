// The command-line tool. Every command adds itself to the application and leaves what to run.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace foretile::cli {

// Runs one command line; returns the exit code. Never throws.
int run(const std::vector<std::string>& arguments);
int run(int argc, const char* const* argv);

// What the chosen command does; set by its callback.
using Action = std::function<int()>;

void add_demo(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_choose(CLI::App& app, Action& action);
void add_verify(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_emulate(CLI::App& app, Action& action);
void add_machines(CLI::App& app, Action& action);
void add_calibrate(CLI::App& app, Action& action);
void add_cache(CLI::App& app, Action& action);
void add_ladder(CLI::App& app, Action& action);

}  // namespace foretile::cli
