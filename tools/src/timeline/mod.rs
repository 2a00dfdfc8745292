//! From the files that the libraries have written (timeline/src/lib.rs) to one picture of a job.
//!
//! [`job`] reads the files and finds which ranks are in which process, [`pair`] makes spans of what began and ended, [`story`] says which
//! put ended which wait. Of that [`trace`] makes a file for Perfetto, and [`page`] one for a browser, both with [`rows`]; [`summary`] has
//! the page's numbers.

mod job;
mod page;
mod pair;
mod rows;
mod story;
mod summary;
mod trace;

use std::io::Write;
use std::path::{Path, PathBuf};

/// What the names of the libraries' files end in.
const ENDING: &str = ".timeline";

/// The files in `folder`.
pub fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| path.to_string_lossy().ends_with(ENDING)).collect();
    files.sort();
    files
}

/// How many kernels of the CPU device began, of what one of these files says.
///
/// # Errors
/// It cannot be read, or is none of ours.
pub fn kernels(file: &Path) -> Result<usize, String> {
    Ok(timeline::read(file)?.events.iter().filter(|event| event.kind == timeline::Kind::Kernel).count())
}

/// What all processes did.
pub struct Picture {
    job: job::Job,
    spans: Vec<pair::Span>,
    arrows: Vec<story::Arrow>,
}

impl Picture {
    /// Of these files.
    ///
    /// # Errors
    /// One that cannot be read, or is none of ours.
    pub fn of(files: &[PathBuf]) -> Result<Picture, String> {
        let traces = files.iter().map(|file| timeline::read(file)).collect::<Result<Vec<_>, _>>()?;
        let job = job::Job::of(&traces);
        let mut spans = pair::pair(&job);
        let arrows = story::arrows(&job, &mut spans);
        Ok(Picture { job, spans, arrows })
    }

    /// What is to be told: how much did not fit, and how far the clocks are one.
    pub fn complaints(&self) -> Vec<String> {
        self.job.complaints()
    }

    /// Writes it for Perfetto.
    ///
    /// # Errors
    /// What the file says.
    pub fn trace(&self, out: impl Write) -> std::io::Result<()> {
        trace::write(&self.job, &self.spans, &self.arrows, out)
    }

    /// Writes it as a page for a browser.
    ///
    /// # Errors
    /// What the file says.
    pub fn page(&self, out: impl Write) -> std::io::Result<()> {
        page::write(self, page::MOST, out)
    }
}
