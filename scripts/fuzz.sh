#!/usr/bin/env bash
# fuzz.sh SECONDS [TARGET..]: libFuzzer with AddressSanitizer on each target of fuzz/, from the committed corpus. What it finds new goes to
# build/fuzz/TARGET, an input that breaks something to build/fuzz/TARGET-crash-*, and the status is 1 then. `MERGE=1` takes what reaches new
# code into fuzz/corpus. The same targets run under cargo-fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh --check scripts/fuzz.sh
seconds=${1:-30}
shift || true
targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(cd fuzz/fuzz_targets && printf '%s\n' *.rs | sed 's/\.rs$//')
triple=$(rustc -vV | sed -n 's/^host: //p')

# What cargo-fuzz passes; sanitizers and these passes are unstable options of rustc.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="--cfg fuzzing -Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer -Ccodegen-units=1 -Cpasses=sancov-module
 -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
 -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0"
RUSTFLAGS=${RUSTFLAGS//$'\n'/}
cargo build -q --release --manifest-path fuzz/Cargo.toml --target "$triple" --target-dir target/fuzz

# LeakSanitizer needs ptrace, which containers may refuse.
export ASAN_OPTIONS=detect_leaks=0
# The two fuzz at the same time: a core each, where there are that many.
run() {
  target=$1 out=build/fuzz/$1
  mkdir -p "$out"
  if ! "target/fuzz/$triple/release/$target" -max_total_time="$seconds" -max_len=1024 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$out-" "$out" "fuzz/corpus/$target" > "$out.log" 2>&1; then
    grep -m1 -A3 -E 'panicked at|ERROR: ' "$out.log" >&2 || tail -5 "$out.log" >&2
    echo "fuzz target $target broke: see $out.log and $(ls -t "$out"-* | head -1)" >&2
    return 1
  fi
  [ "${MERGE:-0}" = 0 ] || "target/fuzz/$triple/release/$target" -merge=1 -max_len=512 "fuzz/corpus/$target" "$out" > /dev/null 2>&1
  printf '   %s: %s inputs, coverage %s\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$out.log")" \
    "$(grep -oE 'cov: [0-9]+' "$out.log" | tail -1 | cut -c6-)"
}
export -f run
export seconds triple
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c 'run {}'
