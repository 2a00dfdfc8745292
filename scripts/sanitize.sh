#!/usr/bin/env bash
# sanitize.sh address|thread [programs|smoke]: libraries and programs instrumented by one sanitizer, linked by g++, run on the CPU device.
# smoke: that the sanitizer finds the planted fault, and two programs.
#
# First a planted fault that the sanitizer has to report, then programs that must be clean; for AddressSanitizer the unit tests, too (two
# minutes), unless `programs` leaves them out. ThreadSanitizer runs no libtest: std is not instrumented, and libtest's own channels look
# like races. Blocks stay at 256 threads: more fibers do not end under it.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1 only=${2:-}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
triple=$(rustc -vV | sed -n 's/^host: //p')
out=$PWD/build/$kind target=$PWD/target/$kind
system_libs=$(sed -n 's/^SYSTEM_LIBS := //p' Makefile)
say() { printf '   %s\n' "$*"; }

[ -x target/release/ginrs-cc ] || cargo build -q --release -p ginrs-tools

# Sanitizers are unstable options of rustc; dependencies without instrumentation (std) make the ABI check object.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=$kind -Cunsafe-allow-abi-mismatch=sanitizer"
export CFLAGS="-fsanitize=$kind"
features=
case $kind in
  # Optimised little: most of the time was the compiler's. With the checks of debug builds, which the unit tests want: one build serves all.
  address) features="--features ginrs-cpu/sanitizer"
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true ;;
  # GCC's runtime does not have these names of LLVM's; it intercepts the plain ones.
  thread) features="--features ginrs-cpu/instrumented"
    export OBJCOPYFLAGS="--redefine-sym __tsan_memset=memset --redefine-sym __tsan_memcpy=memcpy --redefine-sym __tsan_memmove=memmove" ;;
  *) echo "usage: sanitize.sh address | thread [programs]" >&2; exit 2 ;;
esac

# The build of `smoke` is the fastest one.
[ "$only" != smoke ] || export CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_DEBUG=0
# Instrumented kernels of collectives compile for minutes, and the programs of `smoke` call none.
kernels_object=build/kernels/collectives-cpu.o
if [ "$only" = smoke ]; then
  scripts/build-kernels.sh cpu $kernels_object > /dev/null
else
  kernels_object=$out/collectives-cpu.o
  scripts/build-kernels.sh cpu "$kernels_object" -w -g -O1 "-fsanitize=$kind" > /dev/null & kernels_built=$!
fi
cargo build -q --release --target "$triple" --target-dir "$target" -p ginrs -p ginrs-cpu $features
[ "$only" = smoke ] || wait "$kernels_built"
for row in "ginrs exports.map" "ginrs_cpu cpu-device/exports.map $kernels_object"; do
  read -r name map kernels <<< "$row"
  EXTRA_OBJECTS=$kernels CC="g++ -fsanitize=$kind" scripts/link-library.sh "$target/$triple/release/lib$name.a" "$map" "$out/lib" "$name" "$version" ${kernels:+-lstdc++} $system_libs
done
scripts/stage.sh "$out/prefix" "$version" "$out/lib"
export PATH="$out/prefix/bin:$PATH" LD_LIBRARY_PATH="$out/prefix/lib"
# A wrong report of a leak at exit would hide a true one of use: processes that end in the middle leak by design.
# Its frames are several times as large.
[ $kind = thread ] || export GINRS_CPU_STACK=256K
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:detect_stack_use_after_return=0
export TSAN_OPTIONS="halt_on_error=0:second_deadlock_stack=1:suppressions=$PWD/abi-tests/sanitizers/tsan.supp"

# These libraries are looked at: what ginrs-cc links for those that are not is not wanted.
printf 'extern "C" const char* __tsan_default_suppressions() { return ""; }\n' > "$out/none.cc"
compile() { # name source
  # -w: g++ warns at every fence under ThreadSanitizer; the queue's words are stored with release order besides.
  ginrs-cc -w -std=c++17 --extended-lambda -g -O1 "-fsanitize=$kind" -o "$out/$1" "$2" "$out/none.cc"
}

export kind out
export -f compile
programs() { # name and source of each
  echo "02-ring examples-c/02-ring/main.cu"
  echo "api abi-tests/programs/api.cu"
  [ "$only" != smoke ] || return 0
  for folder in examples-c/0[!2]*/; do echo "$(basename "$folder") ${folder}main.cu"; done
  for program in group moe torture; do echo "$program abi-tests/programs/$program.cu"; done
  echo unwaited abi-tests/collectives/unwaited.cu
  if [ "$kind" = address ]; then printf '%s\n' "coll abi-tests/collectives/suite.cu" "documentation abi-tests/collectives/documentation.cu"; fi
}
programs | xargs -P 2 -L 1 bash -c 'compile "$@"' compile

# The report, else the sanitizer is blind and every clean run below means nothing.
compile planted "abi-tests/sanitizers/planted_$kind.cu"
if timeout 120 "$out/planted" > "$out/planted.log" 2>&1 || ! grep -qE 'ERROR: AddressSanitizer|WARNING: ThreadSanitizer: data race' "$out/planted.log"; then
  echo "the planted fault was not found, see $out/planted.log" >&2
  exit 1
fi
say "planted fault found: $(grep -m1 -oE '(AddressSanitizer|ThreadSanitizer): [a-z -]*' "$out/planted.log")"

check() { # label command...
  local label=$1 log="$out/${1// /-}.log"
  shift
  if ! timeout 300 "$@" > "$log" 2>&1 || grep -qE 'ERROR: AddressSanitizer|WARNING: ThreadSanitizer' "$log"; then
    echo "$label: not clean, see $log" >&2
    grep -m3 -A12 -E 'ERROR: AddressSanitizer|WARNING: ThreadSanitizer' "$log" >&2 || tail -5 "$log" >&2
    exit 1
  fi
  say "$label: clean"
}

if [ "$only" = smoke ]; then
  check "02-ring processes" ginrs-run -n 3 --timeout 240 "$out/02-ring"
  check "api threads" "$out/api" --threads 2
  exit
fi
for folder in examples-c/0*/; do
  name=$(basename "$folder")
  check "$name threads" "$out/$name" --threads 4
  check "$name processes" ginrs-run -n 4 --timeout 240 "$out/$name"
done
check "api threads" "$out/api" --threads 4
check "group of 4" "$out/group" 4
check "moe threads" "$out/moe" --threads 4
export TORTURE="blocks=2 threads=64 coop=warp strip=4096 largest=300 rounds=2 seed=31"
check "torture threads" "$out/torture" --threads 4
check "torture processes" ginrs-run -n 3 --timeout 240 "$out/torture"
# Few calls: ThreadSanitizer's stacks of the kernels' fibers grow with each, and have an end.
check "collectives threads, buffered" "$out/unwaited" --threads 3
check "collectives threads, staged" env GINRS_COLLECTIVE=staged "$out/unwaited" --threads 3
check "collectives threads, nodes" env GINRS_FAKE_NODES=0,0,1 "$out/unwaited" --threads 3
# A main in Rust: host exchanges, windows, device communicators, an abort.
cargo build -q --release --target "$triple" --target-dir "$target" -p ginrs --example ranks
check "ranks in Rust" "$target/$triple/release/examples/ranks"
if [ "$kind" = address ]; then
  export COLL="sample=4000 big=5003 largest=70000"
  check "collectives suite" "$out/coll" --threads 3
  check "collectives one thread" "$out/coll" --one-thread 2 streams captured mixed
  check "collectives on two nodes" env GINRS_FAKE_NODES=0,0,1 "$out/coll" --threads 3 collectives p2p
  check "documentation" "$out/documentation" 3
fi
if [ "$kind" = address ] && [ "$only" != programs ]; then
  # Their harness is no trouble to this sanitizer.
  env -u CFLAGS cargo test -q --release --target "$triple" --target-dir "$target" -p ginrs --lib
  say "unit tests: clean"
fi
