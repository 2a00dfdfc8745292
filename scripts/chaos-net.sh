#!/usr/bin/env bash
# chaos-net.sh [SEEDS] [FROM]: the suite's programs and the mended twins of abi-tests/lawful/mistakes.cu under seeds of GINRS_CHAOS, with
# kernels compiled with our headers and, where they are at hand, with NVIDIA's; over shared memory, and between machines (libfabric).
# Stops at the first that is wrong and prints the command that shows it again. make chaos is another thing: it kills ranks.
set -euo pipefail
cd "$(dirname "$0")/.."
seeds=${1:-100} from=${2:-1}
prefix=${GINRS_PREFIX:-$PWD/build/prefix}
venv=${GINRS_TEST_VENV:-$PWD/build/venv}
export PATH="$prefix/bin:$PATH" GINRS_CPU_DEVICES=64
out=$PWD/build/chaos-net
mkdir -p "$out"
sets=(ours)
for include in "$venv"/lib/python3*/site-packages/nvidia/nccl/include; do
  [ -f "$include/nccl_device.h" ] && sets+=(nvidia) && nvidia=$include
done
for set in "${sets[@]}"; do
  for source in programs/api programs/torture programs/moe lawful/mistakes; do
    ginrs-cc -std=c++17 --extended-lambda -O2 ${nvidia:+$([ "$set" = nvidia ] && echo "-I$nvidia")} \
      -o "$out/$(basename $source).$set" "abi-tests/$source.cu"
  done
done
runs=0
play() { # environment and command
  if ! env "$@" > "$out/log" 2>&1; then
    echo "FAILED: $*"
    tail -20 "$out/log"
    exit 1
  fi
  runs=$((runs + 1))
}
for seed in $(seq "$from" $((from + seeds - 1))); do
  RANDOM=$seed
  ranks=$((2 + RANDOM % 4)) set=${sets[RANDOM % ${#sets[@]}]}
  plan="blocks=$((1 + RANDOM % 5)) threads=64 coop=cta strip=$((4096 << RANDOM % 4)) largest=$((8 << RANDOM % 10)) rounds=2 seed=$RANDOM"
  for where in GINRS_FAKE_NODES= GINRS_FAKE_NODES=per-rank GINRS_FAKE_MACHINES=per-rank; do
    for name in api torture moe; do
      # NVIDIA's putValue makes whole numbers of floating-point ones (D6), which api.cu puts.
      [ "$name.$set" = api.nvidia ] && continue
      play GINRS_CHAOS="$seed" "$where" TORTURE="$plan" ginrs-run -n $ranks --timeout 120 "$out/$name.$set"
    done
    for mistake in source flag poll context halves pressure; do
      play GINRS_CHAOS="$seed" "$where" MISTAKE=$mistake MENDED=1 ginrs-run -n $ranks --timeout 120 "$out/mistakes.$set"
    done
  done
  play GINRS_CHAOS="$seed" TORTURE="$plan" timeout -s ABRT 120 "$out/torture.$set" --threads $ranks
done
echo "chaos-net: $runs runs under seeds $from to $((from + seeds - 1)), all right"
