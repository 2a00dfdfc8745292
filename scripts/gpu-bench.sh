#!/usr/bin/env bash
# gpu-bench.sh [--quick] [--processes] [--ranks "2 4"] [--turns N] [--arms "proxy model-host model-gpu model-host-record model-gpu-record"] [--out FOLDER]: the figures of ginrs-perf on the GPUs found, ours beside NVIDIA's library,
# as Markdown and JSON. Needs what scripts/gpu-build-perf.sh and `make build` left behind, and nothing else: no compiler, no network.
# The arms take turns (A B C, C B A, ..) in one call; every figure is a median over the turns.
set -euo pipefail
cd "$(dirname "$0")/.."
quick= processes= ranks= out=build/gpu-bench only= turns=3 limit=${GPU_BENCH_LIMIT:-90}
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=--quick turns=1 ;;
    --processes) processes=1 ;;
    --ranks) ranks=$2; shift ;;
    --arms) only=$2; shift ;;
    --turns) turns=$2; shift ;;
    --out) out=$2; shift ;;
    *) echo "gpu-bench.sh: $1 is unknown; see the head of the script" >&2; exit 2 ;;
  esac
  shift
done
source scripts/find-cuda.sh
built=${GINRS_PERF:-build/gpu/perf}
ours=${GINRS_LIB:-}
for folder in build/gpu/lib build/prefix/lib build/lib; do
  [ -n "$ours" ] || ! [ -e $folder/libginrs.so.0 ] || ours=$folder
done
[ -x "$built/ginrs-perf-ours" ] || { echo "$built/ginrs-perf-ours is not there | fix: scripts/gpu-build-perf.sh" >&2; exit 1; }
[ -n "$ours" ] || echo "libginrs.so.0 is not there: NVIDIA's library alone | fix: make build, or GINRS_LIB" >&2
[ -n "$NCCL_LIB" ] || echo "NVIDIA's libnccl.so.2 is not there: ours alone | fix: NCCL_LIB" >&2
found=$(nvidia-smi -L | grep -c '^GPU') || { echo "no GPU found | $0 | nvidia-smi -L lists none | fix: run it on a machine with a GPU" >&2; exit 1; }
if [ -z "$ranks" ]; then
  for n in 2 4 8; do [ "$n" -gt "$found" ] || ranks="$ranks $n"; done
fi
if [ "$found" = 1 ]; then
  echo "only one GPU: two ranks share it, so no row has a link in it, and NVIDIA's library, which refuses that, is left out" >&2
  export GINRS_SHARE_DEVICE=1
  ranks=2 NCCL_LIB=
fi

rm -rf "$out"
mkdir -p "$out/ours"
# One library under the name that both programs ask for.
[ -z "$ours" ] || ln -s "$(realpath "$ours/libginrs.so.0")" "$out/ours/libnccl.so.2"
export NCCL_NVLS_ENABLE=0 CUDA_MODULE_LOADING=EAGER
put_benches="put_cost put_latency put_rate put_bandwidth flush gin_barrier"

# arm ranks turn -> one run; what it printed goes to a log, its rows to JSON.
run() {
  local arm=$1 n=$2 turn=$3 program=ginrs-perf-ours library=$out/ours backend= benches= machines= largest= model=
  case $arm in
    proxy) backend=proxy ;;
    # Small payloads too by the copy engine, as for kernels of other headers.
    proxy-alone) backend=proxy benches=$put_benches largest=0 ;;
    # Ranks that are told to be on two machines: all of it over libfabric's tcp, through host memory.
    machines) backend=proxy benches="put_latency put_rate put_bandwidth" machines=0,1 ;;
    direct) backend=direct benches=$put_benches ;;
    # The model of a card (docs/user/gdaki.md), by where its rings are and who rings.
    model-*)
      backend=gdaki benches="put_cost put_latency put_rate" model="GINRS_NIC_RINGS=host NCCL_GIN_GDAKI_NIC_HANDLER=1"
      [[ $arm != *-gpu* ]] || model=${model/host/gpu}
      [[ $arm != *-record ]] || model=${model/HANDLER=1/HANDLER=2}
      ;;
    nvidia-headers) program=ginrs-perf-nvidia backend=proxy benches="put_cost put_latency lsa_barrier lla2a" ;;
    nvidia-library) library=$NCCL_LIB benches="lsa_barrier lla2a lsa_allreduce lsa_alltoall" ;;
    nvidia) program=ginrs-perf-nvidia library=$NCCL_LIB benches="setup lsa_barrier lla2a lsa_allreduce lsa_alltoall" ;;
  esac
  local name=$out/$arm-$n-$turn
  local command=(env LD_LIBRARY_PATH="$library:$CUDART_LIB${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ${backend:+NCCL_GIN_BACKEND=$backend}
    ${machines:+GINRS_FAKE_MACHINES=$machines} ${largest:+GINRS_PROXIED_LARGEST=$largest} $model
    timeout -k 10 $((limit + 10)) "$built/$program" $quick -r 3 -f 4 -T "$limit" --json "$name.json" $benches)
  if [ -z "$processes" ]; then
    "${command[@]}" -g "$n" > "$name.log" 2>&1 && return
  else
    local rank jobs=() failed=0
    for ((rank = 0; rank < n; rank++)); do
      RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$n LOCAL_WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM_BASE)) \
        "${command[@]}" > "$name.$rank.log" 2>&1 &
      jobs+=($!)
    done
    for job in "${jobs[@]}"; do wait "$job" || failed=1; done
    RANDOM_BASE=$((RANDOM_BASE + 2))
    cat "$name".*.log > "$name.log"
    [ $failed = 1 ] || return 0
  fi
  echo "$arm on $n ranks failed: $(grep -v '^#' "$name.log" | tail -n 1)" | tee -a "$out/failed" >&2
}
RANDOM_BASE=$((RANDOM % 20000))

arms=()
[ -z "$ours" ] || arms+=(proxy proxy-alone direct)
[ -z "$ours" ] || ! ldconfig -p | grep -q libfabric.so.1 || arms+=(machines)
[ -z "$ours" ] || ! [ -x "$built/ginrs-perf-nvidia" ] || arms+=(nvidia-headers)
[ -z "$NCCL_LIB" ] || arms+=(nvidia-library)
[ -z "$NCCL_LIB" ] || ! [ -x "$built/ginrs-perf-nvidia" ] || arms+=(nvidia)
[ -z "$only" ] || read -ra arms <<< "$only"
SECONDS=0
for n in $ranks; do
  for ((turn = 0; turn < turns; turn++)); do
    order=("${arms[@]}")
    if ((turn % 2)); then order=(); for arm in "${arms[@]}"; do order=("$arm" "${order[@]}"); done; fi
    for arm in "${order[@]}"; do
      [ "$arm" != machines ] || [ "$n" = 2 ] || continue
      run "$arm" "$n" "$turn"
      [ "$arm" != machines ] || python3 perf/tcp_floor.py "$out/tcp-floor-$turn"
    done
  done
done
echo "measured in $SECONDS s; logs and rows in $out" >&2
mode=threads
[ -z "$processes" ] || mode=processes
python3 perf/report.py "$out" --mode "$mode"
