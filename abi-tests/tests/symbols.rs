//! What the installed libraries export, and nothing else; compared with the wheel's libnccl.so.2 symbol by symbol, and signature by
//! signature as far as its debug information goes.

use abi_tests::{exported, nvidia, nvidia_library, prefix, root, run};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// One defined dynamic symbol: "FUNC WEAK DEFAULT", and its version node, empty where there is none.
type Symbols = BTreeMap<String, (String, String)>;

/// What NVIDIA's library exports beside the 52 pairs: nothing declares it, it has no twin, no program can have a use for it.
const LEFT_OUT: &str = "ncclResetDebugInitInternal";

fn dynamic(library: &Path) -> Symbols {
    let text = run(Command::new("readelf").args(["--dyn-syms", "-W"]).arg(library));
    let mut symbols = Symbols::new();
    for line in text.lines() {
        // Num: Value Size Type Bind Vis Ndx Name
        let words: Vec<&str> = line.split_whitespace().collect();
        let [number, _, _, kind, bind, visibility, section, name] = words[..] else { continue };
        // A version node is an absolute symbol of its own name.
        if number.ends_with(':') && section != "UND" && section != "ABS" && section != "Ndx" {
            let (name, node) = name.split_once("@@").unwrap_or((name, ""));
            symbols.insert(name.into(), (format!("{kind} {bind} {visibility}"), node.into()));
        }
    }
    assert!(!symbols.is_empty(), "{} exports nothing", library.display());
    symbols
}

fn ours() -> Symbols {
    dynamic(&prefix().join("lib/libginrs.so"))
}

#[test]
fn the_shared_object_exports_the_map_weak_and_strong_under_one_node() {
    let symbols = ours();
    for (name, (kind, node)) in &symbols {
        assert_eq!(node, "GINRS_0.1", "{name}");
        let bind = if name.starts_with("nccl") { "FUNC WEAK DEFAULT" } else { "FUNC GLOBAL DEFAULT" };
        assert_eq!(kind, bind, "{name}");
        assert!(!name.starts_with("nccl") || symbols.contains_key(&format!("p{name}")), "{name} has no twin");
    }
    let names: BTreeSet<String> = symbols.into_keys().collect();
    assert_eq!(names, exported().into_iter().collect());
    assert_eq!(names.iter().filter(|name| name.starts_with("pnccl")).count(), 52);
}

#[test]
fn nvidias_library_exports_the_same_names_alike() {
    let mut theirs = dynamic(&nvidia_library());
    let left_out = theirs.remove(LEFT_OUT).expect("the one that is left out");
    assert_eq!(left_out.0, "FUNC GLOBAL DEFAULT");
    assert!(!theirs.contains_key(&format!("p{LEFT_OUT}")));
    // They have no version node: a program that was linked with theirs finds ours (tests/link.rs).
    assert!(theirs.values().all(|(_, node)| node.is_empty()));
    let kinds = |symbols: Symbols| -> BTreeMap<String, String> {
        symbols.into_iter().filter(|(name, _)| !name.starts_with("ginrs")).map(|(name, (kind, _))| (name, kind)).collect()
    };
    assert_eq!(kinds(ours()), kinds(theirs));
    let dynamic = run(Command::new("readelf").arg("-dW").arg(nvidia_library()));
    assert!(dynamic.contains("Library soname: [libnccl.so.2]"), "the name of compat/");
}

/// A library with debug information and the exports as src/abi declares them, `ncclX` and `pncclX` one function each as NVIDIA
/// builds it: abidiff pairs functions by all their names, and compares nothing where these differ.
fn signatures(folder: &Path, name: &str, edit: impl Fn(String) -> String) -> std::path::PathBuf {
    let declared = run(Command::new(env!("CARGO")).args(["run", "-q", "-p", "header-gen", "--", "declare"]).current_dir(root()));
    let mut source = String::from("#include <cstddef>\n#include <nccl.h>\n#include <nccl_device.h>\nextern \"C\" {\n");
    let mut functions = 0;
    // Two spellings of one type, of which NVIDIA's definitions use the other.
    for declaration in declared.replace("ncclWindow_t", "ncclWindow_vidmem*").split(';') {
        let declaration = declaration.rsplit("*/").next().unwrap_or_default().trim();
        let name = declaration.split('(').next().and_then(|head| head.rsplit([' ', '*']).next()).unwrap_or_default();
        if name.starts_with("nccl") {
            source += &format!(
                "__attribute__((weak)) {declaration} {{ __builtin_trap(); }}\nasm(\".globl p{name}\\n.set p{name}, {name}\");\n"
            );
            functions += 1;
        }
    }
    assert_eq!(functions, 52);
    let (input, output) = (folder.join(format!("{name}.cc")), folder.join(name));
    std::fs::write(&input, edit(source + "}\n")).unwrap();
    run(Command::new("g++")
        .args(["-std=c++17", "-w", "-g", "-fPIC", "-shared", "-Wl,-soname,libnccl.so.2", "-o"])
        .arg(&output)
        .arg(&input)
        .arg(format!("-I{}", prefix().join("include/ginrs").display())));
    output
}

/// The wheel's library has debug information. abidiff's word alone is not trusted: a planted difference must be found.
#[test]
fn signatures_are_those_in_nvidias_library() {
    let folder = tempfile::tempdir().unwrap();
    let include = nvidia("2.28.9").include[0].clone();
    let theirs = folder.path().join("theirs.abi");
    run(Command::new("abidw")
        .args(["--drop-private-types", "--headers-dir"])
        .arg(&include)
        .arg("--out-file")
        .arg(&theirs)
        .arg(nvidia_library()));
    let compare = |library: &Path| {
        let mut command = Command::new("abidiff");
        command.arg("--suppr").arg(root().join("abi-tests/layout/abidiff.suppr")).arg(&theirs).arg(library);
        command.output().expect("abidiff (make deps)")
    };
    let same = compare(&signatures(folder.path(), "same.so", |text| text));
    assert!(same.status.success(), "{}", abi_tests::text(&same));
    let planted = signatures(folder.path(), "other.so", |text| {
        assert!(text.contains("ncclSend(const void* sendbuff, size_t count"));
        text.replace("#include <nccl.h>", "#define ncclSend ncclSendOfTheHeader\n#include <nccl.h>\n#undef ncclSend")
            .replace("ncclSend(const void* sendbuff, size_t count", "ncclSend(const void* sendbuff, short count")
    });
    let found = compare(&planted);
    assert!(!found.status.success() && abi_tests::text(&found).contains("ncclSend"), "{}", abi_tests::text(&found));
}

#[test]
fn the_archive_defines_the_same_and_hides_the_rest() {
    let text = run(Command::new("nm").args(["--defined-only", "--extern-only"]).arg(prefix().join("lib/libginrs.a")));
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        Some((words.next()?, words.next()?))
    });
    let mut names = BTreeSet::new();
    for (kind, name) in lines {
        assert_eq!(kind, if name.starts_with("nccl") { "W" } else { "T" }, "{name}");
        names.insert(name.to_owned());
    }
    assert_eq!(names, exported().into_iter().collect());
}

/// Relocations by a name that starts with one of these.
fn by_name(library: &Path, starts: &[&str]) -> Vec<String> {
    let text = run(Command::new("readelf").arg("-rW").arg(library));
    let names = text.lines().filter_map(|line| line.split_whitespace().nth(4));
    names.filter(|name| starts.iter().any(|start| name.starts_with(start))).map(str::to_owned).collect()
}

/// What stands in front of ncclX sees the program's calls and never ours, and NVIDIA's library in the same process is never called by
/// mistake. NVIDIA's does call itself by name, which shows that this would be seen.
#[test]
fn the_library_does_not_call_itself_by_name() {
    assert_eq!(by_name(&prefix().join("lib/libginrs.so"), &["nccl", "pnccl", "ginrs"]), [""; 0]);
    assert_eq!(by_name(&prefix().join("lib/libginrs_cpu.so"), &["nccl", "pnccl"]), [""; 0]);
    assert!(by_name(&nvidia_library(), &["nccl"]).contains(&"ncclTeamWorld".to_owned()));
}

/// Sums of the CPU device are loops in one function, which counts nothing: a lambda of its own counted at each basic block.
#[test]
fn no_part_of_a_sum_is_a_function_of_its_own() {
    let names = run(Command::new("nm").arg("-C").arg(prefix().join("lib/libginrs_cpu.so")));
    assert!(names.contains(" ginrs::coll::reduceTo<"), "the library's kernels have names");
    let parts: Vec<&str> = names.lines().filter(|name| name.contains(" ginrs::coll::reduceRuns<")).take(3).collect();
    assert!(parts.is_empty(), "{parts:#?}");
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
    assert!(ours().keys().all(|name| !name.contains("cuda")));
    assert!(dynamic(&prefix().join("lib/libginrs_cpu.so")).keys().any(|name| name.starts_with("cudaMalloc")));
}
