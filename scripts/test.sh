#!/usr/bin/env bash
# make test: everything, in the order in which a fault is cheapest to find. Stops at the first that fails.
# GINRS_TEST_QUICK=1 leaves out the sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '\n== %s\n' "$*"; }
started=$SECONDS

step "what the tests need"
scripts/deps.sh

step "generated files, and files that pages name"
cargo run -q -p header-gen -- check
scripts/check-docs.sh

step "unit tests"
cargo test -q -p ginrs -p ginrs-cpu -p ginrs-tools -p header-gen -p mock-driver

step "model checking of the queue (loom)"
scripts/loom.sh

step "the tree that a user would have"
make -s stage

step "programs, headers, symbols, links, layouts, installation"
export GINRS_PREFIX=$PWD/build/prefix GINRS_TEST_VENV=${GINRS_TEST_VENV:-$PWD/build/venv}
cargo test -q -p abi-tests

if [ "${GINRS_TEST_QUICK:-0}" = 0 ]; then
  step "AddressSanitizer"
  scripts/sanitize.sh address
  step "ThreadSanitizer"
  scripts/sanitize.sh thread
fi
printf '\nall tests passed in %d s\n' $((SECONDS - started))
