//! ginrs-run --hosts over a real ssh: sshd on two machines that are network namespaces of this one, with keys and settings of their own.

#[path = "../../tests/netns/mod.rs"]
mod netns;

use netns::Machines;
use netns::hang_limit::hang_deadline;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Machines `a` and `b`; the user is at `a`.
struct Cluster {
    machines: Machines,
    folder: tempfile::TempDir,
    servers: Vec<Child>,
}

impl Cluster {
    /// None, with the reason said, where there is no sshd or no namespaces.
    fn new() -> Option<Self> {
        if !Path::new("/usr/sbin/sshd").exists() {
            println!("skipped: no /usr/sbin/sshd (Debian: openssh-server)");
            return None;
        }
        let cluster = Cluster { machines: Machines::new(2)?, folder: tempfile::tempdir().unwrap(), servers: Vec::new() };
        Some(cluster.serve())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn serve(mut self) -> Self {
        let at = self.folder.path().display().to_string();
        for key in ["user", "stranger", "key0", "key1"] {
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(self.path(key)).status();
            assert!(made.unwrap().success());
        }
        std::fs::copy(self.path("user.pub"), self.path("authorized")).unwrap();
        // sshd wants this folder; its package makes it when the machine starts.
        std::fs::create_dir_all("/run/sshd").unwrap();
        let (mut known, mut hosts) = (String::new(), String::new());
        for (i, name) in ["a", "b"].iter().enumerate() {
            let settings = "UsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication yes\nMaxStartups 100\n";
            let settings = format!("HostKey {at}/key{i}\nPidFile none\nAuthorizedKeysFile {at}/authorized\n{settings}");
            self.write(&format!("sshd{i}"), &settings);
            let mut server = self.machines.command(i, "/usr/sbin/sshd");
            server.args(["-D", "-f"]).arg(self.path(&format!("sshd{i}"))).arg("-E").arg(self.path(&format!("log{i}")));
            self.servers.push(server.spawn().unwrap());
            let key = std::fs::read_to_string(self.path(&format!("key{i}.pub"))).unwrap();
            known += &format!("{name} {key}");
            hosts += &format!("Host {name}\nHostName 10.77.0.{}\nHostKeyAlias {name}\n", i + 1);
        }
        self.write("known", &known);
        let settings = |user: &str, known: &str| {
            format!(
                "{hosts}Host *\nIdentityFile {at}/{user}\nIdentitiesOnly yes\nUserKnownHostsFile {at}/{known}\nGlobalKnownHostsFile none\n"
            )
        };
        self.write("ssh", &settings("user", "known"));
        self.write("ssh-stranger", &settings("stranger", "known"));
        self.write("ssh-unknown", &settings("user", "nothing"));
        for host in ["a", "b"] {
            let until = hang_deadline();
            while !self
                .machines
                .command(0, "ssh")
                .arg("-F")
                .arg(self.path("ssh"))
                .args([host, "true"])
                .status()
                .unwrap()
                .success()
            {
                assert!(Instant::now() < until, "sshd does not answer");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        self
    }

    /// ginrs-run at `a`, with a file of ssh's settings.
    fn run(&self, settings: &str, options: &[&str], program: &[&str]) -> Command {
        let mut command = self.machines.command(0, env!("CARGO_BIN_EXE_ginrs-run"));
        command.args(["--rsh", &format!("ssh -F {}", self.path(settings).display())]).args(options).args(program);
        command.current_dir(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A job whose ranks have written their pids, and the pids.
    fn sleeping(&self, ranks: usize) -> (Child, Vec<String>) {
        let program = "rm -f pid.$RANK; echo $$ > tmp.$RANK; mv tmp.$RANK pid.$RANK; exec sleep 600";
        let job = self.run("ssh", &["--hosts", "a,b", "-n", &ranks.to_string()], &["sh", "-c", program]).spawn().unwrap();
        let until = hang_deadline();
        let path = |rank: usize| self.path(&format!("pid.{rank}"));
        while !(0..ranks).all(|rank| path(rank).exists()) {
            assert!(Instant::now() < until, "the ranks do not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        let pids = (0..ranks).map(|rank| std::fs::read_to_string(path(rank)).unwrap().trim().to_owned()).collect();
        (0..ranks).for_each(|rank| std::fs::remove_file(path(rank)).unwrap());
        (job, pids)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn state_of(pid: &str) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ").map(|(_, state)| state.to_owned()).filter(|state| !state.starts_with('Z'))
}

fn parent(pid: &str) -> String {
    state_of(pid).unwrap().split(' ').nth(1).unwrap().to_owned()
}

fn gone_soon(pid: &str) -> bool {
    let until = hang_deadline();
    while state_of(pid).is_some() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    state_of(pid).is_none()
}

fn kill(signal: &str, pid: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
}

fn words_and_settings_arrive(cluster: &Cluster) {
    let folder = cluster.path("it's $HOME");
    std::fs::create_dir(&folder).unwrap();
    let print = "printf '%s|' $RANK $MASTER_ADDR \"$PWD\" \"$NCCL_ODD\" \"$OWN\" \"${OTHER-none}\" \"$@\"; cat";
    let mut job =
        cluster.run("ssh", &["--hosts", "a,b", "-n", "2", "-x", "OWN"], &["sh", "-c", print, "sh", "a  b", "", "'\"$(id)"]);
    let output = job.current_dir(&folder).env("NCCL_ODD", "*\n\\").env("OWN", "'").env("OTHER", "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for rank in 0..2 {
        let own = format!("[{rank}] {rank}|a|{}|*\n[{rank}] \\|'|none|a  b||'\"$(id)|\n", folder.display());
        // Lines of ranks come in any order.
        let lines = text.lines().filter(|line| line.starts_with(&format!("[{rank}] ")));
        assert_eq!(lines.map(|line| format!("{line}\n")).collect::<String>(), own);
    }
}

fn failures_and_signals_leave_nothing(cluster: &Cluster) {
    let text = "[ $RANK = 3 ] || exec sleep 600; echo went wrong >&2; exit 7";
    let output = cluster.run("ssh", &["--hosts", "a:2,b:2"], &["sh", "-c", text]).output().unwrap();
    assert!(output.status.code() == Some(7) && errors(&output).contains("host b: rank 3 (pid "), "{output:?}");
    for (signal, status) in [("-TERM", Some(143)), ("-INT", Some(130)), ("-KILL", None)] {
        let (mut job, pids) = cluster.sleeping(2);
        let helpers = [parent(&pids[0]), parent(&pids[1])];
        kill(signal, &job.id().to_string());
        assert_eq!(job.wait().unwrap().code(), status, "{signal}");
        assert!(pids.iter().chain(&helpers).all(|pid| gone_soon(pid)), "{signal}: {pids:?} {helpers:?}");
    }
    // The session at b: what sshd started for it, the helper's parent.
    let (job, pids) = cluster.sleeping(2);
    kill("-KILL", &parent(&parent(&pids[1])));
    let output = job.wait_with_output().unwrap();
    assert!(
        output.status.code() == Some(1) && errors(&output).contains("host b: the connection to its ginrs-run is lost"),
        "{output:?}"
    );
    assert!(pids.iter().all(|pid| gone_soon(pid)), "{pids:?}");
}

fn what_ssh_refuses_has_its_fix(cluster: &Cluster) {
    for (settings, host, told) in [
        ("ssh-unknown", "b", "run `ssh b true` by hand once and compare the key"),
        ("ssh-stranger", "b", "fix: a key must open b without a question"),
        ("ssh", "10.77.0.9", "fix: is 10.77.0.9 up"),
        ("ssh", "no-such-host", "fix: name no-such-host in DNS"),
    ] {
        let output = cluster.run(settings, &["--hosts", host, "-n", "1"], &["true"]).output().unwrap();
        let host = format!("ginrs-run: host {host}: cannot be reached, the remote shell ended with status 255; last line: ");
        assert!(output.status.code() == Some(1) && errors(&output).contains(told), "{output:?}");
        assert!(errors(&output).contains(&host), "{output:?}");
    }
}

/// In one test: two sshd for all of it.
#[test]
fn a_job_over_ssh() {
    let Some(cluster) = Cluster::new() else { return };
    words_and_settings_arrive(&cluster);
    failures_and_signals_leave_nothing(&cluster);
    what_ssh_refuses_has_its_fix(&cluster);
}
