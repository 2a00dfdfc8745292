#!/usr/bin/env bash
# gpu-faults.sh [--ranks N] [--jobs J] [CASE ..]: a rank fails in every way there is, on GPUs: do the waits of the others end, and when?
# Kernels compiled with our headers, over the proxy and direct, and with NVIDIA's, which read no abort word; on libginrs only. Needs what
# scripts/gpu-build.sh left in build/gpu. Several cases at a time are faster; the times of one at a time are those of the fault alone.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/find-cuda.sh
built=build/gpu
[ -x $built/ours/fault ] || { echo "$built/ours/fault is not there | fix: make gpu-build, on any machine with nvcc" >&2; exit 1; }
arguments=("$@")
case " $* " in *" --jobs "*) ;; *) arguments+=(--jobs 4) ;; esac
export NCCL_NVLS_ENABLE=0 FAULT_SECONDS=${FAULT_SECONDS:-10}
export LD_LIBRARY_PATH="$built/lib:$CUDART_LIB${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
mkdir -p build/gpu-test
failed=0
run() { # name, program, environment
  local name=$1 program=$2
  shift 2
  echo "== $name"
  # Warnings are what these programs provoke: they are kept apart.
  env "$@" timeout 200 "$program" "${arguments[@]}" 2> "build/gpu-test/faults-$name.stderr" | tee "build/gpu-test/faults-$name.log" | grep -v '^    "' || failed=1
}
run ours-proxy $built/ours/fault NCCL_GIN_BACKEND=proxy
run ours-direct $built/ours/fault NCCL_GIN_BACKEND=direct
run nvidia-headers $built/nvidia/fault NCCL_GIN_BACKEND=proxy
exit $failed
