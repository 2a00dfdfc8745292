#!/usr/bin/env bash
# make demo: every example on 4 ranks, as processes, as threads, and some as processes of two
# simulated machines that share no memory; prints a table of the results. Rows across machines need
# libfabric1: root installs it, for other users these rows are skipped.
# Uses the staged tree as a user would: only PATH is set.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${GINRS_PREFIX:-$PWD/build/prefix}
export PATH="$prefix/bin:$PATH"
out=$PWD/build/demo
rm -rf "$out" && mkdir -p "$out"
ranks=4 two_machines=0,0,1,1
failed=0 skipped=0
# The reason why no row can run across machines; empty if libfabric is here.
without=$(scripts/deps.sh --get libfabric.so.1) || true

row() { printf '%-18s %5s  %-9s  %-34s %12s %9s  %s\n' "$@"; }

# What the library said it took, from its log: LSA spans a node, GIN goes over the transport chosen for each peer.
path_taken() { # program log...
  local program=$1; shift
  local gin lsa
  gin=$({ grep -hoE 'GIN rank [0-9]+ -> ranks? [^:]+: [a-z]+' "$@" 2> /dev/null || true; } | awk '{print $NF}' | sort -u | paste -sd+ -)
  lsa="LSA"
  case $program in
    hello|ring|gin-alltoall) echo "GIN over ${gin:-?}" ;;
    hybrid-alltoall) echo "LSA in node, GIN over ${gin:-?}" ;;
    *) echo "$lsa" ;;
  esac
}

run() { # program mode
  local program=$1 mode=$2 log="$out/$1.$2" status=0
  local command
  export NCCL_DEBUG=INFO NCCL_DEBUG_FILE="$log.nccl.%p"
  case $mode in
    processes) command=(ginrs-run -n "$ranks" --timeout 120 "$out/$program") ;;
    threads) command=(timeout 120 "$out/$program" --threads "$ranks") ;;
    machines) command=(env GINRS_FAKE_MACHINES="$two_machines" ginrs-run -n "$ranks" --timeout 120 "$out/$program") ;;
  esac
  case $program.$mode in
    hybrid-alltoall.processes) command=(ginrs-run -n "$ranks" --timeout 120 sh -c "NCCL_HOSTID=node\$((RANK / 2)) exec $out/$program") ;;
    hybrid-alltoall.threads) command=(env GINRS_FAKE_NODES="$two_machines" "${command[@]}") ;;
  esac
  "${command[@]}" > "$log.out" 2>&1 || status=$?
  unset NCCL_DEBUG NCCL_DEBUG_FILE
  local ok bytes checked result
  ok=$(grep -cE "rank [0-9]+ of $ranks: ok," "$log.out" || true)
  bytes=$({ grep -oE '[0-9]+ bytes moved' "$log.out" || true; } | awk '{s+=$1} END {print s+0}')
  checked=$({ grep -oE '[0-9]+ elements checked' "$log.out" || true; } | awk '{s+=$1} END {print s+0}')
  result=ok
  if [ "$status" -ne 0 ] || [ "$ok" -ne $ranks ]; then
    result="FAILED (status $status, see build/demo/$(basename "$log").out)"
    failed=1
  fi
  row "$program" $ranks "$mode" "$(path_taken "$program" "$log".nccl.*)" "$bytes" "$checked" "$result"
}

programs=()
for folder in examples-c/0*/; do
  name=$(basename "$folder"); name=${name#0?-}
  programs+=("$name")
  echo "ginrs-cc -o build/demo/$name ${folder}main.cu"
  ginrs-cc -std=c++17 --extended-lambda -O2 -o "$out/$name" "${folder}main.cu" || exit 1
done
echo
row program ranks mode "path taken" "bytes moved" checked result
for mode in processes threads; do
  for program in "${programs[@]}"; do run "$program" $mode; done
done
for program in ring gin-alltoall hybrid-alltoall; do
  if [ -z "$without" ]; then
    run "$program" machines
  else
    row "$program" $ranks machines - - - "skipped: $without"
    skipped=$((skipped + 1))
  fi
done
echo
[ $failed = 0 ] || { echo "some examples FAILED"; exit 1; }
if [ $skipped = 0 ]; then echo "all examples ok"; else echo "all examples ok, $skipped rows skipped"; fi
