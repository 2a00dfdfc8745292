//! The floors of the house: each module of `src/` takes from those below it only, files stay short, and unsafe code stands in the
//! fences alone. docs/internals/architecture.md draws it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The modules as lib.rs lists them, from the ground up. A module may use those that stand before it, and no other.
fn floors() -> Vec<String> {
    let list = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let named = |line: &str| Some(line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';')?.to_owned());
    list.lines().rev().filter_map(named).collect()
}

/// Macros that stand at the root of the crate, and whose they are.
const MACROS: [(&str, &str); 5] = [("bail", "error"), ("info", "log"), ("warn", "log"), ("hint", "log"), ("trace", "log")];

/// A file of `src/` without its comments and its tests.
struct File {
    path: PathBuf,
    module: String,
    code: String,
}

fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.clone()];
    let (mut all, mut tests) = (Vec::new(), BTreeSet::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|ending| ending != "rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            // `mod x;` of tests: its file is none of the house.
            for (at, _) in text.match_indices("#[cfg(test)]\nmod ") {
                let name = text[at..].lines().nth(1).unwrap().trim_start_matches("mod ");
                if let Some(name) = name.strip_suffix(';') {
                    let beside = if path.ends_with("mod.rs") { folder.clone() } else { path.with_extension("") };
                    tests.extend([beside.join(format!("{name}.rs")), beside.join(name)]);
                }
            }
            let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
            let code = text[..end].lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
            let first = path.strip_prefix(&root).unwrap().components().next().unwrap();
            let module = first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned();
            all.push(File { path, module, code });
        }
    }
    all.retain(|file| !tests.iter().any(|test| file.path.starts_with(test)));
    all
}

/// The modules of the crate that `code` names.
fn names(code: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + 7..];
        let list = match rest.strip_prefix('{') {
            // The first names of `crate::{a, b::{c, d}, e}`.
            Some(inner) => {
                let mut depth = 0;
                let end = inner.find(|c| {
                    depth += i32::from(c == '{') - i32::from(c == '}');
                    depth < 0
                });
                let mut depth = 0;
                let parts = inner[..end.unwrap()].split(move |c| {
                    depth += i32::from(c == '{') - i32::from(c == '}');
                    depth == 0 && c == ','
                });
                parts.collect::<Vec<_>>()
            }
            None => vec![rest],
        };
        for name in list {
            let name = name.trim_start();
            let name = &name[..name.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(name.len())];
            found.insert(MACROS.iter().find(|(of, _)| *of == name).map_or(name, |(_, module)| module));
        }
    }
    found
}

#[test]
fn each_module_uses_those_below_it_only() {
    let floors = floors();
    let place: BTreeMap<&str, usize> = floors.iter().zip(0..).map(|(name, floor)| (&**name, floor)).collect();
    assert!(place.len() > 20 && place["error"] < place["abi"], "{place:?}");
    let mut broken = Vec::new();
    for file in files().iter().filter(|file| file.module != "lib") {
        let own = *place.get(&*file.module).unwrap_or_else(|| panic!("{} stands on no floor", file.module));
        for name in names(&file.code) {
            if place.get(name).is_some_and(|floor| *floor > own) {
                broken.push(format!("{} uses {name}, which stands above {}", file.path.display(), file.module));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn names_in_braces_and_macros_are_seen() {
    let code = "use crate::{bail, gin::{a, b}, log};\nuse crate::topo::Reach; crate::warn!(\"x\"); $crate::seq::Seq";
    assert_eq!(names(code), BTreeSet::from(["error", "gin", "log", "seq", "topo"]));
}

#[test]
fn no_file_is_longer_than_450_lines() {
    for file in files() {
        let lines = std::fs::read_to_string(&file.path).unwrap().lines().count();
        assert!(lines <= 450, "{} has {lines} lines", file.path.display());
    }
}

/// A file that holds no unsafe code says that it will not.
#[test]
fn what_needs_no_unsafe_code_forbids_it() {
    let files = files();
    let forbids = |file: &File| file.code.contains("forbid(unsafe_code)");
    let needs = |file: &File| file.code.contains("unsafe") && !forbids(file);
    // What a folder's head says is said for all files below it.
    let below = |file: &File| match file.path.ends_with("mod.rs") {
        true => file.path.parent().unwrap().to_owned(),
        false => file.path.with_extension(""),
    };
    let heads: Vec<PathBuf> = files.iter().filter(|file| forbids(file)).map(below).collect();
    let missing: Vec<String> = files
        .iter()
        .filter(|file| file.module != "lib" && !forbids(file) && !needs(file))
        .filter(|file| !heads.iter().any(|head| file.path.starts_with(head)))
        .filter(|file| !files.iter().any(|other| needs(other) && other.path.starts_with(below(file))))
        .map(|file| file.path.display().to_string())
        .collect();
    assert!(missing.is_empty(), "without forbid(unsafe_code):\n{}", missing.join("\n"));
}
