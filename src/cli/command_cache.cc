// foretile cache: the compiled kernels on disk.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <map>
#include <memory>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "emulator/library/compile.h"
#include "emulator/library/store.h"
#include "runtime/cache.h"

namespace foretile::cli {

namespace {

struct Options {
  std::string what = "list";
  bool stale = false;
  Output output;
};

std::string date_text(std::int64_t seconds) {
  const std::time_t t = std::time_t(seconds);
  std::tm parts{};
  char text[20];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", localtime_r(&t, &parts));
  return text;
}

int cache_command(const Options& options) {
  if (options.what != "list" && options.what != "clear") throw BadInput(fmt::format("\"{}\" is not something the cache can do; allowed: list, clear", options.what));
  if (options.stale && options.what != "clear") throw BadInput("--stale belongs to: foretile cache clear");
  const CacheHome home = cache_home();
  if (home.folder.empty()) throw NotPossible("there is no cache folder: " + home.fault(""));
  const std::string& folder = home.folder;
  DiskCache cache(home);
  auto json = envelope("cache");
  json["folder"] = folder;
  const auto emulator_folders = emulator::present_store_folders();

  if (options.what == "clear") {
    const int removed = cache.clear(options.stale) + emulator::clear_stored_kernels(emulator::compile_environment(), options.stale);
    json["removed"] = removed;
    if (options.output.json) print_json(json);
    else {
      std::string places = folder;
      for (const auto& f : emulator_folders) places += " and " + f.string();
      fmt::print("{} {}entr{} removed from {}\n", removed, options.stale ? "stale " : "", removed == 1 ? "y" : "ies", places);
    }
    return kOk;
  }
  const auto entries = cache.list();
  double bytes = 0;
  json["entries"] = nlohmann::ordered_json::array();
  Table table;
  table.column("operation").column("configuration", Align::left, Table::Narrow::wraps).column("for").column("registers", Align::right, Table::Narrow::optional).column("compiled in", Align::right, Table::Narrow::optional).column("on", Align::left, Table::Narrow::optional).column("state");
  for (const DiskCache::Listed& e : entries) {
    bytes += double(e.bytes);
    nlohmann::ordered_json row = {{"file", e.file}, {"bytes", e.bytes}, {"modified", e.modified}};
    if (e.entry) {
      const bool stale = e.entry->sources != device_sources_digest();
      row.update(nlohmann::ordered_json{{"state", stale ? "stale" : "current"}, {"operation", e.entry->operation}, {"configuration", e.entry->configuration}, {"architecture", e.entry->architecture}, {"registers", e.entry->kernel.registers}, {"compiler", e.entry->kernel.compiler}, {"flags", e.entry->kernel.flags}, {"seconds", e.entry->kernel.seconds}});
      table.row({e.entry->operation, e.entry->configuration, e.entry->architecture, std::to_string(e.entry->kernel.registers), time_text(e.entry->kernel.seconds), date_text(e.modified), {stale ? "stale" : "current", stale ? Style::dim : Style::plain}});
    } else {
      row["state"] = "damaged";
      table.row({e.file, "", "", "", "", date_text(e.modified), {"damaged", Style::bad}});
    }
    json["entries"].push_back(row);
  }
  const auto stored = emulator::stored_kernels(emulator::compile_environment());
  std::map<std::string, std::pair<size_t, double>> by_folder;  // kernels and bytes
  json["emulator"] = {{"folder", emulator_folders.empty() ? "" : emulator_folders.front().string()}, {"entries", nlohmann::ordered_json::array()}};
  Table emulated;
  emulated.column("for the emulator", Align::left, Table::Narrow::wraps).column("bytes", Align::right).column("on").column("state");
  for (const emulator::StoredKernel& k : stored) {
    using State = emulator::StoredKernel::State;
    const char* state = k.state == State::current ? "current" : k.state == State::stale ? "stale" : k.state == State::damaged ? "damaged" : "abandoned";
    auto& [count, size] = by_folder[k.folder.string()];
    ++count, size += double(k.bytes);
    json["emulator"]["entries"].push_back({{"folder", k.folder.string()}, {"file", k.file}, {"kernel", k.label}, {"bytes", k.bytes}, {"modified", k.modified}, {"state", state}});
    emulated.row({k.label.empty() ? k.file : k.label, bytes_text(double(k.bytes)), date_text(k.modified), {state, k.state == State::current ? Style::plain : k.state == State::stale ? Style::dim : Style::bad}});
  }
  if (options.output.json) {
    print_json(json);
    return kOk;
  }
  const auto total = [](size_t count, double size, const std::string& where) { fmt::print("{} kernel{}, {} in {}\n", count, count == 1 ? "" : "s", bytes_text(size), where); };
  if (!entries.empty()) fmt::print("{}\n", table.text());
  total(entries.size(), bytes, folder);
  if (stored.empty()) return kOk;
  fmt::print("\n{}\n", emulated.text());
  for (const auto& [where, numbers] : by_folder) total(numbers.first, numbers.second, where);
  return kOk;
}

}  // namespace

void add_cache(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("cache", "compiled kernels on disk: list or clear them");
  command->add_option("what", options->what, "list or clear [list]")->type_name("WHAT");
  command->add_flag("--stale", options->stale, "with clear: only what this version can no longer use");
  options->output.add_to(*command);
  command->footer(R"(Kernels are compiled when first used and kept in FORETILE_CACHE, else $XDG_CACHE_HOME/foretile, else ~/.cache/foretile,
each with its generated source beside it. Those that the emulator had compiled stand in its subfolder emulator.

Examples:
  foretile cache
  foretile cache clear --stale)");
  command->callback([options, &action] { action = [options] { return cache_command(*options); }; });
}

}  // namespace foretile::cli
