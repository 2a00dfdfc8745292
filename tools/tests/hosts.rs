//! ginrs-run --hosts: ranks on several machines, over a stand-in for ssh that runs the command here, under the host's name.

#[path = "../../src/hang_limit.rs"]
mod hang_limit;

use hang_limit::{HANG_LIMIT, hang_deadline};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Hosts that do what hosts do; every other one is a machine.
const RSH: &str = r#"#!/bin/sh
case $1 in
  dead) echo "ssh: Could not resolve hostname dead" >&2; exit 255 ;;
  bare) exec sh -c 'exec ./no-such-program' ;;
  noisy) echo "Welcome to noisy"; exec sh -c "$2" ;;
  hung) echo $$ > hung.pid; setsid sleep 900 & echo $! > away.pid; sleep 900 ;;
  old) printf 'ginrs-run\n\000\024\000\000\000\004\000\000\000\000\000\000\0000.01\000\000\000\000\000\000\000\000'; cat >&2 ;;
  net*) HOST=$1 exec unshare -n sh -c "$2" ;;
esac
HOST=$1 exec sh -c "$2"
"#;

fn rsh() -> &'static Path {
    static RSH_FILE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = RSH_FILE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rsh");
        std::fs::write(&path, RSH).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, path)
    });
    path
}

fn command(options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ginrs-run"));
    command.env("GINRS_RSH", rsh()).args(options).args(program);
    command
}

fn script(options: &[&str], script: &str) -> Output {
    command(options, &["sh", "-c", script]).output().unwrap()
}

fn sorted(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = String::from_utf8_lossy(bytes).lines().map(String::from).collect();
    lines.sort();
    lines
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn gone_soon(pid: &str) -> bool {
    let alive = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    let until = hang_deadline();
    while alive() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    !alive()
}

/// A running job whose ranks write their pids into files of the folder, all there.
fn running(options: &[&str], ranks: usize) -> (Child, Vec<String>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let program =
        "trap 'echo told > term.$RANK; exit 0' TERM; echo $$ > tmp.$RANK; mv tmp.$RANK pid.$RANK; while :; do sleep 0.05; done";
    let mut command = command(options, &["sh", "-c", program]);
    let child = command.current_dir(&folder).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let path = |rank: usize| folder.path().join(format!("pid.{rank}"));
    let until = hang_deadline();
    while !(0..ranks).all(|rank| path(rank).exists()) {
        assert!(Instant::now() < until, "the ranks do not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pids = (0..ranks).map(|rank| std::fs::read_to_string(path(rank)).unwrap().trim().to_owned()).collect();
    (child, pids, folder)
}

#[test]
fn ranks_see_where_they_are() {
    let show =
        "echo $HOST $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $GINRS_CPU_DEVICES; [ $MASTER_PORT -gt 1023 ]";
    let output = script(&["-n", "3", "--hosts", "u@a,b", "--devices", "2"], show);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(sorted(&output.stdout), ["[0] u@a 0 0 3 2 a 2", "[1] u@a 1 1 3 2 a 2", "[2] b 2 0 3 1 a 2"]);
    let output = script(&["--hosts", "a:1,b:2", "--no-prefix"], "echo $HOST$RANK; [ $RANK != 2 ] || echo wrong >&2");
    assert_eq!((sorted(&output.stdout), &*errors(&output)), (vec!["a0".into(), "b1".into(), "b2".into()], "wrong\n"));
    assert!(script(&["--hosts", "localhost", "-n", "2"], "[ $MASTER_ADDR = localhost ]").status.success());
}

#[test]
fn environment_folder_and_words_arrive_as_they_are() {
    let folder = tempfile::Builder::new().prefix("it's $HOME ").tempdir().unwrap();
    let mut command = command(&["--hosts", "a,b", "-n", "2", "-x", "OWN", "-x", "NEW=x=$y 'z'"], &[]);
    let print = "printf '%s|' \"$PWD\" \"$OWN\" \"$NEW\" \"$NCCL_ODD\" \"${GINRS_RSH-none}\" \"$OTHER\" \"$@\"";
    command.args(["sh", "-c", print, "sh", "a b", "", "'\"$(id)"]).current_dir(&folder);
    let output =
        command.env("OWN", "1\n2").env("NCCL_ODD", "*").env("OTHER", "no").env("TORCHELASTIC_RUN_ID", "x").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // Lines of ranks come in any order.
    let text = String::from_utf8(output.stdout).unwrap();
    let text: String = text.lines().filter(|line| line.starts_with("[1] ")).map(|line| format!("{line}\n")).collect();
    let own = format!("[1] {}|1\n[1] 2|x=$y 'z'|*|", folder.path().display());
    assert!(text.contains(&own) && text.contains("|no|a b||'\"$(id)|"), "{text}");
}

/// The helper of the stand-in inherits this process's environment; a real one does not. Only what is sent may count.
#[test]
fn what_is_not_named_is_not_sent() {
    let strict = "env -i HOST=b sh -c";
    let mut command = command(&["--hosts", "b", "-n", "1"], &["sh", "-c", "echo ${OTHER-none} $NCCL_A ${GINRS_RSH-none}"]);
    let wrapper = tempfile::tempdir().unwrap();
    let path = wrapper.path().join("strict");
    std::fs::write(&path, format!("#!/bin/sh\nexec {strict} \"$2\"\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = command.env("GINRS_RSH", &path).env("OTHER", "1").env("NCCL_A", "2").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[0] none 2 none\n", "{output:?}");
}

#[test]
fn a_failure_on_one_machine_ends_all() {
    let start = Instant::now();
    let text = "echo $$; if [ $RANK = 3 ]; then echo went wrong >&2; exit 7; fi; exec sleep 900";
    let output = script(&["-n", "4", "--hosts", "a,b"], text);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let told = errors(&output);
    assert!(
        told.contains("ginrs-run: host b: rank 3 (pid ")
            && told.contains("exited with status 7; last line on stderr: went wrong"),
        "{told}"
    );
    assert!(sorted(&output.stdout).iter().all(|line| gone_soon(&line[4..])) && start.elapsed() < HANG_LIMIT);
    // A rank that is killed, with its signal.
    let output = script(&["-n", "2", "--hosts", "a,b"], "[ $RANK = 0 ] && kill -SEGV $$; exec sleep 900");
    assert!(output.status.code() == Some(139) && errors(&output).contains("host a: rank 0"), "{output:?}");
}

#[test]
fn nothing_stays_when_ginrs_run_or_a_connection_is_killed() {
    let (mut child, pids, _folder) = running(&["-n", "4", "--hosts", "a,b"], 4);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(pids.iter().all(|pid| gone_soon(pid)), "{pids:?}");
    // The connection to the second host: its helper, that is, whose parent is ginrs-run.
    let (child, pids, _folder) = running(&["-n", "4", "--hosts", "a,b"], 4);
    let helper = std::fs::read_to_string(format!("/proc/{}/stat", pids[2])).unwrap();
    let helper = helper.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().to_owned();
    assert!(Command::new("kill").args(["-KILL", &helper]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(pids.iter().all(|pid| gone_soon(pid)), "{pids:?}");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(errors(&output).contains("host b: the connection to its ginrs-run is lost"), "{output:?}");
}

#[test]
fn signals_reach_ranks_everywhere() {
    let (child, pids, folder) = running(&["-n", "3", "--hosts", "a,b"], 3);
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    assert!((0..3).all(|rank| folder.path().join(format!("term.{rank}")).exists()) && pids.iter().all(|pid| gone_soon(pid)));
}

#[test]
fn what_keeps_a_job_from_starting_is_told() {
    for (hosts, status, words) in [
        (
            "a,dead",
            1,
            &["host dead: cannot be reached, the remote shell ended with status 255", "Could not resolve hostname dead", "fix:"]
                [..],
        ),
        ("bare,a", 1, &["host bare: no ginrs-run there", "fix:"]),
        ("a,noisy", 1, &["host noisy: its shell prints `Welcome to`", "fix:"]),
        ("old,a", 1, &["host old: its ginrs-run is 0.01, this one", "fix:"]),
    ] {
        let output = script(&["-n", "2", "--hosts", hosts], "echo started");
        let told = errors(&output);
        assert!(words.iter().all(|word| told.contains(word)), "{hosts}: {output:?}");
        assert!(output.status.code() == Some(status) && output.stdout.is_empty(), "{hosts}: {output:?}");
    }
    let output = command(&["-n", "2", "--hosts", "a,b"], &["./not-there"]).output().unwrap();
    assert!(output.status.code() == Some(127) && errors(&output).contains("cannot start `./not-there`"), "{output:?}");
    let output = script(&["-n", "2", "--hosts", "a,b", "--wdir", "/no/such"], "echo started");
    assert!(output.status.code() == Some(1) && errors(&output).contains("working directory /no/such"), "{output:?}");
    let output = script(&["-n", "2", "--hosts", "a,b", "--timeout", "4"], "[ $RANK = 0 ] || exec sleep 900");
    assert!(output.status.code() == Some(124) && errors(&output).contains("still running: b (rank 1)"), "{output:?}");
    let output = command(&["-n", "1", "--hosts", "a", "--rsh", "/no/such/rsh"], &["true"]).output().unwrap();
    assert!(output.status.code() == Some(1) && errors(&output).contains("name another with --rsh"), "{output:?}");
}

/// Also where something of the remote shell's lives on and has its pipes: with --grace it would be waited for.
#[test]
fn a_remote_shell_that_hangs_is_waited_for_no_longer_than_said() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-n", "2", "--hosts", "a,hung", "--timeout", "5", "--grace", "900"];
    let mut command = command(&options, &["true"]);
    let mut child = command.current_dir(&folder).stderr(Stdio::piped()).spawn().unwrap();
    let ended = gone_soon(&child.id().to_string());
    let read = |name| std::fs::read_to_string(folder.path().join(name)).unwrap().trim().to_owned();
    assert!(Command::new("kill").args(["-KILL", &read("away.pid")]).status().unwrap().success());
    if !ended {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.code() == Some(124) && ended && gone_soon(&read("hung.pid")), "{output:?}");
    assert!(errors(&output).contains("no answer yet from hung (rank 1)"), "{output:?}");
}

/// Broadcasts of ginrs_bootstrap.h, as the unique id is passed on: here 3 MiB, then 128 bytes.
const PROGRAM: &str = r#"
#include "ginrs_bootstrap.h"
static unsigned char large[3 << 20], id[128];
int main(void) {
  ginrsBootstrap b;
  size_t i, wrong = 0;
  if (ginrsBootstrapInit(&b)) return 3;
  if (b.rank == 2) ginrsBootstrapPause(300);
  for (i = 0; b.rank == 0 && i < sizeof large; i++) large[i] = (unsigned char)(i * 7 + i / 251);
  if (b.rank == 0) memset(id, 42, sizeof id), ginrsBootstrapPause(100);
  if (ginrsBootstrapBroadcast(&b, large, sizeof large) || ginrsBootstrapBroadcast(&b, id, sizeof id)) return 4;
  for (i = 0; i < sizeof large; i++) wrong += large[i] != (unsigned char)(i * 7 + i / 251);
  for (i = 0; i < sizeof id; i++) wrong += id[i] != 42;
  printf("%d of %d: %zu wrong\n", b.rank, b.nRanks, wrong);
  return 0;
}
"#;

#[test]
fn the_unique_id_reaches_ranks_on_every_machine() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("share.c"), folder.path().join("share"));
    std::fs::write(&source, PROGRAM).unwrap();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../include");
    assert!(Command::new("gcc").args(["-O1", include, "-o"]).args([&program, &source]).status().unwrap().success());
    let own_namespace =
        Command::new("unshare").args(["-n", "true"]).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    for hosts in ["a:2,b:3", if own_namespace { "net1:2,net2:1,net3:2" } else { "a:1,b:1,c:3" }] {
        let output = command(&["--hosts", hosts, "--timeout", "120"], &[program.to_str().unwrap()]).output().unwrap();
        assert!(output.status.success(), "{hosts}: {output:?}");
        let lines: Vec<String> = (0..5).map(|rank| format!("[{rank}] {rank} of 5: 0 wrong")).collect();
        assert_eq!(sorted(&output.stdout), lines, "{hosts}");
    }
    // Another job beside, and what is left of one: no rank gets another's.
    let job = || command(&["--hosts", "a,b", "-n", "3", "--timeout", "120"], &[program.to_str().unwrap()]);
    let jobs: Vec<Child> = (0..3).map(|_| job().stdout(Stdio::null()).spawn().unwrap()).collect();
    assert!(jobs.into_iter().all(|mut job| job.wait().unwrap().success()));
}
