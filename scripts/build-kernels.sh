#!/usr/bin/env bash
# build-kernels.sh gpu OUT.fatbin | cpu OUT.o [options of ginrs-cc...]
# Compiles the library's kernels (cuda/collectives, cuda/courier.cuh).
# gpu: by nvcc (NVCC, PATH, CUDA_HOME, /usr/local/cuda), for the architectures in GINRS_GPU_ARCHS, and
# as PTX for newer GPUs (docs/gpus.md). Prints OUT, or nothing without nvcc: the library then has no GPU
# collectives, and reports that when one is called.
# cpu: by ginrs-cc as cargo left it in target/release.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1 out=$2
shift 2
source=cuda/collectives
mkdir -p "$(dirname "$out")"
# An output that is newer than all its inputs is not built again.
fresh() { [ -e "$out" ] && [ -z "$(find "$source" cuda/courier.cuh include scripts/build-kernels.sh "$@" -newer "$out" -print -quit)" ]; }

# Architectures that ginrs is built for, as numbers: those of them that this nvcc knows.
supported() {
  local arch
  for arch in 75 80 86 89 90 100 120; do
    if grep -qx "compute_$arch" <<< "$known"; then echo "$arch"; fi
  done
}
# Those of the GPUs of this machine; nothing without a GPU.
visible() { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | tr -d '. ' | grep -xE '[0-9]+' | sort -nu || true; }

refuse() {
  echo "build-kernels.sh: $1 | GINRS_GPU_ARCHS | '$GINRS_GPU_ARCHS', must be 'all', 'native', or numbers of" $known_numbers "| fix: $2" >&2
  exit 2
}

# The architectures of GINRS_GPU_ARCHS, in ascending order. Unset: those of the GPUs of this machine, else all.
architectures() {
  local arch found known_numbers
  known_numbers=$(sed -n 's/^compute_\([0-9]*\)$/\1/p' <<< "$known")
  case ${GINRS_GPU_ARCHS-auto} in
    auto) found=$(visible); [ -n "$found" ] || found=$(supported) ;;
    all | '') found=$(supported) ;;
    native) found=$(visible); [ -n "$found" ] || refuse "no GPU is visible" "make nvidia-smi list one, or name its architecture" ;;
    *) found=$(tr -s ' ,' '\n\n' <<< "$GINRS_GPU_ARCHS" | sort -nu) ;;
  esac
  for arch in $found; do
    grep -qx "$arch" <<< "$known_numbers" || GINRS_GPU_ARCHS=${GINRS_GPU_ARCHS-$arch} refuse "nvcc does not know architecture $arch" "name one of these, or install a newer CUDA"
  done
  echo $found
}

case $kind in
  gpu)
    nvcc=${NVCC:-$(command -v nvcc || true)}
    # The nvcc of an installed ginrs compiles for the CPU device and makes no GPU code.
    if [ -n "$nvcc" ] && "$nvcc" --version 2> /dev/null | grep -q ^ginrs-cc; then nvcc=; fi
    for folder in "${CUDA_HOME:-}" /usr/local/cuda; do
      [ -n "$nvcc" ] || ! [ -x "$folder/bin/nvcc" ] || "$folder/bin/nvcc" --version 2> /dev/null | grep -q ^ginrs-cc || nvcc=$folder/bin/nvcc
    done
    [ -n "$nvcc" ] || { echo "no nvcc: this build has no GPU kernels for collectives (NVCC, PATH or CUDA_HOME names one)" >&2; exit 0; }
    known=$("$nvcc" --list-gpu-arch)
    archs=$(architectures)
    # Another list makes another file.
    [ "$(cat "$out.archs" 2> /dev/null)" = "$nvcc $archs" ] || rm -f "$out"
    if ! fresh; then
      # nvcc's front end takes half of the time. The sources distinguish these architectures only: the
      # others share the front end's output of the one before, if that is in the list.
      codes=()
      for arch in $archs; do
        front=$arch before=$arch
        for shared in 75 80 89 90; do
          if [ "$shared" -le "$arch" ]; then before=$shared; fi
        done
        if [[ " $archs " == *" $before "* ]]; then front=$before; fi
        codes+=(-gencode "arch=compute_$front,code=sm_$arch")
      done
      codes+=(-gencode "arch=compute_$front,code=compute_$front")
      # ptxas with several threads, from CUDA 12.1 on.
      split=() release=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
      if [ -n "$release" ] && [ "$((${release% *} * 100 + ${release#* }))" -ge 1201 ]; then split=(--split-compile 0); fi
      "$nvcc" -std=c++17 -O3 --threads 0 "${split[@]}" -Xfatbin -compress-all -fatbin "${codes[@]}" -I include -o "$out.new" "$source/kernels.cu" >&2
      mv "$out.new" "$out"
      echo "$nvcc $archs" > "$out.archs"
    fi
    realpath "$out"
    ;;
  cpu)
    # ginrs-cc finds its headers from where it lies: a tree of links is enough.
    tree=build/kernels/tree
    mkdir -p "$tree"/{bin,lib/ginrs/cpu,include}
    ln -sfn "$PWD/cuda/cpu/include" "$tree/lib/ginrs/cpu/include"
    ln -sfn "$PWD/include" "$tree/include/ginrs"
    cmp -s target/release/ginrs-cc "$tree/bin/ginrs-cc" || cp target/release/ginrs-cc "$tree/bin/"
    fresh cuda/cpu/include "$tree/bin" || "$tree/bin/ginrs-cc" -std=c++17 -O2 -Xcompiler -fPIC -DGINRS_CPU_OWN_KERNELS "$@" -c -o "$out" "$source/cpu.cu"
    ;;
  *) echo "usage: build-kernels.sh gpu OUT.fatbin | cpu OUT.o" >&2; exit 2 ;;
esac
