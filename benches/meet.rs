//! How long ranks take to meet, by their number: threads of four processes, each rank a machine of its own, so that all goes by TCP.
//! `cargo bench --bench meet -- [init] [ranks ...]`; rows are `ranks, milliseconds to join, to exchange 64 bytes of all`, with `init`
//! also to make a communicator and its first device communicator with GIN. Medians of three.
//! `cargo bench --bench meet -- memory`: what a peer costs the process of one rank that has never talked to it, in resident bytes.

use ginrs::bootstrap::{Bootstrap, Cancel, Seat, UniqueId};
use ginrs::comm::create;
use ginrs::devcomm::{self, Requirements};
use ginrs::team::Config;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const PROCESSES: u32 = 4;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// What is timed, in milliseconds of the slowest rank; then bytes resident behind the last two, of a process with one rank.
const STEPS: [&str; 4] = ["join", "exchange", "comm", "gin"];
type Times = [f64; STEPS.len() + 2];
/// In the environment where the last two steps are taken, too.
const INIT: &str = "MEET_INIT";

fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap().split(' ').nth(1).unwrap().parse::<f64>().unwrap();
    pages * 4096.0
}

/// Initialises the ranks of this process.
fn part(id: &UniqueId, again: &UniqueId, first: u32, count: u32, n: u32) -> Times {
    let all = std::thread::scope(|scope| {
        let rank = |rank: u32| {
            let body = move || {
                let mut times = Times::default();
                let ms = |since: Instant| since.elapsed().as_secs_f64() * 1e3;
                let start = Instant::now();
                let seat = Seat { rank, n_ranks: n, machine: rank.into() };
                let boot = Bootstrap::join_unless(id, seat, &Cancel::default()).unwrap();
                times[0] = ms(start);
                boot.barrier("warm").unwrap();
                let start = Instant::now();
                assert_eq!(boot.allgather("gather", &[rank as u8; 64]).unwrap().len(), n as usize);
                times[1] = ms(start);
                boot.barrier("end").unwrap();
                if std::env::var_os(INIT).is_none() {
                    return times;
                }
                let start = Instant::now();
                ginrs::device::set_current(0).unwrap();
                let device = ginrs::device::current().unwrap();
                let (ids, config, cancel) = (vec![again.clone()], Config::default(), Cancel::new());
                let comm =
                    create::create(create::Request { ids, n_ranks: n, rank, config, device, origin: None, cancel }).unwrap();
                times[2] = ms(start);
                times[4] = resident();
                let start = Instant::now();
                let reqs = Requirements { gin_signal_count: 1, ..Default::default() };
                let made = devcomm::create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm;
                times[3] = ms(start);
                times[5] = resident();
                comm.team.bootstrap.barrier("end").unwrap();
                devcomm::destroy(&comm.devcomms, &comm.windows, &made).unwrap();
                comm.team.watch.leaving();
                times
            };
            std::thread::Builder::new().stack_size(512 << 10).spawn_scoped(scope, body).unwrap()
        };
        let threads: Vec<_> = (first..first + count).map(rank).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<Times>>()
    });
    std::array::from_fn(|i| all.iter().map(|times| times[i]).fold(0.0, f64::max))
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
    let times = part(&read_id(id), &read_id(again), numbers[0], numbers[1], numbers[2]);
    println!("{}", times.map(|time| time.to_string()).join(" "));
}

fn line(child: &mut Child) -> String {
    let mut line = String::new();
    // One byte at a time, as nothing more may be taken of it.
    BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line
}

/// `first` ranks in this process, `each` in each other one.
fn measure(n: u32, first: u32, each: u32) -> Times {
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
    let mut most = part(&id, &again, 0, first, n);
    for mut child in others {
        let told = line(&mut child);
        for (most, time) in most.iter_mut().take(STEPS.len()).zip(told.split_whitespace()) {
            *most = most.max(time.parse().unwrap());
        }
        child.wait().unwrap();
    }
    most
}

/// Rank 0 alone in this process, all others in another one, at three numbers of ranks.
fn memory() {
    // SAFETY: nothing else runs.
    unsafe { std::env::set_var(INIT, "1") };
    let mut last = None;
    for n in [33, 65, 129, 257] {
        let now = measure(n, 1, n - 1);
        if let Some((few, before)) = last.replace((n, now)) {
            let each = [4, 5].map(|i: usize| (now[i] - before[i]) / f64::from(n - few));
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
    let steps = if is_asked("init") { 4 } else { 2 };
    if steps == 4 {
        // SAFETY: as above.
        unsafe { std::env::set_var(INIT, "1") };
    }
    let all = if asked.is_empty() { vec![16, 64, 256] } else { asked };
    println!("ranks, ms: {}", STEPS[..steps].join(", "));
    for n in all {
        let runs: Vec<Times> = (0..3).map(|_| measure(n, n / PROCESSES, n / PROCESSES)).collect();
        let median = |i: usize| {
            let mut all: Vec<f64> = runs.iter().map(|run| run[i]).collect();
            all.sort_by(f64::total_cmp);
            format!("{:.1}", all[1])
        };
        println!("{n}, {}", (0..steps).map(median).collect::<Vec<_>>().join(", "));
    }
}
