//! ginrs-cc, which compiles `.cu` files for the CPU device, and ginrs-run, which starts ranks.

pub mod cc;
pub mod rewrite;
pub mod run;

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// A new folder that only this user can enter, in TMPDIR.
pub fn private_folder(name: &str) -> io::Result<PathBuf> {
    let mut number = std::process::id();
    loop {
        let path = std::env::temp_dir().join(format!("{name}-{number:x}"));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            // Left over, or another's: the next number.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number = number.wrapping_mul(31).wrapping_add(7),
            Err(e) => return Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
        }
    }
}
