//! The compile matrix: every compatibility test of matrix/tests.txt, by compiler, architecture, standard and options, with our
//! headers and, to know that the tests tell the truth, with NVIDIA's. Here a sample; `make abi-full` runs all of it. Needs
//! GINRS_PREFIX (`make test` sets it).

#[path = "../matrix/bounds.rs"]
mod bounds;
#[path = "../matrix/builds.rs"]
mod builds;
mod compilers;
#[path = "../matrix/report.rs"]
mod report;
#[path = "../matrix/table.rs"]
mod table;

use abi_tests::{prefix, run, text};
use builds::{Build, Compiler, MODES, Mode};
use compilers::{Headers, has_clang, limited, nvcc, nvcc_or_skip, skip, succeed};
use std::process::Command;
use table::{Case, Kind};

#[test]
fn the_table_and_the_sources_agree() {
    let wrong = table::disagreements(&table::read());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Those of NVIDIA's builds only where its headers are.
fn available(builds: Vec<Build>) -> Vec<Build> {
    let nvidia = Headers::Nvidia.flags().is_some();
    if !nvidia {
        skip("the matrix against NVIDIA's headers: set GINRS_NVIDIA_NCCL or GINRS_TEST_VENV");
    }
    builds.into_iter().filter(|build| nvidia || build.headers == Headers::Ours).collect()
}

/// Compiles what is wanted of each build and expects what the table says.
#[track_caller]
fn all_hold(builds: Vec<Build>, wanted: impl Fn(&Build, &Case) -> bool) {
    let failed: Vec<String> =
        report::run(&available(builds), wanted).into_iter().flat_map(|row| row.results).filter_map(|(_, _, said)| said).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

fn is_compiled(case: &Case) -> bool {
    case.id.is_some()
}

fn host_builds() -> Vec<Build> {
    let mut builds = Vec::new();
    for headers in [Headers::Ours, Headers::Nvidia] {
        let mut add = |compiler, standard| builds.push(Build { compiler: Compiler::Host(compiler), standard, headers });
        let [c, cpp] = [["gcc", "clang"], ["g++", "clang++"]].map(|pair| if has_clang() { pair.to_vec() } else { vec![pair[0]] });
        c.into_iter().for_each(|compiler| add(compiler, "c11"));
        for standard in ["c++14", "c++17", "c++20"] {
            cpp.iter().for_each(|compiler| add(compiler, standard));
        }
    }
    builds
}

fn cpu_builds() -> Vec<Build> {
    let compilers: &[&str] = if has_clang() { &["g++", "clang++"] } else { &["g++"] };
    let of = |&compiler| {
        ["c++17", "c++20"].map(|standard| Build { compiler: Compiler::Cpu(compiler), standard, headers: Headers::Ours })
    };
    compilers.iter().flat_map(of).collect()
}

#[test]
fn without_cuda() {
    all_hold(host_builds(), |_, case| is_compiled(case));
}

#[test]
fn for_the_cpu_device() {
    let says_why = |build: &Build| (build.compiler, build.standard) == (Compiler::Cpu("g++"), "c++17");
    all_hold(cpu_builds(), |build, case| is_compiled(case) && (case.kind != Kind::Refused || says_why(build)));
}

/// Two builds of all cases, each case that has to say why it is refused, and programs down to machine code.
#[test]
fn by_nvcc() {
    if nvcc_or_skip("the matrix").is_none() {
        return;
    }
    let mut builds = vec![
        Build::nvcc(90, Mode::Plain, "c++17", Headers::Ours),
        Build::nvcc(75, Mode::GdakiAlone, "c++20", Headers::Ours),
        Build::nvcc(90, Mode::Plain, "c++17", Headers::Nvidia),
    ];
    let builds_first = builds[0];
    all_hold(builds.clone(), |build, case| {
        is_compiled(case) && !build.wants_refusal(case) && (case.how != "includes.cu" || *build == builds_first)
    });
    builds.truncate(1);
    all_hold(builds, |_, case| case.kind == Kind::Refused && ["T070", "T073"].contains(&case.number.as_str()));
}

#[test]
fn programs_to_machine_code() {
    if nvcc_or_skip("the matrix").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for objects");
    for (arch, standard) in [(75, "c++20"), (80, "c++17"), (90, "c++20"), (100, "c++17")] {
        let build = Build::nvcc(arch, Mode::Object, standard, Headers::Ours);
        succeed(&mut build.command("programs.cu", &[], &folder.path().join("a.o")));
    }
}

/// Everything: `make abi-full`.
#[test]
#[ignore = "half an hour on two cores; make abi-full"]
fn full() {
    assert!(nvcc().is_some() && Headers::Nvidia.flags().is_some(), "the full matrix needs nvcc and NVIDIA's headers: make deps");
    let mut builds = Vec::new();
    for mode in MODES {
        for headers in [Headers::Ours, Headers::Nvidia] {
            for arch in [75, 80, 90, 100] {
                builds.extend(["c++17", "c++20"].map(|standard| Build::nvcc(arch, mode, standard, headers)));
            }
        }
    }
    builds.extend([75, 80, 90, 100].map(|arch| Build::nvcc(arch, Mode::Object, "c++17", Headers::Ours)));
    builds.extend([host_builds(), cpu_builds()].concat());
    /* What must not compile, and what NVIDIA's headers refuse: each is a command of its own, so in one build of nvcc's. TUs of
     * their own only without further options. */
    let rows = report::run(&builds, |build, case| {
        let Compiler::Nvcc { arch, mode, .. } = build.compiler else { return is_compiled(case) };
        let reads_none = case.id == Some(1701);
        let once = (arch, mode, build.standard) == (90, if reads_none { Mode::NoBackend } else { Mode::Plain }, "c++17");
        is_compiled(case) && (!build.wants_refusal(case) || once) && (case.how != "includes.cu" || mode == Mode::Plain)
    });
    println!("{}", report::page(&rows));
    let failed: Vec<String> = rows.into_iter().flat_map(|row| row.results).filter_map(|(_, _, said)| said).collect();
    assert!(failed.is_empty(), "{} differences:\n{}", failed.len(), failed.join("\n\n"));
}

/// clang's rules for CUDA, and a `__CUDACC__` without value. Debian's clang 14 knows no CUDA 13: declarations of our own take
/// the toolkit's place.
#[test]
fn t013_clang_takes_the_headers_as_cuda() {
    if !has_clang() {
        return skip("t013: no clang++");
    }
    let folder = tempfile::tempdir().expect("a folder for the unit");
    let unit = folder.path().join("unit.cu");
    let sources = ["teams", "symptr", "lsa", "gin_waits", "gin_backends", "barriers", "ll", "utility", "doca"];
    let include = |name: &str| format!("#include \"{}/{name}.cu\"\n", table::folder().display());
    std::fs::write(&unit, sources.map(include).concat()).expect("write a test unit");
    for side in ["--cuda-host-only", "--cuda-device-only"] {
        let mut command = limited("clang++");
        command.args(["-x", "cuda", side, "--cuda-gpu-arch=sm_75", "-nocudainc", "-nocudalib", "-fsyntax-only", "-std=c++17"]);
        command.args(["-Wall", "-Wextra", "-Werror", "-Wno-unknown-cuda-version", "-Wno-missing-braces"]);
        command.args(["-include", "cuda_runtime.h", "-isystem"]).arg(table::folder().join("clang"));
        succeed(command.args(Headers::Ours.flags().expect("ours")).arg(&unit));
    }
}

/// The bytes that a network card would read. On the CPU device; on a GPU NVIDIA's headers write the same (docs/results/abi-full.md).
#[test]
fn t115_bytes_in_send_queues() {
    let folder = tempfile::tempdir().expect("a folder for the program");
    let program = folder.path().join("wqe_dump");
    let mut compiler = Command::new(prefix().join("bin/ginrs-cc"));
    run(compiler.args(["-std=c++17", "-o"]).arg(&program).arg(table::folder().join("wqe_dump.cu")));
    let output = limited(&program).output().expect("the program starts");
    let said = text(&output);
    assert!(output.status.success() && said.ends_with("ok: 0 differences\n"), "{said}");
}

/// Kernels of both header sets in one program: by turns on one barrier, queue and LL buffer, and side by side. What a session
/// leaves behind the other's next one reads.
#[test]
fn t119_t120_one_rank_changes_headers_between_kernels() {
    let Some((nvidia, _)) = abi_tests::nvidia_headers() else { return };
    let folder = tempfile::tempdir().expect("a folder for the program");
    let [ours, theirs, program] = ["ours.o", "theirs.o", "both"].map(|name| folder.path().join(name));
    let cc = || Command::new(prefix().join("bin/ginrs-cc"));
    let source = compilers::root().join("abi-tests/twice/both.cu");
    run(cc().args(["-std=c++17", "-O1", "-c", "-o"]).args([&ours, &source]));
    let their_headers = ["-DBOTH_THEIRS".into(), format!("-I{}", nvidia.display())];
    run(cc().args(["-std=c++17", "-O1", "-c"]).args(their_headers).arg("-o").args([&theirs, &source]));
    run(cc().arg("-o").args([&program, &ours, &theirs]));
    for ranks in [2, 3] {
        let ginrs_run = prefix().join("bin/ginrs-run");
        let output =
            limited(ginrs_run).args(["-n", &ranks.to_string(), "--timeout", "240"]).arg(&program).output().expect("ginrs-run");
        let said = text(&output);
        let ok = (0..ranks).filter(|rank| said.contains(&format!("both rank {rank} of {ranks}: ok,"))).count();
        assert!(output.status.success() && ok == ranks, "{}\n{said}", output.status);
    }
}
