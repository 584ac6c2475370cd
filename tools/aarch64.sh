#!/bin/bash
# Builds the emulator and its tests for aarch64 and runs them under qemu-user: tools/aarch64.sh [--all]
# Without --all only a few of the long ones, mutations and chains of the library's kernels, are run.
# The part of the emulator that differs is the switch between fibers (src/emulator/fiber/).
# Works from a clean clone on Debian and Ubuntu; installs the cross-compiler and qemu where they are missing. The build
# stands in build-aarch64/. Exit code 0 only if every test passed.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
source tools/shards.sh
tools/setup.sh
tools/setup.sh --packages g++-aarch64-linux-gnu qemu-user-static googletest

# The header-only libraries are the host's; they may not come with the host's own /usr/include.
build=build-aarch64
deps=$PWD/$build/deps
mkdir -p "$deps/include"
for header in fmt toml++ nlohmann; do ln -sfn /usr/include/$header "$deps/include/$header"; done
interface() {  # PACKAGE TARGET
  mkdir -p "$deps/$1"
  echo "add_library($2 INTERFACE IMPORTED)
set_target_properties($2 PROPERTIES INTERFACE_INCLUDE_DIRECTORIES $deps/include)" >"$deps/$1/$1Config.cmake"
}
interface fmt fmt::fmt-header-only
fmt=$({ cat /usr/include/fmt/{base,core}.h 2>/dev/null || true; } | awk '/^#define FMT_VERSION /{print $3}')
echo "set(fmt_VERSION $((fmt / 10000)).$((fmt / 100 % 100)).$((fmt % 100)))" >>"$deps/fmt/fmtConfig.cmake"
interface tomlplusplus tomlplusplus::tomlplusplus
interface nlohmann_json nlohmann_json::nlohmann_json
mkdir -p "$deps/GTest"
echo 'add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)' >"$deps/GTest/GTestConfig.cmake"

cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_ASM_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_FLAGS_RELEASE=-O1 \
  -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-aarch64-static;-L;/usr/aarch64-linux-gnu" -DCMAKE_PREFIX_PATH="$deps" \
  -DFORETILE_TOOL=OFF -DFORETILE_RUNTIME=OFF -DFORETILE_TESTS=ON >$build/configure.log || { tail -20 $build/configure.log >&2; exit 1; }
ninja -C $build foretile_test_emulator >$build/build.log || { tail -20 $build/build.log >&2; exit 1; }
export FORETILE_CXX=aarch64-linux-gnu-g++ XDG_CACHE_HOME=$PWD/$build/test-cache  # for kernels compiled on demand
run_shards $build/test "$([[ ${1:-} == --all ]] && echo all || echo some)" qemu-aarch64-static -L /usr/aarch64-linux-gnu $build/tests/foretile_test_emulator
