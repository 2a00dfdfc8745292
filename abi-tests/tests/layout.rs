//! Every struct, constant, enumerator and macro has one layout and one value in Rust, in our headers and in NVIDIA's of 2.28.9 and
//! 2.28.7. One list (layout/records.rs, layout/values.rs) makes what Rust says and the programs that say it of headers; the
//! debug information and the macros of NVIDIA's headers say whether the list is complete.

#[path = "../layout/facts.rs"]
mod facts;
#[path = "../layout/nic.rs"]
#[allow(non_camel_case_types)]
mod nic;
#[path = "../layout/plugin.rs"]
#[allow(non_camel_case_types, non_snake_case)]
mod plugin;
#[path = "../layout/records.rs"]
#[rustfmt::skip]
mod records;
#[path = "../layout/values.rs"]
#[rustfmt::skip]
mod values;

use abi_tests::{Headers, dwarf, exported, nvidia, prefix, root, run};
use facts::{Facts, Where, differences, parse, program, rust};
use records::records;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use values::values;

const C_HEAD: &str = "#include <stddef.h>
#include <nccl.h>
#include <nccl_device/core.h>
#include <nccl_device/impl/core__types.h>
#include <nccl_device/impl/ll_a2a__types.h>
#include <nccl_device/impl/lsa_barrier__types.h>
typedef struct ncclWindow_vidmem ncclWindow_vidmem;";

const CXX_HEAD: &str = "#include <cstddef>
#include <cstdint>
#include <nccl.h>
#include <nccl_device.h>
#include <nccl_device/gin/gdaki/gin_gdaki_device_host_common.h>
#include <nccl_device/gin/proxy/gin_proxy_device_host_common.h>";

const DOCA_HEAD: &str = "#include <nccl_device/gin/gdaki/doca_gpunetio/common/doca_gpunetio_verbs_def.h>
#include <nccl_device/gin/gdaki/doca_gpunetio/common/doca_gpunetio_verbs_dev.h>";

/// The headers that are compared; ours first, which need no toolkit.
fn ours() -> Headers {
    Headers { name: "ours".into(), include: vec![prefix().join("include/ginrs")] }
}

/// Compiles a source; the folder lives as long as the caller needs the output.
fn compile(compiler: &str, flags: &[&str], source: &str, headers: &Headers) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&input, source).unwrap();
    run(Command::new(compiler).args(flags).args(headers.flags()).arg("-o").arg(&output).arg(&input));
    (folder, output)
}

/// What the headers say, in C or in C++: layouts and values, and types of fields.
fn say(compiler: &str, head: &str, headers: &Headers, parts: &[Where]) -> (Facts, Facts) {
    let source = program(head, &records(), &values(), parts);
    let language: &[&str] = if compiler.ends_with("++") { &["-x", "c++", "-std=c++17", "-w"] } else { &["-std=c11", "-w"] };
    let (_folder, output) = compile(compiler, language, &source, headers);
    parse(&run(&mut Command::new(output)))
}

/// Each fact of `left` is one of `right`.
#[track_caller]
fn same(name: &str, left: &Facts, right: &Facts) {
    let found = differences(left, right);
    assert!(!left.is_empty() && found.is_empty(), "{name}: {} facts differ:\n{}", found.len(), found.join("\n"));
}

#[test]
fn rust_and_our_headers_in_c_and_in_cxx() {
    let of_rust = rust(&records(), &values(), &[Where::C]);
    for compiler in ["gcc", "clang"] {
        same(compiler, &of_rust, &say(compiler, C_HEAD, &ours(), &[Where::C]).0);
    }
    let parts = [Where::C, Where::Cxx, Where::Doca, Where::Ours];
    let of_rust = rust(&records(), &values(), &parts);
    for compiler in ["g++", "clang++"] {
        same(compiler, &of_rust, &say(compiler, &format!("{CXX_HEAD}\n{DOCA_HEAD}"), &ours(), &parts).0);
    }
}

#[test]
fn rust_and_plugins() {
    let head = format!("#include \"{}\"", root().join("abi-tests/layout/plugin.h").display());
    let none = Headers { name: "plugin.h".into(), include: vec![] };
    let parts = [Where::Plugin];
    same("plugin.h", &rust(&records(), &values(), &parts), &say("gcc", &head, &none, &parts).0);
}

/// 2.28.7's wheel has no DOCA headers; for the rest the two are alike.
#[test]
fn nvidias_headers_of_both_versions_rust_and_ours() {
    for (version, doca) in [("2.28.9", DOCA_HEAD), ("2.28.7", "")] {
        let theirs = nvidia(version);
        same(version, &say("gcc", C_HEAD, &theirs, &[Where::C]).0, &say("gcc", C_HEAD, &ours(), &[Where::C]).0);
        let head = format!("{CXX_HEAD}\n{doca}");
        let parts = if doca.is_empty() { vec![Where::C, Where::Cxx] } else { vec![Where::C, Where::Cxx, Where::Doca] };
        let (mine, other) = (say("g++", &head, &ours(), &parts), say("g++", &head, &theirs, &parts));
        same(version, &other.0, &mine.0);
        same(&format!("{version}, types of fields"), &other.1, &mine.1);
        same(&format!("{version} and Rust"), &rust(&records(), &values(), &parts), &other.0);
    }
}

/// Names of one type in debug information and in the list.
fn plain(name: &str) -> String {
    let name = name.replace("long unsigned int", "uint64_t");
    match name.as_str() {
        "ncclConfig_v22800" => "ncclConfig".into(),
        "ncclSimInfo_v22200" => "ncclSimInfo".into(),
        _ => name.strip_suffix("_t").unwrap_or(&name).into(),
    }
}

fn ours_to_judge(name: &str) -> bool {
    ["nccl", "NCCL", "doca", "DOCA"].iter().any(|start| name.starts_with(start))
}

/// Words of all expressions.
fn words() -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for value in values() {
        words.extend(value.expression.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned));
    }
    words
}

#[test]
fn no_struct_field_or_enumerator_of_nvidias_headers_is_left_out() {
    let source = format!("{CXX_HEAD}\n{DOCA_HEAD}\n");
    let flags = ["-x", "c++", "-std=c++17", "-w", "-g", "-fno-eliminate-unused-debug-types", "-c"];
    let (_folder, object) = compile("g++", &flags, &source, &nvidia("2.28.9"));
    let declared = dwarf::read(&object);
    let listed: Vec<(String, BTreeSet<&str>)> =
        records().iter().map(|r| (plain(r.name), r.fields.iter().map(|(field, _)| *field).collect())).collect();
    let masks: BTreeSet<String> = values()
        .iter()
        .filter_map(|v| Some(v.expression.strip_prefix("MASK(ncclGinProxyQword_t, ")?.trim_end_matches(')').to_owned()))
        .collect();
    let (mut missing, mut seen) = (Vec::new(), 0);
    for (name, members) in declared.records.iter().filter(|(name, _)| ours_to_judge(name)) {
        for member in members {
            seen += 1;
            let known = listed.iter().any(|(record, fields)| *record == plain(name) && fields.contains(member.as_str()));
            let mask = name == "ncclGinProxyQword_t" && masks.contains(member);
            if !known && !mask {
                missing.push(format!("{name}.{member}"));
            }
        }
    }
    let words = words();
    let enumerators: Vec<&String> = declared.enumerators.iter().filter(|name| ours_to_judge(name)).collect();
    missing.extend(enumerators.iter().filter(|name| !words.contains(**name)).map(|name| (*name).clone()));
    assert!(seen > 250 && enumerators.len() > 140, "only {seen} fields and {} enumerators found", enumerators.len());
    assert!(missing.is_empty(), "not in abi-tests/layout: {}", missing.join(", "));
}

/// Macros that are no value to compare; what they are for is compiled by abi-tests/tests/headers.rs.
const TEXT: [&str; 5] =
    ["NCCL_CONFIG_INITIALIZER", "NCCL_SIM_INFO_INITIALIZER", "NCCL_DEVICE_INLINE", "NCCL_HOST_DEVICE_INLINE", "NCCL_EXTERN_C"];
/// In the host's pass NVIDIA's headers leave GDAKI out, so that `ncclGin` differs between the passes: a defect that ours do not have.
const BETTER: [&str; 2] = ["NCCL_GIN_GDAKI_ENABLE", "NCCL_GIN_BACKEND_MASK_ALL"];
/// Helpers of DOCA's own code.
const THEIRS: [&str; 2] = ["DOCA_GPUNETIO_VOLATILE", "DOCA_GPUNETIO_VERBS_ASSERT"];

#[test]
fn no_macro_of_nvidias_headers_is_left_out() {
    let macros = |headers: &Headers| -> BTreeSet<String> {
        let source = format!("{CXX_HEAD}\n{DOCA_HEAD}\n");
        let (_folder, output) = compile("g++", &["-x", "c++", "-std=c++17", "-w", "-E", "-dM"], &source, headers);
        let text = std::fs::read_to_string(output).unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix("#define ")?.split([' ', '(']).next());
        names.filter(|name| ours_to_judge(name) && !name.ends_with("_H") && !name.ends_with("_H_")).map(str::to_owned).collect()
    };
    let (theirs, ours, words) = (macros(&nvidia("2.28.9")), macros(&ours()), words());
    assert!(theirs.len() > 40, "only {} macros found", theirs.len());
    for name in theirs.iter().filter(|name| !THEIRS.contains(&name.as_str())) {
        assert!(ours.contains(name), "our headers lack {name}");
        let exempt = TEXT.contains(&name.as_str()) || BETTER.contains(&name.as_str());
        assert!(exempt || words.contains(name), "{name} is not in abi-tests/layout/values.rs");
    }
}

/// The prototypes of all exports as src/abi has them, declared once more behind a header's: a compiler refuses any other type.
#[test]
fn every_prototype_is_the_headers() {
    let prototypes =
        run(Command::new(env!("CARGO")).args(["run", "-q", "-p", "header-gen", "--", "declare"]).current_dir(root()));
    let names: Vec<String> = exported().into_iter().filter(|name| !name.starts_with("ginrs")).collect();
    assert!(names.len() == 104 && names.iter().all(|name| prototypes.contains(&format!(" {name}("))), "{prototypes}");
    let again = format!(
        "{C_HEAD}\ntypedef struct ncclDevComm ncclDevComm;\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n{prototypes}\n\
         #ifdef __cplusplus\n}}\n#endif\n"
    );
    for headers in [nvidia("2.28.9"), nvidia("2.28.7"), ours()] {
        compile("gcc", &["-x", "c", "-w", "-c"], &again, &headers);
        compile("g++", &["-x", "c++", "-w", "-c"], &again.replace(C_HEAD, CXX_HEAD), &headers);
        // A name that the header does not declare would have been compared with nothing. NVIDIA's declare no twin of the device API's
        // functions; the team functions are overloaded in C++.
        let device = |name: &str| ["DevComm", "Team", "Requirement", "LLA2A"].iter().any(|part| name.contains(part));
        let declared: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| headers.name == "ours" || !name.starts_with('p') || !device(name))
            .collect();
        let (teams, others): (Vec<&str>, Vec<&str>) = declared.iter().partition(|name| name.contains("ncclTeam"));
        let named = |names: &[&str]| format!("void* all[] = {{ (void*){} }};\n", names.join(", (void*)"));
        compile("gcc", &["-x", "c", "-w", "-c"], &format!("{C_HEAD}\n{}", named(&teams)), &headers);
        compile("g++", &["-x", "c++", "-w", "-c"], &format!("{CXX_HEAD}\n{}", named(&others)), &headers);
    }
}
