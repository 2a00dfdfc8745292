//! Programs on machines that share nothing but a network: network namespaces, each rank started there by `ginrs-run --hosts`. Skipped where
//! namespaces are not permitted. And what a job needs of the system that a container may lack.

#[path = "../../tests/netns/mod.rs"]
mod netns;

use abi_tests::programs::compiled;
use abi_tests::{prefix, text};
use netns::Machines;
use netns::wire::Wrong;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn the_examples_run_over_a_network() {
    let folder = tempfile::tempdir().unwrap();
    let rsh = Machines::rsh(folder.path());
    let programs: Vec<PathBuf> = ["01-hello", "02-ring", "03-gin-alltoall", "04-hybrid-alltoall"]
        .iter()
        .map(|example| compiled(&format!("examples-c/{example}/main.cu")))
        .collect();
    for (machines, ranks) in [(2, 4), (3, 3)] {
        let Some(machines) = Machines::new(machines) else { return };
        let count = if ranks == 4 { 2 } else { 3 };
        let hosts: Vec<&str> = (0..count).map(|i| machines.name(i)).collect();
        for program in &programs {
            let mut command = Command::new("timeout");
            command.args(["-s", "KILL", "240"]).arg(prefix().join("bin/ginrs-run"));
            command.args(["-n", &ranks.to_string(), "--hosts", &hosts.join(","), "--rsh"]).arg(&rsh).arg(program);
            let output = command
                .env("GINRS_CPU_DEVICES", "4")
                .env("NCCL_SOCKET_IFNAME", "=eth0")
                .env("NCCL_DEBUG", "WARN")
                .output()
                .unwrap();
            let said = text(&output);
            assert!(output.status.success(), "{} on {hosts:?}: {}\n{said}", program.display(), output.status);
            assert_eq!(said.matches(": ok, ").count(), ranks, "{said}");
        }
    }
}

/// When something is done to the network.
#[derive(PartialEq, Eq)]
enum When {
    AtOnce,
    /// After rank 0 has printed that its first round is done.
    InRounds,
}

/// A program on two machines whose every packet this test carries. What its ranks came to, and what they said.
fn carried(machines: &Machines, source: &str, more: &[(&str, &str)], when: When, meanwhile: impl FnOnce()) -> (bool, String) {
    let (program, run) = (compiled(source), abi_tests::programs::job_folder());
    let start = |rank: usize| {
        let mut command = machines.command(rank % 2, "timeout");
        command.args(["-s", "KILL", "240"]).arg(&program);
        let place = [("RANK", rank), ("LOCAL_RANK", rank / 2), ("WORLD_SIZE", 4), ("LOCAL_WORLD_SIZE", 2)];
        command.envs(place.map(|(name, value)| (name, value.to_string()))).env("GINRS_RUN_ID", run.path());
        command
            .env("GINRS_CPU_DEVICES", "2")
            .env("NCCL_SOCKET_IFNAME", "=eth0")
            .env("GINRS_TIMEOUT", "30")
            .envs(more.iter().copied());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let mut all: Vec<_> = (0..4).map(start).collect();
    let (mut first, mut lines) = (String::new(), BufReader::new(all[0].stdout.take().unwrap()));
    while when == When::InRounds && !first.contains("first round is done") {
        assert!(lines.read_line(&mut first).unwrap() > 0, "rank 0 has ended: {first}");
    }
    meanwhile();
    // Its pipe is read while it runs.
    let rest = std::thread::spawn(move || {
        lines.read_to_string(&mut first).unwrap();
        first
    });
    let outputs: Vec<_> = all.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let said = rest.join().unwrap() + &outputs.iter().map(text).collect::<String>();
    (outputs.iter().all(|output| output.status.success()), said)
}

/// Late and in small pieces: what is moved is right. Reset or half-closed: whoever does not end well says why, and all end.
#[test]
fn programs_over_bad_connections_are_right_or_told() {
    let torture = "abi-tests/programs/torture.cu";
    let plan = |rounds: u32| format!("blocks=2 threads=64 coop=cta strip=65536 largest=5000 rounds={rounds} seed=77");
    let Some((machines, wire)) = Machines::with_wire(2, 576) else { return };
    let (ok, said) = carried(&machines, torture, &[("TORTURE", &plan(1))], When::AtOnce, || wire.delay(Duration::from_millis(3)));
    assert!(ok && said.matches(": ok,").count() == 4, "{said}");
    for how in [Wrong::Reset, Wrong::End] {
        let Some((machines, wire)) = Machines::with_wire(2, 1500) else { return };
        let long = plan(100_000);
        let (ok, said) = carried(&machines, torture, &[("TORTURE", &long)], When::InRounds, || wire.break_connections(how));
        assert!(!ok && said.matches(" rank ").count() >= 4 && said.contains("GINRS-E"), "{said}");
        println!("{}", said.lines().filter(|line| line.contains("GINRS-E")).collect::<Vec<_>>().join("\n"));
    }
}

/// Machines are heard all the while: what they say of that is small. Whoever waits is told whom for, and what is lost.
fn what_is_lost_ends_the_job_and_is_named(provider: &[(&str, &str)], lose: impl Fn(&netns::wire::Wire)) {
    let Some((machines, wire)) = Machines::with_wire(2, 1500) else { return };
    let plan = "blocks=2 threads=64 coop=cta strip=65536 largest=5000 rounds=100000 seed=78";
    let environment = [&[("TORTURE", plan), ("NCCL_DEBUG", "WARN")][..], provider].concat();
    let (ok, said) = carried(&machines, "abi-tests/programs/torture.cu", &environment, When::InRounds, || lose(&wire));
    println!("{}", said.lines().filter(|line| line.contains("GINRS-")).collect::<Vec<_>>().join("\n"));
    for line in ["GINRS-W112 nothing that is sent to a peer arrives", "GINRS-E122 "] {
        let has = |text: &str| said.lines().any(|said| said.contains(line) && said.contains(text));
        assert!(!ok && has("nothing has been acknowledged for") && has("path MTU 1500") && has("-s 1472 10.77.0."), "{said}");
    }
    assert_eq!(said.lines().filter(|said| said.contains("NCCL WARN GINRS-E122")).count(), 4, "each rank says it: {said}");
}

#[test]
fn a_network_that_loses_large_packets_alone_ends_the_job_and_is_named() {
    what_is_lost_ends_the_job_and_is_named(&[], |wire| wire.narrow(1000));
}

/// Of connections that the provider makes by itself, too.
#[test]
fn a_network_that_loses_large_packets_ends_a_job_without_connections() {
    what_is_lost_ends_the_job_and_is_named(&[("GINRS_OFI_PROVIDER", "tcp;ofi_rxm")], |wire| wire.narrow(1000));
}

#[test]
fn a_connection_that_a_firewall_forgets_ends_the_job_and_is_named() {
    what_is_lost_ends_the_job_and_is_named(&[], |wire| {
        while !wire.forget_one() {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

/// Checks what each process says of a machine: that it is silent and that it goes on, by turns, and within a minute nothing again that did not last
/// twice as long.
#[track_caller]
fn is_told_sparingly(said: &str, took: Duration) {
    let mut told = HashMap::<_, (bool, f64)>::new();
    for line in said.lines().filter(|line| line.contains("GINRS-W110 ") || line.contains("GINRS-W111 ")) {
        let (head, what) = line.split_once(" NCCL WARN ").expect(line);
        let process = head.split(' ').find(|word| word.matches(':').count() == 2 && !word.ends_with(']'));
        let whom: Vec<_> = what["GINRS-W110 ".len()..].split(" | ").take(2).collect();
        let (is_silent, longest) = told.entry((process.expect(line), whom)).or_default();
        match what.split_once(" is silent for ") {
            None => assert!(std::mem::take(is_silent), "it was not called silent: {line}\n{said}"),
            Some((_, lasts)) => {
                let lasts: f64 = lasts.split(' ').next().unwrap().parse().expect(line);
                // Tenths are rounded.
                let is_news = lasts >= 0.5 && (lasts >= 2.0 * *longest - 0.2 || took > Duration::from_secs(60));
                assert!(
                    is_news && !std::mem::replace(is_silent, true),
                    "told too early or again, {longest} s before: {line}\n{said}"
                );
                *longest = longest.max(lasts);
            }
        }
    }
}

/// One packet in ten is lost: the job goes on and nothing fails; a machine's silence, if it comes to that, is told when it begins and when it gets worse.
#[test]
fn a_network_that_loses_a_tenth_of_all_packets_is_slow_and_told_of_once() {
    let Some((machines, wire)) = Machines::with_wire(2, 1500) else { return };
    let plan = "blocks=2 threads=64 coop=cta strip=4096 largest=5000 rounds=24 seed=79";
    let environment = [("TORTURE", plan), ("NCCL_DEBUG", "WARN"), ("GINRS_HOST_DEADLINE", "30"), ("GINRS_TIMEOUT", "90")];
    let begun = Instant::now();
    let (ok, said) = carried(&machines, "abi-tests/programs/torture.cu", &environment, When::AtOnce, || wire.leak(10));
    println!("{}", said.lines().filter(|line| line.contains("GINRS-")).collect::<Vec<_>>().join("\n"));
    assert!(ok && said.matches(": ok,").count() == 4 && !said.contains("GINRS-E"), "{said}");
    is_told_sparingly(&said, begun.elapsed());
}

#[test]
fn a_silence_that_is_told_too_often_is_found() {
    let line = |code: &str, rest: &str| {
        format!(
            "[2026-01-01 00:00:00] host:7:8 [0] watch/far.rs:1 NCCL WARN GINRS-{code} rank 1 (pid 9 on host) | comm 0x5 | {rest}"
        )
    };
    let (silent, on) =
        (|lasts: &str| line("W110", &format!("host (rank 1) is silent for {lasts} s, and")), line("W111", "it goes on"));
    let fine =
        |lines: &[String]| std::panic::catch_unwind(|| is_told_sparingly(&lines.join("\n"), Duration::from_secs(9))).is_ok();
    assert!(fine(&[silent("0.5"), on.clone(), silent("1.1"), on.clone(), silent("2.5")]));
    assert!(!fine(&[silent("0.5"), on.clone(), silent("0.6")]), "no longer than before");
    assert!(!fine(&[silent("0.5"), silent("1.2")]), "it has not gone on");
    assert!(!fine(&[silent("0.3")]), "too short");
    assert!(!fine(&[silent("0.5"), on.clone(), on.clone()]), "twice");
}

/// A job on machines on each of which such a command has run; whether it ran, and what it said.
fn behind<const N: usize>(commands: [&str; N]) -> Option<(bool, String)> {
    let (folder, program) = (tempfile::tempdir().unwrap(), compiled("examples-c/03-gin-alltoall/main.cu"));
    let machines = Machines::new(N)?;
    for (i, words) in (0..).zip(commands) {
        assert!(machines.command(i, "sh").args(["-c", words]).status().unwrap().success(), "{words}");
    }
    let hosts: Vec<&str> = (0..N).map(|i| machines.name(i)).collect();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240"]).arg(prefix().join("bin/ginrs-run"));
    command.args(["-n", &N.to_string(), "--hosts", &hosts.join(","), "--rsh"]).arg(Machines::rsh(folder.path())).arg(&program);
    let output = command.env("NCCL_SOCKET_IFNAME", "=eth0").env("NCCL_DEBUG", "WARN").output().unwrap();
    Some((output.status.success(), text(&output)))
}

/// Which addresses the second and the third have lost.
fn with_families(lost: [&str; 2]) -> Option<(bool, String)> {
    let flush = |family: &str| if family.is_empty() { ":".into() } else { format!("ip {family} addr flush dev eth0") };
    behind([":", &flush(lost[0]), &flush(lost[1])])
}

/// The address that the kernel lists first is not the one by which the others come.
#[test]
fn an_address_to_which_no_machine_has_a_way_is_passed_over() {
    let first = |lonely: &str, own: u32| {
        format!("ip addr flush dev eth0 && ip addr add {lonely}/24 dev eth0 && ip addr add 10.77.0.{own}/24 dev eth0")
    };
    let Some((ok, said)) = behind([&first("172.31.5.1", 1), ":", &first("172.31.6.1", 3)]) else { return };
    assert!(ok && said.matches(": ok, ").count() == 3, "{said}");
}

/// A second network, and what the first one is worth to the machines by number: none where it leads nowhere, though it is up.
fn with_second_network<const N: usize>(without_first: &[usize]) -> [String; N] {
    std::array::from_fn(|i| {
        let dead = if without_first.contains(&i) { "ip route del 10.77.0.0/24; ip -6 route del fd77::/64; " } else { "" };
        format!("{dead}ip addr add 10.78.0.{0}/24 dev eth0 && ip addr add fd78::{0}/64 dev eth0 nodad", i + 1)
    })
}

/// The first machine comes by the second network alone, to whoever it goes; the others have both.
#[test]
fn a_machine_that_has_lost_one_of_two_networks_is_met_on_the_other() {
    let commands: [String; 3] = with_second_network(&[0]);
    let Some((ok, said)) = behind([&commands[0], &commands[1], &commands[2]]) else { return };
    assert!(ok && said.matches(": ok, ").count() == 3, "{said}");
}

/// Most of eight have no link of the job's own with the one that has lost the first network, from or to which they could know: they listen on
/// both, and whoever calls tries both.
#[test]
fn one_of_eight_machines_that_has_lost_one_of_two_networks_is_met_on_the_other() {
    for lost in [0, 3] {
        let commands: [String; 8] = with_second_network(&[lost]);
        let Some((ok, said)) = behind(commands.each_ref().map(String::as_str)) else { return };
        assert!(ok && said.matches(": ok, ").count() == 8, "machine {lost}: {said}");
    }
}

/// It cannot join, and says where it has tried.
#[test]
fn a_machine_that_has_lost_both_networks_is_named() {
    let mut commands: [String; 8] = with_second_network(&[3]);
    commands[3] += " && ip route del 10.78.0.0/24 && ip -6 route del fd78::/64";
    let Some((ok, said)) = behind(commands.each_ref().map(String::as_str)) else { return };
    let told = said.lines().find(|line| line.contains("GINRS-E102"));
    assert!(
        !ok && told.is_some_and(|told| told.contains("rank 3 ") && told.contains("10.77.0.1:") && told.contains("10.78.0.1:")),
        "{said}"
    );
}

/// Two IPv4 addresses leave room for IPv6's.
#[test]
fn a_machine_of_two_networks_is_met_by_one_that_has_ipv6_alone() {
    let commands: [String; 3] = with_second_network(&[]);
    let lost = format!("{} && ip -4 addr flush dev eth0", commands[2]);
    let Some((ok, said)) = behind([&commands[0], &commands[1], &lost]) else { return };
    assert!(ok && said.matches(": ok, ").count() == 3, "{said}");
}

/// All by the family that all have, though the first machine has both; where there is none, that is said.
#[test]
fn machines_of_one_family_meet_and_of_two_are_told() {
    for lost in [["-4", "-4"], ["-4", ""], ["-6", "-6"]] {
        let Some((ok, said)) = with_families(lost) else { return };
        assert!(ok && said.matches(": ok, ").count() == 3, "{lost:?}: {said}");
    }
    let Some((ok, said)) = with_families(["-6", "-4"]) else { return };
    let told = |words: &str| said.lines().any(|line| line.contains("GINRS-E126") && line.contains(words));
    assert!(!ok && (told("has IPv4, rank 2") && told(" IPv6 |") || told("has IPv6, rank 1") && told(" IPv4 |")), "{said}");
}

/// F8. Without CAP_IPC_LOCK, which root has and which lifts the limit.
#[test]
fn a_job_between_machines_needs_no_locked_memory() {
    let program = compiled("examples-c/02-ring/main.cu");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock", "prlimit", "--memlock=0"]);
    command.arg(prefix().join("bin/ginrs-run")).args(["-n", "2"]).arg(&program);
    let output = command.env("GINRS_CPU_DEVICES", "2").env("GINRS_FAKE_MACHINES", "0,1").output().unwrap();
    let said = text(&output);
    assert!(output.status.success() && said.matches(": ok, ").count() == 2, "{}\n{said}", output.status);
}

/// F9: containers have 64 MiB there, or none.
#[test]
fn a_job_needs_no_dev_shm() {
    let program = compiled("examples-c/02-ring/main.cu");
    let script = "mount -t tmpfs -o size=4k none /dev/shm && head -c 4096 /dev/zero > /dev/shm/full && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(prefix().join("bin/ginrs-run")).args(["-n", "2"]).arg(&program);
    let output = command.env("GINRS_CPU_DEVICES", "2").output().unwrap();
    let said = text(&output);
    if said.contains("Operation not permitted") || said.contains("permission denied") {
        return println!("skipped: no mounts here: {}", said.trim());
    }
    assert!(output.status.success() && said.matches(": ok, ").count() == 2, "{}\n{said}", output.status);
}
