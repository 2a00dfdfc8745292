//! Compiles the C shim: Rust has no stable `#[thread_local]` that C could name.

fn main() {
    let include = "../cuda/cpu/include";
    println!("cargo:rerun-if-changed=shim/thread.c");
    println!("cargo:rerun-if-changed=shim/race.c");
    println!("cargo:rerun-if-changed=shim/heap.c");
    for header in ["race", "runtime", "waits"] {
        println!("cargo:rerun-if-changed={include}/ginrs_cpu/{header}.h");
    }
    cc::Build::new()
        .file("shim/thread.c")
        .file("shim/race.c")
        .file("shim/heap.c")
        .include(include)
        .flag("-std=gnu11")
        // The library is loaded with the program, so one load at a fixed offset does; a call per basic block would not.
        .flag("-ftls-model=initial-exec")
        .opt_level(2)
        // Called at every basic block.
        .force_frame_pointer(false)
        .warnings(true)
        .compile("ginrs_cpu_shim");
}
