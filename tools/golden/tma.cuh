// Shared-memory bytes after a TMA load, and global bytes after a TMA store, in every swizzle mode and at the edges.
// Tensor elements are 16-bit codes 1, 2, 3... in memory order; shared memory starts as 0xEE bytes.
#pragma once
#include "container.h"
#include "probe.cuh"

namespace golden {

constexpr int kInner = 72, kRows = 20, kBatches = 3, kPitch = 80;  // elements; a row is 160 bytes, a multiple of 16
constexpr int kTensor = kPitch * kRows * kBatches;

struct TmaCase {
  const char* name;
  int swizzle;  // 0 none, 1 = 32 B, 2 = 64 B, 3 = 128 B (the tensor map's own code)
  int box[3], corner[3];
  int destination;
  int inner = kInner;  // extent of the tensor's rows in elements; the pitch stays
};

inline CUtensorMap encode(void* base, const TmaCase& c) {
  static PFN_cuTensorMapEncodeTiled_v12000 encode_tiled = nullptr;
  if (!encode_tiled) {
    cudaDriverEntryPointQueryResult found;
    CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", reinterpret_cast<void**>(&encode_tiled), 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess) std::fprintf(stderr, "the driver has no cuTensorMapEncodeTiled\n"), std::exit(1);
  }
  CUtensorMap map;
  const cuuint64_t extent[3] = {cuuint64_t(c.inner), kRows, kBatches}, stride[2] = {kPitch * 2, kPitch * kRows * 2};
  const cuuint32_t box[3] = {cuuint32_t(c.box[0]), cuuint32_t(c.box[1]), cuuint32_t(c.box[2])}, ones[3] = {1, 1, 1};
  const CUresult r = encode_tiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, base, extent, stride, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                  CUtensorMapSwizzle(c.swizzle), CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (r != CUDA_SUCCESS) std::fprintf(stderr, "cuTensorMapEncodeTiled refused case %s: %d\n", c.name, int(r)), std::exit(1);
  return map;
}

inline std::string fields_of(const TmaCase& c, uint32_t base) {
  char text[400];
  snprintf(text, sizeof text, "case=%s swizzle=%d inner=%d rows=%d batches=%d pitch=%d box0=%d box1=%d box2=%d x=%d y=%d z=%d destination=%d base=%u", c.name, c.swizzle,
           c.inner, kRows, kBatches, kPitch, c.box[0], c.box[1], c.box[2], c.corner[0], c.corner[1], c.corner[2], c.destination, base);
  return text;
}

// Elements of the box that lie inside the tensor.
inline int inside(const TmaCase& c) {
  const int extent[3] = {c.inner, kRows, kBatches};
  int count = 1;
  for (int d = 0; d < 3; ++d) {
    const int low = c.corner[d] < 0 ? 0 : c.corner[d], high = c.corner[d] + c.box[d] > extent[d] ? extent[d] : c.corner[d] + c.box[d];
    count *= high > low ? high - low : 0;
  }
  return count;
}

inline int dump_tma(Writer& out) {
  std::vector<uint16_t> tensor(kTensor);
  for (int i = 0; i < kTensor; ++i) tensor[size_t(i)] = uint16_t(i + 1);
  uint16_t* d_tensor;
  uint32_t *d_image, *d_out, *d_result;
  CUDA_CHECK(cudaMalloc(&d_tensor, kTensor * 2));
  CUDA_CHECK(cudaMemcpy(d_tensor, tensor.data(), kTensor * 2, cudaMemcpyHostToDevice));
  constexpr int bytes = 8192;
  const std::vector<uint8_t> poison(bytes, 0xEE);
  CUDA_CHECK(cudaMalloc(&d_image, bytes));
  CUDA_CHECK(cudaMemcpy(d_image, poison.data(), bytes, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMalloc(&d_out, 2 * bytes));
  CUDA_CHECK(cudaMalloc(&d_result, 16));

  std::vector<TmaCase> cases;
  const int inner_of[4] = {64, 16, 32, 64};
  for (int s = 0; s < 4; ++s) {
    const int inner = inner_of[s];
    cases.push_back({"inside", s, {inner, 8, 2}, {0, 0, 0}, 0});
    // Inner coordinates stay on multiples of 16 bytes: elsewhere the load is an illegal instruction (seen 2026-11-30).
    cases.push_back({"offset", s, {inner, 8, 1}, {8, 5, 1}, 1024 + 384});  // shared address on 128, not on 1024
    cases.push_back({"inner-edge", s, {inner, 8, 1}, {kInner - inner / 2, 2, 0}, 0});
    cases.push_back({"inner-edge-within-16-bytes", s, {inner, 8, 1}, {kInner - inner / 2, 2, 0}, 0, kInner - 3});
    cases.push_back({"row-edge", s, {inner, 8, 1}, {0, kRows - 5, 1}, 0});
    cases.push_back({"batch-edge", s, {inner, 4, 2}, {8, 0, kBatches - 1}, 0});
    cases.push_back({"negative", s, {inner, 8, 1}, {-8, -2, 0}, 0});
    cases.push_back({"outside", s, {inner, 4, 1}, {0, kRows + 3, 0}, 0});
  }
  int full = 0, clipped = 0, clipped_full = 0, clipped_exact = 0, failures = 0;
  for (const TmaCase& c : cases) {
    const CUtensorMap map = encode(d_tensor, c);
    const int box_bytes = c.box[0] * c.box[1] * c.box[2] * 2, clip_bytes = inside(c) * 2;
    std::vector<uint32_t> result(2), bits(bytes / 4);
    const auto load = [&](int expect) {
      CUDA_CHECK(cudaMemset(d_out, 0, bytes));
      tma_load<<<1, 128, bytes + 2048>>>(map, c.corner[0], c.corner[1], c.corner[2], uint32_t(c.destination), uint32_t(expect), d_image, bytes, d_out, d_result);
      CUDA_CHECK(cudaGetLastError());
      CUDA_CHECK(cudaMemcpy(result.data(), d_result, 8, cudaMemcpyDeviceToHost));
      CUDA_CHECK(cudaMemcpy(bits.data(), d_out, bytes, cudaMemcpyDeviceToHost));
      return result[0] != 0;
    };
    bool with_clipped = false;
    if (clip_bytes != box_bytes) with_clipped = load(clip_bytes);
    const bool with_full = load(box_bytes);
    if (clip_bytes == box_bytes) full += with_full, failures += !with_full;
    else ++clipped, clipped_full += with_full, clipped_exact += with_clipped;
    const std::string fields = fields_of(c, result[1]) + " box_bytes=" + std::to_string(box_bytes) + " clipped_bytes=" + std::to_string(clip_bytes) +
                               " completes_full=" + std::to_string(with_full) + " completes_clipped=" + std::to_string(with_clipped);
    const size_t touched = size_t(c.destination + box_bytes + 256);  // the box and a margin behind it
    out.record("tma-load", fields, bits.data(), touched > bytes ? bytes : touched);
  }
  std::printf("transaction bytes: %d of %d inside boxes complete with their full bytes; of %d clipped boxes %d complete with the full bytes, %d with the clipped ones\n", full,
              int(cases.size()) - clipped, clipped, clipped_full, clipped_exact);

  {  // multicast
    const TmaCase c{"multicast", 3, {64, 8, 1}, {0, 0, 0}, 0};
    const CUtensorMap map = encode(d_tensor, c);
    std::vector<uint32_t> result(4), bits(1024 * 2 / 4);
    tma_multicast<<<2, 128, 1024 + 2048>>>(map, 1024, d_image, 1024, d_out, d_result);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(result.data(), d_result, 16, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(bits.data(), d_out, bits.size() * 4, cudaMemcpyDeviceToHost));
    out.record("tma-multicast", fields_of(c, result[1]) + " completes0=" + std::to_string(result[0]) + " completes1=" + std::to_string(result[2]), bits.data(), bits.size() * 4);
    const bool same = !memcmp(bits.data(), bits.data() + bits.size() / 2, bits.size() * 2);
    failures += !(same && result[0] && result[2]);
    std::printf("multicast: both blocks complete: %s, same bytes: %s\n", result[0] && result[2] ? "yes" : "NO", same ? "yes" : "NO");
  }

  // Stores: shared memory holds codes 1, 2, 3... (16-bit); the tensor starts as 0xEE bytes.
  std::vector<uint16_t> codes(bytes / 2);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = uint16_t(i + 1);
  CUDA_CHECK(cudaMemcpy(d_image, codes.data(), bytes, cudaMemcpyHostToDevice));
  for (const TmaCase& c : cases) {
    if (c.destination != 0 || std::string(c.name) == "batch-edge" || std::string(c.name) == "outside" || std::string(c.name) == "negative") continue;  // a store at a negative corner traps
    CUDA_CHECK(cudaMemset(d_tensor, 0xEE, kTensor * 2));
    tma_store<<<1, 128, bytes + 2048>>>(encode(d_tensor, c), c.corner[0], c.corner[1], c.corner[2], d_image, bytes);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(tensor.data(), d_tensor, kTensor * 2, cudaMemcpyDeviceToHost));
    std::vector<uint16_t> written;  // (index, code) of every element that changed
    for (int i = 0; i < kTensor; ++i)
      if (tensor[size_t(i)] != 0xEEEE) written.push_back(uint16_t(i)), written.push_back(tensor[size_t(i)]);
    out.record("tma-store", fields_of(c, 0), written.data(), written.size() * 2);
  }
  return failures;
}

inline void dump_matrix_moves(Writer& out) {
  uint32_t* d;
  CUDA_CHECK(cudaMalloc(&d, 3 * 512));
  matrix_moves<<<1, 32, 2048>>>(d, d + 128, d + 256);
  CUDA_CHECK(cudaGetLastError());
  std::vector<uint32_t> bits(384);
  CUDA_CHECK(cudaMemcpy(bits.data(), d, 1536, cudaMemcpyDeviceToHost));
  out.record("stmatrix", "count=4", bits.data(), 512);
  out.record("stmatrix", "count=2", bits.data() + 128, 512);
  out.record("ldmatrix", "count=4", bits.data() + 256, 512);
}

}  // namespace golden
