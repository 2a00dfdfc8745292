#!/usr/bin/env bash
# The queue's hand-over under loom: every interleaving within the bounds that each test states.
set -euo pipefail
cd "$(dirname "$0")/.."
RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}" cargo test -q --release --target-dir target/loom -p ginrs --lib -- loom
