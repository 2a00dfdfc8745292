#!/usr/bin/env bash
# stage.sh PREFIX VERSION [LIBRARIES]: installs the outputs of `make build` under PREFIX. The tree can be moved: tools find it from their
# own path, pkg-config from pcfiledir. A file whose content is unchanged keeps its time stamp, so that nothing is rebuilt for it.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$1 version=$2 built=${3:-build/lib}
bin=$root/bin lib=$root/lib include=$root/include/ginrs cpu=$root/lib/ginrs/cpu/include doc=$root/share/doc/ginrs

# install_tree FROM TO: makes TO equal to FROM. A header that was removed must not linger.
install_tree() {
  local folder
  (cd "$1" && find -L . -type d) | while read -r folder; do
    install -d "$2/$folder"
    find -L "$1/$folder" -maxdepth 1 -type f ! -name README.md -exec install -C -m 644 -t "$2/$folder" {} +
  done
  (cd "$2" && find . -depth -mindepth 1) | while read -r entry; do
    [ -e "$1/$entry" ] && [ "${entry##*/}" != README.md ] || rm -rf "${2:?}/$entry"
  done
}
# Writes standard input to a file, unless it has this content.
write() { cat > "$1.new" && if cmp -s "$1.new" "$1"; then rm "$1.new"; else mv "$1.new" "$1"; fi; }

install -d "$bin" "$lib/pkgconfig" "$include" "$cpu" "$doc"
for name in ginrs ginrs_cpu; do
  install -C -m 755 "$built/lib$name.so.$version" "$lib/"
  ln -sfn "lib$name.so.$version" "$lib/lib$name.so.${version%%.*}"
  ln -sfn "lib$name.so.${version%%.*}" "$lib/lib$name.so"
done
install -C -m 644 "$built/libginrs.a" "$lib/"
install -C -m 755 target/release/{ginrs-cc,ginrs-run,ginrs-info} tools/gdb/ginrs-gdb "$bin/"
install -d "$lib/ginrs"
install -C -m 644 tools/gdb/ginrs-gdb.py "$lib/ginrs/"
# Loaded by ginrs-run alone, into programs that run as a seed has it.
[ ! -e "$built/libginrs_baton.so.$version" ] || install -C -m 755 "$built/libginrs_baton.so.$version" "$lib/ginrs/libginrs_baton.so"

install_tree include "$include"
install_tree cuda/cpu/include "$cpu"

sed "s/@VERSION@/$version/" pkgconfig/ginrs.pc.in | write "$lib/pkgconfig/ginrs.pc"

# CMake: ginrs under its own name, and under the name that programs for NCCL look for. NCCL's version is the API's.
nccl=$(sed -n 's/^#define NCCL_\(MAJOR\|MINOR\|PATCH\) *\([0-9]*\)$/\2/p' include/nccl.h | paste -sd.)
for package in ginrs:$version NCCL:$nccl; do
  name=${package%%:*} at=$lib/cmake/${package%%:*}
  install -d "$at"
  sed "s/@VERSION@/$version/g; s/@SOVERSION@/${version%%.*}/g" "cmake/${name}Config.cmake.in" | write "$at/${name}Config.cmake"
  sed "s/@VERSION@/${package#*:}/g" cmake/ConfigVersion.cmake.in | write "$at/${name}ConfigVersion.cmake"
done

# A binary that was linked with -lnccl finds ginrs with this folder in LD_LIBRARY_PATH; a build that asks for NCCL_HOME (include, lib,
# -lnccl) takes the folder itself, one that asks for CUDA_HOME (bin/nvcc, include, lib64) the other. Links and not copies: one
# inode is one copy of the library's state, also in a process that loads it under two names. libnccl.so.2 itself is a library of
# nothing but that name, which needs libginrs: preloaded, it is what a process gets that asks for libnccl.so.2 behind having loaded
# NVIDIA's by its path (JAX does), for the loader goes by names that stand in a library. lib/ is what linkers look at, and keeps links.
compat=$lib/ginrs/compat home=$lib/ginrs/cuda so=libginrs.so.${version%%.*} cpuso=libginrs_cpu.so.${version%%.*}
rm -rf "$compat" "$home"
install -d "$compat/lib/pkgconfig" "$home/bin" "$home/lib64/stubs" "$home/nvvm/libdevice"
# Both libraries under their own names, too: they are what a program linked here asks for, and a build may name one folder only (-rpath).
ln -s "../../$so" "$compat/$so"
${CC:-cc} -shared -nostdlib -s -o "$compat/libnccl.so.2" -Wl,--no-as-needed "$lib/$so" -Wl,-soname,libnccl.so.2 -Wl,-rpath,'$ORIGIN' \
  -Wl,-z,noexecstack,-z,relro,-z,now
ln -s "../../$cpuso" "$compat/$cpuso"
for name in libnccl.so libnccl.so.2 "$so"; do ln -s "../../../$so" "$compat/lib/$name"; done
ln -s "../../../$cpuso" "$compat/lib/$cpuso"
ln -s ../../../libginrs.a "$compat/lib/libnccl_static.a"
ln -s ../../../cmake "$compat/lib/cmake"
ln -s ../../../include/ginrs "$compat/include"
sed "s/@VERSION@/$nccl/" pkgconfig/nccl.pc.in > "$compat/lib/pkgconfig/nccl.pc"

ln -s ../../../../bin/ginrs-cc "$home/bin/nvcc"
ln -s ../cpu/include "$home/include"
ln -s lib64 "$home/lib"
# The linker looks at what a file is, not at its ending: libcudart_static.a is the shared library.
for name in libcudart.so libcudart.so.13 libcudart_static.a libcuda.so "$cpuso"; do ln -s "../../../$cpuso" "$home/lib64/$name"; done
ln -s "../../../$so" "$home/lib64/$so"
ln -s ../libcuda.so "$home/lib64/stubs/libcuda.so"
for name in libcudadevrt libnvToolsExt; do printf '!<arch>\n' > "$home/lib64/$name.a"; done
printf '{"cuda": {"name": "ginrs on the CPU device", "version": "13.0.0"}}\n' > "$home/version.json"

# The pages, as they lie in the repository, with the examples. A link to what is not installed (sources) becomes its text.
rm -rf "$doc"
install -d "$doc"
cp -R README.md MATRIX.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE LICENSE-MIT LICENSE-APACHE docs examples-c "$doc/"
find "$doc" -name '*.md' | while read -r page; do
  { grep -oE '\]\([^)#: ]+' "$page" || true; } | cut -c3- | sort -u | while read -r target; do
    [ -e "$(dirname "$page")/$target" ] || sed -i "s|\[\([^]]*\)\]($target[^)]*)|\1|g" "$page"
  done
done
