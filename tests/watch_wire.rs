//! Ranks on machines whose every packet this test carries: connections that are late, chopped up, reset, half-closed, or dead in one
//! direction. Skipped where network namespaces are not permitted.

mod netns;
mod watched;

use netns::Machines;
use netns::wire::Wrong;
use std::time::{Duration, Instant};
use watched::Process;

fn start(machines: &Machines, role: &str, places: &[usize], more: &[(&str, &str)]) -> Vec<Process> {
    watched::start_on(|place, program| machines.command(place, program), role, places, more)
}

/// Silence is not what ends a rank here, however long a busy machine keeps one from its core.
const CALM: (&str, &str) = ("GINRS_HOST_DEADLINE", "60");

#[test]
fn late_and_chopped_packets_are_no_failure() {
    let Some((machines, wire)) = Machines::with_wire(2, 200) else { return };
    wire.delay(Duration::from_millis(40));
    let all = start(&machines, "steps", &[0, 1, 1], &[("GINRS_TEST_STEPS", "8"), CALM]);
    // A jump: what is under way comes late, and in order.
    wire.delay(Duration::from_millis(400));
    std::thread::sleep(Duration::from_millis(500));
    wire.delay(Duration::ZERO);
    all.iter().for_each(|process| assert_eq!(process.line(), "done"));
}

/// What ends a connection while both processes live: each end learns that, whatever it got, and says who was at the other.
#[track_caller]
fn cut(how: Wrong, places: &[usize], role: &str) {
    let Some((machines, wire)) = Machines::with_wire(2, 1500) else { return };
    // More steps than there is time for.
    let all = start(&machines, role, places, &[("GINRS_TEST_STEPS", "100000"), CALM]);
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    wire.break_connections(how);
    for (rank, process) in all.iter().enumerate() {
        let told = process.line();
        println!("rank {rank} knew after {:?}", begun.elapsed());
        assert!(told.starts_with("E112 by ") && told.contains("the connection between rank "), "rank {rank}: {told}");
        assert!(["the other end closed it", "reset by peer"].iter().any(|how| told.contains(how)), "rank {rank}: {told}");
        let other = |other: usize| {
            places[other] != places[rank] && told.contains(&format!("rank {other} (pid {}", all[other].child.id()))
        };
        assert!((0..places.len()).any(other), "rank {rank}: {told}");
    }
}

#[test]
fn a_connection_that_is_reset_is_no_death() {
    cut(Wrong::Reset, &[0, 1], "cause");
    cut(Wrong::Reset, &[0, 1, 1], "cause");
    cut(Wrong::Reset, &[0, 1], "steps");
}

#[test]
fn a_connection_that_ends_in_one_direction_is_no_death() {
    cut(Wrong::End, &[0, 1], "cause");
    cut(Wrong::End, &[0, 1, 1], "steps");
}

#[test]
fn a_process_that_dies_behind_a_slow_network_is_no_lost_connection() {
    let Some((machines, wire)) = Machines::with_wire(2, 1500) else { return };
    wire.delay(Duration::from_millis(30));
    let all = start(&machines, "cause", &[0, 1], &[CALM]);
    all[1].signal(libc::SIGKILL);
    let told = all[0].line();
    assert!(
        told.starts_with("E040 by 1 RemoteError: rank 1 (pid") && told.contains("died, or its connections were cut"),
        "{told}"
    );
}

/// Of two links one is idle, and its end arrives at once; that of the other comes behind bytes that are lost for a while.
#[test]
fn a_process_that_dies_while_bytes_are_lost_is_no_lost_connection() {
    let Some((machines, wire)) = Machines::with_wire(2, 1500) else { return };
    let all = start(&machines, "steps", &[0, 1], &[("GINRS_TEST_STEPS", "100000"), CALM]);
    std::thread::sleep(Duration::from_millis(500));
    wire.hollow(true);
    std::thread::sleep(Duration::from_millis(200));
    all[1].signal(libc::SIGKILL);
    std::thread::sleep(Duration::from_millis(1500));
    wire.hollow(false);
    let told = all[0].line();
    assert!(told.starts_with("E040 by 1 RemoteError: rank 1 (pid"), "{told}");
}

/// Neither a reset nor an end: beats get through one way only.
#[test]
fn a_network_that_is_dead_in_one_direction_ends_the_waits_of_both() {
    let Some((machines, wire)) = Machines::with_wire(2, 1500) else { return };
    let all = start(&machines, "cause", &[0, 1], &[("GINRS_HOST_DEADLINE", "3")]);
    wire.lose(0, 1, true);
    for process in &all {
        let told = process.line();
        assert!(told.starts_with("E110 by "), "{told}");
    }
}
