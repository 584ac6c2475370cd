#!/bin/bash
# Builds the dump tool and records all golden dumps into FOLDER. Needs nvcc 12.3 or newer and a Hopper GPU; about a minute.
set -euo pipefail
out=$(realpath "${1:?usage: record.sh FOLDER}")
cd "$(dirname "$0")"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
python3 generate_wgmma.py >"$build/wgmma.inc"
nvcc -std=c++17 -O2 -cudart static -gencode=arch=compute_90a,code=sm_90a -I"$build" -o "$build/dump" dump.cu
"$build/dump" "$out"
