// The pieces that need no process: embedded files, layers, cut problems, tables, numbers in words.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/emulated.h"
#include "cli/layers.h"
#include "cli/terminal.h"
#include "foretile/device/catalogue.h"
#include "model/embedded_files.h"
#include "runtime/embedded_sources.h"

namespace foretile::cli {
namespace {

std::string file_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Embedded, EveryFileByteForByte) {
  const std::filesystem::path root = FORETILE_SOURCE_DIR;
  size_t devices = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "device")) {
    const auto extension = entry.path().extension();
    devices += extension == ".h" || extension == ".cuh";
  }
  EXPECT_EQ(embedded_device_sources().size(), devices);
  for (const EmbeddedFile& f : embedded_device_sources()) EXPECT_EQ(f.text, file_text(root / "include" / f.name)) << f.name;
  EXPECT_GE(embedded_machine_files().size(), 4u);
  for (const EmbeddedFile& f : embedded_machine_files()) EXPECT_EQ(f.text, file_text(root / "machines" / f.name)) << f.name;
  EXPECT_GE(embedded_data_files().size(), 1u);
}

TEST(Layers, ModelsOfTheFile) {
  const ModelFile file = load_models();
  EXPECT_EQ(file.tokens, (std::vector<i64>{1, 32, 4096}));
  ASSERT_EQ(file.models.size(), 3u);
  size_t layers = 0;
  for (const Model& m : file.models) layers += m.layers.size();
  EXPECT_EQ(layers, 14u);
  EXPECT_EQ(file.models[0].layers[2].n, 28672);
}

TEST(Layers, WrongFilesAreRefusedByName) {
  const auto message = [](const char* text) {
    try {
      parse_models(text);
    } catch (const std::runtime_error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(message("version = 2\n").find("version is 2"), std::string::npos);
  EXPECT_NE(message("version = 1\ntokens = [0]\n").find("tokens"), std::string::npos);
  EXPECT_NE(message("version = 1\ntokens = [1]\n[[model]]\nname='x'\nid='x'\ndtype='bf17'\nlayers=[{name='q',n=1,k=1}]").find("bf17"), std::string::npos);
  EXPECT_NE(message("version = 1\ntokens = [1]\n[[model]]\nname='x'\nid='x'\ndtype='bf16'\nlayers=[{name='q',n=1}]").find("\"k\""), std::string::npos);
  EXPECT_NE(message("version = \n").find("line 1"), std::string::npos);
}

TEST(Cut, KeepsRemaindersAndFitsTheBudget) {
  for (const Configuration& c : catalogue::kConfigurations)
    for (const Problem p : {Problem{1, 6144, 4096}, Problem{4096, 2112, 7168}, Problem{4000, 4100, 1000}, Problem{33, 17, 5}}) {
      const double budget = 60e6;
      const Problem q = cut(c, p, budget);
      EXPECT_LE(q.m, p.m);
      EXPECT_LE(q.n, p.n);
      EXPECT_LE(q.k, p.k);
      EXPECT_EQ(q.m % (c.tile_m * c.cluster_m), p.m % (c.tile_m * c.cluster_m));
      EXPECT_EQ(q.n % (c.tile_n * c.cluster_n), p.n % (c.tile_n * c.cluster_n));
      EXPECT_EQ(q.k % c.tile_k, p.k % c.tile_k);
      EXPECT_TRUE(emulated_work(c, q) <= budget || (q.k <= c.tile_k && q.m <= c.tile_m * c.cluster_m && q.n <= c.tile_n * c.cluster_n));
    }
}

TEST(Numbers, ThreeDigitsAndAUnit) {
  EXPECT_EQ(time_text(1.234e-6), "1.23 us");
  EXPECT_EQ(time_text(0.99999e-3), "1.00 ms");
  EXPECT_EQ(time_text(12.34e-6), "12.3 us");
  EXPECT_EQ(time_text(123.4e-6), "123 us");
  EXPECT_EQ(time_text(5e-9), "5.00 ns");
  EXPECT_EQ(time_text(2.5), "2.50 s");
  EXPECT_EQ(time_text(NAN), "-");
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(141e9), "141 GB");
  EXPECT_EQ(bytes_text(33554432), "33.6 MB");
}

TEST(Table, AlignsAndDropsOptionalColumns) {
  Table t;
  t.column("name").column("time", Align::right).column("note", Align::left, Table::Narrow::optional);
  t.row({"a", "1 us", "something long"});
  t.row({"bcd", "123 us", "x"});
  EXPECT_EQ(t.text(80), "name    time  note\na       1 us  something long\nbcd   123 us  x\n");
  EXPECT_EQ(t.text(27), "name   time note\na      1 us something long\nbcd  123 us x\n");
  EXPECT_EQ(t.text(20), "name    time\na       1 us\nbcd   123 us\n");
}

TEST(Table, ColumnsThatWrapAreNeverLost) {
  Table t;
  t.column("name").column("count", Align::right, Table::Narrow::wraps).column("reason", Align::left, Table::Narrow::wraps);
  t.row({"a", "12", "one two three four five six seven eight nine"});
  t.row({"b", "3", ""});
  EXPECT_EQ(t.text(80), "name  count  reason\na        12  one two three four five six seven eight nine\nb         3\n");
  EXPECT_EQ(t.text(50), "name count reason\na       12 one two three four five six seven eight\n           nine\nb        3\n");
  EXPECT_EQ(t.text(30), "name  count\na        12\n    one two three four five\n    six seven eight nine\nb         3\n");
  EXPECT_EQ(t.text(9), "name\na\n    count\n    12,\n    one\n    two\n    three\n    four\n    five\n    six\n    seven\n    eight\n    nine\nb\n    count\n    3\n");
}

TEST(Text, LabelledLinesHangUnderTheirText) {
  setenv("COLUMNS", "24", 1);
  EXPECT_EQ(labelled("result", "all elements right"), "result    all elements\n          right\n");
  EXPECT_EQ(labelled("", "x", Style::plain, 2), "  x\n");
  EXPECT_EQ(labelled("trace", "8 boxes of 65 kB"), "trace     8 boxes of\n          65 kB\n");
  unsetenv("COLUMNS");
}

}  // namespace
}  // namespace foretile::cli
