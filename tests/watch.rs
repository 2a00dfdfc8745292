//! Ranks as processes: exchanges and descriptors between them, and what the others hear when one dies, aborts, leaves, stops,
//! is late or forks. Each test starts this binary again; `child` is what those processes run.

use ginrs::abort::Abort;
use ginrs::bootstrap::{Bootstrap, UniqueId};
use ginrs::device::ControlMemory;
use ginrs::error::{Code, Error};
use ginrs::watch::Watch;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

// What the started processes do.

struct Rank {
    boot: Bootstrap,
    watch: Watch,
    abort: Arc<Abort>,
}

fn joined(id: &UniqueId, rank: u32, n: u32) -> Rank {
    let boot = Bootstrap::join(id, rank, n).unwrap();
    let abort = Arc::new(Abort::new(ControlMemory::anonymous(4096).unwrap()));
    boot.attach_abort(abort.clone());
    let watch = Watch::start(&boot, &abort).unwrap();
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
    let hex = std::env::var("GINRS_TEST_ID").unwrap();
    let bytes: Vec<u8> = (0..128).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
    let id = UniqueId::from_bytes(bytes.as_slice().try_into().unwrap()).unwrap();
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
            if rank == 0 && std::env::var_os("GINRS_TEST_ABORTS").is_some() {
                wait_for_word();
                own.abort.raise(Error::new(Code::SystemError, 23, "no memory for windows"));
            }
            say_error(&own.cause());
            say_error(&own.boot.barrier("after the end").unwrap_err());
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
        for (other, bytes) in (0..).zip(own.boot.allgather("test gather", &part(rank)).unwrap()) {
            assert!(bytes == part(other), "part of rank {other} on rank {rank}");
        }
        own.boot.barrier("test barrier").unwrap();
    }
    // Each rank shares a file with its number in it; everybody reads everybody's.
    let file = std::fs::File::from(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    (&file).write_all(&rank.to_le_bytes()).unwrap();
    own.boot.publish(7, file.into());
    let homes = own.boot.allgather("homes", &own.boot.fd_address().to_bytes()).unwrap();
    for (owner, home) in (0..n).zip(homes) {
        let home = ginrs::bootstrap::FdAddress::from_bytes(home.as_slice().try_into().unwrap()).unwrap();
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
        assert!((0u32..).zip(&all).all(|(rank, bytes)| *bytes == rank.to_le_bytes()));
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

// The tests.

struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Process {
    fn start(role: &str, environment: &[(&str, String)]) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--ignored", "--exact", "child", "--nocapture", "--test-threads=1"])
            .env("GINRS_TEST_ROLE", role)
            .env("RUST_BACKTRACE", "0");
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = std::sync::mpsc::channel();
        let streams: [Box<dyn Read + Send>; 2] = [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let tell = tell.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    // libtest may leave its own words before ours on a line.
                    let line = line.split_once("OUT ").map_or_else(|| format!("(raw) {line}"), |(_, ours)| ours.to_owned());
                    let _ = tell.send(line);
                }
            });
        }
        let stdin = child.stdin.take();
        Process { child, stdin, lines }
    }

    /// The next line that `child` said; warnings and libtest's words are passed over, and shown when it never comes.
    fn line(&self) -> String {
        let (mut passed, until) = (Vec::new(), Instant::now() + Duration::from_secs(20));
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("(raw)") => passed.push(line),
                Ok(line) => return line,
                Err(e) => panic!("process {}: {e}; it said {passed:#?}", self.child.id()),
            }
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: our own child, not yet waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `n` processes in a role, one rank each, with more environment.
fn start(role: &str, n: u32, more: &[(&str, &str)]) -> (UniqueId, Vec<Process>) {
    let id = UniqueId::create().unwrap();
    let all = (0..n).map(|rank| start_rank(role, &id, rank, n, more)).collect();
    (id, all)
}

fn start_rank(role: &str, id: &UniqueId, rank: u32, n: u32, more: &[(&str, &str)]) -> Process {
    let hex = id.bytes().iter().map(|b| format!("{b:02x}")).collect();
    let mut environment = vec![("GINRS_TEST_ID", hex), ("GINRS_TEST_RANK", rank.to_string()), ("GINRS_TEST_N", n.to_string())];
    environment.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    Process::start(role, &environment)
}

#[test]
fn processes_and_threads_mix() {
    let id = UniqueId::create().unwrap();
    let here = [(0, "1"), (1, "3"), (4, "2"), (6, "1")];
    let all: Vec<_> =
        here.iter().map(|(first, count)| start_rank("gather", &id, *first, 7, &[("GINRS_TEST_HERE", count)])).collect();
    for process in &all {
        assert_eq!(process.line(), "done");
    }
}

#[test]
fn a_storm_of_signals_changes_nothing() {
    let id = UniqueId::create().unwrap();
    let storm = [("GINRS_TEST_HERE", "1"), ("GINRS_TEST_ALARMS", "1")];
    let all: Vec<_> = (0..3).map(|rank| start_rank("gather", &id, rank, 3, &storm)).collect();
    all.iter().for_each(|process| assert_eq!(process.line(), "done"));
}

#[test]
fn a_lack_of_descriptors_is_told_to_every_rank() {
    assert_eq!(Process::start("starved", &[]).line(), "true");
}

#[test]
fn ranks_meet_at_nccl_comm_id() {
    let point = format!("127.0.0.1:{}", 1024 + std::process::id() % 60000);
    let more = [("NCCL_COMM_ID", point.as_str()), ("GINRS_SECRET", "between us")];
    let (_unused, all) = start("point", 3, &more);
    all.iter().for_each(|process| assert_eq!(process.line(), "done"));
}

#[test]
fn a_killed_rank_is_named_to_all_others_at_once() {
    let (_id, all) = start("cause", 4, &[]);
    all.iter().for_each(|process| assert_eq!(process.line(), "ready"));
    let (start, pid) = (Instant::now(), all[1].child.id());
    all[1].signal(libc::SIGKILL);
    for rank in [0, 2, 3] {
        let told: &Process = &all[rank];
        let cause = told.line();
        assert!(
            cause.starts_with(&format!("E040 by 1 RemoteError: rank 1 (pid {pid}) died, killed by SIGKILL")),
            "rank {rank}: {cause}"
        );
        assert!(cause.contains("it was in \"test waiting\""), "rank {rank}: {cause}");
        let later = told.line();
        assert!(later.starts_with("E040 by 1"), "rank {rank}: {later}");
    }
    println!("three survivors knew after {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn an_abort_reaches_all_processes_with_its_cause() {
    let (_id, mut all) = start("cause", 3, &[("GINRS_TEST_ABORTS", "1")]);
    all.iter().for_each(|process| assert_eq!(process.line(), "ready"));
    drop(all[0].stdin.take());
    assert_eq!(all[0].line(), "E023 by -1 SystemError: no memory for windows");
    for process in &all[1..] {
        assert_eq!(process.line(), "E023 by 0 RemoteError: rank 0 failed: no memory for windows");
        assert_eq!(process.line(), "E023 by 0 RemoteError: rank 0 failed: no memory for windows");
    }
}

#[test]
fn a_rank_that_leaves_raises_nothing() {
    let (_id, mut all) = start("leave", 3, &[]);
    all[..2].iter().for_each(|process| assert_eq!(process.line(), "calm"));
    all.iter_mut().for_each(|process| drop(process.stdin.take()));
    for process in &all[..2] {
        let told = process.line();
        assert!(told.starts_with("E042 by 2 RemoteError: rank 2 (pid") && told.contains("has left"), "{told}");
        assert_eq!(process.line(), "42");
    }
}

#[test]
fn a_death_while_others_join_or_exchange_ends_their_waits() {
    // Rank 2 never starts; rank 0 dies in the rendezvous.
    let id = UniqueId::create().unwrap();
    let all: Vec<_> =
        (0..2).map(|rank| start_rank("join", &id, rank, 3, &[("GINRS_WAIT_WARN", "1"), ("NCCL_DEBUG", "INFO")])).collect();
    let warned = |process: &Process| loop {
        let line = process.lines.recv_timeout(Duration::from_secs(20)).unwrap();
        if line.contains("GINRS-W011") && line.contains("2/3 ranks joined, missing rank 2") {
            break;
        }
    };
    all.iter().for_each(warned);
    all[0].signal(libc::SIGKILL);
    let told = all[1].line();
    assert!(told.starts_with("E040 by 0 RemoteError: rank 0 (pid"), "{told}");

    // Rank 1 dies between the rendezvous and the watch: the closed links tell.
    let (_id, all) = start("join", 3, &[]);
    all.iter().for_each(|process| assert_eq!(process.line(), "ready"));
    std::thread::sleep(Duration::from_millis(100));
    all[1].signal(libc::SIGKILL);
    for process in [&all[0], &all[2]] {
        let told = process.line();
        assert!(told.starts_with("E040 by 1 RemoteError: rank 1 (pid"), "{told}");
    }
}

#[test]
fn a_missing_rank_is_named_at_the_deadline() {
    let id = UniqueId::create().unwrap();
    let start = Instant::now();
    let all: Vec<_> = [0, 2].into_iter().map(|rank| start_rank("join", &id, rank, 4, &[("GINRS_INIT_TIMEOUT", "2")])).collect();
    for process in &all {
        let told = process.line();
        assert!(
            told.starts_with("E011 by 1 RemoteError: not all ranks joined in time")
                && told.contains("2/4 ranks joined, missing rank 1, 3"),
            "{told}"
        );
    }
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_late_rank_is_named_with_what_it_does_instead() {
    let patience = [("GINRS_TIMEOUT", "3"), ("GINRS_WAIT_WARN", "1"), ("NCCL_DEBUG", "WARN")];
    let (_id, all) = start("late", 3, &patience);
    all.iter().for_each(|process| assert_eq!(process.line(), "ready"));
    for process in [&all[0], &all[2]] {
        let told = process.line();
        let pid = all[1].child.id();
        assert!(
            told.starts_with("E017 by 1 RemoteError")
                && told
                    .contains(&format!("2/3 ranks arrived after 3 s; missing: rank 1 (pid {pid}) is in \"ncclDevCommDestroy\"")),
            "{told}"
        );
    }

    let (_id, all) = start("late", 2, &patience);
    all.iter().for_each(|process| assert_eq!(process.line(), "ready"));
    all[1].signal(libc::SIGSTOP);
    let told = all[0].line();
    assert!(told.starts_with("E017 by 1") && told.contains("does not answer, its process is stopped"), "{told}");
}

#[test]
fn children_forked_after_the_id_was_made_can_use_it() {
    let process = Process::start("forker", &[]);
    for _ in 0..3 {
        assert_eq!(process.line(), "status 0");
    }
}
