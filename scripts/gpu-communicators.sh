#!/usr/bin/env bash
# gpu-communicators.sh: split, shrink, revoke, several ids and non-blocking communicators on the GPUs found (up to four), with kernels on
# all that they make, as threads and as processes; and shrinks around killed ranks. With our library alone: NVIDIA's refuses GIN
# without a NIC. Part of gpu-test; needs what scripts/gpu-build.sh left in build/gpu.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/find-cuda.sh
built=$PWD/build/gpu
[ -x "$built/ours/split" ] || { echo "$built/ours/split is not there | fix: make gpu-build, on any machine with nvcc" >&2; exit 1; }
gpus=$(nvidia-smi -L 2> /dev/null | grep -c '^GPU' || true)
[ "$gpus" -ge 4 ] || { echo "communicators: skipped: needs 4 GPUs, nvidia-smi -L lists $gpus" >&2; exit 0; }
export NCCL_NVLS_ENABLE=0 LD_LIBRARY_PATH="$built/lib:$CUDART_LIB${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# Every rank says "ok".
run() { # label, command...
  local label=$1
  shift
  if timeout -s ABRT 60 "$@" > "$work/log" 2>&1 && [ "$(grep -c ': ok,' "$work/log")" = 4 ]; then
    echo "ok     $label"
  else
    echo "FAILED $label"
    tail -n 8 "$work/log"
    failed=1
  fi
}
both() { # label, program
  run "$1, threads" "$built/ours/$2" --threads 4
  run "$1, processes" "$built/bin/ginrs-run" -n 4 "$built/ours/$2"
}
both split split
GINRS_FAKE_NODES=0,0,1,1 both "split of two nodes" split
for what in default abort revoke; do SHRINK=$what both "shrink, $what" shrink; done
both "non-blocking" nonblocking
both "several ids" scalable

# Ranks that are killed: no launcher that would end the others. The last number is the rank that dies.
for case in "kill 3" "dead 3" "during 1" "split 1"; do
  read -r what dies <<< "$case"
  mkdir -m 700 "$work/id"
  for rank in 0 1 2 3; do
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 GINRS_RUN_ID=$work/id SHRINK=$what \
      timeout -s ABRT 60 "$built/ours/shrink" > "$work/$rank" 2>&1 &
  done
  wait
  rm -rf "$work/id"
  for rank in 0 1 2 3; do
    [ "$rank" = "$dies" ] || grep -q "shrink rank $rank: ok, $what" "$work/$rank" || { echo "FAILED shrink, $what, rank $rank"; tail -n 5 "$work/$rank"; failed=1; }
  done
  echo "done   shrink, $what"
done
exit $failed
