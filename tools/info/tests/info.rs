//! ginrs-info: what it prints, as text and as JSON, alone and as the ranks of a job.

use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

/// Without what the caller's environment may hold.
fn info(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ginrs-info"));
    let foreign = |name: &str| {
        ["NCCL_", "GINRS_", "LOCAL_", "RANK", "WORLD_SIZE", "SLURM_", "PMI", "OMPI_"].iter().any(|p| name.starts_with(p))
    };
    for (name, _) in std::env::vars().filter(|(name, _)| foreign(name)) {
        command.env_remove(name);
    }
    command.env("HOME", "/nonexistent").args(words).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(command: &mut Command) -> Value {
    let output = command.arg("--json").output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Every check of a tree has the same keys, and a "no" or an answer of any kind is one of three words.
fn well_formed(check: &Value) {
    let keys: BTreeSet<&str> = check.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["answer", "checks", "fix", "found", "name"].into());
    assert!(["yes", "no", "note"].contains(&check["answer"].as_str().unwrap()), "{check}");
    check["checks"].as_array().unwrap().iter().for_each(well_formed);
}

fn find<'a>(checks: &'a Value, name: &str) -> &'a Value {
    checks.as_array().unwrap().iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name} in {checks}"))
}

#[test]
fn the_tree_has_every_transport_of_the_library_and_why_not() {
    // Lines of the log must not stand between those of the answer.
    let all = json(info(&["--why"]).env("NCCL_DEBUG", "INFO").env("GINRS_DEVICE", "cpu"));
    all["checks"].as_array().unwrap().iter().for_each(well_formed);
    let transports = &find(&all["checks"], "transports")["checks"];
    let listed: Vec<&str> =
        find(transports, "list")["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    let names: Vec<&str> = ginrs::transport::factory::LIST.iter().map(|factory| factory.name()).collect();
    assert_eq!(listed, names);
    let other = find(&find(transports, "choice")["checks"], "processes of one machine");
    assert!(other["answer"] == "yes" && other["found"].as_str().unwrap().starts_with("shm"), "{other}");
    assert_eq!(find(&other["checks"], "loopback")["found"], "the peer is in another process");
    let gdaki = find(&find(&all["checks"], "backends")["checks"], "GDAKI");
    assert_eq!(gdaki["answer"], "note");
    // A card, or why there is none: and then what to do about it.
    let cards = find(&gdaki["checks"], "cards");
    assert!(cards["answer"] == "note" || cards["fix"].is_string(), "{cards}");
    let text = text(&info(&["--why"]).output().unwrap());
    for name in ["machine", "limits", "network", "devices", "GDAKI"].into_iter().chain(names) {
        assert!(text.contains(name), "{name} in {text}");
    }
}

#[test]
fn variables_have_value_origin_default_and_meaning() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".nccl.conf"), "NCCL_GIN_NCONTEXTS=2\nNCCL_HOSTID=from \"file\"\x07\n").unwrap();
    let mut command = info(&["env"]);
    let all = json(
        command.env("HOME", folder.path()).env("NCCL_HOSTID", "here").env("GINRS_SECRET", "hush").env("NCCL_PXN_DISABLE", "1"),
    );
    let rows = all["variables"].as_array().unwrap();
    assert_eq!(rows.len(), ginrs::config::TABLE.len());
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!((&row("NCCL_HOSTID")["value"], &row("NCCL_HOSTID")["origin"]), (&"here".into(), &"environment".into()));
    let conf = folder.path().join(".nccl.conf");
    assert_eq!(
        (row("NCCL_GIN_NCONTEXTS")["value"].as_str(), row("NCCL_GIN_NCONTEXTS")["origin"].as_str()),
        (Some("2"), conf.to_str())
    );
    assert_eq!((&row("GINRS_TIMEOUT")["value"], &row("GINRS_TIMEOUT")["default"]), (&Value::Null, &"300".into()));
    assert!(!all.to_string().contains("hush"), "a secret is shown");
    assert_eq!(all["without_effect"][0]["name"], "NCCL_PXN_DISABLE");
    assert!(rows.iter().all(|row| row["meaning"].as_str().is_some_and(|text| !text.is_empty())));
}

#[test]
fn bad_settings_are_listed_and_are_the_status() {
    let output = info(&["lint-env"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut bad = info(&["lint-env"]);
    bad.env("NCCL_DEBGU", "INFO").env("GINRS_TIMEOUT", "soon\u{1b}[31m").env("GINRS_TRANSPORT", "pigeon");
    let output = bad.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let all = json(&mut bad);
    let codes: Vec<&str> = all["complaints"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["W001", "W002", "E077"], "{all}");
    assert_eq!(all["complaints"][1]["fix"], "did you mean NCCL_DEBUG?");
    let lines = text(&output);
    assert!(lines.lines().count() == 3 && !lines.contains('\u{1b}'), "{lines}");
    for (name, value) in [
        ("NCCL_GIN_BACKEND", "x"),
        ("GINRS_COLLECTIVE", "x"),
        ("GINRS_DEVICE", "x"),
        ("NCCL_GIN_TYPE", "7"),
        ("NCCL_GIN_TYPE", "1"),
        ("NCCL_SOCKET_IFNAME", "nothing9"),
        ("NCCL_COMM_ID", "x"),
    ] {
        assert_eq!(info(&["lint-env"]).env(name, value).status().unwrap().code(), Some(1), "{name}");
    }
}

#[test]
fn numbers_are_explained() {
    let all = json(&mut info(&["explain", "e52", "GINRS-W001"]));
    assert_eq!((&all[0]["code"], &all[1]["code"]), (&"E052".into(), &"W001".into()));
    assert_eq!(all[0]["fix"], "use ncclMemAlloc");
    let output = info(&["explain", "E052", "E998"]).output().unwrap();
    assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no \"E998\""), "{output:?}");
}

#[test]
fn wrong_words_and_a_full_disk_are_told() {
    for words in [&[][..], &["--wat"], &["env", "x"], &["explain"]] {
        let output = info(words).output().unwrap();
        assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{words:?}: {output:?}");
    }
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = info(&["--help"]).stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert!(output.status.code() == Some(1) && !output.stderr.is_empty(), "{output:?}");
}

#[test]
fn the_network_is_the_one_that_the_library_takes() {
    let network = |value: &str| {
        let all = json(info(&["--why"]).env("NCCL_SOCKET_IFNAME", value).env("GINRS_DEVICE", "cpu"));
        find(&all["checks"], "network").clone()
    };
    let none = network("nothing9");
    assert!(none["answer"] == "no" && none["fix"].as_str().unwrap().contains("name one of these"), "{none}");
    let own = network("=lo");
    assert!(own["answer"] == "no" && own["fix"].as_str().unwrap().contains("bring one up"), "{own}");
    well_formed(&own);
    find(&own["checks"], "libfabric");
}

#[test]
fn an_error_is_json_too() {
    let all = json(info(&["explain", "E998"]).stderr(Stdio::null()));
    assert!(all["error"].as_str().unwrap().contains("E998"), "{all}");
}

/// Under mpirun and torchrun, each rank of a machine on a device of its own, the id from the meeting point.
#[test]
fn ranks_of_other_launchers_meet_as_users_programs_do() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for launcher in ["mpirun", "torchrun"] {
        let start = |rank: u16| {
            let mut command = info(&["--why", "--json"]);
            let (rank, port) = (rank.to_string(), port.to_string());
            match launcher {
                "mpirun" => command
                    .env("OMPI_COMM_WORLD_RANK", &rank)
                    .env("OMPI_COMM_WORLD_SIZE", "2")
                    .env("OMPI_COMM_WORLD_LOCAL_RANK", &rank)
                    .env("OMPI_COMM_WORLD_LOCAL_SIZE", "2")
                    .env("NCCL_COMM_ID", format!("127.0.0.1:{port}")),
                _ => command
                    .env("RANK", &rank)
                    .env("WORLD_SIZE", "2")
                    .env("LOCAL_RANK", "0")
                    .env("LOCAL_WORLD_SIZE", "1")
                    .env("MASTER_ADDR", "127.0.0.1")
                    .env("MASTER_PORT", &port)
                    .env("GINRS_FAKE_MACHINES", "per-rank"),
            };
            command.env("GINRS_SECRET", "0123456789abcdef").env("GINRS_DEVICE", "cpu");
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let running = [start(0), start(1)];
        let outputs = running.map(|rank| rank.wait_with_output().unwrap());
        let all: Value = serde_json::from_slice(&outputs[0].stdout).unwrap_or_else(|error| panic!("{error}: {outputs:?}"));
        let nodes = if launcher == "mpirun" { "1 nodes" } else { "2 nodes" };
        assert!(find(&all["checks"], "job")["found"].as_str().unwrap().contains(nodes), "{outputs:?}");
    }
}

/// Starts ranks as a launcher does; their outputs.
fn job(ranks: usize, environment: &[(&str, &str)]) -> Vec<Output> {
    let folder = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o700)).tempdir().unwrap();
    let start = |rank: usize| {
        let mut command = info(&["--why", "--json"]);
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", ranks.to_string()).env("LOCAL_RANK", rank.to_string());
        command
            .env("GINRS_RUN_ID", folder.path())
            .env("MASTER_PORT", "1")
            .env("GINRS_DEVICE", "cpu")
            .envs(environment.iter().copied());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let running: Vec<_> = (0..ranks).map(start).collect();
    running.into_iter().map(|rank| rank.wait_with_output().unwrap()).collect()
}

#[test]
fn ranks_of_a_job_tell_of_every_pair() {
    let outputs = job(3, &[]);
    assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
    assert!(outputs[1].stdout.is_empty() && outputs[2].stdout.is_empty());
    let all: Value = serde_json::from_slice(&outputs[0].stdout).unwrap();
    let job = find(&all["checks"], "job");
    well_formed(job);
    assert_eq!(job["found"], "3 ranks, 1 nodes, 3 ranks in each LSA team");
    assert!(find(&job["checks"], "rank 0 to ranks 1 to 2")["found"].as_str().unwrap().starts_with("shm"), "{job}");
    assert!(find(&job["checks"], "rank 2 to rank 2")["found"].as_str().unwrap().starts_with("loopback"), "{job}");
}

/// Sockets carry between strangers on no version's `messages`: nothing does, and each says why.
#[test]
fn a_pair_that_nothing_serves_is_the_status_and_has_every_reason() {
    let outputs = job(2, &[("GINRS_FAKE_MACHINES", "per-rank"), ("GINRS_TRANSPORT", "shm")]);
    assert_eq!(outputs[0].status.code(), Some(1), "{outputs:?}");
    let all: Value = serde_json::from_slice(&outputs[0].stdout).unwrap();
    let pair = find(&find(&all["checks"], "job")["checks"], "rank 0 to rank 1").clone();
    assert_eq!(pair["answer"], "no");
    assert!(find(&pair["checks"], "shm")["found"].as_str().unwrap().contains("another machine"), "{pair}");
}
