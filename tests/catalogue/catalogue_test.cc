// Every catalogue kernel compiles for its architecture without spills or C75xx remarks, and comes out as the checked-in
// table says: registers, spills, shared memory, and the width of every access.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "catalogue/compile_all.h"
#include "foretile/device/catalogue.h"
#include "foretile/device/legality.h"
#include "model/text.h"

namespace foretile::catalogue {
namespace {

constexpr std::size_t kParts = 8;  // so that none takes longer than a minute

struct Table {
  std::string compiler;
  std::map<std::string, std::map<std::string, std::string>> rows;  // "operation configuration" -> column -> cell
};
std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    cells.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return cells;
}
Table read_table() {
  Table table;
  std::ifstream in(std::string(FORETILE_SOURCE_DIR) + "/tests/golden/catalogue.csv");
  std::string line;
  std::getline(in, line);
  const std::string prefix = "# compiler: ";
  if (line.compare(0, prefix.size(), prefix) == 0) table.compiler = line.substr(prefix.size(), line.find(',') - prefix.size());
  std::getline(in, line);
  const auto columns = split(line);
  while (std::getline(in, line)) {
    const auto cells = split(line);
    auto& row = table.rows[cells[0] + " " + cells[1]];
    for (std::size_t i = 0; i < cells.size() && i < columns.size(); ++i) row[columns[i]] = cells[i];
  }
  return table;
}

TEST(Catalogue, TableHasARowForEveryKernelAndNoOther) {
  const Table table = read_table();
  std::size_t count = 0;
  for (const Kernel& k : kernels()) count += table.rows.count(k.operation_name + " " + text_of(k.configuration));
  EXPECT_EQ(count, kernels().size());
  EXPECT_EQ(table.rows.size(), kernels().size()) << "regenerate it: tools/catalogue.py --write";
  EXPECT_GT(count, 80u);
}

class CatalogueKernels : public ::testing::TestWithParam<std::size_t> {};

TEST_P(CatalogueKernels, CompileAndAreAsTheTableSays) {
  std::string version;
  if (const Status s = nvrtc_version(version); !s) GTEST_SKIP() << "no NVRTC here: " << s.message();
  std::vector<Kernel> part;
  const auto all = kernels();
  for (std::size_t i = GetParam(); i < all.size(); i += kParts) part.push_back(all[i]);
  ASSERT_FALSE(part.empty());
  const auto compiled = compile_all(part, "sm_90a");
  for (const Compiled& c : compiled) EXPECT_TRUE(c.status.ok()) << c.kernel.operation_name << " " << text_of(c.kernel.configuration) << ": " << c.status.message();

  const Table table = read_table();
  if (table.compiler != version) GTEST_SKIP() << "compiled, but not compared: the table is " << table.compiler << "'s, here is " << version;
  for (const Compiled& c : compiled) {
    const auto row = table.rows.find(c.kernel.operation_name + " " + text_of(c.kernel.configuration));
    if (row == table.rows.end()) continue;  // the test above says so
    EXPECT_EQ(row->second.at("registers"), std::to_string(c.registers)) << row->first;
    EXPECT_EQ(row->second.at("spill_bytes"), std::to_string(c.spill_bytes)) << row->first;
    EXPECT_EQ(row->second.at("shared_bytes"), std::to_string(c.shared_bytes)) << row->first;
  }
  // Access widths are in the machine code; the script takes it apart where there is a disassembler.
  const std::filesystem::path folder = std::filesystem::path(FORETILE_BINARY_DIR) / fmt::format("catalogue-{}", GetParam());
  std::filesystem::create_directories(folder);
  write_listing(compiled, "sm_90a", version, folder.string());
  const std::string command = fmt::format("python3 {}/tools/catalogue.py --folder {} --check 2>&1", FORETILE_SOURCE_DIR, folder.string());
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  for (char buffer[512]; std::fgets(buffer, sizeof buffer, pipe);) output += buffer;
  const int status = pclose(pipe);
  std::filesystem::remove_all(folder);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == 77 || code == 127) GTEST_SKIP() << "registers and spills compared; access widths not: " << (code == 127 ? "no python3" : output);
  EXPECT_EQ(code, 0) << output;
}

INSTANTIATE_TEST_SUITE_P(Parts, CatalogueKernels, ::testing::Range<std::size_t>(0, kParts));

// The portable kernel on the other architectures it is for.
TEST(Catalogue, PortableKernelsCompileForOlderGpus) {
  std::string version;
  if (const Status s = nvrtc_version(version); !s) GTEST_SKIP() << "no NVRTC here: " << s.message();
  std::vector<Kernel> list;
  for (const Configuration& c : kConfigurations)
    if (c.family == Family::simt) list.push_back({"bf16-unaligned", unaligned(product(DType::bf16, DType::bf16)), c});
  ASSERT_FALSE(list.empty());
  for (const char* architecture : {"sm_75", "sm_80", "sm_89"})
    for (const Compiled& c : compile_all(list, architecture)) EXPECT_TRUE(c.status.ok()) << architecture << " " << text_of(c.kernel.configuration) << ": " << c.status.message();
}

}  // namespace
}  // namespace foretile::catalogue
