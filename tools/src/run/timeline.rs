//! `--timeline` and `--html`: where the ranks write what they do, and the pictures that are made of it when all have ended, however they did.

use super::frame::{Channel, Frame};
use crate::timeline::{Picture, files_in};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The pictures that are asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// `--timeline`
    pub trace: Option<OsString>,
    /// `--html`
    pub page: Option<OsString>,
}

impl Wanted {
    /// The option that asks for one.
    pub fn option(&self) -> Option<&'static str> {
        self.trace.as_ref().map(|_| "--timeline").or(self.page.as_ref().map(|_| "--html"))
    }

    /// Makes their files, before anything runs; None where none is asked for.
    ///
    /// # Errors
    /// One cannot be written, or both are one.
    pub fn create(&self) -> Result<Option<Outputs>, String> {
        let trace = self.trace.as_ref().map(|path| Output::create("--timeline", path)).transpose()?;
        let page = self.page.as_ref().map(|path| Output::create("--html", path)).transpose()?;
        if let (Some(trace), Some(page)) = (&trace, &page) {
            let file =
                |output: &Output| output.file.metadata().ok().filter(|data| data.is_file()).map(|data| (data.dev(), data.ino()));
            if file(trace).is_some() && file(trace) == file(page) {
                return Err(format!("--timeline and --html both name {} | fix: name two files", page.path.display()));
            }
        }
        Ok((trace.is_some() || page.is_some()).then_some(Outputs { trace, page }))
    }
}

struct Output {
    option: &'static str,
    path: PathBuf,
    file: File,
}

impl Output {
    fn create(option: &'static str, path: &OsString) -> Result<Output, String> {
        let path = PathBuf::from(path);
        let file = File::create(&path)
            .map_err(|e| format!("{option} {}: {e} | fix: name a file in a folder that can be written", path.display()))?;
        Ok(Output { option, path, file })
    }

    fn write(self, picture: impl FnOnce(File) -> io::Result<()>) -> Result<(), String> {
        picture(self.file).map_err(|error| format!("{} {}: {error}", self.option, self.path.display()))
    }
}

/// Files that can be written.
pub struct Outputs {
    trace: Option<Output>,
    page: Option<Output>,
}

/// What GINRS_TIMELINE is in the ranks, whose files go to the job's folder.
pub fn prefix(folder: &Path) -> PathBuf {
    folder.join("rank")
}

/// Bytes of a file that are sent at once.
const PIECE: usize = 1 << 20;

/// Sends the files of the ranks that have run here. What cannot be read is missing there, which is told.
pub(super) fn send(folder: &Path, to: &Channel) {
    for path in files_in(folder) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(bytes) = std::fs::read(&path) else {
            to.send(&Frame::Say(format!("what {name} says is not in the timeline: it cannot be read")));
            continue;
        };
        bytes.chunks(PIECE).chain([&[][..]]).for_each(|piece| to.send(&Frame::File(name.clone(), piece.to_vec())));
    }
}

/// Takes a piece of a file of machine number `machine` into `folder`, where it has its own name once it is whole.
///
/// # Errors
/// It cannot be written.
pub(super) fn take(folder: &Path, machine: usize, name: &str, piece: &[u8]) -> io::Result<()> {
    let name = format!("{machine}.{}", name.replace('/', "_"));
    let (unfinished, whole) = (folder.join(format!("{name}.part")), folder.join(&name));
    match piece {
        [] => std::fs::rename(unfinished, whole),
        _ => File::options().create(true).append(true).open(unfinished)?.write_all(piece),
    }
}

impl Outputs {
    /// Makes the pictures of what is in the job's folder; the job's status, 1 where that was 0 and one cannot be made.
    pub fn finish(self, folder: &Path, status: i32) -> i32 {
        match self.merge(&files_in(folder)) {
            Ok(_) => status,
            Err(message) => {
                crate::tell(format!("ginrs-run: {message}"));
                status.max(1)
            }
        }
    }

    /// Makes the pictures of these files; 0.
    ///
    /// # Errors
    /// There are none, or one that cannot be read; a picture cannot be written.
    pub fn merge(self, files: &[PathBuf]) -> Result<i32, String> {
        let picture = Picture::of(files)?;
        self.trace.map_or(Ok(()), |trace| trace.write(|file| picture.trace(file)))?;
        self.page.map_or(Ok(()), |page| page.write(|file| picture.page(file)))?;
        picture.complaints().into_iter().for_each(|line| crate::tell(format!("ginrs-run: {line}")));
        match files.is_empty() {
            true => {
                Err("no process has written a timeline: it takes a program that uses ginrs, and kernels for the CPU device"
                    .into())
            }
            false => Ok(0),
        }
    }
}
