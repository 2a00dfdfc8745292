//! Ranks on machines that share nothing but a network, which are network namespaces: links that are cut, joined again and slow, and
//! processes that die there. Skipped where namespaces are not permitted.

mod netns;
mod watched;

use netns::Machines;
use std::time::{Duration, Instant};
use watched::Process;

/// One process for each rank; `places`: the machine of each.
fn start(machines: &Machines, role: &str, places: &[usize], more: &[(&str, &str)]) -> Vec<Process> {
    let program = std::env::current_exe().unwrap();
    let mut all: Vec<Process> = Vec::new();
    let mut id = String::new();
    for (rank, place) in places.iter().enumerate() {
        let mut environment = vec![
            ("GINRS_TEST_ID", id.clone()),
            ("GINRS_TEST_RANK", rank.to_string()),
            ("GINRS_TEST_N", places.len().to_string()),
        ];
        environment.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        all.push(Process::start_by(machines.command(*place, &program), role, &environment));
        if rank == 0 {
            id = all[0].line();
        }
    }
    all.iter().for_each(|process| assert_eq!(process.line(), "ready"));
    all
}

#[test]
fn a_link_that_is_cut_for_less_than_the_deadline_ends_nothing_and_loses_nothing() {
    let Some(machines) = Machines::new(2) else { return };
    let all = start(&machines, "steps", &[0, 1, 1], &[]);
    for time in [500, 1900] {
        std::thread::sleep(Duration::from_millis(700));
        machines.link(1, false);
        std::thread::sleep(Duration::from_millis(time));
        machines.link(1, true);
    }
    all.iter().for_each(|process| assert_eq!(process.line(), "done"));
}

#[test]
fn a_machine_that_is_cut_off_is_dead_at_the_deadline_and_both_sides_end() {
    let Some(machines) = Machines::new(3) else { return };
    let all = start(&machines, "cause", &[0, 1, 1, 2], &[("GINRS_HOST_DEADLINE", "2")]);
    let start = Instant::now();
    machines.link(1, false);
    for rank in [0, 3] {
        let told = all[rank].line();
        println!("rank {rank} knew after {:?}", start.elapsed());
        assert!(told.starts_with("E110 by 1 RemoteError: rank 1 (pid"), "rank {rank}: {told}");
        assert!(told.contains("(ranks 1-2) for 2") && told.contains("GINRS_HOST_DEADLINE is 2 s"), "rank {rank}: {told}");
    }
    // Those who are cut off cannot know that it is they.
    for rank in [1, 2] {
        let told = all[rank].line();
        assert!(told.starts_with("E110 by 0 ") || told.starts_with("E110 by 3 "), "rank {rank}: {told}");
    }
}

#[test]
fn a_killed_rank_of_another_machine_is_named() {
    let Some(machines) = Machines::new(2) else { return };
    // With a neighbour that sees it, and as the last one there.
    for (places, text) in [(&[0, 0, 1, 1][..], "died, killed by SIGKILL"), (&[0, 0, 1][..], "died, or its connections were cut")]
    {
        let all = start(&machines, "cause", places, &[]);
        let (victim, begun) = (places.len() - 1, Instant::now());
        all[victim].signal(libc::SIGKILL);
        for (rank, process) in all.iter().enumerate().take(victim) {
            let told = process.line();
            println!("rank {rank} knew after {:?}", begun.elapsed());
            assert!(
                told.starts_with(&format!("E040 by {victim} RemoteError: rank {victim} (pid")) && told.contains(text),
                "rank {rank}: {told}"
            );
        }
    }
}

#[test]
fn a_slow_link_is_no_failure() {
    let Some(machines) = Machines::new(2) else { return };
    machines.slow(1, "1mbit");
    let all = start(&machines, "steps", &[0, 1], &[]);
    all.iter().for_each(|process| assert_eq!(process.line(), "done"));
}
