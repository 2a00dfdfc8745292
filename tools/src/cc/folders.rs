//! Our folders of headers under other names: CUDA_HOME/include is a link, and users name it with -I and -isystem.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::args::Command;
use super::toolchain::Toolchain;

/// Options whose value stands alone behind them.
const PAIRS: &[&str] = &["-isystem", "-iquote", "-idirafter"];

/// The folders that these words name, each with the number of its first word and of words.
fn named(words: &[OsString]) -> impl Iterator<Item = (usize, usize, &Path)> {
    words.iter().enumerate().filter_map(|(i, word)| {
        if PAIRS.iter().any(|p| word == p) {
            return words.get(i + 1).map(|folder| (i, 2, Path::new(folder)));
        }
        word.as_bytes().strip_prefix(b"-I").map(|folder| (i, 1, Path::new(OsStr::from_bytes(folder))))
    })
}

/// The words without those that name `ours`: GCC drops the first of two names for one folder if the second says -isystem, and a
/// toolkit's headers would come before.
pub fn without(words: &[OsString], ours: &Path) -> Vec<OsString> {
    let Ok(ours) = ours.canonicalize() else { return words.to_vec() };
    let mut kept: Vec<Option<&OsString>> = words.iter().map(Some).collect();
    for (first, count, folder) in named(words) {
        if folder.canonicalize().is_ok_and(|f| f == ours) {
            kept[first..first + count].fill(None);
        }
    }
    kept.into_iter().flatten().cloned().collect()
}

/// Every name under which the preprocessor may report a header of ours, each with a slash at its end.
pub fn names_of_ours(command: &Command, tools: &Toolchain) -> Vec<String> {
    let ours = [tools.cuda_include(), tools.nccl_include()];
    let real: Vec<PathBuf> = ours.iter().filter_map(|f| f.canonicalize().ok()).collect();
    let listed = ["CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"].map(|name| std::env::var_os(name).unwrap_or_default());
    let others = named(&command.preprocessor).map(|(_, _, folder)| folder.to_path_buf());
    let others =
        others.chain(listed.iter().flat_map(std::env::split_paths)).filter(|f| f.canonicalize().is_ok_and(|f| real.contains(&f)));
    ours.iter().cloned().chain(others).map(|folder| format!("{}/", folder.display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ours_go() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("ours")).unwrap();
        std::fs::create_dir(at("theirs")).unwrap();
        std::os::unix::fs::symlink("ours", at("link")).unwrap();
        let word = |option: &str, name: &str| format!("{option}{}", at(name).display()).into();
        let words: Vec<OsString> = vec![
            word("-I", "link"),
            "-DX".into(),
            "-isystem".into(),
            word("", "link"),
            word("-I", "theirs"),
            "-isystem".into(),
            word("", "theirs"),
            word("-I", "none"),
        ];
        let want: Vec<OsString> =
            vec!["-DX".into(), word("-I", "theirs"), "-isystem".into(), word("", "theirs"), word("-I", "none")];
        assert_eq!(without(&words, &at("ours")), want);
    }
}
