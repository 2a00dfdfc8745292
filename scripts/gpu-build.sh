#!/usr/bin/env bash
# gpu-build.sh: everything that `make gpu-test`, `make gpu-faults` and `make gpu-bench` run on a machine with GPUs, into build/gpu.
# Needs no GPU, but nvcc, NVIDIA's headers and its libnccl.so.2 to link with (make deps). Each program is compiled twice, with our
# headers and with NVIDIA's; a binary asks the loader for libnccl.so.2, so the library is chosen when it runs. GPU_ARCH (sm_90) is
# nvcc's -arch. The suite holds all of abi-tests/twice, of examples-c, and of abi-tests/programs what is for
# GPUs; coll holds abi-tests/collectives.
set -euo pipefail
cd "$(dirname "$0")/.."
export out=build/gpu
stage=${GINRS_PREFIX:-build/prefix}
source scripts/find-cuda.sh
[ -n "$NVCC" ] || { echo "no nvcc | fix: PATH, NVCC, or make deps" >&2; exit 1; }
[ -n "$NCCL_LIB" ] && [ -n "$NCCL_INCLUDE" ] || { echo "no NCCL 2.28.9 of NVIDIA's | fix: NCCL_LIB and NCCL_INCLUDE, or make deps" >&2; exit 1; }

mkdir -p "$out"/{lib,bin,ours,nvidia}
# Debug information would be most of what travels.
strip -o "$out/lib/libginrs.so.0" "$stage/lib/libginrs.so.0"
cp -f --remove-destination "$stage/lib/ginrs/compat/libnccl.so.2" "$out/lib/"
strip -o "$out/bin/ginrs-run" "$stage/bin/ginrs-run"

compile() { # header set, what to make, source, nvcc's options
  local include=include made=$out/$1/$2
  [ "$1" = ours ] || include=$NCCL_INCLUDE
  # What is newer than all that it is made of stays.
  if [ -e "$made" ] && [ -z "$(find "$include" abi-tests/twice abi-tests/programs abi-tests/collectives abi-tests/together examples-c -newer "$made" -print -quit)" ]; then return; fi
  "$NVCC" -std=c++17 -O2 -arch="${GPU_ARCH:-sm_90}" --extended-lambda -I "$include" -o "$made" "$3" "${@:4}" ||
    { echo "$3 with $1 headers" >&2; return 1; }
}
export -f compile
export NVCC NCCL_LIB NCCL_INCLUDE
link=(-cudart none -L "$NCCL_LIB" -l:libnccl.so.2 -L "$CUDART_LIB" "-l:$CUDART")
{
  echo "ours suite abi-tests/twice/suite.cu ${link[*]}"
  # Its putValue converts a double: api.cu is left out.
  echo "nvidia suite abi-tests/twice/suite.cu -DTWICE_NO_API ${link[*]}"
  for set in ours nvidia; do
    echo "$set fault abi-tests/twice/fault.cu ${link[*]}"
    echo "$set refused abi-tests/programs/refused.cu ${link[*]}"
    echo "$set group abi-tests/programs/group.cu ${link[*]}"
    echo "$set coll abi-tests/collectives/suite.cu ${link[*]}"
    echo "$set documentation abi-tests/collectives/documentation.cu ${link[*]}"
    echo "$set nccltests abi-tests/collectives/nccltests.cu ${link[*]}"
  done
  echo "ours both.o abi-tests/twice/both.cu -c"
  echo "nvidia both.o abi-tests/twice/both.cu -c -DBOTH_THEIRS"
  # scripts/gpu-lent.sh; scripts/gpu-communicators.sh, and docs/internals/gdaki.md
  echo "ours lent abi-tests/collectives/lent.cu ${link[*]} -ldl"
  for program in split shrink nonblocking scalable litmus; do echo "ours $program abi-tests/programs/$program.cu ${link[*]}"; done
  # Linked with neither library, with ours, with NVIDIA's: scripts/gpu-together.sh
  together="abi-tests/together/gpus.cu -cudart none -L $CUDART_LIB -l:$CUDART -ldl"
  echo "ours together-neither $together"
  echo "ours together-ours $together -Xlinker --no-as-needed -Xlinker $stage/lib/libginrs.so.0"
  echo "ours together-theirs $together -Xlinker --no-as-needed -Xlinker $NCCL_LIB/libnccl.so.2"
} | xargs -P "$(nproc)" -L 1 bash -euc 'compile "$@"' _
"$NVCC" -o "$out/both" "$out/ours/both.o" "$out/nvidia/both.o" "${link[@]}"
scripts/gpu-build-perf.sh "$out"
echo "built in $out: $(du -sh "$out" | cut -f1)"
