//! Every error number that the sources use stands in docs/errors.md.

use std::path::{Path, PathBuf};

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            rust_files(&entry, found);
        } else if entry.extension().is_some_and(|ending| ending == "rs") {
            found.push(entry);
        }
    }
}

/// The second argument of each `bail!(Code, 52, ..)` and `Error::new(Code::X, 52, ..)`, where it is a number.
fn numbers(source: &str) -> Vec<u16> {
    let calls = ["bail!(", "Error::new("].into_iter().flat_map(|call| source.split(call).skip(1));
    calls.filter_map(|rest| rest.split(',').nth(1)?.trim().parse().ok()).collect()
}

#[test]
fn every_number_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/errors.md")).unwrap();
    let mut files = Vec::new();
    rust_files(&root.join("src"), &mut files);
    let used: Vec<(u16, &PathBuf)> = files
        .iter()
        .flat_map(|file| numbers(&std::fs::read_to_string(file).unwrap()).into_iter().map(move |number| (number, file)))
        .collect();
    assert!(used.len() > 50, "only {} uses found: has the macro changed?", used.len());
    for (number, file) in used {
        assert!(page.contains(&format!("E{number:03}")), "E{number:03} of {} is not in docs/errors.md", file.display());
    }
}
