#!/usr/bin/env bash
# make test: everything, in the order in which a fault is cheapest to find. Stops at the first step that fails.
#
#   make test ONLY='programs cuda'   steps with one of these words in their name, and what they need
#   make test FROM=programs          this step and all behind it
#   make test QUICK=1                all but the sanitizers
#   scripts/test.sh --list           the names, with the seconds that each is thought to take
#
# The same as variables: GINRS_TEST_ONLY, GINRS_TEST_FROM, GINRS_TEST_QUICK. A step that takes longer than GINRS_TEST_LIMIT seconds
# (1200) hangs, and fails. GINRS_TEST_TRIES=2 gives a failed step a second try and names it at the end: for .ci/run, where one failure
# throws an hour away. What a step prints is kept in build/test/NAME.log, that of a failed first try in NAME.first.log.
#
# The time left comes from the last run's build/test/durations, for steps that it lacks from scripts/test-durations.txt, both
# stretched by how long the steps of this run took; BLESS=1 writes that file anew after a whole run.
set -euo pipefail
cd "$(dirname "$0")/.."
only=${GINRS_TEST_ONLY:-} from=${GINRS_TEST_FROM:-} quick=${GINRS_TEST_QUICK:-0}
limit=${GINRS_TEST_LIMIT:-1200} tries=${GINRS_TEST_TRIES:-1}
logs=build/test known=scripts/test-durations.txt
mkdir -p "$logs"
export GINRS_PREFIX=$PWD/build/prefix GINRS_TEST_VENV=${GINRS_TEST_VENV:-$PWD/build/venv}

names=() commands=()
step() { # name command...
  names+=("$1")
  shift
  commands+=("$(printf '%q ' "$@")")
}
. scripts/test-steps.sh

# Seconds of a step: the last run's, else the committed ones (with all built, in a fresh clone), else a guess.
touch "$logs/durations"
seconds() { # name
  if [ -d target/debug/deps ]; then
    awk -v n="$1" '$1 == n && !found { print $2; found = 1 } END { if (!found) print 15 }' "$logs/durations" "$known"
  else
    awk -v n="$1" '$1 == n { print $3; found = 1 } END { if (!found) print 15 }' "$known"
  fi
}

# Which steps run: those asked for, and what all others stand on.
chosen=() asked=0
for i in "${!names[@]}"; do
  name=${names[i]} take=0
  if [ -n "$only" ]; then
    for word in $only; do [[ $name != *"$word"* ]] || take=1; done
  elif [ $asked = 1 ] || [ -z "$from" ] || [ "$name" = "$from" ]; then
    take=1
  fi
  [ $take = 0 ] || asked=1
  case $name in deps | stage) take=1 ;; esac
  [ $take = 0 ] || chosen+=("$i")
done
if [ $asked = 0 ]; then
  echo "no step is called ${only:-$from}; they are: ${names[*]}" >&2
  exit 2
fi
if [ "${1:-}" = --list ]; then
  for i in "${chosen[@]}"; do printf '%-20s %5s s\n' "${names[i]}" "$(seconds "${names[i]}")"; done
  exit 0
fi

declare -A expected
left=0
for i in "${chosen[@]}"; do
  expected[$i]=$(seconds "${names[i]}")
  left=$((left + expected[$i]))
done
about() { # seconds
  if [ "$1" -ge 90 ]; then echo "about $((($1 + 30) / 60)) min"; else echo "about $((($1 / 10 + 1) * 10)) s"; fi
}

# With all its children, which hold the pipe; at a terminal in its foreground, so that Ctrl-C ends it.
bounded=(timeout -k 10)
[ ! -t 0 ] || bounded+=(--foreground)
run_step() { # name command
  local status
  set +e
  eval "${bounded[*]} $limit $2" 2>&1 | tee "$logs/$1.log"
  status=${PIPESTATUS[0]}
  set -e
  [ "$status" != 124 ] || echo "$1 hangs: not done in $limit s" | tee -a "$logs/$1.log"
  return "$status"
}

number=0 taken=0 believed=0 again=()
for i in "${chosen[@]}"; do
  name=${names[i]} number=$((number + 1)) log=$logs/${names[i]}.log
  # This machine's pace, once there is something to tell it by.
  guess=$left
  [ $believed -lt 30 ] || guess=$((left * taken / believed))
  printf '\n[%d/%d] %s ... %s left\n' "$number" "${#chosen[@]}" "$name" "$(about $guess)"
  started=$SECONDS
  status=0
  run_step "$name" "${commands[i]}" || status=$?
  if [ $status != 0 ] && [ "$tries" -gt 1 ]; then
    printf '\nFAILED %s (status %d), tried again; what it said: %s\n' "$name" "$status" "$logs/$name.first.log"
    mv "$log" "$logs/$name.first.log"
    again+=("$name") status=0
    run_step "$name" "${commands[i]}" || status=$?
  fi
  took=$((SECONDS - started))
  if [ $status != 0 ]; then
    printf '\nFAILED [%d/%d] %s after %d s (status %d): %s\n' "$number" "${#chosen[@]}" "$name" "$took" "$status" "${commands[i]}"
    echo "its last lines, of $log:"
    tail -n 25 "$log" | sed 's/^/  | /'
    echo "again: make test ONLY=$name    then on from there: make test FROM=$name"
    exit 1
  fi
  { awk -v n="$name" '$1 != n' "$logs/durations"; echo "$name $took"; } > "$logs/durations.new"
  mv "$logs/durations.new" "$logs/durations"
  left=$((left - expected[$i])) taken=$((taken + took)) believed=$((believed + expected[$i]))
done

if [ -z "$only$from" ] && [ "${BLESS:-0}" = 1 ]; then
  { sed -n '/^#/p' "$known"
    for i in "${chosen[@]}"; do
      name=${names[i]}
      cold=$(awk -v n="$name" '$1 == n { print $3 }' "$known")
      warm=$(awk -v n="$name" '$1 == n { print $2 }' "$logs/durations")
      echo "$name $warm $((cold > warm ? cold : warm))"
    done; } > "$logs/known.new"
  mv "$logs/known.new" "$known"
fi
what=all
[ -z "$only$from" ] || what="the chosen"
for name in "${again[@]}"; do
  printf '\nFLAKY: %s failed at first; the last lines of %s:\n' "$name" "$logs/$name.first.log"
  tail -n 25 "$logs/$name.first.log" | sed 's/^/  | /'
done
printf '\n%s tests passed: %d steps in %d s\n' "$what" "${#chosen[@]}" "$SECONDS"
