#!/usr/bin/env bash
# build-kernels.sh gpu OUT.fatbin | cpu OUT.o [options of ginrs-cc...]: the library's kernels (cuda/collectives, cuda/courier.cuh).
# gpu: by nvcc (NVCC, PATH, CUDA_HOME, /usr/local/cuda), for the architectures in GINRS_GPU_ARCHS, else for all that this nvcc knows of
# ours; the last also as PTX for GPUs to come. Prints OUT, or nothing where there is no nvcc: the library then has no GPU collectives, and says so when asked for one.
# cpu: by ginrs-cc as cargo left it in target/release.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1 out=$2
shift 2
source=cuda/collectives
mkdir -p "$(dirname "$out")"
# What is newer than all that it is made of stays.
fresh() { [ -e "$out" ] && [ -z "$(find "$source" cuda/courier.cuh include scripts/build-kernels.sh "$@" -newer "$out" -print -quit)" ]; }

case $kind in
  gpu)
    nvcc=${NVCC:-$(command -v nvcc || true)}
    # The nvcc of an installed ginrs, in the PATH of who builds for the CPU device, makes no GPU code.
    if [ -n "$nvcc" ] && "$nvcc" --version 2> /dev/null | grep -q ^ginrs-cc; then nvcc=; fi
    for folder in "${CUDA_HOME:-}" /usr/local/cuda; do
      [ -n "$nvcc" ] || ! [ -x "$folder/bin/nvcc" ] || "$folder/bin/nvcc" --version 2> /dev/null | grep -q ^ginrs-cc || nvcc=$folder/bin/nvcc
    done
    [ -n "$nvcc" ] || { echo "no nvcc: this build has no GPU kernels for collectives (NVCC, PATH or CUDA_HOME names one)" >&2; exit 0; }
    archs=${GINRS_GPU_ARCHS:-}
    if [ -z "$archs" ]; then
      known=$("$nvcc" --list-gpu-arch)
      for arch in 75 80 86 89 90 100 120; do
        if grep -qx "compute_$arch" <<< "$known"; then archs+="${archs:+ }$arch"; fi
      done
    fi
    # Another list makes another file.
    [ "$(cat "$out.archs" 2> /dev/null)" = "$nvcc $archs" ] || rm -f "$out"
    if ! fresh; then
      codes=()
      for arch in $archs; do codes+=(-gencode "arch=compute_$arch,code=sm_$arch"); done
      codes+=(-gencode "arch=compute_$arch,code=compute_$arch")
      "$nvcc" -std=c++17 -O3 --threads 0 -Xfatbin -compress-all -fatbin "${codes[@]}" -I include -o "$out.new" "$source/kernels.cu" >&2
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
