//! `ginrs-run --html` in a real browser: the page's numbers are those of the trace, and nothing of it fails, whatever names the user's
//! files have and however much there is. Where there is no browser only the page's making is tested, and a line says so.

use abi_tests::programs::compiled;
use abi_tests::{prefix, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use timeline::{HEAD_BYTES, Kind, MAGIC, hash};

const RING: &str = "abi-tests/timelines/ring.cu";

/// A browser without a window.
fn browser() -> Option<&'static str> {
    const NAMES: [&str; 4] = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
    let found = NAMES.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success()));
    if found.is_none() {
        // Not by eprintln: what a test that passes prints so is not shown.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no browser opens the pages of ginrs-run --html | fix: apt-get install chromium-headless-shell"
        );
    }
    found
}

/// What the page has become once its scripts have run; None without a browser.
fn opened(page: &Path, place: &str) -> Option<String> {
    let name = browser()?;
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240", name, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--enable-logging=stderr", "--dump-dom"]).arg(format!("--user-data-dir={}", home.path().display()));
    let output = command.arg(format!("file://{}{place}", page.display())).env("HOME", home.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("CONSOLE"), "{said}");
    let dom = String::from_utf8(output.stdout).unwrap();
    let end = dom.find("<script").unwrap_or_else(|| panic!("{said}\n{dom}"));
    assert!(
        dom.contains("<p id=\"fault\" hidden=\"\"></p>") && dom.contains("<title>ginrs: what happened when</title>"),
        "{}",
        &dom[..end]
    );
    Some(dom[..end].to_owned())
}

/// Attributes and text of each such element, if it holds no other of its kind.
fn elements(dom: &str, name: &str) -> Vec<(BTreeMap<String, String>, String)> {
    let begins = format!("<{name}");
    let parts = dom.split(&begins).skip(1).filter(|part| part.starts_with([' ', '>']));
    let one = |part: &str| {
        let (mut head, rest) = part.split_once('>').unwrap();
        let mut attributes = BTreeMap::new();
        while let Some((key, value)) = head.split_once("=\"") {
            let (value, next) = value.split_once('"').unwrap();
            attributes.insert(key.trim().to_owned(), value.to_owned());
            head = next;
        }
        let inner = rest.split(&format!("</{name}>")).next().unwrap();
        let shown: String = inner.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text)).collect();
        (attributes, shown.replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
    };
    parts.map(one).collect()
}

fn number(attributes: &BTreeMap<String, String>, name: &str) -> i64 {
    attributes.get(name).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} of {attributes:?}"))
}

/// What stands between two texts.
fn between<'a>(dom: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = dom.split_once(from).unwrap_or_else(|| panic!("no {from}: {dom}"));
    rest.split(to).next().unwrap()
}

/// A matrix of the page, by ranks.
fn matrix(dom: &str, from: &str, to: &str) -> BTreeMap<(i64, i64), i64> {
    let cells = elements(between(dom, from, to), "td").into_iter().filter(|(attributes, _)| attributes.contains_key("data-from"));
    cells.map(|(a, _)| ((number(&a, "data-from"), number(&a, "data-to")), number(&a, "data-value"))).collect()
}

struct Wait {
    who: i64,
    whom: i64,
    lasts: i64,
    at: String,
}

/// Waits of a trace, the longest first.
fn waits(events: &[Value]) -> Vec<Wait> {
    let groups = events.iter().filter(|event| event["name"] == "process_name");
    let rank = |text: &str| text.strip_prefix("rank ")?.split(|c: char| !c.is_ascii_digit()).next()?.parse::<i64>().ok();
    let ranks: BTreeMap<_, _> =
        groups.filter_map(|event| Some((event["pid"].as_u64(), rank(event["args"]["name"].as_str()?)?))).collect();
    let one = |event: &Value| {
        let args = &event["args"];
        let ended = args["ended by"].as_str().and_then(|by| rank(by.strip_prefix("a put of ")?));
        Wait {
            who: ranks[&event["pid"].as_u64()],
            whom: ended.or(args["for rank"].as_i64()).unwrap_or(-1),
            lasts: (event["dur"].as_f64().unwrap() * 1000.0).round() as i64,
            at: args["at"].as_str().unwrap_or("").into(),
        }
    };
    let mut all: Vec<_> = events.iter().filter(|event| event["ph"] == "X" && event["cat"] == "wait").map(one).collect();
    all.sort_by_key(|wait| std::cmp::Reverse(wait.lasts));
    all
}

/// Holds the numbers of a page against the trace of the same run.
fn is_of(dom: &str, trace: &Value, ranks: i64) {
    let events = trace["traceEvents"].as_array().unwrap();
    let (mut bytes, mut puts) = (BTreeMap::<_, i64>::new(), 0);
    for event in events.iter().filter(|event| event["cat"] == "move") {
        let of = |name: &str| event["args"][name].as_i64().unwrap();
        *bytes.entry((of("rank"), of("to rank"))).or_default() += of("bytes");
        puts += 1;
    }
    let all = waits(events);
    let (sum, _) = &elements(dom, "p")[0];
    let waited: i64 = all.iter().map(|wait| wait.lasts).sum();
    let told = ["data-ranks", "data-puts", "data-bytes", "data-waits", "data-waited"].map(|name| number(sum, name));
    assert_eq!(told, [ranks, puts, bytes.values().sum(), all.len() as i64, waited]);
    assert_eq!(matrix(dom, "class=\"bytes\"", "class=\"waited\""), bytes);
    let (mut pairs, mut lines) = (BTreeMap::new(), BTreeMap::<_, [i64; 3]>::new());
    for wait in &all {
        *pairs.entry((wait.who, wait.whom)).or_default() += wait.lasts;
        let line = lines.entry(wait.at.clone()).or_default();
        *line = [line[0] + 1, line[1] + wait.lasts, line[2].max(wait.lasts)];
    }
    assert_eq!(matrix(dom, "class=\"waited\"", "<script"), pairs);
    let rows = between(dom, "id=\"slowest\"", "</section>").split("<tr>").skip(2);
    let slowest: Vec<_> = rows.map(|row| elements(row, "td")).collect();
    assert_eq!(slowest.len(), all.len().min(100));
    for (row, wait) in slowest.iter().zip(&all) {
        assert_eq!(number(&row[0].0, "data-value"), wait.lasts);
    }
    let rows = between(dom, "id=\"places\"", "</section>").split("<tr>").skip(2).map(|row| elements(row, "td"));
    let places: BTreeMap<_, _> =
        rows.map(|row| (row[0].1.clone(), [1, 2, 3].map(|column: usize| number(&row[column].0, "data-value")))).collect();
    assert_eq!(places, lines);
}

#[test]
fn its_numbers_are_those_of_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (page, file) = (folder.path().join("out.html"), folder.path().join("out.json"));
    for (processes, threads) in [("2", "2"), ("1", "1"), ("1", "4")] {
        let mut command = Command::new(prefix().join("bin/ginrs-run"));
        command.args(["-n", processes, "--timeout", "240", "--devices", threads]).arg("--timeline").arg(&file);
        command.arg("--html").arg(&page).arg(compiled(RING));
        let is_threads = processes == "1";
        let output = if is_threads { command.args(["", "threads", threads]).output() } else { command.output() }.unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let written = std::fs::read_to_string(&page).unwrap();
        assert!(!["http:", "https:", " src=", "@import", "url("].iter().any(|word| written.contains(word)));
        let trace: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let Some(dom) = opened(&page, "") else { return };
        is_of(&dom, &trace, threads.parse().unwrap());
        assert_eq!(between(&dom, "<ul id=\"notes\">", "</ul>"), "");
        assert!(between(&dom, "id=\"warnings\"", "</section>").contains("There are no warnings."));
        // The longest wait for a signal, by its link.
        let rows: Vec<_> = between(&dom, "id=\"slowest\"", "</section>").split("<tr>").skip(2).collect();
        let row = rows.into_iter().find(|row| row.contains("wait for signal")).unwrap();
        let (place, at) = (between(row, "href=\"", "\""), &elements(row, "td")[3].1);
        let dom = opened(&page, place).unwrap();
        let details = elements(between(&dom, "id=\"details\"", "</section>"), "dd");
        assert!(details.iter().any(|(_, shown)| shown == at), "{details:?}");
        let ended = details.last().unwrap();
        assert!(ended.1.starts_with("move: 64 bytes to rank ") && ended.1.contains("ring.cu:"), "{ended:?}");
        let view = &elements(&dom, "span")[0].0;
        let wide = number(view, "data-to") - number(view, "data-from");
        let lasted = number(&elements(row, "td")[0].0, "data-value");
        assert!(lasted <= wide && wide <= 100 * lasted, "{view:?} {lasted}");
    }
}

/// A file as the libraries write it.
fn write(path: &Path, records: &[(Kind, u64, Vec<u64>)], texts: &[&str]) {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + records.len() * 96);
    for word in [MAGIC, 1 << 30, 1 << 30, 0, 77, 0, 1, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.resize(HEAD_BYTES, 0);
    let mut put = |time: u64, kind: Kind, words: &[u64]| {
        let at = bytes.len();
        [time, kind as u64 | 5 << 32].iter().chain(words).for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.resize(at + 96, 0);
    };
    for text in texts {
        for (number, part) in text.as_bytes().chunks(56).enumerate() {
            let mut words = vec![hash(text.as_bytes()), text.len() as u64, number as u64 * 56];
            words.extend(part.chunks(8).map(|eight| {
                let mut whole = [0; 8];
                whole[..eight.len()].copy_from_slice(eight);
                u64::from_le_bytes(whole)
            }));
            put(0, Kind::Text, &words);
        }
    }
    records.iter().for_each(|(kind, time, words)| put(*time, *kind, words));
    std::fs::write(path, bytes).unwrap();
}

/// So many waits, and puts to the next rank, of so many ranks; names that would be HTML.
fn many(ranks: u64, operations: u64, file: &str) -> Vec<(Kind, u64, Vec<u64>)> {
    let (mut all, name) = (Vec::new(), hash(file.as_bytes()));
    for rank in 0..ranks {
        let owner = (rank + 1) << 12;
        all.push((Kind::Rank, 1, vec![owner, 9, rank, ranks, rank]));
        all.push((Kind::Words, 1, vec![owner, 0, owner << 8, 64]));
        all.push((Kind::Kernel, 2, vec![rank, name, name, 1, 1, 1, rank]));
        all.push((Kind::Block, 2, vec![rank, 0]));
    }
    for i in 0..operations {
        let (rank, time) = (i % ranks, 10 + i / ranks * 100);
        let (owner, next) = ((rank + 1) << 12, (rank + 1) % ranks);
        all.push((Kind::Wait, time, vec![rank, 0, 0, name, 1 << 32 | 7, owner, owner << 8, i, 0, 0]));
        all.push((Kind::Take, time + 1, vec![owner, i, owner, i, next, 8 + rank, 1, 1, 0]));
        all.push((Kind::Moved, time + 2, vec![owner, i]));
        all.push((Kind::Done, time + 3, vec![owner, i]));
        all.push((Kind::WaitEnd, time + 40 + rank, vec![rank, 0, 0]));
    }
    all
}

fn merged(folder: &Path, records: &[(Kind, u64, Vec<u64>)], texts: &[&str]) -> std::path::PathBuf {
    let (file, page) = (folder.join("x.timeline"), folder.join("page.html"));
    write(&file, records, texts);
    let output =
        Command::new(prefix().join("bin/ginrs-run")).arg("--html").arg(&page).arg("--merge").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    page
}

#[test]
fn a_million_events_of_64_ranks_with_names_that_are_html_are_counted_and_capped() {
    const RANKS: u64 = 64;
    const OPERATIONS: u64 = 64 * 3125;
    let folder = tempfile::tempdir().unwrap();
    let file = "</script><img src=x onerror=\"document.title='bad'\"><!--\u{2028}'\\ \u{e9}\u{1f600}.cu";
    let page = merged(folder.path(), &many(RANKS, OPERATIONS, file), &[file]);
    let bytes = std::fs::metadata(&page).unwrap().len();
    assert!(bytes < 20 << 20, "{bytes}");
    let Some(dom) = opened(&page, "") else { return };
    let notes = elements(between(&dom, "<ul id=\"notes\">", "</ul>"), "li");
    let [(_, note)] = &notes[..] else { panic!("{notes:?}") };
    assert!(note.starts_with("Drawn are 100,000 of 400,128 slices"), "{note}");
    let each = (OPERATIONS / RANKS) as i64;
    let expected: BTreeMap<_, _> = (0..64).map(|rank| ((rank, (rank + 1) % 64), each * (8 + rank))).collect();
    assert_eq!(matrix(&dom, "class=\"bytes\"", "class=\"waited\""), expected);
    let waited = matrix(&dom, "class=\"waited\"", "<script");
    assert_eq!(waited.values().sum::<i64>(), (0..64).map(|rank| each * (40 + rank)).sum::<i64>());
    assert!(elements(&dom, "img").is_empty());
    let place = &elements(between(&dom, "id=\"slowest\"", "</section>"), "td")[3].1;
    assert_eq!(*place, format!("{file}:7"));
}

#[test]
fn pages_of_nothing_and_of_more_ranks_than_a_square_holds_open() {
    let folder = tempfile::tempdir().unwrap();
    let page = merged(folder.path(), &[], &[]);
    let Some(dom) = opened(&page, "#slice=3") else { return };
    assert!(dom.contains("Nothing was recorded"), "{dom}");
    let mut records = many(300, 3000, "a.cu");
    records.push((Kind::Told, 5, vec![hash(b"<b>told</b>")]));
    let page = merged(folder.path(), &records, &["a.cu", "<b>told</b>"]);
    let dom = opened(&page, "").unwrap();
    assert!(dom.contains("Not shown: 100 more puts between ranks"), "{dom}");
    let told = &elements(between(&dom, "id=\"warnings\"", "</section>"), "td")[2].1;
    assert_eq!(told, "<b>told</b>");
    let page = folder.path().join("none.html");
    let output =
        Command::new(prefix().join("bin/ginrs-run")).args(["-n", "1", "--html"]).arg(&page).arg("true").output().unwrap();
    assert!(output.status.code() == Some(1) && text(&output).contains("no process has written a timeline"), "{}", text(&output));
    assert!(opened(&page, "").unwrap().contains("Nothing was recorded"));
}

#[test]
fn what_cannot_be_written_is_told_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one");
    let one = one.to_str().unwrap();
    for (options, word) in [
        (vec!["--html", "/no/such/out.html"], "--html /no/such/out.html: No such file"),
        (vec!["--timeline", one, "--html", one], "both name"),
    ] {
        let output =
            Command::new(prefix().join("bin/ginrs-run")).args(["-n", "2"]).args(options).args(["echo", "ran"]).output().unwrap();
        let said = text(&output);
        assert!(!output.status.success() && said.contains(word) && !said.contains("ran\n"), "{said}");
    }
}
