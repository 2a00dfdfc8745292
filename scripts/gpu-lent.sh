#!/usr/bin/env bash
# gpu-lent.sh: buffers that processes lend each other (docs/user/collectives.md): of cudaMalloc, of ncclMemAlloc, and mapped in pieces; freed, exchanged, and in
# captured calls. Every element is checked, and what was freed is the GPU's again in the end. Part of gpu-test, on the GPUs found, from two on; needs what
# scripts/gpu-build.sh left in build/gpu.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/find-cuda.sh
built=$PWD/build/gpu
[ -x "$built/ours/lent" ] || { echo "$built/ours/lent is not there | fix: make gpu-build, on any machine with nvcc" >&2; exit 1; }
gpus=$(nvidia-smi -L 2> /dev/null | grep -c '^GPU' || true)
[ "$gpus" -ge 2 ] || { echo "lent: skipped: needs 2 GPUs, nvidia-smi -L lists $gpus" >&2; exit 0; }
export NCCL_NVLS_ENABLE=0 LD_LIBRARY_PATH="$built/lib:$CUDART_LIB${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
while read -r label plan; do
  LENT=$plan timeout -s ABRT 120 "$built/bin/ginrs-run" -n "$gpus" "$built/ours/lent" > "$work/log" 2>&1 && status=0 || status=$?
  mapped=$(grep -c ' maps buffer ' "$work/log" || true)
  if [ "$status" = 0 ] && [ "$(grep -c 'free again' "$work/log")" = "$gpus" ] && [ "$mapped" -gt 0 ]; then
    echo "ok     $label: $mapped buffers opened, $(grep -c ' has let go of buffer ' "$work/log" || true) let go of"
  else
    echo "FAILED $label: status $status, $mapped buffers opened"
    tail -n 8 "$work/log"
    failed=1
  fi
done <<'PLANS'
cudaMalloc+ncclMemAlloc rounds=36 calls=36 bytes=4194304
captured rounds=2 calls=4 bytes=4194304 captured=1
messages rounds=36 calls=36 bytes=4194304 messages=1
messages,captured rounds=2 calls=4 bytes=4194304 messages=1 captured=1
pieces rounds=60 calls=36 bytes=16777216 pieces=9
pieces,captured rounds=2 calls=4 bytes=4194304 pieces=3 captured=1
PLANS
exit $failed
