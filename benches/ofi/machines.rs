//! Two namespaces with a cable between them, or this machine's loopback.

use std::net::IpAddr;
use std::process::{Command, Stdio};

/// The two.
pub struct Machines {
    names: Option<[String; 2]>,
    pub addresses: [IpAddr; 2],
}

impl Machines {
    pub fn new() -> Self {
        let id = std::process::id();
        let names = ["a", "b"].map(|name| format!("ginrs-{id}-{name}"));
        let cables = ["a", "b"].map(|name| format!("gb{}{name}", id % 100_000));
        let ip = |line: &str| Command::new("ip").args(line.split(' ')).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
        let ends = ["10.213.0.1", "10.213.0.2"];
        let made = names.iter().all(|name| ip(&format!("netns add {name}")))
            && ip(&format!("link add {} type veth peer name {}", cables[0], cables[1]))
            && (0..2).all(|i| {
                ip(&format!("link set {} netns {}", cables[i], names[i]))
                    && ip(&format!("-n {} addr add {}/24 dev {}", names[i], ends[i], cables[i]))
                    && ip(&format!("-n {} link set {} up", names[i], cables[i]))
                    && ip(&format!("-n {} link set lo up", names[i]))
            });
        if made {
            return Self { names: Some(names), addresses: ends.map(|end| end.parse().unwrap()) };
        }
        names.iter().for_each(|name| _ = ip(&format!("netns del {name}")));
        println!("no network namespaces here (they need root): over loopback");
        Self { names: None, addresses: ["127.0.0.1".parse().unwrap(); 2] }
    }

    /// `program` on machine `on`.
    pub fn command(&self, on: usize, program: &str) -> Command {
        match &self.names {
            None => Command::new(program),
            Some(names) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &names[on], program]);
                command
            }
        }
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in self.names.iter().flatten() {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}
