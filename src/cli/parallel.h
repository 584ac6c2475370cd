// Independent jobs over the cores, in the order they are given out.
#pragma once
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace foretile::cli {

// Calls job(i) for every i in [0, count), on as many threads as there are cores. The first exception stops the rest and
// is thrown again here.
template <class Job> void in_parallel(int count, const Job& job) {
  std::atomic<int> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    for (int i; (i = next++) < count;) {
      try {
        job(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 1; i < std::min(std::max(1u, std::thread::hardware_concurrency()), unsigned(std::max(1, count))); ++i) threads.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace foretile::cli
