// cuBLASLt, the baseline: loaded at run time, declared here, never linked.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "foretile/device/operation.h"
#include "runtime/driver.h"

namespace foretile::bench {

struct CublasLt {
  using Handle = struct CublasLtHandleOpaque*;
  using Descriptor = struct CublasLtDescriptorOpaque*;  // of a product, a layout or a preference
  struct Algorithm { u64 data[8]; };                     // cublasLtMatmulAlgo_t
  struct Heuristic {                                     // cublasLtMatmulHeuristicResult_t
    Algorithm algorithm;
    std::size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
  };
  static_assert(sizeof(Heuristic) == 96);

  std::size_t (*get_version)() = nullptr;
  const char* (*status_name)(int) = nullptr;
  int (*create)(Handle*) = nullptr;
  int (*matmul)(Handle, Descriptor, const void* alpha, const void* a, Descriptor, const void* b, Descriptor, const void* beta, const void* c, Descriptor, void* d, Descriptor,
                const Algorithm*, void* workspace, std::size_t workspace_bytes, cuda::Stream) = nullptr;
  int (*heuristic)(Handle, Descriptor, Descriptor a, Descriptor b, Descriptor c, Descriptor d, Descriptor preference, int requested, Heuristic*, int* returned) = nullptr;
  int (*product_create)(Descriptor*, int compute, int scale) = nullptr;
  int (*product_destroy)(Descriptor) = nullptr;
  int (*product_set)(Descriptor, int attribute, const void*, std::size_t) = nullptr;
  int (*layout_create)(Descriptor*, int type, u64 rows, u64 columns, i64 ld) = nullptr;
  int (*layout_destroy)(Descriptor) = nullptr;
  int (*preference_create)(Descriptor*) = nullptr;
  int (*preference_destroy)(Descriptor) = nullptr;
  int (*preference_set)(Descriptor, int attribute, const void*, std::size_t) = nullptr;

  std::string path;
  std::string version;  // "13.1.0"

  // Once a process. Null, with the reason and the places that were looked at in `why`, where there is none. In this
  // order: FORETILE_CUBLASLT (a file, and then the only candidate); LD_LIBRARY_PATH and the system's folders; beside a
  // Python (nvidia/cu13/lib, nvidia/cublas/lib); /usr/local/cuda*.
  static const CublasLt* load(std::string* why = nullptr);
};

// D[M,N] = A[M,K] x B[N,K]^T by cuBLASLt, row-major and dense, types as in the operation (A and B alike; fp32, fp16 or
// bf16; fp32 as true fp32, tf32 by its fast TF32 mode). Throws std::runtime_error with cuBLASLt's words.
class CublasLtProduct {
 public:
  static constexpr int kRequested = 64;
  static constexpr std::size_t kWorkspaceBytes = std::size_t(64) << 20;

  CublasLtProduct(const CublasLt& library, const Operation& o, const Problem& p);
  ~CublasLtProduct();
  CublasLtProduct(const CublasLtProduct&) = delete;
  CublasLtProduct& operator=(const CublasLtProduct&) = delete;

  // All that the heuristic offers, its favourite first; empty where it knows none.
  std::vector<CublasLt::Heuristic> candidates() const;
  // False where this algorithm does not run after all.
  bool run(const CublasLt::Algorithm& algorithm, const void* a, const void* b, void* d, void* workspace, cuda::Stream stream) const;

 private:
  const CublasLt& library_;
  CublasLt::Handle handle_ = nullptr;
  CublasLt::Descriptor product_ = nullptr, a_ = nullptr, b_ = nullptr, d_ = nullptr;
};

}  // namespace foretile::bench
