#!/usr/bin/env bash
# Every link and every file that a page names exists.
set -euo pipefail
cd "$(dirname "$0")/.."
missing=0
for page in *.md docs/*.md docs/measured/*.md examples-c/*/README.md; do
  while read -r name; do
    [ -e "$(dirname "$page")/$name" ] || { echo "$page: broken link $name" >&2; missing=1; }
  done < <(grep -oE '\]\([^)#:]+\)' "$page" | sed 's/](\(.*\))/\1/' || true)
  while read -r name; do
    [ -e "$name" ] || { echo "$page: there is no $name" >&2; missing=1; }
  done < <(grep -oE '`(src|include|cuda|tools|abi-tests|scripts|examples-c|models|cpu-device|tests|benches)/[A-Za-z0-9_./-]+`' "$page" | tr -d '`' || true)
done
exit $missing
