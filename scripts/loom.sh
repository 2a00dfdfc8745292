#!/usr/bin/env bash
# The queue's hand-over under loom, every order within the bounds that each test states, and larger cases under shuttle.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test -q --release -p ginrs-models
