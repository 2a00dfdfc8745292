#!/usr/bin/env bash
# make bench: the benchmarks of the GIN proxy and of shared memory; each prints its result beside what it is measured against, of the same run.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo bench -q -p ginrs --bench proxy --bench roundtrip --bench flood "$@"
export PATH="${GINRS_PREFIX:-$PWD/build/prefix}/bin:$PATH"
ginrs-cc -std=c++17 -O2 -o build/pingpong benches/pingpong.cu
ginrs-run -n 2 --no-prefix build/pingpong | grep ratio
build/pingpong --threads 2 | grep ratio
ginrs-cc -std=c++17 -O2 -o build/alltoall benches/alltoall.cu
us() { "$@" | sed -n 's/^\([0-9.]*\) us a round.*/\1/p'; }
# Each process in a session of its own, as under mpirun: sched_yield reaches no other.
threads=$(us build/alltoall --threads 4) processes=$(us ginrs-run -n 4 --no-prefix setsid -w build/alltoall)
awk -v p="$processes" -v t="$threads" \
  'BEGIN { printf "all-to-all by GIN, 4 ranks: %.0f us a round as processes, %.0f us as threads; ratio %.2f, wanted at most 2\n", p, t, p / t }'
