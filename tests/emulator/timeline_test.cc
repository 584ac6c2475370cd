// The timeline: a file that viewers take, whose spans are what the run did.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "foretile/device/catalogue.h"
#include "pipeline.h"
#include "product.h"

namespace foretile::emulator_tests {

using namespace emulator;

namespace {

using nlohmann::json;

// The Trace Event Format as Perfetto's JSON importer takes it: complete events (X) and process-wide instants (i) with integer
// times, on processes and threads that metadata events (M) have named once; whatever lasts is one X with its duration, so that
// there is no begin (B, b) without its end.
void expect_trace_events(const json& file) {
  ASSERT_TRUE(file.is_object());
  EXPECT_EQ(file.at("displayTimeUnit"), "ns");
  std::set<u64> processes;
  std::map<u64, u64> threads;  // and their processes
  std::map<std::string, std::set<std::pair<u64, u64>>> named;
  for (const json& e : file.at("traceEvents")) {
    const auto whole = [&](const char* key) { return e.contains(key) && e.at(key).is_number_unsigned() && e.at(key) < (u64(1) << 53); };
    const auto text = [&](const char* key) { return e.contains(key) && e.at(key).is_string() && !e.at(key).get<std::string>().empty(); };
    ASSERT_TRUE(text("ph") && text("name") && whole("pid") && e.contains("args") && e.at("args").is_object()) << e.dump();
    const std::string kind = e.at("ph"), name = e.at("name");
    const u64 process = e.at("pid"), thread = whole("tid") ? e.at("tid").get<u64>() : 0;
    if (kind == "M") {
      const bool of_thread = name.starts_with("thread_");
      ASSERT_TRUE(name == "process_name" || name == "process_sort_index" || name == "thread_name" || name == "thread_sort_index") << e.dump();
      EXPECT_TRUE(name.ends_with("_name") ? e.at("args").at("name").is_string() : e.at("args").at("sort_index").is_number_unsigned()) << e.dump();
      EXPECT_TRUE(named[name].insert({process, thread}).second) << "twice: " << e.dump();
      if (!of_thread) processes.insert(process);
      else EXPECT_EQ(threads.try_emplace(thread, process).first->second, process) << "one thread, two processes: " << e.dump();
    } else if (kind == "X") {
      ASSERT_TRUE(text("cat") && whole("ts") && whole("dur") && thread > 0) << e.dump();
      EXPECT_TRUE(threads.count(thread) && threads[thread] == process) << "no such thread: " << e.dump();
    } else {
      ASSERT_EQ(kind, "i") << e.dump();
      EXPECT_TRUE(whole("ts") && e.at("s") == "p") << e.dump();
    }
    EXPECT_TRUE(processes.count(process)) << "no such process: " << e.dump();
  }
}

class InTimeline : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return (folder_ / "run.json").string(); }
  // The events of the file that `run` makes.
  template <class Run> std::vector<json> events_of(Run&& run) {
    Timeline timeline(path());
    run(timeline);
    timeline.finish();
    std::ifstream in(path());
    const json file = json::parse(in);
    expect_trace_events(file);
    return file.at("traceEvents").get<std::vector<json>>();
  }
  std::size_t files() const { return std::size_t(std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator{})); }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / fmt::format("foretile-timeline-{}", getpid());
};

std::vector<json> spans(const std::vector<json>& events, const std::string& category, const std::string& name = "") {
  std::vector<json> found;
  for (const json& e : events)
    if (e.at("ph") == "X" && e.at("cat") == category && e.at("name").get<std::string>().find(name) != std::string::npos) found.push_back(e);
  return found;
}

u64 sum(const std::vector<json>& list, const char* argument) {
  u64 total = 0;
  for (const json& e : list) total += e.at("args").at(argument).get<u64>();
  return total;
}

// On one track a span lies inside of another or beside it; every track has its name.
void expect_well_formed(const std::vector<json>& events) {
  std::map<int, std::vector<std::pair<u64, u64>>> by_track;
  std::map<int, int> named;
  for (const json& e : events) {
    if (e.at("ph") == "M" && e.at("name") == "thread_name") ++named[e.at("tid").get<int>()];
    if (e.at("ph") == "X") by_track[e.at("tid").get<int>()].push_back({e.at("ts").get<u64>(), e.at("ts").get<u64>() + e.at("dur").get<u64>()});
  }
  for (auto& [track, list] : by_track) {
    EXPECT_EQ(named[track], 1) << track;
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first != b.first ? a.first < b.first : a.second > b.second; });
    std::vector<u64> open;
    for (const auto& [begin, end] : list) {
      while (!open.empty() && open.back() <= begin) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(end, open.back()) << "track " << track << ": [" << begin << ", " << end << "] reaches over the end of another span";
      }
      open.push_back(end);
    }
  }
}

TEST_F(InTimeline, ShowsWhatTheRunDid) {
  for (const Options& mode : every_mode()) {
    Report report;
    const std::vector<json> events = events_of([&](Timeline& timeline) {
      Options o = mode;
      o.timeline = &timeline;
      report = Pipeline().run(Break::nothing, o);
    });
    ASSERT_EQ(report.text(), "no findings");
    expect_well_formed(events);
    const std::vector<json> loads = spans(events, "copy", "tma_load"), stores = spans(events, "copy", "tma_store"), multiplies = spans(events, "multiply");
    EXPECT_EQ(sum(loads, "writes"), report.counters.tma_loads);
    EXPECT_EQ(sum(loads, "bytes"), report.counters.tma_load_bytes);
    EXPECT_EQ(stores.size(), report.counters.tma_stores);
    EXPECT_EQ(sum(multiplies, "wgmmas"), report.counters.wgmmas);
    EXPECT_EQ(spans(events, "warp").size(), 8u);
    for (const json& e : events) {
      EXPECT_FALSE(e.contains("args") && e.at("args").contains("unfinished")) << e.dump();
      if (e.at("ph") == "X" && e.at("cat") != "warp") {
        EXPECT_NE(e.at("args").at("at").get<std::string>().find("pipeline.h:"), std::string::npos) << e.dump();
      }
    }
    if (mode.async == Async::eager || mode.scheduling != Scheduling::round_robin) continue;
    // With late completion consumers wait for every stage, and the producer for each that they have not released.
    std::vector<json> full = spans(events, "wait", "wait: full");
    EXPECT_FALSE(full.empty());
    for (const json& e : full) EXPECT_EQ(e.at("args").at("parity").get<u64>(), e.at("args").at("phase").get<u64>() % 2);
    EXPECT_FALSE(spans(events, "wait", "wait: empty").empty());
    EXPECT_FALSE(spans(events, "wait", "named_barrier_sync 1").empty());
    EXPECT_FALSE(spans(events, "wait", "wgmma_wait").empty());
    EXPECT_FALSE(spans(events, "wait", "sync_block").empty());
    // A wait ends when the last box of its phase has landed.
    bool met = false;
    for (const json& w : full)
      for (const json& l : loads)
        met |= l.at("args").at("barrier") == w.at("args").at("barrier") && l.at("args").at("phase") == w.at("args").at("phase") &&
               l.at("ts").get<u64>() + l.at("dur").get<u64>() == w.at("ts").get<u64>() + w.at("dur").get<u64>();
    EXPECT_TRUE(met);
  }
}

TEST_F(InTimeline, NamesStagesTilesAndRolesOfTheProductionKernel) {
  const std::vector<json> events = events_of([&](Timeline& timeline) {
    Options o;
    o.timeline = &timeline;
    EXPECT_EQ(run_product(catalogue::product(DType::bf16, DType::bf16), catalogue::pingpong(128, 128, 6, 2), {.m = 200, .n = 256, .k = 600}, {}, o, 1).failure(), "");
  });
  expect_well_formed(events);
  for (const char* name : {"tma_load: A tile of stage 3", "tma_load: B tile of stage 0"}) EXPECT_FALSE(spans(events, "copy", name).empty()) << name;
  for (const char* name : {"wait: full barrier of stage 2", "wait: empty barrier of stage 0", "wait: turn barrier of consumer 1", "bulk_wait"}) EXPECT_FALSE(spans(events, "wait", name).empty()) << name;
  EXPECT_EQ(spans(events, "warp", "producer").size(), 4u);
  EXPECT_EQ(spans(events, "warp", "consumer 1").size(), 4u);
  std::set<std::pair<int, int>> corners;
  for (const json& e : spans(events, "copy", "tma_store")) corners.insert({e.at("args").at("row").get<int>(), e.at("args").at("inner").get<int>()});
  EXPECT_TRUE(corners.count({128, 128}));
}

TEST_F(InTimeline, ShowsPartialSumsOnTheirWayToAPeer) {
  const std::vector<json> events = events_of([&](Timeline& timeline) {
    Options o;
    o.timeline = &timeline;
    const Configuration c = catalogue::decode(16, 64, 128, 5, 2);
    EXPECT_EQ(run_product(catalogue::product(DType::bf16, DType::bf16), c, {.m = 10, .n = 64, .k = 400}, {}, o, 2).failure(), "");
  });
  expect_well_formed(events);
  EXPECT_FALSE(spans(events, "copy", "store_cluster_async").empty());
}

TEST_F(InTimeline, OfADeadlockEndsWithTheWaitsThatCannotEnd) {
  const std::vector<json> events = events_of([&](Timeline& timeline) {
    Options o;
    o.timeline = &timeline;
    EXPECT_TRUE(Pipeline().run(Break::expect_too_many, o).has("deadlock"));
  });
  expect_well_formed(events);
  int unfinished = 0, marked = 0;
  for (const json& e : spans(events, "wait", "wait: full")) unfinished += e.at("args").contains("unfinished");
  for (const json& e : events) marked += e.at("ph") == "i" && e.at("name") == "deadlock";
  EXPECT_EQ(unfinished, 4);  // the consumer's warps
  EXPECT_EQ(marked, 1);
}

TEST_F(InTimeline, SeveralRunsFollowOneAnother) {
  const std::vector<json> events = events_of([&](Timeline& timeline) {
    Options o;
    o.timeline = &timeline;
    for (int i = 0; i < 2; ++i) Pipeline().run(Break::nothing, o);
  });
  expect_well_formed(events);
  const std::vector<json> warps = spans(events, "warp");
  ASSERT_EQ(warps.size(), 16u);
  u64 first_end = 0, second_begin = ~u64(0);
  for (const json& e : warps) {
    if (e.at("pid") == 1) first_end = std::max(first_end, e.at("ts").get<u64>() + e.at("dur").get<u64>());
    else second_begin = std::min(second_begin, e.at("ts").get<u64>());
  }
  EXPECT_GE(second_begin, first_end);
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return {};
}

TEST_F(InTimeline, WhatCannotBeWrittenIsSaidByName) {
  const std::string nowhere = (folder_ / "missing" / "run.json").string();
  EXPECT_NE(refusal([&] { Timeline t(nowhere); }).find(nowhere + " cannot be written: No such file"), std::string::npos);
  std::filesystem::create_directories(folder_ / "run.json" / "full");
  EXPECT_NE(refusal([&] {
    Timeline t(path());
    t.finish();
  }).find(path() + " cannot be written: "), std::string::npos);
  EXPECT_EQ(files(), 1u);  // nothing temporary stays
}

// Only regular files are replaced: a link stays and its file is written, be it there before or not.
TEST_F(InTimeline, FollowsLinks) {
  namespace fs = std::filesystem;
  fs::create_directory(folder_ / "far");
  fs::create_symlink("far/first.json", path());
  fs::create_symlink("second.json", folder_ / "far" / "first.json");
  for (int time = 0; time < 2; ++time) {
    events_of([](Timeline&) {});
    EXPECT_TRUE(fs::is_symlink(path()));
    EXPECT_TRUE(fs::is_symlink(folder_ / "far" / "first.json"));
    EXPECT_TRUE(fs::is_regular_file(folder_ / "far" / "second.json"));
  }
  EXPECT_EQ(files(), 2u);
  fs::remove(folder_ / "far" / "second.json");
  fs::create_symlink("first.json", folder_ / "far" / "second.json");
  EXPECT_NE(refusal([&] { Timeline t(path()); }).find(path() + " cannot be written: Too many levels of symbolic links"), std::string::npos);
}

TEST_F(InTimeline, WritesThroughToAPipe) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  auto reader = std::async(std::launch::async, [&] { return json::parse(std::ifstream(path())); });
  Timeline timeline(path());
  Options o;
  o.timeline = &timeline;
  Pipeline().run(Break::nothing, o);
  timeline.finish();
  expect_trace_events(reader.get());
  EXPECT_TRUE(std::filesystem::is_fifo(path()));
  EXPECT_EQ(files(), 1u);
}

TEST_F(InTimeline, APipeWithoutItsReaderIsAnError) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  auto reader = std::async(std::launch::async, [&] { std::ifstream in(path()); });
  EXPECT_NE(refusal([&] {
    Timeline timeline(path());
    reader.get();
    timeline.finish();
  }).find(path() + " cannot be written: Broken pipe"), std::string::npos);
  std::signal(SIGPIPE, before);
  EXPECT_TRUE(std::filesystem::is_fifo(path()));
}

TEST_F(InTimeline, AFullDiskIsAnErrorAndLeavesNothing) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{10000, 10000};
    setrlimit(RLIMIT_FSIZE, &small);
    const std::string message = refusal([&] {
      Timeline timeline(path());
      Options o;
      o.timeline = &timeline;
      Pipeline().run(Break::nothing, o);
      timeline.finish();
    });
    _exit(message.find(path() + " cannot be written: File too large") == std::string::npos);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files(), 0u);
}

TEST_F(InTimeline, OfAKilledProcessNothingIsLeft) {
  const pid_t child = fork();
  if (child == 0) {
    Timeline timeline(path());
    Options o;
    o.timeline = &timeline;
    Pipeline().run(Break::nothing, o);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(files(), 0u);
}

TEST_F(InTimeline, WithoutFinishNothingIsLeft) {
  {
    Timeline timeline(path());
    Options o;
    o.timeline = &timeline;
    Pipeline().run(Break::nothing, o);
  }
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace foretile::emulator_tests
