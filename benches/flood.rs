//! A job of two processes, whose steps are barriers, while somebody floods its sockets with connections: another user (as root
//! only), whose connections are turned away, or the same user, whose connections say nothing. Each line has the steps as a ratio to
//! those without the flood, the core time that the job spends on each (the flooder takes a core too, so on few cores the ratio falls by
//! itself), and what the flooder managed.
//!
//! `cargo bench -p ginrs --bench flood`

use ginrs::bootstrap::{Bootstrap, UniqueId};
use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NOBODY: u32 = 65534;
const SECONDS: f64 = 2.0;

fn main() {
    match std::env::var("GINRS_TEST_ROLE").as_deref() {
        Ok("rank") => rank(),
        Ok("flood") => flood(),
        _ => measure(),
    }
}

fn again(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("GINRS_TEST_ROLE", role).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// For every line on stdin: barriers for a while; prints how many, and the core time of this process meanwhile in seconds.
fn rank() {
    let bytes = std::env::var("GINRS_TEST_ID").unwrap();
    let bytes: Vec<u8> = (0..256).step_by(2).map(|at| u8::from_str_radix(&bytes[at..at + 2], 16).unwrap()).collect();
    let number: u32 = std::env::var("GINRS_TEST_RANK").unwrap().parse().unwrap();
    let boot = Bootstrap::join(&UniqueId::from_bytes(&bytes.try_into().unwrap()).unwrap(), number, 2).unwrap();
    for line in std::io::stdin().lines() {
        line.unwrap();
        let (start, busy, mut steps) = (Instant::now(), core_time(), 0u64);
        loop {
            // Rank 0 says whether there is another one.
            let more = u8::from(start.elapsed().as_secs_f64() < SECONDS);
            steps += 1;
            if boot.allgather("step", &[more]).unwrap()[0][..] == [0] {
                break;
            }
        }
        println!("{steps} {}", core_time() - busy);
    }
}

fn core_time() -> f64 {
    // SAFETY: a zeroed rusage is valid, and the call fills it.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut used);
        used
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(used.ru_utime) + seconds(used.ru_stime)
}

/// The abstract names that a process listens at, as anybody finds them.
fn sockets_of(pid: u32) -> Vec<String> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let own: Vec<String> = links.filter_map(|fd| Some(std::fs::read_link(fd.path()).ok()?.to_str()?.to_owned())).collect();
    let table = std::fs::read_to_string("/proc/net/unix").unwrap();
    let named = table.lines().filter_map(|line| Some((line.split_whitespace().nth(6)?, line.split_once('@')?.1)));
    named.filter(|(inode, _)| own.contains(&format!("socket:[{inode}]"))).map(|(_, name)| name.to_owned()).collect()
}

/// Connects to the job's sockets until stdin closes, and keeps the last few; prints how often it got in.
fn flood() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().lines().count();
        std::process::exit(0);
    });
    let names = std::env::var("GINRS_TEST_SOCKETS").unwrap();
    let names: Vec<SocketAddr> = names.split(',').map(|name| SocketAddr::from_abstract_name(name).unwrap()).collect();
    let mut kept = std::collections::VecDeque::new();
    let (mut count, mut told) = (0u64, Instant::now());
    loop {
        for name in &names {
            count += u64::from(connect(name).map(|socket| kept.push_back(socket)).is_some());
        }
        if kept.len() > 200 {
            kept.pop_front();
        }
        if told.elapsed() > Duration::from_millis(100) {
            told = Instant::now();
            println!("{count}");
        }
    }
}

/// Does not wait for room in the queue, as std's would.
fn connect(name: &SocketAddr) -> Option<rustix::fd::OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None).ok()?;
    let to = SocketAddrUnix::new_abstract_name(name.as_abstract_name()?).ok()?;
    connect(&socket, &to).ok().map(|()| socket)
}

/// Steps per second and core seconds per second of both ranks.
fn steps(ranks: &mut [(Child, BufReader<std::process::ChildStdout>)]) -> (f64, f64) {
    ranks.iter_mut().for_each(|(child, _)| writeln!(child.stdin.as_mut().unwrap()).unwrap());
    let (mut all, mut core) = (0.0, 0.0);
    for (_, out) in ranks {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let (steps, busy) = line.trim().split_once(' ').unwrap();
        all = steps.parse::<f64>().unwrap() / SECONDS;
        core += busy.parse::<f64>().unwrap() / SECONDS;
    }
    (all, core)
}

fn measure() {
    let id = UniqueId::create().unwrap();
    let hex: String = id.bytes().iter().map(|b| format!("{b:02x}")).collect();
    let mut ranks: Vec<_> = (0..2)
        .map(|rank| {
            let mut child = again("rank").env("GINRS_TEST_ID", &hex).env("GINRS_TEST_RANK", rank.to_string()).spawn().unwrap();
            let out = BufReader::new(child.stdout.take().unwrap());
            (child, out)
        })
        .collect();
    steps(&mut ranks);
    let mut sockets: Vec<String> = ranks.iter().flat_map(|(child, _)| sockets_of(child.id())).collect();
    sockets.extend(sockets_of(std::process::id()));
    sockets.sort();
    sockets.dedup();
    for (who, uid) in [("another user", Some(NOBODY)), ("the same user, silent", None)] {
        let quiet = steps(&mut ranks);
        let mut command = again("flood");
        command.env("GINRS_TEST_SOCKETS", sockets.join(","));
        if let Some(uid) = uid {
            command.uid(uid);
        }
        let Ok(mut flooder) = command.spawn() else {
            println!("flood by {who}: skipped, needs root");
            continue;
        };
        let (mut out, mut first, mut last) = (BufReader::new(flooder.stdout.take().unwrap()), String::new(), String::new());
        out.read_line(&mut first).unwrap();
        let (start, flooded) = (Instant::now(), steps(&mut ranks));
        // The job goes on; how long does a new pair of ranks take to join meanwhile?
        let seconds = start.elapsed().as_secs_f64();
        let joined = join_time();
        drop(flooder.stdin.take());
        flooder.wait().unwrap();
        out.lines().map_while(Result::ok).for_each(|line| last = line);
        let got_in = last.trim().parse::<f64>().unwrap_or(0.0) - first.trim().parse::<f64>().unwrap_or(0.0);
        println!(
            "flood by {who}: ratio {:.2} of {:.0} steps/s; {:.1} us of the cores for a step, {:.1} without; {:.0} connections/s; 2 ranks join in {:.0} ms",
            flooded.0 / quiet.0,
            quiet.0,
            1e6 * flooded.1 / flooded.0,
            1e6 * quiet.1 / quiet.0,
            got_in / (seconds + joined.as_secs_f64()),
            joined.as_secs_f64() * 1e3
        );
    }
    for (mut child, _) in ranks {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

/// Two ranks of this process.
fn join_time() -> Duration {
    let id = UniqueId::create().unwrap();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let id = &id;
            scope.spawn(move || drop(Bootstrap::join(id, rank, 2).unwrap()));
        }
    });
    start.elapsed()
}
