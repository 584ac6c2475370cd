// Types shared by kernels, model, emulator and runtime. Self-contained: NVRTC compiles it with no other header.
#pragma once

#if defined(__CUDACC__)
#define FORETILE_GPU 1
#define FORETILE_DEVICE __device__ __forceinline__
#define FORETILE_UNROLL _Pragma("unroll")
#define FORETILE_ROLL _Pragma("unroll 1")
#else
#define FORETILE_GPU 0
#define FORETILE_DEVICE inline
#define FORETILE_UNROLL  // register arrays need compile-time indices on the GPU only
#define FORETILE_ROLL    // one copy of a long loop body keeps compiling short
#endif

namespace foretile {

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;
static_assert(sizeof(i32) == 4 && sizeof(i64) == 8);

// Element types. Values are stable: they are part of cache keys.
enum class DType : u8 { fp32 = 0, fp16 = 1, bf16 = 2, tf32 = 3, e4m3 = 4, e5m2 = 5, int8 = 6, int32 = 7 };

constexpr int size_of(DType type) {
  switch (type) {
    case DType::fp32:
    case DType::tf32:
    case DType::int32: return 4;
    case DType::fp16:
    case DType::bf16: return 2;
    case DType::e4m3:
    case DType::e5m2:
    case DType::int8: return 1;
  }
  return 0;
}

// tf32 is a way to read fp32, not one to store it: a matrix of it is one of fp32, whose elements count without the 13 low
// bits of their significands (cut toward zero), as the tensor cores take them.
constexpr DType stored_type(DType type) { return type == DType::tf32 ? DType::fp32 : type; }

// Storage formats as bit patterns: no toolkit header is needed, and host and device agree by construction.
struct bf16 { u16 bits; };
struct fp16 { u16 bits; };
struct e4m3 { u8 bits; };
struct e5m2 { u8 bits; };

template <DType> struct StorageOf;
template <> struct StorageOf<DType::fp32> { using type = float; };
template <> struct StorageOf<DType::tf32> { using type = float; };
template <> struct StorageOf<DType::fp16> { using type = fp16; };
template <> struct StorageOf<DType::bf16> { using type = bf16; };
template <> struct StorageOf<DType::e4m3> { using type = e4m3; };
template <> struct StorageOf<DType::e5m2> { using type = e5m2; };
template <> struct StorageOf<DType::int8> { using type = i8; };
template <> struct StorageOf<DType::int32> { using type = i32; };
template <DType T> using Storage = typename StorageOf<T>::type;

constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }
constexpr i64 round_up(i64 a, i64 b) { return ceil_div(a, b) * b; }
constexpr i64 min_of(i64 a, i64 b) { return a < b ? a : b; }
constexpr i64 max_of(i64 a, i64 b) { return a > b ? a : b; }

}  // namespace foretile
