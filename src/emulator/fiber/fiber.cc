#include "emulator/fiber/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define FORETILE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FORETILE_ASAN 1
#endif
#endif
#if FORETILE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" void foretile_switch_context(void** save, void* load);  // switch.S

namespace foretile::emulator {

namespace {

// Kernels keep little on the stack, but unoptimised and instrumented builds have large frames. Pages that are never
// touched cost nothing.
#if FORETILE_ASAN
constexpr std::size_t kStackBytes = 512 * 1024;
#else
constexpr std::size_t kStackBytes = 128 * 1024;
#endif

std::size_t page_bytes() {
  static const std::size_t bytes = std::size_t(sysconf(_SC_PAGESIZE));
  return bytes;
}

struct Pool {
  std::vector<Stack> free;
  ~Pool() {
    for (const Stack& s : free) munmap(s.low - page_bytes(), s.bytes + page_bytes());
  }
};
thread_local Pool pool;

}  // namespace

Stack take_stack() {
  if (!pool.free.empty()) {
    const Stack s = pool.free.back();
    pool.free.pop_back();
    return s;
  }
  const std::size_t guard = page_bytes();
  void* p = mmap(nullptr, kStackBytes + guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  if (mprotect(p, guard, PROT_NONE) != 0) {
    munmap(p, kStackBytes + guard);
    throw std::bad_alloc();
  }
  return {static_cast<char*>(p) + guard, kStackBytes};
}

void give_stack(Stack stack) {
#if FORETILE_ASAN
  __asan_unpoison_memory_region(stack.low, stack.bytes);
#endif
  pool.free.push_back(stack);
}

void Context::prepare(Stack stack, unsigned colour, void (*entry)()) {
  low_ = stack.low;
  bytes_ = stack.bytes;
  fake_stack_ = nullptr;
  auto top = reinterpret_cast<std::uintptr_t>(stack.low) + stack.bytes - std::size_t(colour % 64) * 192;
  auto** sp = reinterpret_cast<void**>(top & ~std::uintptr_t(63));
#if defined(__x86_64__)
  *--sp = nullptr;  // the return address of `entry`, which never returns
  *--sp = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--sp = nullptr;  // rbp rbx r12 r13 r14 r15
#elif defined(__aarch64__)
  sp -= 20;  // x19..x30, d8..d15
  for (int i = 0; i < 20; ++i) sp[i] = nullptr;
  sp[11] = reinterpret_cast<void*>(entry);  // x30
#else
#error "the emulator's context switch is written for x86-64 and aarch64"
#endif
  stack_pointer_ = sp;
}

void Context::switch_to(Context& to, [[maybe_unused]] bool last) {
  to.came_from_ = this;
#if FORETILE_ASAN
  __sanitizer_start_switch_fiber(last ? nullptr : &fake_stack_, to.low_, to.bytes_);
#endif
  foretile_switch_context(&stack_pointer_, to.stack_pointer_);
  finish_switch();
}

void Context::entered() { finish_switch(); }

void Context::finish_switch() {
#if FORETILE_ASAN
  // The host thread's own stack is not ours: its bounds are learnt from the first switch away from it.
  __sanitizer_finish_switch_fiber(fake_stack_, &came_from_->low_, &came_from_->bytes_);
#endif
}

}  // namespace foretile::emulator
