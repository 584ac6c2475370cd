// docs/what-articles-get-wrong.md and docs/kernel-files.md: every command shown runs, and prints the lines shown under it.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
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

}  // namespace
