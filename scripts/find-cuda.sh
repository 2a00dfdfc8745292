# Sourced. Sets NVCC, CUDART_LIB (folder), CUDART (file name), NCCL_LIB (folder of NVIDIA's libnccl.so.2) and NCCL_INCLUDE, each
# empty if not found. What the environment says wins; then the venv of `make deps`, the machine's Python, /usr/local/cuda, the system's packages.
find_cuda() {
  local venv=${GINRS_TEST_VENV:-$PWD/build/venv} folder site sites=()
  for site in "$venv"/lib/python3*/site-packages; do [ -d "$site" ] && sites+=("$site"); done
  while read -r site; do sites+=("$site"); done < <(python3 -c 'import site, sys; print("\n".join(p for p in sys.path + site.getsitepackages() if p.endswith("-packages")))' 2> /dev/null)
  for folder in /opt/*/.venv/lib/python3*/site-packages; do [ -d "$folder" ] && sites+=("$folder"); done

  NVCC=${NVCC:-$(command -v nvcc || true)}
  CUDART_LIB=${CUDART_LIB:-} CUDART=${CUDART:-} NCCL_LIB=${NCCL_LIB:-} NCCL_INCLUDE=${NCCL_INCLUDE:-}
  for folder in "${sites[@]/%//nvidia/cu13}" /usr/local/cuda; do
    [ -n "$NVCC" ] || ! [ -x "$folder/bin/nvcc" ] || NVCC=$folder/bin/nvcc
    local lib
    for lib in "$folder"/lib/libcudart.so.1? "$folder"/lib64/libcudart.so.1?; do
      [ -n "$CUDART_LIB" ] || ! [ -e "$lib" ] || { CUDART_LIB=$(dirname "$lib") CUDART=$(basename "$lib"); }
    done
  done
  for folder in "${sites[@]/%//nvidia/nccl}"; do
    [ -n "$NCCL_LIB" ] || ! [ -e "$folder/lib/libnccl.so.2" ] || NCCL_LIB=$folder/lib
    [ -n "$NCCL_INCLUDE" ] || ! [ -e "$folder/include/nccl_device.h" ] || NCCL_INCLUDE=$folder/include
  done
  # Of NVIDIA's Debian and Ubuntu packages.
  [ -n "$NCCL_LIB" ] || ! [ -e "/usr/lib/$(uname -m)-linux-gnu/libnccl.so.2" ] || NCCL_LIB=/usr/lib/$(uname -m)-linux-gnu
  [ -n "$NCCL_INCLUDE" ] || ! [ -e /usr/include/nccl_device.h ] || NCCL_INCLUDE=/usr/include
}
find_cuda
