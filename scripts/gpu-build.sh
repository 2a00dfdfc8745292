#!/usr/bin/env bash
# gpu-build.sh: everything that `make gpu-test` and `make gpu-bench` run on a machine with GPUs, into build/gpu. Needs no GPU, but nvcc,
# NVIDIA's headers and its libnccl.so.2 to link with (make deps). Each program is compiled twice, with our headers and with NVIDIA's; a binary
# asks the loader for libnccl.so.2, so the library is chosen when it runs. GPU_ARCH (sm_90) is nvcc's -arch.
set -euo pipefail
cd "$(dirname "$0")/.."
out=build/gpu
stage=${GINRS_PREFIX:-build/prefix}
source scripts/find-cuda.sh
[ -n "$NVCC" ] || { echo "no nvcc | fix: PATH, NVCC, or make deps" >&2; exit 1; }
[ -n "$NCCL_LIB" ] && [ -n "$NCCL_INCLUDE" ] || { echo "no NCCL 2.28.9 of NVIDIA's | fix: NCCL_LIB and NCCL_INCLUDE, or make deps" >&2; exit 1; }

mkdir -p "$out"/{lib,bin,ours,nvidia}
# Debug information would be most of what travels.
strip -o "$out/lib/libginrs.so.0" "$stage/lib/libginrs.so.0"
ln -sf libginrs.so.0 "$out/lib/libnccl.so.2"
strip -o "$out/bin/ginrs-run" "$stage/bin/ginrs-run"

compile() { # name source
  local set include
  for set in ours nvidia; do
    include=include
    [ $set = ours ] || include=$NCCL_INCLUDE
    # What is newer than all that it is made of stays.
    if [ -e "$out/$set/$1" ] && [ -z "$(find "$include" "$(dirname "$2")" examples-c/common -newer "$out/$set/$1" -print -quit)" ]; then continue; fi
    "$NVCC" -std=c++17 -O2 -arch="${GPU_ARCH:-sm_90}" --extended-lambda -cudart none -I "$include" -o "$out/$set/$1" "$2" \
      -L "$NCCL_LIB" -l:libnccl.so.2 -L "$CUDART_LIB" "-l:$CUDART" || { echo "$2 with $set headers" >&2; return 1; }
  done
}
export -f compile
export NVCC NCCL_LIB NCCL_INCLUDE CUDART CUDART_LIB out
{
  for folder in examples-c/0*/; do name=$(basename "$folder"); echo "${name#*-} $folder/main.cu"; done
  for source in abi-tests/twice/*.cu; do echo "$(basename "$source" .cu) $source"; done
  for name in api moe torture group; do echo "$name abi-tests/programs/$name.cu"; done
} | xargs -P "$(nproc)" -L 1 bash -euc 'compile "$@"' _
[ ! -e scripts/gpu-build-perf.sh ] || scripts/gpu-build-perf.sh "$out"
echo "built in $out: $(du -sh "$out" | cut -f1)"
