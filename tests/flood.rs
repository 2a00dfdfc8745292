//! Floods of connections while a job joins and runs: the ranks meet, the steps go on, and what strangers may cost is bounded.
//! By counts, not by time: how many connections one turn of the service thread takes, and how much of a core it uses for them.

#[path = "../src/hang_limit.rs"]
mod hang_limit;

use ginrs::bootstrap::{Bootstrap, Cancel, Seat, UniqueId, accept_counts};
use hang_limit::HANG_LIMIT;
use std::collections::VecDeque;
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const NOBODY: u32 = 65534;
const STEPS: u32 = 300;

/// The abstract names that this process or a child listens at, as anybody finds them.
fn sockets_of(pid: u32) -> Vec<String> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let own: Vec<String> = links.filter_map(|fd| Some(std::fs::read_link(fd.path()).ok()?.to_str()?.to_owned())).collect();
    let table = std::fs::read_to_string("/proc/net/unix").unwrap();
    let named = table.lines().filter_map(|line| Some((line.split_whitespace().nth(6)?, line.split_once('@')?.1)));
    let mut names: Vec<String> =
        named.filter(|(inode, _)| own.contains(&format!("socket:[{inode}]"))).map(|(_, name)| name.to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

/// The TCP addresses where a process listens.
fn doors_of(pid: u32) -> Vec<String> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let own: Vec<String> = links.filter_map(|fd| Some(std::fs::read_link(fd.path()).ok()?.to_str()?.to_owned())).collect();
    let mut doors = Vec::new();
    for table in ["tcp", "tcp6"] {
        for line in std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default().lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields[3] == "0A" && own.contains(&format!("socket:[{}]", fields[9])) {
                let (ip, port) = fields[1].split_once(':').unwrap();
                // Words of 32 bits, as this machine writes them.
                let words = (0..ip.len()).step_by(8).map(|at| u32::from_str_radix(&ip[at..at + 8], 16).unwrap());
                let bytes: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
                let ip = match <[u8; 4]>::try_from(&bytes[..]) {
                    Ok(v4) => std::net::IpAddr::from(v4),
                    Err(_) => <[u8; 16]>::try_from(&bytes[..]).unwrap().into(),
                };
                doors.push(std::net::SocketAddr::new(ip, u16::from_str_radix(port, 16).unwrap()).to_string());
            }
        }
    }
    doors
}

/// A connection that does not wait for room in the queue, as std's would.
fn connect(name: &str) -> Option<std::fs::File> {
    if let Ok(door) = name.parse() {
        let socket = std::net::TcpStream::connect_timeout(&door, Duration::from_millis(100)).ok()?;
        return Some(std::os::fd::OwnedFd::from(socket).into());
    }
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None).ok()?;
    let name = SocketAddr::from_abstract_name(name).ok()?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_abstract_name()?).ok()?).ok()?;
    Some(socket.into())
}

/// A greeting that names the communicator of `id`, as a rank's does, from somebody who does not know its secret.
fn wrong_proof(id: &UniqueId) -> Vec<u8> {
    use hmac::Mac;
    let mut key = hmac::Hmac::<sha2::Sha256>::new_from_slice(&id.bytes()[88..120]).unwrap();
    key.update(b"key");
    let mut words = vec![0x5au8; 164];
    words[..8].copy_from_slice(b"GINB\x05\x00\x01\x00");
    words[8..24].copy_from_slice(&key.finalize().into_bytes()[..16]);
    words
}

/// Silent, half a greeting, a greeting of another job, noise, huge lengths, one that closes at once; or one of `more`.
fn words(i: usize, more: &[Vec<u8>]) -> Vec<u8> {
    let mut greeting = vec![0xa5u8; 4096];
    greeting[..8].copy_from_slice(b"GINB\x05\x00\x01\x00");
    match i % 7 {
        6 => more.get(i / 7 % more.len().max(1)).cloned().unwrap_or_default(),
        0 => Vec::new(),
        1 => greeting[..50].to_vec(),
        2 => greeting[..164].to_vec(),
        3 => greeting[8..].to_vec(),
        4 => vec![0xff; 64],
        _ => Vec::new(),
    }
}

/// Makes up to `most` connections to the sockets in turn, until told; how many.
fn flood(names: &[String], more: &[Vec<u8>], most: usize, go_on: impl Fn() -> bool) -> usize {
    let (mut kept, mut made) = (VecDeque::new(), 0);
    for i in 0.. {
        if made == most || !go_on() {
            break;
        }
        let Some(mut socket) = connect(&names[i % names.len()]) else {
            std::thread::yield_now();
            continue;
        };
        let _ = socket.write(&words(made, more));
        if made % 7 != 5 {
            kept.push_back(socket);
        }
        if kept.len() > 300 {
            kept.pop_front();
        }
        made += 1;
    }
    made
}

fn again(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env("GINRS_TEST_ROLE", role);
    command
}

fn start_ranks(test: &str, id: &UniqueId, n: u32, far: bool) -> Vec<Child> {
    let hex: String = id.bytes().iter().map(|b| format!("{b:02x}")).collect();
    let start = |rank: u32| {
        let mut command = again(test, "rank");
        command
            .envs(far.then_some([("GINRS_TEST_FAR", "1"), ("NCCL_SOCKET_IFNAME", "=lo")]).into_iter().flatten())
            .arg("--include-ignored");
        let command = command.env("GINRS_TEST_ID", &hex).env("GINRS_TEST_RANK", format!("{rank}:{n}")).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    (0..n).map(start).collect()
}

/// The child's part, where this process is one.
fn is_child() -> bool {
    let Ok(role) = std::env::var("GINRS_TEST_ROLE") else { return false };
    if role == "rank" {
        let bytes = std::env::var("GINRS_TEST_ID").unwrap();
        let bytes: Vec<u8> = (0..256).step_by(2).map(|at| u8::from_str_radix(&bytes[at..at + 2], 16).unwrap()).collect();
        let (rank, n) = std::env::var("GINRS_TEST_RANK").unwrap().split_once(':').map(|(a, b)| (a.parse(), b.parse())).unwrap();
        let (rank, n): (u32, u32) = (rank.unwrap(), n.unwrap());
        let id = UniqueId::from_bytes(&bytes.try_into().unwrap()).unwrap();
        let machine = if std::env::var("GINRS_TEST_FAR").is_ok() { rank.into() } else { ginrs::process::machine() };
        let boot = Bootstrap::join_unless(&id, Seat { rank, n_ranks: n, machine }, &Cancel::default()).unwrap();
        (0..STEPS).for_each(|_| boot.barrier("step").unwrap());
        println!("steps done, counts {:?}", accept_counts());
        std::io::stdin().lines().for_each(drop); // until the parent has seen all
        boot.barrier("end").unwrap();
    } else {
        let names: Vec<String> = role.split(',').map(str::to_owned).collect();
        let start = Instant::now();
        println!("got in {} times", flood(&names, &[], usize::MAX, || start.elapsed() < Duration::from_secs(3)));
    }
    true
}

fn finish(ranks: Vec<Child>) {
    for mut rank in ranks {
        drop(rank.stdin.take());
        let output = rank.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.contains("steps done"), "{told}");
        let most: usize = told.split("counts (").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
        assert!(most <= 32, "{told}");
    }
}

/// One at a time: they count what this process turns away.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Four processes join and run, while everybody's sockets get `most` hostile connections before and during that.
fn runs_among(test: &str, sockets: impl Fn(u32) -> Vec<String>, most: usize, more: &[Vec<u8>], id: &UniqueId, far: bool) {
    let own = sockets(std::process::id());
    assert!(!own.is_empty(), "the process's socket");
    let (start, patience) = (Instant::now(), HANG_LIMIT + Duration::from_secs(most as u64 / 100));
    let (before, mut ranks) = std::thread::scope(|scope| {
        // From before the first rank comes until after the last has.
        let (begun, has_begun) = std::sync::mpsc::channel();
        let before = scope.spawn(|| {
            flood(&own, more, most / 2, move || {
                let _ = begun.send(());
                start.elapsed() < patience
            })
        });
        // `go_on` is called before each connection: after two calls the first one is made.
        (0..2).for_each(|_| has_begun.recv().unwrap());
        let ranks = start_ranks(test, id, 4, far);
        (before.join().unwrap(), ranks)
    });
    let mut doors: Vec<String> = Vec::new();
    while doors.len() < own.len() + 4 && start.elapsed() < patience {
        doors = own.clone();
        ranks.iter().for_each(|rank| doors.extend(sockets(rank.id())));
        doors.sort();
        doors.dedup();
    }
    if far {
        // What the settings name and nothing else: this process's are none, the ranks' name loopback.
        let ours: Vec<std::net::IpAddr> = Bootstrap::addresses().unwrap().iter().map(|address| address.ip()).collect();
        for door in &doors {
            let ip = door.parse::<std::net::SocketAddr>().unwrap().ip();
            assert!(if own.contains(door) { ours.contains(&ip) } else { ip.is_loopback() }, "{door} of {doors:?}, {ours:?}");
        }
    }
    let during = flood(&doors, more, most / 2, || start.elapsed() < patience);
    assert_eq!(before + during, most, "in {:?}", start.elapsed());
    ranks.iter_mut().for_each(|rank| drop(rank.stdin.take()));
    finish(ranks);
    println!("4 ranks joined and ran among {most} hostile connections in {:?}; counts {:?}", start.elapsed(), accept_counts());
    assert!(accept_counts().0 <= 32, "{:?}", accept_counts());
    assert!(start.elapsed() < 2 * patience, "{:?}", start.elapsed());
}

#[test]
fn a_job_joins_and_runs_among_ten_thousand_hostile_connections() {
    if is_child() {
        return;
    }
    let _alone = ALONE.lock();
    let id = UniqueId::create().unwrap();
    let test = "a_job_joins_and_runs_among_ten_thousand_hostile_connections";
    runs_among(test, sockets_of, 10_000, &[wrong_proof(&id)], &id, false);
}

/// What an honest rank sends before it is let in, as somebody between it and the root records it.
fn recorded(id: &UniqueId) -> Vec<u8> {
    use std::io::Read;
    let root: std::net::SocketAddr = doors_of(std::process::id())[0].parse().unwrap();
    let relay = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // The root's addresses in the id, and its machine.
    let mut bytes = id.bytes();
    bytes[33..41].fill(0);
    bytes[41..88].fill(0);
    bytes[41] = 4;
    bytes[42..44].copy_from_slice(&relay.local_addr().unwrap().port().to_be_bytes());
    bytes[44..48].copy_from_slice(&[127, 0, 0, 1]);
    let crc = crc32fast::hash(&bytes[..124]);
    bytes[124..].copy_from_slice(&crc.to_le_bytes());
    let through = UniqueId::from_bytes(&bytes).unwrap();
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let honest = scope.spawn(|| Bootstrap::join_unless(&through, Seat { rank: 0, n_ranks: 4, machine: 9 }, &cancel).err());
        let (mut rank, _) = relay.accept().unwrap();
        let mut root = std::net::TcpStream::connect(root).unwrap();
        for socket in [&rank, &root] {
            socket.set_read_timeout(Some(HANG_LIMIT)).unwrap();
        }
        let (mut greeting, mut answer, mut proof) = ([0; 164], [0; 56], [0; 16]);
        rank.read_exact(&mut greeting).unwrap();
        root.write_all(&greeting).unwrap();
        root.read_exact(&mut answer).unwrap();
        rank.write_all(&answer).unwrap();
        rank.read_exact(&mut proof).unwrap();
        cancel.cancel(ginrs::error::Error::new(ginrs::error::Code::RemoteError, 40, "recorded"));
        drop((rank, root, relay));
        honest.join().unwrap().expect("it never met the root");
        [&greeting[..], &proof].concat()
    })
}

fn several_machines_among(test: &str, most: usize) {
    if is_child() {
        return;
    }
    let _alone = ALONE.lock();
    let recording = UniqueId::create().unwrap();
    let record = recorded(&recording);
    drop(recording);
    let id = UniqueId::create().unwrap();
    runs_among(test, doors_of, most, &[record, wrong_proof(&id)], &id, true);
}

#[test]
fn machines_join_and_run_among_two_thousand_hostile_connections() {
    several_machines_among("machines_join_and_run_among_two_thousand_hostile_connections", 2_000);
}

#[test]
#[ignore = "minutes: cargo test --test flood -- --ignored"]
fn machines_join_and_run_among_a_hundred_thousand_hostile_connections() {
    several_machines_among("machines_join_and_run_among_a_hundred_thousand_hostile_connections", 100_000);
}

/// A job that runs: what its process turns away in a second, however many come.
fn bounded_while(flooded: impl FnOnce(&[String]) -> usize) {
    let id = UniqueId::create().unwrap();
    std::thread::scope(|scope| {
        let id = &id;
        for rank in 0..2 {
            scope.spawn(move || drop(Bootstrap::join(id, rank, 2).unwrap()));
        }
    });
    let own = sockets_of(std::process::id());
    let (start, (_, before), used) = (Instant::now(), accept_counts(), service_time());
    let made = flooded(&own);
    let (most, after) = accept_counts();
    let (turned_away, elapsed) = (after - before, start.elapsed().as_secs_f64());
    let share = (service_time() - used) / elapsed;
    println!(
        "{made} connections in {elapsed:.1} s: {turned_away} turned away for {share:.2} of a core, at most {most} accepted in a turn"
    );
    assert!(turned_away > 100, "{turned_away}");
    // A tenth, and what the coarse clock adds.
    assert!(share < 0.25, "{share}");
    assert!(most <= 32, "{most}");
}

/// Core time of this process's service thread in seconds; the kernel counts it in hundredths.
fn service_time() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let stat = tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok())
        .find(|stat| stat.contains("(ginrs boot)"));
    let stat = stat.expect("a service thread");
    let fields: Vec<f64> = stat.rsplit_once(')').unwrap().1.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    // utime and stime are the fields 14 and 15 of all; the state before them is no number.
    (fields[10] + fields[11]) / 100.0
}

#[test]
fn the_work_for_strangers_is_bounded() {
    if is_child() {
        return;
    }
    let _alone = ALONE.lock();
    bounded_while(|names| {
        let (start, stop) = (Instant::now(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let flood = || flood(names, &[], usize::MAX, || !stop.load(Ordering::Relaxed));
            let threads = [scope.spawn(flood), scope.spawn(flood)];
            while start.elapsed() < Duration::from_secs(2) {
                std::thread::sleep(Duration::from_millis(20));
            }
            stop.store(true, Ordering::Relaxed);
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        })
    });
}

#[test]
fn another_users_flood_is_bounded() {
    if is_child() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: to act as another user this test must run as root");
    }
    let _alone = ALONE.lock();
    bounded_while(|names| {
        let mut command = again("another_users_flood_is_bounded", &names.join(","));
        let output = command.uid(NOBODY).gid(NOBODY).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        told.split("got in ").nth(1).unwrap_or_else(|| panic!("{output:?}")).split(' ').next().unwrap().parse().unwrap()
    });
    // And a rank that comes now is not kept out.
    let id = UniqueId::create().unwrap();
    assert_eq!(Bootstrap::join(&id, 0, 1).unwrap().n_ranks(), 1);
}
