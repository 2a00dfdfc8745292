//! How long ranks take to meet, by their number: threads of four to eight processes, each rank a machine of its own, so that all goes by TCP.
//! `cargo bench --bench meet -- [init] [once] [ranks ...]`; rows are `ranks, milliseconds to join, to exchange 64 bytes of all`, with `init`
//! also to make a communicator and its first device communicator with GIN; then the processor seconds, of all processes, user and
//! system, of each of these steps and of the whole run. Medians of three, or one run with `once`.
//! `cargo bench --bench meet -- memory`: what a peer costs the process of one rank that has never talked to it, in resident bytes.

use ginrs::bootstrap::{Bootstrap, Cancel, Seat, UniqueId};
use ginrs::comm::create;
use ginrs::devcomm::{self, Requirements};
use ginrs::team::Config;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// So many, or more, so that none has more than so many ranks.
const PROCESSES: u32 = 4;
const RANKS: u32 = 512;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

const STEPS: [&str; 4] = ["join", "exchange", "comm", "gin"];

/// What one run gives.
#[derive(Clone, Default)]
struct Times {
    /// Milliseconds of the slowest rank, by step.
    ms: [f64; STEPS.len()],
    /// Processor seconds of the processes, by step and from start to end.
    spent: [f64; STEPS.len() + 1],
    /// Bytes resident behind the last two steps, of a process with one rank.
    resident: [f64; 2],
}
/// In the environment where the last two steps are taken, too.
const INIT: &str = "MEET_INIT";

fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap().split(' ').nth(1).unwrap().parse::<f64>().unwrap();
    pages * 4096.0
}

/// Processor seconds of this process.
fn spent() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to a timespec of ours.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Of one rank: how long each step took, and what its process had spent before and behind it.
#[derive(Clone, Default)]
struct Laps {
    ms: [f64; STEPS.len()],
    spent: [[f64; 2]; STEPS.len()],
    resident: [f64; 2],
}

impl Laps {
    fn time<T>(&mut self, step: usize, work: impl FnOnce() -> T) -> T {
        let (start, before) = (Instant::now(), spent());
        let made = work();
        self.ms[step] = start.elapsed().as_secs_f64() * 1e3;
        self.spent[step] = [before, spent()];
        made
    }
}

/// Initialises the ranks of this process.
fn part(id: &UniqueId, again: &UniqueId, first: u32, count: u32, n: u32) -> Times {
    let all = std::thread::scope(|scope| {
        let rank = |rank: u32| {
            let body = move || {
                let mut laps = Laps::default();
                let seat = Seat { rank, n_ranks: n, machine: rank.into() };
                let boot = laps.time(0, || Bootstrap::join_unless(id, seat, &Cancel::default()).unwrap());
                boot.barrier("warm").unwrap();
                laps.time(1, || assert_eq!(boot.allgather("gather", &[rank as u8; 64]).unwrap().len(), n as usize));
                boot.barrier("end").unwrap();
                if std::env::var_os(INIT).is_none() {
                    return laps;
                }
                ginrs::device::set_current(0).unwrap();
                let comm = laps.time(2, || {
                    let device = ginrs::device::current().unwrap();
                    let (ids, config, cancel) = (vec![again.clone()], Config::default(), Cancel::new());
                    create::create(create::Request { ids, n_ranks: n, rank, config, device, origin: None, cancel }).unwrap()
                });
                laps.resident[0] = resident();
                let reqs = Requirements { gin_signal_count: 1, ..Default::default() };
                let made = laps.time(3, || devcomm::create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm);
                laps.resident[1] = resident();
                comm.team.bootstrap.barrier("end").unwrap();
                devcomm::destroy(&comm.devcomms, &comm.windows, &made).unwrap();
                comm.team.watch.leaving();
                laps
            };
            std::thread::Builder::new().stack_size(512 << 10).spawn_scoped(scope, body).unwrap()
        };
        let threads: Vec<_> = (first..first + count).map(rank).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<Laps>>()
    });
    let most = |of: &dyn Fn(&Laps) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let least = |of: &dyn Fn(&Laps) -> f64| all.iter().map(of).fold(f64::MAX, f64::min);
    let mut times = Times {
        ms: std::array::from_fn(|i| most(&|laps| laps.ms[i])),
        resident: std::array::from_fn(|i| most(&|laps| laps.resident[i])),
        ..Times::default()
    };
    for step in 0..STEPS.len() {
        times.spent[step] = most(&|laps| laps.spent[step][1]) - least(&|laps| laps.spent[step][0]);
    }
    times
}

fn read_id(hex: &str) -> UniqueId {
    let bytes: Vec<u8> = (0..256).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    UniqueId::from_bytes(&bytes.try_into().unwrap()).unwrap()
}

fn child(words: &str) {
    let numbers: Vec<u32> = words.split(' ').map(|word| word.parse().unwrap()).collect();
    let mut line = String::new();
    println!("ready");
    std::io::stdin().read_line(&mut line).unwrap();
    let (id, again) = line.trim().split_once(' ').unwrap();
    let mut times = part(&read_id(id), &read_id(again), numbers[0], numbers[1], numbers[2]);
    times.spent[STEPS.len()] = spent();
    println!("{}", times.ms.iter().chain(&times.spent).map(|time| time.to_string()).collect::<Vec<_>>().join(" "));
}

fn line(child: &mut Child) -> String {
    let mut line = String::new();
    // One byte at a time, as nothing more may be taken of it.
    BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line
}

/// `first` ranks in this process, `each` in each other one.
fn measure(n: u32, first: u32, each: u32) -> Times {
    let before = spent();
    let mut others: Vec<Child> = (first..n)
        .step_by(each as usize)
        .map(|from| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            let command = command.env("MEET_PART", format!("{from} {each} {n}"));
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    others.iter_mut().for_each(|child| assert_eq!(line(child), "ready\n"));
    let [id, again] = [(); 2].map(|()| UniqueId::create().unwrap());
    let told = [&id, &again].map(|id| hex(&id.bytes())).join(" ");
    others.iter_mut().for_each(|child| writeln!(child.stdin.as_mut().unwrap(), "{told}").unwrap());
    let mut all = part(&id, &again, 0, first, n);
    all.spent[STEPS.len()] = spent() - before;
    for mut child in others {
        let told = line(&mut child);
        let mut told = told.split_whitespace().map(|time| time.parse::<f64>().unwrap());
        all.ms.iter_mut().zip(&mut told).for_each(|(most, time)| *most = most.max(time));
        all.spent.iter_mut().zip(&mut told).for_each(|(sum, time)| *sum += time);
        child.wait().unwrap();
    }
    all
}

/// Rank 0 alone in this process, all others in another one, at three numbers of ranks.
fn memory() {
    // SAFETY: nothing else runs.
    unsafe { std::env::set_var(INIT, "1") };
    let mut last: Option<(u32, Times)> = None;
    for n in [33, 65, 129, 257] {
        let now = measure(n, 1, n - 1);
        if let Some((few, before)) = last.replace((n, now.clone())) {
            let each = [0, 1].map(|i: usize| (now.resident[i] - before.resident[i]) / f64::from(n - few));
            println!("from {few} to {n} ranks: {:.0} bytes for each peer of a communicator, {:.0} with GIN", each[0], each[1]);
        }
    }
}

fn main() {
    // SAFETY: nothing else runs yet.
    unsafe {
        for (name, value) in [("GINRS_DEVICE", "cpu"), ("GINRS_SHARE_DEVICE", "1"), ("GINRS_FAKE_MACHINES", "per-rank")] {
            std::env::set_var(name, value);
        }
    }
    if let Ok(words) = std::env::var("MEET_PART") {
        return child(&words);
    }
    let asked: Vec<u32> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let is_asked = |word: &str| std::env::args().any(|arg| arg == word);
    if is_asked("memory") {
        return memory();
    }
    let steps = if is_asked("init") { &STEPS[..] } else { &STEPS[..2] };
    if is_asked("init") {
        // SAFETY: as above.
        unsafe { std::env::set_var(INIT, "1") };
    }
    let all = if asked.is_empty() { vec![16, 64, 256] } else { asked };
    let (n_steps, steps) = (steps.len(), steps.join(", "));
    println!("ranks, ms: {steps}, processor s: {steps}, run");
    for n in all {
        let each = n / PROCESSES.max(n.div_ceil(RANKS));
        let n_runs = if is_asked("once") { 1 } else { 3 };
        let runs: Vec<Times> = (0..n_runs).map(|_| measure(n, each, each)).collect();
        let median = |of: &dyn Fn(&Times) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let ms = (0..n_steps).map(|i| format!("{:.1}", median(&|run| run.ms[i])));
        let spent = (0..n_steps).chain([STEPS.len()]).map(|i| format!("{:.2}", median(&|run| run.spent[i])));
        println!("{n}, {}", ms.chain(spent).collect::<Vec<_>>().join(", "));
    }
}
