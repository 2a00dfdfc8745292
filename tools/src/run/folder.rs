//! A job's private folder. Whoever has it holds a lock on a file in it: a ginrs-run that was killed outright leaves a folder that nobody holds,
//! with the sockets of its ranks, and the next one of this user takes it away. A folder with anything else in it is left: somebody may want
//! that. The lock is not on the folder itself: ranks take that (examples-c/common).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const NAME: &str = "ginrs-run";
/// The file. A folder without one is of a version that had none, or of somebody else: it may be in use.
const HELD: &str = "held";

/// See the module; it goes with this. Where the file system has no locks nobody takes it away.
pub(super) struct Folder(pub(super) PathBuf, #[expect(dead_code, reason = "the lock goes with it")] Option<File>);

impl Folder {
    pub(super) fn new() -> Result<Self, String> {
        sweep();
        // Who sweeps may have had the lock first, and taken the new folder for a left one.
        let held = (0..100).find_map(|_| match crate::private_folder(NAME) {
            Ok(path) => hold(&path).map(|lock| Ok(Self(path, lock))),
            Err(e) => Some(Err(e)),
        });
        let failed = |e| format!("the job's private folder: {e}");
        held.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into())).map_err(failed)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The lock in the folder that this process has made; None if it has been taken away.
fn hold(path: &Path) -> Option<Option<File>> {
    let path = path.join(HELD);
    let file = File::options().write(true).create_new(true).open(&path).ok()?;
    match file.lock() {
        Ok(()) => is_at(&file, &path).then_some(Some(file)),
        Err(_) => Some(None),
    }
}

/// Never what a link leads to.
fn open(path: &Path, more: libc::c_int) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NOFOLLOW | more).open(path)
}

fn is_at(file: &File, path: &Path) -> bool {
    let identity = |data: io::Result<std::fs::Metadata>| data.map(|data| (data.dev(), data.ino())).ok();
    let here = identity(file.metadata());
    here.is_some() && here == identity(std::fs::symlink_metadata(path))
}

fn sweep() {
    let all = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    let is_name = |name: &str| {
        name.strip_prefix(NAME).and_then(|rest| rest.strip_prefix('-')).is_some_and(|rest| u32::from_str_radix(rest, 16).is_ok())
    };
    for entry in all.filter(|entry| entry.file_name().to_str().is_some_and(is_name)) {
        let _ = take_away(&entry.path());
    }
}

/// If it is this user's, nobody holds it, and all that is in it are sockets.
fn take_away(path: &Path) -> io::Result<()> {
    let folder = open(path, libc::O_DIRECTORY)?;
    let data = folder.metadata()?;
    // SAFETY: no arguments, no failure.
    let own = unsafe { libc::geteuid() };
    if data.uid() != own || data.mode() & 0o777 != 0o700 {
        return Ok(());
    }
    // By the descriptor: whatever lies at the path by now, only what is in this folder goes.
    let inside = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    let lock = open(&inside.join(HELD), libc::O_NONBLOCK)?;
    if lock.try_lock().is_err() {
        return Ok(());
    }
    let all: Vec<_> = std::fs::read_dir(&inside)?.collect::<io::Result<_>>()?;
    let is_rest = |entry: &std::fs::DirEntry| entry.file_name() == HELD || entry.file_type().is_ok_and(|kind| kind.is_socket());
    if all.iter().all(is_rest) {
        all.iter().try_for_each(|entry| std::fs::remove_file(entry.path()))?;
        std::fs::remove_dir(path)?;
    }
    Ok(())
}
