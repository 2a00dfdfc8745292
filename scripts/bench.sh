#!/usr/bin/env bash
# make bench: the benchmarks of the GIN proxy and of shared memory; each prints its result beside a floor measured in the same run.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo bench -q -p ginrs --bench proxy --bench roundtrip --bench flood "$@"
export PATH="${GINRS_PREFIX:-$PWD/build/prefix}/bin:$PATH"
ginrs-cc -std=c++17 -O2 -o build/pingpong benches/pingpong.cu
ginrs-run -n 2 --no-prefix build/pingpong | grep ratio
build/pingpong --threads 2 | grep ratio
