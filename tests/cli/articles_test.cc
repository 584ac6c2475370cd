// docs/what-articles-get-wrong.md, docs/kernel-files.md and docs/emulator.md: every command shown runs, and prints the lines shown under it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "command.h"

namespace {

// One space between words, wherever lines were broken.
std::string flat(const std::string& text) {
  std::stringstream in(text);
  std::string all;
  for (std::string word; in >> word;) all += (all.empty() ? "" : " ") + word;
  return all;
}

struct Shown {
  std::string arguments;
  std::vector<std::string> lines;
};

std::vector<Shown> shown_in(const std::string& page) {
  std::ifstream in(std::string(FORETILE_SOURCE_DIR) + "/docs/" + page);
  EXPECT_TRUE(in) << page;
  std::vector<Shown> all;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line == "```console") inside = true;
    else if (line == "```") inside = false;
    else if (inside && line.rfind("$ foretile ", 0) == 0) all.push_back({line.substr(11), {}});
    else if (inside && !all.empty()) all.back().lines.push_back(line);
  }
  return all;
}

TEST(Articles, EveryProofHolds) {
  const auto proofs = shown_in("what-articles-get-wrong.md");
  EXPECT_GE(proofs.size(), 25u);
  std::map<std::string, std::string> outputs;
  for (const Shown& proof : proofs) {
    std::string& output = outputs[proof.arguments];
    if (output.empty()) {
      const Outcome o = foretile(proof.arguments, "COLUMNS=110");
      output = flat(o.out + o.error);
    }
    EXPECT_FALSE(proof.lines.empty()) << proof.arguments;
    for (const std::string& line : proof.lines) EXPECT_NE(output.find(flat(line)), std::string::npos) << proof.arguments << "\ndoes not print\n  " << line << "\nbut\n" << output.substr(0, 3000);
  }
}

// In docs/emulator.md "…" stands for any word, and LINE for a line number that --calls shows first.
bool prints(const std::string& output, const std::string& line, std::string& number) {
  const std::string escaped = std::regex_replace(flat(line), std::regex(R"([.*+?^$(){}\[\]|\\])"), R"(\$&)");
  const std::string any = std::regex_replace(escaped, std::regex("…"), R"(\S+)");
  std::smatch match;
  if (!std::regex_search(output, match, std::regex(std::regex_replace(any, std::regex("LINE"), number.empty() ? R"((\d+))" : number)))) return false;
  if (number.empty() && match.size() > 1) number = match[1];
  return true;
}

TEST(Articles, TheEmulatorsWalkThroughIsTrue) {
  const auto steps = shown_in("emulator.md");
  EXPECT_GE(steps.size(), 5u);
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / ("walk" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::string number;
  for (const Shown& step : steps) {
    const std::string arguments = std::regex_replace(std::regex_replace(step.arguments, std::regex("LINE"), number), std::regex(R"(\S+\.json)"), (folder / "$&").string());
    const Outcome o = foretile(arguments, "COLUMNS=110");
    EXPECT_EQ(o.code, step.arguments.find("--mutate") == std::string::npos ? 0 : 1) << arguments << o.error;
    std::string output = flat(o.out + o.error);
    for (std::size_t at; (at = output.find(folder.string() + "/")) != std::string::npos;) output.erase(at, folder.string().size() + 1);
    EXPECT_FALSE(step.lines.empty()) << step.arguments;
    for (const std::string& line : step.lines) EXPECT_TRUE(prints(output, line, number)) << arguments << "\ndoes not print\n  " << line << "\nbut\n" << output;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
