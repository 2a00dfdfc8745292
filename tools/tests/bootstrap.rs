//! examples-c/common/ginrs_bootstrap.h, which users put into their programs: who gets the bytes, and that nobody else can keep
//! a rank from them.

#[path = "../../src/hang_limit.rs"]
mod hang_limit;

use hang_limit::{HANG_LIMIT, hang_deadline};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const NOBODY: u32 = 65534;

/// Broadcasts PAYLOAD of rank 0, or what argument 1 says as its size, and prints it.
const PROGRAM: &str = r#"
#include "ginrs_bootstrap.h"
int main(int argc, char** argv) {
  ginrsBootstrap b;
  static char bytes[4 << 20];
  size_t size = argc > 1 ? (size_t)atol(argv[1]) : 128;
  if (ginrsBootstrapInit(&b)) return 3;
  if (b.far) return ginrsBootstrapMakesId(&b) ? 0 : 5;
  if (b.rank == 0) snprintf(bytes, sizeof bytes, "%s", getenv("PAYLOAD"));
  bytes[size - 1] = 'e';
  if (ginrsBootstrapBroadcast(&b, bytes, size)) return 4;
  printf("%d: %s %c\n", b.rank, bytes, bytes[size - 1]);
  return 0;
}
"#;

/// The header's folder; another one to see that these tests fail with it.
fn common() -> String {
    std::env::var("GINRS_TEST_BOOTSTRAP").unwrap_or_else(|_| format!("{}/../examples-c/common", env!("CARGO_MANIFEST_DIR")))
}

/// The program, built once, in a folder that other users can enter.
fn program() -> &'static Path {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        open_to_all(folder.path());
        let (source, program) = (folder.path().join("share.c"), folder.path().join("share"));
        std::fs::write(&source, PROGRAM).unwrap();
        let built = Command::new("gcc")
            .args(["-Wall", "-Wextra", "-Werror", "-std=c11", "-O1", &format!("-I{}", common()), "-o"])
            .args([&program, &source])
            .status();
        assert!(built.unwrap().success());
        (folder, program)
    });
    path
}

fn open_to_all(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o1777)).unwrap();
}

/// Ports of a job nobody else uses: torchrun's store listens on the first, as here, and the old helper listened on the next.
fn ports() -> (u16, TcpListener) {
    let store = TcpListener::bind("127.0.0.1:0").unwrap();
    (store.local_addr().unwrap().port(), store)
}

struct Job {
    folder: PathBuf,
    port: u16,
    ranks: u32,
}

impl Job {
    fn rank(&self, rank: u32) -> Command {
        let mut command = Command::new(program());
        command
            .env_clear()
            .envs([("TMPDIR", self.folder.to_str().unwrap()), ("MASTER_ADDR", "127.0.0.1"), ("PAYLOAD", "secret")])
            .env("MASTER_PORT", self.port.to_string())
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", self.ranks.to_string())
            .env("GINRS_BOOTSTRAP_TIMEOUT", "100")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Every way to rank 0 that this process has.
    fn doors(&self) -> Vec<Box<dyn Connection>> {
        let mut doors: Vec<Box<dyn Connection>> = Vec::new();
        if let Ok(tcp) = TcpStream::connect(("127.0.0.1", self.port + 1)) {
            doors.push(Box::new(tcp));
        }
        for folder in std::fs::read_dir(&self.folder).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
            for socket in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                doors.extend(UnixStream::connect(socket.path()).map(|unix| Box::new(unix) as Box<dyn Connection>));
            }
        }
        doors
    }

    /// The same, as soon as there is one.
    fn wait_for_doors(&self) -> Vec<Box<dyn Connection>> {
        let until = hang_deadline();
        loop {
            let doors = self.doors();
            if !doors.is_empty() {
                return doors;
            }
            assert!(Instant::now() < until, "rank 0 does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

fn finish(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn all_right(ranks: impl IntoIterator<Item = Child>, payload: &str) {
    for (rank, output) in ranks.into_iter().map(finish).enumerate() {
        assert_eq!(text(&output), format!("{rank}: {payload} e\n"));
    }
}

fn root() -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
    if !root {
        println!("skipped: to act as another user this test must run as root");
    }
    root
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    folder
}

/// A greeting as the header writes it now, and one as it did when it listened on a network address.
fn greetings(rank: u32, ranks: u32) -> [Vec<u8>; 2] {
    let words = [rank, ranks, 1, 128];
    let native = words.iter().flat_map(|word| word.to_ne_bytes());
    let network = words.iter().flat_map(|word| word.to_be_bytes());
    [b"ginrsid2".iter().copied().chain(native).collect(), b"ginrsid1".iter().copied().chain(network).collect()]
}

/// What a stranger that runs as this process's user gets by asking as rank 1.
fn ask_as_rank_1(job: &Job) -> Vec<u8> {
    let mut got = Vec::new();
    for greeting in greetings(1, job.ranks) {
        for mut door in job.doors() {
            let _ = door.write_all(&greeting);
            let _ = door.read_to_end(&mut got);
        }
    }
    got
}

/// Runs `body` in a child process of another user; what it prints is returned.
fn as_nobody(test: &str, job: &Job) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("GINRS_TEST_STRANGER", format!("{}:{}:{}", job.folder.display(), job.port, job.ranks))
        .uid(NOBODY)
        .gid(NOBODY)
        .output();
    text(&output.unwrap())
}

/// In that child: the job to attack.
fn stranger() -> Option<Job> {
    let word = std::env::var("GINRS_TEST_STRANGER").ok()?;
    let mut parts = word.rsplitn(3, ':');
    let (ranks, port) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(Job { folder: parts.next()?.into(), ranks, port })
}

/// As much of nccl.h as the header knows.
const NCCL: &str = r#"
#include <stdio.h>
#define NCCL_MAJOR 2
typedef struct { char internal[128]; } ncclUniqueId;
typedef enum { ncclSuccess } ncclResult_t;
typedef struct ncclComm* ncclComm_t;
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
const char* ncclGetLastError(ncclComm_t comm);
"#;

#[test]
fn it_compiles_in_every_language() {
    let source = program().with_file_name("share.c");
    std::fs::write(source.with_file_name("nccl.h"), NCCL).unwrap();
    let [ours, theirs] = ["ginrs_bootstrap.h", "nccl.h"].map(|header| format!("#include \"{header}\"\n"));
    let main = "int main(void) {\n  ginrsBootstrap boot;\n  ncclUniqueId id;\n  return ginrsBootstrapInit(&boot) || \
                ginrsBootstrapUniqueId(&boot, &id);\n}\n";
    let function = "int (*share)(ginrsBootstrap*, ncclUniqueId*) = ginrsBootstrapUniqueId;\n";
    let [before, behind] =
        [("before.c", [&ours, &theirs], ""), ("behind.c", [&theirs, &ours], function)].map(|(name, headers, more)| {
            let path = source.with_file_name(name);
            std::fs::write(&path, format!("{}{}{main}{more}", headers[0], headers[1])).unwrap();
            path
        });
    let mut skipped = Vec::new();
    for (compiler, language, standards) in [
        ("gcc", "c", &["c99", "c11", "gnu17"][..]),
        ("g++", "c++", &["c++11", "c++17", "c++20"]),
        ("clang", "c", &["c11", "gnu17"]),
        ("clang++", "c++", &["c++14", "c++20"]),
    ] {
        for standard in standards {
            for source in [&source, &before, &behind] {
                let mut command = Command::new(compiler);
                command.args(["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-fsyntax-only", "-x", language]);
                match command.arg(format!("-std={standard}")).arg(format!("-I{}", common())).arg(source).output() {
                    Err(e) if compiler.starts_with("clang") => skipped.push(format!("{compiler}: {e}")),
                    // Strict C hides what the header needs of Unix, once another one has asked for nothing more.
                    Ok(output) if source == &behind && ["c99", "c11"].contains(standard) => {
                        assert!(text(&output).contains("include this one first"), "{compiler} {standard}: {}", text(&output));
                    }
                    output => {
                        let output = output.unwrap();
                        assert!(output.status.success(), "{compiler} {standard}: {}", text(&output));
                    }
                }
            }
        }
    }
    skipped.iter().for_each(|line| println!("skipped: {line}"));
}

#[test]
fn another_user_gets_nothing_and_takes_no_ranks_place() {
    if let Some(job) = stranger() {
        return println!("got:{}", String::from_utf8_lossy(&ask_as_rank_1(&job)));
    }
    if !root() {
        return;
    }
    let (folder, (port, _store)) = (folder(), ports());
    let job = Job { folder: folder.path().into(), port, ranks: 2 };
    let first = job.rank(0).spawn().unwrap();
    drop(job.wait_for_doors());
    let stolen = as_nobody("another_user_gets_nothing_and_takes_no_ranks_place", &job);
    assert!(stolen.contains("got:") && !stolen.contains("secret"), "{stolen}");
    all_right([first, job.rank(1).spawn().unwrap()], "secret");
}

/// Another user makes the folder first, a link in its place, all folders there could be.
#[test]
fn a_squatted_folder_is_passed_over_and_all_squatted_are_told() {
    if let Some(job) = stranger() {
        let count: u32 = job.ranks;
        for i in 0..count {
            let name = if i == 0 { "ginrs-0".into() } else { format!("ginrs-0.{i}") };
            let path = job.folder.join(name);
            match i {
                1 => std::os::unix::fs::symlink("/tmp", path).unwrap(),
                _ => {
                    std::fs::create_dir(&path).unwrap();
                    open_to_all(&path);
                }
            }
        }
        return;
    }
    if !root() {
        return;
    }
    for squatted in [2, 8] {
        let (folder, (port, _store)) = (folder(), ports());
        let squat = Job { folder: folder.path().into(), port, ranks: squatted };
        as_nobody("a_squatted_folder_is_passed_over_and_all_squatted_are_told", &squat);
        let job = Job { ranks: 2, ..squat };
        let second = job.rank(1).env("GINRS_BOOTSTRAP_TIMEOUT", if squatted == 8 { "1" } else { "100" }).spawn().unwrap();
        let ranks = [job.rank(0).spawn().unwrap(), second];
        if squatted < 8 {
            all_right(ranks, "secret");
            continue;
        }
        for output in ranks.into_iter().map(finish) {
            assert_eq!(output.status.code(), Some(4));
            assert!(text(&output).contains("another user has"), "{}", text(&output));
        }
    }
}

/// Of the same user: silent, cut short, garbage, of a job that is no more; and a rank that does not read.
#[test]
fn silent_and_broken_connections_hold_nobody_up() {
    let (folder, (port, _store)) = (folder(), ports());
    let job = Job { folder: folder.path().into(), port, ranks: 3 };
    let first = job.rank(0).arg("4000000").spawn().unwrap();
    drop(job.wait_for_doors());
    let mut held = Vec::new();
    for i in 0..100 {
        for mut door in job.doors() {
            let _ = match i % 5 {
                0 => door.write_all(b"ginrs"),
                1 => door.write_all(&[0xff; 4096]),
                2 => greetings(9, 3).iter().try_for_each(|greeting| door.write_all(greeting)),
                _ => Ok(()),
            };
            held.push(door);
        }
    }
    let ranks = [1, 2].map(|rank| job.rank(rank).arg("4000000").spawn().unwrap());
    let start = Instant::now();
    all_right(std::iter::once(first).chain(ranks), "secret");
    // One after the other they would take 2 s each.
    assert!(start.elapsed() < HANG_LIMIT, "{:?}", start.elapsed());
    assert!(held.len() >= 100);
}

#[test]
fn jobs_on_neighbouring_ports_and_late_ranks_meet() {
    let folder = folder();
    let base = (0..100)
        .find_map(|_| {
            let (port, store) = ports();
            let rest: Vec<_> = (1..4).map_while(|i| TcpListener::bind(("127.0.0.1", port.checked_add(i)?)).ok()).collect();
            (rest.len() == 3).then_some((port, store, rest))
        })
        .expect("four free ports");
    let jobs = [0, 1, 2].map(|i| Job { folder: folder.path().into(), port: base.0 + i, ranks: 3 });
    let start = |job: &Job, rank| job.rank(rank).env("PAYLOAD", format!("job{}", job.port)).spawn().unwrap();
    // Rank 0 of one job comes last, rank 2 of all others does.
    let mut early: Vec<Vec<Child>> = jobs
        .iter()
        .enumerate()
        .map(|(i, job)| (0..3).filter(|rank| *rank != if i == 0 { 0 } else { 2 }).map(|rank| start(job, rank)).collect())
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    early[0].insert(0, start(&jobs[0], 0));
    for (ranks, job) in early.iter_mut().zip(&jobs).skip(1) {
        ranks.push(start(job, 2));
    }
    for (ranks, job) in early.into_iter().zip(&jobs) {
        all_right(ranks, &format!("job{}", job.port));
    }
}

/// So few descriptors as a container may give: they do, or rank 0 says what it lacks.
#[test]
fn few_descriptors_are_enough_and_too_few_are_told() {
    let folder = folder();
    let job = |most: libc::rlim_t, wait: &str| {
        let (port, _store) = ports();
        let job = Job { folder: folder.path().into(), port, ranks: 3 };
        let start = |rank| {
            let mut command = job.rank(rank);
            let few = libc::rlimit { rlim_cur: most, rlim_max: most };
            // SAFETY: the child calls setrlimit alone, which may be called there.
            unsafe {
                command.pre_exec(move || {
                    if libc::setrlimit(libc::RLIMIT_NOFILE, &few) == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
                })
            };
            command.env("GINRS_BOOTSTRAP_TIMEOUT", wait).spawn().unwrap()
        };
        (0..3).map(start).collect::<Vec<_>>()
    };
    all_right(job(16, "100"), "secret");
    let said: Vec<String> = job(5, "5").into_iter().map(|child| text(&finish(child))).collect();
    assert!(said[0].contains("0 of 2 came; accept: Too many open files"), "{said:?}");
}

/// What an earlier job with the same id left is not taken: bytes of the file exchange that once was, a killed rank 0's socket.
#[test]
fn nothing_of_an_earlier_job_is_taken() {
    let folder = folder();
    let job = Job { folder: folder.path().into(), port: 0, ranks: 2 };
    let rank = |rank: u32| {
        let mut command = job.rank(rank);
        command.env_remove("MASTER_ADDR").env_remove("MASTER_PORT").envs([("SLURM_JOB_ID", "77"), ("SLURM_STEP_ID", "1")]);
        command
    };
    let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    std::fs::write(folder.path().join(format!("ginrs-{uid}-77-1-1")), [b's'; 128]).unwrap();
    let mut killed = rank(0).env("PAYLOAD", "stale").spawn().unwrap();
    let sockets = || std::fs::read_dir(folder.path().join(format!("ginrs-{uid}"))).map_or(0, Iterator::count);
    let until = hang_deadline();
    while sockets() == 0 {
        assert!(Instant::now() < until, "rank 0 does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let second = rank(1).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    all_right([rank(0).spawn().unwrap(), second], "secret");
    assert_eq!(sockets(), 0);
}

#[test]
fn what_does_not_fit_is_told_at_once_and_names_the_process() {
    let (folder, (port, _store)) = (folder(), ports());
    let job = Job { folder: folder.path().into(), port, ranks: 2 };
    let first = job.rank(0).env("GINRS_BOOTSTRAP_TIMEOUT", "8").spawn().unwrap();
    drop(job.wait_for_doors());
    let start = Instant::now();
    let other = finish(job.rank(0).spawn().unwrap());
    assert!(text(&other).contains(&format!("pid {} is rank 0 of a job that looks the same", first.id())), "{}", text(&other));
    let odd = finish(job.rank(1).arg("64").spawn().unwrap());
    assert!(text(&odd).contains(&format!("rank 0 (pid {}) has something else: 128 bytes", first.id())), "{}", text(&odd));
    assert!(start.elapsed() < Duration::from_secs(8));
    let first = finish(first);
    assert!(text(&first).contains("0 of 1 came; rank 1 of 2 (pid "), "{}", text(&first));
}

#[test]
fn variables_that_say_half_are_told() {
    let folder = folder();
    let job = Job { folder: folder.path().into(), port: 65535, ranks: 2 };
    let alone = finish(job.rank(1).env_remove("WORLD_SIZE").spawn().unwrap());
    assert!(!alone.status.success() && text(&alone).contains("RANK=1, and WORLD_SIZE is not set"), "{}", text(&alone));
    let far = finish(job.rank(1).env("LOCAL_WORLD_SIZE", "1").spawn().unwrap());
    assert!(!far.status.success() && text(&far).contains("MASTER_PORT, and there is none: 65535"), "{}", text(&far));
}

/// A listener of another user under the job's own name: it cannot make one in our folder, so ours is opened to it here.
#[test]
fn a_rank_asks_no_listener_of_another_user() {
    if let Some(job) = stranger() {
        let listener = UnixListener::bind(job.folder.join("bootstrap-planted")).unwrap();
        println!("listening");
        listener.set_nonblocking(true).unwrap();
        return;
    }
    if !root() {
        return;
    }
    let (folder, (port, _store)) = (folder(), ports());
    let job = Job { folder: folder.path().join("run"), port, ranks: 2 };
    std::fs::create_dir(&job.folder).unwrap();
    open_to_all(&job.folder);
    assert!(as_nobody("a_rank_asks_no_listener_of_another_user", &job).contains("listening"));
    for rank in [0, 1] {
        let run = job.rank(rank).env("GINRS_RUN_ID", &job.folder).env("GINRS_BOOTSTRAP_TIMEOUT", "1").output().unwrap();
        assert_eq!(run.status.code(), Some(4), "a folder that others can enter is not used: {}", text(&run));
    }
}
