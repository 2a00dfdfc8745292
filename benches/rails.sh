#!/usr/bin/env bash
# rails.sh PROGRAM 2x4 1gbit: runs PROGRAM on two machines of four ranks, which are network namespaces; of what they send to each other no more
# than 1 Gbit/s leaves, or reaches, each. As root. A kernel without bridges is enough: the machines are joined by a router.
#
# A token bucket cannot hold packets back for a distance, so a link's latency is what the kernel takes: some 20 us on free cores. Packets are of
# 9000 bytes, for with 1500 the cores had more to do for the network than for the ranks.
set -euo pipefail
program=$1 machines=${2%x*} ranks=${2#*x} rate=$3
prefix=${GINRS_PREFIX:-$(cd "$(dirname "$0")/.." && pwd)/build/prefix}
name=rails-$$
work=$(mktemp -d)
clean() {
  for i in hub $(seq 0 $((machines - 1))); do ip netns del "$name-$i" 2> /dev/null || true; done
  rm -rf "$work"
}
trap clean EXIT

ip netns add "$name-hub"
ip netns exec "$name-hub" sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
hosts=
for ((i = 0; i < machines; i++)); do
  on=$name-$i
  ip netns add "$on"
  ip -n "$name-hub" link add "port$i" mtu 9000 type veth peer name eth0 mtu 9000 netns "$on"
  ip -n "$name-hub" addr add "10.78.$i.1/24" dev "port$i"
  ip -n "$on" addr add "10.78.$i.2/24" dev eth0
  ip -n "$name-hub" link set "port$i" up
  ip -n "$on" link set lo up
  ip -n "$on" link set eth0 up
  ip -n "$on" route add default via "10.78.$i.1"
  # No more than a packet or two at once, and a queue of some milliseconds.
  if [ "$rate" != none ]; then
    for at in "$name-hub port$i" "$on eth0"; do
      ip netns exec "${at% *}" tc qdisc add dev "${at#* }" root tbf rate "$rate" burst 20kb limit 2mb
    done
  fi
  hosts+=${hosts:+,}$on:$ranks
done
# The kernel says a moment later that an interface is up.
for ((i = 0; i < machines; i++)); do
  until ip -n "$name-$i" link show eth0 | grep -q 'state UP'; do sleep 0.01; done
done
printf '#!/bin/sh\nhost=$1\nshift\nexec ip netns exec $host sh -c "$*"\n' > "$work/rsh"
chmod +x "$work/rsh"
export NCCL_SOCKET_IFNAME='=eth0' GINRS_CPU_DEVICES=$ranks
"$prefix/bin/ginrs-run" -n $((machines * ranks)) --no-prefix --timeout "${TIMEOUT:-300}" --hosts "$hosts" --rsh "$work/rsh" "$program"
