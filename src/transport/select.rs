//! Which transport serves which peer, and why: the reasons are lines for NCCL_DEBUG=INFO.

use crate::device::Kind;
use crate::error::Result;
use crate::topo::Reach;
use crate::{bail, config};

/// What the choice depends on, of each rank.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Random per process.
    pub process: [u8; 16],
    /// Boot id and network namespace: equal where descriptors can be passed.
    pub machine: u64,
    /// Its signal memory is mapped here.
    pub mapped: bool,
}

/// A transport of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Stores within the process.
    Loopback,
    /// Stores into memory of another process.
    Shm,
    /// Copies by the device into memory that it reaches.
    Nvlink,
    /// Copies by the devices of both ends, through host memory.
    Staged,
}

impl Choice {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Loopback, Self::Shm, Self::Nvlink, Self::Staged];

    /// Name for messages and for GINRS_TRANSPORT.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Shm => "shm",
            Self::Nvlink => "nvlink",
            Self::Staged => "staged",
        }
    }

    fn why(self) -> &'static str {
        match self {
            Self::Loopback => "same process",
            Self::Shm => "same machine, other process",
            Self::Nvlink => "the GPU reaches its memory",
            Self::Staged => "the GPU does not reach its memory",
        }
    }
}

/// What GINRS_TRANSPORT asks for; None for `auto`.
pub fn asked() -> Result<Option<Choice>> {
    let Some(text) = config::text("GINRS_TRANSPORT").filter(|text| !text.eq_ignore_ascii_case("auto")) else { return Ok(None) };
    match Choice::ALL.into_iter().find(|choice| text.eq_ignore_ascii_case(choice.name())) {
        Some(choice) => Ok(Some(choice)),
        None => bail!(
            InvalidUsage,
            77,
            "GINRS_TRANSPORT names no transport | it is \"{text}\" | fix: one of auto, loopback, shm, nvlink, staged"
        ),
    }
}

/// Everything that the choice depends on. All ranks see the same, up to `mapped`.
pub struct World<'a> {
    /// Every rank's device is of this kind.
    pub kind: Kind,
    /// See [`asked`].
    pub asked: Option<Choice>,
    /// Whose device reaches whose memory.
    pub reach: &'a Reach,
    /// By rank.
    pub ranks: &'a [Facts],
}

impl World<'_> {
    /// Chooses for every peer of `rank`; the first that cannot be reached is the error.
    pub fn select(&self, rank: u32) -> Result<Vec<Choice>> {
        (0..self.ranks.len() as u32).map(|peer| self.choose(rank, peer)).collect()
    }

    /// The ranks that stage their puts to `rank`, in order.
    pub fn senders(&self, rank: u32) -> Vec<u32> {
        let all = 0..self.ranks.len() as u32;
        all.filter(|&peer| matches!(self.choose(peer, rank), Ok(Choice::Staged))).collect()
    }

    fn choose(&self, rank: u32, peer: u32) -> Result<Choice> {
        let (own, facts) = (&self.ranks[rank as usize], &self.ranks[peer as usize]);
        let reached = self.reach.reaches(rank, peer);
        if facts.machine != own.machine {
            bail!(
                InvalidUsage,
                35,
                "no GIN transport to a peer | rank {rank} to rank {peer} | the peer is on another machine, or in a container of its own | fix: run all ranks on one machine in one network namespace; this version has loopback, shm, nvlink and staged"
            );
        }
        if !facts.mapped {
            bail!(
                SystemError,
                36,
                "no GIN transport to a peer | rank {rank} to rank {peer} | its memory is not mapped here though the machine is the same | fix: look for an earlier warning"
            );
        }
        let Some(asked) = self.asked else {
            return Ok(match self.kind {
                _ if !reached => Choice::Staged,
                Kind::Cuda => Choice::Nvlink,
                Kind::Cpu if facts.process == own.process => Choice::Loopback,
                Kind::Cpu => Choice::Shm,
            });
        };
        let obstacle = match asked {
            Choice::Loopback | Choice::Shm if self.kind == Kind::Cuda => Some("the CPU cannot write GPU memory"),
            Choice::Loopback if facts.process != own.process => Some("the peer is in another process"),
            Choice::Loopback | Choice::Shm | Choice::Nvlink if !reached => Some("the device does not reach the peer's memory"),
            _ => None,
        };
        match obstacle {
            None => Ok(asked),
            Some(why) => bail!(
                InvalidUsage,
                77,
                "GINRS_TRANSPORT asks for what cannot be | rank {rank} to rank {peer}, {} | {why} | fix: unset it",
                asked.name()
            ),
        }
    }

    /// One line for each run of peers with the same choice: `rank 0 -> ranks 1-3: shm (same machine, other process)`.
    pub fn explain(&self, rank: u32, choices: &[Choice]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut first = 0;
        for run in choices.chunk_by(|a, b| a == b) {
            let last = first + run.len() - 1;
            let whom = if first == last { format!("rank {first}") } else { format!("ranks {first}-{last}") };
            let why = if self.asked.is_some() { "GINRS_TRANSPORT" } else { run[0].why() };
            lines.push(format!("rank {rank} -> {whom}: {} ({why})", run[0].name()));
            first = last + 1;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(process: u8, machine: u64) -> Facts {
        Facts { process: [process; 16], machine, mapped: true }
    }

    #[test]
    fn the_choice_and_its_reason() {
        let reach = Reach::full();
        let cpu = |ranks| World { kind: Kind::Cpu, asked: None, reach: &reach, ranks };
        let ranks = [of(1, 7), of(1, 7), of(2, 7), of(3, 7)];
        let world = cpu(&ranks);
        assert_eq!(
            world.explain(1, &world.select(1).unwrap()),
            ["rank 1 -> ranks 0-1: loopback (same process)", "rank 1 -> ranks 2-3: shm (same machine, other process)"]
        );
        let ranks = [of(1, 7), of(2, 8)];
        let far = cpu(&ranks).select(0).unwrap_err();
        assert!(far.text.contains("rank 0 to rank 1") && far.text.contains("another machine"), "{far}");
        let ranks = [of(1, 7), Facts { mapped: false, ..of(2, 7) }];
        let lost = cpu(&ranks).select(0).unwrap_err();
        assert_eq!(lost.id, 36);
    }

    #[test]
    fn gpus_copy_where_they_reach_and_stage_where_they_do_not() {
        // Ranks 0 and 1 reach each other; rank 2 reaches them, and they do not reach it.
        let rows = vec![Reach::row([true, true, false]), Reach::row([true, true, false]), Reach::row([true, true, true])];
        let reach = Reach::from_rows(rows).unwrap();
        let ranks = [of(1, 7), of(1, 7), of(2, 7)];
        let world = |asked| World { kind: Kind::Cuda, asked, reach: &reach, ranks: &ranks };
        use Choice::{Loopback, Nvlink, Shm, Staged};
        assert_eq!(world(None).select(0).unwrap(), [Nvlink, Nvlink, Staged]);
        assert_eq!(world(None).select(2).unwrap(), [Nvlink, Nvlink, Nvlink]);
        assert_eq!((world(None).senders(2), world(None).senders(0)), (vec![0, 1], vec![]));
        assert_eq!(world(Some(Staged)).select(0).unwrap(), [Staged; 3]);
        assert_eq!(world(Some(Staged)).senders(1), [0, 1, 2]);
        for (asked, rank, whom) in
            [(Nvlink, 1, "rank 1 to rank 2, nvlink"), (Shm, 0, "rank 0 to rank 0, shm"), (Loopback, 0, "loopback")]
        {
            let error = world(Some(asked)).select(rank).unwrap_err();
            assert!(error.id == 77 && error.text.contains(whom), "{error}");
        }
        assert_eq!(world(Some(Nvlink)).select(2).unwrap(), [Nvlink; 3]);
        let lines = world(Some(Staged)).explain(0, &[Staged; 3]);
        assert_eq!(lines, ["rank 0 -> ranks 0-2: staged (GINRS_TRANSPORT)"]);
    }
}
