// The benchmarks' and checks' own GPU kernels: random data, guard patterns, an fp64 reference. They share no code with
// the kernels under test beyond the plain structs of device/, and are compiled by NVRTC when first used.
#pragma once
#include <string>

#include "foretile/device/arguments.h"
#include "foretile/device/operation.h"

namespace foretile::bench {

// Text and declaration in one, so that host and kernels cannot disagree about a layout.
#define FORETILE_SHARED_WITH_KERNELS(name, ...) \
  __VA_ARGS__                                   \
  inline constexpr const char name[] = #__VA_ARGS__;

FORETILE_SHARED_WITH_KERNELS(
    kSharedStructs,
    // A matrix to fill. Element (row, column) of batch i is derived from (seed, i, row, column) alone, not from where it stands.
    struct FillArguments {
      MatrixArgument x;
      i64 rows, columns, batch;
      u64 seed;
      DType type;
      int values;     // 0 normal; 1 integers -limit..limit; 2 NaN; 3 zero
      int limit;
    };
    struct ReferenceArguments {
      i64 m, n, k, batch;
      MatrixArgument a, b;
      DType a_type, b_type;
      bool transpose_a, transpose_b;
      bool exact;       // integer data whose sums stay below 2^24: no step rounds
      double* sum;      // [batch][m][n]
      double* error;    // [batch][m][n]: how far an fp32 kernel may be off
    };
    struct ExpectArguments {
      i64 m, n, batch;  // of the product: gated, D has n / 2 columns
      Operation operation;
      MatrixArgument c, bias, residual, d;
      double alpha, beta;
      double* sum;      // becomes the lower end of what D may be, where the product's column stands (gated: the gate's)
      double* error;    // becomes the upper end
    };
    // D = silu(gate) * up for gates in the first half of a product's columns, in one 16-bit type; 16-byte accesses.
    struct GateArguments {
      void* product;    // [rows][2 * columns], dense
      void* d;          // [rows][columns], dense
      i64 rows, columns;  // columns: a multiple of 8
      DType type;
    };
    struct Verdict {
      u64 wrong;        // elements outside their interval
      u64 first;        // of the first of them, in D: (batch * m + row) * columns + column
      float worst;      // largest distance from the middle as a part of half the interval, over elements that are right
      u32 unused;
      u64 touched;      // guard bytes that changed
      u64 first_touched;
    };
    // Bytes to stream through a ring in shared memory: `stages` times `copy_bytes`, then a barrier a stage.
    struct ReadArguments {
      const u8* from;
      i64 bytes;            // both multiples of 16
      i64 each, more;       // pieces of kPiece bytes a block, the last one shorter; the first `more` blocks have one more
      u32 stages, copy_bytes;
      static constexpr u32 kPiece = 1024;
    };
    // Of one SM, at the beginning and at the end.
    struct ClockReading {
      u64 clocks[2], nanoseconds[2];
    };
    // Bytes of a buffer that holds a matrix: those of elements may change, all others hold the pattern.
    struct GuardArguments {
      u8* base;
      i64 bytes, data_offset;
      i64 rows, columns, ld, batch, batch_stride;
      int size;
      u32 seed;
      Verdict* verdict;
    };)

// The few operations that are GPU instructions, then everything else in plain CUDA C++; tests run the second part on the
// host with a prelude of their own.
extern const char* const kKernelPrelude;
extern const char* const kKernelSource;
std::string helper_source();  // all of it: one translation unit

}  // namespace foretile::bench
