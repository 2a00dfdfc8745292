//! Ranks for tests: threads of this process, or processes that run this test again.
#![allow(dead_code)]

#[path = "../../src/hang_limit.rs"]
pub mod hang_limit;

use ginrs::bootstrap::UniqueId;
use ginrs::comm::Comm;
use ginrs::comm::create::{Request, create};
use ginrs::device::DevPtr;
use ginrs::team::Config;
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Once};

/// The CPU device unless GINRS_DEVICE says otherwise, before anything reads a setting.
pub fn set_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if std::env::var_os("GINRS_DEVICE").is_none() {
            // SAFETY: every test calls this first; other tests of this process wait in call_once.
            unsafe { std::env::set_var("GINRS_DEVICE", "cpu") };
        }
        if std::env::var_os("GINRS_CPU_DEVICES").is_none() {
            // SAFETY: as above.
            unsafe { std::env::set_var("GINRS_CPU_DEVICES", "64") };
        }
    });
}

/// This thread as `rank` of `n_ranks`.
pub fn join(id: &UniqueId, rank: u32, n_ranks: u32) -> Arc<Comm> {
    ginrs::device::set_current(rank as i32).unwrap();
    let device = ginrs::device::current().unwrap();
    let cancel = ginrs::bootstrap::Cancel::new();
    create(Request { ids: vec![id.clone()], n_ranks, rank, config: Config::default(), device, origin: None, cancel }).unwrap()
}

/// Runs `body` on `n_ranks` threads, each a rank of one communicator; fails when one of them does.
pub fn threads(n_ranks: u32, body: impl Fn(&Arc<Comm>) + Sync) {
    set_up();
    ranks_here(&UniqueId::create().unwrap(), 0..n_ranks, n_ranks, &body);
}

fn ranks_here(id: &UniqueId, ranks: Range<u32>, n_ranks: u32, body: &(impl Fn(&Arc<Comm>) + Sync)) {
    std::thread::scope(|scope| {
        let start = |rank| {
            let run = move || {
                let comm = join(id, rank, n_ranks);
                body(&comm);
                if !comm.team.abort.is_raised() {
                    comm.team.bootstrap.barrier("end of test").unwrap();
                }
                comm.team.watch.leaving();
            };
            std::thread::Builder::new().name(format!("rank {rank}")).spawn_scoped(scope, run).unwrap()
        };
        for rank in ranks.map(start).collect::<Vec<_>>() {
            rank.join().unwrap();
        }
    });
}

/// Environment variable that makes a test's process hold ranks: `first/count/n_ranks/id`.
pub const AS_RANKS: &str = "GINRS_TEST_AS_RANKS";

/// Runs `body` on `n` processes: the test `name` starts itself again for each of them, with `each` thread ranks in it.
pub fn processes(name: &str, n: u32, each: u32, body: impl Fn(&Arc<Comm>) + Sync) {
    set_up();
    if let Ok(spec) = std::env::var(AS_RANKS) {
        let parts: Vec<&str> = spec.split('/').collect();
        let number = |i: usize| parts[i].parse::<u32>().unwrap();
        let bytes: Vec<u8> = (0..256).step_by(2).map(|i| u8::from_str_radix(&parts[3][i..i + 2], 16).unwrap()).collect();
        let id = UniqueId::from_bytes(&bytes.try_into().unwrap()).unwrap();
        return ranks_here(&id, number(0)..number(0) + number(1), number(2), &body);
    }
    let id = UniqueId::create().unwrap();
    let hex: String = id.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let start = |i| again(name).env(AS_RANKS, format!("{}/{each}/{}/{hex}", i * each, n * each)).spawn().unwrap();
    for (i, child) in (0..n).map(start).collect::<Vec<Child>>().into_iter().enumerate() {
        passed(&format!("process {i}"), child);
    }
}

/// Environment variable that marks the inner run of [`with_settings`].
const INNER: &str = "GINRS_TEST_INNER";

/// Runs `body` in a process of its own with `settings`, because settings are read once per process.
pub fn with_settings(name: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(INNER).is_some() {
        return body();
    }
    passed("inner run", again(name).envs(settings.iter().copied()).env(INNER, "1").spawn().unwrap());
}

/// Waits for a run of one test. One that found no test of that name succeeds too, so its word is looked for.
fn passed(who: &str, child: Child) {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{who} failed");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{who} ran no test: is its name right?");
}

fn again(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).stdout(Stdio::piped());
    command
}

/// One 8-byte word of device memory, as a kernel reads it.
pub fn load(at: DevPtr) -> u64 {
    // SAFETY: tests pass addresses that are mapped, 8-aligned, and accessed atomically on all ranks.
    unsafe { std::sync::atomic::AtomicU64::from_ptr(at as *mut u64) }.load(std::sync::atomic::Ordering::Acquire)
}

/// As [`load`].
pub fn store(at: DevPtr, value: u64) {
    // SAFETY: as in `load`.
    unsafe { std::sync::atomic::AtomicU64::from_ptr(at as *mut u64) }.store(value, std::sync::atomic::Ordering::Release);
}

/// A copy of a C struct in device memory.
pub fn read<T: Copy>(at: DevPtr) -> T {
    // SAFETY: tests pass the address of a live struct that nobody writes meanwhile.
    unsafe { std::ptr::read(at as *const T) }
}

/// No other thread of this process runs or waits for a core.
pub fn all_others_sleep() -> bool {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let others = std::fs::read_dir("/proc/self/task").unwrap().flatten().filter(|task| task.file_name() != *own);
    // "17 (ginrs boot) S ..": what it does. One that ends meanwhile does nothing.
    others.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok()).all(|stat| !stat.contains(") R "))
}
