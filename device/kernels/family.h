// What every kernel family has under its own name: where its code is, and its facts that a launch needs.
#pragma once
#include "foretile/device/kernels/gemm_decode_facts.h"
#include "foretile/device/kernels/gemm_ffma_facts.h"
#include "foretile/device/kernels/gemm_gemv_facts.h"
#include "foretile/device/kernels/gemm_simt_facts.h"
#include "foretile/device/kernels/gemm_sm90_facts.h"

namespace foretile {

struct FamilyCode {
  const char* name;       // in configurations' text, enumerators and file names
  const char* kernel;     // device/kernels/<kernel>.cuh holds the template <Operation, Configuration> of this name
  const char* arguments;  // the struct it takes
};
constexpr FamilyCode code_of(Family f) {
  switch (f) {
    case Family::sm90: return {"sm90", "gemm_sm90", "GemmSm90Arguments"};
    case Family::decode: return {"decode", "gemm_decode", "GemmDecodeArguments"};
    case Family::ffma: return {"ffma", "gemm_ffma", "GemmSimtArguments"};
    case Family::gemv: return {"gemv", "gemm_gemv", "GemmSimtArguments"};
    case Family::simt: break;
  }
  return {"simt", "gemm_simt", "GemmSimtArguments"};
}
constexpr bool needs_hopper(Family f) { return f == Family::sm90 || f == Family::decode; }

constexpr int threads_of(const Configuration& c) {
  return c.family == Family::sm90 ? sm90::threads(c) : c.family == Family::decode ? decode::threads(c) : c.family == Family::ffma ? ffma::threads(c) : c.family == Family::gemv ? gemv::threads(c) : simt::threads(c);
}
// Dynamic shared memory of a block.
constexpr int shared_bytes_of(const Operation& o, const Configuration& c) {
  return c.family == Family::sm90 ? sm90::shared_bytes(o, c) : c.family == Family::decode ? decode::shared_bytes(o, c) : c.family == Family::ffma ? ffma::shared_bytes(c) : c.family == Family::gemv ? gemv::shared_bytes(c) : simt::shared_bytes(c);
}
// Blocks an SM that the launch bounds promise to the compiler.
constexpr int promised_blocks(const Operation& o, const Configuration& c) {
  return c.family == Family::sm90 ? 1 : c.family == Family::decode ? decode::resident_blocks(o, c) : c.family == Family::ffma ? ffma::resident_blocks(c) : c.family == Family::gemv ? gemv::resident_blocks(c) : simt::resident_blocks(c);
}

}  // namespace foretile
