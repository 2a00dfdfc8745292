#!/usr/bin/env bash
# fresh.sh [demo | test [ARGUMENTS]]: the README's commands in a fresh clone of HEAD on a minimal
# Debian, which has g++, make, git and the Rust toolchain of this machine. Needs root. Without
# arguments both parts:
#
#   demo   `make demo` as root, which installs libfabric1, and as an ordinary user without it, for
#          whom the rows across machines are skipped
#   test   `make test ARGUMENTS` as root
#
# build/fresh keeps the Debian root of the day and the logs. All mounts are in a private namespace.
# Where that is not permitted, or packages cannot be fetched, prints a line `skipped:` and succeeds.
set -euo pipefail
cd "$(dirname "$0")/.."
base=$PWD/build/fresh work=$PWD/build/fresh/run
tar=$base/root-$(date +%F).tar
skip() { echo "skipped: $1 | fix: $2"; exit 0; }

# Settings of this machine that reach its registries: proxies, certificates, cargo's and pip's.
settings=()
while read -r name; do settings+=("$name=${!name}"); done < <(compgen -e | grep -iE \
  '^((https?|ftp|all|no)_proxy|ssl_cert_(file|dir)|(curl|requests)_ca_bundle|git_ssl_cainfo|pip_.*|cargo_(http|net|source|registr).*)$' || true)

# The machine's own sources, of Debian only.
sources() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(ORIGIN)|deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | sed -n 's/^Debian|//p' | sort -u
}

build_root() {
  local reason codename options=$work/apt.conf log=$base/root.log list
  reason=$(scripts/deps.sh --get mmdebstrap) || skip "make fresh $reason" "connect to Debian's packages"
  [ -n "$(sources)" ] || apt-get -qq update || true
  mapfile -t list < <(sources)
  codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  [ ${#list[@]} -gt 0 ] || skip "this machine has no package sources of Debian" "run it on Debian with a source in /etc/apt"
  apt-config dump --no-empty | grep -E '^Acquire::(http|https|ftp|Check-Date|Check-Valid-Until|Retries|ForceIPv)' > "$options" || true
  echo "fresh: builds a minimal Debian $codename"
  TMPDIR=$work mmdebstrap --variant=minbase --include=g++,make,git,ca-certificates --aptopt="$options" \
    "$codename" "$work/root.tar" "${list[@]}" > "$log" 2>&1 || skip "mmdebstrap failed: $(grep '^E: ' "$log" | head -1)" "see $log"
  rm -f "$base"/root-*.tar
  mv "$work/root.tar" "$tar"
}

# Each user has a separate root: packages that root installs are missing for the ordinary user.
unpack() { # name of the user
  local root=$work/$1 value device
  mkdir "$root"
  tar --numeric-owner -xpf "$tar" -C "$root"
  # `ip netns exec` changes the propagation of /, and that fails unless / is a mount point.
  mount --bind "$root" "$root"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  mkdir -p "$root"/opt/{rust,cargo} "$root/src"
  for value in /etc/ssl/certs/ca-certificates.crt /etc/pip.conf "${settings[@]#*=}"; do
    [[ $value != /* ]] || [ ! -f "$value" ] || install -D -m 644 "$value" "$root$value"
  done
  for value in "${settings[@]#*=}"; do # as folders of wheels
    if [[ $value != /* ]] || [ ! -d "$value" ] || [ -e "$root$value" ]; then continue; fi
    mkdir -p "$root$value"
    mount --bind "$value" "$root$value"
  done
  for value in config config.toml; do
    value=${CARGO_HOME:-$HOME/.cargo}/$value
    [ ! -f "$value" ] || cp "$value" "$root/opt/cargo/"
  done

  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount -t tmpfs -o mode=755 dev "$root/dev"
  mkdir "$root"/dev/{pts,shm}
  mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=666,gid=5,mode=620 pts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"
  for value in stdin:0 stdout:1 stderr:2; do ln -s "/proc/self/fd/${value#*:}" "$root/dev/${value%:*}"; done
  for device in null zero full random urandom tty net/tun; do
    [ -e "/dev/$device" ] || continue
    install -D /dev/null "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  mount --bind "$sysroot" "$root/opt/rust"
  mount -o remount,bind,ro "$root/opt/rust"
}

in_root() { # user command
  local user=$1 home=/root id=0:0 path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  [ "$user" = root ] || home=/home/$user id=1000:1000 path=/usr/local/bin:/usr/bin:/bin
  env -i "${settings[@]}" HOME="$home" USER="$user" LOGNAME="$user" SHELL=/bin/bash LANG=C.UTF-8 CARGO_HOME=/opt/cargo \
    PATH="/opt/rust/bin:$path" "$(command -v chroot)" --userspec="$id" --groups= "$work/$user" sh -c "cd /src/ginrs && $2" < /dev/null
}

failed=0
# Processor time of all children that have ended, in seconds. `times` in a subshell reports none.
cpu=0
count_cpu() {
  times > "$work/times"
  cpu=$(awk 'NR == 2 { split($1, u, /[ms]/); split($2, s, /[ms]/); print int((u[1] + s[1]) * 60 + u[2] + s[2]) }' "$work/times")
}
row() { # user, command, result, seconds, processor seconds before
  count_cpu
  printf 'fresh: %-7s %-5s %s, %d s, %d s of processor time, %d cores, load %s\n' "$3" "$1" "$2" "$4" $((cpu - $5)) \
    "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)" | tee -a "$work/rows"
  [ "$3" = ok ] || failed=1
}

# All rows of the demo's table have to be ok; the ordinary user's three across machines are skipped.
demo() { # user
  local log=$base/demo-$1.log begun=$SECONDS result=ok skipped=0 rows used
  count_cpu
  used=$cpu
  echo "fresh: make demo, $1"
  in_root "$1" "make demo" 2>&1 | tee "$log" || result=FAILED
  rows=$(grep -cE '^[a-z-]+ +4 +(processes|threads|machines) ' "$log" || true)
  [ "$1" = root ] || skipped=$(grep -c ' skipped: needs libfabric1 (sudo apt-get install libfabric1)$' "$log" || true)
  [ "$rows" -ge 15 ] && [ "$(grep -cE '^[a-z-]+ +4 .* ok$' "$log" || true)" = $((rows - skipped)) ] || result=FAILED
  [ "$1" = root ] || [ "$skipped" = 3 ] || result=FAILED
  row "$1" "make demo" $result $((SECONDS - begun)) "$used"
}

inside() { # what, arguments of make test
  [ -e "$tar" ] || build_root
  unpack root
  git clone -q --no-hardlinks . "$work/root/src/ginrs"
  in_root root "cargo fetch --locked" > "$base/fetch.log" 2>&1 ||
    skip "cargo fetch failed: $(tail -n 1 "$base/fetch.log")" "connect to crates.io"
  if [ "$1" != test ]; then
    unpack user
    # The demo has to update the lists itself.
    in_root root "apt-get -qq -o Acquire::Retries=1 update && rm -rf /var/lib/apt/lists/*" > "$base/apt.log" 2>&1 ||
      skip "apt-get update failed: $(tail -n 1 "$base/apt.log")" "connect to Debian's packages"
    demo root
    # The crates would compile to the same files: the ordinary user gets target/ and not build/.
    echo "user:x:1000:1000::/home/user:/bin/bash" >> "$work/user/etc/passwd"
    echo "user:x:1000:" >> "$work/user/etc/group"
    cp -a "$work/root/src/ginrs" "$work/user/src/"
    cp -a "$work/root/opt/cargo" "$work/user/opt/"
    rm -rf "$work/user/src/ginrs/build"
    mkdir "$work/user/home/user"
    chown -R 1000:1000 "$work/user"/{src/ginrs,opt/cargo,home/user}
    demo user
    umount -R "$work/user"
    rm -rf "$work/user"
  fi
  if [ "$1" != demo ]; then
    local begun=$SECONDS result=ok
    count_cpu
    set -- "$cpu" "${@:2}"
    in_root root "make test $(printf '%q ' "${@:2}")" 2>&1 | tee "$base/test.log" || result=FAILED
    row root "make test${2:+ ${*:2}}" $result $((SECONDS - begun)) "$1"
  fi
  echo
  cat "$work/rows"
  exit $failed
}

sysroot=$(rustc --print sysroot 2> /dev/null || true)
case ${1:-all} in
  --inside) shift; inside "$@" ;;
  all | demo | test) ;;
  *) echo "fresh.sh: unknown argument | $1 | fix: demo or test" >&2; exit 2 ;;
esac

[ "$(id -u)" = 0 ] || skip "make fresh needs root, for mounts and chroot" "sudo make fresh"
unshare --mount --pid --fork --mount-proc true 2> /dev/null || skip "mount namespaces are not permitted here" "run it with CAP_SYS_ADMIN"
# The toolchain of Debian's package is all of /usr, with the commands that a minimal root must lack.
if [ ! -x "$sysroot/bin/cargo" ] || [ "$sysroot" = /usr ]; then
  skip "rustc has no toolchain folder with cargo" "install Rust with rustup"
fi
mkdir -p "$base"
exec 9> "$base/lock"
flock -n 9 || skip "another make fresh is running in this tree" "wait for it"
[ -z "$(git status --porcelain --untracked-files=no)" ] || echo "fresh: uncommitted changes are not in the clone of HEAD"

# A run is killed as a whole, with its process namespace, and its mounts end with it: the folder
# that is removed here has none.
child=
# shellcheck disable=SC2317
clean() {
  [ -z "$child" ] || kill -KILL "$child" 2> /dev/null || true
  wait || true
  # Processes that are being killed may still create files.
  rm -rf "$work" 2> /dev/null || { sleep 2; rm -rf "$work"; }
  rm -f "$base/lock"
}
rm -rf "$work"
mkdir "$work"
trap clean EXIT
trap 'exit 130' INT TERM HUP
setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc "$0" --inside "${@:-all}" 9>&- &
child=$!
status=0
wait "$child" || status=$?
child=
exit $status
