//! Who waits for whom: programs that hang end with the line of the mistake, ranks as processes and as threads, and long waits of healthy
//! ones are told and never ended. `hangs/hang.cu` has a case for each.

#[path = "../../src/hang_limit.rs"]
mod hang_limit;

use abi_tests::programs::{self, compiled};
use abi_tests::{prefix, text};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const SOURCE: &str = "abi-tests/hangs/hang.cu";

/// `hang.cu:66`: where a case waits.
fn line_of(case: &str) -> String {
    format!("hang.cu:{}", programs::line_of(SOURCE, &format!("wait of: {case}")))
}

fn job(ranks: u32, arguments: &[&str]) -> Command {
    job_of(80, ranks, arguments)
}

/// One that ends after so many seconds.
fn job_of(seconds: u32, ranks: u32, arguments: &[&str]) -> Command {
    job_with(&compiled(SOURCE), seconds, ranks, arguments)
}

fn job_with(program: &Path, seconds: u32, ranks: u32, arguments: &[&str]) -> Command {
    let mut command = Command::new(prefix().join("bin/ginrs-run"));
    command.args(["-n", &ranks.to_string(), "--timeout", &seconds.to_string()]).arg(program).args(arguments);
    command
}

/// Runs a job that hangs until it has printed all of `words`, terminates it, and returns its output.
fn until_it_prints(mut job: Command, words: &[&str]) -> String {
    let (output, input) = std::io::pipe().unwrap();
    let mut child = job.stdout(input.try_clone().unwrap()).stderr(input).spawn().unwrap();
    // The command has its own ends of the pipe.
    drop(job);
    let mut said = String::new();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        said += &line;
        said.push('\n');
        if words.iter().all(|word| said.contains(word)) {
            break;
        }
    }
    assert!(Command::new("kill").arg(child.id().to_string()).status().is_ok());
    child.wait().unwrap();
    said
}

/// Longer than anything here takes to be printed.
const LONG: u32 = hang_limit::HANG_LIMIT.as_secs() as u32;

fn threads(ranks: u32, case: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240"]).arg(compiled(SOURCE)).args([case, "threads", &ranks.to_string()]);
    command
}

/// Threads of one process, one at a time, as a seed has it.
fn threads_of_seed(seed: u32, ranks: u32, case: &str) -> Command {
    let ranks = ranks.to_string();
    let mut command = Command::new(prefix().join("bin/ginrs-run"));
    command.args(["--seed", &seed.to_string(), "-n", "1", "--devices", &ranks, "--timeout", "80"]);
    command.arg(compiled(SOURCE)).args([case, "threads", &ranks]);
    command
}

/// The one line that says why the waits have ended.
#[track_caller]
fn cause_of(case: &str, command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = text(&output);
    // A barrier with a rank whose process has ended may be told by the rule for those, which needs no proof.
    let line = said.lines().find_map(|line| line.split_once("GINRS-E140 ").or_else(|| line.split_once("GINRS-E039 ")));
    let (_, line) = line.unwrap_or_else(|| panic!("{case}: {}\n{said}", output.status));
    assert!(output.status.success() && said.contains(": ended"), "{case}: {}\n{said}", output.status);
    line.split(" | fix: ").next().unwrap().to_owned()
}

/// Both as processes and as threads: the line has the wait with its place in the source, and each of `more`.
#[track_caller]
fn is_told(case: &str, ranks: u32, wait: &str, more: &[&str]) {
    for (how, command) in [("processes", job(ranks, &[case])), ("threads", threads(ranks, case))] {
        is_told_by(how, case, command, wait, more);
    }
}

#[track_caller]
fn is_told_by(how: &str, case: &str, mut command: Command, wait: &str, more: &[&str]) {
    let cause = cause_of(case, &mut command);
    let place = line_of(case);
    let parts: Vec<&str> = cause.split("; ").flat_map(|part| part.split(" | ")).collect();
    assert!(parts.iter().any(|part| part.contains(wait) && part.ends_with(&place)), "{case}, {how}, {place}: {cause}");
    let missing: Vec<_> = more.iter().filter(|text| !cause.contains(**text)).collect();
    assert!(missing.is_empty(), "{case}, {how}: no {missing:?} in {cause}");
}

#[test]
fn a_signal_that_is_counted_otherwise_than_it_is_sent() {
    let wait = "rank 1 block 0 waits for signal 0 >= 2 (has 1) of context 0";
    is_told("count", 2, wait, &["; rank 0 (pid ", ") has left after raising the awaited signal by 1"]);
    let said = until_it_prints(job_of(LONG, 2, &["count", "stays"]), &["GINRS-E140 "]);
    let cause = said.split_once("GINRS-E140 ").unwrap_or_else(|| panic!("{said}")).1;
    assert!(
        cause.contains("rank 1 block 0 waits for signal 0 >= 2 (has 1)")
            && cause.contains(") runs no kernel, and has raised the awaited signal by 1"),
        "{cause}"
    );
    let wait = "rank 0 block 0 waits for signal 2 >= 1 (has 0) of context 0";
    is_told("nested", 2, wait, &["; rank 1 (pid ", ") has left without raising the awaited signal"]);
    is_told("blocks", 2, "rank 0 block 3 waits for signal 3 >= 5 (has 0)", &["rank 1 block 3 waits", "which waits for rank 0"]);
}

#[test]
fn a_barrier_that_not_all_come_to() {
    is_told(
        "barrier",
        3,
        "rank 0 block 0 waits for GIN barrier 0 of context 0: rank 2 has not come",
        &["rank 2 (pid ", "rank 1 block 0"],
    );
    is_told("lsa", 3, "waits for LSA barrier 1: rank 2 has not come", &["rank 2 (pid ", ") has left"]);
    is_told("hybrid", 2, "rank 0 block 0 waits for LSA barrier 0 of a hybrid barrier: rank 1 has not come", &["rank 1 (pid "]);
    is_told("ll", 2, "rank 0 block 0", &["slot 1 of an LL all-to-all"]);
    let nodes = job(2, &["hybrid"]).env("GINRS_FAKE_NODES", "0,1").output().unwrap();
    assert!(
        text(&nodes).contains("waits for GIN barrier 0 of context 0 of a hybrid barrier: rank 1 has not come"),
        "{}",
        text(&nodes)
    );
}

#[test]
fn a_counter_that_nobody_raises_and_ranks_that_wait_for_each_other() {
    is_told("counter", 2, "rank 0 block 0 waits for counter 0 >= 1 (has 0) of context 0", &["rank 1 (pid "]);
    is_told("reset", 2, "rank 0 block 0 waits for signal 1 >= 1 (has 0)", &["rank 1 (pid "]);
    is_told(
        "cycle",
        2,
        "rank 1 block 0 waits for signal 3",
        &["rank 0 waits for rank 1, which waits for rank 0; rank 0 block 0 waits"],
    );
    is_told("cycle", 3, "rank 0 block 0 waits for signal 3", &["rank 1 block 0 waits", "rank 2 block 0 waits"]);
}

/// Of what was raised, and nobody waits for, the line tells; of words that others wait for it does not, nor where there is none.
#[test]
fn a_signal_or_counter_that_was_raised_elsewhere() {
    is_told(
        "elsewhere",
        2,
        "rank 1 block 0 waits for signal 1 >= 1 (has 0) of context 0",
        &["; signal 1 of context 1 holds 1 and signal 2 of context 0 holds 3, which nobody waits for; rank 0 (pid "],
    );
    is_told(
        "uncounted",
        2,
        "rank 0 block 0 waits for counter 0 >= 1 (has 0) of context 0",
        &["; counter 1 of context 0 holds 1, which nobody waits for"],
    );
    let cause = cause_of("count", &mut job(2, &["count"]));
    assert!(!cause.contains("holds"), "{cause}");
    // Words of direct contexts and of a card's lie otherwise.
    for backend in ["direct", "gdaki"] {
        let mut job = job_of(20, 2, &["elsewhere"]);
        let said = text(&job.env("NCCL_GIN_BACKEND", backend).env("GINRS_WAIT_WARN", "1").output().unwrap());
        assert!(said.contains("waits for signal 1 >= 1 (has 0) of context 0") && !said.contains(" holds "), "{backend}: {said}");
    }
}

/// What the ranks have counted of what they sent each other says where it has gone.
#[test]
fn a_signal_that_went_to_another_rank_or_was_reset() {
    is_told(
        "peer",
        3,
        "rank 1 block 0 waits for signal 1 >= 1 (has 0) of context 0",
        &["have left without raising the awaited signal; rank 0 has raised signal 1 of rank 2 by 1, which nobody waits for"],
    );
    let reset = "has left after raising the awaited signal by 3; the awaited signal was raised by 3 in all, and has been reset";
    is_told("taken", 2, "rank 1 block 0 waits for signal 0 >= 1 (has 0) of context 0", &[reset]);
    // In a ring all raise that signal of another rank than rank 1, and those wait for it, or read it.
    for ranks in [2, 4] {
        let cause = cause_of("ring", &mut job(ranks, &["ring"]));
        let wait = "rank 1 block 0 waits for signal 0 >= 3 (has 2) of context 0 at ";
        assert!(cause.contains(wait) && cause.contains(" has left after raising the awaited signal by 2"), "{cause}");
        assert!(!cause.contains("nobody waits") && !cause.contains("awaited)") && !cause.contains("has been reset"), "{cause}");
    }
    // Where nothing is proven, too.
    let said = text(&job_of(12, 2, &["sleep"]).env("HANG_SECONDS", "900").output().unwrap());
    let line = said.lines().find(|line| line.contains("GINRS-W019 rank 1")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("hang.cu:") && line.contains("; nobody has raised it | comm"), "{line}");
}

/// NVIDIA's headers say nothing of their waits; ginrs-cc has them do so.
#[test]
fn waits_of_nvidias_headers_are_told_as_those_of_ours() {
    let Some(program) = programs::compiled_with_theirs(SOURCE) else { return };
    let barrier = "rank 0 block 0 waits for GIN barrier 0 of context 0: rank 2 has not come";
    let hybrid = "rank 0 block 0 waits for LSA barrier 0 of a hybrid barrier: rank 1 has not come";
    let ring = "rank 1 block 0 waits for signal 0 >= 3 (has 2) of context 0";
    for (case, ranks, wait, more) in [
        (
            "count",
            2,
            "rank 1 block 0 waits for signal 0 >= 2 (has 1) of context 0",
            ") has left after raising the awaited signal by 1",
        ),
        ("barrier", 3, barrier, "rank 1 block 0"),
        ("lsa", 3, "waits for LSA barrier 1: rank 2 has not come", "rank 2 (pid "),
        ("hybrid", 2, hybrid, "rank 1 (pid "),
        ("ll", 2, "rank 0 block 0", "slot 1 of an LL all-to-all"),
        ("counter", 2, "rank 0 block 0 waits for counter 0 >= 1 (has 0) of context 0", "rank 1 (pid "),
        ("ring", 4, ring, "rank 0 (pid "),
    ] {
        let command = job_with(&program, 80, ranks, &[case]);
        is_told_by("NVIDIA's headers", case, command, wait, &[more]);
    }
    let cause = cause_of("ring", &mut job_with(&program, 80, 4, &["ring"]));
    assert!(!cause.contains("nobody waits"), "what was awaited once: {cause}");
    let flush = text(&job_with(&program, 20, 2, &["flush"]).env("GINRS_TRANSPORT", "messages").output().unwrap());
    assert!(
        flush.contains("GINRS-W019 rank 0 block 0 thread 1 waits for a flush: ") && flush.contains(&line_of("flush")),
        "{flush}"
    );
    let healthy = text(&job_with(&program, 80, 2, &["sleep"]).output().unwrap());
    assert!((0..2).all(|rank| healthy.contains(&format!("rank {rank}: ok"))) && !healthy.contains("GINRS-E"), "{healthy}");
}

/// The first rank sleeps, computes, waits for a lock that another thread gives back, or reads what one writes: each for 4 s.
#[test]
fn long_waits_of_healthy_programs_are_not_ended() {
    for case in ["sleep", "spin", "pause", "pipe"] {
        let ways = [("processes", job(2, &[case])), ("threads", threads(2, case)), ("a seed", threads_of_seed(2, 2, case))];
        // A spin takes long where each look at a clock is a choice.
        for (how, mut command) in ways.into_iter().filter(|(how, _)| (case, *how) != ("spin", "a seed")) {
            let output = command.output().unwrap();
            let said = text(&output);
            let all = (0..2).all(|rank| said.contains(&format!("rank {rank}: ok")));
            assert!(output.status.success() && all && !said.contains("GINRS-E"), "{case}, {how}: {}\n{said}", output.status);
        }
    }
}

/// With one thread at a time, and time that is virtual, hangs are proven as they are without.
#[test]
fn a_seed_changes_nothing_of_what_is_proven() {
    for (case, ranks, wait) in [
        ("count", 2, "rank 1 block 0 waits for signal 0 >= 2 (has 1) of context 0 at "),
        ("barrier", 3, "waits for GIN barrier 0 of context 0: rank 2 has not come at "),
        ("hybrid", 2, "waits for LSA barrier 0 of a hybrid barrier: rank 1 has not come at "),
    ] {
        let cause = cause_of(case, &mut threads_of_seed(2, ranks, case));
        let parts: Vec<&str> = cause.split("; ").flat_map(|part| part.split(" | ")).collect();
        let place = line_of(case);
        assert!(parts.iter().any(|part| part.contains(wait) && part.ends_with(&place)), "{case}: {cause}");
    }
}

/// Also where each block has its own core: rank 1 waits for 8 s, alone.
#[test]
fn a_wait_that_lasts_leaves_the_core_to_others() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$0\" sleep threads 2 && times"]).arg(compiled(SOURCE)).env("HANG_SECONDS", "8");
    let output = shell.output().unwrap();
    let said = text(&output);
    // `0m0.06s 0m0.09s`: user and system time of what the shell has run.
    let times = said.lines().rfind(|line| line.matches('m').count() == 2).unwrap_or_else(|| panic!("{said}"));
    let seconds = |word: &str| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    let used: f64 = times.split_whitespace().map(seconds).sum();
    assert!(used < 2.0, "{used} s of 8 s: {said}");
}

/// Threads of one process, two communicators: what waits on the one would have to go on by the other.
#[test]
fn communicators_that_hang_beside_each_other() {
    let output = threads(4, "cycle").arg("pairs").output().unwrap();
    let said = text(&output);
    let causes: Vec<&str> =
        said.lines().filter(|line| line.contains("GINRS-E140 ") && line.contains(&line_of("cycle"))).collect();
    let comms: std::collections::BTreeSet<_> =
        causes.iter().filter_map(|line| line.split("| comm ").nth(1)?.split(' ').next()).collect();
    assert!(output.status.success() && comms.len() == 2 && said.matches(": ended").count() == 4, "{said}");
}

/// What is under way may arrive: the peer may go on, and nothing is ended.
#[test]
fn a_flush_to_a_peer_that_stands_still_is_told() {
    // W020 is told behind looks of a process that was never late itself, which takes longer under load.
    let said = text(&job_of(40, 2, &["flush"]).env("GINRS_TRANSPORT", "messages").output().unwrap());
    let line = said
        .lines()
        .find(|line| line.contains("GINRS-W019 rank 0 block 0 thread 1 waits for a flush: "))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains(" operations of context 0 to rank 1 are not done") && line.contains(&line_of("flush")), "{line}");
    // Of rank 0: the other one goes on to be ended, and may see first that rank 0 has been.
    let ended = said.lines().any(|line| line.starts_with("[0] ") && line.contains("GINRS-E"));
    assert!(said.contains("W020 rank 1 (pid") && !ended, "{said}");
}

#[test]
fn a_long_wait_is_told_by_itself_and_to_whoever_asks() {
    let waits = "rank 1 block 0 waits for signal 0 >= 1 (has 0) of context 0 for";
    // A shell's background job has SIGQUIT ignored; the ranks of one answer all the same.
    let job = job_of(15, 2, &["sleep"]);
    let mut ignoring = Command::new("env");
    ignoring.arg("--ignore-signal=QUIT").arg(job.get_program()).args(job.get_args());
    let output = ignoring.env("HANG_SECONDS", "900").output().unwrap();
    assert_eq!(output.status.code(), Some(124), "{}", text(&output));
    assert_eq!(text(&output).matches(&format!("GINRS-W019 {waits}")).count(), 1, "{}", text(&output));

    // SIGQUIT itself ends the process, and tells of all ranks before.
    let threads = threads(2, "sleep");
    let mut command = Command::new("env");
    command.arg("--default-signal=QUIT").arg(threads.get_program()).args(threads.get_args());
    let mut process = command.env("HANG_SECONDS", "70").env("GINRS_WAIT_WARN", "1").stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
    let told = lines.find(|line| line.contains("GINRS-W018 ")).expect("a line tells of it");
    assert!(told.contains(waits) && told.contains(&line_of("sleep")), "{told}");
    let child = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", process.id())).unwrap();
    assert!(Command::new("kill").args(["-QUIT", child.trim()]).status().unwrap().success());
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line.contains("GINRS-W019 ") && line.contains(waits)), "{rest:?}");
    assert!(!process.wait().unwrap().success(), "it ends as SIGQUIT ends it");
}
