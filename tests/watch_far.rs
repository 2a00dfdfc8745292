//! Ranks on several machines, as processes of one host that say so: what the others hear when one dies, aborts, leaves, stops or falls
//! silent, without a page or a pidfd of it.

mod watched;

use std::time::{Duration, Instant};
use watched::hang_limit::{HANG_LIMIT, hang_deadline};
use watched::{Process, start};

/// Two machines of two ranks.
const PAIRS: (&str, &str) = ("GINRS_TEST_MACHINES", "0,0,1,1");
/// Three.
const THREE_PAIRS: (&str, &str) = ("GINRS_TEST_MACHINES", "0,0,1,1,2,2");
/// The last rank alone on its machine.
const ALONE: (&str, &str) = ("GINRS_TEST_MACHINES", "0,0,1");

fn ready(role: &str, n: u32, more: &[(&str, &str)]) -> Vec<Process> {
    let (_, all) = start(role, n, more);
    all.iter().for_each(|process| assert_eq!(process.line(), "ready"));
    all
}

/// Whoever says something within `time`, other than warnings.
fn heard(all: &[Process], time: Duration) -> Vec<String> {
    let end = Instant::now() + time;
    let mut said = Vec::new();
    for process in all {
        while let Ok(line) = process.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if !line.starts_with("(raw)") {
                said.push(line);
            }
        }
    }
    said
}

/// Waits for a warning with all of `words`.
fn warned(process: &Process, words: &[&str]) -> String {
    let until = hang_deadline();
    let mut passed = Vec::new();
    while let Ok(line) = process.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
        if words.iter().all(|word| line.contains(word)) {
            return line;
        }
        passed.push(line);
    }
    panic!("process {}: no line with {words:?}; it said {passed:#?}", process.child.id());
}

#[test]
fn a_killed_rank_is_named_with_its_signal_to_the_machines_that_cannot_see_it() {
    for machines in [PAIRS, THREE_PAIRS] {
        let last = machines.1.split(',').count() - 1;
        let all = ready("cause", last as u32 + 1, &[machines]);
        let pid = all[last].child.id();
        let start = Instant::now();
        all[last].signal(libc::SIGKILL);
        for (rank, process) in all[..last].iter().enumerate() {
            let told = process.line();
            let after = start.elapsed();
            assert!(told.starts_with(&format!("E040 by {last} RemoteError: rank {last} (pid {pid} on ")), "rank {rank}: {told}");
            assert!(
                told.contains("died, killed by SIGKILL") && told.contains("it was in \"test waiting\""),
                "rank {rank}: {told}"
            );
            println!("rank {rank} of {} knew after {after:?}", last + 1);
        }
    }
}

/// How soon, is counted in looks, one every 20 ms and a few for what happens meanwhile: a busy machine makes them fewer.
#[test]
fn a_machine_whose_last_process_dies_is_known_by_its_links_and_nothing_else_is_waited_for() {
    let all = ready("cause", 3, &[ALONE, ("NCCL_DEBUG", "INFO")]);
    let start = Instant::now();
    all[2].signal(libc::SIGKILL);
    let mut looks: Vec<u32> = Vec::new();
    for rank in [0, 1] {
        let told = loop {
            let line = all[rank].lines.recv_timeout(HANG_LIMIT).unwrap();
            match line.split_once("has closed its links | looks ") {
                Some((_, number)) => looks.push(number.parse().unwrap()),
                None if !line.starts_with("(raw)") => break line,
                None => {}
            }
        };
        println!("rank {rank} knew after {:?}", start.elapsed());
        assert!(told.starts_with("E040 by 2 RemoteError: rank 2 (pid"), "rank {rank}: {told}");
    }
    assert!(!looks.is_empty() && looks.iter().all(|&looks| looks < 10), "{looks:?}");
}

#[test]
fn an_abort_reaches_other_machines_with_its_cause() {
    let mut all = ready("cause", 3, &[("GINRS_TEST_MACHINES", "0,1,2"), ("GINRS_TEST_ABORTS", "1")]);
    drop(all[0].stdin.take());
    assert_eq!(all[0].line(), "E023 by -1 SystemError: no memory for windows");
    for process in &all[1..] {
        assert_eq!(process.line(), "E023 by 0 RemoteError: rank 0 failed: no memory for windows");
    }
}

/// The program of the rank that fails ends as soon as it knows: its death is not what the others hear, on its machine or elsewhere.
#[test]
fn a_cause_is_ahead_of_the_end_of_a_program_that_ends_for_it() {
    for machines in ["0,0,0", "0,1,2", "0,0,1"] {
        let mut all = ready("cause", 3, &[("GINRS_TEST_MACHINES", machines), ("GINRS_TEST_ABORTS", "and ends")]);
        drop(all[0].stdin.take());
        for process in &all[1..] {
            assert_eq!(process.line(), "E023 by 0 RemoteError: rank 0 failed: no memory for windows", "{machines}");
        }
    }
}

#[test]
fn a_rank_that_leaves_its_machine_raises_nothing_elsewhere() {
    for machines in ["0,0,1", "0,1,1", "0,1,2"] {
        let (_id, mut all) = start("leave", 3, &[("GINRS_TEST_MACHINES", machines)]);
        all[..2].iter().for_each(|process| assert_eq!(process.line(), "calm", "{machines}"));
        all.iter_mut().for_each(|process| drop(process.stdin.take()));
        for process in &all[..2] {
            let told = process.line();
            assert!(told.starts_with("E042 by 2 RemoteError: rank 2 (pid") && told.contains("has left"), "{machines}: {told}");
            assert_eq!(process.line(), "42");
        }
    }
}

#[test]
fn a_pause_of_two_thirds_of_the_deadline_kills_nobody_and_a_machine_that_stays_silent_is_dead_and_named() {
    // In place of 2 s of 3: a busy machine has four seconds more for the first heartbeat after it.
    loop {
        let all = ready("cause", 3, &[ALONE, ("GINRS_HOST_DEADLINE", "12")]);
        let begun = Instant::now();
        all[2].signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_secs(8));
        all[2].signal(libc::SIGCONT);
        // It may make the pause a longer one, too.
        if begun.elapsed() < Duration::from_millis(8500) {
            assert_eq!(heard(&all, Duration::from_millis(1000)), [""; 0]);
            break;
        }
    }
    let all = ready("cause", 3, &[ALONE]);
    let (pid, start) = (all[2].child.id(), Instant::now());
    all[2].signal(libc::SIGSTOP);
    for rank in [0, 1] {
        let told = all[rank].line();
        assert!(told.starts_with(&format!("E110 by 2 RemoteError: rank 2 (pid {pid} on ")), "rank {rank}: {told}");
        assert!(told.contains("(rank 2) for 3") && told.contains("GINRS_HOST_DEADLINE is 3 s"), "rank {rank}: {told}");
        println!("rank {rank} knew after {:?}", start.elapsed());
    }
    // It hears what was said of it meanwhile.
    all[2].signal(libc::SIGCONT);
    assert!(all[2].line().starts_with("E110 by "));
}

#[test]
fn a_stopped_process_of_a_living_machine_is_not_dead_and_a_wait_names_it() {
    let settings =
        [("GINRS_TEST_MACHINES", "0,1,1"), ("GINRS_HOST_DEADLINE", "6"), ("GINRS_WAIT_WARN", "1"), ("NCCL_DEBUG", "WARN")];
    let all = ready("late", 3, &settings);
    // It spoke for its machine.
    all[1].signal(libc::SIGSTOP);
    warned(&all[0], &["GINRS-W020 rank 1 (pid", "its process is stopped, and others wait"]);
    warned(&all[0], &["GINRS-W017", "rank 1 (pid", "does not answer, its process is stopped"]);
    // Who is beside it sees it and hears of it, and says so once.
    warned(&all[2], &["GINRS-W020 rank 1 (pid"]);
    let end = Instant::now() + Duration::from_secs(2);
    while let Ok(line) = all[2].lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
        assert!(!line.contains("GINRS-W020"), "{line}");
    }
    // For longer than GINRS_HOST_DEADLINE.
    assert_eq!(heard(&all, Duration::from_secs(7)), [""; 0]);
    all[1].signal(libc::SIGCONT);
    warned(&all[0], &["GINRS-W021 rank 1 (pid"]);
}

#[test]
fn a_wait_names_a_silent_machine() {
    let all = ready("late", 3, &[ALONE, ("GINRS_HOST_DEADLINE", "60"), ("GINRS_WAIT_WARN", "1"), ("NCCL_DEBUG", "WARN")]);
    let begun = Instant::now();
    all[2].signal(libc::SIGSTOP);
    warned(&all[0], &["GINRS-W110 rank 2 (pid", "(rank 2) is silent for", "counts as dead after 60 s"]);
    warned(&all[0], &["GINRS-W017", "rank 2 (pid", "does not answer, its host", "is silent for"]);
    let first = begun.elapsed();
    all[2].signal(libc::SIGCONT);
    warned(&all[0], &["GINRS-W111 rank 2 (pid", "was silent and goes on"]);
    // As on a network that loses packets: not told again for each time, but when it gets worse.
    let mut longest = Duration::ZERO;
    for _ in 0..3 {
        let begun = Instant::now();
        all[2].signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(800));
        all[2].signal(libc::SIGCONT);
        longest = longest.max(begun.elapsed());
        std::thread::sleep(Duration::from_millis(700));
    }
    while let Ok(line) = all[0].lines.try_recv() {
        let is_told = line.contains("GINRS-W110") || line.contains("GINRS-W111");
        assert!(!is_told || longest > first, "{line}, and no pause was longer than {longest:?} of {first:?}");
    }
    all[2].signal(libc::SIGSTOP);
    warned(&all[0], &["GINRS-W110 rank 2 (pid"]);
    all[2].signal(libc::SIGCONT);
    warned(&all[0], &["GINRS-W111 rank 2 (pid", "only if it lasts twice as long"]);
}
