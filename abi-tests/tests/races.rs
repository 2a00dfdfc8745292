//! `--check=race`: planted races are found at both of their lines with the order that is missing, their mended twins are clean, and so are
//! programs that are right. `races/race.cu` has a case for each.

use abi_tests::programs::{self, compiled, compiled_as};
use abi_tests::{prefix, root, text};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

const SOURCE: &str = "abi-tests/races/race.cu";

fn checked(source: &str) -> PathBuf {
    compiled_as(source, &["--check=race".into(), "-O1".into(), "-w".into()])
}

fn run(program: PathBuf, arguments: &[&str]) -> Output {
    Command::new("timeout").args(["-s", "KILL", "240"]).arg(program).args(arguments).current_dir(root()).output().unwrap()
}

/// `race.cu:47`: the line with this mark.
fn line_of(mark: &str, case: &str) -> String {
    // One line may be of two cases.
    let mark = if ["pointer", "element"].contains(&case) {
        format!("{mark} of: pointer, element")
    } else {
        format!("{mark} of: {case}")
    };
    format!("{SOURCE}:{}", programs::line_of(SOURCE, &mark))
}

/// The ranks as processes, watched.
fn job(ranks: u32, program: PathBuf) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240"]).arg(prefix().join("bin/ginrs-run"));
    command.args(["--check=race", "-n", &ranks.to_string()]).arg(program).current_dir(root());
    command
}

/// Found in every run, with ranks as threads and as processes, each with one of `words`, at both lines; the twin says nothing.
#[track_caller]
fn is_found(case: &str, words: &[&str]) {
    let apart = |arguments: &[&str]| job(2, checked(SOURCE)).args(arguments).output().unwrap();
    for (ranks, output) in [("threads", run(checked(SOURCE), &[case])), ("processes", apart(&[case]))] {
        let said = text(&output);
        assert_eq!(output.status.code(), Some(66), "{case}, {ranks}: {said}");
        assert!(words.iter().any(|words| said.contains(words)), "{case}, {ranks}: none of {words:?} in {said}");
        for mark in ["put", "race"] {
            assert!(said.contains(&line_of(mark, case)), "{case}, {ranks}: no {} in {said}", line_of(mark, case));
        }
        assert!(said.contains("race: 1 found") && said.matches(": race 1:").count() == 1, "{case}, {ranks}: {said}");
    }
    for _ in 0..3 {
        for twin in [run(checked(SOURCE), &[case, "mended"]), apart(&[case, "mended"])] {
            assert!(twin.status.success() && !text(&twin).contains("race"), "{case} mended: {}\n{}", twin.status, text(&twin));
        }
    }
}

/// A build that names the folder of NVIDIA's headers: ours stand in for them, unless the program includes them by path.
#[test]
fn programs_that_are_built_with_nvidias_headers_are_checked_with_ours() {
    let Some((nccl, _)) = abi_tests::nvidia_headers() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("race");
    let compile = |source: &str| {
        let mut compiler = Command::new(prefix().join("bin/ginrs-cc"));
        compiler.args(["--check=race", "-O1", "-w", "-std=c++17", "--extended-lambda", "-I"]).arg(&nccl);
        compiler.arg("-o").arg(&program).arg(source).current_dir(root()).output().unwrap()
    };
    let compiled = compile(SOURCE);
    assert!(
        compiled.status.success() && text(&compiled).contains("they stand in for those of another NCCL"),
        "{}",
        text(&compiled)
    );
    let said = text(&run(program.clone(), &["signal"]));
    assert!(said.contains("race: 1 found") && said.contains(&line_of("race", "signal")), "{said}");

    let by_path = folder.path().join("by_path.cu");
    std::fs::write(&by_path, format!("#include \"{}/nccl_device.h\"\n", nccl.display())).unwrap();
    let refused = compile(by_path.to_str().unwrap());
    assert!(!refused.status.success() && text(&refused).contains("of another NCCL by path"), "{}", text(&refused));
}

#[test]
fn the_source_of_a_put_changes_before_it_is_read() {
    is_found("flush", &["missing: flush (or wait for the put's counter"]);
    is_found("counter", &["missing: flush (or wait for the put's counter"]);
    is_found("again", &["missing: flush (or wait for the put's counter"]);
    is_found("none", &["missing: flush (or wait for the put's counter"]);
    is_found("other", &["missing: flush (or wait for the put's counter"]);
}

#[test]
fn a_put_by_one_thread_of_what_others_write() {
    is_found("sync", &["missing: __syncthreads(), or a put by the whole group"]);
}

/// Which of the two comes first is the machine's: where nobody had written before, both are told alike.
#[test]
fn the_target_of_a_put_is_read_too_early_or_overwritten_too_early() {
    let overwritten = "missing: back-pressure: the reader ";
    is_found("signal", &["missing: wait for the put's signal before reading"]);
    is_found("early", &["missing: wait for the put's signal before reading"]);
    is_found("peek", &["missing: wait for the put's signal before reading"]);
    is_found("poll", &["missing: wait for the put's signal before reading"]);
    is_found("pressure", &[overwritten]);
    is_found("forward", &["missing: wait for the put's signal before its data are put on"]);
}

/// Which of a reset and the next raise comes first is the machine's.
#[test]
fn a_signal_or_counter_is_reset_while_raised() {
    is_found("reset", &["a signal is reset while it is raised"]);
    is_found("recount", &["a counter is reset while it is raised"]);
}

/// Here both add; NCCL may do each in its own way, so gin.h forbids it.
#[test]
fn a_signal_is_raised_by_inc_and_by_add() {
    is_found("mixed", &["race 1: a signal is raised by SignalInc and by SignalAdd, with no reset between the two"]);
}

#[test]
fn an_order_of_too_narrow_a_scope() {
    is_found("fence", &["missing: a wider scope: __threadfence()"]);
    is_found("scope", &["missing: a wider scope: __threadfence()"]);
}

/// The wait or barrier is named, too, or the atomic.
#[test]
fn an_order_that_is_too_weak() {
    for (case, missing) in [
        ("released", "missing: memory_order_acq_rel in LSA barrier 0 at "),
        ("waited", "missing: memory_order_acquire in a call for signal 0 at "),
        ("relaxed", "missing: memory_order_acq_rel in GIN barrier 0 at "),
    ] {
        is_found(case, &[&format!("{missing}{}: ", line_of("wait", case))]);
    }
    let atomic = format!("the atomic at {} is relaxed (as CUDA's atomic functions are)", line_of("wait", "last"));
    is_found(
        "last",
        &[&format!(
            "missing: a fence between the write and the atomic that tells of it: __threadfence(), for another rank __threadfence_system(); {atomic}"
        )],
    );
}

/// Each rank hears of three others there, twice each.
#[test]
fn a_weak_barrier_of_many_ranks_is_named_whoever_comes_last() {
    const CROWD: &str = "abi-tests/races/crowd.cu";
    let line_of = |mark: &str| format!("{CROWD}:{}", programs::line_of(CROWD, mark));
    let missing = format!("missing: memory_order_acq_rel in LSA barrier 0 at {}: ", line_of("wait"));
    for _ in 0..4 {
        for mut command in [ranks_as_threads(CROWD), job(4, checked(CROWD))] {
            let said = text(&command.output().unwrap());
            assert!(said.contains(&missing) && said.contains(&line_of("race")), "no {missing:?} in {said}");
        }
    }
}

#[test]
fn threads_blocks_and_ranks_without_order() {
    is_found("lsa", &[&format!("missing: memory_order_acq_rel in LSA barrier 0 at {}: ", line_of("wait", "lsa"))]);
    is_found("pointer", &["missing: an LSA barrier with memory_order_acq_rel"]);
    is_found("element", &["where: window 1 of rank 1 (65536 bytes), offset 0x"]);
    is_found("shared", &["missing: __syncthreads() between the two"]);
    is_found("warp", &["missing: __syncwarp()"]);
    is_found("global", &["missing: a grid sync, or an atomic flag"]);
    let said = text(&run(checked(SOURCE), &["global"]));
    assert!(said.contains("where: byte 0x0 of the 4096 bytes of cudaMalloc\n"), "{said}");
}

/// A host thread touches memory that only devices have; a kernel touches a host thread's stack.
#[test]
fn pointers_of_the_wrong_side() {
    const SIDES: &str = "abi-tests/races/sides.cu";
    let line_of = |mark: &str| {
        let source = std::fs::read_to_string(root().join(SIDES)).unwrap();
        let mark = format!("// use of: {mark}");
        format!("{SIDES}:{}", source.lines().position(|line| line.ends_with(&mark)).unwrap() + 1)
    };
    let device = "a device pointer is used on the host at";
    for (case, mark, what, memory) in [
        ("malloc", "sum", device, "is byte 0 of the 1024 bytes of cudaMalloc, read there by a host thread"),
        ("async", "sum", device, "is byte 0 of the 1024 bytes of cudaMalloc, read there by a host thread"),
        ("nccl", "sum", device, "bytes of ncclMemAlloc, read there by a host thread"),
        ("thread", "thread", device, "is byte 12 of the 1024 bytes of cudaMalloc, written there by a host thread"),
        (
            "stack",
            "stack",
            "a host pointer is used in a kernel at",
            "is on the stack of a host thread, read there by device 0, block (0,0,0)",
        ),
        (
            "behind",
            "behind",
            "memory behind the end is written at",
            "is byte 0x400 of the 1024 bytes of cudaMalloc, by device 0, block (0,0,0) thread (255,0,0)",
        ),
        (
            "shared",
            "shared",
            "shared memory that the launch does not have is written at",
            "byte 512 of 512 bytes of dynamic shared memory, by device 0, block (0,0,0)",
        ),
    ] {
        let output = run(checked(SIDES), &[case]);
        let said = text(&output);
        let begin = format!("race 1: {what} {}: ", line_of(mark));
        assert_eq!(output.status.code(), Some(66), "{case}: {said}");
        assert!(said.contains(&begin) && said.contains(memory) && said.contains("race: 1 found"), "{case}: {begin}\n{said}");
        let twin = run(checked(SIDES), &[case, "mended"]);
        assert!(twin.status.success() && !text(&twin).contains("race"), "{case} mended: {}\n{}", twin.status, text(&twin));
    }
}

/// A window ends where it was registered to, though its memory is mapped by granules: told of the neighbour's, by ranks as threads and as processes.
#[test]
fn stores_behind_a_window_are_told() {
    const BEHIND: &str = "abi-tests/races/behind.cu";
    let begin = format!("memory behind the end is written at {BEHIND}:{}: ", programs::line_of(BEHIND, "behind"));
    for (is_too_far, threads) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut command = if threads { ranks_as_threads(BEHIND) } else { job(4, checked(BEHIND)) };
        let said = text(&command.envs(is_too_far.then_some(("TOO_FAR", "1"))).output().unwrap());
        assert_eq!(said.contains(&begin) && said.contains("(1024 bytes), offset 0x400, by rank "), is_too_far, "{begin}\n{said}");
        assert_eq!(said.contains("race: "), is_too_far, "{said}");
    }
}

/// Memory that was freed is nobody's, and a kernel or copy that touches it is told of both.
#[test]
fn device_memory_is_touched_when_it_was_freed() {
    const FREED: &str = "abi-tests/races/freed.cu";
    let line_of = |mark: &str| format!("{FREED}:{}", programs::line_of(FREED, mark));
    for (case, bytes) in [("small", 2800), ("large", 4 << 20)] {
        let output = run(checked(FREED), &[case]);
        let said = text(&output);
        assert!(!output.status.success() && said.contains("ginrs-cpu: illegal address 0x"), "{case}: {said}");
        for words in [
            format!("byte 0 of {bytes} bytes of cudaMalloc that were freed"),
            format!("touched at {}", line_of("touched")),
            format!("freed at {}", line_of("freed")),
        ] {
            assert!(said.contains(&words), "{case}: no {words:?} in {said}");
        }
    }
    let output = run(checked(FREED), &["copy"]);
    let said = text(&output);
    let words = format!("is byte 0 of 2800 bytes of cudaMalloc that were freed at {}", line_of("freed"));
    assert!(
        output.status.code() == Some(2) && said.contains(&words) && said.contains("cudaMemcpy(memory"),
        "no {words:?} in {said}"
    );
    for case in ["small", "large", "copy"] {
        let twin = run(checked(FREED), &[case, "mended"]);
        assert!(twin.status.success() && text(&twin).contains("ok"), "{case} mended: {}\n{}", twin.status, text(&twin));
    }
}

/// Copies and fills of the CUDA API, by the host's line.
#[test]
fn copies_race_too() {
    const COPIES: &str = "abi-tests/races/copies.cu";
    let line_of = |mark: &str| format!("{COPIES}:{}", programs::line_of(COPIES, mark));
    for (case, with, by, missing) in [
        ("source", "put", "write", "missing: flush (or wait for the put's counter"),
        ("target", "put", "read", "missing: wait for the put's signal before reading"),
        ("streams", "write", "read", "missing: the same stream, an event, or a synchronisation by the host"),
    ] {
        let apart = |arguments: &[&str]| job(2, checked(COPIES)).args(arguments).output().unwrap();
        let function = if case == "source" { "cudaMemset" } else { "cudaMemcpy" };
        let copy = format!("{by} at {} by {function} of ", line_of(&format!("copy of: {case}")));
        for output in [run(checked(COPIES), &[case]), apart(&[case])] {
            let said = text(&output);
            assert_eq!(output.status.code(), Some(66), "{case}: {said}");
            assert!([&copy, missing, &line_of(with)].iter().all(|words| said.contains(*words)), "{case}: no {copy} in {said}");
            assert!(said.contains("race: 1 found"), "{case}: {said}");
        }
        for twin in [run(checked(COPIES), &[case, "mended"]), apart(&[case, "mended"])] {
            assert!(twin.status.success() && !text(&twin).contains("race"), "{case} mended: {}\n{}", twin.status, text(&twin));
        }
    }
}

/// Collectives and messages, by the host's line.
#[test]
fn collectives_race_too() {
    const COLLECTIVES: &str = "abi-tests/races/collectives.cu";
    let line_of = |mark: &str| format!("{COLLECTIVES}:{}", programs::line_of(COLLECTIVES, mark));
    for (case, call, with, how) in [
        ("send", "call of: send, recv, source", "write of: send, message", "read at {} by ncclAllReduce of rank 0"),
        ("recv", "call of: send, recv, source", "read of: recv, root", "write at {} by ncclAllReduce of rank 0"),
        ("root", "call of: root", "read of: recv, root", "write at {} by ncclBroadcast of rank 0"),
        ("message", "call of: message", "write of: send, message", "read at {} by ncclSend and ncclRecv of rank 0"),
        ("source", "call of: send, recv, source", "put of: source", "write at {} by ncclAllReduce of rank 0"),
    ] {
        let apart = |arguments: &[&str]| job(2, checked(COLLECTIVES)).args(arguments).output().unwrap();
        let told = how.replace("{}", &line_of(call));
        for output in [run(checked(COLLECTIVES), &[case]), apart(&[case])] {
            let said = text(&output);
            assert_eq!(output.status.code(), Some(66), "{case}: {said}");
            assert!(said.contains(&told) && said.contains(&line_of(with)), "{case}: no {told} in {said}");
            assert!(
                said.contains("missing: the same stream, an event, or a synch") && said.contains("race: 1 found"),
                "{case}: {said}"
            );
        }
        for twin in [run(checked(COLLECTIVES), &[case, "mended"]), apart(&[case, "mended"])] {
            assert!(twin.status.success() && !text(&twin).contains("race"), "{case} mended: {}\n{}", twin.status, text(&twin));
        }
    }
    for lawful in [run(checked(COLLECTIVES), &["order"]), job(2, checked(COLLECTIVES)).arg("order").output().unwrap()] {
        assert!(lawful.status.success() && !text(&lawful).contains("race"), "{}\n{}", lawful.status, text(&lawful));
    }
}

/// In races and hangs of a communicator that was split, ranks have the numbers that the job knows.
#[test]
fn ranks_of_a_part_are_named_as_the_job_knows_them() {
    const FAMILY: &str = "abi-tests/races/family.cu";
    for mut command in [ranks_as_threads(FAMILY), job(4, checked(FAMILY))] {
        let said = text(&command.output().unwrap());
        for words in [
            " (8 bytes, rank 1 to rank 3; posted by rank 1, block",
            "races/family.cu:17 by rank 3, block",
            "of rank 3 (4096 bytes), offset 0x0",
        ] {
            assert!(said.contains(words), "no {words:?} in {said}");
        }
        let hang = text(&command.env("HANG", "1").output().unwrap());
        let line = hang.lines().find(|line| line.contains("GINRS-E140")).unwrap_or_else(|| panic!("{hang}"));
        assert!(
            line.contains("rank 1 block 0 waits for signal 0 >= 2 (has 1)")
                && line.contains(", made of ranks 1, 3 of the job | "),
            "{hang}"
        );
    }
}

fn ranks_as_threads(source: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240"]).arg(checked(source)).args(["--threads", "4"]).current_dir(root());
    command
}

#[test]
fn programs_that_are_right_are_told_nothing() {
    let examples =
        std::fs::read_dir(root().join("examples-c")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let examples = examples.filter(|name| name.starts_with('0')).map(|name| format!("examples-c/{name}/main.cu"));
    let programs = ["api", "moe", "split"].map(|name| format!("abi-tests/programs/{name}.cu"));
    for source in examples.chain(programs) {
        for output in [run(checked(&source), &["--threads", "4"]), job(4, checked(&source)).output().unwrap()] {
            assert!(
                output.status.success() && !text(&output).contains(": race"),
                "{source}: {}\n{}",
                output.status,
                text(&output)
            );
        }
    }
}

/// `__constant__` variables are references that the compiler makes where they are first used; nodes and networks as they may be.
#[test]
fn processes_that_are_right_are_told_nothing() {
    for (source, ranks, variables) in [
        ("abi-tests/users/fp8_exchange.cu", 4, &[][..]),
        ("abi-tests/programs/torture.cu", 3, &[("GINRS_CHAOS", "3")]),
        ("abi-tests/programs/moe.cu", 4, &[("GINRS_FAKE_NODES", "0,0,1,1")]),
        ("abi-tests/programs/moe.cu", 4, &[("NCCL_GIN_BACKEND", "direct")]),
        ("abi-tests/programs/group.cu", 4, &[]),
        ("abi-tests/programs/multimem.cu", 4, &[]),
    ] {
        let output = job(ranks, checked(source)).envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success() && !text(&output).contains(": race"), "{source}: {}\n{}", output.status, text(&output));
    }
}

/// By volatile words, by host code, by an allocator.
#[test]
fn order_that_is_none_of_the_api_counts() {
    for _ in 0..3 {
        let output = run(checked("abi-tests/races/clean.cu"), &[]);
        assert!(output.status.success() && !text(&output).contains("race"), "{}\n{}", output.status, text(&output));
        for weak in
            [run(checked("abi-tests/races/orders.cu"), &[]), job(2, checked("abi-tests/races/orders.cu")).output().unwrap()]
        {
            assert!(weak.status.success() && !text(&weak).contains("race"), "{}\n{}", weak.status, text(&weak));
        }
    }
}

/// A kernel that fails, an exit while a race is told, a rank that fails before another one has raced, an abort and a killed rank while kernels run: what was found is told, and nobody waits for the detector.
#[test]
fn ends_that_are_none_of_the_usual() {
    const ENDS: &str = "abi-tests/races/ends.cu";
    let trap = run(checked(ENDS), &["trap"]);
    let said = text(&trap);
    assert_eq!(trap.status.code(), Some(66), "{said}");
    let line = format!("{ENDS}:{}", programs::line_of(ENDS, "race of: trap"));
    assert!(said.contains("the kernel has failed: 1") && said.contains(&line) && said.contains("race: 1 found"), "{said}");
    // The lines are slow to find.
    let folder = tempfile::tempdir().unwrap();
    let (slow, path) = (folder.path().join("addr2line"), std::env::var("PATH").unwrap());
    std::fs::write(&slow, format!("#!/bin/sh\nsleep 1\nPATH='{path}' exec addr2line \"$@\"\n")).unwrap();
    std::fs::set_permissions(&slow, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut exit = Command::new("timeout");
    exit.args(["-s", "KILL", "240"]).arg(checked(ENDS)).arg("exit").current_dir(root());
    let exit = exit.env("PATH", format!("{}:{path}", folder.path().display())).output().unwrap();
    let said = text(&exit);
    assert!(exit.status.code() == Some(66) && said.contains(&line) && said.contains("race: 1 found"), "{}: {said}", exit.status);
    let left = job(2, checked(ENDS)).arg("left").output().unwrap();
    let said = text(&left);
    assert!(left.status.code() == Some(66) && said.contains(&line) && said.contains("(pid"), "{}: {said}", left.status);
    let abort = job(2, checked(ENDS)).arg("abort").output().unwrap();
    let said = text(&abort);
    assert!(abort.status.success() && said.matches(": ended").count() == 2 && !said.contains(": race"), "{said}");
    let killed = job(2, checked(ENDS)).args(["kill"]).output().unwrap();
    let said = text(&killed);
    assert!(killed.status.code() == Some(128 + 9) && !said.contains(": race"), "{}: {said}", killed.status);
}

/// A library is unloaded, and another one comes to its addresses: what it has is its own, lines too.
#[test]
fn libraries_that_come_and_go() {
    const PLUGIN: &str = "abi-tests/races/plugin.cu";
    let folder = tempfile::tempdir().unwrap();
    let library = |races: u8| {
        let out = folder.path().join(format!("plugin{races}.so"));
        let mut compile = Command::new(prefix().join("bin/ginrs-cc"));
        compile.args(["--check=race", "-O1", "-shared", "-Xcompiler", "-fPIC", &format!("-DRACES={races}"), "-o"]);
        abi_tests::run(compile.arg(&out).arg(PLUGIN).current_dir(root()));
        out.into_os_string().into_string().unwrap()
    };
    let (right, racy) = (library(0), library(1));
    let line = format!("{PLUGIN}:{}", programs::line_of(PLUGIN, "race of: plugin"));
    for (first, second, races) in [(&right, &racy, true), (&racy, &right, true), (&right, &right, false)] {
        let output = run(checked("abi-tests/races/ends.cu"), &["plugin", first, second]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(if races { 66 } else { 0 }), "{said}");
        assert_eq!(said.contains(&line) && said.contains("race: 1 found"), races, "{said}");
    }
}

/// A program of two files of which one was compiled without: what that one does is not seen.
#[test]
fn a_mixture_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let object = |name: &str, options: &[&str], text: &str| {
        let (source, object) = (folder.path().join(format!("{name}.cu")), folder.path().join(format!("{name}.o")));
        std::fs::write(&source, text).unwrap();
        abi_tests::run(Command::new(prefix().join("bin/ginrs-cc")).args(options).arg("-c").arg("-o").arg(&object).arg(source));
        object
    };
    let one = object("one", &["--check=race"], "__global__ void k(int* p) { p[threadIdx.x / 32] = threadIdx.x; }");
    let main = "#include <stdio.h>\n__global__ void k(int*); int main() { puts(\"ran\"); }";
    for (name, options, is_told) in [("plain", &[][..], true), ("checked", &["--check=race"][..], false)] {
        let program = folder.path().join(name).with_extension("program");
        let two = object(name, options, main);
        abi_tests::run(Command::new(prefix().join("bin/ginrs-cc")).args(["-rdc=true", "-o"]).arg(&program).args([&one, &two]));
        let output = run(program, &[]);
        let said = text(&output);
        let line = "race: nothing is checked: a .cu file of this process was compiled without --check=race";
        assert!(output.status.success() && said.contains("ran") && said.contains(line) == is_told, "{name}: {said}");
    }
}

#[test]
fn what_cannot_be_checked_is_said() {
    let ginrs_run = |arguments: &[&str], program: PathBuf| {
        Command::new(prefix().join("bin/ginrs-run")).args(arguments).arg(program).args(["flush"]).output().unwrap()
    };
    let plain = ginrs_run(&["--check=race"], compiled(SOURCE));
    assert!(!plain.status.success() && text(&plain).contains("compile it with: ginrs-cc --check=race"), "{}", text(&plain));
    let hosts = ginrs_run(&["--check=race", "-n", "2", "--hosts", "localhost:2"], checked(SOURCE));
    assert!(!hosts.status.success() && text(&hosts).contains("sees the ranks of one machine"), "{}", text(&hosts));
    let one = ginrs_run(&["--check=race"], checked(SOURCE));
    assert_eq!(one.status.code(), Some(66), "{}", text(&one));
    // Other machines all the same, and a rank that is not watched: nothing is checked, and that is a line.
    let ring = |program: &str| job(2, checked(program));
    let far = ring("examples-c/02-ring/main.cu").env("GINRS_FAKE_MACHINES", "0,1").output().unwrap();
    let line = "race: nothing is checked: a communicator has ranks on other machines";
    assert!(far.status.success() && text(&far).contains(line), "{}", text(&far));
    let script = r#"[ $RANK = 0 ] && exec "$0"; exec "$1""#;
    let mut mixed = job(2, "sh".into());
    mixed.args(["-c", script]).args([checked("examples-c/02-ring/main.cu"), compiled("examples-c/02-ring/main.cu")]);
    let mixed = mixed.output().unwrap();
    let line = "race: nothing is checked: a communicator with ranks in other processes was made";
    assert!(mixed.status.success() && text(&mixed).contains(line), "{}", text(&mixed));
}
