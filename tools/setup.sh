#!/bin/bash
# Installs what Foretile needs to build: tools/setup.sh [--compiler-for-kernels | --packages NAME...]
# Debian and Ubuntu packages, with sudo where needed; nothing that is there is installed again. With the flag also NVRTC and
# nvdisasm (from PyPI, into build/python) where this machine has no CUDA toolkit: they compile and inspect the kernels.
# With --packages those are installed instead. Says nothing when there is nothing to do. Exit code 1 with the reason when something could not be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
say() { echo "foretile set-up: $*" >&2; }

if [[ ${1:-} == --packages ]]; then
  packages=("${@:2}")
else
  packages=(g++ cmake ninja-build libfmt-dev libtomlplusplus-dev nlohmann-json3-dev libcli11-dev libgtest-dev)
fi
[[ ${1:-} == --compiler-for-kernels ]] && packages+=(python3-venv)

install_packages() {
  local missing=() as_root=()
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [[ ${#missing[@]} -eq 0 ]] && return
  if [[ $(id -u) -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
      say "these packages are missing and neither root nor sudo is at hand. As root, run:"
      say "  apt-get install -y ${missing[*]}"
      exit 1
    fi
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  mkdir -p build
  local log=build/setup.log
  apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" >>$log 2>&1; }
  # The package lists of a fresh container are empty or old: refresh them only if the first try fails.
  if ! apt install -y --no-install-recommends "${missing[@]}"; then
    apt update || true
    if ! apt install -y --no-install-recommends "${missing[@]}"; then
      tail -5 $log >&2
      say "apt-get could not install ${missing[*]} (log: $log)"
      exit 1
    fi
  fi
}

if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
  install_packages "${packages[@]}"
elif ! command -v cmake >/dev/null; then
  say "this is not a Debian or Ubuntu system. Install what these packages hold, then run again: ${packages[*]}"
  exit 1
fi

# --- NVRTC and nvdisasm, for the tests of compiled kernels and for machines with a GPU but no toolkit.
[[ ${1:-} == --compiler-for-kernels ]] || exit 0
wheels=()
# nvdisasm has no wheel of 13.0; a newer one reads older code.
shopt -s nullglob
nvrtc=(/usr/local/cuda*/lib64/libnvrtc.so.1[23] /usr/lib/*/libnvrtc.so.1[23] build/python/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1[23])
[[ ${#nvrtc[@]} -gt 0 ]] || ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so\.1[23]' || wheels+=('nvidia-cuda-nvrtc==13.0.*')
nvdisasm=(/usr/local/cuda*/bin/nvdisasm build/python/lib/python3*/site-packages/nvidia/*/bin/nvdisasm)
[[ ${#nvdisasm[@]} -gt 0 ]] || command -v nvdisasm >/dev/null || wheels+=('nvidia-cuda-nvdisasm==13.2.*')
[[ ${#wheels[@]} -eq 0 ]] && exit 0
say "installing ${wheels[*]} into build/python"
mkdir -p build
if ! { { [[ -x build/python/bin/pip ]] || python3 -m venv build/python; } &&
       build/python/bin/pip install --quiet --disable-pip-version-check "${wheels[@]}"; } >>build/setup.log 2>&1; then
  tail -3 build/setup.log >&2
  say "could not be had from PyPI: tests that compile kernels will skip and say so (log: build/setup.log)"
fi
