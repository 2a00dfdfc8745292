#!/usr/bin/env bash
# run.sh [SECONDS]: programs of the suite over libfabric's provider verbs on soft RoCE (rxe), in a guest of QEMU that emulates a machine
# with Debian's kernel, since few kernels of hosts and containers have rxe. Needs root, nothing of KVM, and the packages below; the kernel's package is
# fetched into build/rxe and unpacked there, never installed (RXE_KERNEL names a folder with another one: boot/vmlinuz-*, lib/modules/*).
# Ends by itself; build/rxe/output keeps all that the guest says; the status is 0 if all was right.
set -euo pipefail
cd "$(dirname "$0")/../.."
limit=${1:-3000} out=$PWD/build/rxe
prefix=${GINRS_PREFIX:-$PWD/build/prefix}
venv=${GINRS_TEST_VENV:-$PWD/build/venv}
modules='virtio_pci 9pnet_virtio 9p configfs crc32_generic crc32c_generic udp_tunnel ip6_udp_tunnel ib_uverbs rdma_rxe rdma_cm rdma_ucm veth'

scripts/deps.sh --check scripts/rxe/run.sh
mkdir -p "$out"

# A program is compiled again when the installed tree or a source is newer.
build() { # name, source, options
  local name=$1 source=$2
  shift 2
  [ -e "$out/$name" ] && [ -z "$(find "$prefix/bin" "$prefix/include" abi-tests examples-c -type f -newer "$out/$name" -print -quit)" ] && return
  echo "compiles $source, $name"
  "$prefix/bin/ginrs-cc" -std=c++17 -O2 --extended-lambda "$@" -o "$out/$name" "abi-tests/$source"
}
build suite twice/suite.cu
build sizes programs/sizes.cu
build fault programs/fault.cu
rm -f "$out/theirs"
for include in "$venv"/lib/python3*/site-packages/nvidia/nccl/include; do
  [ ! -f "$include/nccl_device.h" ] || { build suite.nvidia twice/suite.cu "-I$include" && touch "$out/theirs"; }
done

kernel=${RXE_KERNEL:-$out/kernel}
if [ ! -d "$kernel/boot" ]; then
  package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
  echo "fetches $package"
  rm -rf "$out/fetched" && mkdir -p "$out/fetched" "$kernel"
  (cd "$out/fetched" && apt-get download -q "$package")
  dpkg-deb -x "$out/fetched/"*.deb "$kernel"
fi
image=$(echo "$kernel"/boot/vmlinuz-*) tree=$(echo "$kernel"/lib/modules/*)
version=${tree##*/}
[ -e "$tree/modules.dep" ] || busybox depmod -b "$kernel" "$version"

# The initial RAM disk: busybox, and the modules that are needed with those that they need.
disk=$out/disk
rm -rf "$disk" && mkdir -p "$disk/bin" "$disk/lib/modules/$version"
cp "$(command -v busybox)" "$disk/bin/busybox"
install -m 755 scripts/rxe/init "$disk/init"
cp "$tree/modules.dep" "$disk/lib/modules/$version/"
for module in $modules; do
  echo "$module" >> "$disk/modules"
  for file in $(grep -E "^[^:]*/$module\.ko(\.xz)?:" "$tree/modules.dep" | tr -d :); do
    install -D -m 644 "$tree/$file" "$disk/lib/modules/$version/$file"
  done
done
(cd "$disk" && find . | cpio --quiet -o -H newc | gzip -1) > "$out/disk.gz"

# tsc: without it each look at the time is a call of the emulated kernel.
timeout "$limit" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1500 -nic none -nographic -no-reboot \
  -kernel "$image" -initrd "$out/disk.gz" -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
  -append "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable clocksource=tsc rxe_script=$PWD/scripts/rxe/guest.sh rxe_prefix=$prefix" \
  < /dev/null 2>&1 | sed -u 's/\r//g; s/\x1b\[[0-9;?]*[a-zA-Z]//g; s/\x1bc//g' | tee "$out/output" || true
said=$(grep -aE '^rxe: [0-9]+ of [0-9]+ right' "$out/output" || true)
[ -n "$said" ] || { echo "the guest did not come to its end within $limit s: $out/output" >&2; exit 1; }
! grep -aq '^rxe: FAILED' "$out/output"
