//! launcher.c over include/ginrs_bootstrap.h.

fn main() {
    println!("cargo:rerun-if-changed=src/launcher.c");
    println!("cargo:rerun-if-changed=../../include/ginrs_bootstrap.h");
    cc::Build::new().file("src/launcher.c").include("../../include").compile("ginrs_info_launcher");
}
