//! Many seeds, each in a process of its own, as many at a time as there are cores.

use crate::plan::Canary;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// So long a seed may take, on a busy machine.
const LONGEST: Duration = Duration::from_secs(120);

/// The sums of many.
#[derive(Default)]
struct Sum {
    seeds: u64,
    faults: u64,
    violations: u64,
    inexact: u64,
    failing: Vec<u64>,
}

/// Runs `count` seeds from `first` on, as many of them as begin within so many seconds; whether all went well.
pub fn hunt(first: u64, count: u64, seconds: u64) -> bool {
    let (next, sum) = (AtomicU64::new(first), Mutex::new(Sum::default()));
    let cores = sched_getaffinity(None).expect("cores");
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| cores.is_set(*core)).collect();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for core in &cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count || begin.elapsed().as_secs() >= seconds {
                        return;
                    }
                    add(&mut sum.lock().expect("a sum"), seed, &run(&["--seed", &seed.to_string()], Some(*core)));
                }
            });
        }
    });
    let mut sum = sum.into_inner().expect("a sum");
    sum.failing.sort_unstable();
    println!(
        "simulation: {} seeds from {first} on, {} faults injected, {} violations; {} of the seeds were not exact; {} s on {} cores",
        sum.seeds,
        sum.faults,
        sum.violations,
        sum.inexact,
        begin.elapsed().as_secs(),
        cores.len()
    );
    if !sum.failing.is_empty() {
        println!("simulation: seeds that fail: {:?}", sum.failing);
    }
    sum.failing.is_empty()
}

/// What a run said; None: it did not end by itself, or not well.
struct Said {
    text: String,
    well: bool,
}

fn add(sum: &mut Sum, seed: u64, said: &Said) {
    let line = said.text.lines().rfind(|line| line.starts_with(&format!("seed {seed}: "))).unwrap_or("");
    let number =
        |before: &str| line.split(before).next().and_then(|text| text.split(' ').next_back()?.parse::<u64>().ok()).unwrap_or(0);
    sum.seeds += 1;
    sum.faults += number(" faults");
    sum.violations += number(" violations").max(u64::from(!said.well));
    sum.inexact += u64::from(line.contains("another run may differ"));
    if !said.well {
        sum.failing.push(seed);
        println!("{}\nsimulation: seed {seed} fails; again: {} --seed {seed}", said.text.trim_end(), program().display());
    }
}

fn program() -> std::path::PathBuf {
    std::env::current_exe().expect("its own path")
}

/// Whether each canary is seen, for what it is.
pub fn canaries() -> bool {
    let unseen = |(at, canary): (usize, &Canary)| {
        let said = run(&["--canary", &at.to_string()], None);
        let seen = !said.well && said.text.contains(canary.words());
        if !seen {
            println!("simulation: {canary:?} was planted and is not seen:\n{}", said.text);
        }
        !seen
    };
    Canary::ALL.iter().enumerate().filter(|(at, canary)| unseen((*at, canary))).count() == 0
}

/// As `--seed`: what is found where is the same in each run, and one core is enough for threads that take turns.
pub fn again(arguments: &[&str], core: Option<usize>) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).env(crate::ALONE, "1").env("NCCL_DEBUG", "NONE");
    let mut cores = CpuSet::new();
    core.into_iter().for_each(|core| cores.set(core));
    // SAFETY: system calls that take numbers, and a set of our own.
    unsafe {
        command.pre_exec(move || {
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if core.is_some() {
                sched_setaffinity(None, &cores)?;
            }
            Ok(())
        })
    };
    command
}

fn run(arguments: &[&str], core: Option<usize>) -> Said {
    let mut output = tempfile::tempfile().expect("a file");
    let share = |file: &File| Stdio::from(file.try_clone().expect("a descriptor"));
    let mut command = again(arguments, core);
    let mut child = command.stdin(Stdio::null()).stdout(share(&output)).stderr(share(&output)).spawn().expect("this program");
    let status = ended(&mut child);
    let mut text = String::new();
    output.rewind().expect("a file");
    output.read_to_string(&mut text).unwrap_or_default();
    match status {
        Some(status) if !status.success() => text += &format!("it ended with {status}\n"),
        None => text += &format!("it has not ended within {} s\n", LONGEST.as_secs()),
        _ => {}
    }
    Said { text, well: status.is_some_and(|status| status.success()) }
}

fn ended(child: &mut Child) -> Option<std::process::ExitStatus> {
    let end = Instant::now() + LONGEST;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().expect("a child") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}
