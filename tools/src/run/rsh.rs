//! The remote shell that reaches another machine: ssh, or what `--rsh` names. How it starts ginrs-run there, and what mends it when
//! it does not.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

/// No question may wait for an answer, and a machine that vanishes is told after 20 s. What the user's `--rsh` says before wins.
const SSH: [&str; 11] = [
    "-x",
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=20",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=4",
    "-oClearAllForwardings=yes",
];

/// ginrs-run's helper on `host`, over `rsh`.
pub fn command(rsh: Option<&str>, host: &str) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(|e| format!("where is ginrs-run? {e}"))?;
    let set = std::env::var("GINRS_RSH").ok().filter(|rsh| !rsh.trim().is_empty());
    let rsh = rsh.map(str::to_owned).or(set);
    if host == "localhost" && rsh.is_none() {
        let mut command = Command::new(own);
        command.arg("--serve");
        return Ok(command);
    }
    let mut words = rsh.as_deref().unwrap_or("ssh").split_whitespace();
    let program = words.next().ok_or("--rsh names no program")?;
    let mut command = Command::new(program);
    command.args(words);
    if Path::new(program).file_name().is_some_and(|name| name == "ssh") {
        command.args(SSH);
    }
    command.arg(host).arg(line(own.as_os_str().as_bytes()));
    Ok(command)
}

/// For the login shell there, which may be any: ginrs-run at the same place, else wherever PATH has it.
fn line(own: &[u8]) -> OsString {
    const START: &[u8] = b"exec sh -c 'if [ -x \"$0\" ]; then exec \"$0\" --serve; else exec ginrs-run --serve; fi' '";
    let quoted = own.iter().flat_map(|byte| if *byte == b'\'' { &b"'\\''"[..] } else { std::slice::from_ref(byte) });
    OsString::from_vec(START.iter().chain(quoted).chain(b"'").copied().collect())
}

/// What mends it, by the last words of ssh.
pub fn fix(host: &str, words: &str) -> String {
    let said = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    if said(&["Host key verification failed"]) {
        format!(
            "run `ssh {host} true` by hand once and compare the key that it shows; if {host} has a new one: ssh-keygen -R {host}"
        )
    } else if said(&["Permission denied", "Too many authentication failures"]) {
        format!("a key must open {host} without a question: ssh-copy-id {host}, and ssh-add where the key has a passphrase")
    } else if said(&["Could not resolve hostname"]) {
        format!("name {host} in DNS, /etc/hosts or ~/.ssh/config, or give its address")
    } else if said(&["timed out", "No route to host", "Connection refused", "Network is unreachable"]) {
        format!(
            "is {host} up, does sshd run there, and does no firewall keep its port from this machine? `ssh {host} true` tries it"
        )
    } else {
        format!("`ssh {host} true` must work without a question, or see --rsh")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_quotes_is_one_word_of_any_shell() {
        let text =
            "exec sh -c 'if [ -x \"$0\" ]; then exec \"$0\" --serve; else exec ginrs-run --serve; fi' '/it'\\''s \"$here\"'";
        assert_eq!(line(b"/it's \"$here\""), text);
    }

    #[test]
    fn options_of_ssh_are_for_ssh_and_come_after_the_users() {
        let words = |rsh| {
            let command = command(Some(rsh), "node").unwrap();
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(words("rsh -l me")[..3], ["-l", "me", "node"]);
        let ssh = words("/usr/bin/ssh -p 2222");
        assert_eq!((ssh[..3].join(" "), ssh.contains(&"BatchMode=yes".into())), ("-p 2222 -x".into(), true));
    }

    #[test]
    fn what_ssh_says_has_a_fix() {
        for (words, part) in [
            ("Host key verification failed.", "compare the key"),
            ("me@a: Permission denied (publickey).", "ssh-copy-id a"),
            ("ssh: Could not resolve hostname a: Name or service not known", "/etc/hosts"),
            ("ssh: connect to host a port 22: Connection refused", "is a up"),
            ("", "without a question"),
        ] {
            assert!(fix("a", words).contains(part), "{words}");
        }
    }
}
