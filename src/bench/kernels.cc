#include "bench/kernels.h"

namespace foretile::bench {

const char* const kKernelPrelude = R"CUDA(
__device__ inline float fp16_to_float(unsigned short h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
__device__ inline unsigned short float_to_fp16(float f) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
__device__ inline float fast_exponential(float x) { return __expf(x); }
__device__ inline float fast_quotient(float x, float y) { return __fdividef(x, y); }
__device__ inline u64 nanoseconds() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
__device__ inline u64 clocks() {
  u64 t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t));
  return t;
}
__device__ inline u32 sm_number() {
  u32 i;
  asm("mov.u32 %0, %%smid;" : "=r"(i));
  return i;
}
__device__ inline void kernels_before_are_complete() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#if __CUDA_ARCH__ >= 900
#define BULK_COPIES
__device__ inline void next_kernel_may_start() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ inline u32 dynamic_shared() {
  extern __shared__ __align__(128) unsigned char bytes[];
  return static_cast<u32>(__cvta_generic_to_shared(bytes));
}
__device__ inline void barrier_init(u32 barrier) { asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory"); }
__device__ inline void barriers_are_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(barrier), "r"(parity) : "memory");
}
// Read once: evicted first.
__device__ inline void bulk_copy(u32 to, const void* from, u32 bytes, u32 barrier) {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
               ::"r"(to), "l"(from), "r"(bytes), "r"(barrier), "l"(policy) : "memory");
}
#endif
)CUDA";

// Includes, the prelude and the shared structs come before it: see helper_source().
const char* const kKernelSource = R"CUDA(
__device__ inline u64 mix(u64 z) {  // SplitMix64's finaliser
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
__device__ inline float to_float_any(DType type, const void* data, i64 i) {
  if (type == DType::fp32) return static_cast<const float*>(data)[i];
  if (type == DType::tf32) return __uint_as_float(static_cast<const u32*>(data)[i] & 0xffffe000u);
  const u16 bits = static_cast<const u16*>(data)[i];
  if (type == DType::bf16) return __uint_as_float(u32(bits) << 16);
  return fp16_to_float(bits);
}
__device__ inline u16 half_bits(DType type, float f) {
  if (type == DType::fp16) return float_to_fp16(f);
  const u32 u = __float_as_uint(f);
  if (f != f) return u16(u >> 16 | 0x40);
  return u16((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}
__device__ inline double rounded(DType type, double x) {
  const float f = float(x);  // round to nearest even; a 16-bit type rounds once more, as the kernels do
  if (type == DType::fp32) return f;
  const u16 h = half_bits(type, f);
  return to_float_any(type, &h, 0);
}
__device__ inline float normal(u64 z) {  // Box-Muller
  const float u = (u32(z >> 40) + 1) * (1.0f / 16777217.0f), v = u32(z & 0xffffff) * (1.0f / 16777216.0f);
  return sqrtf(-2 * logf(u)) * cospif(2 * v);
}

extern "C" __global__ void fill(FillArguments f) {
  const i64 count = f.rows * f.columns * f.batch;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count; i += i64(gridDim.x) * blockDim.x) {
    const i64 column = i % f.columns, rest = i / f.columns, row = rest % f.rows, batch = rest / f.rows;
    const u64 z = mix(mix(f.seed + u64(batch)) + (u64(row) << 32) + u64(column));
    float v = f.values == 0 ? normal(z) : f.values == 1 ? float(int(z % u64(2 * f.limit + 1)) - f.limit) : f.values == 2 ? __uint_as_float(0x7fffffff) : 0.0f;
    const i64 at = batch * f.x.batch_stride + row * f.x.ld + column;
    if (stored_type(f.type) == DType::fp32) static_cast<float*>(f.x.data)[at] = v;
    else static_cast<u16*>(f.x.data)[at] = half_bits(f.type, v);
  }
}

__device__ inline u8 guard_byte(u64 i, u32 seed) { return u8(mix(i / 8 + (u64(seed) << 32)) >> i % 8 * 8); }

extern "C" __global__ void guard_write(GuardArguments g) {
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < g.bytes; i += i64(gridDim.x) * blockDim.x) g.base[i] = guard_byte(u64(i), g.seed);
}

extern "C" __global__ void guard_check(GuardArguments g) {
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < g.bytes; i += i64(gridDim.x) * blockDim.x) {
    if (i >= g.data_offset && g.columns > 0) {
      const i64 element = (i - g.data_offset) / g.size;
      const i64 batch = g.batch > 1 ? element / g.batch_stride : 0, within = element - batch * (g.batch > 1 ? g.batch_stride : 0);
      const i64 row = g.rows > 1 ? within / g.ld : 0, column = within - row * (g.rows > 1 ? g.ld : 0);
      if (batch < g.batch && row < g.rows && column < g.columns) continue;
    }
    if (g.base[i] != guard_byte(u64(i), g.seed)) {
      atomicAdd(&g.verdict->touched, 1ull);
      atomicMin(&g.verdict->first_touched, u64(i));
    }
  }
}

// A sum over the bytes that moves when any of them changes.
extern "C" __global__ void checksum(const u8* base, i64 bytes, u64* result) {
  u64 sum = 0;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < bytes / 8; i += i64(gridDim.x) * blockDim.x)
    sum += mix(reinterpret_cast<const u64*>(base)[i] ^ mix(u64(i)));
  if (blockIdx.x == 0 && threadIdx.x == 0)
    for (i64 i = bytes / 8 * 8; i < bytes; ++i) sum += mix(base[i] ^ mix(u64(i)));
  for (int lane = 16; lane; lane /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(result, sum);
}

// Sum of products in fp64, and how far a kernel that accumulates in fp32 may be off: see src/reference/check.h. 64 x 64
// outputs a block, 256 threads of 4 x 4.
extern "C" __global__ void __launch_bounds__(256) reference(ReferenceArguments r) {
  __shared__ double a[16][66], b[16][66];
  const i64 tiles_n = (r.n + 63) / 64, tiles_m = (r.m + 63) / 64;
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  for (i64 tile = blockIdx.x; tile < tiles_m * tiles_n * r.batch; tile += gridDim.x) {
    const i64 batch = tile / (tiles_m * tiles_n), m0 = tile % (tiles_m * tiles_n) / tiles_n * 64, n0 = tile % tiles_n * 64;
    double sum[4][4] = {};
    float error[4][4] = {};
    for (i64 k0 = 0; k0 < r.k; k0 += 16) {
      for (int i = t; i < 16 * 64; i += 256) {
        // Neighbouring threads read neighbouring addresses, whichever way the operand stands.
        const int ka = r.transpose_a ? i / 64 : i % 16, row = r.transpose_a ? i % 64 : i / 16;
        const int kb = r.transpose_b ? i / 64 : i % 16, column = r.transpose_b ? i % 64 : i / 16;
        const bool in_a = m0 + row < r.m && k0 + ka < r.k, in_b = n0 + column < r.n && k0 + kb < r.k;
        a[ka][row] = in_a ? to_float_any(r.a_type, r.a.data, batch * r.a.batch_stride + (r.transpose_a ? (k0 + ka) * r.a.ld + m0 + row : (m0 + row) * r.a.ld + k0 + ka)) : 0;
        b[kb][column] = in_b ? to_float_any(r.b_type, r.b.data, batch * r.b.batch_stride + (r.transpose_b ? (k0 + kb) * r.b.ld + n0 + column : (n0 + column) * r.b.ld + k0 + kb)) : 0;
      }
      __syncthreads();
      float largest[4][4];
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) largest[i][j] = fabsf(float(sum[i][j]));
      for (int k = 0; k < 16; ++k)
        for (int i = 0; i < 4; ++i)
          for (int j = 0; j < 4; ++j) {
            const double product = a[k][ty + 16 * i] * b[k][tx + 16 * j];
            sum[i][j] += product;
            // Magnitudes in fp32: a last-place error of the bound does not matter.
            largest[i][j] = fmaxf(largest[i][j], fmaxf(fabsf(__double2float_ru(product)), fabsf(__double2float_ru(sum[i][j]))));
          }
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) error[i][j] += 18 * 0x1p-23f * largest[i][j];
      __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) {
        const i64 m = m0 + ty + 16 * i, n = n0 + tx + 16 * j;
        if (m >= r.m || n >= r.n) continue;
        r.sum[(batch * r.m + m) * r.n + n] = sum[i][j];
        r.error[(batch * r.m + m) * r.n + n] = r.exact ? 0 : error[i][j];
      }
  }
}

struct Approximate {
  double value, error;
  __device__ void becomes(double result, double inherited) {  // by one fp32 operation
    value = result;
    error = inherited;
    if (!isfinite(result) || (inherited == 0 && double(float(result)) == result)) return;
    error += 0x1p-24 * (fabs(result) + inherited) + 0x1p-149;
  }
};
__device__ inline double activation_of(Activation f, double x) {
  switch (f) {
    case Activation::relu: return x < 0 ? 0 : x;
    case Activation::gelu_erf: return 0.5 * x * erfc(-x * 0.70710678118654752440);
    case Activation::gelu_tanh: return x / (1 + exp(-2 * (0.79788456080286535588 * (x + 0.044715 * x * x * x))));
    case Activation::silu: return x / (1 + exp(-x));
    default: return x;
  }
}

__device__ inline i64 columns_of_d(const ExpectArguments& e) { return e.operation.gating == Gating::none ? e.n : e.n / 2; }
// The product's column that a column of D comes from: its gate's, where there are gates.
__device__ inline i64 column_of_product(const ExpectArguments& e, i64 column) { return e.operation.gating == Gating::interleaved ? 2 * column : column; }
__device__ inline i64 column_of_factor(const ExpectArguments& e, i64 column) { return e.operation.gating == Gating::interleaved ? 2 * column + 1 : e.n / 2 + column; }

// Before the activation. C is read here.
__device__ inline Approximate scaled(const ExpectArguments& e, i64 batch, i64 m, i64 n) {
  const Operation& o = e.operation;
  const i64 i = (batch * e.m + m) * e.n + n;
  Approximate v{0, 0};
  if (e.alpha != 0) v.becomes(e.alpha * e.sum[i], fabs(e.alpha) * e.error[i]);
  if (o.has_c && e.beta != 0) {
    Approximate term{0, 0};
    term.becomes(e.beta * to_float_any(o.c, e.c.data, batch * e.c.batch_stride + m * e.c.ld + n), 0);
    v.becomes(v.value + term.value, v.error + term.error);
  }
  if (o.has_bias) v.becomes(v.value + to_float_any(o.bias, e.bias.data, batch * e.bias.batch_stride + n), v.error);
  return v;
}

// Turns (sum, error) into the ends of the interval that D, rounded to its type, must lie in, before the call under test may
// overwrite C. A thread reads and writes the places of its own element's columns alone.
extern "C" __global__ void expect(ExpectArguments e) {
  const Operation& o = e.operation;
  const i64 columns = columns_of_d(e);
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < e.m * columns * e.batch; i += i64(gridDim.x) * blockDim.x) {
    const i64 column = i % columns, m = i / columns % e.m, batch = i / (columns * e.m), n = column_of_product(e, column);
    Approximate v = scaled(e, batch, m, n);
    if (o.activation == Activation::relu) {
      v.value = activation_of(o.activation, v.value);
    } else if (o.activation != Activation::none) {
      const double before = v.value;
      v.value = activation_of(o.activation, before);
      v.error = 1.13 * v.error + 0x1p-20 * fabs(before) + 0x1p-149;  // steepest slope; erff, tanhf, expf and a few roundings
    }
    if (o.gating != Gating::none) {
      const Approximate factor = scaled(e, batch, m, column_of_factor(e, column));
      v.becomes(v.value * factor.value, v.error * fabs(factor.value) + factor.error * fabs(v.value) + v.error * factor.error);
    }
    if (o.has_residual) v.becomes(v.value + to_float_any(o.residual, e.residual.data, batch * e.residual.batch_stride + m * e.residual.ld + column), v.error);
    const i64 at = (batch * e.m + m) * e.n + n;
    e.sum[at] = rounded(o.d, v.value - v.error);
    e.error[at] = rounded(o.d, v.value + v.error);
  }
}

extern "C" __global__ void compare(ExpectArguments e, Verdict* verdict) {
  u64 wrong = 0, first = ~0ull;
  float worst = 0;
  const i64 columns = columns_of_d(e);
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < e.m * columns * e.batch; i += i64(gridDim.x) * blockDim.x) {
    const i64 column = i % columns, m = i / columns % e.m, batch = i / (columns * e.m), at = (batch * e.m + m) * e.n + column_of_product(e, column);
    const double d = to_float_any(e.operation.d, e.d.data, batch * e.d.batch_stride + m * e.d.ld + column), low = e.sum[at], high = e.error[at];
    const bool right = low != low ? d != d : d >= low && d <= high;
    if (!right) {
      ++wrong;
      if (u64(i) < first) first = u64(i);
    } else if (high > low) {
      worst = fmaxf(worst, float(fabs(d - 0.5 * (low + high)) / (0.5 * (high - low))));
    }
  }
  for (int lane = 16; lane; lane /= 2) {
    wrong += __shfl_down_sync(0xffffffffu, wrong, lane);
    const u64 other = __shfl_down_sync(0xffffffffu, first, lane);
    first = other < first ? other : first;
    worst = fmaxf(worst, __shfl_down_sync(0xffffffffu, worst, lane));
  }
  if (threadIdx.x % 32 == 0) {
    if (wrong) {
      atomicAdd(&verdict->wrong, wrong);
      atomicMin(&verdict->first, first);
    }
    atomicMax(reinterpret_cast<int*>(&verdict->worst), __float_as_int(worst));  // worst >= 0: bits order as integers
  }
}

// Largest difference of two matrices and the largest magnitude in the second, over rows and columns given.
extern "C" __global__ void difference(DType type, const void* x, const void* y, i64 count, float* result) {
  float most = 0, size = 0;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count; i += i64(gridDim.x) * blockDim.x) {
    const float p = to_float_any(type, x, i), q = to_float_any(type, y, i);
    const float d = fabsf(p - q);
    most = fmaxf(most, d == d ? d : __int_as_float(0x7f800000));  // NaN counts as infinite
    size = fmaxf(size, fabsf(q));
  }
  for (int lane = 16; lane; lane /= 2) {
    most = fmaxf(most, __shfl_down_sync(0xffffffffu, most, lane));
    size = fmaxf(size, __shfl_down_sync(0xffffffffu, size, lane));
  }
  if (threadIdx.x % 32 == 0) {
    atomicMax(reinterpret_cast<int*>(result), __float_as_int(most));
    atomicMax(reinterpret_cast<int*>(result) + 1, __float_as_int(size));
  }
}

struct alignas(16) Piece { u32 word[4]; };
template <DType T> __device__ inline float half_of(u32 word, int i) {
  const u16 bits = u16(word >> 16 * i);
  return T == DType::bf16 ? __uint_as_float(u32(bits) << 16) : fp16_to_float(bits);
}
template <DType T> __device__ inline Piece gated(const Piece& gate, const Piece& up) {
  Piece out;
  for (int w = 0; w < 4; ++w) {
    u16 half[2];
    for (int i = 0; i < 2; ++i) {
      const float x = half_of<T>(gate.word[w], i);
      half[i] = half_bits(T, fast_quotient(x, 1 + fast_exponential(-x)) * half_of<T>(up.word[w], i));
    }
    out.word[w] = u32(half[0]) | u32(half[1]) << 16;
  }
  return out;
}

// Two pieces of eight elements a thread, as many threads apart as there are: their loads are under way together.
template <DType T> __device__ inline void gate_all(const GateArguments& g) {
  const u32 pieces = u32(g.columns / 8);
  const i64 count = g.rows * pieces, stride = i64(gridDim.x) * blockDim.x;
  const Piece* const product = static_cast<const Piece*>(g.product);
  Piece* const d = static_cast<Piece*>(g.d);
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count; i += 2 * stride) {
    const i64 j = i + stride;
    const bool both = j < count;
    const i64 at = i + i / pieces * pieces, other = j + j / pieces * pieces;  // a row of the product holds twice as many
    const Piece gate0 = product[at], up0 = product[at + pieces];
    Piece gate1 = gate0, up1 = up0;
    if (both) gate1 = product[other], up1 = product[other + pieces];
    d[i] = gated<T>(gate0, up0);
    if (both) d[j] = gated<T>(gate1, up1);
  }
}

extern "C" __global__ void __launch_bounds__(256) gate(GateArguments g) {
  kernels_before_are_complete();
  if (g.type == DType::bf16) gate_all<DType::bf16>(g);
  else gate_all<DType::fp16>(g);
}

// How fast bytes can be moved at all: 16-byte accesses, four of a thread under way together.
extern "C" __global__ void __launch_bounds__(256) copy(const Piece* from, Piece* to, i64 count) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x;
  for (; i + 3 * stride < count; i += 4 * stride) {
    const Piece a = from[i], b = from[i + stride], c = from[i + 2 * stride], e = from[i + 3 * stride];
    to[i] = a, to[i + stride] = b, to[i + 2 * stride] = c, to[i + 3 * stride] = e;
  }
  for (; i < count; i += stride) to[i] = from[i];
}

#ifdef BULK_COPIES
// How fast bytes can be read at all: each block's share through its ring, and nothing done with it. One thread does it; the block
// ends when its last byte is there and, in a chain of dependent launches, the kernel before is complete.
extern "C" __global__ void __launch_bounds__(32) read_ring(ReadArguments r) {
  next_kernel_may_start();
  if (threadIdx.x == 0) {
    const i64 block = blockIdx.x, first = (block * r.each + (block < r.more ? block : r.more)) * r.kPiece;
    i64 last = first + (r.each + (block < r.more)) * r.kPiece;
    if (last > r.bytes) last = r.bytes;
    const u32 ring = dynamic_shared(), barriers = ring + r.stages * r.copy_bytes;
    for (u32 s = 0; s < r.stages; ++s) barrier_init(barriers + 8 * s);
    barriers_are_ready();
    i64 next = first;
    const auto ask = [&](u32 stage) {
      const i64 left = last - next;
      bulk_copy(ring + stage * r.copy_bytes, r.from + next, left < r.copy_bytes ? u32(left) : r.copy_bytes, barriers + 8 * stage);
      next += r.copy_bytes;
    };
    for (u32 s = 0; s < r.stages && next < last; ++s) ask(s);
    u32 stage = 0, parity = 0;
    for (i64 at = first; at < last; at += r.copy_bytes) {
      barrier_wait(barriers + 8 * stage, parity);
      if (next < last) ask(stage);
      if (++stage == r.stages) stage = 0, parity ^= 1;
    }
  }
  kernels_before_are_complete();
}
#endif

// Keeps an SM a block from others for a while: with its shared memory, and with half of its threads.
extern "C" __global__ void __launch_bounds__(1024) hold(u64 duration) {
  __shared__ volatile u32 room[12 * 1024];
  const u64 end = nanoseconds() + duration;
  do room[threadIdx.x] = threadIdx.x; while (nanoseconds() < end);
}

// Each SM's clocks and the time, in its own place; `end`: beside those of a launch before.
extern "C" __global__ void read_clocks(ClockReading* of_sm, i64 sms, int end) {
  const u32 sm = sm_number();
  if (threadIdx.x || sm >= sms) return;
  of_sm[sm].clocks[end] = clocks();
  of_sm[sm].nanoseconds[end] = nanoseconds();
}

extern "C" __global__ void nothing() {}
)CUDA";

std::string helper_source() {
  return std::string("#include \"foretile/device/arguments.h\"\n#include \"foretile/device/operation.h\"\nusing namespace foretile;\n") + kKernelPrelude + kSharedStructs + "\n" + kKernelSource;
}

}  // namespace foretile::bench
