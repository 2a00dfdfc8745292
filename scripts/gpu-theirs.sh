#!/usr/bin/env bash
# gpu-theirs.sh [--build]: NVIDIA's libnccl with NVIDIA's headers on GPUs, by GDAKI, over the soft libibverbs and libmlx5 of
# abi-tests/soft-verbs: what the model of a card does is held against the library and the kernels that it is a model for. No card.
#
#   scripts/gpu-theirs.sh --build    any machine with cargo, cc and nvcc (make deps): into build/gpu
#   scripts/gpu-theirs.sh            a machine with GPUs
#
# With one GPU two ranks share it: each says that it is on a host of its own, and only the card is between them. With two or more each
# rank has one, first so and then as one host. Ranks are threads, for the card's memory is this process's.
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
  # As scripts/gpu-build.sh makes it.
  "$NVCC" -std=c++17 -O2 -arch="${GPU_ARCH:-sm_90}" --extended-lambda -I "$NCCL_INCLUDE" -o "$built/nvidia/suite" abi-tests/twice/suite.cu \
    -DTWICE_NO_API -cudart none -L "$NCCL_LIB" -l:libnccl.so.2 -L "$CUDART_LIB" "-l:$CUDART"
  exit
fi

[ -e "$soft/libibverbs.so.1" ] || { echo "$soft/libibverbs.so.1 is not there | fix: scripts/gpu-theirs.sh --build, on any machine with nvcc" >&2; exit 1; }
[ -n "$NCCL_LIB" ] || { echo "NVIDIA's libnccl.so.2 is not there | fix: NCCL_LIB, a folder with that of 2.28.9" >&2; exit 1; }
gpus=$(nvidia-smi -L 2> /dev/null | grep -c '^GPU' || true)
[ "$gpus" -ge 1 ] || { echo "no GPU is here | fix: a machine on which nvidia-smi -L names one; without GPUs: cargo test -p abi-tests --test theirs" >&2; exit 1; }
export LD_LIBRARY_PATH="$soft:$NCCL_LIB:$CUDART_LIB${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0 NCCL_RAS_ENABLE=0 NCCL_GIN_TYPE=3 SOFTVERBS_GPU=1 CUDA_MODULE_LOADING=EAGER
export NCCL_DEBUG=${NCCL_DEBUG:-INFO} NCCL_DEBUG_SUBSYS=${NCCL_DEBUG_SUBSYS:-INIT,NET,ENV} DOCA_GPUNETIO_LOG=${DOCA_GPUNETIO_LOG:-6} SOAK="seconds=2 blocks=3 threads=64 strip=4096"
results=$PWD/build/gpu-test
mkdir -p "$results"
failed=0

# name, seconds, programs (commas), environment
run() {
  local name=$1 seconds=$2 program log
  local programs=${3//,/ }
  shift 3
  for program in $programs; do
    log=$results/theirs-$name-$program.log
    rm -f "$log.card"
    if env SOFTVERBS_LOG="$log.card" "$@" timeout -s ABRT "$seconds" "$built/nvidia/suite" --threads 2 "$program" > "$log" 2>&1; then
      echo "$name $program: ok"
    else
      echo "$name $program: FAILED ($?)"
      failed=1
      grep -aE 'WARN|\[ERR\]|SOFTVERBS|redirect|suite.cu|: cuda|WRONG|differences|panicked' "$log" | cut -c1-220 | tail -12
      grep -aE 'NCCL INFO.* -> [1-9]' "$log" | head -4
      grep -a '^# queue pair' "$log.card" | head -3 || true
    fi
    # Which handler it was, and whether the card was told anything.
    printf '   %s commands' "$(grep -acE '^[A-Z0-9]+_' "$log.card" 2> /dev/null || true)"
    sort "$log.card" 2> /dev/null | grep -a "record is in" | uniq -c | sed 's/^ */, /; s/# a queue pair.s record/records/' | tr -d '\n' || true
    grep -aE 'Failed to check if UAR|export UAR|NIC handler|nic_handler' "$log" | sort -u | head -2 || true
    echo
  done
}

own=(LD_PRELOAD="$soft/libredirect.so" THEIRS_RUNTIME=own THEIRS_RANKS=2 THEIRS_HOSTS=thread GINRS_SHARE_DEVICE=1)
run alone 90 gin-alltoall,ring "${own[@]}"
for handler in 1 2; do
  run "alone-handler$handler" 90 gin-alltoall,order "${own[@]}" NCCL_GIN_GDAKI_NIC_HANDLER=$handler
done
run alone-ib 90 gin-alltoall "${own[@]}" SOFTVERBS_LINK=ib
run alone-more 60 sizes,graphs,soak,torture "${own[@]}"
if [ "$gpus" -ge 2 ]; then
  run together 90 gin-alltoall,ring,hybrid-alltoall,order,sizes,soak
fi
exit $failed
