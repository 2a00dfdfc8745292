//! Ranks as processes: exchanges and descriptors between them, and what the others hear when one dies, aborts, leaves, stops,
//! is late or forks.

mod watched;

use ginrs::bootstrap::UniqueId;
use std::time::{Duration, Instant};
use watched::hang_limit::HANG_LIMIT;
use watched::{Process, start, start_rank};

#[test]
fn processes_and_threads_mix() {
    let id = UniqueId::create().unwrap();
    let here = [(0, "1"), (1, "3"), (4, "2"), (6, "1")];
    let all: Vec<_> =
        here.iter().map(|(first, count)| start_rank("gather", &id, *first, 7, &[("GINRS_TEST_HERE", count)])).collect();
    for process in &all {
        assert_eq!(process.line(), "done");
    }
}

#[test]
fn a_storm_of_signals_changes_nothing() {
    let id = UniqueId::create().unwrap();
    let storm = [("GINRS_TEST_HERE", "1"), ("GINRS_TEST_ALARMS", "1")];
    let all: Vec<_> = (0..3).map(|rank| start_rank("gather", &id, rank, 3, &storm)).collect();
    all.iter().for_each(|process| assert_eq!(process.line(), "done"));
}

#[test]
fn a_lack_of_descriptors_is_told_to_every_rank() {
    assert_eq!(Process::start("starved", &[]).line(), "true");
}

#[test]
fn ranks_meet_at_nccl_comm_id() {
    // An address of this test's own: at 127.0.0.1 any port may be somebody's.
    let [low, middle, high, _] = std::process::id().to_le_bytes();
    let point = format!("127.{}.{middle}.{low}:4077", 64 + high);
    let more = [("NCCL_COMM_ID", point.as_str()), ("GINRS_SECRET", "between us")];
    let (_unused, all) = start("point", 3, &more);
    all.iter().for_each(|process| assert_eq!(process.line(), "done"));
}

#[test]
fn a_killed_rank_is_named_to_all_others_at_once() {
    let (_id, all) = start("cause", 4, &[]);
    all.iter().for_each(|process| assert_eq!(process.line(), "ready"));
    let (start, pid) = (Instant::now(), all[1].child.id());
    all[1].signal(libc::SIGKILL);
    for rank in [0, 2, 3] {
        let told: &Process = &all[rank];
        let cause = told.line();
        assert!(
            cause.starts_with(&format!("E040 by 1 RemoteError: rank 1 (pid {pid}) died, killed by SIGKILL")),
            "rank {rank}: {cause}"
        );
        assert!(cause.contains("it was in \"test waiting\""), "rank {rank}: {cause}");
        let later = told.line();
        assert!(later.starts_with("E040 by 1"), "rank {rank}: {later}");
    }
    println!("three survivors knew after {:?}", start.elapsed());
    assert!(start.elapsed() < HANG_LIMIT, "{:?}", start.elapsed());
}

#[test]
fn an_abort_reaches_all_processes_with_its_cause() {
    let (_id, mut all) = start("cause", 3, &[("GINRS_TEST_ABORTS", "1")]);
    all.iter().for_each(|process| assert_eq!(process.line(), "ready"));
    drop(all[0].stdin.take());
    assert_eq!(all[0].line(), "E023 by -1 SystemError: no memory for windows");
    for process in &all[1..] {
        assert_eq!(process.line(), "E023 by 0 RemoteError: rank 0 failed: no memory for windows");
        assert_eq!(process.line(), "E023 by 0 RemoteError: rank 0 failed: no memory for windows");
    }
}

#[test]
fn a_rank_that_leaves_raises_nothing() {
    let (_id, mut all) = start("leave", 3, &[]);
    all[..2].iter().for_each(|process| assert_eq!(process.line(), "calm"));
    all.iter_mut().for_each(|process| drop(process.stdin.take()));
    for process in &all[..2] {
        let told = process.line();
        assert!(told.starts_with("E042 by 2 RemoteError: rank 2 (pid") && told.contains("has left"), "{told}");
        assert_eq!(process.line(), "42");
    }
}

#[test]
fn a_death_while_others_join_or_exchange_ends_their_waits() {
    // Rank 2 never starts; rank 0 dies in the rendezvous.
    let id = UniqueId::create().unwrap();
    let all: Vec<_> =
        (0..2).map(|rank| start_rank("join", &id, rank, 3, &[("GINRS_WAIT_WARN", "1"), ("NCCL_DEBUG", "INFO")])).collect();
    let warned = |process: &Process| loop {
        let line = process.lines.recv_timeout(HANG_LIMIT).unwrap();
        if line.contains("GINRS-W011") && line.contains("2/3 ranks joined, missing rank 2") {
            break;
        }
    };
    all.iter().for_each(warned);
    all[0].signal(libc::SIGKILL);
    let told = all[1].line();
    assert!(told.starts_with("E040 by 0 RemoteError: rank 0 (pid"), "{told}");

    // Rank 1 dies between the rendezvous and the watch: the closed links tell.
    let (_id, all) = start("join", 3, &[]);
    all.iter().for_each(|process| assert_eq!(process.line(), "ready"));
    std::thread::sleep(Duration::from_millis(100));
    all[1].signal(libc::SIGKILL);
    for process in [&all[0], &all[2]] {
        let told = process.line();
        assert!(told.starts_with("E040 by 1 RemoteError: rank 1 (pid"), "{told}");
    }
}

#[test]
fn a_missing_rank_is_named_at_the_deadline() {
    let id = UniqueId::create().unwrap();
    let start = Instant::now();
    let all: Vec<_> = [0, 2].into_iter().map(|rank| start_rank("join", &id, rank, 4, &[("GINRS_INIT_TIMEOUT", "2")])).collect();
    for process in &all {
        let told = process.line();
        assert!(
            told.starts_with("E011 by 1 RemoteError: not all ranks joined in time")
                && told.contains("2/4 ranks joined, missing rank 1, 3 after 2 s; those that came: 2 on "),
            "{told}"
        );
    }
    assert!(start.elapsed() < HANG_LIMIT);
}

#[test]
fn a_late_rank_is_named_with_what_it_does_instead() {
    let patience = [("GINRS_TIMEOUT", "3"), ("GINRS_WAIT_WARN", "1"), ("NCCL_DEBUG", "WARN")];
    let (_id, all) = start("late", 3, &patience);
    all.iter().for_each(|process| assert_eq!(process.line(), "ready"));
    for process in [&all[0], &all[2]] {
        let told = process.line();
        let pid = all[1].child.id();
        assert!(told.starts_with("E017 by 1 RemoteError") && told.contains("2/3 ranks arrived after "), "{told}");
        assert!(told.contains(&format!("; missing: rank 1 (pid {pid}) is in \"ncclDevCommDestroy\"")), "{told}");
    }

    let (_id, all) = start("late", 2, &patience);
    all.iter().for_each(|process| assert_eq!(process.line(), "ready"));
    all[1].signal(libc::SIGSTOP);
    let told = all[0].line();
    assert!(told.starts_with("E017 by 1") && told.contains("does not answer, its process is stopped"), "{told}");
}

#[test]
fn children_forked_after_the_id_was_made_can_use_it() {
    let process = Process::start("forker", &[]);
    for _ in 0..3 {
        assert_eq!(process.line(), "status 0");
    }
}
