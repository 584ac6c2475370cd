#include "bench/baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "model/replaced_file.h"
#include "model/text.h"

namespace foretile::bench {

namespace {

std::string text_of(const CublasLt::Algorithm& a) {
  std::string s;
  for (const u64 word : a.data) s += fmt::format("{}{:x}", s.empty() ? "" : ":", word);
  return s;
}

bool parse(const std::string& text, CublasLt::Algorithm& a) {
  std::istringstream in(text);
  std::string word;
  int count = 0;
  while (std::getline(in, word, ':') && count < 8) {
    char* end = nullptr;
    a.data[count++] = std::strtoull(word.c_str(), &end, 16);
    if (end == word.c_str() || *end) return false;
  }
  return count == 8;
}

}  // namespace

WinnersFile::WinnersFile(std::string path) : path_(std::move(path)) {
  std::ifstream in(path_);
  for (std::string line; in && std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    std::string key, field;
    for (int i = 0; i < 6 && std::getline(fields, field, ','); ++i) key += (i ? "," : "") + field;
    std::vector<CublasLt::Algorithm>& list = entries_[key];
    for (CublasLt::Algorithm a; std::getline(fields, field, ',');) {
      if (!parse(field, a)) throw std::runtime_error(path_ + ": damaged line: " + line);
      list.push_back(a);
    }
  }
}

std::vector<CublasLt::Algorithm> WinnersFile::find(const std::string& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? std::vector<CublasLt::Algorithm>{} : it->second;
}

void WinnersFile::put(const std::string& key, const std::vector<CublasLt::Algorithm>& best) {
  if (path_.empty()) return;
  entries_[key] = best;
  std::string text = "# cuBLASLt's fastest candidates by shape, fastest first: version,in,out,m,n,k,algorithm words\n";
  for (const auto& [k, list] : entries_) {
    text += k;
    for (const CublasLt::Algorithm& a : list) text += ',' + text_of(a);
    text += '\n';
  }
  if (const int error = replace_file(path_, text)) throw std::runtime_error(fmt::format("{} cannot be written: {}", path_, std::strerror(error)));
}

std::string WinnersFile::key(const CublasLt& lt, const Workload& w) {
  return fmt::format("{},{},{},{},{},{}", lt.version, name_of(w.operation().a), name_of(w.operation().d), w.shape().m, w.shape().n, w.shape().k);
}

BaselineChoice choose_baseline(const CublasLt& lt, const CublasLtProduct& product, Arena& arena, const Workload& w, WinnersFile& winners) {
  const Gpu& gpu = arena.gpu;
  BaselineChoice choice;
  struct Timed {
    CublasLt::Algorithm algorithm;
    int index;
    double microseconds;
  };
  std::vector<Timed> list;
  const std::string key = WinnersFile::key(lt, w);
  for (const CublasLt::Algorithm& a : winners.find(key)) list.push_back({a, -1, 0});
  if (list.empty()) {
    for (const CublasLt::Heuristic& h : product.candidates()) list.push_back({h.algorithm, int(list.size()), 0});
    choice.candidates = int(list.size());
  }
  const auto runs = [&](const CublasLt::Algorithm& a, i64 i) { return product.run(a, arena.a.data(), w.weights(i), arena.baseline_d.data(), arena.workspace.data(), gpu.stream()); };
  std::erase_if(list, [&](const Timed& t) {
    const bool ok = runs(t.algorithm, 0);
    gpu.synchronize();
    return !ok;
  });
  if (list.empty()) throw std::runtime_error(w.shape().name + ": cuBLASLt offers no candidate that runs");
  const auto arm_of = [&](const CublasLt::Algorithm& a, i64 launches) {
    return make_arm(gpu, launches, [&](i64 i) {
      if (!runs(a, i)) throw std::runtime_error(w.shape().name + ": a cuBLASLt candidate ran once and then did not");
    });
  };
  // First round: about 3 ms of each, rotating through as many weights as fit in that time.
  const double guess = std::max(3e-6, std::max(w.flop() / 7e14, double(w.shape().n * w.shape().k * size_of(w.operation().b)) / 4e12));
  const i64 launches = std::clamp<i64>(i64(3e-3 / guess), 2, 64);
  for (Timed& t : list) t.microseconds = time_arm(gpu, arm_of(t.algorithm, launches), 0, nullptr).microseconds;
  if (choice.candidates) choice.first_microseconds = list.front().microseconds;
  std::stable_sort(list.begin(), list.end(), [](const Timed& x, const Timed& y) { return x.microseconds < y.microseconds; });
  if (list.size() > 3) list.resize(3);
  // Second round: the three in turn, about 40 ms each, three times; the median decides.
  std::vector<Arm> arms;
  std::vector<std::vector<double>> times(list.size());
  const i64 more = std::clamp<i64>(i64(10e-3 / (list.front().microseconds * 1e-6)), 2, 256);
  for (const Timed& t : list) arms.push_back(arm_of(t.algorithm, more));
  for (int round = 0; round < 3; ++round)
    for (std::size_t i = 0; i < list.size(); ++i) times[i].push_back(time_arm(gpu, arms[i], 0.04, nullptr).microseconds);
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::sort(times[i].begin(), times[i].end());
    list[i].microseconds = times[i][1];
  }
  std::stable_sort(list.begin(), list.end(), [](const Timed& x, const Timed& y) { return x.microseconds < y.microseconds; });
  for (const Timed& t : list) choice.best.push_back(t.algorithm);
  choice.algorithm = list.front().algorithm, choice.index = list.front().index;
  if (choice.candidates) winners.put(key, choice.best);
  return choice;
}

}  // namespace foretile::bench
