//! ginrs-run: what ranks see, how their lines are printed, and how a job ends.

#[path = "../../src/hang_limit.rs"]
mod hang_limit;

use hang_limit::{HANG_LIMIT, hang_deadline};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ginrs-run"));
    command.args(arguments);
    command
}

/// Runs a shell script on every rank.
fn script(options: &[&str], script: &str) -> Output {
    command(&[options, &["sh", "-c", script]].concat()).output().unwrap()
}

fn sorted_lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = String::from_utf8_lossy(bytes).lines().map(String::from).collect();
    lines.sort();
    lines
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn is_alive(pid: &str) -> bool {
    // A zombie that nobody has reaped yet is not alive.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| !s.contains(") Z "))
}

fn gone_soon(pid: &str) -> bool {
    let until = hang_deadline();
    while is_alive(pid) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    !is_alive(pid)
}

#[test]
fn ranks_see_what_torchrun_sets() {
    let output = script(
        &["-n", "3", "--devices", "5"],
        "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $GINRS_CPU_DEVICES; [ $MASTER_PORT -gt 1023 ]",
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(sorted_lines(&output.stdout), ["[0] 0 0 3 3 127.0.0.1 5", "[1] 1 1 3 3 127.0.0.1 5", "[2] 2 2 3 3 127.0.0.1 5"]);
}

/// What a ginrs-run that was killed outright has left is taken away by the next one, and nothing else is.
#[test]
fn a_folder_that_nobody_holds_goes_with_the_next_job() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let start = || {
        let text = "python3 -c 'import os, socket; socket.socket(socket.AF_UNIX).bind(os.environ[\"GINRS_RUN_ID\"] + \"/s\")'; echo $GINRS_RUN_ID; exec sleep 900";
        let mut job = command(&["-n", "1", "--no-prefix", "sh", "-c", text]);
        let mut job = job.env("TMPDIR", place.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(job.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (job, std::path::PathBuf::from(line.trim()))
    };
    let ((mut killed, left), (mut lives, held)) = (start(), start());
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(left.join("s").exists() && left.starts_with(place.path()));
    // Each looks like such a folder but for one thing.
    let private = |path: &std::path::Path| {
        std::fs::create_dir(path).unwrap();
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    };
    let [full, open, other, aim, old, alone] =
        ["ginrs-run-a", "ginrs-run-b", "ginrs-run-x", "aim", "ginrs-run-c", "ginrs-run-e"].map(at);
    [&full, &other, &aim, &old, &alone].iter().for_each(|path| private(path));
    std::fs::create_dir(&open).unwrap();
    [&full, &open, &other, &aim, &alone].iter().for_each(|path| std::fs::write(path.join("held"), "").unwrap());
    std::fs::write(full.join("file"), "").unwrap();
    std::os::unix::fs::symlink(&aim, at("ginrs-run-d")).unwrap();
    let status = command(&["-n", "1", "true"]).env("TMPDIR", place.path()).status().unwrap();
    assert!(status.success() && !left.exists() && !alone.exists());
    for path in [full.join("file"), open, other, aim.join("held"), old, at("ginrs-run-d"), held.join("s")] {
        assert!(path.symlink_metadata().is_ok(), "{} is gone", path.display());
    }
    // SAFETY: a child of this process that has not been waited for.
    unsafe { libc::kill(lives.id() as i32, libc::SIGTERM) };
    lives.wait().unwrap();
    assert!(!held.exists());
}

#[test]
fn the_jobs_folder_is_private_and_goes() {
    let output = script(&["-n", "1", "--no-prefix"], "stat -c %a $GINRS_RUN_ID; echo x > $GINRS_RUN_ID/f; echo $GINRS_RUN_ID");
    let text = String::from_utf8(output.stdout).unwrap();
    let (mode, folder) = text.trim().split_once('\n').unwrap();
    assert_eq!(mode, "700");
    assert!(!std::path::Path::new(folder).exists());
}

#[test]
fn lines_are_whole() {
    let text = "i=0; while [ $i -lt 300 ]; do printf %s aaaaaaaaaa; printf %s bbbbbbbbbb >&2; echo cccc; echo dddd >&2; i=$((i+1)); done; printf end";
    let output = script(&["-n", "4"], text);
    let lines = sorted_lines(&output.stdout);
    assert_eq!(lines.len(), 4 * 301);
    assert!(
        lines.iter().all(
            |l| l[1..].starts_with(|c: char| c.is_ascii_digit()) && (l.ends_with("] aaaaaaaaaacccc") || l.ends_with("] end"))
        )
    );
    assert!(sorted_lines(&output.stderr).iter().all(|l| l.ends_with("] bbbbbbbbbbdddd")));
    let output = script(&["-n", "2", "--no-prefix"], "echo plain");
    assert_eq!(sorted_lines(&output.stdout), ["plain", "plain"]);
}

#[test]
fn the_first_failure_ends_the_job_and_is_told() {
    let start = Instant::now();
    let output = script(&["-n", "4"], "if [ $RANK = 2 ]; then echo working >&2; echo went wrong >&2; exit 7; fi; exec sleep 900");
    assert_eq!(output.status.code(), Some(7));
    assert!(start.elapsed() < HANG_LIMIT);
    let text = errors(&output);
    assert!(
        text.contains("ginrs-run: rank 2 (pid ")
            && text.contains("exited with status 7; last line on stderr: went wrong; ending the other 3"),
        "{text}"
    );
}

#[test]
fn signals_become_128_and_their_number() {
    let output = script(&["-n", "2"], "[ $RANK = 1 ] && kill -SEGV $$; exec sleep 900");
    assert_eq!(output.status.code(), Some(139));
    assert!(errors(&output).contains("was killed by signal 11 (SIGSEGV)"), "{}", errors(&output));
}

#[test]
fn a_rank_that_ends_well_ends_no_other() {
    let output = script(&["-n", "2"], "[ $RANK = 0 ] && exit 0; sleep 0.3; echo late");
    assert!(output.status.success());
    assert_eq!(sorted_lines(&output.stdout), ["[1] late"]);
}

#[test]
fn ranks_that_ignore_sigterm_are_killed() {
    let start = Instant::now();
    let text = "trap '' TERM; ready=$GINRS_RUN_ID/ready; if [ $RANK = 0 ]; then until [ -e $ready ]; do sleep 0.05; done; exit 3; fi\n\
                touch $ready; while :; do sleep 1; done";
    let output = script(&["-n", "2"], text);
    assert_eq!(output.status.code(), Some(3));
    let took = start.elapsed();
    assert!(took > Duration::from_secs(2) && took < HANG_LIMIT, "{took:?}");
}

#[test]
fn a_timeout_names_who_is_left() {
    // Rank 1 has that time to start and to end.
    let output = script(&["-n", "3", "--timeout", "4"], "[ $RANK = 1 ] && exit 0; exec sleep 900");
    assert_eq!(output.status.code(), Some(124));
    assert!(errors(&output).contains("not done after 4 s (--timeout); still running: rank 0, 2"), "{}", errors(&output));
}

/// Starts ranks that print their pid and that of a child of theirs, and reads both.
fn start_sleepers() -> (Child, Vec<String>) {
    let text = "sleep 900 & echo $$ $!; wait";
    let mut job =
        command(&["-n", "2", "--no-prefix", "sh", "-c", text]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(job.stdout.take().unwrap()).lines();
    let pids: Vec<String> =
        (0..2).flat_map(|_| lines.next().unwrap().unwrap().split(' ').map(String::from).collect::<Vec<_>>()).collect();
    assert!(pids.iter().all(|p| is_alive(p)));
    (job, pids)
}

fn signal(job: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &job.id().to_string()]).status().unwrap().success());
}

#[test]
fn signals_are_forwarded() {
    for (name, status) in [("-INT", 130), ("-TERM", 143)] {
        let (mut job, pids) = start_sleepers();
        signal(&job, name);
        assert_eq!(job.wait().unwrap().code(), Some(status));
        assert!(pids.iter().all(|p| gone_soon(p)));
    }
}

#[test]
fn ranks_die_with_ginrs_run() {
    let (mut job, pids) = start_sleepers();
    signal(&job, "-KILL");
    job.wait().unwrap();
    // Only the ranks themselves: nobody is left to end what they started.
    assert!(gone_soon(&pids[0]) && gone_soon(&pids[2]));
    for child in [&pids[1], &pids[3]] {
        let _ = Command::new("kill").args(["-KILL", child]).stderr(Stdio::null()).status();
    }
}

#[test]
fn what_a_rank_leaves_behind_is_ended() {
    let output = script(&["-n", "1", "--no-prefix"], "sleep 900 & echo $!");
    let pid = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && gone_soon(pid.trim()));
}

#[test]
fn wrong_command_lines() {
    for (arguments, status, message) in [
        (&["-n", "2"][..], 2, "which program"),
        (&["-n", "none", "true"], 2, "`-n none`"),
        (&["--gpus", "1", "true"], 2, "unknown option `--gpus`"),
        (&["-n", "2", "/no/such/program"], 127, "cannot start `/no/such/program`"),
    ] {
        let output = command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(status));
        assert!(errors(&output).contains(message), "{}", errors(&output));
    }
}

/// The helper header of the examples under ginrs-run, and with what torchrun, mpirun and srun set.
#[test]
fn programs_share_bytes_through_the_helper_header() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("share.c");
    std::fs::write(
        &source,
        "#include \"ginrs_bootstrap.h\"\nint main(void) { ginrsBootstrap b; char one[128] = \"\", two[8] = \"\";\n\
         if (ginrsBootstrapInit(&b)) return 3;\nif (b.rank == 0) { strcpy(one, \"first\"); strcpy(two, \"second\"); }\n\
         if (ginrsBootstrapBroadcast(&b, one, sizeof one) || ginrsBootstrapBroadcast(&b, two, sizeof two)) return 4;\n\
         printf(\"%d of %d at %d: %s %s\\n\", b.rank, b.nRanks, b.localRank, one, two); return 0; }\n",
    )
    .unwrap();
    let common = format!("-I{}/../examples-c/common", env!("CARGO_MANIFEST_DIR"));
    for (compiler, language) in [("gcc", "c"), ("g++", "c++")] {
        let program = folder.path().join(language);
        let built = Command::new(compiler)
            .args(["-Wall", "-Wextra", "-Werror", "-x", language, &common, "-o"])
            .args([&program, &source])
            .status()
            .unwrap();
        assert!(built.success());
        let program = program.display().to_string();
        let want: Vec<String> = (0..3).map(|r| format!("[{r}] {r} of 3 at {r}: first second")).collect();
        let output = command(&["-n", "3", &program]).output().unwrap();
        assert_eq!(sorted_lines(&output.stdout), want, "ginrs-run: {}", errors(&output));
        let torchrun = format!("unset GINRS_RUN_ID; exec {program}");
        let mpirun = format!(
            "unset GINRS_RUN_ID MASTER_PORT; export TMPDIR={} OMPI_COMM_WORLD_RANK=$RANK OMPI_COMM_WORLD_SIZE=3 \
             OMPI_COMM_WORLD_LOCAL_RANK=$RANK PMIX_NAMESPACE=prterun/1; unset RANK; exec {program}",
            folder.path().display()
        );
        let srun = format!(
            "unset GINRS_RUN_ID MASTER_PORT; export TMPDIR={} SLURM_PROCID=$RANK SLURM_NTASKS=3 SLURM_LOCALID=$RANK \
             SLURM_JOB_ID=77 SLURM_STEP_ID=1; unset RANK; exec {program}",
            folder.path().display()
        );
        for launcher in [torchrun, mpirun, srun] {
            let output = script(&["-n", "3"], &launcher);
            assert_eq!(sorted_lines(&output.stdout), want, "{launcher}: {}", errors(&output));
        }
        let output = script(
            &["-n", "2"],
            &format!("unset GINRS_RUN_ID; [ $RANK = 0 ] && exec sleep 3; export GINRS_BOOTSTRAP_TIMEOUT=1; exec {program}"),
        );
        assert_eq!(output.status.code(), Some(4));
        assert!(errors(&output).contains("rank 0 did not answer in time"), "{}", errors(&output));
        let output =
            script(&["-n", "1"], &format!("unset GINRS_RUN_ID MASTER_PORT LOCAL_WORLD_SIZE; RANK=1 WORLD_SIZE=2 exec {program}"));
        assert!(errors(&output).contains("no way to share the unique id"), "{}", errors(&output));
    }
}
