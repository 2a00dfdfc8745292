#!/usr/bin/env bash
# deps.sh [--check]: what the build needs. Without --check it installs what is missing (apt-get, as root) and makes the venv
# with NVIDIA's headers, compiler and library that tests compare with; where it cannot, it says which command does.
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
  need abidw abigail-tools
  need gdb gdb
  need clangd clangd
  need valgrind valgrind
  # ginrs-run --hosts is tested over a real one.
  [ -x /usr/sbin/sshd ] || { missing+=(sshd); packages+=(openssh-server); }
  # What carries between machines is loaded when it is needed.
  ldconfig -p | grep -q 'libfabric\.so\.1 ' || { missing+=(libfabric.so.1); packages+=(libfabric1); }
  [ -e /usr/include/rdma/fabric.h ] || { missing+=(rdma/fabric.h); packages+=(libfabric-dev); }
  # Layouts of what drives a card are held against its headers.
  [ -e /usr/include/infiniband/mlx5dv.h ] || { missing+=(infiniband/mlx5dv.h); packages+=(libibverbs-dev); }
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

# A test opens the pages of ginrs-run --html in a browser (64 MB to fetch, 230 MB installed), and says so where there is none.
if ! command -v chromium-headless-shell chromium chromium-browser google-chrome > /dev/null 2>&1; then
  if [ "$(id -u)" = 0 ] && apt-cache show chromium-headless-shell > /dev/null 2>&1 \
    && apt-get install -y -qq --no-install-recommends chromium-headless-shell > /dev/null; then
    echo "installed: chromium-headless-shell"
  else
    echo "no browser: the pages of ginrs-run --html are not opened by tests | fix: apt-get install chromium-headless-shell"
  fi
fi

# NVIDIA's compiler, and NCCL 2.28.9 with its library, from PyPI; beside it the headers of other versions, each in a folder of its
# own: 2.28.7 has our layouts, 2.28.3 and 2.29.7 must be told apart.
venv=${GINRS_TEST_VENV:-$PWD/build/venv}
offline() {
  echo "cannot fetch $1 for the tests that compare with NVIDIA's headers and library | fix: run make deps online once; GINRS_TEST_VENV can name \
another machine's build/venv" >&2
  exit 1
}
pip=("$venv/bin/pip" install --quiet --disable-pip-version-check)
if ! [ -x "$venv/bin/python" ] || ! ls -d "$venv"/lib/python3*/site-packages/nvidia/nccl > /dev/null 2>&1; then
  python3 -m venv "$venv"
  "${pip[@]}" 'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-nvvm==13.0.*' \
    'nvidia-cuda-cccl==13.0.*' 'nvidia-nccl-cu13==2.28.9' || { rm -rf "$venv"; offline "NVIDIA's compiler and NCCL 2.28.9"; }
fi
for version in 2.28.7 2.28.3 2.29.7; do
  beside=$venv/nccl-$version
  [ -e "$beside/nvidia/nccl/include/nccl.h" ] && continue
  rm -rf "$beside"
  "${pip[@]}" --no-cache-dir --no-deps --target "$beside" "nvidia-nccl-cu13==$version" || { rm -rf "$beside"; offline "NCCL $version"; }
  rm -rf "$beside/nvidia/nccl/lib"
done
echo "NVIDIA's headers, compiler and library: $venv"
