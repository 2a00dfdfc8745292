//! What led to what: from a put to its move, and from the signal of that to the wait that it ended.

use super::job::{Job, Word};
use super::pair::{Span, What};
use std::collections::HashMap;

/// Both ends: a span, and a time within it.
#[derive(Debug)]
pub struct Arrow {
    pub name: &'static str,
    pub from: (usize, u64),
    pub to: (usize, u64),
}

impl Arrow {
    /// From what raised a signal to the wait that it ended.
    pub fn is_signal(&self) -> bool {
        self.name == "signal"
    }
}

/// All arrows; writes into the spans what they show.
pub fn arrows(job: &Job, spans: &mut [Span]) -> Vec<Arrow> {
    let mut arrows = launches(spans);
    arrows.extend(posts(spans));
    arrows.extend(signals(job, spans));
    arrows
}

/// A launch may run several times: graphs.
fn launches(spans: &[Span]) -> Vec<Arrow> {
    let number = |span: &Span| span.launch.map(|launch| (span.process, launch));
    let all = || spans.iter().enumerate();
    let launched: HashMap<_, _> =
        all().filter(|(_, span)| span.what == What::Launch).filter_map(|(index, span)| Some((number(span)?, index))).collect();
    let kernels = all().filter(|(_, span)| span.what == What::Kernel);
    let arrow = |(index, kernel): (usize, &Span)| {
        let launch = *launched.get(&number(kernel)?)?;
        let (from, to) = (spans[launch].from.min(kernel.from), kernel.from);
        Some(Arrow { name: "launch", from: (launch, from), to: (index, to) })
    };
    kernels.filter_map(arrow).collect()
}

/// A post names its slot and index, and so does who takes it. A slot of a communicator that has gone may be another's: the latest counts.
fn posts(spans: &mut [Span]) -> Vec<Arrow> {
    let mut posted = HashMap::<_, Vec<usize>>::new();
    for (index, span) in spans.iter().enumerate().filter(|(_, span)| span.what == What::Put) {
        posted.entry((span.process, span.slot)).or_default().push(index);
    }
    let mut arrows = Vec::new();
    for taken in 0..spans.len() {
        let span = &spans[taken];
        let Some(posts) = posted.get(&(span.process, span.slot)).filter(|_| span.what == What::Move) else { continue };
        let Some(&post) = posts.iter().rev().find(|post| spans[**post].from <= span.from) else { continue };
        arrows.push(Arrow { name: "post", from: (post, spans[post].from), to: (taken, span.from) });
        let (rank, peer, bytes) = (span.rank, span.peer, span.bytes);
        let times =
            [("posted", spans[post].from), ("taken", span.from), ("moved", span.moved.unwrap_or(span.to)), ("done", span.to)];
        let at = spans[post].more.get("at").cloned();
        let target = &mut spans[taken].more;
        at.into_iter().for_each(|at| drop(target.insert("at".into(), at)));
        let first = times[0].1;
        for (name, time) in &times[1..] {
            target.insert(format!("{name} after ns"), (time - first).into());
        }
        let put = &mut spans[post];
        (put.rank, put.peer, put.bytes) = (rank, peer, bytes);
        put.more.insert("bytes".into(), bytes.into());
    }
    arrows
}

/// When its signal was raised, at the earliest: the transports that store themselves say it, of others it is between these two.
fn raised(span: &Span) -> u64 {
    span.moved.unwrap_or(span.from)
}

/// Of the signals that came before a wait ended the last one ended it.
fn signals(job: &Job, spans: &mut [Span]) -> Vec<Arrow> {
    let mut by_word = HashMap::<Word, Vec<usize>>::new();
    for (index, span) in spans.iter().enumerate() {
        let raises = span.what == What::Move || span.what == What::Put && span.word.is_some();
        if let Some(word) = span.word.filter(|_| raises) {
            by_word.entry(word).or_default().push(index);
        }
    }
    by_word.values_mut().for_each(|all| all.sort_by_key(|index| raised(&spans[*index])));
    let mut arrows = Vec::new();
    for wait in 0..spans.len() {
        let (from, to) = (spans[wait].from, spans[wait].to);
        let is_over = !spans[wait].more.contains_key("ended");
        let Some(all) =
            spans[wait].word.filter(|_| spans[wait].what == What::Wait && is_over).and_then(|word| by_word.get(&word))
        else {
            continue;
        };
        let Some(last) = all.partition_point(|index| raised(&spans[*index]) <= to).checked_sub(1) else { continue };
        let signal = all[last];
        // What is done later than the wait has ended was raised before.
        let time = spans[signal].moved.unwrap_or(spans[signal].to).min(to).max(spans[signal].from);
        arrows.push(Arrow { name: "signal", from: (signal, time), to: (wait, time.max(from)) });
        let whose = match spans[signal].rank {
            Some(rank) => format!("rank {}", rank.rank),
            None => job.processes[spans[signal].process].ranks_on(spans[signal].device.unwrap_or(0)),
        };
        let at = spans[signal].more.get("at").and_then(|at| at.as_str()).map_or(String::new(), |at| format!(" at {at}"));
        spans[wait].more.insert("ended by".into(), format!("a put of {whose}{at}").into());
    }
    arrows
}
