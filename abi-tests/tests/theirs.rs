//! NVIDIA's own libnccl.so.2 of 2.28.9 without a GPU and without a card: kernels compiled with NVIDIA's headers, on the CPU device, over
//! the libibverbs and libmlx5 of abi-tests/soft-verbs; `abi-tests/theirs` gives its CUDA calls to the CPU device. What the model of a card
//! does is held against the library that it is a model for. Needs GINRS_PREFIX, and the package of make deps.
#![cfg(target_arch = "x86_64")]

#[path = "theirs/commands.rs"]
mod commands;

use abi_tests::programs::{compiled, compiled_as, suite_ok};
use abi_tests::{nvidia, nvidia_library, prefix, root};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const SUITE: &str = "abi-tests/twice/suite.cu";
/// Not here: what stumbles over 2.28.9's own errors (docs/internals/gdaki.md).
const PROGRAMS: &[&str] =
    &["hello", "ring", "gin-alltoall", "hybrid-alltoall", "layout", "graphs", "order", "sizes", "torture", "soak"];

fn cc(out: PathBuf, arguments: &[&str]) {
    let output = Command::new("cc").arg("-o").arg(&out).args(arguments).current_dir(root()).output().expect("cc starts");
    assert!(output.status.success(), "{}: {}", out.display(), String::from_utf8_lossy(&output.stderr));
}

/// A folder with all that the library loads by name, and libredirect.so.
fn libraries() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let made = || {
        let folder = tempfile::tempdir().unwrap();
        let archive = std::env::current_exe().unwrap().parent().unwrap().join("libsoft_verbs.a");
        let at = |name: &str| folder.path().join(name);
        // The library asks for each function by version.
        let whole = ["-Wl,--whole-archive", archive.to_str().unwrap(), "-Wl,--no-whole-archive", "-Wl,--gc-sections"];
        let versions = ["-shared", "-Wl,--version-script=abi-tests/soft-verbs/versions.map"];
        cc(at("libibverbs.so.1"), &[&versions[..], &whole, &["-lpthread", "-ldl", "-lm", "-lgcc_s"]].concat());
        let plain = ["-shared", "-fPIC", "-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror"];
        cc(at("libredirect.so"), &[&plain[..], &["abi-tests/theirs/redirect.c", "-ldl"]].concat());
        cc(at("libnvidia-ml.so.1"), &[&plain[..], &["abi-tests/theirs/nvml.c"]].concat());
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, at(name)).unwrap();
        for name in ["libibverbs.so", "libmlx5.so", "libmlx5.so.1"] {
            link(&at("libibverbs.so.1"), name);
        }
        // What it loads beside its runtime.
        for name in ["libcuda.so", "libcuda.so.1"] {
            link(&prefix().join("lib/libginrs_cpu.so.0"), name);
        }
        folder
    };
    FOLDER.get_or_init(made).path()
}

fn suite() -> PathBuf {
    let mut options = nvidia("2.28.9").flags();
    options.extend(["-O1", "-DTWICE_NO_API", "-DNCCL_GIN_GDAKI_ENABLE=1"].map(String::from));
    compiled_as(SUITE, &options)
}

/// See [`suite_ok`]; on NVIDIA's library.
#[track_caller]
fn theirs_ok(programs: &[&str], ranks: u32, env: &[(&str, &str)]) {
    let libraries = libraries().to_str().unwrap();
    let preload = format!("{libraries}/libredirect.so {}", nvidia_library().display());
    let card = [
        ("LD_PRELOAD", preload.as_str()),
        ("LD_LIBRARY_PATH", libraries),
        ("NCCL_GIN_TYPE", "3"),
        // What the CPU device has not, or would be looked for outside this test.
        ("NCCL_NVLS_ENABLE", "0"),
        ("NCCL_CUMEM_HOST_ENABLE", "0"),
        ("NCCL_MNNVL_ENABLE", "0"),
        ("NCCL_RAS_ENABLE", "0"),
        ("NCCL_DEBUG", "WARN"),
    ];
    suite_ok(&suite(), programs, ranks, Some("--threads"), &[&card, env].concat());
}

#[test]
fn their_library_runs_their_kernels_over_the_model_of_a_card() {
    theirs_ok(PROGRAMS, 2, &[]);
    theirs_ok(&["gin-alltoall", "order"], 3, &[("SOFTVERBS_LINK", "ib")]);
    for handler in ["1", "2"] {
        theirs_ok(&["gin-alltoall", "soak"], 2, &[("NCCL_GIN_GDAKI_NIC_HANDLER", handler)]);
    }
    // Ranks that share a device, and have nothing between them but the card.
    let alone = [("GINRS_CPU_DEVICES", "1"), ("GINRS_SHARE_DEVICE", "1"), ("THEIRS_HOSTS", "thread"), ("THEIRS_RANKS", "2")];
    theirs_ok(&["gin-alltoall", "ring", "order"], 2, &alone);
}

/// The commands of both libraries, field by field, are those that docs/internals/gdaki.md tells of. `BLESS=1` writes them again.
#[test]
fn commands_beside_those_of_their_library() {
    for link in ["ethernet", "ib"] {
        let log = |name: &str| libraries().join(format!("{name}-{link}"));
        let (ours, theirs) = (log("ours"), log("theirs"));
        let env = |log: &Path| [("SOFTVERBS_LOG", log.to_str().unwrap().to_owned()), ("SOFTVERBS_LINK", link.into())];
        let env = [env(&ours), env(&theirs)];
        let [ours_env, theirs_env] = env.each_ref().map(|env| env.each_ref().map(|(name, value)| (*name, value.as_str())));
        let card = [("NCCL_GIN_BACKEND", "gdaki"), ("GINRS_NIC", "card"), ("LD_LIBRARY_PATH", libraries().to_str().unwrap())];
        suite_ok(&compiled(SUITE), &["gin-alltoall"], 2, Some("--threads"), &[&card[..], &ours_env].concat());
        theirs_ok(&["gin-alltoall"], 2, &theirs_env);
        let [ours, theirs] = [ours, theirs].map(|log| std::fs::read_to_string(log).unwrap());
        let found = commands::beside(&ours, &theirs);
        let file = root().join(format!("abi-tests/theirs/commands-{link}.txt"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&file, &found).unwrap();
        }
        let known = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(found, known, "{} | fix: if both are right, BLESS=1 and docs/internals/gdaki.md", file.display());
    }
}
