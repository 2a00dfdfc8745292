//! `ginrs-run --timeline`: what it says of a program whose puts are known (`timelines/ring.cu`), ranks as processes and as threads, however
//! they end.

use abi_tests::programs::compiled;
use abi_tests::{prefix, root, text};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output};

const SOURCE: &str = "abi-tests/timelines/ring.cu";
const RANKS: usize = 2;
/// Of all ranks: 2 blocks, 3 rounds.
const PUTS: usize = RANKS * 2 * 3;

fn line_of(text: &str) -> String {
    let source = std::fs::read_to_string(root().join(SOURCE)).unwrap();
    let at = source.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("no line with {text}"));
    format!("ring.cu:{}", at + 1)
}

fn job(ranks: usize, options: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new(prefix().join("bin/ginrs-run"));
    command
        .args(["-n", &ranks.to_string(), "--timeout", "240", "--devices", "2"])
        .args(options)
        .arg(compiled(SOURCE))
        .args(arguments);
    command
}

fn run(file: &Path, ranks: usize, arguments: &[&str]) -> (Output, Vec<Value>) {
    let output = job(ranks, &["--timeline", file.to_str().unwrap()], arguments).output().unwrap();
    let trace = std::fs::read_to_string(file).unwrap();
    let trace: Value = serde_json::from_str(&trace).unwrap_or_else(|error| panic!("{error}\n{trace}\n{}", text(&output)));
    assert_eq!(trace["otherData"]["dropped"], 0);
    (output, trace["traceEvents"].as_array().unwrap().clone())
}

fn of<'a>(events: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["ph"] == "X" && event["cat"] == kind)
}

fn begin(event: &Value) -> f64 {
    event["ts"].as_f64().unwrap()
}

fn end(event: &Value) -> f64 {
    begin(event) + event["dur"].as_f64().unwrap()
}

/// Times are written in whole nanoseconds as microseconds; their sums are rounded.
const ROUNDED: f64 = 0.0005;

/// No negative durations; what shares a line is apart, or one holds the other.
fn is_nested(events: &[Value]) {
    let mut lines = HashMap::<_, Vec<&Value>>::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        assert!(end(event) >= begin(event), "{event}");
        lines.entry((event["pid"].as_u64(), event["tid"].as_u64())).or_default().push(event);
    }
    for mut line in lines.into_values() {
        line.sort_by(|a, b| begin(a).total_cmp(&begin(b)).then(end(b).total_cmp(&end(a))));
        let mut open = Vec::<&Value>::new();
        for event in line {
            open.retain(|outer| end(outer) > begin(event) + ROUNDED);
            open.iter().for_each(|outer| assert!(end(event) <= end(outer) + ROUNDED, "{event}\nin {outer}"));
            open.push(event);
        }
    }
}

/// Both ends of each arrow by what they stand in: kind and event.
fn arrows<'a>(events: &'a [Value], name: &str) -> Vec<(&'a Value, &'a Value)> {
    let inside = |arrow: &Value| {
        let holds = |event: &&Value| {
            event["ph"] == "X"
                && (&event["pid"], &event["tid"]) == (&arrow["pid"], &arrow["tid"])
                && begin(event) <= begin(arrow) + ROUNDED
                && end(event) + ROUNDED >= begin(arrow)
        };
        events.iter().filter(holds).max_by(|a, b| begin(a).total_cmp(&begin(b))).unwrap_or_else(|| panic!("{arrow} ends nowhere"))
    };
    let mut ends = HashMap::<_, [Option<&Value>; 2]>::new();
    for event in events.iter().filter(|event| event["cat"] == "flow" && event["name"] == name) {
        let end = usize::from(event["ph"] == "f");
        assert!(ends.entry(event["id"].as_u64()).or_default()[end].replace(event).is_none(), "two of {event}");
    }
    let both = |[from, to]: [Option<&'a Value>; 2]| {
        let (from, to) = (from.expect("an arrow begins"), to.expect("an arrow ends"));
        assert!(begin(from) <= begin(to), "{from}\n{to}");
        (inside(from), inside(to))
    };
    ends.into_values().map(both).collect()
}

/// Everything that the ring does, once and in order.
fn is_whole(events: &[Value]) {
    is_nested(events);
    let (put, wait, flush) = (line_of("gin.put("), line_of("// the wait"), line_of("// the flush"));
    let at = |event: &Value, place: &str| event["args"]["at"].as_str().is_some_and(|at| at.ends_with(place));
    let puts: Vec<_> = of(events, "put").collect();
    assert_eq!(puts.len(), PUTS);
    assert!(puts.iter().all(|event| at(event, &put) && event["args"]["bytes"] == 64));
    let moves: Vec<_> = of(events, "move").collect();
    assert_eq!(moves.len(), PUTS);
    for event in moves {
        let after = |what: &str| event["args"][format!("{what} after ns")].as_u64().unwrap_or_else(|| panic!("{what}: {event}"));
        assert!(after("taken") <= after("moved") && after("moved") <= after("done"), "{event}");
    }
    assert_eq!(of(events, "signal").count(), PUTS);
    let waits: Vec<_> = of(events, "wait").filter(|event| event["name"].as_str().unwrap().contains("signal")).collect();
    assert_eq!(waits.len(), PUTS);
    assert!(waits.iter().all(|event| at(event, &wait) && event["args"]["ended by"].as_str().unwrap().ends_with(&put)));
    let flushes = of(events, "wait").filter(|event| event["name"] == "flush");
    assert!(flushes.map(|event| assert!(at(event, &flush), "{event}")).count() <= 2 * RANKS * RANKS);
    let posts = arrows(events, "post");
    assert_eq!(posts.len(), PUTS);
    assert!(posts.iter().all(|(from, to)| from["cat"] == "put" && to["cat"] == "move"));
    let launches = arrows(events, "launch");
    assert_eq!(launches.len(), RANKS);
    assert!(launches.iter().all(|(from, to)| from["name"] == "launch ring" && to["name"] == "ring"));
    let signals = arrows(events, "signal");
    assert_eq!(signals.len(), PUTS);
    for (from, to) in signals {
        assert!(matches!(from["cat"].as_str(), Some("move" | "signal")) && to["cat"] == "wait", "{from}\n{to}");
    }
    assert_eq!(of(events, "kernel").count(), RANKS);
    assert!(
        of(events, "kernel")
            .all(|event| event["name"] == "ring" && event["args"]["launched at"].as_str().unwrap().contains("ring.cu:"))
    );
    assert_eq!(of(events, "block").count(), 2 * RANKS);
    for call in ["ncclCommInitRank", "ncclCommWindowRegister", "ncclDevCommCreate"] {
        assert_eq!(of(events, "call").filter(|event| event["name"] == call).count(), RANKS, "{call}");
    }
}

#[test]
fn each_put_and_wait_stands_there_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    let (output, events) = run(&file, RANKS, &[]);
    assert!(output.status.success(), "{}", text(&output));
    is_whole(&events);
    let (output, events) = run(&file, 1, &["", "threads", &RANKS.to_string()]);
    assert!(output.status.success(), "{}", text(&output));
    is_whole(&events);
}

/// A helper each, which sends what its ranks wrote; and machines that only messages join.
#[test]
fn ranks_on_several_machines_are_one_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let (file, rsh) = (folder.path().join("out.json"), folder.path().join("rsh"));
    std::fs::write(&rsh, "shift; exec sh -c \"$*\"").unwrap();
    let (file, rsh) = (file.to_str().unwrap(), format!("sh {}", rsh.display()));
    for machines in ["", "0,1"] {
        let mut command = job(RANKS, &["--timeline", file, "--hosts", "a,b", "--rsh", &rsh], &[]);
        let output = command.env("GINRS_FAKE_MACHINES", machines).output().unwrap();
        assert!(output.status.success(), "{machines}: {}", text(&output));
        let trace: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        if machines.is_empty() {
            is_whole(events);
        }
        let put = line_of("gin.put(");
        let waits: Vec<_> = of(events, "wait").filter(|event| event["name"] != "flush").collect();
        assert_eq!((waits.len(), arrows(events, "signal").len()), (PUTS, PUTS), "{machines}");
        assert!(waits.iter().all(|event| event["args"]["ended by"].as_str().is_some_and(|by| by.ends_with(&put))), "{waits:?}");
    }
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "the picture and the script");
}

#[test]
fn collectives_have_their_names_and_what_was_told_stands_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    let mut command = Command::new(prefix().join("bin/ginrs-run"));
    command.args(["-n", "2", "--timeout", "240", "--devices", "2", "--timeline"]).arg(&file);
    let output = command.arg(compiled("abi-tests/timelines/collectives.cu")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let names = ["ncclAllReduce of 65536 x ", "ncclAllGather of 16384 x ", "messages: 1 sent, 1 received"];
    for (kind, before) in [("kernel", ""), ("launch", "launch ")] {
        for name in names {
            let is_it = |event: &&Value| event["name"].as_str().unwrap().starts_with(&format!("{before}{name}"));
            assert_eq!(of(events, kind).filter(is_it).count(), 2, "{kind} {name}");
        }
        assert_eq!(of(events, kind).count(), 6);
    }
    let launches = arrows(events, "launch");
    assert_eq!(launches.len(), 6);
    for (from, to) in launches {
        assert_eq!(from["name"].as_str().unwrap(), format!("launch {}", to["name"].as_str().unwrap()));
    }
    let told: Vec<_> = of(events, "warning").map(|event| event["name"].as_str().unwrap()).collect();
    assert!(told.len() == 2 && told.iter().all(|line| line.starts_with("GINRS-E061 ")), "{told:?}");
}

#[test]
fn it_stays_however_a_rank_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    for (how, status) in [("abort", 134), ("exit", 0), ("quick_exit", 0), ("term", 143), ("kill", 137), ("fork", 0), ("exec", 0)]
    {
        let (output, events) = run(&file, RANKS, &[how]);
        assert_eq!(output.status.code(), Some(status), "{how}: {}", text(&output));
        is_whole(&events);
    }
}

#[test]
fn files_of_processes_without_ginrs_run_are_merged_and_what_does_not_fit_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (prefix_of_files, file) = (folder.path().join("raw"), folder.path().join("out.json"));
    let merge = || {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "timeline"));
        let mut command = Command::new(prefix().join("bin/ginrs-run"));
        let output = command.arg("--timeline").arg(&file).arg("--merge").args(files).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let trace: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        (text(&output), trace)
    };
    let threads = |events: &str| {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "240"]).arg(compiled(SOURCE)).args(["", "threads", &RANKS.to_string()]);
        let output = command.env("GINRS_TIMELINE", &prefix_of_files).env("GINRS_TIMELINE_EVENTS", events).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
    };
    threads("100000");
    let (said, trace) = merge();
    assert!(said.is_empty() && trace["otherData"]["dropped"] == 0, "{said}");
    is_whole(trace["traceEvents"].as_array().unwrap());
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    threads("64");
    let (said, trace) = merge();
    let dropped = trace["otherData"]["dropped"].as_u64().unwrap();
    assert!(dropped > 0 && said.contains(&format!("lacks its last {dropped} events")), "{said}");
}

#[test]
fn what_cannot_be_written_is_told_before_anything_runs() {
    let output = job(1, &["--timeline", "/no/such/out.json"], &["", "threads", "1"]).output().unwrap();
    let said = text(&output);
    assert!(!output.status.success() && said.contains("--timeline /no/such/out.json: ") && !said.contains("ok"), "{said}");
    let mut command = Command::new(compiled(SOURCE));
    let output = command.args(["", "threads", "2"]).env("GINRS_TIMELINE", "/no/such/raw").output().unwrap();
    let said = text(&output);
    assert!(output.status.success() && said.contains("GINRS-W022") && said.contains("/no/such/raw."), "{said}");
    assert!(said.contains("rank 0: ok"), "{said}");
    let output = Command::new(prefix().join("bin/ginrs-run")).args(["--merge", "x"]).output().unwrap();
    assert!(text(&output).contains("--timeline FILE"), "{}", text(&output));
}
