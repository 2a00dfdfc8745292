//! The collectives' GPU kernels go into the library: GINRS_FATBIN names what scripts/build-kernels.sh compiled. Without it the
//! library has none, and a collective on a GPU says so.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=GINRS_FATBIN");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("collectives.fatbin");
    match env::var_os("GINRS_FATBIN").filter(|path| !path.is_empty()).map(PathBuf::from) {
        Some(path) => {
            println!("cargo:rerun-if-changed={}", path.display());
            let copied = fs::copy(&path, &out);
            copied.unwrap_or_else(|error| panic!("GINRS_FATBIN={}: {error}", path.display()));
        }
        None => fs::write(&out, []).expect("OUT_DIR is writable"),
    }
}
