//! Chrome's trace event format, which Perfetto reads: <https://ui.perfetto.dev>.

use super::job::Job;
use super::pair::Span;
use super::rows::Lines;
use super::story::Arrow;
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};

/// Writes it.
pub fn write(job: &Job, spans: &[Span], arrows: &[Arrow], out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    let lines = Lines::of(spans);
    let time = |ns: u64| ns.saturating_sub(job.first) as f64 / 1000.0;
    let other =
        json!({"dropped": job.dropped(), "clock": job.clock(), "written by": concat!("ginrs-run ", env!("CARGO_PKG_VERSION"))});
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{other},\"traceEvents\":[")?;
    let mut is_first = true;
    let mut event = |value: Value| {
        let comma = if std::mem::take(&mut is_first) { "\n" } else { ",\n" };
        write!(out, "{comma}{value}")
    };
    for ((process, device), pid) in &lines.groups {
        let name = job.name(*process, *device);
        event(json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}))?;
        event(json!({"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}))?;
    }
    for (pid, tid, name) in &lines.named {
        event(json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}))?;
        event(json!({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}))?;
    }
    for (span, (pid, tid)) in spans.iter().zip(&lines.of) {
        let mut slice = |name: &str, kind: &str, from: u64, to: u64| {
            event(json!({
                "ph": "X", "name": name, "cat": kind, "pid": pid, "tid": tid, "ts": time(from), "dur": (to - from) as f64 / 1000.0,
                "args": span.more,
            }))
        };
        slice(&span.name, span.what.name(), span.from, span.to)?;
        if let (Some(moved), Some(word)) = (span.moved, span.word) {
            slice(&format!("signal of rank {}", word.rank.rank), "signal", moved.clamp(span.from, span.to), span.to)?;
        }
    }
    for (id, arrow) in arrows.iter().enumerate() {
        for (ph, (span, at)) in [("s", arrow.from), ("f", arrow.to)] {
            let (pid, tid) = lines.of[span];
            let mut end =
                json!({"ph": ph, "name": arrow.name, "cat": "flow", "id": id + 1, "pid": pid, "tid": tid, "ts": time(at)});
            if ph == "f" {
                end["bp"] = "e".into();
            }
            event(end)?;
        }
    }
    write!(out, "\n]}}\n")?;
    out.flush()
}
