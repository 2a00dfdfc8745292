#!/usr/bin/env bash
# make abi-full: every compatibility test (abi-tests/matrix/tests.txt) with nvcc for four architectures, two standards and seven
# sets of options, on the CPU device, and without CUDA; ours and NVIDIA's headers. Prints a table, leaves it in build/abi-full.md,
# and fails on any difference. About half an hour on two idle cores; build/abi-full.log has what each build took and said.
set -euo pipefail
cd "$(dirname "$0")/.."
export GINRS_PREFIX=${GINRS_PREFIX:-$PWD/build/prefix} GINRS_TEST_VENV=${GINRS_TEST_VENV:-$PWD/build/venv}
mkdir -p build
started=$SECONDS
{
  echo "# The compile matrix"
  echo
  echo "\`make abi-full\` of $(date -u +%F), revision $(git rev-parse --short HEAD). A cell: how many builds did what was expected, of how"
  echo "many. With a minus: must not compile, and does not."
  echo
  cargo test -q -p abi-tests --test matrix -- --ignored --exact full --nocapture 2>&1 | tee build/abi-full.log | sed -n "/^| test/,/checks\.$/p"
  echo
  cargo test -q -p abi-tests --test headers -- --ignored
  cargo test -q -p abi-tests --test matrix -- --ignored --exact bounds::every_bound_architecture_and_option
  echo "Launch bounds: every entry point in blocks of 512, 640 and 1024 threads, relocatable or not, with and without -G: compiled."
  echo
  echo "$((SECONDS - started)) s on $(nproc) cores; $(g++ --version | head -1)."
} | tee build/abi-full.md
