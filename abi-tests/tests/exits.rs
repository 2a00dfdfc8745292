//! Communicators that destructors end: of static objects, of libraries, of threads. By then what the library keeps for a thread may
//! have gone. Nothing may crash, hang, or be said that is not deserved. Needs GINRS_PREFIX (`make test` sets it).

use abi_tests::programs::{built, compiled};
use abi_tests::{prefix, root, run, text};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

/// plugin.cu as a library. Its inline statics must not keep it loaded after dlclose.
fn plugin() -> PathBuf {
    let options = ["-std=c++17", "-O1", "-shared", "-fPIC", "-fno-gnu-unique"];
    built("abi-tests/exits/plugin.cu", &options, None).unwrap_or_else(|error| panic!("{error}"))
}

/// A folder with the driver stand-in as libcuda.so.1; it was built with this test, which depends on its package.
fn driver() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let library = std::env::current_exe().unwrap().parent().unwrap().join("libmock_cuda.so");
        let driver = folder().join("driver");
        std::fs::create_dir(&driver).unwrap();
        std::os::unix::fs::symlink(library, driver.join("libcuda.so.1")).unwrap();
        driver
    })
}

/// Runs it on `device`; what it printed on stderr.
#[track_caller]
fn ends(device: &str, how: &str, when: &str, done: &[&str]) -> String {
    let mut command = Command::new("timeout");
    if device == "cuda" {
        command.env("LD_LIBRARY_PATH", driver()).env("GINRS_MOCK_DEVICES", "1").env("NO_KERNELS", "1");
    }
    if when == "closed" {
        // dlclose holds the loader's lock, which a thread needs that begins: no wait for a kernel can end there.
        command.env("NO_KERNELS", "1");
    }
    command.args(["-s", "ABRT", "60"]).arg(compiled("abi-tests/exits/exits.cu")).args([how, when]).arg(plugin());
    let output = command.env("GINRS_DEVICE", device).env("GINRS_CPU_DEVICES", "1").env_remove("NCCL_DEBUG").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{how} {when}: {}\n{}", output.status, text(&output));
    for done in done {
        assert!(said.contains(&format!("{done}: done")), "{how} {when}: {}", text(&output));
    }
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const ALL: [(&str, &[&str]); 6] = [
    ("static", &["static"]),
    ("local", &["local", "static"]),
    ("plugin", &["plugin"]),
    ("closed", &["plugin", "main"]),
    ("thread", &["thread_local", "key"]),
    ("midway", &["static"]),
];

#[test]
fn what_is_right_in_a_destructor_is_done_without_a_word() {
    for (when, done) in ALL {
        done_quietly("cpu", when, done);
    }
}

#[test]
fn and_on_the_cuda_device() {
    for (when, done) in ALL {
        // The stand-in's streams are threads, which dlclose holds up.
        if when != "closed" {
            done_quietly("cuda", when, done);
        }
    }
}

#[track_caller]
fn done_quietly(device: &str, when: &str, done: &[&str]) {
    for line in ends(device, "end", when, done).lines() {
        // That a communicator was aborted or revoked is told once, whoever did it.
        assert!(["GINRS-E041", "GINRS-E044"].iter().any(|id| line.contains(id)), "{device}, {when}: {line}");
    }
}

/// A line for each wrong call, and for nothing else.
#[test]
fn what_is_wrong_in_a_destructor_is_told_and_nothing_else() {
    for (when, done) in ALL {
        let told = ends("cpu", "misuse", when, done);
        for line in told.lines() {
            let deserved = ["GINRS-E019", "GINRS-E061", "GINRS-E062", "GINRS-E063", "GINRS-E066"];
            assert!(deserved.iter().any(|id| line.contains(id)), "{when}: {line}");
        }
        assert!(told.contains("GINRS-E063") && told.contains("GINRS-E066"), "{when}: {told}");
    }
}

/// A C program, linked as programs without kernels are, or with the CPU device's runtime.
fn plain(name: &str, libraries: &[&str]) -> PathBuf {
    let out = folder().join(format!("{name}{}", libraries.len()));
    let lib = prefix().join("lib");
    run(Command::new("gcc")
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-o"])
        .arg(&out)
        .arg(root().join(format!("abi-tests/exits/{name}.c")))
        .arg(format!("-I{}", prefix().join("include/ginrs").display()))
        .args([&format!("-L{}", lib.display()), "-Wl,--no-as-needed"])
        .args(libraries)
        .arg(format!("-Wl,-rpath,{}", lib.display())));
    out
}

/// GINRS_TEST_FORKS children; 1 in 500 hung while waiting threads stood in a table of the process.
#[test]
fn a_child_of_fork_hangs_on_nothing_that_its_parents_threads_held() {
    let forks = std::env::var("GINRS_TEST_FORKS").unwrap_or("150".into());
    // Every call is a line, too, with the second.
    for (libraries, debug) in [(&["-lginrs"][..], "NONE"), (&["-lginrs", "-lginrs_cpu"], "TRACE")] {
        let mut command = Command::new("timeout");
        command.args(["-s", "ABRT", "500"]).arg(plain("forks", libraries)).arg(&forks).envs([
            ("GINRS_DEVICE", "cpu"),
            ("NCCL_DEBUG", debug),
            ("NCCL_DEBUG_FILE", "/dev/null"),
        ]);
        let said = run(&mut command);
        assert_eq!(said.trim(), format!("0 of {forks} children hung, 0 failed, first status 0; parent ok"));
    }
}

/// What the other rank of a process that ends says: its state, what a call returned then, and why.
fn after(leaves: &Path, how: &str, machines: Option<&str>) -> String {
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "60"]).arg(leaves).arg(how).envs(machines.map(|machines| ("GINRS_FAKE_MACHINES", machines)));
    run(command.envs([("GINRS_DEVICE", "cpu"), ("GINRS_SHARE_DEVICE", "1"), ("NCCL_DEBUG", "NONE")]))
}

/// Exit handlers run, and the status is 0: its end is no failure, and who needs it later is told that it has left.
#[test]
fn a_process_that_succeeds_leaves_and_others_die() {
    let leaves = plain("leaves", &["-lginrs"]);
    for machines in [None, Some("0,1")] {
        for how in ["return", "exit", "thread", "quick"] {
            let said = after(&leaves, how, machines);
            let told = said.starts_with("status 0, state 0, then 6:") && said.contains("GINRS-E042");
            assert!(told, "{how} {machines:?}: {said}");
        }
        for how in ["failed", "quick-failed", "silent", "kill", "exec"] {
            let said = after(&leaves, how, machines);
            assert!(said.contains("state 6, then 6: GINRS-E040 rank 1 "), "{how} {machines:?}: {said}");
        }
    }
}

/// What the other rank says, and its lines.
#[track_caller]
fn skewed(how: &str, machines: Option<&str>) -> (String, String) {
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "60"]).arg(compiled("abi-tests/exits/skewed.cu")).arg(how);
    command.envs(machines.map(|machines| ("GINRS_FAKE_MACHINES", machines)));
    let output = command.env("GINRS_CPU_DEVICES", "2").env_remove("NCCL_DEBUG").output().unwrap();
    assert!(output.status.success(), "{how}: {}", text(&output));
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// PyTorch calls ncclCommAbort inside exit(), and its watchdog ends a process at the first failure that it is told of.
#[test]
fn the_end_of_a_rank_that_ends_earlier_is_told_by_the_next_call_alone() {
    for machines in [None, Some("0,1")] {
        let (said, lines) = skewed("exit", machines);
        assert!(said.starts_with("state 0 after 3.0 s, then 6, state 6: GINRS-E041 "), "{machines:?}: {said}{lines}");
        assert_eq!(lines.matches("GINRS-E041").count(), 1, "{machines:?}: {lines}");
        for how in ["end", "destroy"] {
            let (said, lines) = skewed(how, machines);
            assert!(said.starts_with("state 0 after 3.0 s, then 0"), "{how} {machines:?}: {said}{lines}");
            assert_eq!(lines, "", "{how} {machines:?}");
        }
    }
}

#[test]
fn an_abort_that_cuts_something_short_is_told_at_once() {
    for machines in [None, Some("0,1")] {
        for how in ["busy", "waiting", "captured", "devcomm"] {
            let (said, lines) = skewed(how, machines);
            assert!(said.starts_with("state 6 after 0.0 s, then 6, state 6: GINRS-E041 "), "{how} {machines:?}: {said}{lines}");
        }
        // Somebody may wait for nothing but that.
        let (said, lines) = skewed("stays", machines);
        assert!(said.starts_with("state 6 after 5.") && said.contains("GINRS-E041"), "{machines:?}: {said}{lines}");
    }
}

/// Who is in it would wait for what nobody sends any more.
#[test]
fn a_process_that_succeeds_in_the_midst_of_a_collective_dies() {
    for machines in [None, Some("0,1")] {
        for how in ["midway", "late"] {
            let (said, lines) = skewed(how, machines);
            let told = said.starts_with("state 6 after 0.") && said.contains("GINRS-E040 rank 0 ");
            assert!(told, "{how} {machines:?}: {said}{lines}");
        }
        let (said, lines) = skewed("joined", machines);
        assert!(said.starts_with("state 0 after 3.0 s, then ") && !lines.contains("GINRS-E040"), "{machines:?}: {said}{lines}");
    }
}

/// Whoever ends while threads of the transport have its links.
#[test]
fn a_process_ends_while_its_large_puts_are_moved_by_threads() {
    for how in ["exit", "abort", "fork"] {
        let mut command = Command::new(prefix().join("bin/ginrs-run"));
        command.args(["-n", "2", "--timeout", "240"]).arg(compiled("abi-tests/exits/lent.cu")).arg(how);
        // What the program reads before it is written is no small number: once it was taken for a count of rounds that never came.
        command.env("MALLOC_PERTURB_", "165");
        command.envs([("GINRS_DEVICE", "cpu"), ("GINRS_FAKE_MACHINES", "0,1"), ("GINRS_OFI_THREADS", "1")]);
        let output = command.env("GINRS_CPU_DEVICES", "2").output().unwrap();
        let said = text(&output);
        assert!(output.status.success() && said.matches("ends").count() == 2, "{how}: {}\n{said}", output.status);
    }
}
