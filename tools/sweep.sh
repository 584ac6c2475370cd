#!/bin/bash
# Every built-in kernel, and configurations beyond the catalogue, in the emulator: each in 3 asynchronous modes and 20 schedules.
# Nothing may be reported. ./test runs a sample of it (tests/emulator/sweep_test.cc); this is all, and takes minutes.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
source tools/setup_build.sh
build_foretile '' foretile_test_emulator
FORETILE_SWEEP=full XDG_CACHE_HOME=$PWD/build/test-cache exec build/tests/foretile_test_emulator --gtest_brief=1 --gtest_filter='Sweep.*'
