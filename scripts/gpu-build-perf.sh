#!/usr/bin/env bash
# gpu-build-perf.sh [FOLDER]: ginrs-perf for GPUs, with our headers and with NVIDIA's, into FOLDER/perf (build/gpu/perf). Needs no GPU.
# The library is chosen when it runs: whatever libnccl.so.2 the loader finds. PERF_ARCH (sm_90) is nvcc's -arch.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/gpu}/perf
source scripts/find-cuda.sh
[ -n "$NVCC" ] || { echo "no nvcc | fix: PATH, NVCC, or make deps" >&2; exit 1; }
[ -n "$NCCL_LIB" ] || { echo "no libnccl.so.2 to link with | fix: NCCL_LIB, or make deps" >&2; exit 1; }
mkdir -p "$out"

build() { # name, include folder
  echo "nvcc $out/$1"
  "$NVCC" -std=c++17 -O3 -arch="${PERF_ARCH:-sm_90}" -cudart none -I "$2" -o "$out/$1" perf/main.cu \
    -L "$NCCL_LIB" -l:libnccl.so.2 -L "$CUDART_LIB" "-l:$CUDART"
}
build ginrs-perf-ours include
if [ -n "$NCCL_INCLUDE" ]; then
  build ginrs-perf-nvidia "$NCCL_INCLUDE"
else
  rm -f "$out/ginrs-perf-nvidia"
  echo "NVIDIA's headers are not here: no side-by-side build | fix: NCCL_INCLUDE, or make deps" >&2
fi
