#!/usr/bin/env bash
# make soak MINUTES=10: the torture program on shapes and seeds drawn at random, until the time is over. Stops at the first
# wrong byte and prints the command that shows it again.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh --check scripts/soak.sh
minutes=${1:-10}
prefix=${GINRS_PREFIX:-$PWD/build/prefix}
export PATH="$prefix/bin:$PATH" GINRS_CPU_DEVICES=64
out=$PWD/build/soak
mkdir -p "$out"
ginrs-cc -std=c++17 --extended-lambda -O2 -o "$out/torture" abi-tests/programs/torture.cu
RANDOM=${SEED:-$$}
pick() { local list=("$@"); echo "${list[RANDOM % ${#list[@]}]}"; }
end=$((SECONDS + minutes * 60)) runs=0 puts=0
while [ $SECONDS -lt $end ]; do
  ranks=$(pick 1 2 3 4 5 7 8 16)
  plan="blocks=$(pick 1 2 4 7) threads=$(pick 32 33 64 256) coop=$(pick cta warp thread) strip=$(pick 512 4096 16384) largest=$(pick 8 200 3000) rounds=$(pick 1 3) seed=$RANDOM"
  nodes=$(pick "" per-rank)
  mode=$(pick threads processes)
  if [ $mode = threads ]; then command=("$out/torture" --threads $ranks); else command=(ginrs-run -n $ranks "$out/torture"); fi
  if ! env TORTURE="$plan" ${nodes:+GINRS_FAKE_NODES=$nodes} timeout -s ABRT 300 "${command[@]}" > "$out/log" 2>&1; then
    echo "FAILED: TORTURE=\"$plan\" ${nodes:+GINRS_FAKE_NODES=$nodes} ${command[*]}"
    tail -20 "$out/log"
    exit 1
  fi
  runs=$((runs + 1))
  puts=$((puts + $(grep -oE '[0-9]+ puts' "$out/log" | awk '{s += $1} END {print s + 0}')))
done
echo "soak: $runs runs, $puts puts, every byte and signal right"
