//! Calls of one group that touch the same memory, of which one writes it: they have no order, so what comes out is chance. Told on the CPU device, where
//! mistakes are looked for (docs/user/invalid-use.md).

use super::call::Call;
use super::rounds::Message;
use crate::device::cpu::line_at;
use crate::device::{self, Span};
use crate::hint;
use crate::team::Team;
use std::ops::Range;

/// A call of a group.
#[derive(Clone, Copy)]
enum Called<'a> {
    Collective(&'a Call),
    Message(&'a Message),
}

impl Called<'_> {
    fn spans(self, rank: u32, n_ranks: u32) -> Vec<Span> {
        match self {
            Called::Collective(call) => call.touches(rank, n_ranks),
            Called::Message(message) => vec![Span { at: message.at, bytes: message.bytes, writes: !message.sends }],
        }
    }

    /// What it does with a span, in words.
    fn told(self, span: &Span) -> String {
        let (name, site) = match self {
            Called::Collective(call) => (call.kind.name().to_owned(), call.site),
            Called::Message(message) if message.sends => (format!("ncclSend to rank {}", message.peer), message.site),
            Called::Message(message) => (format!("ncclRecv from rank {}", message.peer), message.site),
        };
        let does = if span.writes { "writes" } else { "reads" };
        let called = line_at(site).map_or(String::new(), |line| format!(", called by host code at {line}"));
        format!("{name} {does} {} bytes from {:#x} on{called}", span.bytes, span.at)
    }

    /// A message to oneself that stays where it is changes nothing.
    fn is_stayer(self, rank: u32, others: &[Message]) -> bool {
        let Called::Message(own) = self else { return false };
        let is_other_end =
            |other: &&Message| (other.sends, other.peer, other.at, other.bytes) == (!own.sends, rank, own.at, own.bytes);
        own.peer == rank && others.iter().any(|other| is_other_end(&other))
    }
}

/// Tells of the first two calls of this group that touch the same memory, if there are such. True: it has told. A rank alone makes its calls in their order.
pub fn tell(team: &Team, calls: &[Call], messages: &[Message]) -> bool {
    if calls.len() + messages.len() < 2 || team.n_ranks == 1 || team.device.kind() != device::Kind::Cpu {
        return false;
    }
    let Some(told) = find(team.rank, team.n_ranks, calls, messages) else { return false };
    hint!(
        "GINRS-W026 two calls of one group touch the same memory, in no order | rank {}, {} | {told} | fix: part their buffers, or end the group \
         between them (told once of a communicator)",
        team.rank,
        team.tag()
    );
    true
}

fn find(rank: u32, n_ranks: u32, calls: &[Call], messages: &[Message]) -> Option<String> {
    let collectives = calls.iter().map(Called::Collective);
    let moving = messages.iter().map(Called::Message).filter(|message| !message.is_stayer(rank, messages));
    let all: Vec<Called> = collectives.chain(moving).collect();
    let each = all.iter().enumerate();
    let spans = each.flat_map(|(number, call)| call.spans(rank, n_ranks).into_iter().map(move |span| (number, span)));
    let (one, other, both) = overlap(spans.filter(|(_, span)| span.bytes > 0).collect())?;
    let told = |(number, span): (usize, Span)| all[number].told(&span);
    Some(format!("{}; {}: {} bytes of both", told(one), told(other), both.end - both.start))
}

type Part = (usize, Span);

/// Two parts of different calls that share bytes, of which one is written, in the order of the calls.
fn overlap(mut parts: Vec<Part>) -> Option<(Part, Part, Range<u64>)> {
    parts.sort_by_key(|(_, span)| span.at);
    parts.iter().enumerate().find_map(|(at, &(one, first))| {
        let end = first.at + first.bytes;
        let mut behind = parts[at + 1..].iter().take_while(|(_, span)| span.at < end);
        let &(other, second) = behind.find(|(other, span)| *other != one && (first.writes || span.writes))?;
        let both = second.at..end.min(second.at + second.bytes);
        let pair = ((one, first), (other, second));
        let (one, other) = if one < other { pair } else { (pair.1, pair.0) };
        Some((one, other, both))
    })
}

#[cfg(test)]
mod tests {
    use super::super::call::Kind;
    use super::super::datatype::DataType;
    use super::super::operation::Operation;
    use super::*;

    fn call(kind: Kind, send: u64, recv: u64) -> Call {
        Call { kind, send, recv, count: 100, datatype: DataType::Uint8, op: Operation::NONE, root: 1, stream: 0, site: 0 }
    }

    fn message(sends: bool, peer: u32, at: u64, bytes: u64) -> Message {
        Message { sends, peer, at, bytes, site: 0 }
    }

    /// Of rank 1 of 4.
    fn found(calls: &[Call], messages: &[Message]) -> Option<String> {
        find(1, 4, calls, messages)
    }

    #[test]
    fn what_one_call_writes_and_another_touches_is_found() {
        use Kind::*;
        assert_eq!(
            found(&[], &[message(false, 0, 1000, 64), message(false, 2, 1060, 64)]).unwrap(),
            "ncclRecv from rank 0 writes 64 bytes from 0x3e8 on; ncclRecv from rank 2 writes 64 bytes from 0x424 on: 4 bytes of both"
        );
        assert_eq!(
            found(&[call(AllReduce, 1000, 1000)], &[message(true, 0, 900, 101)]).unwrap(),
            "ncclAllReduce writes 100 bytes from 0x3e8 on; ncclSend to rank 0 reads 101 bytes from 0x384 on: 1 bytes of both"
        );
        for (calls, messages) in [
            (vec![call(AllReduce, 1000, 2000), call(AllReduce, 2000, 3000)], vec![]),
            (vec![call(Broadcast, 0, 1000), call(AllGather, 5000, 700)], vec![]),
            // Within a part that is read by both.
            (vec![], vec![message(true, 0, 1000, 500), message(true, 2, 1000, 500), message(false, 3, 1400, 8)]),
            (vec![], vec![message(true, 0, 1000, 8), message(false, 0, 1000, 8)]),
            (vec![], vec![message(true, 1, 1000, 8), message(false, 1, 1004, 8)]),
        ] {
            assert!(found(&calls, &messages).is_some(), "{calls:?} {messages:?}");
        }
    }

    #[test]
    fn what_is_only_read_or_is_one_calls_own_is_lawful() {
        use Kind::*;
        for (calls, messages) in [
            (vec![call(AllReduce, 1000, 1000), call(AllReduce, 1100, 1100)], vec![]),
            (vec![call(AllReduce, 1000, 2000), call(AllReduce, 1000, 3000)], vec![message(true, 0, 1000, 100)]),
            // Its own part of an all-gather in place is not written.
            (vec![call(AllGather, 1100, 1000)], vec![message(true, 0, 1100, 100)]),
            // The root's buffer of a broadcast in place, and what a rank beside the root names of a reduction.
            (vec![call(Broadcast, 1000, 1000), call(AllReduce, 1000, 2000)], vec![]),
            (vec![Call { root: 0, ..call(Reduce, 1000, 1000) }], vec![message(true, 0, 1000, 100)]),
            (vec![], vec![message(true, 0, 1000, 8), message(false, 0, 1008, 8), message(false, 2, 1004, 0)]),
            (vec![], vec![message(true, 1, 1000, 8), message(false, 1, 1000, 8), message(false, 0, 1008, 8)]),
        ] {
            assert_eq!(found(&calls, &messages), None, "{calls:?} {messages:?}");
        }
    }
}
