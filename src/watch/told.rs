//! Waits of kernels on the CPU device in words, and as a rank's page carries them to the other processes of its machine.
#![forbid(unsafe_code)]

use crate::abort::{Abort, Beside, Held, Waiting};
use crate::device::cpu::waits::{Call, Wait};
use std::time::Duration;

/// Waits of one rank that one line tells of: who waits is a block, or several that wait for the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// `block 0`, `block 2 thread 5`, `4 threads of blocks 0, 1`.
    pub who: String,
    /// `signal 0 >= 2 (has 1) of context 0`.
    pub what: String,
    /// `halo.cu:41`.
    pub place: Option<String>,
    /// The rank that alone can end it, where that is known.
    pub whom: Option<u32>,
    /// For the longest of them.
    pub lasts: Duration,
    /// What this rank has posted is under way: that may end by itself.
    pub posted: bool,
    /// What has come to other words: `signal 1 of context 0 holds 3`; empty where nothing has.
    pub beside: String,
    /// Its word, where that is a signal of a proxied context, and what it has.
    pub signal: Option<(u32, u32)>,
    pub has: u64,
    /// Of a GIN barrier: how many ranks have not come, and which, where that is known.
    pub lacks: u64,
    pub absent: Vec<u32>,
}

/// Blocks that a line names.
const NAMED: usize = 4;
/// Of a rank's waits, those that are told with what has come to other words, and how many of these.
const SEARCHED: usize = 4;
const BESIDE: usize = 3;

impl Told {
    /// `rank 1 block 0 waits for signal 0 >= 2 (has 1) of context 0 for 10 s at halo.cu:41`
    pub fn line(&self, rank: u32) -> String {
        format!(
            "rank {rank} {} waits for {}{} for {:.0} s{}",
            self.who,
            self.what,
            self.lack(),
            self.lasts.as_secs_f64(),
            self.ends()
        )
    }

    /// Of what is no wait for all that is known: it reads by itself, or runs.
    pub fn does(&self, rank: u32) -> String {
        let Told { who, what, lasts, .. } = self;
        format!("rank {rank} {who} {what}, for {:.0} s{}", lasts.as_secs_f64(), self.ends())
    }

    /// The same without the time.
    pub fn cause(&self, rank: u32) -> String {
        format!("rank {rank} {} waits for {}{}{}", self.who, self.what, self.lack(), self.ends())
    }

    /// `: 1 rank has not come`, of a GIN barrier.
    fn lack(&self) -> String {
        let names = self.absent.iter().take(NAMED).map(u32::to_string).collect::<Vec<_>>().join(", ");
        match (self.lacks, &self.absent[..]) {
            (0, _) => String::new(),
            (_, [one]) => format!(": rank {one} has not come"),
            (1, []) => ": 1 rank has not come".into(),
            (lacks, []) => format!(": {lacks} ranks have not come"),
            (_, all) => format!(": ranks {names}{} have not come", if all.len() > NAMED { ", .." } else { "" }),
        }
    }

    /// Where, and what has come beside it.
    fn ends(&self) -> String {
        let place = self.place.as_ref().map_or(String::new(), |place| format!(" at {place}"));
        let beside = if self.beside.is_empty() { String::new() } else { format!("; {}, which nobody waits for", self.beside) };
        place + &beside
    }

    fn encode(&self) -> String {
        let clean = |text: &str| text.replace(['\t', '\n'], " ");
        format!(
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n",
            self.whom.map_or("-".into(), |rank| rank.to_string()),
            u8::from(self.posted),
            self.lasts.as_millis(),
            clean(&self.who),
            clean(&self.what),
            clean(self.place.as_deref().unwrap_or("")),
            clean(&self.beside),
            self.signal.map_or("-".into(), |(context, word)| format!("{context} {word}")),
            self.has,
            self.lacks
        )
    }

    fn decode(line: &str) -> Option<Told> {
        let [whom, posted, lasts, who, what, place, beside, signal, has, lacks] =
            line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        Some(Told {
            who: who.into(),
            what: what.into(),
            place: Some(place.to_owned()).filter(|place| !place.is_empty()),
            whom: whom.parse().ok(),
            lasts: Duration::from_millis(lasts.parse().ok()?),
            posted: posted == "1",
            beside: beside.into(),
            signal: signal.split_once(' ').and_then(|(context, word)| Some((context.parse().ok()?, word.parse().ok()?))),
            has: has.parse().ok()?,
            lacks: lacks.parse().ok()?,
            absent: Vec::new(),
        })
    }
}

/// As many whole lines as fit into `room` bytes.
pub(super) fn encode(all: &[Told], room: usize) -> String {
    let mut text = String::new();
    for line in all.iter().map(Told::encode) {
        if text.len() + line.len() > room {
            break;
        }
        text += &line;
    }
    text
}

/// What [`encode`] made.
pub(super) fn decode(text: &str) -> Vec<Told> {
    text.lines().filter_map(Told::decode).collect()
}

/// What those of `all` waits that are of the rank with this abort, and that `told` says, come to, the longest first.
pub(super) fn of_rank(all: &[Wait], abort: &Abort, told: impl Fn(&Wait) -> bool) -> Vec<Told> {
    let is_its =
        |wait: &Wait| wait.device().map_or(wait.owner == abort.host_address(), |device| abort.cpu_device() == Some(device));
    let ours = all.iter().filter(|wait| is_its(wait) && told(wait));
    of(ours, |wait| {
        let Beside { signal, mut held } = abort.beside(wait.at);
        held.retain(|held| all.iter().all(|wait| wait.at != held.at));
        Beside { signal, held }
    })
}

/// `beside`: what has come to words beside that of a wait, and nobody waits for.
fn of<'a>(waits: impl Iterator<Item = &'a Wait>, beside: impl Fn(&Wait) -> Beside) -> Vec<Told> {
    let mut groups: Vec<(Told, Vec<&Wait>)> = Vec::new();
    for wait in waits {
        let told = Told {
            who: String::new(),
            what: what(wait),
            place: wait
                .place
                .as_ref()
                .filter(|_| wait.name.is_some() || !Waiting::of(wait.note).is_own())
                .map(|(file, line)| format!("{file}:{line}")),
            whom: Waiting::of(wait.note).rank(),
            lasts: wait.lasts,
            posted: Waiting::of(wait.note).is_posted(),
            has: wait.word.map_or(0, |(has, ..)| has),
            lacks: if wait.call == Call::GinBarrier && !Waiting::of(wait.note).is_own() { behind(wait) } else { 0 },
            ..Told::default()
        };
        match groups.iter_mut().find(|(first, _)| (&first.what, &first.place) == (&told.what, &told.place)) {
            Some((first, all)) => {
                first.lasts = first.lasts.max(told.lasts);
                all.push(wait);
            }
            None => groups.push((told, vec![wait])),
        }
    }
    groups.sort_by_key(|(told, _)| std::cmp::Reverse(told.lasts.as_secs()));
    let all = groups.into_iter().enumerate().map(|(at, (told, waits))| {
        let searched = at < SEARCHED && waits[0].at != 0 && !Waiting::of(waits[0].note).is_own();
        let Beside { signal, held } = if searched { beside(waits[0]) } else { Beside::default() };
        let is_single = matches!(waits[0].outer, Call::Signal | Call::Counter);
        let beside = if is_single { holds(waits[0], &held) } else { String::new() };
        Told { who: who(&waits), beside, signal, ..told }
    });
    all.collect()
}

/// `signal 1 of context 0 holds 3 and signal 0 of context 1 holds 1`
fn holds(wait: &Wait, held: &[Held]) -> String {
    let word = if wait.outer == Call::Counter { "counter" } else { "signal" };
    let of = |one: &Held| {
        let awaited = one.awaited.filter(|awaited| *awaited != 0);
        let awaited = awaited.map_or(String::new(), |awaited| format!(" ({awaited} awaited)"));
        format!("{word} {} of context {} holds {}{awaited}", one.id, one.context, one.value)
    };
    held.iter().take(BESIDE).map(of).collect::<Vec<_>>().join(" and ")
}

fn who(waits: &[&Wait]) -> String {
    if let [wait] = waits {
        let thread = if wait.thread == [0; 3] { String::new() } else { format!(" thread {}", index(wait.thread)) };
        return format!("block {}{thread}", index(wait.block));
    }
    let mut blocks: Vec<[u32; 3]> = waits.iter().map(|wait| wait.block).collect();
    blocks.sort_by_key(|&[x, y, z]| (z, y, x));
    blocks.dedup();
    let names: Vec<String> = blocks.iter().take(NAMED).map(|&block| index(block)).collect();
    let more = if blocks.len() > NAMED { format!(" and {} more", blocks.len() - NAMED) } else { String::new() };
    let names = format!("{} {}{more}", if blocks.len() == 1 { "block" } else { "blocks" }, names.join(", "));
    if blocks.len() == waits.len() { names } else { format!("{names} ({} threads)", waits.len()) }
}

/// `3`, or `(3,1,0)`.
fn index([x, y, z]: [u32; 3]) -> String {
    if (y, z) == (0, 0) { x.to_string() } else { format!("({x},{y},{z})") }
}

/// How far its word is from what is wanted.
fn behind(wait: &Wait) -> u64 {
    let (has, wants, bits) = wait.word.unwrap_or_default();
    if bits == 0 { 0 } else { wants.wrapping_sub(has) & (u64::MAX >> (64 - bits)) }
}

fn what(wait: &Wait) -> String {
    let note = Waiting::of(wait.note);
    if note.is_own() {
        let own = wait.name.as_deref().unwrap_or("a collective or message");
        return note.rank().map_or(own.into(), |rank| format!("rank {rank} in {own}"));
    }
    let Wait { context, id, .. } = wait;
    let (has, wants, bits) = wait.word.unwrap_or_default();
    if wait.is_read() {
        let word = if wait.call == Call::Counter { "counter" } else { "signal" };
        return format!("reads {word} {id} of context {context} (has {has}) over and over");
    }
    if wait.device().is_some() {
        return format!("runs code of {}", wait.name.as_deref().unwrap_or("a kernel"));
    }
    let behind = behind(wait);
    let ranks = if behind == 1 { "1 rank has".into() } else { format!("{behind} ranks have") };
    let hybrid = if wait.outer == Call::Barrier { " of a hybrid barrier" } else { "" };
    match wait.call {
        _ if note.is_posted() => {
            let rank = note.peer();
            let of = format!("context {context} to rank {rank}");
            match wait.call {
                Call::Flush => format!("a flush: {behind} operations of {of} are not done"),
                _ => format!("room in the queue of {of}: {behind} operations are not done"),
            }
        }
        Call::Signal => format!("signal {id} >= {wants} (has {has}) of context {context}"),
        Call::Counter => format!("counter {id} >= {wants} (has {has}) of context {context}"),
        Call::GinBarrier => format!("GIN barrier {id} of context {context}{hybrid}"),
        Call::LsaBarrier => match note.rank() {
            Some(rank) => format!("LSA barrier {id}{hybrid}: rank {rank} has not come"),
            None => format!("LSA barrier {id}{hybrid}: {ranks} not come"),
        },
        Call::LlA2a => format!("slot {id} of an LL all-to-all"),
        _ if bits != 0 => format!("a signal or counter >= {wants} (has {has})"),
        _ => note.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(call: Call, note: u32, word: Option<(u64, u64, u32)>) -> Wait {
        Wait {
            owner: 1,
            name: None,
            launch: 0,
            place: Some(("halo.cu".into(), 41)),
            outer: call,
            call,
            context: 1,
            id: 3,
            note,
            block: [0; 3],
            thread: [0; 3],
            word,
            at: 0,
            lasts: Duration::from_secs(10),
        }
    }

    fn of<'a>(waits: impl Iterator<Item = &'a Wait>) -> Vec<Told> {
        super::of(waits, |_| Beside::default())
    }

    #[test]
    fn what_has_come_where_nobody_waits_is_told_with_the_wait() {
        let waits = Wait { at: 64, ..wait(Call::Signal, 0, Some((1, 2, 64))) };
        let line = |wait: &Wait, held: &[(u32, u32, u64)]| {
            let held = held.iter().map(|&(context, id, value)| Held {
                at: 0,
                context,
                word: id,
                id,
                value,
                awaited: (value == 7).then_some(1),
            });
            let beside = Beside { signal: Some((1, 3)), held: held.collect() };
            super::of([wait].into_iter(), |_| beside.clone()).remove(0)
        };
        let told = line(&waits, &[(0, 3, 1), (1, 2, 3), (1, 4, 7), (1, 5, 9)]);
        let end = "at halo.cu:41; signal 3 of context 0 holds 1 and signal 2 of context 1 holds 3 and signal 4 of context 1 holds 7 (1 awaited), which nobody waits for";
        assert!(told.cause(1).ends_with(end) && told.line(1).ends_with(end), "{told:?}");
        assert_eq!(decode(&encode(std::slice::from_ref(&told), 4096)), [told]);
        assert!(line(&waits, &[]).cause(1).ends_with("at halo.cu:41"));
        let counter = Wait { outer: Call::Counter, call: Call::Counter, ..waits.clone() };
        assert!(line(&counter, &[(1, 0, 2)]).cause(0).ends_with("; counter 0 of context 1 holds 2, which nobody waits for"));
        for other in [Wait { at: 0, ..waits.clone() }, Wait { outer: Call::GinBarrier, ..waits }] {
            assert_eq!(line(&other, &[(0, 3, 1)]).beside, "");
        }
    }

    #[test]
    fn each_kind_of_wait_has_its_words() {
        let line = |wait: Wait| of([wait].iter())[0].line(1);
        assert_eq!(
            line(wait(Call::Signal, 0, Some((1, 2, 64)))),
            "rank 1 block 0 waits for signal 3 >= 2 (has 1) of context 1 for 10 s at halo.cu:41"
        );
        assert!(line(wait(Call::Counter, 0, Some((0, 4, 56)))).contains("waits for counter 3 >= 4 (has 0) of context 1"));
        assert!(
            line(wait(Call::Flush, 1 << 24 | 2, Some((3, 5, 32))))
                .contains("a flush: 2 operations of context 1 to rank 2 are not")
        );
        assert!(
            line(wait(Call::Put, 1 << 24, Some((3, 4, 32)))).contains("room in the queue of context 1 to rank 0: 1 operations")
        );
        assert!(
            line(wait(Call::GinBarrier, 0, Some((u64::from(u32::MAX), 1, 32))))
                .contains("GIN barrier 3 of context 1: 2 ranks have")
        );
        let hybrid = Wait { outer: Call::Barrier, ..wait(Call::GinBarrier, 0, Some((6, 7, 32))) };
        assert!(line(hybrid).contains("GIN barrier 3 of context 1 of a hybrid barrier: 1 rank has not come"));
        let lsa = wait(Call::LsaBarrier, 2 << 24 | 5, Some((0, 1, 32)));
        assert_eq!(of([lsa.clone()].iter())[0].whom, Some(5));
        assert!(line(lsa).contains("LSA barrier 3: rank 5 has not come"));
        assert!(line(wait(Call::LsaBarrier, 2 << 24 | 0xff_ffff, Some((4, 6, 32)))).contains("LSA barrier 3: 2 ranks have not"));
        assert!(line(wait(Call::LlA2a, 3 << 24, None)).contains("slot 3 of an LL all-to-all"));
        let own = line(wait(Call::Unknown, 0x84 << 24 | 3, None));
        assert!(own.contains("rank 3 in a collective or message") && !own.contains("halo"), "{own}");
        let named = line(Wait { name: Some("ncclAllReduce".into()), ..wait(Call::Unknown, 0x84 << 24 | 3, None) });
        assert!(named.contains("waits for rank 3 in ncclAllReduce for 10 s at halo.cu:41"), "{named}");
    }

    #[test]
    fn who_reads_over_and_over_is_told_so() {
        let read = Wait { note: 5 << 24, ..wait(Call::Signal, 0, Some((1, 1, 64))) };
        assert_eq!(
            of([read].iter())[0].does(1),
            "rank 1 block 0 reads signal 3 of context 1 (has 1) over and over, for 10 s at halo.cu:41"
        );
        let name = Some("kernel halo (launched at halo.cu:76)".into());
        let code = Wait { note: 6 << 24, name, ..wait(Call::Unknown, 0, None) };
        assert_eq!(
            of([code].iter())[0].does(1),
            "rank 1 block 0 runs code of kernel halo (launched at halo.cu:76), for 10 s at halo.cu:41"
        );
    }

    #[test]
    fn blocks_that_wait_for_the_same_share_a_line() {
        let at =
            |block: u32, thread: u32| Wait { block: [block, 0, 0], thread: [thread, 0, 0], ..wait(Call::LlA2a, 3 << 24, None) };
        let who = |waits: &[Wait]| of(waits.iter()).iter().map(|told| told.who.clone()).collect::<Vec<_>>();
        assert_eq!(who(&[at(2, 7)]), ["block 2 thread 7"]);
        assert_eq!(who(&[at(1, 0), at(0, 0)]), ["blocks 0, 1"]);
        assert_eq!(who(&[at(1, 0), at(1, 1)]), ["block 1 (2 threads)"]);
        assert_eq!(who(&(0..9).map(|block| at(block, 0)).collect::<Vec<_>>()), ["blocks 0, 1, 2, 3 and 5 more"]);
        assert_eq!(who(&[Wait { block: [1, 2, 0], ..at(0, 0) }]), ["block (1,2,0)"]);
    }

    #[test]
    fn a_page_carries_whole_lines() {
        let all = of([wait(Call::Signal, 0, Some((1, 2, 64))), wait(Call::LsaBarrier, 2 << 24 | 5, Some((0, 1, 32)))].iter());
        assert_eq!(decode(&encode(&all, 4096)), all);
        assert_eq!(decode(&encode(&all, encode(&all, 4096).len() - 1)), all[..1]);
        assert!(decode("nonsense\n1\t2\n").is_empty());
    }
}
