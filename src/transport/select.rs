//! Which transport serves which pair of ranks, and why not the others: lines for NCCL_DEBUG=INFO, and data for who asks.
#![forbid(unsafe_code)]

use super::factory::{LIST, Pair};
use crate::device::Kind;
use crate::error::{Code, Error, Result};
use crate::topo::Reach;
use crate::{bail, config};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

/// What the choice depends on, of each rank.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Random per process.
    pub process: [u8; 16],
    /// Boot id and network namespace: equal where descriptors can be passed.
    pub machine: u64,
    /// Bit `t`: the rank has what transport `t` of the list needs.
    pub has: u64,
}

impl Facts {
    /// [`Self::has`] of the calling rank, and why it lacks what it lacks. `far`: where some ranks are on other machines, this rank's
    /// address for them.
    pub fn probe(device: &dyn crate::device::Device, far: Option<IpAddr>) -> (u64, Lacks) {
        let (mut has, mut lacks) = (0, Vec::new());
        let asked = asked().ok().flatten();
        let address = far.unwrap_or(Ipv4Addr::LOCALHOST.into());
        for (at, factory) in LIST.iter().enumerate() {
            if factory.far() && far.is_none() && asked != Some(at) {
                continue;
            }
            match factory.here(device, address) {
                Ok(()) => has |= 1 << at,
                Err(why) => lacks.push((factory.name(), why.into_owned())),
            }
        }
        (has, lacks)
    }
}

/// Transports that a rank lacks something for, and what.
pub type Lacks = Vec<(&'static str, String)>;

/// What the transports said of a pair of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Place in the list of the one that carries, and why it.
    pub chosen: Option<(usize, &'static str)>,
    /// Those that were asked before it, and why they do not.
    pub refused: Vec<(&'static str, Cow<'static, str>)>,
}

/// What GINRS_TRANSPORT asks for: a place in the list; None for `auto`.
pub fn asked() -> Result<Option<usize>> {
    let Some(text) = config::text("GINRS_TRANSPORT").filter(|text| !text.eq_ignore_ascii_case("auto")) else { return Ok(None) };
    match LIST.iter().position(|factory| text.eq_ignore_ascii_case(factory.name())) {
        Some(at) => Ok(Some(at)),
        None => bail!(
            InvalidUsage,
            77,
            "GINRS_TRANSPORT names no transport | it is \"{text}\" | fix: one of auto, {}",
            LIST.iter().map(|factory| factory.name()).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// Everything that the choice depends on, the same on all ranks.
pub struct World<'a> {
    /// Every rank's device is of this kind.
    pub kind: Kind,
    /// See [`asked`].
    pub asked: Option<usize>,
    /// Whose device reaches whose memory.
    pub reach: &'a Reach,
    /// By rank.
    pub ranks: &'a [Facts],
}

impl World<'_> {
    fn pair(&self, from: u32, to: u32) -> Pair {
        let (sender, target) = (&self.ranks[from as usize], &self.ranks[to as usize]);
        Pair {
            kind: self.kind,
            same_process: sender.process == target.process,
            same_machine: sender.machine == target.machine,
            reached: self.reach.reaches(from, to),
        }
    }

    /// Asks the transports in order, until one can.
    pub fn verdict(&self, from: u32, to: u32) -> Verdict {
        let pair = self.pair(from, to);
        let mut verdict = Verdict { chosen: None, refused: Vec::new() };
        for (at, factory) in LIST.iter().enumerate().filter(|(at, _)| self.asked.is_none_or(|asked| asked == *at)) {
            let lacks = [from, to].into_iter().find(|&rank| self.ranks[rank as usize].has >> at & 1 == 0);
            let answer = match lacks {
                Some(rank) => Err(format!("rank {rank} lacks what it needs, its lines at NCCL_DEBUG=INFO say what").into()),
                None => factory.can(&pair),
            };
            match answer {
                Ok(why) => {
                    verdict.chosen = Some((at, why));
                    break;
                }
                Err(why) => verdict.refused.push((factory.name(), why)),
            }
        }
        verdict
    }

    /// The one that carries, without reasons: every rank asks this of all pairs that it is in.
    pub fn chosen(&self, from: u32, to: u32) -> Option<usize> {
        let pair = self.pair(from, to);
        let both = self.ranks[from as usize].has & self.ranks[to as usize].has;
        let mut places = (0..LIST.len()).filter(|at| self.asked.is_none_or(|asked| asked == *at) && both >> at & 1 == 1);
        places.find(|&at| LIST[at].can(&pair).is_ok())
    }

    /// Chooses for every peer of `rank`, which lacks what `lacks` says; the first that cannot be reached is the error.
    pub fn select(&self, rank: u32, lacks: &Lacks) -> Result<Vec<usize>> {
        let chosen = self.along((0..self.ranks.len() as u32).map(|peer| (rank, peer)));
        let choose = |(peer, chosen): (u32, Option<usize>)| {
            chosen.ok_or_else(|| self.nothing(rank, peer, self.verdict(rank, peer), lacks))
        };
        (0..).zip(chosen).map(choose).collect()
    }

    /// [`Self::chosen`] of each pair. What is alike for a pair and the one before it is asked once: most are.
    fn along(&self, pairs: impl Iterator<Item = (u32, u32)>) -> impl Iterator<Item = Option<usize>> {
        let mut last = None;
        pairs.map(move |(from, to)| {
            let facts = (self.pair(from, to), self.ranks[from as usize].has & self.ranks[to as usize].has);
            match last {
                Some((known, chosen)) if known == facts => chosen,
                _ => {
                    let chosen = self.chosen(from, to);
                    last = Some((facts, chosen));
                    chosen
                }
            }
        })
    }

    /// The ranks that send to `rank` by transport `at`, in order.
    pub fn senders(&self, at: usize, rank: u32) -> Vec<u32> {
        let chosen = self.along((0..self.ranks.len() as u32).map(|peer| (peer, rank)));
        (0..).zip(chosen).filter(|(_, chosen)| *chosen == Some(at)).map(|(peer, _)| peer).collect()
    }

    #[cold]
    fn nothing(&self, rank: u32, peer: u32, mut verdict: Verdict, lacks: &Lacks) -> Error {
        // The others know that it lacks something, and itself what.
        for (name, why) in &mut verdict.refused {
            if let Some((_, own)) = lacks.iter().find(|(lacking, _)| lacking == name) {
                *why = format!("rank {rank}: {own}").into();
            }
        }
        let reasons = format!("rank {rank} to rank {peer}, {}", refusals(&verdict));
        let near = self.pair(rank, peer).same_machine;
        if self.asked.is_some() && near {
            let text = format!("GINRS_TRANSPORT asks for what cannot be | {reasons} | fix: unset it");
            return Error::new(Code::InvalidUsage, 77, text);
        }
        let fix = match self.asked {
            Some(at) if !LIST[at].far() => "unset GINRS_TRANSPORT: what it asks for stays within a machine",
            _ if near => "see the reasons",
            _ => "see the reasons; ranks on several machines need libfabric (Debian: libfabric1) on each",
        };
        Error::new(Code::InvalidUsage, 35, format!("no GIN transport to a peer | {reasons} | fix: {fix}"))
    }

    /// True if what is said of `rank` and peer `a` is said of `b`, too.
    fn are_alike(&self, rank: u32, a: u32, b: u32) -> bool {
        let has = |rank: u32| self.ranks[rank as usize].has;
        // Who lacks what the sender has is named.
        self.pair(rank, a) == self.pair(rank, b) && has(a) == has(b) && has(rank) & !has(b) == 0
    }

    /// One line for each run of peers with the same verdict:
    /// `rank 0 -> ranks 1-3: shm (same machine, other process), not loopback (the peer is in another process)`.
    pub fn explain(&self, rank: u32) -> Vec<String> {
        let mut runs: Vec<(Verdict, u32, u32)> = Vec::new();
        for peer in 0..self.ranks.len() as u32 {
            match runs.last_mut() {
                Some((_, _, last)) if self.are_alike(rank, *last, peer) => *last = peer,
                Some((verdict, _, last)) if *verdict == self.verdict(rank, peer) => *last = peer,
                _ => runs.push((self.verdict(rank, peer), peer, peer)),
            }
        }
        let mut lines = Vec::new();
        for (verdict, first, last) in runs {
            let whom = if first == last { format!("rank {first}") } else { format!("ranks {first}-{last}") };
            let mut line = format!("rank {rank} -> {whom}: ");
            if let Some((at, why)) = verdict.chosen {
                let why = if self.asked.is_some() { "GINRS_TRANSPORT" } else { why };
                line += &format!("{} ({why})", LIST[at].name());
            }
            if !verdict.refused.is_empty() {
                line += &format!(", not {}", refusals(&verdict));
            }
            lines.push(line);
        }
        lines
    }
}

/// `loopback, shm (the CPU cannot write GPU memory), nvlink (the device does not reach the peer's memory)`.
fn refusals(verdict: &Verdict) -> String {
    let run = |run: &[(&'static str, Cow<'static, str>)]| {
        let names: Vec<&str> = run.iter().map(|(name, _)| *name).collect();
        format!("{} ({})", names.join(", "), run[0].1)
    };
    verdict.refused.chunk_by(|a, b| a.1 == b.1).map(run).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(process: u8, machine: u64) -> Facts {
        Facts { process: [process; 16], machine, has: u64::MAX }
    }

    fn named(name: &str) -> usize {
        LIST.iter().position(|factory| factory.name() == name).unwrap()
    }

    #[test]
    fn the_choice_and_its_reason() {
        let reach = Reach::full();
        let cpu = |ranks| World { kind: Kind::Cpu, asked: None, reach: &reach, ranks };
        let ranks = [of(1, 7), of(1, 7), of(2, 7), of(3, 7)];
        let world = cpu(&ranks);
        assert_eq!(
            world.explain(1),
            [
                "rank 1 -> ranks 0-1: loopback (same process)",
                "rank 1 -> ranks 2-3: shm (same machine, other process), not loopback (the peer is in another process)"
            ]
        );
        let ranks = [of(1, 7), of(2, 8)];
        assert_eq!(cpu(&ranks).select(0, &Lacks::new()).unwrap(), [named("loopback"), named("ofi")]);
        assert_eq!(World { kind: Kind::Cuda, ..cpu(&ranks) }.select(0, &Lacks::new()).unwrap(), [named("nvlink"), named("ofi")]);
        let without = ranks.map(|of| Facts { has: of.has & !(1 << named("ofi")), ..of });
        let far = World { kind: Kind::Cuda, ..cpu(&without) }.select(0, &Lacks::new()).unwrap_err();
        assert!(far.text.contains("rank 0 to rank 1") && far.text.contains("another machine") && far.id == 35, "{far}");
        assert!(far.text.contains("loopback, shm, nvlink, staged, messages"), "every refusal keeps its reason: {far}");
        let lacks = vec![("ofi", "there is no libfabric".to_string())];
        let told = cpu(&without).select(0, &lacks).unwrap_err();
        assert!(told.text.contains("ofi (rank 0: there is no libfabric)"), "its own reason, not where to look for it: {told}");
        let asked = World { asked: Some(named("shm")), ..cpu(&ranks) }.select(0, &lacks).unwrap_err();
        assert!(asked.id == 35 && asked.text.contains("fix: unset GINRS_TRANSPORT"), "{asked}");
    }

    /// A list of one version: what a rank lacks is known to all, and no other transport is taken for it in silence.
    #[test]
    fn what_a_rank_lacks_is_a_reason() {
        let reach = Reach::full();
        let ranks = [of(1, 7), Facts { has: !1, ..of(1, 7) }];
        let world = World { kind: Kind::Cpu, asked: None, reach: &reach, ranks: &ranks };
        for (from, to) in [(0, 1), (1, 0), (1, 1)] {
            let verdict = world.verdict(from, to);
            assert_eq!(verdict.chosen.unwrap().0, named("shm"));
            assert_eq!(world.chosen(from, to), Some(named("shm")), "with reasons and without");
            assert!(verdict.refused[0].1.contains("rank 1 lacks"), "{verdict:?}");
        }
        assert_eq!(world.verdict(0, 0).chosen.unwrap().0, 0);
    }

    #[test]
    fn gpus_copy_where_they_reach_and_stage_where_they_do_not() {
        // Ranks 0 and 1 reach each other; rank 2 reaches them, and they do not reach it.
        let rows = [Reach::row([true, true, false]), Reach::row([true, true, false]), Reach::row([true, true, true])];
        let reach = Reach::from_rows(&rows).unwrap();
        let ranks = [of(1, 7), of(1, 7), of(2, 7)];
        let [loopback, shm, nvlink, staged] = ["loopback", "shm", "nvlink", "staged"].map(named);
        let world = |asked| World { kind: Kind::Cuda, asked, reach: &reach, ranks: &ranks };
        assert_eq!(world(None).select(0, &Lacks::new()).unwrap(), [nvlink, nvlink, staged]);
        assert_eq!(world(None).select(2, &Lacks::new()).unwrap(), [nvlink, nvlink, nvlink]);
        assert_eq!((world(None).senders(staged, 2), world(None).senders(staged, 0)), (vec![0, 1], vec![]));
        assert_eq!(world(Some(staged)).select(0, &Lacks::new()).unwrap(), [staged; 3]);
        assert_eq!(world(Some(staged)).senders(staged, 1), [0, 1, 2]);
        for (asked, rank, whom) in
            [(nvlink, 1, "rank 1 to rank 2, nvlink"), (shm, 0, "rank 0 to rank 0, shm"), (loopback, 0, "loopback")]
        {
            let error = world(Some(asked)).select(rank, &Lacks::new()).unwrap_err();
            assert!(error.id == 77 && error.text.contains(whom), "{error}");
        }
        assert_eq!(world(Some(nvlink)).select(2, &Lacks::new()).unwrap(), [nvlink; 3]);
        assert_eq!(world(Some(staged)).explain(0), ["rank 0 -> ranks 0-2: staged (GINRS_TRANSPORT)"]);
    }
}
