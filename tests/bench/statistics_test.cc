#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "bench/baseline.h"
#include "bench/bench.h"
#include "bench/statistics.h"
#include "bench/suites.h"

namespace foretile::bench {
namespace {

TEST(Statistics, MedianAndItsInterval) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
  // Six values: the whole range holds the median with 1 - 2/64 = 96.9 %; the inner pair only with 78 %.
  const MedianInterval six = median_interval({6, 1, 2, 5, 4, 3});
  EXPECT_EQ(six.low, 1);
  EXPECT_EQ(six.high, 6);
  // Nine: 2nd to 8th, 1 - 2 (1 + 9) / 512 = 96.1 % (tables of the sign test).
  std::vector<double> nine;
  for (int i = 9; i >= 1; --i) nine.push_back(i);
  EXPECT_EQ(median_interval(nine).low, 2);
  EXPECT_EQ(median_interval(nine).high, 8);
  // Twenty: 6th to 15th.
  std::vector<double> twenty;
  for (int i = 1; i <= 20; ++i) twenty.push_back(i);
  EXPECT_EQ(median_interval(twenty).low, 6);
  EXPECT_EQ(median_interval(twenty).high, 15);
}

TEST(Suites, LayersAreTheFifteen) {
  const auto shapes = suite_shapes("layers", {2048, 4096});
  ASSERT_EQ(shapes.size(), 30u);
  EXPECT_EQ(shapes[0].name, "llama8b.qkv");
  EXPECT_EQ(shapes[0].m, 2048);
  EXPECT_EQ(shapes[0].n, 6144);
  EXPECT_EQ(shapes[14].name, "square8k");
  EXPECT_EQ(shapes[29].m, 4096);
  EXPECT_EQ(suite_shapes("squares", {512}).at(0).k, 512);
  EXPECT_EQ(suite_shapes("1x2x3,4x5x6", {}).at(1).n, 5);
}

TEST(Suites, BadInputIsNamed) {
  for (const char* bad : {"layer", "1x2", "1x2x", "0x1x1", "1x-2x3", "axbxc"}) EXPECT_THROW(suite_shapes(bad, {}), std::invalid_argument) << bad;
  EXPECT_THROW(parse_sizes("1,,2"), std::invalid_argument);
  EXPECT_EQ(parse_sizes("1,32").at(1), 32);
}

TEST(Report, GeometricMeanWorstAndVerified) {
  BenchReport r;
  EXPECT_FALSE(r.verified()) << "no rows: nothing was verified";
  r.rows.resize(2);
  r.rows[0].ratio.median = 2, r.rows[1].ratio.median = 0.5;
  r.rows[0].verified = r.rows[1].verified = "ok";
  EXPECT_DOUBLE_EQ(r.geometric_mean(), 1);
  EXPECT_DOUBLE_EQ(r.worst(), 0.5);
  EXPECT_TRUE(r.verified());
  r.rows[1].verified = "3 of 5 sampled elements differ";
  EXPECT_FALSE(r.verified());
}

TEST(Report, ShareOfTheFloor) {
  BenchReport r;
  r.rows.resize(1);
  BenchRow& row = r.rows[0];
  row.shape = {"layer", 1, 2, 8}, row.microseconds = 50, row.verified = "ok";
  EXPECT_EQ(row.share_of_floor(), 0) << "not asked for";
  EXPECT_EQ(r.table().find("floor"), std::string::npos);
  row.floor_microseconds = 48, row.floor_ring = "13x16384x1";
  EXPECT_DOUBLE_EQ(row.share_of_floor(), 0.96);
  EXPECT_NE(r.table().find("48.00 0.960  ok\n"), std::string::npos) << r.table();
  const std::string path = testing::TempDir() + "floor" + std::to_string(getpid());
  r.open_csv(path).row(row.csv());
  std::ifstream in(path);
  std::string comment, names, values;
  std::getline(in, comment), std::getline(in, names), std::getline(in, values);
  std::remove(path.c_str());
  EXPECT_EQ(std::count(names.begin(), names.end(), ','), std::count(values.begin(), values.end(), ','));
  EXPECT_NE(names.find(",floor_us,share_of_floor,floor_ring,"), std::string::npos) << names;
  EXPECT_NE(values.find(",48.00,0.9600,13x16384x1,"), std::string::npos) << values;
}

TEST(Winners, SurvivesTheFileAndRefusesDamage) {
  const std::string path = testing::TempDir() + "winners" + std::to_string(getpid());
  CublasLt::Algorithm a{};
  for (int i = 0; i < 8; ++i) a.data[i] = 0xfedcba9876543210ull >> i;
  {
    WinnersFile file(path);
    EXPECT_TRUE(file.find("13.1.0,bf16,bf16,1,2,3").empty());
    file.put("13.1.0,bf16,bf16,1,2,3", {a, a});
  }
  const auto found = WinnersFile(path).find("13.1.0,bf16,bf16,1,2,3");
  ASSERT_EQ(found.size(), 2u);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(found[1].data[i], a.data[i]);
  std::ofstream(path) << "13.1.0,bf16,bf16,1,2,3,12:xy\n";
  EXPECT_THROW(WinnersFile{path}, std::runtime_error);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace foretile::bench
