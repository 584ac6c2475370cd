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
  driver_error,    // the driver refused something: its error's name is in the message
  compile_error,   // NVRTC refused a kernel, or its code is not acceptable (spills, serialised wgmma)
  internal_error,  // host memory ran out, or a fault of the library
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
// ld of a matrix with one row, and batch_stride of a single batch, are not looked at. Any ld that holds a row, and any
// address that is a multiple of the element size, is computed correctly; where TMA's rules hold (address and strides
// multiples of 16 bytes) the fast kernels are used.
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

// D[M,N] = residual + activate(alpha * A[M,K] x B[N,K]^T + beta * C + bias), accumulated in fp32. fp32 inputs are multiplied as
// they are, in fp32, unless `compute` says tf32.
// Gated (SwiGLU: activation silu; GeGLU: gelu), with X = alpha * A x B^T + beta * C + bias of N columns:
// D[M,N/2] = residual + activate(X_gate) * X_up. N counts the columns of the product; bias and C have N, D and residual N/2.
// C may be D with equal dtype, ld and batch_stride; otherwise no element of D may be an element of an input (interleaved
// views that share none are legal).
struct Matmul {
  i64 m = 0, n = 0, k = 0;
  i64 batch = 1;
  Matrix a, b, d;
  Scalar alpha = 1.0f;  // host alpha = 0, like k = 0: the product term is 0, A and B are not read
  Scalar beta = 0.0f;   // host beta = 0: C is not read nor looked at
  Matrix c;             // [M,N]; needed where beta is not 0
  Matrix bias;          // [N] contiguous; data null: none; ld not looked at
  Matrix residual;      // [M,N]; data null: none
  Activation activation = Activation::none;
  Compute compute = Compute::exact;  // tf32: A and B both fp32, cut to ten bits each
  Gating gating = Gating::none;  // which columns of the product are gates. Hopper, 16-bit A and B aligned for TMA

  // Programmatic dependent launch: the kernel may start while the one before it on the stream still runs, and waits for
  // it before it touches what that one may write. Kernels before and after need not know of it.
  bool dependent = false;
  // A promise: B was complete before any kernel of the chain of dependent launches was launched. Then it is read while
  // the kernel before still runs. Kept wrongly, results are wrong.
  bool weights_ready = false;
  // Bits of a row of D depend on that row of A, on B and on the operands, not on M: K is cut as N and K alone say.
  bool batch_invariant = false;

  void* stream = nullptr;  // CUstream / cudaStream_t, of the device that the call runs on; null: the legacy default stream
  int device = -1;         // -1: the current context's (none current: device 0). The current context is left as it was
  int sm_budget = 0;       // how many SMs to fill; 0: all of the device's
  const Configuration* configuration = nullptr;  // null: the model chooses
};

// Launches the product on the stream. The first call of a kind may compile (about a second); repeated ones cost
// microseconds. M, N or batch 0: success, nothing launched.
Status matmul(const Matmul& call);

// Compiles and loads whatever `call` needs, launching nothing; pointers may be placeholders of the right alignment.
// Afterwards a call that differs in addresses, alpha and beta alone (not in whether they are 0) may be captured in a graph.
Status prepare(const Matmul& call);

// The same for every M from m_first to m_last; call.m is not looked at. Compiles the few kernels of that range in parallel.
Status prepare(const Matmul& call, long long m_first, long long m_last);

// Memory on a device, for programs without a CUDA toolkit (matmul() takes any device pointer). Movable; freed at the end of
// its life.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  Status allocate(std::size_t bytes, int device = -1);  // -1: as for a call; frees what it held
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  // Ordered after work on the legacy default stream and on streams that synchronise with it; done when they return.
  Status upload(const void* from, std::size_t bytes);
  Status download(void* to, std::size_t bytes) const;

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  int device_ = -1;
};

// Version of this library, "major.minor.patch".
const char* version();

}  // namespace foretile
