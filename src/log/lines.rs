//! The layer that writes events as NCCL's lines: which, and where to, NCCL_DEBUG and its like say, read once per process.

#![forbid(unsafe_code)]

use super::time;
use crate::config;
use crate::config::verbosity::{LEVEL_NAMES, LEVELS, Level, SUBSYSTEMS, Subsys};
use crate::text::printable;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Most bytes of a line's text: a table of thousands of ranks is no line.
pub(super) const MOST_BYTES: usize = 16 << 10;

/// See the module.
pub(super) struct Lines {
    level: AtomicU8,
    subsystems: u32,
    file: Option<OwnedFd>,
    /// It did not take a line.
    lost: AtomicBool,
    to_stderr: bool,
    host: String,
    pid: u32,
    stamp: String,
    stamped: u32,
    warning_opens_info: bool,
}

impl Lines {
    pub(super) fn open() -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host = host.split('.').next().unwrap_or_default().to_owned();
        let debug = config::text("NCCL_DEBUG");
        let at = |name: &str| LEVEL_NAMES.iter().position(|known| known.eq_ignore_ascii_case(name.trim()));
        // NCCL takes an unknown word as no level; so do we, but warnings still show.
        let level = debug.as_deref().and_then(at).map(|at| LEVELS[at]);
        let listed =
            |name: &str, names: &[&str], default| config::text(name).map_or(default, |list| config::mask(&list, names, default));
        let mut subsystems = listed("NCCL_DEBUG_SUBSYS", SUBSYSTEMS, config::mask("INIT,BOOTSTRAP,ENV", SUBSYSTEMS, 0));
        if level == Some(Level::Trace) && config::text("NCCL_DEBUG_SUBSYS").is_none() {
            subsystems = u32::MAX;
        }
        let file = level.and(config::text("NCCL_DEBUG_FILE")).map(|path| expand(&path, &host));
        let (file, trouble) = match file.map(|path| (create(&path), path)) {
            Some((Ok(file), _)) => (Some(file), None),
            Some((Err(e), path)) => (
                None,
                Some(format!(
                    "NCCL WARN GINRS-W001 NCCL_DEBUG_FILE cannot be written | {} | {e} | fix: correct the path; lines go to stdout\n",
                    printable(&path, 200)
                )),
            ),
            None => (None, None),
        };
        let own = Self {
            level: AtomicU8::new(level.unwrap_or(Level::Warn) as u8),
            subsystems,
            file,
            lost: AtomicBool::new(false),
            to_stderr: level.is_none(),
            host,
            pid: std::process::id(),
            stamp: config::text("NCCL_DEBUG_TIMESTAMP_FORMAT").unwrap_or_else(|| "[%F %T] ".into()),
            stamped: listed("NCCL_DEBUG_TIMESTAMP_LEVELS", &LEVEL_NAMES, 1 << Level::Warn as u32),
            warning_opens_info: config::int("NCCL_WARN_ENABLE_DEBUG_INFO") != 0 && level.is_some(),
        };
        trouble.iter().for_each(|text| own.write(text));
        own
    }

    /// True if such a line is printed.
    pub(super) fn wants(&self, level: Level, subsys: Option<Subsys>) -> bool {
        level as u8 <= self.level.load(Ordering::Relaxed)
            && match subsys {
                Some(subsys) => self.subsystems & (1 << subsys as u32) != 0,
                None => level != Level::Version || !self.to_stderr,
            }
    }

    /// With its head: timestamp, host, process, thread and device; `place` is empty or ends in a blank.
    fn line(&self, level: Level, place: &str, text: &str) {
        let stamp = if self.stamped & (1 << level as u32) != 0 { time::stamp(&self.stamp) } else { String::new() };
        let (host, pid, thread) = (&self.host, self.pid, rustix::thread::gettid().as_raw_nonzero());
        let (device, name) = (super::DEVICE.get(), LEVEL_NAMES[level as usize]);
        self.write(&format!("{stamp}{host}:{pid}:{thread} [{device}] {place}NCCL {name} {text}\n"));
        if level == Level::Warn && self.warning_opens_info {
            self.level.fetch_max(Level::Info as u8, Ordering::Relaxed);
        }
    }

    fn write(&self, text: &str) {
        let other = if self.to_stderr { rustix::stdio::stderr() } else { rustix::stdio::stdout() };
        let Some(file) = &self.file else {
            let _ = write_all(other, text);
            return;
        };
        // A full disk: the line is worth more than the place it was meant for.
        let Err(error) = write_all(file.as_fd(), text) else { return };
        let told = self.lost.swap(true, Ordering::Relaxed);
        let why = format!(
            "NCCL WARN GINRS-W001 NCCL_DEBUG_FILE cannot be written | {error} | fix: make room; lines that it does not take go to stderr\n"
        );
        let _ = write_all(rustix::stdio::stderr(), &if told { text.to_owned() } else { why + text });
    }
}

/// All of it, or nobody can say why not: a closed pipe or descriptor.
fn write_all(fd: BorrowedFd<'_>, text: &str) -> rustix::io::Result<()> {
    let mut left = text.as_bytes();
    while !left.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::write(fd, left))? {
            0 => return Err(rustix::io::Errno::NOSPC),
            n => left = &left[n..],
        }
    }
    Ok(())
}

impl<S: Subscriber> Layer<S> for &'static Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (about, mut fields) = (event.metadata(), Fields::default());
        event.record(&mut fields);
        let text = printable(&fields.message, MOST_BYTES);
        match LEVELS[LEVEL_NAMES.iter().position(|name| *name == about.name()).unwrap_or(0)] {
            Level::Version => self.write(&(text + "\n")),
            Level::Warn => {
                let file = fields.file.as_deref().or(about.file()).unwrap_or_default();
                let line = fields.line.or(about.line().map(u64::from)).unwrap_or_default();
                super::timeline::told(&text);
                self.line(Level::Warn, &format!("{}:{line} ", short(file)), &text);
            }
            level => self.line(level, "", &text),
        }
    }
}

/// What an event says; `file` and `line` where it was not said at the event's own place.
#[derive(Default)]
struct Fields {
    message: String,
    file: Option<String>,
    line: Option<u64>,
}

impl Visit for Fields {
    fn record_debug(&mut self, _: &Field, message: &dyn std::fmt::Debug) {
        self.message = format!("{message:?}");
    }

    fn record_str(&mut self, _: &Field, file: &str) {
        self.file = Some(file.to_owned());
    }

    fn record_u64(&mut self, _: &Field, line: u64) {
        self.line = Some(line);
    }
}

/// `/root/x/src/window/register.rs` and `src/window/register.rs` both as `window/register.rs`.
fn short(file: &str) -> &str {
    file.rsplit_once("src/").map_or(file, |(_, tail)| tail)
}

/// %h and %p of NCCL_DEBUG_FILE; %% is a percent sign.
fn expand(path: &str, host: &str) -> String {
    let mut out = String::new();
    let mut letters = path.chars();
    while let Some(letter) = letters.next() {
        match (letter, letters.clone().next()) {
            ('%', Some('h')) => out += host,
            ('%', Some('p')) => out += &std::process::id().to_string(),
            ('%', Some('%')) => out.push('%'),
            _ => {
                out.push(letter);
                continue;
            }
        }
        letters.next();
    }
    out
}

fn create(path: &str) -> std::io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    // Ranks that share a file do not overwrite each other, and a FIFO that nobody reads is an error instead of a wait for ever.
    let flags = libc::O_NOCTTY | libc::O_APPEND | libc::O_NONBLOCK;
    let file: OwnedFd =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path)?.into();
    rustix::io::ioctl_fionbio(&file, false)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_levels_subsystems_and_files() {
        assert_eq!(SUBSYSTEMS[Subsys::RAS as usize], "RAS");
        assert_eq!(LEVEL_NAMES[Level::Trace as usize], "TRACE");
        assert_eq!(expand("/tmp/%h-%p-%%-%x", "node7"), format!("/tmp/node7-{}-%-%x", std::process::id()));
    }
}
