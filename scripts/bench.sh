#!/usr/bin/env bash
# make bench: the benchmarks of the GIN proxy and of shared memory; each prints its result beside what it is measured against, of the same run.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh --check scripts/bench.sh
cargo bench -q -p ginrs --bench proxy --bench roundtrip --bench flood "$@"
export PATH="${GINRS_PREFIX:-$PWD/build/prefix}/bin:$PATH"
ginrs-cc -std=c++17 -O2 -o build/pingpong benches/pingpong.cu
ginrs-run -n 2 --no-prefix build/pingpong | grep ratio
build/pingpong --threads 2 | grep ratio
ginrs-cc -std=c++17 -O2 -o build/wake benches/wake.cu
ginrs-run -n 1 --no-prefix build/wake | grep wanted
ginrs-cc -std=c++17 -O2 -o build/alltoall benches/alltoall.cu
us() { "$@" | sed -n 's/^\([0-9.]*\) us a round.*/\1/p'; }
# Each process in a session of its own, too, as under mpirun: sched_yield reaches no other.
threads=$(us build/alltoall --threads 4) together=$(us ginrs-run -n 4 --no-prefix build/alltoall)
apart=$(us ginrs-run -n 4 --no-prefix setsid -w build/alltoall)
awk -v p="$together" -v s="$apart" -v t="$threads" 'BEGIN {
  printf "all-to-all by GIN, 4 ranks: %.0f us a round as threads, %.0f us as processes, ratio %.2f, ", t, p, p / t
  printf "%.0f us in sessions of their own, ratio %.2f; wanted at most 2\n", s, s / t }'
