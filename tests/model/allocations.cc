// In a file of its own: inlined beside a caller, the pair of new and malloc makes the compiler warn.
#include "allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<long> count{0};
}

long foretile::allocations() { return count; }

void* operator new(size_t bytes) {
  ++count;
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
