// Foretile's C++ interface: one header. See docs/call.md for how a call travels through the layers.
#pragma once
#include <cstddef>
#include <string>
#include <utility>

#include "foretile/device/configuration.h"
#include "foretile/device/operation.h"

namespace foretile {

enum class Code {
  ok = 0,
  invalid_argument,  // the message names the argument, what it was and what is allowed
  unsupported,       // legal, but no kernel here computes it
  not_prepared,      // inside stream capture, and the call would have to compile or allocate: call prepare() first
  no_driver,         // libcuda or a device is missing
  no_compiler,       // the kernel is not in the cache and NVRTC is missing
  driver_error,
  compile_error,
};

// Nothing is launched and D is untouched when a call returns anything but ok.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::ok; }
  explicit operator bool() const { return ok(); }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::ok;
  std::string message_;
};

// A matrix in device memory, row-major: element (row, column) at data + row * ld + column. ld counts elements; 0 means
// dense. batch_stride counts elements; 0 means that every batch reads the same matrix (D: batch must be 1).
// ld of a matrix with one row, and batch_stride of a single batch, are not looked at.
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::bf16;
  i64 ld = 0;
  i64 batch_stride = 0;
  bool transposed = false;  // A: stands as [K,M]; B: stands as [K,N]. C, D and residual may not be transposed

  Matrix() = default;
  Matrix(const void* data_, DType dtype_, i64 ld_ = 0, i64 batch_stride_ = 0, bool transposed_ = false)
      : data(const_cast<void*>(data_)), dtype(dtype_), ld(ld_), batch_stride(batch_stride_), transposed(transposed_) {}
};

// A host value, or a device pointer to an fp32 value read when the kernel runs.
struct Scalar {
  float value = 0;
  const float* pointer = nullptr;
  Scalar(float v) : value(v) {}
  static Scalar on_device(const float* p) {
    Scalar s(0);
    s.pointer = p;
    return s;
  }
};

// D[M,N] = residual + activate(alpha * A[M,K] x B[N,K]^T + beta * C + bias), accumulated in fp32.
struct Matmul {
  i64 m = 0, n = 0, k = 0;
  i64 batch = 1;
  Matrix a, b, d;
  Scalar alpha = 1.0f;
  Scalar beta = 0.0f;  // host beta = 0: C is not read
  Matrix c;            // data null: none
  Matrix bias;         // [N]; ld not looked at
  Matrix residual;     // [M,N]
  Activation activation = Activation::none;

  void* stream = nullptr;  // CUstream / cudaStream_t; null: the legacy default stream
  int device = -1;         // -1: the current one
  int sm_budget = 0;       // how many SMs to fill; 0: all of the device's
  const Configuration* configuration = nullptr;  // null: the model chooses
};

// Launches the product on the stream. The first call of a kind may compile (about a second); repeated ones cost
// microseconds. M, N or batch 0: success, nothing launched.
Status matmul(const Matmul& call);

// Compiles and loads whatever `call` needs, launching nothing; pointers may be placeholders of the right alignment.
Status prepare(const Matmul& call);

// Version of this library, "major.minor.patch".
const char* version();

}  // namespace foretile
