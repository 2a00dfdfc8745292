#!/usr/bin/env bash
# gpu-theirs.sh [--build]: GDAKI on GPUs over the soft libibverbs and libmlx5 of abi-tests/soft-verbs, no card: ginrs with kernels of both
# header sets, and NVIDIA's libnccl with NVIDIA's, for what the model of a card does is held against the library that it is a model for.
#
#   scripts/gpu-theirs.sh --build    behind make stage, on any machine with cargo, cc and nvcc (make deps): into build/gpu
#   scripts/gpu-theirs.sh            a machine with GPUs
#
# With one GPU two ranks share it; on NVIDIA's library each says that it is on a host of its own, and only the card is between them. With two
# or more each rank has one, first so and then as one host. Ranks are threads, for the card's memory is this process's.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/find-cuda.sh
built=$PWD/build/gpu soft=$PWD/build/gpu/soft

if [ "${1:-}" = --build ]; then
  [ -n "$NVCC" ] && [ -n "$NCCL_INCLUDE" ] && [ -n "$NCCL_LIB" ] || { echo "no nvcc or no NCCL 2.28.9 of NVIDIA's | fix: make deps, or NVCC, NCCL_INCLUDE and NCCL_LIB" >&2; exit 1; }
  mkdir -p "$soft" "$built/nvidia"
  cargo build -q --release -p soft-verbs
  cc -shared -s -o "$soft/libibverbs.so.1" -Wl,--version-script=abi-tests/soft-verbs/versions.map -Wl,--whole-archive \
    target/release/libsoft_verbs.a -Wl,--no-whole-archive -Wl,--gc-sections -lpthread -ldl -lm -lgcc_s
  for name in libibverbs.so libmlx5.so libmlx5.so.1; do ln -sf libibverbs.so.1 "$soft/$name"; done
  cc -shared -fPIC -O1 -std=gnu11 -o "$soft/libredirect.so" abi-tests/theirs/redirect.c -ldl
  stage=${GINRS_PREFIX:-build/prefix}
  [ -e "$stage/lib/libginrs.so.0" ] || { echo "$stage/lib/libginrs.so.0 is not there | fix: make stage" >&2; exit 1; }
  mkdir -p "$built/lib" "$built/ours"
  strip -o "$built/lib/libginrs.so.0" "$stage/lib/libginrs.so.0"
  ln -sf libginrs.so.0 "$built/lib/libnccl.so.2"
  # As scripts/gpu-build.sh makes them.
  compile() { # header set, its folder, options
    [ -e "$built/$1/suite" ] && [ -z "$(find "$2" abi-tests/twice abi-tests/programs examples-c -newer "$built/$1/suite" -print -quit)" ] ||
      "$NVCC" -std=c++17 -O2 -arch="${GPU_ARCH:-sm_90}" --extended-lambda -I "$2" -o "$built/$1/suite" abi-tests/twice/suite.cu \
        "${@:3}" -cudart none -L "$NCCL_LIB" -l:libnccl.so.2 -L "$CUDART_LIB" "-l:$CUDART"
  }
  compile ours include
  compile nvidia "$NCCL_INCLUDE" -DTWICE_NO_API
  exit
fi

[ -e "$soft/libibverbs.so.1" ] || { echo "$soft/libibverbs.so.1 is not there | fix: scripts/gpu-theirs.sh --build, on any machine with nvcc" >&2; exit 1; }
[ -n "$NCCL_LIB" ] || { echo "NVIDIA's libnccl.so.2 is not there | fix: NCCL_LIB, a folder with that of 2.28.9" >&2; exit 1; }
gpus=$(nvidia-smi -L 2> /dev/null | grep -c '^GPU' || true)
[ "$gpus" -ge 1 ] || { echo "no GPU is here | fix: a machine on which nvidia-smi -L names one; without GPUs: cargo test -p abi-tests --test theirs" >&2; exit 1; }
behind=$CUDART_LIB${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0 NCCL_RAS_ENABLE=0 NCCL_GIN_TYPE=3 SOFTVERBS_GPU=1 CUDA_MODULE_LOADING=EAGER
# Streams must not share a hardware queue: kernels of one rank would stand behind those of another that wait for them.
export CUDA_DEVICE_MAX_CONNECTIONS=32
export NCCL_DEBUG=${NCCL_DEBUG:-INFO} NCCL_DEBUG_SUBSYS=${NCCL_DEBUG_SUBSYS:-INIT,NET,ENV} DOCA_GPUNETIO_LOG=${DOCA_GPUNETIO_LOG:-6} SOAK="seconds=2 blocks=3 threads=64 strip=4096"
results=$PWD/build/gpu-test
mkdir -p "$results"
failed=0

# name, header set, folder of the library, seconds, programs (commas), environment
run() {
  local name=$1 set=$2 library=$3 seconds=$4 program log status
  local programs=${5//,/ } refused="GINRS-E114.*its register cannot be mapped for kernels|Can't export UAR to GPU"
  shift 5
  for program in $programs; do
    log=$results/card-$name-$program.log
    rm -f "$log" "$log.card"
    if env LD_LIBRARY_PATH="$soft:$library:$behind" SOFTVERBS_LOG="$log.card" "$@" timeout -s ABRT "$seconds" "$built/$set/suite" --threads 2 "$program" >> "$log" 2>&1; then
      echo "$name $program: ok"
    elif status=$?; grep -aqE "$refused" "$log"; then
      # The soft card's register is no IO memory.
      echo "$name $program: refused, as the driver does not map the card's register for kernels"
    else
      echo "$name $program: FAILED ($status)"
      failed=1
      grep -aE 'WARN|GINRS-E|\[ERR\]|SOFTVERBS|redirect|suite.cu|: cuda|WRONG|differences|panicked' "$log" | cut -c1-220 | tail -12 || true
      grep -aE 'NCCL INFO.* -> [1-9]' "$log" | head -4 || true
      grep -a '^# queue pair' "$log.card" | head -3 || true
    fi
    # Which handler it was, and whether the card was told anything.
    printf '   %s commands' "$(grep -acE '^[A-Z0-9]+_' "$log.card" 2> /dev/null || true)"
    sort "$log.card" 2> /dev/null | grep -a "record is in" | uniq -c | sed 's/^ */, /; s/# a queue pair.s record is/records/' | tr -d '\n' || true
    echo
    grep -aEo 'Failed to check if UAR.*|export UAR.*|NIC handler.*|nic_handler.*|the host rings.*' "$log" | cut -c1-160 | sort -u | head -2 | sed 's/^/   /' || true
  done
}

ginrs() { # name, header set, programs, environment
  run "ginrs-$1" "$2" "$built/lib" 40 "$3" NCCL_GIN_BACKEND=gdaki GINRS_NIC=card GINRS_SHARE_DEVICE=1 "${@:4}"
}
theirs() { # name, seconds, programs, environment
  run "theirs-$1" nvidia "$NCCL_LIB" "${@:2}"
}
for set in ours nvidia; do
  ginrs "$set" "$set" gin,order
  for handler in 1 2; do
    ginrs "$set-handler$handler" "$set" gin-alltoall,order NCCL_GIN_GDAKI_NIC_HANDLER=$handler
  done
done
ginrs address ours gin-alltoall NCCL_DMABUF_ENABLE=0
ginrs more ours layout,graphs,several,ginbarriers,soak
own=(LD_PRELOAD="$soft/libredirect.so" THEIRS_RUNTIME=own THEIRS_RANKS=2 THEIRS_HOSTS=thread GINRS_SHARE_DEVICE=1)
theirs alone 40 gin-alltoall,ring "${own[@]}"
for handler in 1 2; do
  theirs "alone-handler$handler" 40 gin-alltoall,order "${own[@]}" NCCL_GIN_GDAKI_NIC_HANDLER=$handler
done
theirs alone-ib 40 gin-alltoall "${own[@]}" SOFTVERBS_LINK=ib
theirs alone-more 60 sizes,graphs,soak "${own[@]}"
if [ "$gpus" -ge 2 ]; then
  theirs together 90 gin-alltoall,ring,hybrid-alltoall,order,sizes,soak,torture
fi
exit $failed
