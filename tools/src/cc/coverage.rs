//! `--coverage` in one step: the object lies in a folder that goes, but what gcov wants to read is to stay.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::args::{Command, Input};
use super::toolchain::flag;

/// What tells the compiler where to keep the notes (`.gcno`) of a file, and the program where to count (`.gcda`): beside the output, under the
/// name that g++ gives them, PROGRAM-SOURCE, or SOURCE where both are the same. Nothing where no coverage is asked for.
///
/// # Errors
/// Two sources of one name would share their notes.
pub fn notes(command: &Command, clang: bool, input: &Input) -> Result<Vec<OsString>, String> {
    let asks = |flag: &OsString| ["--coverage", "-coverage", "-ftest-coverage", "-fprofile-arcs"].iter().any(|name| flag == name);
    if !command.host_flags.iter().any(asks) {
        return Ok(Vec::new());
    }
    let same = |other: &&Input| other.language.is_some() && other.path.file_stem() == input.path.file_stem();
    let mut sources = command.inputs.iter().filter(same);
    if let (Some(one), Some(other)) = (sources.next(), sources.next()) {
        return Err(format!(
            "ginrs-cc: error: --coverage: {} and {} would share one file of notes; compile each with -c -o, and link the objects",
            one.path.display(),
            other.path.display()
        ));
    }
    let output = command.output.clone().unwrap_or_else(|| "a.out".into());
    let (stem, source) = (output.file_stem().unwrap_or_default(), input.path.file_stem().unwrap_or_default());
    let mut name = OsString::new();
    if stem != source {
        name.push(stem);
        name.push("-");
    }
    name.push(source);
    let folder = output.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    if !clang {
        return Ok(vec!["-dumpdir".into(), folder.join("").into(), "-dumpbase".into(), name]);
    }
    let whole = std::path::absolute(folder.join(&name)).map_err(|e| format!("ginrs-cc: error: {}: {e}", folder.display()))?;
    let file = |option: &str, extension: &str| [OsStr::new("-Xclang").into(), flag(option, &with(&whole, extension))];
    // Blocks are OS threads: g++ counts atomically of itself where -pthread is given.
    let mut words = vec!["-fprofile-update=atomic".into()];
    words.extend(file("-coverage-notes-file=", "gcno"));
    words.extend(file("-coverage-data-file=", "gcda"));
    Ok(words)
}

/// A name may have dots of its own.
fn with(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".");
    name.push(extension);
    name.into()
}
