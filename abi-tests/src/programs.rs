//! Programs of several ranks, compiled by the installed `ginrs-cc`.

use super::{prefix, root, run};
use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

/// The program of `source`, a path within the repository; each is compiled once for all tests of a file. Programs lie beside the
/// test's own binary, where the next run overwrites them.
#[track_caller]
pub fn compiled(source: &str) -> PathBuf {
    type Once = Arc<OnceLock<PathBuf>>;
    static BUILT: Mutex<Option<HashMap<String, Once>>> = Mutex::new(None);
    let once = BUILT.lock().unwrap().get_or_insert_default().entry(source.into()).or_default().clone();
    once.get_or_init(|| {
        let folder = std::env::current_exe().expect("a test knows its binary").with_extension("programs");
        std::fs::create_dir_all(&folder).expect("the folder of the test's binary takes files");
        let out = folder.join(source.trim_end_matches(".cu").replace('/', "_"));
        let mut compiler = Command::new(prefix().join("bin/ginrs-cc"));
        run(compiler.args(["-std=c++17", "-O2", "--extended-lambda", "-o"]).arg(&out).arg(root().join(source)));
        out
    })
    .clone()
}

/// What GINRS_RUN_ID names for ranks that no launcher started: a folder that nobody else can enter.
pub fn job_folder() -> tempfile::TempDir {
    tempfile::Builder::new()
        .permissions(PermissionsExt::from_mode(0o700))
        .tempdir()
        .expect("the folder for temporary files takes one")
}
