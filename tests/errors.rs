//! Every number of an error or a warning that the sources use stands in src/codes.txt, and every one that stands there is used, or
//! marked as reserved.

use std::collections::{BTreeMap, BTreeSet};
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

/// What stands behind each `before` in `text`, as far as it is a number.
fn numbers<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = u16> + 'a {
    text.split(before).skip(1).filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
}

/// The codes that a source uses: in texts, and as the second argument of `bail!(Code, 52, ..)` and `Error::new(Code::X, 52, ..)`.
fn used(source: &str) -> BTreeSet<String> {
    let calls = ["bail!(", "Error::new("].into_iter().flat_map(|call| source.split(call).skip(1));
    let errors = calls.filter_map(|rest| rest.split(',').nth(1)?.trim().parse::<u16>().ok());
    let mut found: BTreeSet<String> = errors.map(|number| format!("E{number:03}")).collect();
    for kind in ['E', 'W'] {
        found.extend(numbers(source, &format!("GINRS-{kind}")).map(|number| format!("{kind}{number:03}")));
    }
    found
}

/// Constants of 16 bits, and ids that a literal gives: some of them name a code.
fn named(source: &str) -> impl Iterator<Item = String> {
    numbers(source, ": u16 = ").chain(numbers(source, "{ text, id: ")).map(|number| format!("E{number:03}"))
}

/// Without its tests, which may use what there is not.
fn shipped(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    text.split("#[cfg(test)]\nmod tests").next().unwrap().to_owned()
}

#[test]
fn the_table_has_what_the_sources_use_and_nothing_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table: BTreeMap<&str, bool> = ginrs::codes::all().iter().map(|entry| (entry.code, entry.reserved)).collect();
    let mut files = Vec::new();
    for folder in ["src", "cpu-device/src", "tools"] {
        rust_files(&root.join(folder), &mut files);
    }
    let mut all = BTreeSet::new();
    for file in
        files.iter().filter(|file| !file.ends_with("src/codes.rs") && !file.components().any(|c| c.as_os_str() == "tests"))
    {
        let source = shipped(file);
        for code in used(&source) {
            assert!(table.contains_key(&*code), "{code} of {} is not in src/codes.txt", file.display());
            all.insert(code);
        }
        all.extend(named(&source));
    }
    assert!(all.len() > 90, "only {} uses found: has the macro changed?", all.len());
    for (code, reserved) in table {
        assert_eq!(
            all.contains(code),
            !reserved,
            "{code} is used by no source: take it out of src/codes.txt, or mark it reserved"
        );
    }
}

#[test]
fn uses_are_seen() {
    let source = "bail!(InvalidUsage, 52, \"x\"); Error::new(\n Code::X,\n 7, y) \"GINRS-W011 z\" const A: u16 = 81; bail!(A, ID, \"\"); Error { text, id: 79, ..e }";
    assert_eq!(used(source), ["E007", "E052", "W011"].map(String::from).into());
    assert_eq!(named(source).collect::<Vec<_>>(), ["E081", "E079"]);
}
