//! What goes wrong outside of the library is told as what it is: the process, the value, the fix. Ranks are processes here.

#[path = "../src/hang_limit.rs"]
mod hang_limit;

use ginrs::bootstrap::{Address, Bootstrap, UniqueId};
use ginrs::device::Memory;
use ginrs::device::cpu::CpuDevice;
use ginrs::error::{Code, Error, Result};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// This test in another process, as `role`, with one line from its `told`.
fn start(test: &str, role: &str, variables: &[(&str, &str)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("GINRS_TEST_ROLE", role)
        .env("GINRS_INIT_TIMEOUT", "20")
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn role() -> Option<String> {
    std::env::var("GINRS_TEST_ROLE").ok()
}

fn hex(id: &UniqueId) -> String {
    id.bytes().iter().map(|b| format!("{b:02x}")).collect()
}

fn id() -> UniqueId {
    let text = std::env::var("GINRS_TEST_ID").unwrap();
    let bytes: Vec<u8> = (0..256).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect();
    UniqueId::from_bytes(&bytes.try_into().unwrap()).unwrap()
}

/// In a child: what the test is about, for the parent to read.
fn tell<T>(result: Result<T>) {
    println!("\ntold: {}", result.map_or_else(|error| error.to_string(), |_| "fine".into()));
}

/// In the parent: what the child told, and its log. It never prints a panic.
fn told_and_log(child: Child) -> (String, String) {
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!err.contains("panicked"), "{err}");
    let told = out.split("\ntold: ").nth(1).unwrap_or_else(|| panic!("{out}{err}"));
    (told.lines().next().unwrap().to_owned(), err.into_owned())
}

fn told(child: Child) -> String {
    told_and_log(child).0
}

/// Memory counts as files: more than one may have is an error, where the system would end the process without a word.
#[test]
fn memory_behind_the_limit_of_files_is_refused() {
    if std::env::var_os("GINRS_TEST_FILES").is_some() {
        let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
        // SAFETY: a plain call with a filled in value.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
        let refused = CpuDevice::new(0).create_shared(4 << 20).err().unwrap();
        assert!(refused.id == 23 && refused.text.contains("ulimit -f"), "{refused}");
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory_behind_the_limit_of_files_is_refused"])
        .env("GINRS_TEST_FILES", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// No descriptor can be opened from now on: also not by raising the soft limit.
fn leave(descriptors: u64) {
    let next = std::fs::File::open("/dev/null").unwrap();
    let most = std::os::fd::AsRawFd::as_raw_fd(&next) as u64 + descriptors;
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: a valid struct.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

fn about_descriptors(text: &str) {
    assert!(text.starts_with("GINRS-E024 ") && text.contains("ulimit -n"), "{text}");
    assert!(!text.contains("report") && !text.contains("libginrs"), "{text}");
}

#[test]
fn out_of_descriptors_is_told_by_who_is() {
    let test = "out_of_descriptors_is_told_by_who_is";
    if let Some(role) = role() {
        let rank: u32 = role.parse().unwrap();
        let boot = Bootstrap::join(&id(), rank, 2).unwrap();
        let all = boot.allgather("addresses", &boot.fd_address().to_bytes()).unwrap();
        let other = Address::from_bytes(all[1 - rank as usize][..].try_into().unwrap()).unwrap();
        boot.publish(7, std::fs::File::open("/dev/null").unwrap().into());
        boot.barrier("published").unwrap();
        // Rank 1, which gives, needs none for that.
        leave(0);
        if rank == 0 {
            tell(boot.fetch(&other, 1, 7));
            tell(boot.fetch(&boot.fd_address(), 0, 7));
        }
        let _ = boot.barrier("end");
        return;
    }
    let id = UniqueId::create().unwrap();
    let ranks = ["0", "1"].map(|rank| start(test, rank, &[("GINRS_TEST_ID", &hex(&id))]));
    let [first, second] = ranks;
    let output = first.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("told: ")).collect();
    assert_eq!(lines.len(), 2, "{out}{}", String::from_utf8_lossy(&output.stderr));
    lines.iter().for_each(|line| about_descriptors(line));
    assert!(second.wait_with_output().unwrap().status.success());
}

/// With one descriptor more each time; the pairs at the same time, for some end at the deadline only.
#[test]
fn a_rank_that_has_too_few_descriptors_to_join_says_so() {
    let test = "a_rank_that_has_too_few_descriptors_to_join_says_so";
    if let Some(role) = role() {
        if let Some(few) = role.strip_prefix("few ") {
            leave(few.parse().unwrap());
            return tell(Bootstrap::join(&id(), 1, 2).and_then(|boot| boot.barrier("step")));
        }
        return tell(Bootstrap::join(&id(), 0, 2).and_then(|boot| boot.barrier("step")));
    }
    let pairs = [0; 12].map(|_| UniqueId::create().unwrap()).into_iter().enumerate().map(|(few, id)| {
        let set = [("GINRS_TEST_ID", &*hex(&id)), ("GINRS_INIT_TIMEOUT", "20"), ("GINRS_TIMEOUT", "30")];
        [start(test, "other", &set), start(test, &format!("few {few}"), &set)]
    });
    let mut failed = 0;
    for [other, limited] in pairs.collect::<Vec<_>>() {
        let ((limited, log), other) = (told_and_log(limited), told(other));
        if limited == "fine" {
            assert_eq!(other, "fine");
            continue;
        }
        failed += 1;
        // It has met the others, who cannot reach it: they say so first, and its log says why.
        match limited.starts_with("GINRS-E040 rank 1 (pid ") {
            true => {
                assert!(log.contains("GINRS-W005 connections cannot be accepted") && log.contains("ulimit -n"), "{limited}{log}")
            }
            false => about_descriptors(&limited),
        }
        assert!(other.contains("rank 1"), "{other}");
    }
    assert!((1..12).contains(&failed), "{failed}");
}

/// The same where the rank's own process holds the root, and cannot let it in.
#[test]
fn a_process_that_has_too_few_descriptors_for_its_own_rank_says_so() {
    let test = "a_process_that_has_too_few_descriptors_for_its_own_rank_says_so";
    if let Some(role) = role() {
        leave(role.parse().unwrap());
        return tell(UniqueId::create().and_then(|id| Bootstrap::join(&id, 0, 1)));
    }
    let all: Vec<Child> = (0..10).map(|few: u32| start(test, &few.to_string(), &[("GINRS_INIT_TIMEOUT", "20")])).collect();
    let all: Vec<String> = all.into_iter().map(told).collect();
    let (fine, short): (Vec<&String>, Vec<&String>) = all.iter().partition(|text| *text == "fine");
    assert!(!fine.is_empty() && short.len() > 2, "{all:?}");
    short.into_iter().for_each(|text| about_descriptors(text));
}

/// Who dialled may not hear in time that it was let in, and dial again: nothing may go by the link that only the other end takes for made.
#[test]
fn nothing_is_sent_by_a_link_whose_dialler_has_given_up() {
    let test = "nothing_is_sent_by_a_link_whose_dialler_has_given_up";
    if let Some(role) = role() {
        let rank: u32 = role.parse().unwrap();
        let boot = Bootstrap::join(&id(), rank, 2).unwrap();
        if rank == 1 {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        return tell(boot.barrier("first").and_then(|()| boot.barrier("second")));
    }
    let id = UniqueId::create().unwrap();
    let set = [("GINRS_TEST_ID", &*hex(&id)), ("GINRS_TIMEOUT", "10"), ("GINRS_FAULT", "fail:welcome")];
    for child in [start(test, "0", &set), start(test, "1", &set[..2])] {
        assert_eq!(told(child), "fine");
    }
}

/// The same at the root: it counted the rank in, and took its second coming for another rank of that number, or its first connection's end
/// for its own.
#[test]
fn a_rank_that_gave_up_before_it_was_let_in_comes_again() {
    let test = "a_rank_that_gave_up_before_it_was_let_in_comes_again";
    if let Some(role) = role() {
        let joined = Bootstrap::join(&id(), role.parse().unwrap(), 2);
        return tell(joined.and_then(|boot| boot.barrier("met")));
    }
    for late in ["0", "1"] {
        let id = UniqueId::create().unwrap();
        let set = [("GINRS_TEST_ID", &*hex(&id)), ("GINRS_TIMEOUT", "10"), ("GINRS_FAULT", "fail:welcome at the root")];
        let start = |role| start(test, role, if role == late { &set } else { &set[..2] });
        for child in ["0", "1"].map(start) {
            assert_eq!(told(child), "fine", "rank {late} came twice");
        }
    }
}

#[test]
fn the_process_that_held_the_root_is_named_when_it_ends() {
    let test = "the_process_that_held_the_root_is_named_when_it_ends";
    match role().as_deref() {
        Some("root") => {
            let id = UniqueId::create().unwrap();
            println!("\nid: {}", hex(&id));
            drop(Bootstrap::join(&id, 0, 3));
            return;
        }
        Some(_) => return tell(Bootstrap::join(&id(), 1, 3)),
        None => {}
    }
    let mut root = start(test, "root", &[]);
    let lines = BufReader::new(root.stdout.take().unwrap()).lines().map_while(std::result::Result::ok);
    let text = lines.filter_map(|line| line.strip_prefix("id: ").map(str::to_owned)).next().unwrap();
    let waits = start(test, "rank", &[("GINRS_TEST_ID", &text)]);
    // It has joined when the kernel shows its connection: the name of the listener, which is bytes 17 to
    // 33 of the id, with another inode.
    let name = format!("@ginrs-{}", &text[34..66]);
    let seen = || std::fs::read_to_string("/proc/net/unix").unwrap().matches(&name).count();
    let until = hang_limit::hang_deadline();
    while seen() < 3 {
        assert!(std::time::Instant::now() < until, "rank 1 does not join");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    root.kill().unwrap();
    let pid = format!("pid {}", root.id());
    for child in [waits, start(test, "rank", &[("GINRS_TEST_ID", &text)])] {
        let told = told(child);
        assert!(told.starts_with("GINRS-E019") && told.contains(&pid), "{told}");
    }
    root.wait().unwrap();
}

#[test]
fn another_ranks_words_move_no_terminal() {
    let test = "another_ranks_words_move_no_terminal";
    if let Some(role) = role() {
        let rank: u32 = role.parse().unwrap();
        let boot = Bootstrap::join(&id(), rank, 2).unwrap();
        boot.barrier("all here").unwrap();
        if rank == 1 {
            let text = format!("\x1b[2J\r\nhost:1:1 [0] NCCL WARN all is well \u{202e}{}", "x".repeat(5000));
            boot.poison(&Error::new(Code::SystemError, 24, text));
        }
        let error = boot.barrier("never").and_then(|()| boot.barrier("never again")).unwrap_err();
        println!("\nbytes: {}", error.text.len());
        ginrs::log::error(&error);
        println!("\ntold: {:?}", error.text);
        return;
    }
    let id = UniqueId::create().unwrap();
    let [first, second] = ["0", "1"].map(|rank| start(test, rank, &[("GINRS_TEST_ID", &hex(&id))]));
    assert!(second.wait_with_output().unwrap().status.success());
    let output = first.wait_with_output().unwrap();
    let all = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(all.contains("\\\\x1b[2J\\\\r\\\\nhost:1:1"), "{all}");
    assert!(!all.chars().any(|c| c == '\x1b' || c == '\r' || c == '\u{202e}'), "{all:?}");
    assert!(!all.lines().any(|line| line.starts_with("host:1:1")), "{all}");
    let bytes: usize = all.split("bytes: ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
    assert!(bytes < 2200, "{bytes}");
}

#[test]
fn a_system_without_random_bytes_is_an_error() {
    let test = "a_system_without_random_bytes_is_an_error";
    if role().is_some() {
        return tell(UniqueId::create());
    }
    let told = told(start(test, "rank", &[("GINRS_FAULT", "random")]));
    assert!(told.starts_with("GINRS-E007 ") && told.contains("random bytes"), "{told}");
}
