//! Compiles and runs `plain_spin.cpp` as ginrs-cc would compile a kernel.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn plain_spins_are_preempted() {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let built = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    // Beside the tests lies the archive of the same build; `cargo test` does not renew the one a folder up.
    let archives = std::fs::read_dir(&built).unwrap().map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libginrs_cpu-") && name.ends_with(".a")
    });
    let archive = archives.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("the static library");
    let program = built.join("plain_spin_program");
    let status = Command::new("g++")
        .args(["-std=c++17", "-O2", "-g", "-Wall", "-Werror", "-fsanitize-coverage=trace-pc", "-I"])
        .args([here.join("../cuda/cpu/include"), here.join("tests/plain_spin.cpp"), archive])
        .args(["-o".as_ref(), program.as_os_str()])
        .args(["-lpthread", "-ldl", "-lm"])
        .status();
    assert!(status.expect("g++ (Debian package g++) runs").success());
    // A spin that is not preempted never ends.
    let output = Command::new("timeout").arg("120").arg(&program).output().unwrap();
    assert!(output.status.success(), "{:?}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("plain_spin: ok"));
}
