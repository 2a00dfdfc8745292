//! The stand-in runtime (libginrs_cpu.so) exports some cu* functions too, and is loaded first: calls inside this library must
//! not land there.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rerun-if-changed=build.rs");
}
