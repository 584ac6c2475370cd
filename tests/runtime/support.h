// What the tests of runtime and interface share: the pretended driver and compiler, a cache folder of their own, calls to start from.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "fake/fake_cuda.h"
#include "foretile/foretile.h"

namespace foretile::test {

// The library that pretends; FORETILE_LIBCUDA, FORETILE_NVRTC and FORETILE_CACHE point to it and to a fresh folder from the start.
fake::Control& fake_cuda();
fake::Context* primary(int device);
fake::Context* new_context(int device);
fake::Stream* new_stream(fake::Context* context);
void set_current(fake::Context* context);
fake::Context* current();

// Each test starts with device 0's primary context current, three devices (H200, A100, H200), nothing recorded, no fault armed.
class FakeGpu : public ::testing::Test {
 protected:
  void SetUp() override;
};

// A number of addresses far apart that no launch of the pretended driver touches. 256-byte aligned.
void* address(int i);

// A[m,k] x B[n,k]^T in bf16, dense.
Matmul product(i64 m, i64 n, i64 k);

// The launch that `call` makes, which must succeed and be the only one.
fake::Launch launch_of(const Matmul& call);
bool is_hopper(const fake::Launch& launch);
fake::EncodedMap map_of(const TensorMap& map);

// A folder of its own that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Runs the body in a forked process; its exit code (-signal where one ended it).
int in_child(const std::function<int()>& body);

// Allocations by operator new in this thread since the program began.
unsigned long long allocations();

}  // namespace foretile::test
