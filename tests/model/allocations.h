#pragma once

namespace foretile {

// Calls of operator new in this test program so far, all threads.
long allocations();

}  // namespace foretile
