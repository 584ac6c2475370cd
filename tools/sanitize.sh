#!/bin/bash
# The emulator, its tests and the replays of recorded facts under AddressSanitizer and UndefinedBehaviorSanitizer:
# tools/sanitize.sh [--all]. Without --all only a few of the long tests, mutations and chains of the library's kernels, are run.
# The build stands in build-sanitized/. Exit code 0 only if nothing was found.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
source tools/shards.sh
tools/setup.sh
build=build-sanitized
mkdir -p $build
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DFORETILE_TOOL=OFF -DFORETILE_RUNTIME=OFF -DFORETILE_TESTS=ON \
  -DCMAKE_CXX_FLAGS_RELEASE="-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined" \
  >$build/configure.log || { tail -20 $build/configure.log >&2; exit 1; }
programs=(foretile_test_emulator foretile_test_golden foretile_test_counters)
ninja -C $build "${programs[@]}" >$build/build.log || { tail -20 $build/build.log >&2; exit 1; }
export ASAN_OPTIONS=detect_stack_use_after_return=1:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 XDG_CACHE_HOME=$PWD/$build/test-cache
for program in "${programs[@]}"; do
  run_shards $build/$program "$([[ ${1:-} == --all ]] && echo all || echo some)" $build/tests/$program
done
