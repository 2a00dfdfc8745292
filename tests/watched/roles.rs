//! What the processes do that the tests start: one role each.

use ginrs::abort::Abort;
use ginrs::bootstrap::{Bootstrap, Cancel, Seat, UniqueId};
use ginrs::device::ControlMemory;
use ginrs::error::{Code, Error};
use ginrs::watch::Watch;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Rank {
    boot: Bootstrap,
    watch: Watch,
    abort: Arc<Abort>,
}

fn joined(id: &UniqueId, rank: u32, n: u32) -> Rank {
    // `0,0,1`, by rank: the machine that each says it is on.
    let machines = std::env::var("GINRS_TEST_MACHINES").unwrap_or_default();
    let machine = machines.split(',').nth(rank as usize).and_then(|machine| machine.parse().ok());
    let machine = machine.unwrap_or_else(ginrs::process::machine);
    let boot = Bootstrap::join_unless(id, Seat { rank, n_ranks: n, machine }, &Cancel::default()).unwrap();
    let abort = Arc::new(Abort::new(ControlMemory::anonymous(4096).unwrap()));
    boot.attach_abort(abort.clone());
    let watch = Watch::start(&boot, &abort, machine).unwrap();
    Rank { boot, watch, abort }
}

impl Rank {
    fn cause(&self) -> Error {
        while !self.abort.is_raised() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.abort.cause().unwrap().clone()
    }
}

fn say(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "OUT {line}").unwrap();
    out.flush().unwrap();
}

fn say_error(error: &Error) {
    say(format!("E{:03} by {} {:?}: {}", error.id, error.culprit.map_or(-1, i64::from), error.code, error.text));
}

fn wait_for_word() {
    let _ = std::io::stdin().read(&mut [0]);
}

fn env(name: &str) -> u32 {
    std::env::var(name).unwrap().parse().unwrap()
}

#[test]
#[ignore = "runs inside the processes that the other tests start"]
fn child() {
    let Ok(role) = std::env::var("GINRS_TEST_ROLE") else { return };
    match role.as_str() {
        "forker" => return forker(),
        "point" => return point(),
        "starved" => return starved(),
        _ => {}
    }
    let id = match std::env::var("GINRS_TEST_ID").unwrap() {
        none if none.is_empty() => {
            let id = UniqueId::create().unwrap();
            say(id.bytes().iter().map(|b| format!("{b:02x}")).collect::<String>());
            id
        }
        hex => {
            let bytes: Vec<u8> = (0..128).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
            UniqueId::from_bytes(bytes.as_slice().try_into().unwrap()).unwrap()
        }
    };
    let (rank, n) = (env("GINRS_TEST_RANK"), env("GINRS_TEST_N"));
    match role.as_str() {
        "gather" => {
            if std::env::var_os("GINRS_TEST_ALARMS").is_some() {
                start_alarms();
            }
            let first = rank;
            let last = first + env("GINRS_TEST_HERE");
            std::thread::scope(|scope| {
                for rank in first..last {
                    let id = &id;
                    scope.spawn(move || gather(id, rank, n));
                }
            });
            say("done");
        }
        "cause" => {
            let own = joined(&id, rank, n);
            own.watch.set_step("test waiting");
            say("ready");
            if rank == 0
                && let Ok(how) = std::env::var("GINRS_TEST_ABORTS")
            {
                wait_for_word();
                own.abort.raise(Error::new(Code::SystemError, 23, "no memory for windows"));
                if how == "and ends" {
                    // SAFETY: it ends the process, and touches nothing.
                    unsafe { libc::_exit(9) };
                }
            }
            say_error(&own.cause());
            say_error(&own.boot.barrier("after the end").unwrap_err());
            let begun = Instant::now();
            drop(own);
            say(format!("gone in {} ms", begun.elapsed().as_millis()));
        }
        "leave" => {
            let own = joined(&id, rank, n);
            own.boot.barrier("all here").unwrap();
            if rank == 2 {
                own.watch.leaving();
                std::process::exit(0); // no drop, no farewell: only the page says it
            }
            std::thread::sleep(Duration::from_millis(200));
            say(own.abort.cause().map_or("calm".into(), Error::to_string));
            wait_for_word();
            // To wait for it all the same is a failure.
            say_error(&own.boot.barrier("without rank 2").unwrap_err());
            say(own.cause().id);
        }
        "join" => match Bootstrap::join(&id, rank, n) {
            Ok(boot) => {
                say("ready");
                if rank == 1 {
                    wait_for_word();
                }
                match boot.barrier("test barrier") {
                    Ok(()) => say("ok"),
                    Err(error) => say_error(&error),
                }
            }
            Err(error) => say_error(&error),
        },
        "steps" => {
            let own = joined(&id, rank, n);
            say("ready");
            // Ten a second, and each as large as what a window's making says.
            let steps = std::env::var("GINRS_TEST_STEPS").map_or(40, |steps| steps.parse().unwrap());
            for step in 0..steps {
                let all = own.boot.allgather("test step", &[step as u8; 5000]);
                match all {
                    Ok(all) => assert!(all.iter().all(|part| **part == [step as u8; 5000])),
                    Err(error) => return say_error(&error),
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            say(own.abort.cause().map_or("done".into(), Error::to_string));
            wait_for_word();
        }
        "late" => {
            let own = joined(&id, rank, n);
            say("ready");
            if rank == 1 {
                own.watch.set_step("ncclDevCommDestroy");
                wait_for_word();
            }
            say_error(&own.boot.barrier("window register #12").unwrap_err());
        }
        other => panic!("role {other}"),
    }
}

fn gather(id: &UniqueId, rank: u32, n: u32) {
    let own = joined(id, rank, n);
    let part = |rank: u32| vec![rank as u8; 1 + (rank as usize * 40_000) % 150_000];
    for _ in 0..3 {
        for (other, bytes) in (0..).zip(own.boot.allgather("test gather", &part(rank)).unwrap().iter()) {
            assert!(**bytes == part(other), "part of rank {other} on rank {rank}");
        }
        own.boot.barrier("test barrier").unwrap();
    }
    // Each rank shares a file with its number in it; everybody reads everybody's.
    let file = std::fs::File::from(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    (&file).write_all(&rank.to_le_bytes()).unwrap();
    own.boot.publish(7, file.into());
    let homes = own.boot.allgather("homes", &own.boot.fd_address().to_bytes()).unwrap();
    for (owner, home) in (0..n).zip(homes.iter()) {
        let home = ginrs::bootstrap::FdAddress::from_bytes(home[..].try_into().unwrap()).unwrap();
        let file = std::fs::File::from(own.boot.fetch(&home, owner, 7).unwrap());
        let mut number = [0; 4];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut number, 0).unwrap();
        assert_eq!(u32::from_le_bytes(number), owner);
        assert_eq!(own.boot.fetch(&home, owner, 8).unwrap_err().culprit, Some(owner));
    }
    own.boot.barrier("fetched").unwrap();
    own.watch.leaving();
}

/// Two communicators, one after the other, through NCCL_COMM_ID: every rank makes the id itself.
fn point() {
    let (rank, n) = (env("GINRS_TEST_RANK"), env("GINRS_TEST_N"));
    let id = UniqueId::create().unwrap();
    let first = Bootstrap::join(&id, rank, n).unwrap();
    let second = Bootstrap::join(&UniqueId::create().unwrap(), n - 1 - rank, n).unwrap();
    assert_ne!(first.comm_hash(), second.comm_hash());
    for boot in [first, second] {
        let all = boot.allgather("test gather", &boot.rank().to_le_bytes()).unwrap();
        assert!((0u32..).zip(all.iter()).all(|(rank, bytes)| **bytes == rank.to_le_bytes()));
        boot.barrier("done").unwrap();
    }
    say("done");
}

/// More ranks than the hard limit of descriptors lets in: every rank must hear so.
fn starved() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    setrlimit(Resource::Nofile, Rlimit { current: Some(60), maximum: Some(60) }).unwrap();
    let id = UniqueId::create().unwrap();
    let join = &|rank| Bootstrap::join(&id, rank, 64).err().map_or(0, |error| error.id);
    let ids: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..64).map(|rank| scope.spawn(move || join(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    say(ids.iter().all(|id| *id == 24));
}

/// A signal a millisecond, and no call of ours may be restarted by the kernel.
fn start_alarms() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: installs a handler that does nothing and starts a timer; both structs are whole.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()), 0);
        let every = libc::timeval { tv_sec: 0, tv_usec: 1000 };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()), 0);
    }
}

/// ncclGetUniqueId, then fork(), then init in the children: the root lives in the parent, which joins nothing.
fn forker() {
    let before = UniqueId::create().unwrap();
    let used = Bootstrap::join(&before, 0, 1).unwrap();
    let id = UniqueId::create().unwrap();
    let start = |rank: u32| {
        // SAFETY: what programs do that fork; the library must bear it. The child leaves with _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let told = used.barrier("in the child").unwrap_err();
            assert!(told.id == 60 && told.text.contains(&format!("forked child {}", std::process::id())), "{told}");
            let ok = std::panic::catch_unwind(|| gather(&id, rank, 3)).is_ok();
            // SAFETY: ends this forked child without running the test harness's exit handlers twice.
            unsafe { libc::_exit(if ok { 0 } else { 1 }) };
        }
        pid
    };
    let pids: Vec<i32> = (0..3).map(start).collect();
    for pid in pids {
        let mut status = -1;
        // SAFETY: pid is a child of this process and status outlives the call.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        say(format!("status {status}"));
    }
    used.barrier("in the parent").unwrap();
}
