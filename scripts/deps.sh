#!/usr/bin/env bash
# deps.sh: prerequisites of make targets and scripts; the only file that names packages.
#
#   deps.sh                    as root installs the packages of `make test`, otherwise prints the
#                              command; makes the venv with NVIDIA's headers, compiler and library
#   deps.sh --check TARGET..   reports missing prerequisites of make targets or scripts with the
#                              command that provides them; status 1 if any is missing
#   deps.sh --get ITEM         as root installs an optional prerequisite; prints the reason and
#                              fails if it stays missing
set -euo pipefail
cd "$(dirname "$0")/.."
export DEBIAN_FRONTEND=noninteractive

# Items of a target, all of them checked before any work. Targets without a row need nothing.
needs_of() { # target
  local build='make cc g++ ld objcopy cargo' machines=
  [ "${MACHINES:-1}" = 1 ] || machines=libfabric.so.1
  case $1 in
    build | stage | install | demo | bench | perf | soak | asan | tsan) echo "$build" ;;
    scripts/bench.sh) echo "$build staged" ;;
    scripts/perf.sh | scripts/soak.sh) echo "g++ staged" ;;
    chaos) echo "$build $machines" ;;
    scripts/chaos.sh) echo "g++ staged $machines" ;;
    chaos-net) echo "$build libfabric.so.1" ;;
    scripts/chaos-net.sh) echo "libfabric.so.1" ;;
    machines) echo "$build root ip libfabric.so.1" ;;
    scripts/launchers.sh) echo "root ip libfabric.so.1 sshd ssh-keygen g++ staged" ;;
    rxe) echo "$build $(needs_of rxe-guest)" ;;
    scripts/rxe/run.sh) echo "g++ staged $(needs_of rxe-guest)" ;;
    rxe-guest) echo "root apt-get qemu-system-x86_64 busybox cpio rdma librxe-rdmav34.so libfabric.so.1" ;;
    headers | check-headers | simulate | fuzz-elements) echo "cc cargo" ;;
    fuzz | scripts/fuzz.sh) echo "cc g++ cargo" ;;
    fmt) echo "cargo cargo-fmt" ;;
    clippy) echo "cc cargo cargo-clippy" ;;
    abi-full) echo "$build nvcc nccl" ;;
    gpu-build) echo "$build nvcc nccl" ;;
    # Its option --from needs no GPU: the script checks for one.
    gpu-test) echo "python3" ;;
    gpu-faults) echo "gpu build/gpu/ours/fault" ;;
    gpu-bench) echo "gpu build/gpu/perf/ginrs-perf-ours" ;;
    gpu-bench-collectives) echo "gpu build/gpu/ours/nccltests" ;;
    gpu-bench-pytorch) echo "python3 torch gpu build/gpu/lib/libnccl.so.2" ;;
    gpu-theirs) echo "gpu nccl build/gpu/soft/libibverbs.so.1" ;;
    test)
      echo "$build git clang++ pkg-config cmake python3 ensurepip abidw gdb clangd valgrind ip kill sshd"
      echo "libfabric.so.1 rdma/fabric.h infiniband/mlx5dv.h"
      ;;
  esac
}

package_of() { # item; nothing for what no package provides
  case $1 in
    cc) echo gcc ;;
    ld | objcopy) echo binutils ;;
    clang++) echo clang ;;
    ensurepip) echo python3-venv ;;
    abidw) echo abigail-tools ;;
    ip | rdma) echo iproute2 ;;
    kill) echo procps ;;
    sshd) echo openssh-server ;;
    ssh-keygen) echo openssh-client ;;
    libfabric.so.1) echo libfabric1 ;;
    rdma/fabric.h) echo libfabric-dev ;;
    infiniband/mlx5dv.h) echo libibverbs-dev ;;
    librxe-rdmav34.so) echo ibverbs-providers ;;
    qemu-system-x86_64) echo qemu-system-x86 ;;
    busybox) echo busybox-static ;;
    make | g++ | git | pkg-config | cmake | python3 | gdb | clangd | valgrind | cpio | mmdebstrap) echo "$1" ;;
  esac
}

fix_of() { # item that no package provides
  case $1 in
    cargo) echo "curl -sSf https://sh.rustup.rs | sh -s -- --default-toolchain $rust" ;;
    cargo-fmt) echo "rustup component add rustfmt" ;;
    cargo-clippy) echo "rustup component add clippy" ;;
    root) echo "run it as root" ;;
    apt-get) echo "run it on Debian, whose kernel package it fetches" ;;
    nvcc) echo "make deps, or set NVCC" ;;
    nccl) echo "make deps, or set NCCL_INCLUDE and NCCL_LIB" ;;
    gpu) echo "run it on a machine where nvidia-smi -L lists a GPU" ;;
    torch) echo "pip install torch" ;;
    build/gpu/soft/*) echo "scripts/gpu-theirs.sh --build, on any machine with nvcc" ;;
    build/gpu/perf/*) echo "scripts/gpu-build-perf.sh, on any machine with nvcc" ;;
    build/gpu/*) echo "make gpu-build, on any machine with nvcc" ;;
    staged) echo "make stage, or set GINRS_PREFIX" ;;
  esac
}

rust=$(sed -n 's/^rust-version = "\(.*\)"/\1.0/p' Cargo.toml | head -1)
# An older cargo fails at the manifest, and its error does not name the version.
has_cargo() {
  local version
  version=$("${CARGO:-cargo}" -V 2> /dev/null | cut -d' ' -f2) || return 1
  [ -n "$version" ] && [ "$(printf '%s\n' "$rust" "$version" | sort -V | head -1)" = "$rust" ]
}

# ldconfig is not in the PATH of ordinary users. `grep -q` exits at the first match, which pipefail
# reports as a failure of ldconfig.
has_library() { # file name
  local folder path=${LD_LIBRARY_PATH:-}
  for folder in ${path//:/ }; do [ ! -e "$folder/$1" ] || return 0; done
  [[ $(PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2> /dev/null) == *"$1 ("* ]]
}

has() { # item
  case $1 in
    cargo) has_cargo ;;
    root) [ "$(id -u)" = 0 ] ;;
    staged) [ -x "${GINRS_PREFIX:-build/prefix}/bin/ginrs-cc" ] ;;
    gpu) [[ $(nvidia-smi -L 2> /dev/null) == GPU* ]] ;;
    nvcc) (set +eu; source scripts/find-cuda.sh; [ -n "$NVCC" ]) ;;
    nccl) (set +eu; source scripts/find-cuda.sh; [ -n "$NCCL_INCLUDE" ] && [ -n "$NCCL_LIB" ]) ;;
    torch | ensurepip) python3 -c "import $1" 2> /dev/null ;;
    sshd) [ -x /usr/sbin/sshd ] ;;
    librxe-rdmav34.so) compgen -G "/usr/lib/*/libibverbs/$1" > /dev/null ;;
    # The first program of a guest cannot load libraries.
    busybox) command -v busybox > /dev/null && ! ldd "$(command -v busybox)" > /dev/null 2>&1 ;;
    lib*.so.*) has_library "$1" ;;
    *.h) [ -e "/usr/include/$1" ] ;;
    */*) [ -e "$1" ] ;;
    # A file in PATH: `kill` is also a builtin of the shell.
    *) type -P "$1" > /dev/null ;;
  esac
}

title() { case $1 in */*) echo "$*" ;; *) echo "make $*" ;; esac; } # target..
# Sets `packages` to the missing packages and `named` to their items. Reports missing items that no
# package provides, and fails if there is one.
find_missing() { # target..
  local target item package lacks=0
  local -A seen=()
  packages=() named=()
  for target in "$@"; do
    for item in $(needs_of "$target"); do
      [ -z "${seen[$item]:-}" ] || continue
      seen[$item]=1
      ! has "$item" || continue
      package=$(package_of "$item")
      if [ -n "$package" ]; then
        packages+=("$package") named+=("$item")
      else
        echo "missing prerequisite | $(title "$target") | $item | fix: $(fix_of "$item")" >&2
        lacks=1
      fi
    done
  done
  [ ${#packages[@]} = 0 ] || mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
  return $lacks
}

as_root() { [ "$(id -u)" = 0 ] || echo "sudo "; }
command_for() { echo "$(as_root)apt-get install -y --no-install-recommends $*"; }
can_install() { [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; }
# The timeouts are for machines without a network. Package lists that cannot be updated may suffice.
install_packages() {
  local options=(-qq -o DPkg::Lock::Timeout=60 -o Acquire::Retries=1)
  options+=(-o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20)
  apt-get "${options[@]}" update || true
  apt-get "${options[@]}" install -y --no-install-recommends "$@"
}

case ${1:-} in
  --check)
    shift
    [ $# -gt 0 ] || set -- build
    status=0
    find_missing "$@" || status=1
    if [ ${#packages[@]} -gt 0 ]; then
      echo "missing prerequisites | $(title "$@") | ${named[*]} | fix: $(command_for "${packages[@]}")" >&2
      status=1
    fi
    exit $status
    ;;
  --get)
    item=$2 package=$(package_of "$2") log=build/deps.log
    ! has "$item" || exit 0
    if ! can_install; then
      echo "needs $package ($(as_root)apt-get install $package)"
      exit 1
    fi
    mkdir -p build
    echo "installing: $(command_for "$package")" >&2
    install_packages "$package" > $log 2>&1 && has "$item" && exit 0
    reason=$(grep -m1 '^[EW]: Failed to fetch' $log || grep -m1 '^E: ' $log || echo "see $log")
    echo "needs $package (apt-get install $package failed: ${reason#?: })"
    exit 1
    ;;
  '') ;;
  *) echo "deps.sh: unknown option | $1 | fix: see the head of the script" >&2; exit 2 ;;
esac

find_missing test || exit 1
if [ ${#packages[@]} -gt 0 ]; then
  command=$(command_for "${packages[@]}")
  can_install || { echo "missing prerequisites | make test | ${named[*]} | fix: $command" >&2; exit 1; }
  echo "installing: $command"
  if ! install_packages "${packages[@]}"; then
    echo "cannot install packages | make deps | ${packages[*]} | fix: connect to Debian's packages, then $command" >&2
    exit 1
  fi
fi

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
