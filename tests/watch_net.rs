//! Ranks on machines that share nothing but a network, which are network namespaces: links that are cut, joined again and slow, and
//! processes that die there. Skipped where namespaces are not permitted.

mod netns;
mod watched;

use netns::Machines;
use std::time::{Duration, Instant};
use watched::Process;

fn start(machines: &Machines, role: &str, places: &[usize], more: &[(&str, &str)]) -> Vec<Process> {
    watched::start_on(|place, program| machines.command(place, program), role, places, more)
}

#[test]
fn a_link_that_is_cut_for_less_than_the_deadline_ends_nothing_and_loses_nothing() {
    let Some(machines) = Machines::new(2) else { return };
    // TCP retransmits after 0.2 s and doubles the pause, which only newer kernels bound
    // (`src/bootstrap/tcp.rs`): the next heartbeat is received within 6.4 s after the start of a cut of 4 s. The
    // deadline leaves as much again for a busy machine.
    let all = start(&machines, "steps", &[0, 1, 1], &[("GINRS_HOST_DEADLINE", "13")]);
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(1200));
        machines.link(1, false);
        std::thread::sleep(Duration::from_secs(4));
        machines.link(1, true);
    }
    all.iter().for_each(|process| assert_eq!(process.line(), "done"));
}

#[test]
fn an_address_that_is_away_for_a_second_ends_nothing_and_loses_nothing() {
    let Some(machines) = Machines::new(3) else { return };
    // A long deadline: on a busy machine a command that enters the namespace may wait for the kernel
    // for seconds, with the address away.
    let all = start(&machines, "steps", &[0, 1, 2], &[("GINRS_HOST_DEADLINE", "30")]);
    std::thread::sleep(Duration::from_millis(1200));
    // One command does both, for the same reason.
    let away = "ip addr del 10.77.0.3/24 dev eth0 && sleep 1 && ip addr add 10.77.0.3/24 dev eth0";
    assert!(machines.command(2, "sh").args(["-c", away]).status().unwrap().success());
    all.iter().for_each(|process| assert_eq!(process.line(), "done"));
}

/// Machine 1 has no way to the others, or has it again.
fn way(machines: &Machines, there: bool) {
    let (what, src) = if there { ("add", " src 10.77.0.2") } else { ("del", "") };
    let words = format!("ip route {what} 10.77.0.0/24 dev eth0{src} && ip -6 route {what} fd77::/64 dev eth0");
    assert!(machines.command(1, "sh").args(["-c", &words]).status().unwrap().success());
}

/// As far as `join` goes: less than GINRS_HOST_DEADLINE where the root has been there, any time where rank 0 may not have come.
#[test]
fn a_rank_that_has_no_way_to_the_root_yet_joins_when_it_has() {
    let Some(machines) = Machines::new(2) else { return };
    let program = std::env::current_exe().unwrap();
    let point = [("NCCL_COMM_ID", "10.77.0.1:4077"), ("GINRS_SECRET", "0123456789abcdef0123456789abcdef")];
    for (fixed, away, deadline) in [(false, 1, "30"), (true, 4, "3")] {
        let start = |rank: usize, id: &str| {
            let mut environment =
                vec![("GINRS_TEST_RANK", rank.to_string()), ("GINRS_TEST_N", "2".into()), ("GINRS_TEST_ID", id.into())];
            environment.push(("GINRS_HOST_DEADLINE", deadline.into()));
            environment.extend(point.iter().filter(|_| fixed).map(|(name, value)| (*name, (*value).to_owned())));
            Process::start_by(machines.command(rank, &program), "join", &environment)
        };
        way(&machines, false);
        let first = start(0, "");
        let id = first.line();
        let mut second = start(1, if fixed { "" } else { &id });
        if fixed {
            assert_eq!(second.line(), id);
        }
        std::thread::sleep(Duration::from_secs(away));
        way(&machines, true);
        [&first, &second].iter().for_each(|rank| assert_eq!(rank.line(), "ready"));
        drop(second.stdin.take());
        [&first, &second].iter().for_each(|rank| assert_eq!(rank.line(), "ok"));
    }
}

#[test]
fn a_machine_that_is_cut_off_is_dead_at_the_deadline_and_both_sides_end() {
    let Some(machines) = Machines::new(3) else { return };
    let all = start(&machines, "cause", &[0, 1, 1, 2], &[("GINRS_HOST_DEADLINE", "8")]);
    let start = Instant::now();
    machines.link(1, false);
    for rank in [0, 3] {
        let told = all[rank].line();
        println!("rank {rank} knew after {:?}", start.elapsed());
        assert!(told.starts_with("E110 by 1 RemoteError: rank 1 (pid"), "rank {rank}: {told}");
        assert!(told.contains("(ranks 1-2) for 8") && told.contains("GINRS_HOST_DEADLINE is 8 s"), "rank {rank}: {told}");
    }
    // Those who are cut off cannot know that it is they.
    for rank in [1, 2] {
        let told = all[rank].line();
        assert!(told.starts_with("E110 by 0 ") || told.starts_with("E110 by 3 "), "rank {rank}: {told}");
    }
    // Nobody waits for what the others take no more: that took another deadline.
    for process in &all {
        assert!(process.line().starts_with("E110 by "));
        let gone = process.line();
        let time: u64 = gone.trim_start_matches("gone in ").trim_end_matches(" ms").parse().unwrap();
        assert!(time < 8000, "{gone}");
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

/// F11. A listener takes one port of each process, connections to one place take others.
#[test]
fn a_machine_without_free_ports_is_told_with_its_range_and_seven_are_enough_for_two_ranks() {
    let Some(machines) = Machines::new(2) else { return };
    let program = std::env::current_exe().unwrap();
    let set = |ports: &str| {
        let words = ["-c", &format!("echo {ports} > /proc/sys/net/ipv4/ip_local_port_range")];
        assert!(machines.command(1, "sh").args(words).status().unwrap().success());
    };
    set("4000 4006");
    let all = start(&machines, "steps", &[0, 1, 1], &[("GINRS_TEST_STEPS", "3")]);
    all.iter().for_each(|process| assert_eq!(process.line(), "done"));
    drop(all);
    set("4100 4100");
    let mut id = String::new();
    let mut begin = |rank: usize, place: usize| {
        let number = |n: usize| n.to_string();
        let environment = [("GINRS_TEST_ID", id.clone()), ("GINRS_TEST_RANK", number(rank)), ("GINRS_TEST_N", number(3))];
        let process = Process::start_by(machines.command(place, &program), "join", &environment);
        if rank == 0 {
            id = process.line();
        }
        process
    };
    let _root = begin(0, 0);
    // Whoever comes second finds no port to listen at, and the first, meanwhile, none to connect from.
    let both = [begin(1, 1), begin(2, 1)];
    let told = both.each_ref().map(Process::line);
    assert!(told.iter().all(|told| told.starts_with("E105 ") && told.contains("ip_local_port_range is 4100-4100")), "{told:?}");
    for what in ["no local port is free", "no port is free to listen at 10.77.0.2"] {
        assert!(told.iter().any(|told| told.contains(what)), "{told:?}");
    }
}
