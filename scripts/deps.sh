#!/usr/bin/env bash
# deps.sh [--check]: what the build needs. Without --check it installs what is missing (apt-get, as root) and makes the venv
# with the CUDA headers and compiler that the compile tests use; where it cannot, it says which command does.
set -euo pipefail
cd "$(dirname "$0")/.."
check_only=${1:-}

missing=() packages=()
need() { # command package
  command -v "$1" > /dev/null 2>&1 || { missing+=("$1"); packages+=("$2"); }
}
need make make
need cc gcc
need g++ g++
need ld binutils
need objcopy binutils
if [ "$check_only" != --check ]; then
  need clang++ clang
  need pkg-config pkg-config
  need cmake cmake
  need python3 python3-venv
  python3 -c 'import ensurepip' 2> /dev/null || { missing+=("python3 venv"); packages+=(python3-venv); }
fi

if ! command -v "${CARGO:-cargo}" > /dev/null 2>&1; then
  echo "cargo is missing | fix: curl -sSf https://sh.rustup.rs | sh -s -- --default-toolchain 1.95.0" >&2
  exit 1
fi
if [ ${#missing[@]} -gt 0 ]; then
  install="apt-get install -y --no-install-recommends $(printf '%s\n' "${packages[@]}" | sort -u | paste -sd' ')"
  if [ "$check_only" = --check ]; then
    echo "missing: ${missing[*]} | fix: make deps, or: $install" >&2
    exit 1
  fi
  if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "missing: ${missing[*]} | fix: sudo $install" >&2
    exit 1
  fi
  echo "installing: $install"
  apt-get update -qq && $install
fi
[ "$check_only" = --check ] && exit 0

# The compile tests: NVIDIA's compiler and headers, from PyPI. Without them those tests say that they were skipped.
venv=${GINRS_TEST_VENV:-$PWD/build/venv}
if [ -x "$venv/bin/python" ] && ls -d "$venv"/lib/python3*/site-packages/nvidia/nccl > /dev/null 2>&1; then
  echo "compile tests: $venv"
  exit 0
fi
python3 -m venv "$venv"
if ! "$venv/bin/pip" install --quiet --disable-pip-version-check 'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-runtime==13.0.*' \
  'nvidia-cuda-crt==13.0.*' 'nvidia-nvvm==13.0.*' 'nvidia-cuda-cccl==13.0.*' 'nvidia-nccl-cu13==2.28.9'; then
  rm -rf "$venv"
  echo "no NVIDIA compiler or headers (PyPI is out of reach): the nvcc compile tests will be skipped | fix: run make deps online" >&2
fi
