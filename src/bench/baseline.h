// The search for cuBLASLt's fastest candidate, and the file that keeps its three best a shape.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "bench/workload.h"

namespace foretile::bench {

struct BaselineChoice {
  CublasLt::Algorithm algorithm{};
  int candidates = 0;            // offered by the heuristic; 0: taken from the cache
  int index = -1;                // of the best among them
  double first_microseconds = 0; // of the heuristic's favourite
  std::vector<CublasLt::Algorithm> best;  // up to three, fastest first
};

// Text file, one line a shape: version,in,out,m,n,k, then up to three algorithms as hexadecimal words.
class WinnersFile {
 public:
  explicit WinnersFile(std::string path);  // empty: keeps nothing. A missing file is an empty one; throws on a damaged one
  std::vector<CublasLt::Algorithm> find(const std::string& key) const;
  void put(const std::string& key, const std::vector<CublasLt::Algorithm>& best);  // and writes the file
  static std::string key(const CublasLt& lt, const Workload& w);

 private:
  std::string path_;
  std::map<std::string, std::vector<CublasLt::Algorithm>> entries_;
};

// Times every candidate on the rotating weights (the cached three only, where there are any), then the three fastest
// against each other. Throws std::runtime_error where cuBLASLt offers nothing that runs.
BaselineChoice choose_baseline(const CublasLt& lt, const CublasLtProduct& product, Arena& arena, const Workload& w, WinnersFile& winners);

}  // namespace foretile::bench
