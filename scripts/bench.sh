#!/usr/bin/env bash
# make bench: the benchmarks of the GIN proxy and of shared memory; each prints its result beside a floor measured in the same run.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo bench -q -p ginrs "$@"
