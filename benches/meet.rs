//! How long ranks take to meet, by their number: threads of four processes, each rank a machine of its own, so that all goes by TCP.
//! `cargo bench --bench meet [ranks ...]`; rows are `ranks, milliseconds to join, to exchange 64 bytes of all`. Medians of three.

use ginrs::bootstrap::{Bootstrap, Cancel, Seat, UniqueId};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const PROCESSES: u32 = 4;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Joins the ranks of this process; milliseconds of the slowest one to join, and to exchange.
fn part(id: &UniqueId, first: u32, count: u32, n: u32) -> (f64, f64) {
    let start = Instant::now();
    let all = std::thread::scope(|scope| {
        let rank = |rank: u32| {
            let body = move || {
                let seat = Seat { rank, n_ranks: n, machine: rank.into() };
                let boot = Bootstrap::join_unless(id, seat, &Cancel::default()).unwrap();
                let joined = start.elapsed();
                boot.barrier("warm").unwrap();
                let before = Instant::now();
                assert_eq!(boot.allgather("gather", &[rank as u8; 64]).unwrap().len(), n as usize);
                let gathered = before.elapsed();
                boot.barrier("end").unwrap();
                (joined.as_secs_f64() * 1e3, gathered.as_secs_f64() * 1e3)
            };
            std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, body).unwrap()
        };
        let threads: Vec<_> = (first..first + count).map(rank).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    all.iter().fold((0.0, 0.0), |most: (f64, f64), one| (most.0.max(one.0), most.1.max(one.1)))
}

fn child(words: &str) {
    let numbers: Vec<u32> = words.split(' ').map(|word| word.parse().unwrap()).collect();
    let mut line = String::new();
    println!("ready");
    std::io::stdin().read_line(&mut line).unwrap();
    let bytes: Vec<u8> = (0..256).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap()).collect();
    let id = UniqueId::from_bytes(&bytes.try_into().unwrap()).unwrap();
    let (joined, gathered) = part(&id, numbers[0], numbers[1], numbers[2]);
    println!("{joined} {gathered}");
}

fn line(child: &mut Child) -> String {
    let mut line = String::new();
    // One byte at a time, as nothing more may be taken of it.
    BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line
}

fn measure(n: u32) -> (f64, f64) {
    let each = n / PROCESSES;
    let mut others: Vec<Child> = (1..PROCESSES)
        .map(|i| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            let command = command.env("MEET_PART", format!("{} {each} {n}", i * each));
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    others.iter_mut().for_each(|child| assert_eq!(line(child), "ready\n"));
    let id = UniqueId::create().unwrap();
    others.iter_mut().for_each(|child| writeln!(child.stdin.as_mut().unwrap(), "{}", hex(&id.bytes())).unwrap());
    let mut most = part(&id, 0, each, n);
    for mut child in others {
        let told = line(&mut child);
        let (joined, gathered) = told.trim().split_once(' ').unwrap();
        most = (most.0.max(joined.parse().unwrap()), most.1.max(gathered.parse().unwrap()));
        child.wait().unwrap();
    }
    most
}

fn main() {
    if let Ok(words) = std::env::var("MEET_PART") {
        return child(&words);
    }
    let asked: Vec<u32> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let all = if asked.is_empty() { vec![16, 64, 256] } else { asked };
    println!("ranks, ms to join, ms to exchange");
    for n in all {
        let mut runs: Vec<_> = (0..3).map(|_| measure(n)).collect();
        let mut median = |of: fn(&(f64, f64)) -> f64| {
            runs.sort_by(|a, b| of(a).total_cmp(&of(b)));
            of(&runs[1])
        };
        println!("{n}, {:.1}, {:.1}", median(|run| run.0), median(|run| run.1));
    }
}
