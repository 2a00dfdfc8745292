#!/usr/bin/env bash
# link-library.sh STATICLIB EXPORTS_MAP OUT_DIR NAME VERSION [linker words...]
# Makes OUT_DIR/libNAME.a and OUT_DIR/libNAME.so.* from a Rust static library, and from the object that EXTRA_OBJECTS names;
# nothing outside EXPORTS_MAP stays visible.
#
# Why not Rust's own cdylib: it ignores a version script (rust-lld) or refuses it (GNU ld).
# Why one relocatable object: other Rust static libraries may stand beside ours in a program, so Rust's own symbols have to be
# local. Without --force-group-allocation the localised DW.ref.rust_eh_personality sits in a COMDAT group that the other
# library may win: the first caught panic then crashes, or ld stops with "bad value" (abi-tests/tests/link.rs).
# Why --defsym for ncclX = pncclX: `.set` in global_asm! becomes an undefined ncclX in builds of many codegen units.
set -euo pipefail
staticlib=$1 map=$2 out=$3 name=$4 version=$5
soversion=${version%%.*}
shift 5
mkdir -p "$out"

# Equal inputs keep the outputs and their time stamps: what links or runs against the library need not be made again.
inputs=("$staticlib" "$map" scripts/link-library.sh ${EXTRA_OBJECTS:+$EXTRA_OBJECTS})
how="${CC:-cc} ${OBJCOPYFLAGS:-} $version ${EXTRA_OBJECTS:-} $*"
is_current() {
  [ -e "$out/lib$name.a" ] && [ -e "$out/lib$name.so" ] && [ "$(cat "$out/$name.how" 2> /dev/null)" = "$how" ] || return 1
  [ -z "$(find "${inputs[@]}" -newer "$out/$name.how" -print -quit)" ]
}
if is_current; then exit; fi
rm -f "$out/$name.how"

work=$(mktemp -d "$out/link.XXXXXX")
trap 'rm -rf "$work"' EXIT
touch "$work/started"
echo "$how" > "$work/how"

# The names between "global:" and "local:".
sed -n '/global:/,/local:/p' "$map" | sed 's/global:\|local:.*//' | tr ';' '\n' | tr -d ' \t' | grep -v '^$' > "$work/exports"
defsyms=() weak=()
while read -r symbol; do
  if grep -qx "p$symbol" "$work/exports"; then
    defsyms+=(--defsym "$symbol=p$symbol")
    weak+=(-W "$symbol")
  fi
done < "$work/exports"

ld -r --force-group-allocation ${EXTRA_OBJECTS:-} --whole-archive "$staticlib" "${defsyms[@]}" -o "$work/$name.o"
# .llvmbc: std's objects carry bitcode of a newer LLVM than the plugin of the system's binutils, which then aborts.
objcopy -w ${OBJCOPYFLAGS:-} "${weak[@]}" --remove-section=.llvmbc --remove-section=.llvmcmd --keep-global-symbols="$work/exports" "$work/$name.o"

rm -f "$out/lib$name.a"
ar rcsD "$out/lib$name.a" "$work/$name.o"

full=lib$name.so.$version
${CC:-cc} -shared -o "$out/$full" "$work/$name.o" -Wl,--version-script="$map" -Wl,--gc-sections -Wl,-z,relro,-z,now \
  -Wl,-soname,"lib$name.so.$soversion" -Wl,--no-undefined "$@"
ln -sf "$full" "$out/lib$name.so.$soversion"
ln -sf "lib$name.so.$soversion" "$out/lib$name.so"
# Older than the outputs: an input that changes during the link makes the next run link again.
touch -r "$work/started" "$work/how"
mv "$work/how" "$out/$name.how"
