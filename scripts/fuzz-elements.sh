#!/usr/bin/env bash
# fuzz-elements.sh [--build] [N]: N (10^9) work queue elements at random through slot, decoder and checks, on all cores, each with seeds of its
# own from SEED (1) on. tests/fuzz.rs, built for speed; a part is in make test. With --build into build/fuzz-elements alone, which then runs on
# a machine without cargo.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$PWD/build/fuzz-elements
if command -v cargo > /dev/null; then
  built=$(cargo test -q --release -p ginrs --test fuzz --no-run --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)
  install -D "$built" "$program"
fi
[ "${1:-}" != --build ] || exit 0
n=${1:-1000000000} cores=$(nproc) begin=$SECONDS
[ -x "$program" ] || { echo "$program is not there | fix: scripts/fuzz-elements.sh --build where cargo is" >&2; exit 1; }
seeds=$(seq "${SEED:-1}" $((${SEED:-1} + cores - 1)))
export GINRS_TEST_ELEMENTS=$(((n + cores - 1) / cores))
if ! xargs -P "$cores" -I{} env GINRS_TEST_SEED={} "$program" --exact elements_by_seed <<< "$seeds" > "$program.log" 2>&1; then
  grep -m1 -A3 'panicked at' "$program.log" >&2 || tail -5 "$program.log" >&2
  exit 1
fi
[ "$(grep -c '^test result: ok. 1 passed' "$program.log")" = "$cores" ] || { echo "not every seed ran: $program.log" >&2; exit 1; }
echo "$((GINRS_TEST_ELEMENTS * cores)) elements in $((SECONDS - begin)) s on $cores cores, none of which broke a promise"
