//! The bootstrap between machines: namespaces that share nothing but a network.

mod netns;

use ginrs::bootstrap::{Bootstrap, Cancel, Seat, UniqueId};
use netns::Machines;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

/// Ranks on each machine, which are threads of one process there.
const EACH: u32 = 2;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> [u8; 128] {
    let bytes: Vec<u8> = (0..256).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect();
    bytes.try_into().unwrap()
}

/// What machine `number` of `n` does. Machine 0 makes the id; the others read it from their standard input.
fn machine(number: u32, n: u32) {
    let id = match number {
        0 => UniqueId::create().unwrap(),
        _ if std::env::var("NCCL_COMM_ID").is_ok() => UniqueId::create().unwrap(),
        _ => UniqueId::from_bytes(&unhex(std::io::stdin().lines().next().unwrap().unwrap().trim())).unwrap(),
    };
    println!("\nid {}", hex(&id.bytes()));
    std::thread::scope(|scope| {
        for rank in EACH * number..EACH * (number + 1) {
            let id = &id;
            scope.spawn(move || {
                let all = Bootstrap::join(id, rank, EACH * n).unwrap();
                gather(&all, 5);
                // A part of the ranks of every machine; its root is with its first rank, on another machine than rank 0 where that matters.
                for part in [vec![n * EACH - 1, 0], (0..EACH * n).filter(|r| r % EACH == rank % EACH).collect()] {
                    let Some(place) = part.iter().position(|&r| r == rank) else { continue };
                    let child = all.id_of_child(&format!("part {part:?}"), part[0]);
                    if place == 0 {
                        child.listen().unwrap();
                    }
                    let seat = Seat { rank: place as u32, n_ranks: part.len() as u32, machine: ginrs::process::machine() };
                    gather(&Bootstrap::join_unless(&child, seat, &Cancel::default()).unwrap(), 2);
                }
                all.barrier("end").unwrap();
            });
        }
    });
    println!("\ndone");
}

fn gather(boot: &Bootstrap, times: usize) {
    for turn in 0..times {
        // Larger than a sealed message, in the last turns.
        let part = |rank: u32| vec![rank as u8 ^ turn as u8; 1 << (4 * turn)];
        let all = boot.allgather("gather", &part(boot.rank())).unwrap();
        assert!((0..).zip(all.iter()).all(|(rank, bytes)| **bytes == part(rank)), "turn {turn}");
    }
}

fn start(mut command: Command, test: &str, number: u32, n: u32, settings: &[(&str, &str)]) -> Child {
    command.args(["--exact", test, "--nocapture"]).env("GINRS_TEST_MACHINE", format!("{number} {n}"));
    command.env("GINRS_INIT_TIMEOUT", "30").env("GINRS_TIMEOUT", "30").envs(settings.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn line_of(child: &mut Child, begin: &str) -> String {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines().map_while(Result::ok);
    lines.find_map(|line| line.strip_prefix(begin).map(str::to_owned)).unwrap_or_else(|| panic!("no {begin}"))
}

/// The child's part, where this process is one.
fn is_machine() -> bool {
    let Ok(role) = std::env::var("GINRS_TEST_MACHINE") else { return false };
    let (number, n) = role.split_once(' ').unwrap();
    machine(number.parse().unwrap(), n.parse().unwrap());
    true
}

fn all_meet(test: &str, n: u32, settings: &[(&str, &str)], command: impl Fn(usize) -> Command) {
    let mut first = start(command(0), test, 0, n, settings);
    let id = line_of(&mut first, "id ");
    let mut all = vec![first];
    for number in 1..n {
        let mut machine = start(command(number as usize), test, number, n, settings);
        writeln!(machine.stdin.take().unwrap(), "{id}").unwrap();
        all.push(machine);
    }
    let told: Vec<_> = all.into_iter().map(|machine| machine.wait_with_output().unwrap()).collect();
    for (i, output) in told.iter().enumerate() {
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("\ndone"), "machine {i}: {text}");
    }
}

#[test]
fn ranks_of_several_machines_meet_gather_and_part() {
    if is_machine() {
        return;
    }
    let test = "ranks_of_several_machines_meet_gather_and_part";
    let program = std::env::current_exe().unwrap();
    for n in [2, 3] {
        let Some(machines) = Machines::new(n) else { return };
        for family in ["AF_INET", "AF_INET6"] {
            let settings = [("NCCL_SOCKET_FAMILY", family), ("NCCL_SOCKET_IFNAME", "=eth0")];
            all_meet(test, n as u32, &settings, |i| machines.command(i, &program));
        }
    }
}

#[test]
fn ranks_of_several_machines_meet_at_a_point_that_all_know_under_a_secret() {
    use std::os::unix::fs::PermissionsExt;
    if is_machine() {
        return;
    }
    let test = "ranks_of_several_machines_meet_at_a_point_that_all_know_under_a_secret";
    let program = std::env::current_exe().unwrap();
    let Some(machines) = Machines::new(2) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "between us").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let file = file.to_str().unwrap();
    for point in ["10.77.0.1:4077", "[fd77::1]:4077"] {
        let settings = [("NCCL_COMM_ID", point), ("GINRS_SECRET_FILE", file)];
        all_meet(test, 2, &settings, |i| machines.command(i, &program));
        let settings = [("NCCL_COMM_ID", point), ("GINRS_ALLOW_INSECURE_COMM_ID", "1")];
        all_meet(test, 2, &settings, |i| machines.command(i, &program));
    }
}

#[test]
fn an_interface_that_is_none_is_told_at_once_with_those_that_are() {
    if std::env::var("GINRS_TEST_MACHINE").is_ok() {
        println!("\n{}", UniqueId::create().unwrap_err());
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "an_interface_that_is_none_is_told_at_once_with_those_that_are", "--nocapture"]);
    let output = command.env("GINRS_TEST_MACHINE", "").env("NCCL_SOCKET_IFNAME", "=none-such").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("matches no interface that is up | \"=none-such\" | up: "), "{told}");
}
