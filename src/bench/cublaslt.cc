#include "bench/cublaslt.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <glob.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <stdexcept>

namespace foretile::bench {

namespace {

// Values of the cuBLASLt and CUDA headers (cublasLt.h, cublas_api.h, library_types.h of CUDA 13.0).
constexpr int kReal32 = 0, kReal16 = 2, kRealBf16 = 14;                    // cudaDataType_t
constexpr int kCompute32 = 68, kCompute32ByTf32 = 77;                      // CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32
constexpr int kTransposeA = 3, kTransposeB = 4;                            // cublasLtMatmulDescAttributes_t
constexpr int kPreferenceWorkspace = 1;                                    // cublasLtMatmulPreferenceAttributes_t
constexpr int kNoTranspose = 0, kTranspose = 1;                            // cublasOperation_t

int type_code(DType type) {
  switch (type) {
    case DType::fp32:
    case DType::tf32: return kReal32;
    case DType::fp16: return kReal16;
    case DType::bf16: return kRealBf16;
    default: throw std::runtime_error("the cuBLASLt baseline takes fp32, tf32, fp16 and bf16");
  }
}

void add_matches(std::vector<std::string>& list, const std::string& pattern) {
  glob_t found;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (std::size_t i = found.gl_pathc; i-- > 0;) list.push_back(found.gl_pathv[i]);  // newest version first
  globfree(&found);
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::vector<std::string> places() {
  if (const char* file = std::getenv("FORETILE_CUBLASLT")) return {file};
  std::vector<std::string> list = {"libcublasLt.so.13", "libcublasLt.so.12"};  // LD_LIBRARY_PATH, the loader's cache
  std::vector<std::string> prefixes;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* value = std::getenv(variable)) prefixes.push_back(value);
  if (const char* path = std::getenv("PATH")) {
    const std::string text = path;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(':', begin), text.size());
      const std::string python = text.substr(begin, end - begin) + "/python3";
      if (access(python.c_str(), X_OK) == 0) prefixes.push_back(folder_of(folder_of(python)));
      begin = end + 1;
    }
  }
  for (const std::string& prefix : prefixes)
    for (const char* where : {"/lib/python3*/site-packages/nvidia/cu13/lib/libcublasLt.so.1[0-9]", "/lib/python3*/site-packages/nvidia/cublas/lib/libcublasLt.so.1[0-9]",
                              "/lib/python3*/dist-packages/nvidia/cu13/lib/libcublasLt.so.1[0-9]"})
      add_matches(list, prefix + where);
  add_matches(list, "/usr/local/cuda/lib64/libcublasLt.so.1[0-9]");
  add_matches(list, "/usr/local/cuda-*/lib64/libcublasLt.so.1[0-9]");
  return list;
}

bool open(const std::string& file, CublasLt& lt, std::string& why) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    why += std::string("\n  ") + dlerror();
    return false;
  }
  bool complete = true;
  const auto get = [&](auto& member, const char* name) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(library, name));
    if (!member) complete = false, why += fmt::format("\n  {}: has no {}", file, name);
  };
  get(lt.get_version, "cublasLtGetVersion");
  get(lt.status_name, "cublasLtGetStatusName");
  get(lt.create, "cublasLtCreate");
  get(lt.matmul, "cublasLtMatmul");
  get(lt.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  get(lt.product_create, "cublasLtMatmulDescCreate");
  get(lt.product_destroy, "cublasLtMatmulDescDestroy");
  get(lt.product_set, "cublasLtMatmulDescSetAttribute");
  get(lt.layout_create, "cublasLtMatrixLayoutCreate");
  get(lt.layout_destroy, "cublasLtMatrixLayoutDestroy");
  get(lt.preference_create, "cublasLtMatmulPreferenceCreate");
  get(lt.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  get(lt.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  if (!complete) return false;
  lt.path = file;
  if (Dl_info info; dladdr(reinterpret_cast<void*>(lt.get_version), &info) && info.dli_fname) lt.path = info.dli_fname;
  const std::size_t v = lt.get_version();  // 130100: two digits each for minor and patch since 11.0, four for older ones
  lt.version = fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
  return true;
}

}  // namespace

const CublasLt* CublasLt::load(std::string* why) {
  static std::mutex mutex;
  static const CublasLt* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (loaded) return loaded;
  std::string looked;
  CublasLt lt;
  for (const std::string& file : places())
    if (open(file, lt, looked)) return loaded = new CublasLt(lt);
  if (why) *why = "cuBLASLt is not found (FORETILE_CUBLASLT names a file):" + looked;
  return nullptr;
}

namespace {
void require(const CublasLt& lt, int status, const char* what) {
  if (status != 0) throw std::runtime_error(fmt::format("{}: {}", what, lt.status_name(status)));
}
}  // namespace

CublasLtProduct::CublasLtProduct(const CublasLt& lt, const Operation& o, const Problem& p) : library_(lt) {
  if (o.a != o.b || o.transpose_a || o.transpose_b || o.has_c || o.has_bias || o.has_residual || o.activation != Activation::none || p.batch != 1)
    throw std::runtime_error("the cuBLASLt baseline is a plain product A[M,K] x B[N,K]^T of one type");
  static CublasLt::Handle handle = nullptr;  // one a process: a handle costs memory and a second
  if (!handle) require(lt, lt.create(&handle), "cublasLtCreate");
  handle_ = handle;
  require(lt, lt.product_create(&product_, o.a == DType::tf32 ? kCompute32ByTf32 : kCompute32, kReal32), "cublasLtMatmulDescCreate");
  // cuBLASLt counts columns first: D^T[N,M] = B (K x N as it sees it, transposed) * A^T (K x M).
  require(lt, lt.product_set(product_, kTransposeA, &kTranspose, sizeof kTranspose), "cublasLtMatmulDescSetAttribute");
  require(lt, lt.product_set(product_, kTransposeB, &kNoTranspose, sizeof kNoTranspose), "cublasLtMatmulDescSetAttribute");
  require(lt, lt.layout_create(&b_, type_code(o.b), u64(p.k), u64(p.n), p.k), "cublasLtMatrixLayoutCreate");
  require(lt, lt.layout_create(&a_, type_code(o.a), u64(p.k), u64(p.m), p.k), "cublasLtMatrixLayoutCreate");
  require(lt, lt.layout_create(&d_, type_code(o.d), u64(p.n), u64(p.m), p.n), "cublasLtMatrixLayoutCreate");
}

CublasLtProduct::~CublasLtProduct() {
  if (product_) library_.product_destroy(product_);
  for (CublasLt::Descriptor layout : {a_, b_, d_})
    if (layout) library_.layout_destroy(layout);
}

std::vector<CublasLt::Heuristic> CublasLtProduct::candidates() const {
  CublasLt::Descriptor preference = nullptr;
  require(library_, library_.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const std::size_t bytes = kWorkspaceBytes;
  require(library_, library_.preference_set(preference, kPreferenceWorkspace, &bytes, sizeof bytes), "cublasLtMatmulPreferenceSetAttribute");
  std::vector<CublasLt::Heuristic> list(kRequested);
  int returned = 0;
  const int status = library_.heuristic(handle_, product_, b_, a_, d_, d_, preference, kRequested, list.data(), &returned);
  library_.preference_destroy(preference);
  list.resize(status == 0 ? std::size_t(returned) : 0);
  std::erase_if(list, [](const CublasLt::Heuristic& h) { return h.state != 0; });
  return list;
}

bool CublasLtProduct::run(const CublasLt::Algorithm& algorithm, const void* a, const void* b, void* d, void* workspace, cuda::Stream stream) const {
  const float one = 1, zero = 0;
  return library_.matmul(handle_, product_, &one, b, b_, a, a_, &zero, d, d_, d, d_, &algorithm, workspace, kWorkspaceBytes, stream) == 0;
}

}  // namespace foretile::bench
