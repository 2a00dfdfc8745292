//! Exact replay: whether a seed decides all of a run, what the run is given for it, and what it tells of its choices (the crate ginrs-baton).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::args::Options;

/// The variable that a seed of schedules is in.
pub const SCHEDULE: &str = "GINRS_SCHEDULE";
/// The one that ends its choices early.
pub const UNTIL: &str = "GINRS_SCHEDULE_UNTIL";
/// Where a run tells of its choices.
pub const TRACE: &str = "GINRS_SCHEDULE_TRACE";
const MAGIC: &[u8] = b"gbaton01";
const BYTES: usize = 4096;

/// The library that the ranks have to load first; or why a seed cannot decide all.
pub fn baton(options: &Options) -> Result<PathBuf, String> {
    if options.ranks > 1 || !options.hosts.is_empty() {
        return Err(
            "its ranks are processes, which run at the same time; run them as threads of one process (no -n, no --hosts)".into(),
        );
    }
    let own = std::env::current_exe().map_err(|error| format!("ginrs-run's own path: {error}"))?;
    let library = own.parent().and_then(Path::parent).map(|prefix| prefix.join("lib/ginrs/libginrs_baton.so"));
    let library = library.filter(|library| library.exists()).ok_or("lib/ginrs/libginrs_baton.so is not beside bin/ginrs-run")?;
    // Only what can be read, as in `check`.
    let program = std::fs::read(&options.program[0]).unwrap_or_default();
    for (mark, name) in [("__asan_init", "AddressSanitizer"), ("__tsan_init", "ThreadSanitizer")] {
        if program.windows(mark.len()).any(|at| at == mark.as_bytes()) {
            return Err(format!("the program was built with {name}, which has to be loaded first"));
        }
    }
    Ok(library)
}

/// A seed that the ranks find in their environment: an option's, or the variable's.
pub fn has_seed(options: &Options) -> bool {
    let name = format!("{SCHEDULE}=");
    let exported = options.exports.iter().any(|export| export.as_bytes().starts_with(name.as_bytes()));
    exported || std::env::var_os(SCHEDULE).is_some()
}

/// `LD_PRELOAD=..` for the rank: it comes first.
fn preload(library: &Path) -> OsString {
    let mut setting = OsString::from("LD_PRELOAD=");
    setting.push(library);
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        setting.push(":");
        setting.push(others);
    }
    setting
}

/// Runs the job with `run`: where it has a seed and is one process, its threads take turns, and what they chose is told.
///
/// # Errors
/// Those of `run`, and of a folder.
pub fn with_baton(mut options: Options, run: impl FnOnce(&Options) -> Result<i32, String>) -> Result<i32, String> {
    if !has_seed(&options) {
        return run(&options);
    }
    let asked = options.seed;
    let library = match baton(&options) {
        Ok(library) => library,
        Err(why) => {
            if let Some(seed) = asked {
                crate::tell(format!("ginrs-run: seed {seed} brings a failure back often and not always here: {why}"));
            }
            return run(&options);
        }
    };
    fix_addresses();
    options.exports.push(preload(&library));
    // A hunt has its own file.
    let Some(seed) = asked.filter(|_| std::env::var_os(TRACE).is_none()) else { return run(&options) };
    let folder = crate::private_folder("ginrs-trace").map_err(|error| format!("a private folder: {error}"))?;
    let trace = Trace::new(&folder)?;
    let mut setting = OsString::from(format!("{TRACE}="));
    setting.push(trace.file());
    options.exports.push(setting);
    let status = run(&options);
    crate::tell(format!("ginrs-run: {}", trace.told().map_or_else(|| NO_BATON.into(), |told| told.line(&seed.to_string()))));
    let _ = std::fs::remove_dir_all(&folder);
    status
}

/// A script, say, that starts something else by other means.
const NO_BATON: &str = "the program was not linked with libginrs_cpu.so: nothing of it was as the seed has it";

/// What ranks find is where it was in the last run, if the system allows that; children of this process have it so.
fn fix_addresses() {
    const ASK: libc::c_ulong = 0xffff_ffff;
    // SAFETY: takes a number; what it changes begins with the next exec.
    unsafe {
        let now = libc::personality(ASK);
        if now >= 0 {
            libc::personality(now as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
        }
    }
}

/// Where a run tells of its choices.
pub struct Trace(PathBuf);

/// What it told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// How many.
    pub choices: u64,
    /// Of all.
    pub hash: u64,
    /// Why another run may make others.
    pub reasons: Vec<String>,
}

impl Trace {
    /// In `folder`.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn new(folder: &Path) -> Result<Trace, String> {
        let trace = Trace(folder.join("trace"));
        trace.clear().map(|()| trace)
    }

    /// For the next run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn clear(&self) -> Result<(), String> {
        std::fs::write(&self.0, [0; BYTES]).map_err(|error| format!("{}: {error}", self.0.display()))
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.0
    }

    /// What the run told that has ended; None: it had no baton.
    pub fn told(&self) -> Option<Told> {
        let page = std::fs::read(&self.0).ok()?;
        told(&page)
    }
}

fn told(page: &[u8]) -> Option<Told> {
    let word = |at: usize| page.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    if page.get(..8)? != MAGIC {
        return None;
    }
    let length = u32::from_le_bytes(page.get(24..28)?.try_into().ok()?) as usize;
    let text = String::from_utf8_lossy(page.get(28..28 + length)?).into_owned();
    Some(Told { choices: word(8)?, hash: word(16)?, reasons: text.lines().map(str::to_owned).collect() })
}

impl Told {
    /// In words; `seed` is its.
    pub fn line(&self, seed: &str) -> String {
        let Told { choices, hash, reasons } = self;
        match reasons.is_empty() {
            true => format!("seed {seed}: {choices} choices, trace {hash:016x}; a run that went the same has the same trace"),
            false => {
                format!("seed {seed}: {choices} choices, trace {hash:016x}; another run may make others: {}", reasons.join("; "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_told_is_read_and_junk_is_not() {
        let mut page = vec![0; BYTES];
        assert_eq!(told(&page), None);
        page[..8].copy_from_slice(b"gbaton01");
        page[8..24].copy_from_slice(&[7u64.to_le_bytes(), 9u64.to_le_bytes()].concat());
        page[24..28].copy_from_slice(&4u32.to_le_bytes());
        page[28..32].copy_from_slice(b"a\nb\n");
        let found = told(&page).unwrap();
        assert_eq!(found, Told { choices: 7, hash: 9, reasons: vec!["a".into(), "b".into()] });
        assert!(found.line("3").ends_with("may make others: a; b"));
        page[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!((told(&page), told(&page[..20])), (None, None));
    }

    #[test]
    fn processes_are_not_replayed() {
        let options = Options { ranks: 2, program: vec!["x".into()], ..Options::default() };
        assert!(baton(&options).unwrap_err().contains("threads of one process"));
    }
}
