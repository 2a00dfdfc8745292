//! `--html`: one page for people without Perfetto. It needs no network and no other file: style.css, the data as JSON and the scripts
//! stand in it. canvas.js draws, tables.js fills the tables, details.js says what a slice is.
//!
//! What is drawn has a limit ([`MOST`]), as a browser has; the numbers in the tables are of all spans.

use super::Picture;
use super::pair::{Span, What};
use super::rows::Lines;
use super::summary::{Comm, Summary, Waits};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

/// Slices that a page draws: 100,000 are 10 MB, and half a second in a browser.
pub const MOST: usize = 100_000;
/// The slowest waits that it names.
const SLOWEST: usize = 100;
/// Lines of the user's that it names.
const LINES: usize = 200;
/// Pairs of ranks that it names for each communicator: all of 64 ranks.
const PAIRS: usize = 64 * 64;
/// Communicators that it has tables of.
const COMMS: usize = 16;

/// As `kinds` of the page has them.
const KINDS: [&str; 9] = ["call", "launch", "kernel", "block", "put", "wait", "move", "store", "warning"];
/// Warnings that it has.
const WARNINGS: usize = 1000;

/// Texts of the page, each once.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Texts {
    /// The number of a text; -1 of an empty one.
    fn number(&mut self, text: &str) -> i64 {
        if text.is_empty() {
            return -1;
        }
        if let Some(number) = self.numbers.get(text) {
            return *number as i64;
        }
        self.numbers.insert(text.into(), self.all.len());
        self.all.push(text.into());
        self.all.len() as i64 - 1
    }
}

/// Which spans are drawn: those that tables point to, then the longest, each with what led to it.
fn chosen(picture: &Picture, wanted: impl Iterator<Item = usize>, most: usize) -> Vec<usize> {
    let spans = &picture.spans;
    let before: HashMap<usize, usize> = picture.arrows.iter().map(|arrow| (arrow.to.0, arrow.from.0)).collect();
    let mut longest: Vec<usize> = (0..spans.len()).collect();
    longest.sort_by_key(|index| Reverse(spans[*index].to - spans[*index].from));
    let (mut is_in, mut all) = (vec![false; spans.len()], Vec::new());
    for first in wanted.chain(longest) {
        let mut next = Some(first);
        while let Some(index) = next.filter(|index| all.len() < most && !is_in[*index]) {
            is_in[index] = true;
            all.push(index);
            next = before.get(&index).copied();
        }
    }
    all.sort_unstable();
    all
}

/// What the page knows.
fn data(picture: &Picture, most: usize) -> Value {
    let (job, spans) = (&picture.job, &picture.spans);
    let summary = Summary::of(job, spans, &picture.arrows, SLOWEST);
    let warnings: Vec<usize> = (0..spans.len()).filter(|index| spans[*index].what == What::Warning).collect();
    let pointed = warnings.iter().take(WARNINGS).chain(&summary.slowest).copied();
    let pointed = pointed.chain(summary.lines.iter().take(LINES).map(|(_, waits)| waits.which));
    let comms = summary.comms.values().take(COMMS);
    let pointed = pointed.chain(comms.flat_map(|comm| pairs(comm).into_iter().map(|(_, waits)| waits.which)));
    let drawn = chosen(picture, pointed, most);
    let numbers: HashMap<usize, usize> = drawn.iter().enumerate().map(|(number, index)| (*index, number)).collect();
    let slice = |index: usize| numbers.get(&index).map_or(-1, |number| *number as i64);

    let lines = Lines::of(spans);
    let mut used: Vec<u64> = drawn.iter().map(|index| lines.of[*index].1).collect();
    used.sort_unstable();
    used.dedup();
    let row = |line: u64| used.binary_search(&line).expect("a line that is used") as i64;
    let groups: Vec<_> = lines.groups.keys().map(|(process, device)| job.name(*process, *device)).collect();
    let rows: Vec<_> =
        used.iter().map(|line| &lines.named[*line as usize - 1]).map(|(group, _, name)| json!([group - 1, name])).collect();

    let mut texts = Texts::default();
    let time = |ns: u64| ns.saturating_sub(job.first) as i64;
    let slices: Vec<[i64; 11]> = drawn
        .iter()
        .map(|index| {
            let span = &spans[*index];
            let more = |key: &str| span.more.get(key);
            let text = |key: &str| more(key).and_then(Value::as_str).unwrap_or("");
            let place = if span.at().is_empty() { text("launched at") } else { span.at() };
            [
                row(lines.of[*index].1),
                kind(span),
                time(span.from),
                (span.to - span.from) as i64,
                texts.number(&span.name),
                texts.number(place),
                texts.number(text("kernel")),
                more("thread").and_then(Value::as_i64).unwrap_or(-1),
                if matches!(span.what, What::Put | What::Move) { span.bytes as i64 } else { -1 },
                span.moved.map_or(-1, |moved| moved.clamp(span.from, span.to) as i64 - span.from as i64),
                more("ended").is_some().into(),
            ]
        })
        .collect();
    let both = |arrow: &&super::story::Arrow| numbers.contains_key(&arrow.from.0) && numbers.contains_key(&arrow.to.0);
    let arrows: Vec<[i64; 4]> = picture
        .arrows
        .iter()
        .filter(both)
        .map(|arrow| [slice(arrow.from.0), time(arrow.from.1), slice(arrow.to.0), time(arrow.to.1)])
        .collect();
    let whose = |span: &Span| span.rank.map_or(-1, |rank| i64::from(rank.rank));
    let slowest: Vec<_> = summary
        .slowest
        .iter()
        .map(|index| {
            let by = spans[*index].more.get("ended by").and_then(Value::as_str).unwrap_or("");
            [slice(*index), whose(&spans[*index]), texts.number(by)]
        })
        .collect();
    let places: Vec<_> = summary
        .lines
        .iter()
        .take(LINES)
        .map(|(place, waits)| json!([place, waits.count, waits.total, waits.longest, slice(waits.which)]))
        .collect();
    let comms: Vec<_> = summary.comms.iter().take(COMMS).map(|(comm, all)| of_comm(*comm, all, slice)).collect();
    let told: Vec<_> = warnings.iter().take(WARNINGS).map(|index| slice(*index)).collect();
    let last = spans.iter().map(|span| span.to).max().unwrap_or(job.first);
    json!({
        "version": env!("CARGO_PKG_VERSION"), "clock": job.clock(), "dropped": job.dropped(), "lasts": time(last),
        "processes": job.processes.len(), "spans": spans.len(), "allArrows": picture.arrows.len(),
        "puts": [summary.puts.0, summary.puts.1], "lost": [summary.lost.0, summary.lost.1],
        "waits": [summary.waits.count, summary.waits.total], "strangers": summary.strangers,
        "kinds": KINDS, "groups": groups, "rows": rows, "slices": slices, "arrows": arrows, "slowest": slowest,
        "warnings": told, "allWarnings": warnings.len(), "places": places, "allPlaces": summary.lines.len(), "comms": comms, "allComms": summary.comms.len(), "texts": texts.all,
    })
}

fn kind(span: &Span) -> i64 {
    let is_store = span.what == What::Put && span.carries();
    let name = if is_store { "store" } else { span.what.name() };
    KINDS.iter().position(|kind| *kind == name).expect("each kind of span has a name") as i64
}

type Pair = ((u32, Option<u32>), Waits);

/// Who waited for whom, the longest first.
fn pairs(comm: &Comm) -> Vec<Pair> {
    let mut all: Vec<Pair> = comm.waits.iter().map(|(pair, waits)| (*pair, *waits)).collect();
    all.sort_by_key(|(pair, waits)| (Reverse(waits.total), *pair));
    all.truncate(PAIRS);
    all
}

fn of_comm(name: u64, comm: &Comm, slice: impl Fn(usize) -> i64) -> Value {
    let mut bytes: Vec<_> = comm.bytes.iter().map(|((from, to), (bytes, puts))| (*bytes, *puts, *from, *to)).collect();
    bytes.sort_by_key(|(bytes, puts, from, to)| (Reverse(*bytes), Reverse(*puts), *from, *to));
    let left = bytes.len().saturating_sub(PAIRS);
    bytes.truncate(PAIRS);
    let waits: Vec<_> = pairs(comm)
        .iter()
        .map(|((rank, whom), waits)| {
            let whom = whom.map_or(-1, i64::from);
            json!([rank, whom, waits.total, waits.count, waits.longest, slice(waits.which)])
        })
        .collect();
    let bytes: Vec<_> = bytes.iter().map(|(bytes, puts, from, to)| json!([from, to, bytes, puts])).collect();
    json!({
        "name": format!("{name:#018x}"), "ranks": comm.ranks, "bytes": bytes, "waits": waits,
        "left": [left, comm.waits.len().saturating_sub(PAIRS)],
    })
}

/// Writes it, with at most so many slices.
pub fn write(picture: &Picture, most: usize, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    // A `<` of a name would end the script's element; in JSON it stands in texts alone.
    let data = data(picture, most).to_string().replace('<', "\\u003c");
    let scripts = concat!(include_str!("tables.js"), include_str!("details.js"), include_str!("canvas.js"));
    let mut rest = include_str!("page.html");
    for (place, text) in [("@STYLE@", include_str!("style.css")), ("@DATA@", &data), ("@SCRIPT@", scripts)] {
        let (before, behind) = rest.split_once(place).expect("page.html has the place");
        out.write_all(before.as_bytes())?;
        out.write_all(text.as_bytes())?;
        rest = behind;
    }
    out.write_all(rest.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeline::{Event, Head, Kind, Trace};

    /// Rank 0 waits so long in each of these; what rank 1 has put ends each, by the name of a file.
    fn picture(waits: &[u64], file: &str) -> Picture {
        let head = Head { magic: 0, capacity: 0, taken: 0, dropped: 3, pid: 7, wall: 0, machine: 1, rank: 0 };
        let mut events = Vec::new();
        let mut put = |time: u64, kind: Kind, some: &[u64]| {
            let mut words = [0; 10];
            words[..some.len()].copy_from_slice(some);
            events.push(Event { time, kind, thread: 5, words });
        };
        (0..2).for_each(|rank| put(1, Kind::Rank, &[100 + rank, 9, rank, 2, rank]));
        put(1, Kind::Words, &[100, 0, 4096, 4]);
        (0..2).for_each(|rank| put(1, Kind::Kernel, &[rank, 1, 1, 1, 1, 1, rank]));
        let mut time = 10;
        for (number, wait) in waits.iter().enumerate() {
            let number = number as u64;
            put(time, Kind::Post, &[1, 0, 0, 1, 4 << 32 | 8, 64, number, time, 0]);
            put(time, Kind::Wait, &[0, 0, 0, 1, 1 << 32 | 7, 100, 4096, number, 0, 0]);
            put(time + 1, Kind::Take, &[101, number, 64, number, 0, 32, 1, 1, 0]);
            put(time + 2, Kind::Moved, &[101, number]);
            put(time + 2, Kind::Done, &[101, number]);
            put(time + wait, Kind::WaitEnd, &[0, 0, 0]);
            time += wait + 10;
        }
        let texts = [(1, file.to_owned())].into();
        let job = super::super::job::Job::of(&[Trace { head, events, texts }]);
        let mut spans = super::super::pair::pair(&job);
        let arrows = super::super::story::arrows(&job, &mut spans);
        Picture { job, spans, arrows }
    }

    fn page(picture: &Picture, most: usize) -> (String, Value) {
        let mut bytes = Vec::new();
        write(picture, most, &mut bytes).unwrap();
        let page = String::from_utf8(bytes).unwrap();
        let (_, rest) = page.split_once("id=\"data\">").unwrap();
        let value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
        (page, value)
    }

    #[test]
    fn the_longest_and_what_led_to_them_are_drawn_and_all_are_counted() {
        let picture = picture(&[50, 10, 900, 20], "a.cu");
        let (_, all) = page(&picture, 1000);
        assert_eq!((all["slices"].as_array().unwrap().len(), all["spans"].as_u64()), (14, Some(14)));
        assert_eq!(all["comms"][0]["bytes"], json!([[1, 0, 128, 4]]));
        assert_eq!(
            all["comms"][0]["waits"].as_array().unwrap()[0].as_array().unwrap()[..5],
            json!([0, 1, 980, 4, 900]).as_array().unwrap()[..]
        );
        assert_eq!((&all["waits"], &all["puts"], &all["dropped"]), (&json!([4, 980]), &json!([4, 128]), &json!(3)));
        let (_, few) = page(&picture, 3);
        let slices = few["slices"].as_array().unwrap();
        let kinds: Vec<_> = slices.iter().map(|slice| KINDS[slice[1].as_u64().unwrap() as usize]).collect();
        assert_eq!(kinds, ["put", "wait", "move"]);
        assert_eq!(
            (slices[1][3].as_u64(), few["arrows"].as_array().unwrap().len(), &few["waits"]),
            (Some(900), 2, &all["waits"])
        );
        assert_eq!(few["slowest"][0][0], 1);
        assert_eq!(few["slowest"][1][0], -1);
    }

    #[test]
    fn names_stay_texts() {
        for file in
            ["</script><script>alert(1)</script>", "<!--<script>", "a\"b\\c'd`${e}\u{2028}\u{0}\n\u{1f600}.cu", "@DATA@ @SCRIPT@"]
        {
            let picture = picture(&[5], file);
            let (page, data) = page(&picture, 1000);
            assert_eq!(data["places"][0][0], format!("{file}:7"));
            assert_eq!(page.matches("</script>").count(), 2, "{file}");
            assert_eq!(page.matches("<script").count(), 2, "{file}");
        }
    }

    #[test]
    fn of_nothing_there_is_a_page() {
        let picture = Picture::of(&[]).unwrap();
        let (_, data) = page(&picture, 10);
        assert_eq!((&data["spans"], &data["lasts"], &data["comms"]), (&json!(0), &json!(0), &json!([])));
    }
}
