#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace foretile::bench {

// f(0) to f(count - 1) on `threads` threads, the caller's among them (0: one a core); returns when all are done.
template <class F> void in_parallel(std::size_t count, int threads, F&& f) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next++) < count;) f(i);
  };
  const std::size_t wanted = threads > 0 ? std::size_t(threads) : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < std::min(wanted, count); ++i) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
}

}  // namespace foretile::bench
