// Stackful contexts: one for every CUDA thread. A switch saves the callee-saved registers and costs some tens of
// nanoseconds; ucontext would make two system calls. Under AddressSanitizer every switch is announced to it.
#pragma once
#include <cstddef>

namespace foretile::emulator {

// Usable memory of one stack. Below `low` lies a guard page: an overflow faults instead of corrupting a neighbour.
struct Stack {
  char* low = nullptr;
  std::size_t bytes = 0;
};

// Stacks are kept for reuse by the machines of the same host thread, which frees them when it ends.
Stack take_stack();
void give_stack(Stack stack);

class Context {
 public:
  // The context will begin in `entry`, which must call entered() first and must never return. `colour` staggers the
  // tops of the stacks: equal low address bits would make them evict each other from the caches.
  void prepare(Stack stack, unsigned colour, void (*entry)());
  void entered();
  // Goes on in `to` until somebody switches back. `last`: this context will never be resumed.
  void switch_to(Context& to, bool last = false);

 private:
  void finish_switch();

  void* stack_pointer_ = nullptr;
  Context* came_from_ = nullptr;
  void* fake_stack_ = nullptr;  // AddressSanitizer's
  const void* low_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace foretile::emulator
