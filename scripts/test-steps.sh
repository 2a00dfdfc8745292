# The steps of make test, in the order in which a fault is cheapest to find; read by test.sh.

# One set of packages for all three kinds of tests: another set would be another build.
unit=(cargo test -q -p ginrs -p ginrs-timeline -p ginrs-cpu -p ginrs-baton -p ginrs-tools -p ginrs-info -p header-gen -p mock-driver)

step deps scripts/deps.sh
step generated-files cargo run -q -p header-gen -- check
step docs scripts/check-docs.py
step dependencies scripts/check-deps.py
step build-unit "${unit[@]}" --no-run
step unit "${unit[@]}" --lib --bins
# Its own check of the crate and its tests: 31 s of a core behind another check.
step clippy cargo clippy -q -p ginrs --all-targets -- -D warnings
step integration "${unit[@]}" --test '*'
step doc-examples "${unit[@]}" --doc
step loom scripts/loom.sh
step stage make -s stage
step docs-staged scripts/check-docs.py build/prefix/share/doc/ginrs
step build-abi cargo test -q -p abi-tests --no-run
step abi-lib cargo test -q -p abi-tests --lib
for file in abi-tests/tests/*.rs; do
  name=$(basename "$file" .rs)
  # Those of hangs only wait, most of their time.
  settings=()
  [ "$name" != hangs ] || settings=(env RUST_TEST_THREADS=7)
  step "$name" "${settings[@]}" cargo test -q -p abi-tests --test "$name"
done
if [ "$quick" = 0 ]; then
  # Unit tests under it: `make asan`.
  step sanitizer-address scripts/sanitize.sh address programs
  step sanitizer-thread scripts/sanitize.sh thread
  step fuzz scripts/fuzz.sh 10
fi
