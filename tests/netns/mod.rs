//! Machines that share nothing but a network: network namespaces of this one, joined by a bridge in one more namespace. Needs root and `ip`.
#![allow(dead_code)]

#[path = "../../src/hang_limit.rs"]
pub mod hang_limit;
pub mod wire;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Some machines; gone when dropped. Machine `i` is 10.77.0.`i + 1` and fd77::`i + 1`, on interface `eth0`.
pub struct Machines {
    names: Vec<String>,
    /// The namespace of the bridge.
    hub: String,
}

fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split(' ')).output().map_err(|e| format!("ip: {e}"))?;
    if output.status.success() { Ok(()) } else { Err(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim())) }
}

fn permitted<T>(made: Result<T, String>) -> Option<T> {
    made.inspect_err(|why| println!("skipped: no network namespaces here: {why}")).ok()
}

impl Machines {
    /// A command as ssh is, made in `folder`: a machine's name, and words for the shell there.
    pub fn rsh(folder: &Path) -> PathBuf {
        let rsh = folder.join("rsh");
        std::fs::write(&rsh, "#!/bin/sh\nhost=$1\nshift\nexec ip netns exec $host sh -c \"$*\"\n").unwrap();
        std::fs::set_permissions(&rsh, std::fs::Permissions::from_mode(0o755)).unwrap();
        rsh
    }

    /// None, with the reason said, where namespaces are not permitted.
    pub fn new(n: usize) -> Option<Self> {
        let machines = Self::named(n);
        permitted(machines.make()).map(|()| machines)
    }

    /// As [`Self::new`], with this process between them in place of the bridge. No IPv6.
    pub fn with_wire(n: usize, mtu: u32) -> Option<(Self, wire::Wire)> {
        let machines = Self::named(n);
        let made = machines.names.iter().try_for_each(|name| ip(&format!("netns add {name}")));
        let wire = permitted(made.and_then(|()| wire::Wire::new(&machines.names, mtu)))?;
        Some((machines, wire))
    }

    fn named(n: usize) -> Self {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = |i| format!("ginrs-{}-{number}-{i}", std::process::id());
        Self { names: (0..n).map(name).collect(), hub: name(n) }
    }

    fn make(&self) -> Result<(), String> {
        let (hub, machines) = (&self.hub, &self.names);
        ip(&format!("netns add {hub}"))?;
        ip(&format!("-n {hub} link add br0 type bridge"))?;
        ip(&format!("-n {hub} link set br0 up"))?;
        for (i, name) in machines.iter().enumerate() {
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {hub} link add port{i} type veth peer name eth0 netns {name}"))?;
            ip(&format!("-n {hub} link set port{i} master br0 up"))?;
            ip(&format!("-n {name} addr add 10.77.0.{}/24 dev eth0", i + 1))?;
            ip(&format!("-n {name} addr add fd77::{}/64 dev eth0 nodad", i + 1))?;
            ip(&format!("-n {name} link set lo up"))?;
            ip(&format!("-n {name} link set eth0 up"))?;
        }
        // The kernel says a moment later that an interface is up, and a process that looks before it takes lo.
        for name in machines {
            let show = || Command::new("ip").args(["-n", name, "link", "show", "eth0"]).output();
            let until = hang_limit::hang_deadline();
            while !show().is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("state UP")) {
                if Instant::now() > until {
                    return Err(format!("eth0 of {name} does not come up"));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    /// A command that runs `program` on machine `i`.
    pub fn command(&self, i: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[i]]).arg(program);
        command
    }

    /// Its name, as `ip netns` has it.
    pub fn name(&self, i: usize) -> &str {
        &self.names[i]
    }

    /// Lets no more than `rate` ("1mbit") leave machine `i`.
    pub fn slow(&self, i: usize, rate: &str) {
        let words =
            format!("netns exec {} tc qdisc replace dev eth0 root tbf rate {rate} burst 16kb latency 200ms", self.names[i]);
        ip(&words).expect("tbf");
    }

    /// Cuts machine `i` off, or joins it again.
    pub fn link(&self, i: usize, up: bool) {
        ip(&format!("-n {} link set port{i} {}", self.hub, if up { "up" } else { "down" })).expect("a port");
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in self.names.iter().chain([&self.hub]) {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}
