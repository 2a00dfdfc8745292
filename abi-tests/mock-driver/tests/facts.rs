//! The stand-in answers as the real driver does: `facts.txt` is what driver 580 (CUDA 13.0) on an H200 said to `facts.c`.
//! To ask a real one again: `cc -D_GNU_SOURCE -o facts facts*.c -ldl`, then `./facts PART` for each part below.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const PARTS: [&str; 11] =
    ["start", "linear", "create", "space", "pinned", "attributes", "entry", "streams", "capture", "two", "end"];

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// A folder with this library as libcuda.so.1.
fn driver(folder: &Path) {
    let test = std::env::current_exe().expect("a path");
    let library = test.parent().expect("deps").join("libmock_cuda.so");
    assert!(library.exists(), "{} is built with this test", library.display());
    std::os::unix::fs::symlink(library, folder.join("libcuda.so.1")).expect("a link");
}

fn lines(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(':')).map(|(group, rest)| (group.into(), rest.trim().into())).collect()
}

#[test]
fn the_same_answers_as_the_real_driver() {
    ask("0");
}

#[test]
fn the_same_answers_with_memory_that_the_host_cannot_touch() {
    ask("1");
}

fn ask(private: &str) {
    let folder = std::env::temp_dir().join(format!("mock-driver-{private}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    driver(&folder);
    let program = folder.join("facts");
    let sources = ["facts.c", "facts_memory.c", "facts_streams.c", "facts_capture.c"].map(|name| here().join(name));
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o"]).arg(&program).args(sources).arg("-ldl");
    assert!(cc.status().expect("cc").success());
    let mut said = BTreeMap::new();
    for part in PARTS {
        let mut command = Command::new("timeout");
        command.args(["-s", "ABRT", "20"]).arg(&program).arg(part).env("LD_LIBRARY_PATH", &folder).env("GINRS_MOCK_DEVICES", "2");
        command.env("GINRS_MOCK_PRIVATE", private);
        let output = command.env_remove("CUDA_VISIBLE_DEVICES").output().expect("facts starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{part}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
        said.extend(lines(&text));
    }
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    let truth = lines(&std::fs::read_to_string(here().join("facts.txt")).expect("facts.txt"));
    assert!(truth.len() > 20, "facts.txt has all groups");
    for (group, truth) in &truth {
        let said = said.get(group).unwrap_or_else(|| panic!("no group {group:?}"));
        let differ: Vec<_> = truth.split(' ').zip(said.split(' ')).filter(|(a, b)| a != b).collect();
        assert!(truth == said, "{group}: (real, here) {differ:?}\n{truth}\n{said}");
    }
}
