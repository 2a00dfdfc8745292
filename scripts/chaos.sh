#!/usr/bin/env bash
# chaos.sh [ROUNDS] [SEED]: a rank fails at random moments of a job's life (abi-tests/chaos/chaos.cu), with kernels compiled with our headers
# and, where NVIDIA's are at hand, with theirs. Default: 200 rounds of each; the seed comes from the clock, and is printed.
# MACHINES=2: the ranks are spread over so many machines that share nothing (GINRS_FAKE_MACHINES).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh --check scripts/chaos.sh
rounds=${1:-200} seed=${2:-$(date +%s)}
prefix=${GINRS_PREFIX:-$PWD/build/prefix}
venv=${GINRS_TEST_VENV:-$PWD/build/venv}
mkdir -p build/chaos
failed=0
play() { # name, options of ginrs-cc
  local name=$1
  shift
  "$prefix/bin/ginrs-cc" -std=c++17 -O2 "$@" -o "build/chaos/$name" abi-tests/chaos/chaos.cu
  echo "== $name: $rounds rounds from seed $seed"
  # Warnings are what these programs provoke: they are kept apart.
  GINRS_CPU_DEVICES=4 "build/chaos/$name" --rounds "$rounds" --seed "$seed" --jobs "${CHAOS_JOBS:-3}" --machines "${MACHINES:-1}" 2> "build/chaos/$name.stderr" || failed=1
}
play ours
for include in "$venv"/lib/python3*/site-packages/nvidia/nccl/include; do
  [ -f "$include/nccl_device.h" ] && play nvidia -I "$include"
done
exit $failed
