#!/usr/bin/env bash
# make perf: build/perf/ginrs-perf-cpu for the CPU device and, where there is an nvcc, build/perf/ginrs-perf for GPUs, with libginrs.
# PERF_ARCH (sm_90) is nvcc's -arch.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh --check scripts/perf.sh
source scripts/find-cuda.sh
gpus=yes
if [ -z "$NVCC" ] || [ -z "$CUDART_LIB" ]; then
  gpus=
  echo "skipped: build/perf/ginrs-perf needs nvcc and libcudart | fix: make deps, or set NVCC and CUDART_LIB"
fi
prefix=${GINRS_PREFIX:-$PWD/build/prefix}
mkdir -p build/perf
"$prefix/bin/ginrs-cc" -std=c++17 -O2 -o build/perf/ginrs-perf-cpu perf/main.cu
echo "build/perf/ginrs-perf-cpu"
[ -n "$gpus" ] || exit 0
"$NVCC" -std=c++17 -O3 -arch="${PERF_ARCH:-sm_90}" -cudart none -I "$prefix/include/ginrs" -o build/perf/ginrs-perf perf/main.cu \
  -L "$prefix/lib" -lginrs -L "$CUDART_LIB" "-l:$CUDART" -Xlinker "-rpath,$prefix/lib,-rpath,$CUDART_LIB"
echo "build/perf/ginrs-perf"
