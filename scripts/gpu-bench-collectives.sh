#!/usr/bin/env bash
# gpu-bench-collectives.sh [--quick] [--ranks "2 4"] [--turns N] [--ways "ll staged .."] [--out FOLDER]: host collectives on the GPUs found, ours beside NVIDIA's library, by one
# program (abi-tests/collectives/nccltests.cu) that finds either as libnccl.so.2. The libraries take turns (A B, B A, ..) in one call; every figure is a
# median over the turns. With --ways it measures these of GINRS_COLLECTIVE instead, on plain memory, beside what is chosen and NVIDIA's. Needs what scripts/gpu-build.sh left in build/gpu: no compiler, no network. NVLINK multicast is off for both.
set -euo pipefail
cd "$(dirname "$0")/.."
ranks= ways= out=build/gpu-bench-collectives turns=2 factor=4 limit=${GPU_BENCH_LIMIT:-90}
while [ $# -gt 0 ]; do
  case $1 in
    --quick) factor=16 turns=1 ;;
    --ranks) ranks=$2; shift ;;
    --turns) turns=$2; shift ;;
    --ways) ways=$2; shift ;;
    --out) out=$2; shift ;;
    *) echo "gpu-bench-collectives.sh: $1 is unknown; see the head of the script" >&2; exit 2 ;;
  esac
  shift
done
source scripts/find-cuda.sh
built=${GPU_BUILT:-build/gpu}
program=$built/ours/nccltests
[ -x "$program" ] || { echo "$program is not there | fix: make gpu-build, on any machine with nvcc" >&2; exit 1; }
[ -n "$NCCL_LIB" ] || echo "NVIDIA's libnccl.so.2 is not there: ours alone | fix: NCCL_LIB" >&2
found=$(nvidia-smi -L | grep -c '^GPU') || { echo "no GPU found | $0 | nvidia-smi -L lists none | fix: run it on a machine with a GPU" >&2; exit 1; }
if [ -z "$ranks" ]; then
  for n in 2 4 8; do [ "$n" -gt "$found" ] || ranks="$ranks $n"; done
fi
[ -n "$ranks" ] || { echo "only $found GPU: this needs two" >&2; exit 1; }
rm -rf "$out"
mkdir -p "$out"
export NCCL_NVLS_ENABLE=0 CUDA_MODULE_LOADING=EAGER

# library ranks turn: all-reduce over all sizes on registered memory and on cudaMalloc's, with and without graphs; the others at four sizes.
run() {
  local library=$built/lib name=$out/$1-$2-$3
  [ "$1" = ours ] || library=$NCCL_LIB
  local measure=(env LD_LIBRARY_PATH="$library:$CUDART_LIB${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" timeout "$limit" "$program" -t "$2" --json "$name.json")
  local others=AllGather,ReduceScatter,Broadcast,Reduce,AlltoAll,Gather,Scatter
  "${measure[@]}" -b 1K -e 256M -f $factor -n 20 -w 5 -a 3 -R 2,0 -G 0,4 > "$name.log" 2>&1 &&
    "${measure[@]}" -b 16K -e 64M -f 16 -n 20 -w 5 -a 3 -R 2,0 -G 4 -C $others >> "$name.log" 2>&1 ||
    echo "$1 on $2 ranks failed: $(grep -v '^#' "$name.log" | tail -n 1)" | tee -a "$out/failed" >&2
}
# arm ranks turn: what the choice of a way goes by.
run_way() {
  local library=$built/lib name=$out/$1-$2-$3
  [ "$1" != nvidia ] || library=$NCCL_LIB
  local way=${1#way_}
  case $way in chosen | nvidia) way=auto ;; esac
  env LD_LIBRARY_PATH="$library:$CUDART_LIB${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" GINRS_COLLECTIVE="$way" timeout "$limit" "$program" -t "$2" \
    --json "$name.json" -b 256K -e 64M -f "$factor" -n 20 -w 5 -a 3 -R 0 -G 4 -C all > "$name.log" 2>&1 ||
    echo "$1 on $2 ranks failed: $(grep -v '^#' "$name.log" | tail -n 1)" | tee -a "$out/failed" >&2
}

SECONDS=0
for n in $ranks; do
  for ((turn = 0; turn < turns; turn++)); do
    arms=(ours nvidia) how=run
    if [ -n "$ways" ]; then
      arms=(way_chosen) how=run_way
      for way in $ways; do arms+=("way_$way"); done
      arms+=(nvidia)
    fi
    for ((i = 0; i < ${#arms[@]}; i++)); do
      # There and back.
      arm=${arms[turn % 2 ? ${#arms[@]} - 1 - i : i]}
      [ "$arm" != nvidia ] || [ -n "$NCCL_LIB" ] || continue
      "$how" "$arm" "$n" "$turn"
    done
  done
done
echo "measured in $SECONDS s; logs and rows in $out" >&2
python3 perf/report_collectives.py "$out"
