#!/bin/bash
# Runs on a GPU host: bench/gpu.sh STEP... with the programs of bench/carry.sh in carry/ (or in $FORETILE_BIN).
# Files go to $OUT (default: out/). Each step prints a short table; the exit code is 1 if any failed. STEP_LIMIT: no command runs
# for more seconds than that. Tables grow as they are measured: what is cut keeps its rows.
#
#   golden          record the golden dumps (tools/golden/record.sh; needs nvcc)
#   host            host time of a repeated call
#   verify          2,000 random products against fp64, and 300 more of integers, exact
#   faults          the GPU tests: known faults, every configuration at its edges
#   sanitizer       compute-sanitizer memcheck on 50 products, every operand in an allocation of its own size; memcheck and synccheck on
#                   12 each of six decode kernels
#   squares, layers ratio to cuBLASLt's best, bf16 and fp16: M = N = K in 2048, 4096, 8192; the 15 layers at M = 2048, 4096
#   few             the layers at 1, 8, 32, 128, 512 rows, bf16
#   floor           the layers with 100 MB of weights and more at 1, 8, 16, 32 rows, plain and dependent, beside a kernel that only reads them
#   invariant       batch-invariant mode: a row's bits at every M from 1 to 96, 20 shapes
#   gated           SwiGLU on the gate and up layers, one kernel beside cuBLASLt and a gating kernel: plain, then dependent
#   configurations  the tables that the forecast is held against, catalogue_*_h200.csv for bench/results: every configuration of
#                   the catalogue worth timing, bf16 at 93 shapes, few rows first, of 1 to 8192 (SECONDS_LIMIT, default 300:
#                   no new shape after so long)
#   configurations-decode  the decode kernels alone, plain and dependent, 15 layers at M = 1 to 96: tiles as high as M and the next ones
#                   (decode_M.csv and decode_dependent_M.csv, whose rows replace those of the two tables)
#   configurations-fp32, configurations-dependent, configurations-simt
#                   fp32 at 64 shapes; bf16 in dependent launches at 60 shapes of few rows; the portable kernel alone
#   ladder          every rung at 1024, 4096 and 8192; every tile of rungs 3 to 8 at 512 to 8192; other shapes; and 300 random
#                   products of every kernel (ladder_*.csv for bench/results)
#   calibrate       foretile calibrate with its built-in set: a machine file, and the model's error (needs foretile beside the tool)
#
# About: verify 4 min at most, sanitizer 1-2, squares 1, layers 6 (3 a type), few 2, floor 2, invariant 1, gated 5, faults 5,
# configurations 5 (decode 1.5, fp32 1, dependent 1, simt 0.5), ladder 5, calibrate 2.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=${FORETILE_BIN:-carry}
out=${OUT:-out}
mkdir -p "$out"
export FORETILE_CACHE=${FORETILE_CACHE:-/tmp/foretile-cache}
log=$out/log.txt
failed=()

step() {  # NAME SECONDS COMMAND...: progress to the log, the result to both
  local name=$1 limit=$2 begin=$SECONDS code=0
  shift 2
  if [ "${STEP_LIMIT:-$limit}" -lt "$limit" ]; then limit=$STEP_LIMIT; fi
  echo "== $name" | tee -a "$log"
  timeout "$limit" "$@" 2>>"$log" | tee -a "$log"
  code=${PIPESTATUS[0]}
  if [ "$code" -ne 0 ]; then
    failed+=("$name (exit $code)")
    tail -n 5 "$log"
  fi
  echo "-- $name: $((SECONDS - begin)) s, exit $code" | tee -a "$log"
}

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer /usr/local/cuda*/compute-sanitizer/compute-sanitizer 2>/dev/null | head -n 1)
speed() {  # SUITE MS TYPE
  step "$1 $3" 590 "$bin/foretile_bench_tool" bench --suite "$1" --m "$2" --dtype "$3" --csv "$out/$1_$3.csv" --winners "$out/cublaslt_winners.csv"
}
table() {  # NAME OPTIONS...
  step "table $1" 590 "$bin/foretile_bench_tool" configurations --seconds "${SECONDS_LIMIT:-300}" --csv "$out/catalogue_$1_h200.csv" "${@:2}"
}
# Winners found earlier save the search.
[ -f bench/results/cublaslt_winners.csv ] && cp bench/results/cublaslt_winners.csv "$out/"

for what in "$@"; do
  case $what in
    golden) step golden 120 tools/golden/record.sh "$out" ;;
    host) step host 60 "$bin/foretile_bench_tool" host-time ;;
    verify)
      step verify 400 "$bin/foretile_bench_tool" verify --count 2000 --seed "${SEED:-1}"
      step integers 120 "$bin/foretile_bench_tool" verify --count 300 --seed "${SEED:-2}" --integers
      ;;
    faults) step faults 580 bash -c "'$bin/foretile_test_gpu' --gtest_brief=1 2>&1 | tail -n 60; exit \${PIPESTATUS[0]}" ;;
    sanitizer)
      sanitized() {  # NAME TOOL OPTIONS OF VERIFY...
        step "$1" 400 bash -c "'$sanitizer' --tool $2 --error-exitcode 9 '$bin/foretile_bench_tool' verify --seed 7 --exact-allocations ${*:3} | tail -n 40; exit \${PIPESTATUS[0]}"
      }
      sanitized sanitizer memcheck --count 50 --max-size 700
      for c in 8x64x128:s6 8x64x128:s12:k2 16x64x128:s5:k8 32x64x128:s8 64x64x128:s6:k2 96x128x64:s6:k2; do
        for tool in memcheck synccheck; do sanitized "sanitizer $tool decode:$c" $tool --count 12 --max-size 1400 --config decode:$c; done
      done
      ;;
    squares) speed squares 2048,4096,8192 bf16; speed squares 2048,4096,8192 fp16 ;;
    layers) speed layers 2048,4096 bf16; speed layers 2048,4096 fp16 ;;
    few) step few 400 "$bin/foretile_bench_tool" bench --suite layers --m 1,8,32,128,512 --csv "$out/few_bf16.csv" --winners "$out/cublaslt_winners.csv" ;;
    floor)
      large=$(for m in 1 8 16 32; do printf '%s,' ${m}x28672x4096 ${m}x4096x14336 ${m}x7168x8192 ${m}x7168x16384 ${m}x8192x8192; done)
      for mode in "" --dependent; do
        step "floor${mode/--/ }" 300 "$bin/foretile_bench_tool" bench --floor $mode --suite "${large%,}" --csv "$out/floor${mode/--/_}_bf16.csv" --winners "$out/cublaslt_winners.csv"
      done
      ;;
    invariant) step invariant 300 "$bin/foretile_bench_tool" invariant ;;
    gated)
      for mode in "" --dependent; do
        step "gated${mode/--/ }" 300 "$bin/foretile_bench_tool" bench --gated $mode --m "${MS:-1,8,16,32,64,96,4096}" --csv "$out/gated${mode/--/_}_bf16.csv" --winners "$out/cublaslt_winners.csv"
      done
      ;;
    configurations) table bf16 --suite catalogue --dtype bf16 ;;
    configurations-fp32)
      table fp32_layers --suite layers --m 1,8,64,512 --dtype fp32
      table fp32_squares --suite squares --m 1024,2048,4096,8192 --dtype fp32
      ;;
    configurations-dependent) table bf16_dependent --suite layers --m 8,32,64,96 --dtype bf16 --dependent ;;
    configurations-decode)
      # Every decode configuration of the catalogue with tiles so high: choose lists them all, the ruled-out ones too.
      tiles() { "$bin/foretile" choose --m 1 --n 8192 --k 8192 --json | grep -oE "\"decode:($1)x[^\"]*" | tr -d '"' | sort -u | paste -sd,; }
      for mode in "" --dependent; do
        for pair in "1,8 8|16" "16 16|32" "32 32|64" "64 64|96" "96 96"; do
          ms=${pair% *} heights=${pair#* }
          step "decode ${mode#--} M=$ms" 120 "$bin/foretile_bench_tool" configurations --suite layers --m "$ms" --configs "$(tiles "$heights")" $mode --csv "$out/decode${mode/--/_}_${ms//,/_}.csv"
        done
      done
      ;;
    configurations-simt)
      for type in bf16 fp32; do
        table "simt_$type" --suite 1x4096x4096,16x4096x4096,64x1024x8192,128x4096x4096,333x777x555,512x4096x4096,1024x6144x4096,2048x2048x2048 --dtype $type \
          --configs simt:128x128x8:t8x8,simt:64x64x16:t4x4,simt:32x32x16:t4x4
      done
      ;;
    ladder)
      ladder=$bin/foretile_ladder_tool
      step "ladder times" 180 "$ladder" times --sizes 1024,4096,8192 --repeats 3 --csv "$out/ladder_times.csv"
      step "ladder sweep" 180 "$ladder" sweep --sizes 512,1024,2048,4096,8192 --repeats 3 --arm-seconds 0.02 --csv "$out/ladder_sweep.csv"
      step "ladder shapes" 120 "$ladder" times --all --no-library --repeats 3 --arm-seconds 0.01 --csv "$out/ladder_shapes.csv" \
        --sizes 1024x1024x512,1024x1024x4096,1536x1408x2048,3072x1408x2048,128x128x4096,768x768x768,1536x1536x1536
      step "ladder verify" 300 xargs -n 1 -P 13 "$ladder" verify --count 300 --rung < <(seq 0 12)  # a process a rung
      ;;
    calibrate) step calibrate 300 "$bin/foretile" calibrate --out "$out/calibrated.toml" ;;
    *) echo "unknown step $what" >&2; exit 2 ;;
  esac
done
if [ ${#failed[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "all steps passed"
