//! The collectives' GPU kernels go into the library: GINRS_FATBIN names what scripts/build-kernels.sh compiled, and the file next to it
//! the architectures. Without it the library has none, and reports that when a collective is called on a GPU.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=GINRS_FATBIN");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("collectives.fatbin");
    let mut architectures = String::new();
    match env::var_os("GINRS_FATBIN").filter(|path| !path.is_empty()).map(PathBuf::from) {
        Some(path) => {
            println!("cargo:rerun-if-changed={}", path.display());
            let copied = fs::copy(&path, &out);
            copied.unwrap_or_else(|error| panic!("GINRS_FATBIN={}: {error}", path.display()));
            // The compiler's path, then numbers.
            let list = fs::read_to_string(path.with_added_extension("archs")).unwrap_or_default();
            architectures = list.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
        }
        None => fs::write(&out, []).expect("OUT_DIR is writable"),
    }
    println!("cargo:rustc-env=GINRS_GPU_ARCHS_BUILT={architectures}");
}
