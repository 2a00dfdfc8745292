//! What the installed libraries export, and nothing else.

use abi_tests::{exported, prefix, run};
use std::collections::BTreeSet;
use std::process::Command;

/// (kind, name with version) of every defined dynamic symbol.
fn dynamic(library: &str) -> Vec<(String, String)> {
    let text = run(Command::new("nm").args(["-D", "--defined-only"]).arg(prefix().join("lib").join(library)));
    let columns = text.lines().map(|line| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>());
    columns.map(|mut words| (words.remove(0), words.remove(0))).collect()
}

#[test]
fn the_shared_object_exports_the_map_weak_and_strong_under_one_node() {
    let mut seen = BTreeSet::new();
    for (kind, name) in dynamic("libginrs.so") {
        if kind == "A" {
            assert_eq!(name, "GINRS_0.1");
            continue;
        }
        let plain = name.strip_suffix("@@GINRS_0.1").unwrap_or_else(|| panic!("{name} is not in the node GINRS_0.1"));
        assert_eq!(kind, if plain.starts_with("nccl") { "W" } else { "T" }, "{name}");
        seen.insert(plain.to_owned());
    }
    assert_eq!(seen, exported().into_iter().collect());
    assert_eq!(seen.iter().filter(|name| name.starts_with("pnccl")).count(), 52);
    for name in seen.iter().filter(|name| name.starts_with("nccl")) {
        assert!(seen.contains(&format!("p{name}")), "{name} has no twin");
    }
}

#[test]
fn the_archive_defines_the_same_and_hides_the_rest() {
    let text = run(Command::new("nm").args(["--defined-only", "--extern-only"]).arg(prefix().join("lib/libginrs.a")));
    let names: BTreeSet<String> = text.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect();
    assert_eq!(names, exported().into_iter().collect());
}

#[test]
fn the_libraries_need_no_more_than_a_c_program_and_name_themselves() {
    for (library, soname, allowed) in [
        ("libginrs.so", "libginrs.so.0", &["libgcc_s.so.1", "libc.so.6", "ld-linux"][..]),
        ("libginrs_cpu.so", "libginrs_cpu.so.0", &["libgcc_s.so.1", "libc.so.6", "ld-linux", "libm.so.6", "libstdc++.so.6"]),
    ] {
        let text = run(Command::new("readelf").args(["-dW"]).arg(prefix().join("lib").join(library)));
        assert!(text.contains(&format!("Library soname: [{soname}]")), "{text}");
        for needed in text.lines().filter(|line| line.contains("(NEEDED)")) {
            assert!(allowed.iter().any(|name| needed.contains(name)), "{library}: {needed}");
        }
    }
}

/// The runtime stand-in is a library of its own: programs that bring a real CUDA runtime must not find another one in ours.
#[test]
fn cuda_names_stay_out_of_libginrs() {
    assert!(dynamic("libginrs.so").iter().all(|(_, name)| !name.contains("cuda")));
    assert!(dynamic("libginrs_cpu.so").iter().any(|(_, name)| name.starts_with("cudaMalloc")));
}
