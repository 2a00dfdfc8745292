#!/usr/bin/env bash
# launchers.sh: the ring over two machines (network namespaces with a real sshd each), started by every launcher that is installed:
# ginrs-run, Open MPI, MPICH (Debian: openssh-server, openmpi-bin, libopenmpi-dev, mpich, libmpich-dev) and torchrun's variables by hand.
# As root, after `make stage`. A line for each; the status is 1 if one fails.
set -uo pipefail
cd "$(dirname "$0")/.."
prefix=${GINRS_PREFIX:-$PWD/build/prefix}
scripts/deps.sh --check scripts/launchers.sh || exit 2
work=$(mktemp -d)
tag=ginrs-launchers-$$
export PATH=$prefix/bin:$PATH LD_LIBRARY_PATH=$prefix/lib OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

down() {
  for h in a b; do
    [ -e "$work/$h.pid" ] && kill "$(cat "$work/$h.pid")"
    ip netns del "$tag-$h"
    rm -rf "/etc/netns/$tag-$h"
  done
  ip netns del "$tag-hub"
  rm -rf "$work"
} 2> /dev/null
trap down EXIT

# Two machines, `a` and `b`, with a name, an address and a server of their own; /etc/netns/NAME stands over /etc in a namespace.
mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N '' -f "$work/user"
ip netns add "$tag-hub" && ip -n "$tag-hub" link add br0 type bridge && ip -n "$tag-hub" link set br0 up || exit 2
i=0
for h in a b; do
  i=$((i + 1)) ns=$tag-$h
  ip netns add "$ns"
  ip -n "$tag-hub" link add "p$i" type veth peer name eth0 netns "$ns"
  ip -n "$tag-hub" link set "p$i" master br0 up
  ip -n "$ns" addr add "10.79.0.$i/24" dev eth0
  ip -n "$ns" link set lo up && ip -n "$ns" link set eth0 up
  mkdir -p "/etc/netns/$ns/ssh"
  printf '127.0.0.1 localhost\n10.79.0.1 a\n10.79.0.2 b\n' > "/etc/netns/$ns/hosts"
  printf 'IdentityFile %s\nUserKnownHostsFile %s\n' "$work/user" "$work/known" > "/etc/netns/$ns/ssh/ssh_config"
  ssh-keygen -q -t ed25519 -N '' -f "$work/key-$h"
  echo "$h $(cut -d' ' -f1,2 "$work/key-$h.pub")" >> "$work/known"
  printf '%s\n' "HostKey $work/key-$h" "PidFile $work/$h.pid" "AuthorizedKeysFile $work/user.pub" 'StrictModes no' 'PermitRootLogin yes' \
    > "/etc/netns/$ns/ssh/sshd_config"
  ip netns exec "$ns" unshare --uts sh -c "hostname $h; exec /usr/sbin/sshd -E $work/log-$h"
done
on_a() { ip netns exec "$tag-a" unshare --uts sh -c 'hostname a; exec "$@"' sh "$@"; }

ginrs-cc -o "$work/ring" examples-c/02-ring/main.cu || exit 2
head -c 32 /dev/urandom | base64 > "$work/secret"
chmod 600 "$work/secret"
meet=(NCCL_COMM_ID=a:4000 "GINRS_SECRET_FILE=$work/secret")
failed=0
row() { # name, what four ranks print, command
  local name=$1 want=$2 log=$work/log
  shift 2
  if timeout 120 bash -c '"$@"' row "$@" > "$log" 2>&1 < /dev/null && [ "$(grep -c "$want" "$log")" = 4 ]; then
    echo "ok      $name"
  else
    echo "FAILED  $name: $*"
    tail -5 "$log" | sed 's/^/        /'
    failed=1
  fi
}
by_hand() { # torchrun's variables, four ranks
  local rank h pids=()
  for rank in 0 1 2 3; do
    h=$([ $rank -lt 2 ] && echo a || echo b)
    on_a ssh -o BatchMode=yes $h "env LD_LIBRARY_PATH=$LD_LIBRARY_PATH MASTER_ADDR=a MASTER_PORT=29500 RANK=$rank WORLD_SIZE=4 \
      LOCAL_RANK=$((rank % 2)) LOCAL_WORLD_SIZE=2 GINRS_SECRET_FILE=$work/secret $work/ring" &
    pids+=($!)
  done
  wait "${pids[@]}"
}
export -f by_hand on_a
export tag work

row "ginrs-run --hosts" 'ring rank . of 4: ok' on_a ginrs-run --hosts a,b -n 4 "$work/ring"
row "torchrun's variables" 'ring rank . of 4: ok' by_hand
if command -v mpirun.openmpi mpicxx.openmpi > /dev/null; then
  version=$(mpirun.openmpi --version | head -1)
  mpirun=(on_a mpirun.openmpi --host a:2,b:2 -np 4 -x PATH -x LD_LIBRARY_PATH)
  row "$version, no MPI in the program" 'ring rank . of 4: ok' "${mpirun[@]}" -x "${meet[0]}" -x "${meet[1]}" "$work/ring"
  # shellcheck disable=SC2046
  ginrs-cc -o "$work/openmpi" scripts/launchers-mpi.cu $(mpicxx.openmpi --showme:compile) $(mpicxx.openmpi --showme:link)
  row "$version, id over MPI_Bcast" 'the sum is right' "${mpirun[@]}" "$work/openmpi"
fi
if command -v mpirun.mpich > /dev/null; then
  version="MPICH $(mpirun.mpich --version | sed -n 's/.*Version: *//p' | head -1)"
  mpirun=(on_a mpirun.mpich -hosts a:2,b:2 -n 4)
  row "$version, no MPI in the program" 'ring rank . of 4: ok' "${mpirun[@]}" -env "${meet[0]%%=*}" "${meet[0]#*=}" -env "${meet[1]%%=*}" \
    "${meet[1]#*=}" "$work/ring"
  ginrs-cc -o "$work/mpich" scripts/launchers-mpi.cu -I"$(dirname "$(find /usr/include -path '*mpich/mpi.h' | head -1)")" -lmpich
  row "$version, id over MPI_Bcast" 'the sum is right' "${mpirun[@]}" "$work/mpich"
fi
exit $failed
