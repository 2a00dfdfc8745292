//! ginrs-run where something is short: processes, files, room for output; and ranks that are stopped or leave early.

#[path = "../../src/hang_limit.rs"]
mod hang_limit;

use hang_limit::{HANG_LIMIT, hang_deadline};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn script(options: &[&str], script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ginrs-run"));
    command.args(options).args(["sh", "-c", script]);
    command
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn signal(pid: impl ToString, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// Field 3 of /proc/PID/stat: T for stopped.
fn state(pid: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit(") ").next().unwrap_or_default().chars().take(1).collect()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = hang_deadline();
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn output_that_is_lost_is_told_and_fails_the_job() {
    let full = || Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let output = script(&["-n", "2"], "echo result").stdout(full()).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(errors(&output).matches("standard output: No space left on device").count(), 1, "{}", errors(&output));
    // A rank's own failure is the better answer, and a full stderr alone is no reason to end either.
    let output = script(&["-n", "2"], "echo x; exit 9").stdout(full()).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    let output = script(&["-n", "1"], "echo x >&2; echo y").stdout(Stdio::piped()).stderr(full()).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b"[0] y\n"[..]));
}

#[test]
fn who_stops_reading_does_not_end_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let text = format!("i=0; while [ $i -lt 3000 ]; do echo line; i=$((i+1)); done; touch {}", done.display());
    let mut job = script(&["-n", "1"], &text).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(job.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!((first.as_str(), job.wait().unwrap().code()), ("[0] line\n", Some(0)));
    assert!(done.exists());
}

/// A limit on processes that lets nothing or not all start. Root has no such limit, so root tries as nobody.
#[test]
fn too_few_processes_are_an_error_and_no_panic() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let tool = folder.path().join("ginrs-run");
    std::fs::copy(env!("CARGO_BIN_EXE_ginrs-run"), &tool).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let root = std::fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t");
    for limit in [1, 2, 3, 5] {
        let mut command = Command::new("bash");
        let line = format!("ulimit -u {limit}; exec {} -n 16 sleep 900", tool.display());
        command.args(["-c", &line]).env("TMPDIR", folder.path()).env_remove("RUST_BACKTRACE");
        if root {
            command.uid(65_534);
        }
        let output = command.output().unwrap();
        let text = errors(&output);
        assert!(
            matches!(output.status.code(), Some(1 | 127)) && text.contains("ulimit -u") && !text.contains("panicked"),
            "{limit}: {text}"
        );
    }
}

#[test]
fn ranks_need_not_fit_into_the_soft_limit_on_files() {
    let line = format!("ulimit -Sn 40; exec {} -n 30 --no-prefix sh -c 'ulimit -Sn'", env!("CARGO_BIN_EXE_ginrs-run"));
    let output = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "40\n".repeat(30));
}

#[test]
fn a_rank_that_cannot_start_ends_the_others() {
    let line = format!(
        "ulimit -n 24; exec {} -n 30 sh -c 'trap \"echo asked; exit 0\" TERM; sleep 900 & wait'",
        env!("CARGO_BIN_EXE_ginrs-run")
    );
    let started = Instant::now();
    let output = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert_eq!(output.status.code(), Some(127), "{}", errors(&output));
    assert!(errors(&output).contains("ulimit -n") && started.elapsed() < HANG_LIMIT, "{}", errors(&output));
}

/// The lines of a job's stderr as they come.
fn started(options: &[&str], text: &str) -> (Child, impl Iterator<Item = String>) {
    let mut job = script(options, text).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(job.stderr.take().unwrap()).lines().map(|l| l.unwrap());
    (job, lines)
}

#[test]
fn a_stopped_rank_is_told_and_may_go_on() {
    let (mut job, mut lines) = started(&["-n", "2"], "[ $RANK = 1 ] && kill -STOP $$; echo on");
    let line = lines.next().unwrap();
    let pid = line.split_once("rank 1 (pid ").and_then(|(_, rest)| rest.split_once(')')).expect(&line).0.to_owned();
    assert!(line.contains("was stopped by signal 19 (SIGSTOP)"), "{line}");
    assert_eq!(state(&pid), "T");
    signal(&pid, "-CONT");
    assert!(job.wait().unwrap().success());
    // On a very busy machine the other rank may have left long before.
    assert!(lines.all(|l| l.contains("ended with status 0")));
}

/// A stopped process gets SIGTERM only when it goes on.
#[test]
fn a_stopped_rank_hears_that_the_job_ends() {
    let text = "[ $RANK = 0 ] && { until [ -e $GINRS_RUN_ID/stopped ]; do sleep 0.05; done; exit 3; }\n\
                trap 'echo asked; exit 0' TERM; (until grep -q ') T ' /proc/$$/stat; do sleep 0.05; done; touch $GINRS_RUN_ID/stopped) &\n\
                kill -STOP $$; while :; do sleep 0.1; done";
    let output = script(&["-n", "2", "--grace", "60"], text).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stdout).contains("[1] asked"), "{output:?}");
}

/// As a terminal does it: Ctrl-Z, fg. The ranks wait without starting anything: a shell whose child is stopped between vfork and exec is not.
#[test]
fn a_stop_of_ginrs_run_is_one_of_the_job() {
    let mut job = script(
        &["-n", "2", "--no-prefix"],
        "mkfifo $GINRS_RUN_ID/go$RANK; echo $$; read x; read x < $GINRS_RUN_ID/go$RANK; echo $GINRS_RUN_ID",
    )
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(job.stdout.take().unwrap()).lines();
    let pids: Vec<String> = (0..2).map(|_| lines.next().unwrap().unwrap()).collect();
    let run = job.id().to_string();
    signal(&run, "-TSTP");
    until("all stop", || state(&run) == "T" && pids.iter().all(|p| state(p) == "T"));
    signal(&run, "-CONT");
    until("all go on", || state(&run) != "T" && pids.iter().all(|p| state(p) != "T"));
    let folder = std::fs::read(format!("/proc/{}/environ", pids[0])).unwrap();
    let folder = folder.split(|&b| b == 0).find_map(|v| v.strip_prefix(b"GINRS_RUN_ID=")).unwrap();
    for rank in 0..2 {
        std::fs::write(format!("{}/go{rank}", String::from_utf8_lossy(folder)), "").unwrap();
    }
    let mut rest = String::new();
    lines.for_each(|l| rest += &l.unwrap());
    assert!(job.wait().unwrap().success() && rest.contains("ginrs-run"), "{rest}");
}

#[test]
fn users_signals_are_handed_on() {
    let text = "trap 'echo first' USR1; trap 'echo second; exit 0' USR2; echo ready; while :; do sleep 0.05; done";
    let mut job = script(&["-n", "1", "--no-prefix"], text).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(job.stdout.take().unwrap()).lines().map(|l| l.unwrap());
    for (name, line) in [("", "ready"), ("-USR1", "first"), ("-USR2", "second")] {
        if !name.is_empty() {
            signal(job.id(), name);
        }
        assert_eq!(lines.next().unwrap(), line);
    }
    assert!(job.wait().unwrap().success());
}

/// Whoever waits for a rank that has left by itself is not told by anyone else.
#[test]
fn a_rank_that_left_early_is_told_while_others_wait() {
    let (mut job, mut lines) = started(&["-n", "3"], "[ $RANK = 1 ] && exit 0; exec sleep 900");
    let line = lines.next().unwrap();
    assert!(line.contains("rank 1 ended with status 0") && line.contains("rank 0, 2 still running"), "{line}");
    signal(job.id(), "-INT");
    assert_eq!(job.wait().unwrap().code(), Some(130));
    let mut rest = String::new();
    job.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!((lines.next(), rest.as_str()), (None, ""));
}
