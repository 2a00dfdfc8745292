//! `ginrs-run --waits`: what a running job waits for, asked from another terminal, however its ranks were started; and nothing ends by it.

#[path = "../../src/hang_limit.rs"]
mod hang_limit;

use abi_tests::programs::{compiled, compiled_as, compiled_with_theirs, line_of};
use abi_tests::{prefix, text};
use hang_limit::HANG_LIMIT;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const SOURCE: &str = "abi-tests/hangs/hang.cu";

/// A program that is ended with the test.
struct Job(Child);

impl Job {
    /// Starts two ranks of which the first sleeps before it signals, for longer than a test lasts.
    fn start(mut command: Command) -> Job {
        Job(command.env("HANG_SECONDS", "900").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn of_processes() -> Job {
        Self::running(&compiled(SOURCE), "sleep")
    }

    fn running(program: &Path, case: &str) -> Job {
        let mut command = Command::new(prefix().join("bin/ginrs-run"));
        command.args(["-n", "2", "--timeout", "900"]).arg(program).arg(case);
        Self::start(command)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // Its ranks hear by SIGTERM, and by the end of a ginrs-run that is killed.
        let _ = Command::new("kill").args(["-CONT", &self.pid().to_string()]).status();
        let _ = Command::new("kill").arg(self.pid().to_string()).status();
        let _ = self.0.wait();
    }
}

fn ask(arguments: &[String]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240"]).arg(prefix().join("bin/ginrs-run")).arg("--waits").args(arguments);
    command.output().unwrap()
}

/// What `ask` says once it says `word`.
#[track_caller]
fn once_it_says(word: &str, arguments: &[String]) -> Output {
    let begin = Instant::now();
    loop {
        let output = ask(arguments);
        if text(&output).contains(word) {
            return output;
        }
        assert!(begin.elapsed() < HANG_LIMIT, "no {word:?} in {}: {}", output.status, text(&output));
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn children(pid: u32) -> Vec<u32> {
    let all = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    all.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn signal(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

const WAIT: &str = "GINRS-W019 rank 1 block 0 waits for signal 0 >= 1 (has 0) of context 0 for ";

#[test]
fn all_ranks_of_a_job_answer_who_asks_and_go_on() {
    let mut job = Job::of_processes();
    for round in 0..3 {
        let output = once_it_says(WAIT, &[job.pid().to_string()]);
        let said = text(&output);
        let lines: Vec<&str> = said.lines().collect();
        assert!(output.status.success() && lines.len() == 2, "{round}, {}: {said}", output.status);
        let idle = "GINRS-W019 rank 0: no kernel of it is known to wait, its host is or was last in no collective step | ";
        assert!(lines[0].starts_with(idle), "{said}");
        assert!(lines[1].contains("hang.cu:") && lines[1].contains(" | comm 0x") && lines[1].contains(" | pid "), "{said}");
    }
    // From any of its ranks the same.
    for rank in children(job.pid()) {
        let said = text(&ask(&[rank.to_string()]));
        assert!(said.contains(WAIT) && said.contains("rank 0: no kernel"), "{said}");
    }
    assert!(job.runs(), "nothing has ended, and the sleep was not cut short");
    assert_eq!(children(job.pid()).len(), 2);

    // A rank that is stopped is told, and not waited for.
    let sleeper = children(job.pid())[0];
    signal("-STOP", sleeper);
    let begin = Instant::now();
    let output = once_it_says("is stopped", &[job.pid().to_string()]);
    let said = text(&output);
    assert!(said.contains(WAIT) && said.contains(&format!("kill -CONT {sleeper} lets it go on")), "{said}");
    assert!(output.status.code() == Some(1) && begin.elapsed() < HANG_LIMIT, "{said}");
    signal("-CONT", sleeper);
    once_it_says("rank 0: no kernel of it", &[job.pid().to_string()]);
}

/// With our headers and with NVIDIA's. Nobody knows what would end the loop, so it goes on.
#[test]
fn a_loop_of_the_programs_own_is_named() {
    for program in [Some(compiled(SOURCE)), compiled_with_theirs(SOURCE)].into_iter().flatten() {
        let mut job = Job::running(&program, "loop");
        let output = once_it_says(
            "rank 1 block 0 (32 threads) reads signal 2 of context 0 (has 1) over and over, for ",
            &[job.pid().to_string()],
        );
        let said = text(&output);
        assert!(
            said.contains(&format!("hang.cu:{} | comm 0x", line_of(SOURCE, "loop"))) && !said.contains("rank 1: no kernel"),
            "{said}"
        );
        assert!(job.runs(), "{said}");
    }
}

/// Over memory, by whatever load: what it reads nobody says, but the kernel, and its line with `-g`.
#[test]
fn a_kernel_that_looks_at_memory_is_named() {
    let launched = format!("{SOURCE}:{}), for ", line_of(SOURCE, "launch"));
    let with_lines = compiled_as(SOURCE, &["-g".into()]);
    for (program, case) in [(compiled(SOURCE), "naps"), (with_lines.clone(), "word"), (with_lines, "atomic")] {
        let mut job = Job::running(&program, case);
        let output = once_it_says("rank 1 block 0 runs code of kernel kernel (launched at ", &[job.pid().to_string()]);
        let said = text(&output);
        let line = || format!("hang.cu:{} | comm 0x", line_of(SOURCE, &format!("look of: {case}")));
        assert!(case == "naps" || said.contains(&line()), "{case}: {said}");
        assert!(said.contains(&launched) && !said.contains("rank 1: no kernel"), "{case}: {said}");
        assert!(job.runs(), "{said}");
    }
}

/// With a seed, too, where clocks are virtual and next to no time passes.
#[test]
fn loops_are_named_where_a_seed_has_the_threads() {
    for (case, words) in
        [("word", "rank 1 block 0 runs code of kernel kernel "), ("loop", "rank 1 block 0 (32 threads) reads signal 2 ")]
    {
        let mut command = Command::new(prefix().join("bin/ginrs-run"));
        command.args(["--seed", "1", "-n", "1", "--devices", "2", "--timeout", "10"]).arg(compiled(SOURCE));
        let output = command.args([case, "threads", "2"]).output().unwrap();
        assert!(
            output.status.code() == Some(124) && text(&output).contains(words),
            "{case}: {}\n{}",
            output.status,
            text(&output)
        );
    }
}

/// By a shell, with neither ginrs-run nor its variables: from one rank to the others, and from the shell to all.
#[test]
fn ranks_that_others_have_started_are_found() {
    let program = compiled(SOURCE);
    let folder = std::env::temp_dir().join(format!("ginrs-waits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let script = "for rank in 0 1; do RANK=$rank LOCAL_RANK=$rank $0 sleep & done; wait";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(program).env("WORLD_SIZE", "2").env("LOCAL_WORLD_SIZE", "2");
    shell.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", "29631").env("TMPDIR", &folder).env_remove("GINRS_RUN_ID");
    let job = Job::start(shell);
    let output = once_it_says(WAIT, &[job.pid().to_string()]);
    assert!(output.status.success(), "{}", text(&output));
    let ranks = children(job.pid());
    let said = text(&ask(&[ranks[0].to_string()]));
    assert!(said.contains(WAIT) && said.contains(&format!("| pid {}\n", ranks[1])), "{said}");
    // One of them ends by itself once the other has gone.
    let _ = Command::new("kill").arg("-KILL").args(ranks.iter().map(u32::to_string)).status();
    drop(job);
    let _ = std::fs::remove_dir_all(folder);
}

/// Also where the program has SIGQUIT for itself.
#[test]
fn ranks_that_are_threads_answer() {
    let mut command = Command::new("env");
    command.arg("--ignore-signal=QUIT").arg(compiled(SOURCE)).args(["sleep", "threads", "2"]);
    let mut job = Job::start(command);
    let output = once_it_says(WAIT, &[job.pid().to_string()]);
    assert!(output.status.success() && text(&output).contains("rank 0: no kernel"), "{}", text(&output));
    assert!(job.runs());
}

#[test]
fn who_cannot_be_asked_is_told_at_once() {
    let says = |arguments: &[&str], words: &[&str]| {
        let output = ask(&arguments.iter().map(|word| word.to_string()).collect::<Vec<_>>());
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        words.iter().for_each(|word| assert!(said.contains(word), "{arguments:?}: no {word:?} in {said}"));
    };
    says(&["4194999"], &["no process 4194999 runs here | fix: "]);
    says(&["x"], &["`--waits x`"]);
    let mut sleeper = Command::new("sleep").arg("900").spawn().unwrap();
    says(&[&sleeper.id().to_string()], &["has no communicator of ginrs", "fix: name a ginrs-run"]);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();

    // A job whose ranks have none.
    let mut command = Command::new(prefix().join("bin/ginrs-run"));
    command.args(["-n", "2", "sleep", "900"]);
    let job = Job::start(command);
    let output = once_it_says("rank 1 (pid ", &[job.pid().to_string()]);
    let said = text(&output);
    assert!(output.status.code() == Some(1) && said.contains("rank 0 (pid ") && said.contains("has no communicator"), "{said}");

    // Of two jobs one has to be named.
    let mut other = Command::new(prefix().join("bin/ginrs-run"));
    other.args(["-n", "1", "sleep", "901"]);
    let other = Job::start(other);
    let said = text(&once_it_says(&format!("  {} ", other.pid()), &[]));
    assert!(said.contains("jobs run | fix: name one, ginrs-run --waits PID") && said.contains("-n 1 sleep 901"), "{said}");
    drop(job);
}
