#!/bin/bash
# Collects what a GPU host without our build dependencies needs: bench/carry.sh [BUILD_FOLDER]. Builds the four programs
# and puts them, stripped, into carry/ (ignored by git). They need only the C++ runtime; libcuda, NVRTC and cuBLASLt are
# found at run time on the host. Then, on the GPU host: bench/gpu.sh STEP...
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$build" -j"$(nproc)" --target foretile foretile_bench_tool foretile_ladder_tool foretile_test_gpu
mkdir -p carry
for program in foretile foretile_bench_tool foretile_ladder_tool tests/foretile_test_gpu; do
  strip -o "carry/$(basename "$program")" "$build/$program"
done
ls -la carry
