// What every kernel family has under its own name: where its code is, and its facts that a launch needs.
#pragma once
#include "foretile/device/kernels/gemm_decode_facts.h"
#include "foretile/device/kernels/gemm_ffma_facts.h"
#include "foretile/device/kernels/gemm_gemv_facts.h"
#include "foretile/device/kernels/gemm_rows_facts.h"
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
    case Family::rows: return {"rows", "gemm_rows", "GemmDecodeArguments"};
    case Family::simt: break;
  }
  return {"simt", "gemm_simt", "GemmSimtArguments"};
}
constexpr bool uses_tensor_cores(Family f) { return f == Family::sm90 || f == Family::decode; }
constexpr bool needs_hopper(Family f) { return uses_tensor_cores(f) || f == Family::rows; }  // TMA

// What a launch needs to know of a block.
struct BlockFacts {
  int threads;
  int shared_bytes;     // dynamic
  int promised_blocks;  // an SM: what the launch bounds promise to the compiler
};
constexpr BlockFacts block_facts(const Operation& o, const Configuration& c) {
  switch (c.family) {
    case Family::sm90: return {sm90::threads(c), sm90::shared_bytes(o, c), 1};
    case Family::decode: return {decode::threads(c), decode::shared_bytes(o, c), decode::resident_blocks(o, c)};
    case Family::ffma: return {ffma::threads(c), ffma::shared_bytes(o, c), ffma::resident_blocks(c)};
    case Family::gemv: return {gemv::threads(c), gemv::shared_bytes(c), gemv::resident_blocks(c)};
    case Family::rows: return {rows::threads(c), rows::shared_bytes(c), rows::resident_blocks(c)};
    case Family::simt: break;
  }
  return {simt::threads(c), simt::shared_bytes(c), simt::resident_blocks(c)};
}

}  // namespace foretile
