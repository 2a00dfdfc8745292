//! The transport ofi between two machines, which as root are two network namespaces: beside libfabric's own ping-pong on the same
//! provider, beside TCP streams written for the purpose, and beside itself with one message for each put; what its checks of a put
//! cost; and what a rank costs that sleeps, and how fast it wakes.
//! `cargo bench -p ginrs --bench ofi`; runs take turns, so that a busy machine is the same for both sides of a ratio.

mod idle;
mod machines;
mod rank;
mod raw;

use machines::Machines;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

const ROUNDS: usize = 5;
const TRIPS: u64 = 5000;
const SMALL_PUTS: u64 = 200_000;
/// Small puts of one drain.
const DRAIN: u64 = 64;
const LARGE: u64 = 1 << 20;
const LARGE_PUTS: u64 = 1000;
const STREAMS: u64 = 4;
const PORT: u16 = 47_321;
const WAKES: usize = 50;
/// Between two of them: longer than the thread looks in vain before it sleeps.
const SLEEP: Duration = Duration::from_millis(30);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let rank = || args[2].parse().unwrap();
    let address = || args[3].parse().unwrap();
    match args.get(1).map(String::as_str) {
        Some("rank") => rank::rank(rank(), address()),
        Some("idle") => idle::rank(rank(), address()),
        Some("streams") => raw::streams(rank(), address(), false),
        Some("stream") => raw::streams(rank(), address(), true),
        Some("trips") => raw::trips(rank(), address()),
        _ => compare(),
    }
}

/// Processor time of this process so far.
fn cpu() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Microseconds on a clock that all processes of the machine share.
fn now() -> f64 {
    clock(libc::CLOCK_MONOTONIC).as_secs_f64() * 1e6
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for a time.
    assert_eq!(unsafe { libc::clock_gettime(id, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// A run of two ranks: us, M/s packed, M/s single, MB/s, processor time in us per MiB of rank 0, ns of checks at source and target; and
/// processor time of rank 1.
type Figures = [f64; 8];

fn compare() {
    let machines = Machines::new();
    let provider = std::env::var("GINRS_OFI_PROVIDER").unwrap_or_else(|_| "net".into());
    let (mut ours, mut trips, mut raw_trips) = (Vec::<Figures>::new(), Vec::new(), Vec::<[f64; 2]>::new());
    let (mut threads, mut one, mut sleeps, mut floors) = (Vec::new(), Vec::new(), Vec::<[f64; 2]>::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(run_ranks(&machines, "rank").concat().try_into().unwrap());
        trips.extend(run_pingpong(&machines, &provider));
        raw_trips.push(run_raw(&machines, "trips")[0][..2].try_into().unwrap());
        threads.push(run_streams(&machines, "streams"));
        one.push(run_streams(&machines, "stream"));
        let [asleep, alarm] = run_ranks(&machines, "idle");
        let wakes = asleep[1..].iter().zip(alarm).map(|(seen, sent)| seen - sent);
        sleeps.push([asleep[0], median(wakes.collect())]);
        floors.push(raw::eventfd_wake());
    }
    let [trip, packed, single, large, sends, source, target, receives] = medians(&ours);
    println!("medians of {ROUNDS} runs in turns, provider {provider}");
    match trips.is_empty() {
        true => println!("8-byte put+signal, round trip {trip:.2} us; fi_pingpong is not here (package libfabric-bin)"),
        false => {
            let theirs = median(trips);
            println!(
                "8-byte put+signal, round trip {trip:.2} us | fi_pingpong {theirs:.2} us | + {:.2} us per hop (goal: at most 2)",
                (trip - theirs) / 2.0
            );
        }
    }
    let [single_wire, two] = medians(&raw_trips);
    println!("  | raw TCP, the same bytes over one connection {single_wire:.2} us, over one for each direction {two:.2} us");
    println!(
        "64-byte puts, {DRAIN} in a drain {packed:.2} M/s | one message for each {single:.2} M/s | ratio {:.2} (goal: at least 2)",
        packed / single
    );
    let each = 1e3 / packed;
    println!(
        "checks of a put: source {source:.1} ns, target {target:.1} ns | a 64-byte put {each:.0} ns | {:.1} % and {:.1} % (goal: at most 3)",
        source / each * 100.0,
        target / each * 100.0
    );
    println!(
        "1 MiB puts, {STREAMS} contexts {large:.0} MB/s, processor {sends:.0} us per MiB at the source, {receives:.0} at the target"
    );
    for (how, runs) in [("a thread for each of", threads), ("one thread for", one)] {
        let [rate, sends, receives] = medians(&runs);
        println!(
            "  | raw TCP, {how} {STREAMS} streams {rate:.0} MB/s, processor {sends:.0} and {receives:.0} us | ratio {:.2} (goal: at least 0.9)",
            large / rate
        );
    }
    let [idle, wake] = medians(&sleeps);
    println!("idle for a second: {idle:.2} % of a core (goal: at most 5)");
    println!(
        "a put wakes its target: {wake:.0} us from call to signal (goal: at most 100) | an eventfd wakes a thread: {:.0} us",
        median(floors)
    );
}

fn medians<const N: usize>(runs: &[[f64; N]]) -> [f64; N] {
    std::array::from_fn(|i| median(runs.iter().map(|run| run[i]).collect()))
}

fn own() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

/// What the two say in the end.
fn run_ranks(machines: &Machines, what: &str) -> [Vec<f64>; 2] {
    let mut children = [0, 1].map(|rank: usize| {
        let mut command = machines.command(rank, &own());
        command.args([what, &rank.to_string(), &machines.addresses[rank].to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        (child, input, output)
    });
    // What each says of where it listens, and of its window, goes to the other.
    for _ in 0..2 {
        let said = children.each_mut().map(|(.., output)| line(output));
        for ((_, input, _), said) in children.iter_mut().zip(said.iter().rev()) {
            writeln!(input, "{said}").unwrap();
        }
    }
    children.map(|(child, _, mut output): (Child, ChildStdin, BufReader<ChildStdout>)| figures(child, &line(&mut output)))
}

fn figures(mut child: Child, said: &str) -> Vec<f64> {
    assert!(child.wait().unwrap().success());
    said.split_whitespace().map(|figure| figure.parse().unwrap()).collect()
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    assert!(from.read_line(&mut line).unwrap() > 0, "a rank ended early");
    line.trim().to_owned()
}

/// Round trip of libfabric's own program; None where there is none.
fn run_pingpong(machines: &Machines, provider: &str) -> Option<f64> {
    let common = ["-p", provider, "-e", "msg", "-S", "8", "-I", "5000"];
    let mut server = machines.command(1, "fi_pingpong").args(common).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    std::thread::sleep(Duration::from_millis(500));
    // Now and then it never ends, and it blocks SIGTERM.
    let client = machines
        .command(0, "timeout")
        .args(["-s", "KILL", "10", "fi_pingpong"])
        .args(common)
        .arg(machines.addresses[1].to_string())
        .output()
        .ok();
    let _ = server.kill();
    let _ = server.wait();
    let text = String::from_utf8_lossy(&client?.stdout).into_owned();
    // bytes, sent, acknowledged, total, time, MB/s, us for one way, M/s
    let row: Vec<&str> = text.lines().last()?.split_whitespace().collect();
    row.get(6)?.parse::<f64>().ok().map(|one_way| 2.0 * one_way)
}

/// MB/s, and processor time in us per MiB of who sends and who receives.
fn run_streams(machines: &Machines, what: &str) -> [f64; 3] {
    let [sends, receives] = run_raw(machines, what);
    [sends[0], sends[1], receives[1]]
}

/// What the two ends of a floor say.
fn run_raw(machines: &Machines, what: &str) -> [Vec<f64>; 2] {
    let start = |rank: usize| {
        let mut command = machines.command(rank, &own());
        command.args([what, &rank.to_string(), &machines.addresses[1].to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        (child, output)
    };
    let [one, zero] = [1, 0].map(start).map(|(child, mut output)| figures(child, &line(&mut output)));
    [zero, one]
}
