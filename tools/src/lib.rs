//! ginrs-cc, which compiles `.cu` files for the CPU device, and ginrs-run, which starts ranks.

pub mod cc;
pub mod rewrite;
pub mod run;
mod timeline;

use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// A new folder that only this user can enter, in TMPDIR.
pub fn private_folder(name: &str) -> io::Result<PathBuf> {
    let mut number = std::process::id();
    loop {
        let path = std::env::temp_dir().join(format!("{name}-{number:08x}"));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            // Left over, or another's: the next number.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number = number.wrapping_mul(31).wrapping_add(7),
            Err(e) => return Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
        }
    }
}

/// A line on stderr. Nobody may be reading it, or its device be full: that is no reason to end (eprintln! panics).
pub fn tell(line: impl AsRef<[u8]>) {
    let mut line = line.as_ref().to_vec();
    line.push(b'\n');
    let _ = io::stderr().write_all(&line);
}

/// An answer on stdout; the exit status. Who stops reading has read enough (`--help | head`).
pub fn answer(name: &str, text: impl AsRef<[u8]>) -> i32 {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            tell(format!("{name}: cannot write to standard output: {e}"));
            1
        }
        _ => 0,
    }
}
