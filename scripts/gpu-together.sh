#!/usr/bin/env bash
# gpu-together.sh: ginrs and NVIDIA's libnccl in one process on two GPUs, in the ways of docs/user/abi-policy.md. Part of gpu-test; needs what
# scripts/gpu-build.sh left in build/gpu.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/find-cuda.sh
built=$PWD/build/gpu
[ -x "$built/ours/together-neither" ] || { echo "$built/ours/together-neither is not there | fix: make gpu-build, on any machine with nvcc" >&2; exit 1; }
[ -n "$NCCL_LIB" ] || { echo "together: skipped, NVIDIA's libnccl.so.2 is not there | fix: NCCL_LIB" >&2; exit 0; }
[ "$(nvidia-smi -L | grep -c '^GPU')" -ge 2 ] || { echo "together: skipped, it takes two GPUs" >&2; exit 0; }
# NVIDIA's folder and not ours has a libnccl.so.2 here; ours is libginrs.so.0 in its own.
ours=$(mktemp -d)
trap 'rm -rf "$ours"' EXIT
ln -s "$built/lib/libginrs.so.0" "$ours/"
export NCCL_NVLS_ENABLE=0 LD_LIBRARY_PATH="$ours:$NCCL_LIB:$CUDART_LIB${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
for way in "neither local" "theirs local" "ours deep"; do
  read -r linked how <<< "$way"
  echo "== linked with $linked, $how"
  timeout 60 "$built/ours/together-$linked" "$ours/libginrs.so.0" "$NCCL_LIB/libnccl.so.2" "$how"
done
