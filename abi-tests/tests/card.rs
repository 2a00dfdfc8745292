//! GDAKI over a card that is none: commands by libibverbs and libmlx5, which are abi-tests/soft-verbs here, and the queues that these make.
//! Ranks are threads, for the card's memory is this process's. Needs GINRS_PREFIX.

use abi_tests::programs::{compiled, compiled_as, suite_ok};
use abi_tests::{nvidia, prefix, text};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const SUITE: &str = "abi-tests/twice/suite.cu";
const PROGRAMS: &[&str] = &["layout", "graphs", "several", "gin", "ginbarriers", "order", "soak"];

/// A folder with the stand-in under both names; it was built with this test, which depends on its package.
fn libraries() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let made = || {
        let library = std::env::current_exe().unwrap().parent().unwrap().join("libsoft_verbs.so");
        assert!(library.exists(), "{} is built with this test", library.display());
        let folder = tempfile::tempdir().unwrap();
        for name in ["libibverbs.so.1", "libmlx5.so.1"] {
            std::os::unix::fs::symlink(&library, folder.path().join(name)).unwrap();
        }
        folder
    };
    FOLDER.get_or_init(made).path()
}

fn theirs() -> PathBuf {
    let mut options = nvidia("2.28.9").flags();
    options.extend(["-O1", "-DTWICE_NO_API", "-DNCCL_GIN_GDAKI_ENABLE=1"].map(String::from));
    compiled_as(SUITE, &options)
}

/// See [`suite_ok`].
#[track_caller]
fn all_ok(suite: &Path, programs: &[&str], ranks: u32, env: &[(&str, &str)]) {
    let libraries = libraries().to_str().unwrap();
    let card = [("NCCL_GIN_BACKEND", "gdaki"), ("NCCL_GIN_TYPE", "3"), ("GINRS_NIC", "card"), ("LD_LIBRARY_PATH", libraries)];
    suite_ok(suite, programs, ranks, Some("--threads"), &[env, &card].concat());
}

#[test]
fn the_suite_runs_by_commands_to_a_card() {
    let suite = compiled(SUITE);
    all_ok(&suite, PROGRAMS, 2, &[]);
    all_ok(&suite, &["gin", "order", "soak"], 3, &[("NCCL_GIN_GDAKI_NIC_HANDLER", "2"), ("SOFTVERBS_LINK", "ib")]);
    all_ok(&suite, &["gin", "order"], 2, &[("NCCL_GIN_GDAKI_QP_DEPTH", "2")]);
    all_ok(&theirs(), &["gin", "order"], 2, &[]);
}

/// What the card was told, in order, for one rank of one context: every command was accepted, and none is there that nobody expects.
#[test]
fn the_card_hears_each_command_once_and_refuses_none() {
    let log = libraries().join("commands");
    let log = log.to_str().unwrap();
    all_ok(&compiled(SUITE), &["gin"], 2, &[("SOFTVERBS_LOG", log), ("NCCL_GIN_NCONTEXTS", "1")]);
    let said = std::fs::read_to_string(log).unwrap();
    let count = |name: &str| said.lines().filter(|line| line.starts_with(name)).count();
    // Two ranks, each with a queue and a companion for each of two peers; the suite makes one communicator with GIN, or several.
    let pairs = count("CREATE_QP");
    assert!(pairs > 0 && pairs % 8 == 0, "{pairs}");
    for name in ["CREATE_CQ", "RST2INIT_QP", "INIT2RTR_QP", "RTR2RTS_QP"] {
        assert_eq!(count(name), pairs, "{name}");
    }
    let commands = said.lines().filter(|line| !line.starts_with('#'));
    let refused: Vec<&str> = commands.filter(|line| !line.rsplit(' ').next().unwrap().starts_with("00")).collect();
    assert!(refused.is_empty() && count("unknown") == 0, "{refused:?}");
}

/// Each operation fails with the card's word for it: all waits end, and every rank is told queue pair, operation and reason. The other rank's
/// operation to a queue pair that has broken is not answered (0x15), which is heard first now and then.
#[test]
fn a_card_that_fails_ends_the_communicator_and_is_named() {
    let suite = compiled(SUITE);
    let operations = [("write", "opcode 0x8"), ("inline", "opcode 0x8"), ("add", "opcode 0x12"), ("wait", "opcode 0xf")];
    let by_itself = operations.map(|(op, opcode)| {
        let said = failing(&suite, "gin", &[("SOFTVERBS_FAULT", &format!("syndrome=0x13,op={op},at=3"))]);
        let told =
            |parts: &[&str]| said.lines().any(|line| line.contains("GINRS-E051") && parts.iter().all(|part| line.contains(part)));
        let by_itself = told(&["queue pair 0x", opcode, "remote access error (0x13"]);
        assert!(by_itself || told(&["queue pair 0x", "transport retry counter exceeded (0x15"]), "{op}:\n{said}");
        by_itself
    });
    assert!(by_itself.iter().filter(|first| **first).count() >= 2, "{by_itself:?}");
}

/// Each thing that is not there is named, by the program and by ginrs-info.
#[test]
fn what_is_not_there_is_named() {
    let suite = compiled(SUITE);
    for (lacks, why) in [
        ("devices", "no RDMA device"),
        ("mlx5", "not an mlx5 device"),
        ("devx", "does not open for commands (DEVX)"),
        ("cd", "no WAIT elements (core-direct)"),
        ("port", "no port of it is up"),
    ] {
        let said = failing(&suite, "gin", &[("SOFTVERBS_LACKS", lacks)]);
        assert!(said.contains("GINRS-E114") && said.contains(why), "{lacks}:\n{said}");
        let mut info = Command::new(prefix().join("bin/ginrs-info"));
        let output = info.arg("--why").env("SOFTVERBS_LACKS", lacks).env("LD_LIBRARY_PATH", libraries()).output().unwrap();
        assert!(text(&output).contains(why), "{lacks}:\n{}", text(&output));
    }
    let said = failing(&suite, "gin", &[("GINRS_NIC", "mlx5_9")]);
    assert!(said.contains("GINRS-E114") && said.contains("no device mlx5_9"), "{said}");
    let said = failing(&suite, "gin", &[("GINRS_NIC_FAULT", "syndrome=0x13")]);
    assert!(said.contains("GINRS-E113") && said.contains("GINRS_NIC names a real one"), "{said}");
    // The system's own, or none: there is no card either way.
    let said = failing(&suite, "gin", &[("LD_LIBRARY_PATH", "/nonexistent"), ("GINRS_NIC", "mlx5_9")]);
    assert!(said.contains("GINRS-E114") && said.contains("fix: "), "{said}");
}

/// What a program says that ends with an error, and ends.
#[track_caller]
fn failing(suite: &Path, program: &str, env: &[(&str, &str)]) -> String {
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "60"]).arg(suite).args(["--threads", "2", program]);
    command.envs([("NCCL_GIN_BACKEND", "gdaki"), ("GINRS_NIC", "card")]).env("LD_LIBRARY_PATH", libraries());
    let output = command.envs(env.iter().copied()).output().expect("timeout starts");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{env:?}: {}\n{said}", output.status);
    said
}
