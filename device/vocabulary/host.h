// Host back end of the vocabulary's templates: each forwards to one plain function of src/emulator.
#pragma once
#include <cstring>

namespace foretile {

namespace emulator {
void bulk_wait(int pending, bool read_only, Site site);
void wgmma(DType type, int n, bool transpose_a, bool transpose_b, float* acc, u64 a, u64 b, bool accumulate, Site site);
void wgmma_wait(int pending, Site site);
void registers(int count, bool acquire, Site site);
void shared_access(u32 address, void* data, int bytes, bool store, Site site);
void global_access(const void* address, void* data, int bytes, bool store, Site site);
void cp_async(u32 destination, const void* source, int bytes, u32 valid, Site site);
void cp_async_wait(int pending, Site site);
void mma_sync(DType type, float* d, const u32* a, const u32* b, Site site);
u16 float_to_bf16(float x);
u16 float_to_fp16(float x);
}  // namespace emulator

template <int Pending> inline void bulk_wait_read(Site site) { emulator::bulk_wait(Pending, true, site); }
template <int Pending> inline void bulk_wait(Site site) { emulator::bulk_wait(Pending, false, site); }
template <DType T, int N, bool TransposeA, bool TransposeB>
inline void wgmma(float (&acc)[N / 2], u64 a, u64 b, bool accumulate, Site site) {
  emulator::wgmma(T, N, TransposeA, TransposeB, acc, a, b, accumulate, site);
}
template <int Pending> inline void wgmma_wait(Site site) { emulator::wgmma_wait(Pending, site); }
template <int Registers> inline void register_release(Site site) { emulator::registers(Registers, false, site); }
template <int Registers> inline void register_acquire(Site site) { emulator::registers(Registers, true, site); }

template <class T> inline T load_shared(SmemAddress address, Site site) {
  T value;
  emulator::shared_access(address.value, &value, sizeof(T), false, site);
  return value;
}
template <class T> inline void store_shared(SmemAddress address, T value, Site site) {
  emulator::shared_access(address.value, &value, sizeof(T), true, site);
}
template <class T> inline T load_global(const T* address, Site site) {
  T value;
  emulator::global_access(address, &value, sizeof(T), false, site);
  return value;
}
template <class T> inline void store_global(T* address, T value, Site site) {
  emulator::global_access(address, &value, sizeof(T), true, site);
}

template <int Bytes> inline void cp_async(SmemAddress destination, const void* source, u32 valid, Site site) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  emulator::cp_async(destination.value, source, Bytes, valid, site);
}
template <int Pending> inline void cp_async_wait(Site site) { emulator::cp_async_wait(Pending, site); }
template <DType T> inline void mma_sync(float (&d)[4], const u32x4& a, const u32x2& b, Site site) {
  static_assert(T == DType::bf16 || T == DType::fp16);
  const u32 left[4] = {a.x, a.y, a.z, a.w}, right[2] = {b.x, b.y};
  emulator::mma_sync(T, d, left, right, site);
}

inline void keep_order(u32) {}
template <class T> inline void compute_now(T&) {}
template <class T> inline void unset(T& registers) { std::memset(static_cast<void*>(&registers), 0xFF, sizeof registers); }

template <class T> inline T round_to(float x);
template <> inline float round_to<float>(float x) { return x; }
template <> inline bf16 round_to<bf16>(float x) { return {emulator::float_to_bf16(x)}; }
template <> inline fp16 round_to<fp16>(float x) { return {emulator::float_to_fp16(x)}; }
template <class T> inline u32 pack_pair(float low, float high) {
  return u32(round_to<T>(low).bits) | u32(round_to<T>(high).bits) << 16;
}

}  // namespace foretile
