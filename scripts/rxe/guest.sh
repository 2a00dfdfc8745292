#!/usr/bin/env bash
# guest.sh PREFIX: what runs in the guest of run.sh. rxe stands on one end of a veth pair, and ranks are told to be on
# machines of their own: rxe of Linux 6.1 knows the first network namespace alone. A line for each program, and one for all.
cd "$(dirname "$0")/../.." || exit
prefix=$1 out=build/rxe
export PATH=$prefix/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LD_LIBRARY_PATH=$prefix/lib HOME=/tmp TMPDIR=/tmp
address=10.9.0.1
hostname rxe
ip link set lo up
# Room for a packet of 4096 bytes with its headers.
ip link add v0 mtu 4200 type veth peer name v1 mtu 4200
ip addr add $address/24 dev v0
ip link set v0 up && ip link set v1 up && rdma link add rxe0 type rxe netdev v0
rdma link
# The emulated processors are slow, and others may work beside them: nothing here may fail because of time.
export GINRS_OFI_PROVIDER=verbs GINRS_FAKE_MACHINES=per-rank NCCL_SOCKET_IFNAME==v0 GINRS_CPU_DEVICES=8
export GINRS_TIMEOUT=300 GINRS_INIT_TIMEOUT=300 GINRS_HOST_DEADLINE=60
export SOAK='seconds=2 blocks=3 threads=64 strip=4096' ORDER_ROUNDS=50

right=0 all=0
row() { # 0 if it was right, what it was
  all=$((all + 1))
  if [ "$1" = 0 ]; then right=$((right + 1)); echo "rxe: ok      $2"; else echo "rxe: FAILED  $2"; fi
}
play() { # ranks, program, its parts
  local ranks=$1 program=$2 begun=$SECONDS log=/tmp/log wanted=$(($1 * ($# > 2 ? $# - 2 : 1)))
  shift 2
  timeout -s KILL 600 ginrs-run -n "$ranks" --timeout 590 "$out/$program" "$@" > $log 2>&1 < /dev/null
  local status=$?
  [ "$(grep -c ': ok,' $log)" = "$wanted" ] || status=1
  [ $status = 0 ] || tail -n 15 $log | cut -c1-400
  row $status "$program${*:+ $*} on $ranks ranks, $((SECONDS - begun)) s"
}
# One of two ranks is killed: the other hears which, and that it has died, by the control plane as over TCP.
death() {
  local ranks=() rank log=/tmp/death
  mkdir -m 700 -p /tmp/job
  for rank in 0 1; do
    env GINRS_RUN_ID=/tmp/job RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 FAULT=kill NCCL_DEBUG=WARN \
      timeout -s KILL 300 "$out/fault" > $log.$rank 2>&1 < /dev/null &
    ranks+=($!)
  done
  wait "${ranks[0]}"
  grep -hE 'released|WARN' $log.0 | cut -c1-400
  grep -q 'rank 0 released: .*rank 1' $log.0
  row $? "a rank that is killed is told"
}

ginrs-info --why | grep -E 'libfabric:|ofi|locked'
[ "$(ginrs-info --why | grep -c 'libfabric: verbs on rxe0')" = 1 ]
row $? "ginrs-info --why has verbs on rxe0"
play 2 suite hello ring gin-alltoall hybrid-alltoall
play 2 suite windows layout several ll gin ginbarriers order
play 2 sizes
play 3 suite gin moe
GINRS_FAKE_MACHINES=0,0,1,1 play 4 suite soak torture
[ ! -e $out/theirs ] || play 2 suite.nvidia ring gin ginbarriers order gin-alltoall moe soak
death
# What went again or over: a receive that was missing, a packet that was lost.
(cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep -v ':0$' -- * | paste -sd' ')
[ "$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_rnr_err)" = 0 ]
row $? "each message found a receive"

dmesg | grep -E 'Oops|BUG:|rxe.*(err|fail)' | tail -n 5
echo "rxe: $right of $all right"
