//! Every number of an error or a warning that the sources use stands in docs/errors.md, in a row of its own, and no other does.

use std::collections::BTreeSet;
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

/// `E052` of every `GINRS-E052` in texts, and of every row of the page.
fn codes(text: &str, before: &str) -> BTreeSet<String> {
    let codes = text.split(before).skip(1).filter_map(|rest| rest.get(..4));
    codes
        .filter(|code| code.starts_with(['E', 'W']) && code[1..].bytes().all(|b| b.is_ascii_digit()))
        .map(str::to_owned)
        .collect()
}

/// Without its tests, which may name what there is not.
fn shipped(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    text.split("#[cfg(test)]\nmod tests").next().unwrap().to_owned()
}

#[test]
fn every_code_in_a_text_is_documented_and_every_warning_in_the_page_is_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/errors.md")).unwrap();
    let rows = codes(&page, "\n| ");
    let mut files = Vec::new();
    for folder in ["src", "cpu-device/src", "tools/src"] {
        rust_files(&root.join(folder), &mut files);
    }
    let mut used = BTreeSet::new();
    for file in &files {
        let own = codes(&shipped(file), "GINRS-");
        assert!(own.is_subset(&rows), "{own:?} of {} are not all in docs/errors.md", file.display());
        used.extend(own);
    }
    // config.rs counts its warnings.
    used.extend(["W001", "W002", "W003"].map(String::from));
    let warnings: BTreeSet<String> = rows.into_iter().filter(|code| code.starts_with('W')).collect();
    let used: BTreeSet<String> = used.into_iter().filter(|code| code.starts_with('W')).collect();
    assert_eq!(warnings, used);
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
