#!/usr/bin/env bash
# chaos-net.sh [--build] [SEEDS] [FROM]: the suite's programs and the mended twins of abi-tests/lawful/mistakes.cu under seeds of GINRS_CHAOS, with
# kernels compiled with our headers and, where they are at hand, with NVIDIA's; over shared memory, by nodes, and between machines (libfabric).
# Stops at what is wrong and prints the command that shows it again. make chaos is another thing: it kills ranks.
#
#   EACH=all   every program at every place, for each seed (52 runs, 49 with NVIDIA's headers)
#   EACH=one   one of them, chosen by the seed: for many seeds
#   JOBS=N     so many runs at a time (the cores there are)
#   --build    compiles alone; build/chaos-net and GINRS_PREFIX are then all that the runs need
set -euo pipefail
cd "$(dirname "$0")/.."
build_only=
if [ "${1:-}" = --build ]; then build_only=1; shift; fi
seeds=${1:-100} from=${2:-1}
each=${EACH:-all} jobs=${JOBS:-$(nproc)}
[ "$each" = all ] || [ "$each" = one ] || { echo "chaos-net.sh: EACH is \"$each\" | fix: all or one" >&2; exit 2; }
[ -n "$build_only" ] || scripts/deps.sh --check scripts/chaos-net.sh
prefix=${GINRS_PREFIX:-$PWD/build/prefix}
venv=${GINRS_TEST_VENV:-$PWD/build/venv}
out=$PWD/build/chaos-net
export PATH="$prefix/bin:$PATH" GINRS_CPU_DEVICES=64 SOAK="seconds=1 blocks=3 threads=64 strip=4096"
mkdir -p "$out"

compile() { # header set, its options
  local source
  for source in programs/api programs/torture programs/moe lawful/mistakes twice/suite; do
    [ -n "$(find "$out/$(basename $source).$1" -newer "$prefix/lib/libginrs.so.0" -newer "abi-tests/$source.cu" 2> /dev/null)" ] ||
      ginrs-cc -std=c++17 --extended-lambda -O2 "${@:2}" -o "$out/$(basename $source).$1" "abi-tests/$source.cu"
  done
}
if command -v g++ > /dev/null && command -v ginrs-cc > /dev/null; then
  compile ours
  for include in "$venv"/lib/python3*/site-packages/nvidia/nccl/include; do
    [ ! -f "$include/nccl_device.h" ] || compile nvidia "-I$include" -DTWICE_NO_API
  done
fi
[ -z "$build_only" ] || exit 0
sets=()
for set in ours nvidia; do [ ! -x "$out/suite.$set" ] || sets+=("$set"); done
[ ${#sets[@]} -gt 0 ] || { echo "chaos-net.sh: $out has no programs | fix: scripts/chaos-net.sh --build where g++ and ginrs-cc are" >&2; exit 1; }

places=(GINRS_FAKE_NODES= GINRS_FAKE_NODES=per-rank GINRS_FAKE_MACHINES=per-rank)
# The commands of a seed, a line each.
runs_of() {
  local seed=$1
  RANDOM=$seed
  local ranks=$((2 + RANDOM % 4)) set=${sets[RANDOM % ${#sets[@]}]} where name mistake
  local plan="blocks=$((1 + RANDOM % 5)) threads=64 coop=cta strip=$((4096 << RANDOM % 4)) largest=$((8 << RANDOM % 10)) rounds=2 seed=$RANDOM"
  local job="ginrs-run -n $ranks --timeout 120 $out"
  for where in "${places[@]}"; do
    for name in api torture moe; do
      # NVIDIA's putValue makes whole numbers of floating-point ones (D6), which api.cu puts.
      [ "$name.$set" = api.nvidia ] || echo "GINRS_CHAOS=$seed $where TORTURE='$plan' $job/$name.$set"
    done
    for name in gin order ginbarriers several soak ring gin-alltoall hybrid-alltoall; do
      echo "GINRS_CHAOS=$seed $where $job/suite.$set $name"
    done
    for mistake in source flag poll context halves pressure; do
      echo "GINRS_CHAOS=$seed $where MISTAKE=$mistake MENDED=1 $job/mistakes.$set"
    done
  done
  echo "GINRS_CHAOS=$seed TORTURE='$plan' timeout -s ABRT 120 $out/torture.$set --threads $ranks"
}
list() {
  local seed runs
  for ((seed = from; seed < from + seeds; seed++)); do
    if [ "$each" = all ]; then
      runs_of "$seed"
    else
      mapfile -t runs < <(runs_of "$seed")
      echo "${runs[seed % ${#runs[@]}]}"
    fi
  done
}
# 255 has xargs start no more.
play() {
  local log
  log=$(mktemp "$out/log.XXXXXX")
  if ! bash -c "exec env $1" > "$log" 2>&1 < /dev/null; then
    { echo "FAILED: $1"; tail -20 "$log"; } > "$log.failed"
    cat "$log.failed"
    exit 255
  fi
  rm -f "$log"
  echo run >> "$out/count"
}
export -f play
export out
rm -f "$out"/log.* "$out/count"
status=0
trap 'echo "chaos-net: cut off behind $(wc -l < "$out/count" 2> /dev/null || echo 0) runs that were right, from seed $from on"; exit 143' TERM INT
list | xargs -d '\n' -P "$jobs" -I{} bash -c 'play "$1"' _ {} &
# In the background, so that a signal is heard at once.
wait $! || status=$?
right=$(wc -l < "$out/count" 2> /dev/null || echo 0)
if [ $status != 0 ]; then
  echo "chaos-net: $right runs right, and FAILED above; all that failed: $out/*.failed"
  exit 1
fi
echo "chaos-net: $right runs under seeds $from to $((from + seeds - 1)), all right"
